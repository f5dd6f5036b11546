"""What several files of tests of a kernel use."""

from pathlib import Path

import pytest
from requirement import lacking

from polypath import EngineError, linux, tunnel
from polypath.engines import _machine


@pytest.fixture(scope="session")
def linux_kernel() -> linux.Kernel:
    """The kernel of the linux engine, with the programs that go with it."""
    try:
        found: linux.Kernel = linux.find("6.12")
        _machine.programs_are_there()
    except (linux.KernelError, EngineError) as error:
        lacking("linux", str(error))
    return found


@pytest.fixture(scope="session")
def tunnel_daemon() -> Path:
    """The tunnel daemon's program, which the engines start."""
    try:
        return tunnel.program()
    except tunnel.TunnelError as error:
        lacking("linux", str(error))
