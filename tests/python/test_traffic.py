"""Datagrams and requests."""

import numpy as np
import pytest

from polypath import Study, run
from polypath.engines import _traffic
from polypath.engines._records import DATAGRAM
from polypath.report import write_report

FORWARD = {"rate": "10mbit", "queue": "20packets", "delay": "5ms", "framing": "0B"}
TOPOLOGY = {"nodes": {"c": None, "s": None}, "links": {"l": {"ends": ["c", "s"], "forward": FORWARD, "backward": {"delay": "5ms"}}}}


def study(flows):
    return Study.model_validate({"name": "traffic", "topology": TOPOLOGY, "flows": flows, "duration": "2s", "baselines": None})


def arrivals(*rows):
    """Of (number, ns on the way), one a microsecond."""
    made = [(1000 * index + transit, 1000 * index, number, 0) for index, (number, transit) in enumerate(rows)]
    return np.array(made, dtype=DATAGRAM)


def test_the_figures_of_a_kernel_are_the_simulators():
    # The same as in crates/sim/src/traffic.rs.
    seen = arrivals((0, 10), (1, 30), (4, 30), (3, 50), (6, 40))
    found = _traffic.datagrams(8, seen, [-1, 10**9])
    assert (found["sent"], found["received"], found["reordered"]) == (8, 5, 1)
    assert (found["loss"], found["jitter_ns"]) == (1 - 5 / 7, 50 / 4)
    late = _traffic.datagrams(8, seen, [1500, 10**9])
    assert late["loss"] == 1 - 3 / 5
    assert late["delay"] == {"mean_ns": 40.0, "p50_ns": 40, "p95_ns": 50, "p99_ns": 50, "max_ns": 50}
    nothing = _traffic.datagrams(8, seen[:0], None)
    assert (nothing["loss"], nothing["jitter_ns"], nothing["delay"]) == (None, None, None)
    ranks = _traffic.spread(np.arange(200, 0, -1))
    assert ranks == {"mean_ns": 100.5, "p50_ns": 100, "p95_ns": 190, "p99_ns": 198, "max_ns": 200}
    assert _traffic.responses([[5, 9], [10, 16], [20, 22]], [6, 20]) == {"count": 1, "time": _traffic.spread(np.array([6]))}


def test_streams_and_rates_are_those_of_their_payload(tmp_path):
    flows = {
        "voice": {"client": "c", "server": "s", "transport": "udp", "datagram": "200B", "app": {"kind": "constant", "rate": "64kbit"}},
        "load": {"client": "c", "server": "s", "transport": "tcp", "start": "1s"},
        "web": {"client": "c", "server": "s", "transport": "tcp", "app": {"kind": "requests", "pause": "100ms"}},
    }
    results = run(study(flows), out=tmp_path)
    rows = results.runs.set_index("flow")
    # 64 kbit/s in 1600 bits: one every 25 ms, the first at once.
    assert rows.loc["voice", "datagrams_sent"] == 80
    # 228 bytes at 10 Mbit/s and 5 ms; behind a full queue of 20 packets 24 ms more.
    assert rows.loc["voice", "delay_p50_ms"] < 6.5 < 20 < rows.loc["voice", "delay_max_ms"] < 30
    assert rows.loc["load", ["datagrams_sent", "delay_p50_ms", "responses"]].isna().all()
    assert rows.loc["voice", ["flow_cc", "responses"]].isna().all()
    assert rows.loc["web", "responses"] > 10
    assert rows.loc["web", "response_p50_ms"] < rows.loc["web", "response_max_ms"]
    page = write_report(results, tmp_path).read_text()
    assert "UDP from c to s" in page
    assert "datagrams leave at the application" in page
    flow = {"client": "c", "server": "s", "transport": "tcp", "app": {"kind": "constant", "rate": "4mbit"}}
    row = run(study({"f": flow}), out=tmp_path).runs.iloc[0]
    assert row["goodput_receiver_mbps"] == pytest.approx(4, rel=0.02)
