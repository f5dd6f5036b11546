"""What other tools measured, as results of a study: read whole, refused loudly, and told of as runs are."""

import gzip
import json

import pytest
from study_data import one_link

from polypath import Results, Study
from polypath.measured import measured, study_of
from polypath.traces import TraceError


def stream(number, second, rate, **more):
    span = {"socket": number, "start": second, "end": second + 1, "seconds": 1.0}
    return {**span, "bytes": rate // 8, "bits_per_second": rate, "retransmits": 1, "snd_cwnd": 14_480, "rtt": 20_000, "pmtu": 1500, **more}


def iperf3(rate=8_000_000, seconds=3, streams=1, cc="bbr", **test):
    ends = [{"socket": n, "local_host": "a", "local_port": n, "remote_host": "b", "remote_port": 5201} for n in range(streams)]
    start = {"connected": ends, "tcp_mss_default": 1448, "test_start": {"protocol": "TCP", "num_streams": streams, **test}}
    each = [{"streams": [stream(n, t, rate) for n in range(streams)], "sum": {}} for t in range(seconds)]
    return json.dumps({"start": start, "intervals": each, "end": {"sender_tcp_congestion": cc}})


def flent(**more):
    at = [0.2 * number for number in range(20)]
    rows = {
        "TCP upload": [None, *[8.0] * 19],
        "TCP upload::tcp_cwnd": [10.0] * 20,
        "TCP upload::tcp_rtt": [30.0] * 20,
        "TCP download::1": [16.0] * 20,
        "TCP totals": [24.0] * 20,
        "Ping (ms) ICMP": [20.0] * 20,
    }
    meta = {name: {"UNITS": "Mbits/s" if name.startswith("TCP") else "ms"} for name in rows if "::tcp" not in name}
    tree = {"version": 4, "metadata": {"NAME": "rrul", "SERIES_META": meta}, "results": rows, "x_values": at, "raw_values": {}}
    return json.dumps({**tree, **more})


def sockets(time, acked):
    mine = (
        f"tcp   ESTAB 0      0               10.1.0.2:42375          10.1.0.1:5201 \n\t cubic wscale:7,7 rto:200 rtt:20.5/1.5 mss:1448 "
        f"pmtu:1500 cwnd:12 ssthresh:9 bytes_sent:9 bytes_acked:{acked} pacing_rate 12.5Mbps delivery_rate 8Mbps retrans:0/{time} "
        "minrtt:20.1 tcp-ulp-mptcp flags:Jjec token:7a27bdde(id:0)/9c3b4ddb(id:1) seq:5f sfseq:0 ssnoff:18 maplen:0\n"
    )
    other = mine.replace("10.1.0.2:42375", "10.1.0.1:59660").replace("7a27bdde(id:0)", "0000(id:0)").replace("(id:1)", "(id:0)")
    control = mine.replace("42375", "59658").replace("9c3b4ddb", "d894c817").replace(f"bytes_acked:{acked}", "bytes_acked:42")
    whole = "mptcp ESTAB 0      0               10.1.0.1:59660          10.1.0.1:5201 \n\t subflows:1 token:9c3b4ddb\n"
    head = "Netid State Recv-Q Send-Q Local Address:Port Peer Address:Port Process"
    return f"{1_735_689_602 + time}.25\n{head}\n{mine}{other}{control}{whole}"


SS = "".join(sockets(time, 500_000 * time) for time in range(4))
RATES = [{"timestamp": str(100 + t / 5), "sending_rate": "8.0"} for t in range(20)]
NEST = {
    "netperf.json": {"h1": [{"10.0.0.2:5001": [{"meta": True}, *RATES]}]},
    "ss.json": {"h1": [{"10.0.0.2": {"5001": [{"meta": True}, {"timestamp": "101", "cwnd": "10", "rtt": "30.0", "dev_rtt": "1"}]}}]},
}


def write(tmp_path, name, content):
    file = tmp_path / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


def test_streams_series_and_subflows_are_flows(tmp_path):
    found = measured(write(tmp_path, "a.json", iperf3(streams=2, reverse=1)))
    assert [(flow.name, flow.upload, flow.cc) for flow in found.flows] == [("iperf3-1", False, "bbr"), ("iperf3-2", False, "bbr")]
    assert found.flows[0].received == ((0, 0), (1, 1e6), (2, 2e6), (3, 3e6))
    (subflow,) = found.flows[0].subflows
    assert (subflow.retransmissions, subflow.min_rtt_ms, subflow.samples[0].cwnd) == (3, 20, 10)
    found = measured(write(tmp_path, "a.flent.gz", gzip.compress(flent().encode())))
    assert [(flow.name, flow.upload) for flow in found.flows] == [("upload", True), ("download-1", False)]
    assert found.flows[0].received[-1] == (pytest.approx(3.8), pytest.approx(3.8e6))
    assert found.flows[0].subflows[0].samples[0].srtt_ms == 30
    assert "left out, since they are no TCP flows: Ping (ms) ICMP" in found.said
    holes = flent(results={"TCP upload": [8.0] * 5 + [None] * 5 + [8.0] * 10})
    said = measured(write(tmp_path, "holes.flent", holes)).said
    assert said[1:] == ("beware: 5 of 20 values of TCP upload are missing, and count as nothing received",)
    found = measured(write(tmp_path, "ss.txt", SS))
    (flow,) = found.flows
    assert (flow.transport, flow.upload, flow.cc, len(flow.subflows)) == ("mptcp", True, "cubic", 2)
    assert flow.received == ((0, 0), (1, 1e6), (2, 2e6), (3, 3e6))
    for digits in 3, 6, 9:
        same = SS.replace(".25\n", "25".ljust(digits, "0") + "\n").replace("\t cubic", "\t skmem:(r0) ts sack ecn bbr")
        (again,) = measured(write(tmp_path, "ss.txt", same)).flows
        assert (again.received, again.cc) == (flow.received, "bbr")
    sample = flow.subflows[0].samples[-1]
    assert (sample.cwnd, sample.srtt_ms, sample.ssthresh, sample.pacing_bps, sample.retransmissions) == (12, 20.5, 9, 12.5e6, 3)
    assert flow.subflows[0].destination == "10.1.0.1:5201"


def test_the_other_end_of_both_directions_has_them_the_other_way(tmp_path):
    tree = json.loads(iperf3(streams=2, bidirectional=1))
    for each in tree["intervals"]:
        for number, row in enumerate(each["streams"]):
            row["sender"] = number == 0
    for start, ways in ({}, [True, False]), ({"accepted_connection": {"host": "a"}}, [False, True]):
        text = json.dumps({**tree, "start": {**tree["start"], **start}})
        found = measured(write(tmp_path, "a.json", text))
        assert ([flow.upload for flow in found.flows], found.said) == (ways, ("iperf3: 2 streams, up and down",))
    # iperf3 3.12 has no word of it at its start.
    del tree["start"]["test_start"]["bidirectional"]
    assert [flow.upload for flow in measured(write(tmp_path, "a.json", json.dumps(tree))).flows] == [True, False]


def cut(change):
    tree = json.loads(iperf3())
    change(tree)
    return json.dumps(tree)


def streamed(text):
    """As `iperf3 --json-stream` writes it."""
    tree = json.loads(text)
    events = [("start", tree["start"]), *(("interval", each) for each in tree["intervals"]), ("end", tree["end"])]
    return "\n".join(json.dumps({"event": event, "data": data}) for event, data in events)


def test_nests_dumps_are_read_by_their_folder(tmp_path):
    for name, tree in NEST.items():
        (tmp_path / name).write_text(json.dumps(tree))
    (flow,) = measured(tmp_path).flows
    assert flow.name == "h1-10.0.0.2-5001"
    assert flow.received[-1] == (pytest.approx(4.0), pytest.approx(4e6))
    assert flow.subflows[0].samples[0].cwnd == 10
    assert measured(tmp_path / "ss.json").flows == (flow,)
    cut_out = {"h1": [{"10.0.0.2:5001": [*RATES[:5], *RATES[15:]]}]}
    (tmp_path / "netperf.json").write_text(json.dumps(cut_out))
    assert measured(tmp_path).said[1:] == ("beware: 10 samples of h1-10.0.0.2-5001 are missing, and count as nothing received",)


@pytest.mark.parametrize("text", [iperf3(), flent(), SS], ids=["iperf3", "flent", "ss"])
def test_an_import_makes_a_study_that_report_and_simulator_take(polypath, tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "m.dat", text)
    code, out, err = polypath("import", "m.dat", "--name", "mine")
    assert (code, err) == (0, "")
    assert "wrote mine/study.yaml" in out
    assert "of links that carry what was measured, and no more: put in what you know of them" in out
    results = Results.open("results/mine")
    assert results.notes == []
    assert set(results.runs["engine"]) == {"measured"}
    assert results.runs["goodput_receiver_mbps"].max() == pytest.approx(16 if "Ping" in text else 8, rel=0.02)
    assert results.series["srtt_ms"].notna().any()
    assert not results.summary()["limited_by"].isin(["send buffer", "congestion window"]).any()
    assert polypath("report", "mine", "--figures", "svg")[0] == 0
    code, out, _ = polypath("run", "mine", "--no-report")
    assert code == 0
    results = Results.open("results/mine")
    assert set(results.runs["engine"]) == {"measured", "sim"}
    # Their addresses differ, and an area of 2 would say that one of them never sent.
    code, out, _ = polypath("compare", "mine", "--engines", "sim,measured", "--json", "--no-report")
    areas = [row["platforms"]["sim"]["window_area"] for row in json.loads(out)["rows"]]
    # The simulator opens four subflows over two direct links, and ss saw two.
    assert code == 0 and any(areas) is (text is not SS) and all(area is None or area < 1.9 for area in areas)


def test_repetitions_went_over_one_link_one_after_the_other(tmp_path):
    files = [measured(write(tmp_path, f"{rate}.json", iperf3(rate))) for rate in (8_000_000, 6_000_000)]
    assert str(study_of("s", files).topology.links["path1"].forward.rate) == "8365kbit"


CLAIM = "[{id: c, sentence: cubic gets more, metric: goodput_receiver_mbps, check: {kind: above, left: {cc: cubic}, right: {cc: reno}}}]"
STUDY = one_link("s", "{rate: 10mbit, delay: 10ms}", duration="3s", matrix="{cc: [cubic, reno]}", seeds=2, claims=CLAIM)


def test_files_are_repetitions_of_a_cell_and_claims_judge_them(polypath, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "s.yaml", STUDY)
    for number, rate in enumerate((8_000_000, 8_800_000, 4_000_000, 4_400_000)):
        write(tmp_path, f"{number}.json", iperf3(rate, cc="cubic" if number < 2 else "reno"))
    assert polypath("import", "0.json", "1.json", "--study", "s.yaml", "--only", "cc=cubic")[0] == 0
    code, out, _ = polypath("import", "2.json", "3.json", "--study", "s.yaml", "--only", "cc=reno")
    assert (code, "holds" in out) == (0, True)
    runs = Results.open("results/s", Study.load("s.yaml")).runs
    assert runs["goodput_receiver_mbps"].round(1).tolist() == [8.0, 8.8, 4.0, 4.4]
    write(tmp_path, "cut.json", iperf3(seconds=2, cc="reno"))
    said = polypath("import", "cut.json", "--study", "s.yaml", "--only", "cc=reno")[1]
    assert "cut.json: iperf3 was measured for 2s, so its window ends there, not at 3s" in said
    assert polypath("import", "3.json", "--study", "s.yaml")[2] == (
        "polypath: s has 2 cells here, and files are of one: choose it with --only, of cc=cubic, cc=reno\n"
    )
    some = [f"{number}.json" for number in range(3)]
    assert "3 files are more than the 2 seeds" in polypath("import", *some, "--study", "s.yaml", "--only", "cc=reno")[2]
    assert "0.json is named twice, and one measurement is no two repetitions" in polypath("import", "0.json", "./0.json")[2]
    said = polypath("import", "0.json", "--study", "s.yaml", "--only", "cc=reno")[2]
    assert "iperf3 was sent with cubic, and the study's flow f is with reno: take the cell with it (--only)" in said
    write(tmp_path, "two.json", iperf3(streams=2))
    assert (
        "2 flows were measured (iperf3-1, iperf3-2), and the study has 1"
        in (polypath("import", "two.json", "--study", "s.yaml", "--only", "cc=reno")[2])
    )
    write(tmp_path, "down.json", iperf3(cc="reno", reverse=1))
    said = polypath("import", "down.json", "--study", "s.yaml", "--only", "cc=reno")[2]
    assert "iperf3 is a download, and the study's flow f an upload" in said


WRONG = {
    "nothing": ("", "no socket of TCP with its figures stands in it"),
    "sockets without a time": (SS.split("\n", 1)[1], ":2: no time stands before this; write one before each: date +%s.%N; ss -tinM"),
    "sockets back in time": (sockets(3, 9) + sockets(1, 99), "stands after a later one"),
    "two connections of one port": (SS + sockets(4, 9), "goes back at the time 1735689606.250: it is another connection from there on"),
    "half of a file": (iperf3()[:200], "this is no JSON"),
    "UDP": (iperf3(protocol="UDP"), "iperf3 sent UDP; only connections of TCP and MPTCP are imported"),
    "other JSON": ("{}", "this JSON is no output of iperf3"),
    "no rate": (iperf3().replace("bits_per_second", "rate"), "`bits_per_second` should be a number, and is 'None'"),
    "an interval that is lost": (cut(lambda tree: tree["intervals"].pop(1)), "the interval before 2 s is missing: one ends at 1 s"),
    "times that go back": (cut(lambda tree: tree["intervals"].reverse()), "the interval before 2 s is missing: one ends at 0 s"),
    "streams that are none": (cut(lambda tree: tree["intervals"][0].update(streams=None)), "the interval before 1 s is missing"),
    "two runs": ("\n".join(2 * [streamed(iperf3())]), "it holds several runs of iperf3: give each a file"),
    "no number": (iperf3().replace('"rtt": 20000', '"rtt": "x"'), "`rtt` should be a number, and is 'x'"),
    "a series that is cut": (flent(x_values=[0.0, 0.2]), "the series TCP upload has 20 values for 2 times"),
    "Flent back in time": (flent(x_values=[0.2 * n for n in range(20)][::-1]), "`x_values`: the time 3.6 stands after 3.8; times ascend"),
    "Flent in another unit": (flent().replace("Mbits/s", "kbits/s"), "the series TCP upload is in kbits/s, and those of Flent are read in"),
    "Flent without flows": (flent(results={"Ping (ms) ICMP": [1.0] * 20}), "no flow was measured in it"),
    "not a number": (flent(results={"TCP upload": [float("nan")] * 20}), "should be a number from 0 on"),
    "noise": (b"\x9d\x80", "this is no text in UTF-8"),
}


@pytest.mark.parametrize("content, sentence", WRONG.values(), ids=WRONG)
def test_what_is_no_measurement_is_refused_with_its_file(tmp_path, content, sentence):
    file = write(tmp_path, "wrong", content)
    with pytest.raises(TraceError) as error:
        measured(file)
    assert str(error.value).startswith(str(file))
    assert sentence in str(error.value)
