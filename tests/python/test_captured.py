"""Sizes of segments from captures."""

import json
import shutil

import pytest
from study_data import changed, written

from polypath import pcap
from polypath.engines import find
from polypath.results import execute, plan
from polypath.results._captured import COLUMNS, matched

STUDY = """
name: sizes
topology:
  nodes: { c: {}, wide: { router: true }, narrow: { router: true }, s: { addresses: [10.9.0.1] } }
  links:
    first: { ends: [c, wide], mtu: 9000B, forward: { delay: 5ms } }
    onward: { ends: [wide, s], mtu: 9000B, forward: { rate: 20mbit, queue: 42packets }, backward: { delay: 5ms } }
    second: { ends: [c, narrow], mtu: 9000B, forward: { delay: 5ms } }
    middle:
      ends: [narrow, s]
      mtu: 9000B
      forward: [{ kind: mtu, size: 1500B }, { kind: rate, rate: 20mbit, queue: 42packets }]
      backward: { delay: 5ms }
flows:
  m: { client: c, server: s, server_address: 10.9.0.1, transport: mptcp, cc: cubic, path_manager: fullmesh }
duration: 2s
baselines: null
measure: { series: null, capture: [CAPTURED] }
"""


def planned(tmp_path, captured):
    return plan(written(tmp_path, STUDY.replace("CAPTURED", captured)), engine=find("sim"), out=tmp_path / "out")


def ran(tmp_path, captured="c"):
    return execute(planned(tmp_path, captured))


def pending(tmp_path, captured):
    return planned(tmp_path, captured).pending


def test_each_subflow_has_the_sizes_of_its_capture(tmp_path):
    results = ran(tmp_path)
    first, second = (row for _, row in results.subflows.iterrows())
    # 9000 and 1500 without 40 of headers, 12 of timestamps and 24 of DSS.
    assert (first["segment_usual_bytes"], first["segment_max_bytes"], first["packet_max_acked_bytes"]) == (8924, 8924, 9000)
    assert (second["segment_usual_bytes"], second["packet_max_acked_bytes"]) == (1424, 1500)
    assert (first["icmp_too_big"], second["icmp_too_big"] > 0) == (0, True)
    # The longest that was sent there is what the router did not take.
    assert second["segment_max_bytes"] > 1424
    report = pcap.analyse(sorted(results.folder.glob("captures/*/*.pcapng")))
    (connection,) = report["connections"]
    sent = [subflow["directions"][0]["segments"] for subflow in connection["subflows"]]
    assert list(results.subflows["captured_segments"]) == sent == list(results.subflows["data_segments_sent"])
    (run,) = (row for _, row in results.runs.iterrows())
    assert run["captured_segments"] == sum(sent)
    payload = (results.subflows["captured_segments"] * results.subflows["segment_mean_bytes"]).sum()
    assert run["segment_mean_bytes"] == pytest.approx(payload / sum(sent))


def test_of_a_download_it_is_what_the_server_sent(tmp_path):
    text = STUDY.replace("CAPTURED", "c")
    assert text.count("server: s") == 1, "the flow"
    text = text.replace("backward: {", "backward: { rate: 20mbit, queue: 42packets,")
    subflows = execute(
        plan(written(tmp_path, text.replace("server: s", "server: s, direction: download")), engine=find("sim"), out=tmp_path / "out")
    ).subflows
    assert (subflows["captured_segments"] > 100).all()
    # Captured at the client, where nothing that was lost arrives.
    assert (subflows["captured_segments"] <= subflows["data_segments_sent"]).all()


def test_they_are_found_once_and_again_when_the_way_to_find_them_changes(tmp_path):
    results = ran(tmp_path)
    (kept,) = results.folder.glob("runs/*/captured.json")
    said = json.loads(kept.read_bytes())
    said["subflows"][0]["segment_usual_bytes"] = 1
    kept.write_text(json.dumps(said))
    assert list(ran(tmp_path).subflows["segment_usual_bytes"]) == [1, 1424]
    kept.write_text(json.dumps({**said, "format": 0}))
    assert list(ran(tmp_path).subflows["segment_usual_bytes"]) == [8924, 1424]


def test_captures_that_are_not_kept_leave_their_figures(tmp_path):
    whole = ran(tmp_path).subflows
    results = ran(tmp_path, captured="{ node: c, keep: false }")
    # It is the same run, and what is there already stays.
    assert len(list(results.folder.glob("captures/*/*.pcapng"))) == 2
    for place in results.folder.glob("captures/*"):
        shutil.rmtree(place)
    (kept,) = results.folder.glob("runs/*/captured.json")
    kept.unlink()
    again = ran(tmp_path, captured="{ node: c, keep: false }")
    assert not list(again.folder.glob("captures/*"))
    assert again.subflows.equals(whole)
    # Nothing is missing, unless somebody wants the files after all.
    assert not pending(tmp_path, "{ node: c, keep: false }")
    assert pending(tmp_path, "c")


def test_columns_are_empty_where_nothing_was_captured(tmp_path):
    results = ran(tmp_path, captured='"c:first"')
    assert list(results.subflows["segment_usual_bytes"].isna()) == [False, True]
    assert results.runs["segment_mean_bytes"].isna().all()
    results = execute(plan(written(tmp_path, changed(("duration: 20s", "duration: 1s"))), engine=find("sim"), out=tmp_path / "out"))
    assert set(COLUMNS) <= set(results.subflows.columns)
    assert results.subflows[list(COLUMNS)].isna().all(axis=None)


def row(flow, source, destination="10.0.9.1"):
    return {"flow": flow, "source": source, "destination": destination}


def seen(number, source, destination="10.0.9.1:80"):
    return {"source": source, "destination": destination, "captured_segments": number}


def test_ports_say_which_subflow_it_is_and_without_them_the_order_of_one_flow():
    found = [seen(1, "10.0.0.1:1000"), seen(2, "10.0.0.1:2000")]
    exact = [row("a", "10.0.0.1:2000", "10.0.9.1:80"), row("b", "10.0.0.1:1000", "10.0.9.1:80")]
    assert [each["captured_segments"] for each in matched(exact, found)] == [2, 1]
    assert [each["captured_segments"] for each in matched([row("a", "10.0.0.1")] * 2, found)] == [1, 2]
    # Two flows between the same addresses, or one subflow more than was seen: nobody knows.
    assert matched([row("a", "10.0.0.1"), row("b", "10.0.0.1")], found) == [{}, {}]
    assert matched([row("a", "10.0.0.1")] * 3, found) == [{}, {}, {}]
