"""What several files of tests of a kernel use."""

import pytest
import tunnel_network
from requirement import lacking

from polypath import EngineError, linux, tunnel
from polypath.engines import _machine
from polypath.linux._kernel import places
from polypath.linux._recipe import Recipe


@pytest.fixture(scope="session")
def linux_kernel():
    """The kernel of the linux engine, with the programs that go with it."""
    try:
        found = linux.find("6.12")
        _machine.programs_are_there()
    except (linux.KernelError, EngineError) as error:
        lacking("linux", str(error))
    return found


@pytest.fixture(params=sorted({Recipe.load(place).name for place in places()}) or [None])
def kernel(request):
    """Each kernel of the linux engine that is there."""
    if request.param is None:
        lacking("linux", "no kernel is there: polypath linux build 6.12")
    return linux.find(request.param)


@pytest.fixture(scope="session")
def tunnel_daemon():
    """The tunnel daemon's program, which the engines start."""
    try:
        return tunnel.program()
    except tunnel.TunnelError as error:
        lacking("linux", str(error))


@pytest.fixture(name="tunnel")
def tunnel_ends(tmp_path):
    """Two ends joined by two paths."""
    with tunnel_network.two_ends(tmp_path) as ends:
        yield ends


@pytest.fixture(name="unequal")
def tunnel_with_unequal_paths(tunnel):
    """The same ends with a slow and a fast path."""
    with tunnel_network.unequal_paths(tunnel) as ends:
        yield ends


@pytest.fixture(name="routed")
def tunnel_with_a_router(tunnel):
    """The same ends with a router on path 2."""
    with tunnel_network.router_between(tunnel) as ends:
        yield ends
