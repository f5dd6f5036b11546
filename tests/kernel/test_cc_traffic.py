"""Our congestion controls on live traffic through one bottleneck of this kernel.

Shares vary from one stretch of some seconds to the next, so all that is compared is measured in
turn, several times, and the means are judged with bounds far from what was seen (beside each). Two
networks measure at once, in turn too, so that neither has an algorithm for itself; on the two
processors of a small machine more would wait for one another.
"""

import itertools
from concurrent.futures import ThreadPoolExecutor
from statistics import mean
from typing import TypeVar

import pytest
from cc_network import Flow, network, rates
from requirement import lacking

from polypath import kernelcc
from polypath.kernelcc import KernelCcError

ROUNDS = 4
SETTLE_S, MEASURE_S = 2.0, 6.0
_ports = itertools.count(5001)

T = TypeVar("T")


@pytest.fixture(scope="module")
def nets():
    """Two of 40 Mbit/s with a queue of 80 packets: 24 ms."""
    try:
        if not kernelcc.status().mptcp:
            lacking("host", "MPTCP is switched off here (net.mptcp.enabled)")
        with (
            kernelcc.ensure(["reno", "cubic", "lia", "olia", "balia"]),
            network(rate=40, queue=80) as one,
            network(rate=40, queue=80) as two,
        ):
            yield [one, two]
    except KernelCcError as error:
        lacking("host", str(error))


def in_turn(nets, names, rounds, measure):
    """What each name gives in each round, on every network as often as on the others."""
    found = {name: [] for name in names}
    with ThreadPoolExecutor(len(nets)) as pool:
        for turn in range(rounds):
            pairs = [names[start : start + len(nets)] for start in range(0, len(names), len(nets))]
            for pair in pairs:
                places = nets if turn % 2 == 0 else nets[::-1]
                for name, value in zip(pair, pool.map(measure, places, pair), strict=True):
                    found[name].append(value)
    return found


def share_beside_reno(net, algorithm):
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


def test_coupled_algorithms_leave_a_rival_its_half_and_uncoupled_reno_does_not(nets):
    algorithms = ("pp_reno", "pp_lia", "pp_olia", "pp_balia")
    shares = in_turn(nets, algorithms, ROUNDS, share_beside_reno)
    # Seen in single stretches: reno 0.43 to 0.65, lia 0.33 to 0.65, olia 0.20 to 0.53, balia 0.32
    # to 0.52; means of nine 0.60, 0.43, 0.31 and 0.45. Two flows of three: 0.67. A mean of four is
    # uncertain by 0.05, so each bound is some three times that from what is expected. Where the
    # machine is busy it is uncertain by more: then as many rounds again, and all of them are
    # judged.
    if not coupling_acts(shares):
        more = in_turn(nets, algorithms, ROUNDS, share_beside_reno)
        shares = {name: shares[name] + more[name] for name in algorithms}
    print({name: [round(share, 2) for share in each] for name, each in shares.items()})
    assert coupling_acts(shares), shares


def coupling_acts(shares):
    """Reno on both subflows takes more than coupled ones, and those about their half."""
    reno, *coupled = (mean(shares[name]) for name in ("pp_reno", "pp_lia", "pp_olia", "pp_balia"))
    return reno > coupled[0] and reno > mean(coupled) + 0.07 and all(share < 0.6 for share in coupled)


def goodput_and_window(net, algorithm):
    """Of a plain TCP flow alone; the mean window in segments."""
    flow = Flow(net, net.client, next(_ports), algorithm=algorithm)
    try:
        rates([], SETTLE_S)
        seen = []
        (goodput,) = rates([flow], MEASURE_S, lambda: seen.append(flow.window()))
    finally:
        flow.close()
    return goodput, mean(seen)


def test_our_cubic_and_the_kernels_fill_a_path_alike(nets):
    measured = in_turn(nets, ("cubic", "pp_cubic"), 2, goodput_and_window)
    # A late timer lengthens queue and window (73.8 beside 69.0 once): as many rounds again.
    if not windows_alike(measured):
        more = in_turn(nets, ("cubic", "pp_cubic"), 4, goodput_and_window)
        measured = {name: each + more[name] for name, each in measured.items()}
    goodputs = {name: [goodput for goodput, _ in each] for name, each in measured.items()}
    windows = {name: [window for _, window in each] for name, each in measured.items()}
    print(goodputs, windows)
    # 40 Mbit/s less 5 % of headers, and less what a bucket of one packet loses where a timer is
    # late: 35.3 to 35.6 seen on an idle machine, 29 to 33 on a busy one, where it says how late the
    # timers were and not what an algorithm did. The windows were 69 to 70 on both, so they compare
    # the two; the goodput need only show that neither leaves the path empty.
    assert all(20 < goodput < 38.5 for each in goodputs.values() for goodput in each), goodputs
    assert mean(goodputs["pp_cubic"]) == pytest.approx(mean(goodputs["cubic"]), rel=0.15)
    assert windows_alike(measured), windows


def windows_alike(measured):
    """Within 5 %; a window that is halved would be 12 % smaller in the mean."""
    ours, kernels = (mean(window for _, window in measured[name]) for name in ("pp_cubic", "cubic"))
    return abs(ours - kernels) <= 0.05 * kernels
