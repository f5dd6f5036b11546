"""What a kernel that was just built is asked, with stand-ins for machines that answer wrong."""

import dataclasses
import itertools
from pathlib import Path

import pytest
from requirement import lacking

from polypath import linux
from polypath.engines import EngineError, Pair, Replay, _machine, _prove, pairs, prove


def kernel(mptcp=1, file=Path("linux")):
    return linux.Kernel(name="mine", release="6.12.7", file=file, key="k", algorithms=("reno", "pp_lia"), mptcp=mptcp)


def flow(received=1000, subflows=2, *, fallback=False):
    return {"bytes_received": received, "fallback": fallback, "subflows": [{"bytes_acked": received}] * subflows}


GOOD = [("a", flow()), ("a", flow()), ("b", flow())]


def answers(monkeypatch, runs):
    told = itertools.cycle(runs)

    def replay(*_, **__):
        digest, found = next(told)
        return Replay("plain", digest, {"flows": [found]})

    monkeypatch.setattr(_prove, "replay", replay)


def test_a_good_kernel_passes_and_needs_one_path_without_mptcp(monkeypatch):
    answers(monkeypatch, GOOD)
    prove(kernel())
    answers(monkeypatch, [("a", flow(subflows=1)), ("a", flow(subflows=1)), ("b", flow(subflows=1))])
    prove(kernel(None))


@pytest.mark.parametrize(
    ("runs", "why"),
    [
        ([("a", flow()), ("c", flow()), ("b", flow())], "two equal runs differ"),
        ([("a", flow())] * 3, "another seed changes nothing"),
        ([("a", flow(0)), *GOOD[1:]], "a connection carried no data"),
        ([("a", flow(fallback=True)), *GOOD[1:]], "an MPTCP connection fell back to TCP"),
        ([("a", flow(subflows=1)), *GOOD[1:]], "a connection used 1 of 2 paths"),
    ],
)
def test_what_does_not_hold_is_named(monkeypatch, runs, why):
    answers(monkeypatch, runs)
    with pytest.raises(linux.KernelError, match=rf"^Linux 6\.12\.7 was compiled .* there is no kernel mine: {why}; change"):
        prove(kernel())


def paused(mean_ms, cc):
    times = {"mean_ns": mean_ms * 1e6}
    return Replay("plain", "", {"flows": [{"responses": {"time": times}, "subflows": [{"cc": cc, "retransmissions": 3}]}]})


def test_ours_beside_the_kernels_own_is_the_same_or_known_to_differ(monkeypatch):
    means = {"reno": 2000.0, "pp_reno": 2000.0, "cubic": 2051.4, "pp_cubic": 2055.7, "vegas": 2000.0, "pp_vegas": 2000.1}
    asked = []

    def replay(scenario, *_, **__):
        (flow,) = scenario["flows"]
        name, _, whose = flow["cc"].partition("@")
        name = f"pp_{name}" if whose == "polypath" else name
        asked.append(name)
        return paused(means[name], name)

    monkeypatch.setattr(_prove, "replay", replay)
    mine = dataclasses.replace(kernel(), algorithms=("lia", "pp_lia", "pp_bbr3", *means))
    found = {pair.name: pair for pair in pairs(mine)}
    # An out-of-tree kernel's lia has siblings, and bbr3 is ours alone.
    assert sorted(asked) == sorted(means)
    assert found["reno"] == Pair("reno", 2e9, 2e9, same=True, allowed=0)
    assert [name for name, pair in found.items() if pair.difference] == ["vegas"]
    hz1000 = dataclasses.replace(mine, variant="hz1000")
    assert {pair.name: pair.difference for pair in pairs(hz1000)}["vegas"] == ""
    # What cubic did on 7.2 without TX_START.
    lost = Pair("cubic", 2234.6e6, 2051.7e6, same=False, allowed=0.02).difference
    assert lost.startswith(
        "cubic@polypath is not cubic@linux on this kernel: over a path with pauses and losses a response takes 2234.6 and"
    )


def test_a_machine_that_hangs_is_noticed_and_told(tmp_path):
    try:
        _machine.programs_are_there()
    except EngineError as error:
        lacking("linux", str(error))
    hangs = tmp_path / "linux"
    hangs.write_text("#!/bin/sh\nexec sleep 1000\n")
    hangs.chmod(0o755)
    with pytest.raises(linux.KernelError, match="mine: the machine did nothing for 1 s and was killed: it said nothing; change"):
        prove(kernel(file=hangs), timeout_s=1)
