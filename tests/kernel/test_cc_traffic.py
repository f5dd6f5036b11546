"""Our congestion controls on live traffic through one bottleneck of this kernel: coupling acts, and our cubic does what the kernel's does.

Shares vary from one stretch of some seconds to the next, so all that is compared is measured in turn, several times, and the means are
judged with bounds far from what was seen (beside each).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from statistics import mean

import pytest
from cc_network import Flow, Network, network, rates
from requirement import lacking

from polypath import kernelcc
from polypath.kernelcc import KernelCcError

ROUNDS = 4
SETTLE_S, MEASURE_S = 2.0, 6.0
_ports = itertools.count(5001)


@pytest.fixture(scope="module")
def net() -> Iterator[Network]:
    """40 Mbit/s, and a queue of 80 packets: 24 ms."""
    try:
        if not kernelcc.status().mptcp:
            lacking("host", "MPTCP is switched off here (net.mptcp.enabled)")
        with kernelcc.ensure(["reno", "cubic", "lia", "olia", "balia"]), network(rate=40, queue=80) as made:
            yield made
    except KernelCcError as error:
        lacking("host", str(error))


def share_beside_reno(net: Network, algorithm: str) -> float:
    """What a connection of two subflows gets of the bottleneck, beside one plain reno flow."""
    net.choose(net.client, algorithm)
    net.choose(net.rival, "reno")
    ours = Flow(net, net.client, next(_ports), mptcp=True)
    rival = Flow(net, net.rival, next(_ports))
    try:
        rates([], SETTLE_S)
        got, other = rates([ours, rival], MEASURE_S)
        assert ours.subflows() == 1, "a second subflow, beside the first"
    finally:
        ours.close()
        rival.close()
    return got / (got + other)


def test_coupled_algorithms_leave_a_rival_its_half_and_uncoupled_reno_does_not(net: Network) -> None:
    algorithms = ("pp_reno", "pp_lia", "pp_olia", "pp_balia")
    shares: dict[str, list[float]] = {name: [] for name in algorithms}
    for _ in range(ROUNDS):
        for name in algorithms:
            shares[name].append(share_beside_reno(net, name))
    reno, *coupled = (mean(shares[name]) for name in algorithms)
    print({name: [round(share, 2) for share in each] for name, each in shares.items()})
    # Seen in single stretches: reno 0.43 to 0.65, lia 0.33 to 0.65, olia 0.20 to 0.53, balia 0.32 to 0.52; means of nine 0.60, 0.43, 0.31
    # and 0.45. Two flows of three: 0.67. A mean of four is uncertain by 0.05, so each bound is some three times that from what is expected.
    assert reno > coupled[0], shares
    assert reno > mean(coupled) + 0.07, shares
    assert all(share < 0.6 for share in coupled), shares


def test_our_cubic_and_the_kernels_fill_a_path_alike(net: Network) -> None:
    goodputs: dict[str, list[float]] = {"cubic": [], "pp_cubic": []}
    windows: dict[str, list[float]] = {"cubic": [], "pp_cubic": []}
    for _ in range(2):
        for name in goodputs:
            flow = Flow(net, net.client, next(_ports), algorithm=name)
            try:
                rates([], SETTLE_S)
                seen: list[int] = []
                goodputs[name] += rates([flow], MEASURE_S, lambda flow=flow, seen=seen: seen.append(flow.window()))
                windows[name].append(mean(seen))
            finally:
                flow.close()
    print(goodputs, windows)
    # 40 Mbit/s less 5 % of headers, and less what a bucket of one packet loses where a timer is late. Seen: 35.3 to 35.6, windows 69 to 70.
    assert all(30 < goodput < 38.5 for each in goodputs.values() for goodput in each), goodputs
    assert mean(goodputs["pp_cubic"]) == pytest.approx(mean(goodputs["cubic"]), rel=0.03)
    assert mean(windows["pp_cubic"]) == pytest.approx(mean(windows["cubic"]), rel=0.15)
