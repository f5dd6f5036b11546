"""Managed queues, marks and policers."""

from typing import Any

import pytest
from over_router import one_flow, over_router
from over_starts import agree
from requirement import lacking

from polypath import StudyError, linux, run

pytestmark = pytest.mark.usefixtures("linux_kernel")

VOICE = one_flow("udp", datagram="160B", app={"kind": "constant", "rate": "64kbit"})
KINDS: dict[str, Any] = {
    "red": {"kind": "red", "min": "15KB", "max": "60KB", "probability": "10%", "weight_log": 7},
    "codel": {"kind": "codel"},
    "fq_codel": {"kind": "fq_codel"},
    "pie": {"kind": "pie"},
}


# RED's and PIE's drops differ by a tenth from seed to seed, CoDel's by a twelfth, the others by one
# in thirty; shares of a cubic beside a scalable flow by a fourteenth.
STARTS = {"red": 48, "codel": 24, "pie": 16, "dualpi2": 48}


# What is measured, once the flows have begun.
MEASURED: dict[str, Any] = {"duration": "15s", "measure": {"window": ["3s", "15s"]}, "baselines": None}
WIDE = {"both": {"delay": "1ms"}}
CUBIC = one_flow(cc="cubic", start_spread="4ms")


def on_both(study, folder):
    """Of the simulator and the kernel: the flows' rows, and the counters of the narrow link's way to the server."""
    for engine in ("sim", "linux"):
        results = run(study, engine=engine, out=folder / engine)
        links = results.links
        yield results.runs.set_index("flow"), links[(links["link"] == "narrow") & links["a_to_b"]]


def both(tmp_path, kind, *, ecn):
    """A TCP and datagrams that share a managed queue, over many starts."""
    forward = {"rate": "10mbit", "queue": "1MB" if kind == "red" else "700packets", "aqm": {**KINDS[kind], "ecn": ecn}, "delay": "10ms"}
    links = {"wide": WIDE, "narrow": {"forward": forward, "backward": {"delay": "10ms"}}}
    host = {"sysctl": {"net.ipv4.tcp_ecn": 1}} if ecn else None
    more = {**MEASURED, "seeds": STARTS.get(kind, 8)}
    return on_both(over_router(kind, links, {"bulk": CUBIC, "voice": VOICE}, host=host, **more), tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_goodput_and_delay_behind_a_managed_queue_are_the_kernels(tmp_path, kind):
    (sim, sim_link), (linux, linux_link) = both(tmp_path, kind, ecn=False)
    # docs/limitations.md: the kernel's queue is a packet (1.2 ms) ahead.
    assert agree(sim.loc["bulk", "goodput_receiver_mbps"], linux.loc["bulk", "goodput_receiver_mbps"], rel=0.02)
    assert agree(sim.loc["voice", "delay_mean_ms"], linux.loc["voice", "delay_mean_ms"], within=1.2)
    assert sim_link["ecn_marks"].eq(0).all() and linux_link["ecn_marks"].eq(0).all()
    # CoDel drops more of cubic beside small datagrams (docs/limitations.md).
    assert agree(sim_link["queue_drops"], linux_link["queue_drops"], rel=0.2 if kind == "codel" else 0.15)


@pytest.mark.parametrize("kind", KINDS)
def test_marks_take_the_place_of_losses_as_in_the_kernel(tmp_path, kind):
    (sim, sim_link), (linux, linux_link) = both(tmp_path, kind, ecn=True)
    assert agree(sim.loc["bulk", "goodput_receiver_mbps"], linux.loc["bulk", "goodput_receiver_mbps"], rel=0.02)
    assert agree(sim.loc["voice", "delay_mean_ms"], linux.loc["voice", "delay_mean_ms"], within=1.2)
    assert linux_link["ecn_marks"].mean() > 15
    # RED's average ages while the link is idle here and not in a token bucket, so it marks some
    # more. A datagram that is chosen cannot be marked and is dropped: which packet a queue chooses
    # is chance, how often it chooses is not.
    chosen = [link["ecn_marks"] + link["queue_drops"] for link in (sim_link, linux_link)]
    assert agree(*chosen, rel=0.3 if kind == "red" else 0.15)
    if kind != "pie":
        assert sim.loc["bulk", "retransmissions"].eq(0).all() and linux.loc["bulk", "retransmissions"].eq(0).all()


def test_a_policer_drops_what_the_kernels_drops(tmp_path):
    policer = {"kind": "policer", "rate": "8mbit", "burst": "20KB"}
    narrow = {"forward": [policer, {"kind": "delay", "delay": "5ms"}], "backward": {"delay": "5ms"}}
    study = over_router("policed", {"wide": WIDE, "narrow": narrow}, {"bulk": CUBIC, "voice": VOICE}, **MEASURED, seeds=8)
    (sim, sim_link), (linux, linux_link) = on_both(study, tmp_path)
    assert agree(sim.loc["bulk", "goodput_receiver_mbps"], linux.loc["bulk", "goodput_receiver_mbps"], rel=0.02)
    # Nothing waits: only the two links delay.
    assert agree(sim.loc["voice", "delay_mean_ms"], linux.loc["voice", "delay_mean_ms"], within=0.05)
    assert agree(sim_link["queue_drops"], linux_link["queue_drops"], rel=0.15)
    assert linux_link["queue_drops"].gt(100).all() and linux_link["loss_drops"].eq(0).all()


def narrow_of(aqm):
    forward = {"rate": "40mbit", "queue": "1000packets", "aqm": aqm, "delay": "10ms"}
    return {"wide": WIDE, "narrow": {"forward": forward, "backward": {"delay": "10ms"}}}


def dualpi2(cc, *, kernel="7.3", **more):
    """Cubic and a scalable flow. Linux sends no data as ECT(1)."""
    links = narrow_of({"kind": "dualpi2", "any_ect": True, **more})
    flows = {"classic": CUBIC, "scalable": {**CUBIC, "cc": cc}, "voice": VOICE}
    return over_router("dualpi2", links, flows, **MEASURED, seeds=STARTS["dualpi2"], kernel=kernel)


@pytest.fixture
def kernel_7_3():
    if not linux.is_there("7.3"):
        lacking("linux 7.3", "no kernel 7.3 is there: polypath linux build 7.3")


@pytest.mark.usefixtures("kernel_7_3")
@pytest.mark.parametrize("cc", ["dctcp", "prague"])
def test_dualpi2_shares_a_link_as_the_kernels_does(tmp_path, cc):
    (sim, sim_link), (kernels, kernels_link) = on_both(dualpi2(cc), tmp_path)
    for flow in ("classic", "scalable"):
        assert agree(sim.loc[flow, "goodput_receiver_mbps"], kernels.loc[flow, "goodput_receiver_mbps"], rel=0.1)
        assert agree(sim.loc[flow, "srtt_ms"], kernels.loc[flow, "srtt_ms"], within=1.0)
    # The call is no L4S traffic, and waits in the classic queue.
    assert agree(sim.loc["voice", "delay_mean_ms"], kernels.loc["voice", "delay_mean_ms"], within=1.0)
    assert agree(sim_link["ecn_marks"], kernels_link["ecn_marks"], rel=0.15)
    assert agree(sim_link["queue_drops"], kernels_link["queue_drops"], rel=0.3)


@pytest.mark.usefixtures("kernel_7_3")
def test_a_kernel_sends_no_ect_1_and_says_so(tmp_path):
    with pytest.raises(StudyError, match=r"Linux sends prague's data as ECT\(0\), which is classic traffic here"):
        run(dualpi2("prague", any_ect=False), engine="linux", out=tmp_path / "out")


def test_a_kernel_without_dualpi2_is_refused_by_name(tmp_path):
    with pytest.raises(StudyError, match=r"Linux 6\.12\.\d+ has no dualpi2: run a kernel from 6\.17 on, or the engine sim"):
        run(dualpi2("dctcp", kernel="6.12"), engine="linux", out=tmp_path / "out")


@pytest.mark.usefixtures("kernel_7_3")
def test_marks_told_by_accurate_ecn_govern_a_flow_as_in_the_kernel(tmp_path):
    # dctcp and prague alone in DualPI2 were asked the same: docs/limitations.md.
    host, more = {"sysctl": {"net.ipv4.tcp_ecn": 3}}, {**MEASURED, "seeds": 8, "kernel": "7.3"}
    study = over_router("accurate", narrow_of({"kind": "codel", "ecn": True}), {"bulk": CUBIC, "voice": VOICE}, host=host, **more)
    (sim, sim_link), (kernels, kernels_link) = on_both(study, tmp_path)
    assert agree(sim.loc["bulk", "goodput_receiver_mbps"], kernels.loc["bulk", "goodput_receiver_mbps"], rel=0.02)
    assert agree(sim.loc["bulk", "srtt_ms"], kernels.loc["bulk", "srtt_ms"], within=1.0)
    assert agree(sim.loc["voice", "delay_mean_ms"], kernels.loc["voice", "delay_mean_ms"], within=1.2)
    assert agree(sim_link["ecn_marks"], kernels_link["ecn_marks"], rel=0.15)
    assert kernels_link["ecn_marks"].mean() > 5
    assert sim.loc["bulk", "retransmissions"].eq(0).all() and kernels.loc["bulk", "retransmissions"].eq(0).all()
