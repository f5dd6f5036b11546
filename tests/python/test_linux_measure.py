"""What a kernel tells, brought to the simulator's meanings."""

import struct

import pytest

from polypath.engines import SimEngine, _measure, _records, check
from polypath.planner import build
from polypath.study import Study, StudyError, runs

SECOND, MS = 10**9, 10**6


def study(**parts):
    nodes = {"c": {}, "r": {"router": True}, "s": {}}
    links = {
        "first": {"ends": ["c", "r"], "both": {"delay": "5ms"}},
        "last": {"ends": ["r", "s"], "forward": {"rate": "8mbit", "loss": "1%", "framing": "38B"}, "backward": []},
    }
    flow = {"client": "c", "server": "s", "transport": "tcp"}
    base = {"name": "measured", "topology": {"nodes": nodes, "links": links}, "flows": {"f": flow}, "duration": "2s", "baselines": None}
    return Study.model_validate({**base, **parts})


def tcp_info(**values):
    raw = bytearray(_records.TCP_INFO_SIZE)
    for name, value in values.items():
        offset, kind = _records.TCP_INFO[name]
        raw[offset : offset + int(kind[-1])] = value.to_bytes(int(kind[-1]), "little")
    return bytes(raw)


def socket(time, *, subflow=0, state=1, length=248, **info):
    return struct.pack("<QIIIIII", time, 0, subflow, 0, state, length, 0) + tcp_info(**info)


def measured(of, *, sockets=b"", queues=b"", **flow):
    (run,) = runs(of, engine="linux", version=lambda kernel: kernel)
    planned = build(run.scenario, ("cubic",))
    info = tcp_info(
        bytes_acked=1001, data_segs_out=9, total_retrans=2, busy_us=1_500_000, rwnd_limited_us=200_000, total_rto=1, min_rtt_us=2**32 - 1
    )
    subflow = {"source": "10.0.1.1:9", "destination": "10.0.2.2:5001", "cc": "cubic", "established_ns": 100 * MS, "flags": 0}
    got = {
        "name": "f",
        "accepted_ns": 50 * MS,
        "connected_ns": 40 * MS,
        "error": None,
        "written": [[100 * MS, 100_000], [2050 * MS, 3_000_000]],
        "read": [[time * MS, (time - 50) * 1000] for time in range(250, 2051, 200)],
        "finished_ns": None,
        "subflows": [{**subflow, "tcp_info": info[:248].hex()}],
        "fallback": False,
        "client_mptcp_info": None,
        "server_mptcp_info": None,
    }
    disciplines = [
        {
            "namespace": each["namespace"],
            "device": each["device"],
            "packets": 10,
            "bytes": 1000,
            "drops": 3,
            "policed": 0,
            "max_queue_packets": 7,
        }
        for each in planned.plan["disciplines"]
    ]
    result = {
        "ended_ns": 3 * SECOND,
        "flows": [{**got, **flow}],
        "counters": {"c": {"TcpExtTCPLossProbes": 4, "TcpExtTCPFullUndo": 1, "TcpExtTCPLossUndo": 2}, "s": {}},
        "disciplines": disciplines,
    }
    return _measure.outcome(_measure.RunRecord(scenario=run.scenario, stages=planned.stages, result=result, sockets=sockets, queues=queues))


def test_what_was_read_counts_from_the_moment_the_server_accepted():
    outcome, _, _ = measured(study(measure={"window": ["500ms", "1s"]}))
    (flow,) = outcome["flows"]
    assert flow["established_ns"] == 50 * MS
    assert flow["goodput_receiver_bps"] == 500_000 * 8 / 0.5
    assert flow["bytes_received"] == 2_000_000
    # What was read between two returns came evenly: 0 at 50 ms, 200 kB at 250 ms.
    assert flow["received_100ms"][:4] == [0, 50_000, 150_000, 250_000]
    assert len(flow["received_100ms"]) == len(flow["accepted_100ms"]) == 31
    outcome, _, _ = measured(study(), read=[[550 * MS, 500_000], [2050 * MS, 2_000_000]])
    received = outcome["flows"][0]["received_100ms"]
    assert received[6:20] == [500_000] * 14
    assert received[20] == 1_250_000
    outcome, subflows, _ = measured(
        study(), accepted_ns=None, connected_ns=None, read=[], written=[], subflows=[], error="connect: no route"
    )
    (flow,) = outcome["flows"]
    assert (flow["established_ns"], flow["goodput_receiver_bps"], flow["bytes_received"], flow["error"]) == (
        None,
        0.0,
        0,
        "connect: no route",
    )
    assert subflows.num_rows == 0


def test_counters_come_from_the_last_tcp_info_and_of_the_host_where_it_is_alone():
    outcome, _, _ = measured(study())
    (flow,) = outcome["flows"]
    (subflow,) = flow["subflows"]
    assert subflow["bytes_acked"] == 1000, "the kernel counts the SYN"
    assert (subflow["retransmissions"], subflow["timeouts"], subflow["loss_probes"], subflow["spurious_undos"]) == (2, 1, 4, 3)
    assert (subflow["busy_ns"], subflow["rwnd_limited_ns"], subflow["cwnd_limited_ns"]) == (1500 * MS, 200 * MS, 1300 * MS)
    assert (subflow["min_rtt_us"], flow["app_limited_ns"], flow["reinjected_bytes"]) == (0, 0, 0)
    two = measured(study(), subflows=[outcome["flows"][0]["subflows"][0] | {"flags": 0, "tcp_info": tcp_info()[:200].hex()}] * 2)[0][
        "flows"
    ][0]
    assert two["loss_probes"] == 4
    assert [each["loss_probes"] for each in two["subflows"]] == [None, None]
    assert [each["timeouts"] for each in two["subflows"]] == [None, None], "a kernel before 6.7 does not count them for a socket"


def test_means_are_of_samples_every_100_ms_within_the_window():
    times = (0, 50, 100, 150, 200, 2050)
    rows = b"".join(socket(time * MS, cwnd=time, srtt_us=1000 + time, bytes_acked=1 + 10 * time) for time in times)
    outcome, series, _ = measured(study(measure={"series": "50ms", "window": ["50ms", "250ms"]}), sockets=socket(0, state=2) + rows)
    subflow = outcome["flows"][0]["subflows"][0]
    assert (subflow["mean_cwnd"], subflow["max_cwnd"], subflow["mean_srtt_us"]) == (150.0, 200, 1150.0)
    assert series["time_ns"].to_pylist() == [time * MS for time in times]
    assert series["bytes_acked"].to_pylist() == [10 * time for time in times]
    assert series["bytes_received"].to_pylist() == [10 * time for time in times]


def test_a_series_has_the_kernels_words_in_the_simulators_columns():
    row = socket(
        100 * MS, length=236, unacked=20, sacked=3, lost=5, retrans=2, pacing_rate=2**64 - 1, delivery_rate=77, pmtu=1400, ca_state=3
    )
    _, series, _ = measured(study(), sockets=row)
    (found,) = series.to_pylist()
    assert (found["in_flight"], found["lost"], found["pmtu"], found["ca_state"], found["delivery_rate"]) == (14, 5, 1400, 3, 77)
    assert (found["pacing_rate"], found["timeouts"]) == (None, None)
    simulated = SimEngine().run(next(runs(study(), engine="sim", version="1")).scenario).subflow_series
    assert set(simulated.column_names) <= set(series.column_names)


def test_links_have_what_passed_and_say_null_where_reasons_cannot_be_told_apart():
    queue = struct.pack("<QIIIIQQ", 100 * MS, 1, 1, 5, 0, 5000, 3)
    outcome, _, series = measured(study(), queues=queue)
    last = next(link for link in outcome["links"] if (link["name"], link["a_to_b"]) == ("last", True))
    assert (last["packets"], last["bytes"], last["drops"], last["max_queue_packets"]) == (10, 1000 - 140, 3, 7)
    assert (last["queue_drops"], last["loss_drops"], last["down_drops"]) == (None, None, 0)
    back = next(link for link in outcome["links"] if (link["name"], link["a_to_b"]) == ("last", False))
    assert (back["packets"], back["drops"]) == (None, 0)
    # netem counts 14 bytes of framing and the study 38.
    assert series.to_pylist() == [{"time_ns": 100 * MS, "link": 2, "queue_packets": 5, "queue_bytes": 5000 + 5 * 24, "drops": 3}]


def test_failures_and_records_cut_short_are_errors():
    with pytest.raises(ValueError, match="ends within one"):
        measured(study(), sockets=b"12345")
    assert _measure.failure({"error": "no route", "error_kind": "caller"}, "machine") == "the plan cannot be carried out: no route"
    assert (
        _measure.failure({"error": "mmap: no memory", "error_kind": "machine"}, "kernel")
        == "the kernel could not carry out the run: mmap: no memory"
    )


def test_the_simulator_takes_what_it_has_of_a_kernels_study():
    flow = {"client": "c", "server": "s", "transport": "tcp", "cc": "${cc}"}
    mixed = study(flows={"f": flow}, matrix={"cc": ["cubic", "cubic@polypath", "cubic@linux", "bbr"]})
    lines = check(SimEngine(), mixed)
    assert lines == ["left out on sim: 1 cell with congestion controls that only a Linux kernel has, which --engine linux runs"]
    keys = {run.parameters["cc"]: run.key for run in runs(mixed, engine="sim", version="1", leave_out=SimEngine().left_out)}
    assert keys["cubic"] == keys["cubic@polypath"]
    assert set(keys) == {"bbr", "cubic", "cubic@polypath"}
    with pytest.raises(StudyError, match="nothing of measured can run here"):
        check(SimEngine(), study(flows={"f": {**flow, "cc": "cubic@linux"}}))
    keys = [next(runs(study(kernel=kernel), engine="sim", version="1")).key for kernel in ("6.1", "6.6", "6.12")]
    assert keys[1] == keys[2] == next(runs(study(), engine="sim", version="1")).key
    assert keys[0] != keys[2]
    keys = [next(runs(study(kernel=kernel), engine="linux", version=lambda name: name)).key for kernel in ("6.1", "6.12")]
    assert keys[0] != keys[1]
    with pytest.raises(ValueError, match="write the kernel in quotes"):
        study(kernel=6.12)


def test_what_sack_tells_of_has_arrived_and_is_never_taken_back():
    told = ((100, 1001, 3), (200, 1001, 9), (300, 13_001, 0), (400, 14_001, 2))
    rows = b"".join(socket(time * MS, bytes_acked=acked, sacked=sacked, snd_mss=1400) for time, acked, sacked in told)
    other = socket(300 * MS, bytes_acked=5001, snd_mss=1400, subflow=1)
    _, series, _ = measured(study(), sockets=rows[: 2 * len(other)] + other + rows[2 * len(other) :])
    by_subflow = [[row["bytes_received"] for row in series.to_pylist() if row["subflow"] == number] for number in (0, 1)]
    # 1000 and nine segments; once the hole is filled the ACK says that the last was not whole.
    assert by_subflow == [[5200, 13_600, 13_600, 16_800], [5000]]


def test_what_subflows_were_given_twice_was_sent_again():
    given = [tcp_info(bytes_sent=9000, bytes_retrans=1000, notsent_bytes=500).hex(), tcp_info(bytes_sent=3000).hex()]
    counted = bytes(48) + struct.pack("<QQ", 300, 10_000)
    assert _records.reinjected_bytes(counted.hex(), given) == 1500
    assert _records.reinjected_bytes(counted.hex(), given[:1]) == 300, "a subflow that is gone leaves what the kernel counted"
    assert _records.reinjected_bytes(bytes(48).hex(), given) is None, "before 6.5"
