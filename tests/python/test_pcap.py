"""`polypath pcap`: what it says of captures of the simulator agrees with the run's own counters; mistakes end in one sentence."""

import json
import sys
from collections import defaultdict

import pyarrow.parquet as pq
import pytest
from test_captures import PARTS, captured

from polypath import _native, cli
from polypath.pcap import PcapError, analyse, subflow_table


def polypath(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["polypath", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        cli.main()
    return end.value.code or 0


def by_addresses(subflows, numbers):
    sums = defaultdict(lambda: [0] * len(numbers))
    for ends, values in subflows:
        for place, name in enumerate(numbers):
            sums[ends][place] += values[name]
    return dict(sums)


@pytest.mark.parametrize("name", PARTS)
def test_its_figures_are_the_counters_of_the_run(name, request, tmp_path):
    outcome, files = captured(name, request.config.rootpath, tmp_path)
    report = analyse(files)
    assert not any(file["broken"] or file["unread"] for file in report["files"])
    numbers = ("retransmissions", "bytes_acked")
    counted = by_addresses(
        [((subflow["source"], subflow["destination"]), subflow) for flow in outcome["flows"] for subflow in flow["subflows"]], numbers
    )
    found = [subflow for connection in report["connections"] for subflow in connection["subflows"]]
    bare = [tuple(subflow[end].rpartition(":")[0] for end in ("client", "server")) for subflow in found]
    sent = [{**subflow["directions"][0], "bytes_acked": subflow["directions"][0]["acked_bytes"]} for subflow in found]
    assert by_addresses(zip(bare, sent, strict=True), numbers) == counted
    # One connection a flow, whose subflows are found by their tokens.
    wanted = sorted(len(flow["subflows"]) for flow in outcome["flows"] if flow["subflows"])
    assert sorted(len(connection["subflows"]) for connection in report["connections"]) == wanted


def test_both_ends_give_one_way_delays(request, tmp_path):
    _, near = captured("nitk", request.config.rootpath, tmp_path)
    (tmp_path / "far").mkdir()
    _, far = captured("nitk", request.config.rootpath, tmp_path / "far", end="server")
    (connection,) = analyse([*near, *far])["connections"]
    for subflow in connection["subflows"]:
        sent = subflow["directions"][0]
        # Two links: one of 5 or 10 ms, and the bottleneck with 2 ms, where packets wait; the way back has the same delays.
        assert 7 < sent["one_way_delay"]["min_ms"] < sent["rtt"]["min_ms"] - 7
        assert sent["one_way_delay"]["count"] > 100
    assert connection["data"][0]["acked_bytes"] <= connection["data"][0]["sent_bytes"]


def diagnosed(name, root, tmp_path):
    """A scenario of the simulator, captured at its clients: the report of its first connection."""
    lines = (root / "crates/sim/tests/known_bytes/scenarios.jsonl").read_text().splitlines()
    scenario = next(entry["scenario"] for entry in map(json.loads, lines) if entry["name"] == name)
    clients = {flow["client"] for flow in scenario["flows"]}
    places = [(link[end]["node"], link["name"]) for link in scenario["links"] for end in "ab" if link[end]["node"] in clients]
    scenario["captures"] = [{"node": node, "link": link, "snaplen": 128, "packets": 10**6} for node, link in places]
    files = []
    for file, data in _native.simulate(json.dumps(scenario))[3].items():
        (tmp_path / file).write_bytes(data)
        files.append(tmp_path / file)
    return analyse(files)["connections"][0]


@pytest.mark.parametrize(
    ("name", "sentences"),
    [
        ("app-tcp-v1-transfer", []),
        ("endpoints-v1", ["only one subflow carried data: the others are backups"]),
        ("scheduler-v1-backup", ["only one subflow carried data: no MP_JOIN was sent"]),
        ("small-buffers", ["limited by the receive window of the server for"]),
        ("mtu-silent-0-tcp-v1", ["packets of 1500 bytes were sent again 4 times and never acknowledged, nor was any other with data"]),
        ("mtu-icmp-0-tcp-v1", ["the path MTU is 1200 bytes behind 10.0.1.3, which said so"]),
    ],
)
def test_a_diagnosis_names_what_held_a_connection_back(name, sentences, request, tmp_path):
    connection = diagnosed(name, request.config.rootpath, tmp_path)
    said = connection["diagnosis"]
    assert all(any(sentence in each for each in said) for sentence in sentences), said
    assert sentences or not said


def test_the_command_prints_tables_json_and_parquet(request, tmp_path, monkeypatch, capsys):
    _, files = captured("nitk", request.config.rootpath, tmp_path)
    assert polypath(monkeypatch, "pcap", *files) == 0
    said = capsys.readouterr().out
    assert "mptcp v0" in said and "(join)" in said
    assert polypath(monkeypatch, "pcap", "--json", "--parquet", tmp_path / "subflows.parquet", *files) == 0
    report = json.loads(capsys.readouterr().out)
    table = pq.read_table(tmp_path / "subflows.parquet")
    assert table == subflow_table(report)
    assert table.num_rows == 2 * sum(len(connection["subflows"]) for connection in report["connections"])


def test_what_is_missing_or_no_capture_is_one_sentence(tmp_path, monkeypatch, capsys, request):
    (tmp_path / "notes.txt").write_text("no packets here\n")
    for words, sentence in [
        ([tmp_path / "nothing.pcap"], "No such file"),
        ([tmp_path / "notes.txt"], "this is no capture"),
        ([tmp_path / "notes.txt"] * 2, "a file is named twice"),
    ]:
        assert polypath(monkeypatch, "pcap", *words) == 2
        assert sentence in capsys.readouterr().err
    with pytest.raises(PcapError, match="no capture"):
        analyse([tmp_path / "notes.txt"])
    _, (file, *_) = captured("nitk", request.config.rootpath, tmp_path)
    file.write_bytes(file.read_bytes()[:-10])
    assert polypath(monkeypatch, "pcap", file) == 0
    said = capsys.readouterr()
    assert "mptcp v0" in said.out and "cut off in the middle of a packet" in said.err
