"""Wireless links on a real kernel."""

import pytest
from over_router import one_flow, over_router

from polypath import run

pytestmark = pytest.mark.usefixtures("linux_kernel")


def both(tmp_path, element, flow, **more):
    """The runs of a flow through a router over a wireless link, by engine."""
    links = {"cable": {"both": {"delay": "1ms"}}, "air": {"both": [{"kind": "wireless", **element}]}}
    more |= {"duration": "10s", "measure": {"window": ["1s", "9s"]}, "baselines": None}
    study = over_router("air", links, {"f": one_flow(**flow)}, **more)
    return {engine: run(study, engine=engine, out=tmp_path / engine).runs for engine in ("sim", "linux")}


def test_what_fails_on_the_air_comes_as_much_later_as_in_the_simulator(tmp_path):
    # Attempts alone: 4000 datagrams, of which some 70 % need one, 21 % two.
    radio = {"radio": "5g", "peak": "100mbit", "lowest_state": 14, "delay": "10ms", "jitter": "0ms", "retries": "30%", "retry_delay": "1ms"}
    datagrams = {"transport": "udp", "datagram": "200B", "app": {"kind": "constant", "rate": "800kbit"}}
    found = {engine: rows.iloc[0] for engine, rows in both(tmp_path, radio, datagrams, seeds=1).items()}
    for name, at_least in (("delay_p50_ms", 0.0), ("delay_p95_ms", 0.9), ("delay_p99_ms", 1.9)):
        assert found["linux"][name] == pytest.approx(found["sim"][name], abs=0.1)
        assert found["linux"][name] - found["linux"]["delay_p50_ms"] >= at_least
    # Given up after four attempts: 0.8 %, standard deviation 0.14.
    for row in found.values():
        assert 0.003 < row["datagram_loss"] < 0.014


def test_a_tcp_follows_the_walk_of_the_rate_on_both(tmp_path):
    radio = {"radio": "wifi6", "peak": "50mbit", "queue": "150packets"}
    found = both(tmp_path, radio, {"cc": "cubic"}, seeds=3)
    ours, theirs = (found[engine].set_index("seed")["goodput_receiver_mbps"] for engine in ("sim", "linux"))
    assert theirs.max() > 1.1 * theirs.min(), "each seed walks its own way"
    for seed, mbps in theirs.items():
        assert ours[seed] == pytest.approx(mbps, rel=0.05)
