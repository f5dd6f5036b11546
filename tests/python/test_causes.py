"""What a study asks for and does not get is said, and what limited a flow is named by its cause."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from polypath import Study, StudyError
from polypath import run as simulate
from polypath.analysis import tunnels_as_paths, without_route
from polypath.cli import _summary
from polypath.report import material, notes, page
from polypath.study import cells, scenario

DATA = Path(__file__).parents[1] / "data" / "causes"


def plain(study):
    return scenario(cells(study)[0].setup, 1)


def printed(results):
    console = Console(width=220, record=True, file=io.StringIO())
    console.print(_summary.summary(results))
    return console.export_text()


def test_a_route_of_addresses_that_no_packet_has_is_refused():
    with pytest.raises(StudyError, match=r"tunnel-bypassed.yaml:14: flows.backup.routes\[0\]: no packet of `backup` goes from 10.9.0.1 to"):
        Study.load(DATA / "tunnel-bypassed.yaml")


def bypassed(**flow):
    study = Study.load(DATA / "mptcp-beside-tunnel.yaml").set("duration", "2s").replace(baselines=None)
    for name, value in flow.items():
        study = study.set(f"flows.backup.{name}", value)
    return study


ROUTE = [{"source": "10.9.0.1", "destination": "10.9.0.2", "via": ["bond"]}]


def test_a_route_that_some_cell_needs_is_none_of_them():
    kept = bypassed(routes=ROUTE)
    assert kept.flows["backup"].routes
    with pytest.raises(StudyError, match="no packet of `backup` goes from"):
        kept.set("flows.backup.transport", "tcp")
    with pytest.raises(StudyError, match="no packet of `backup` goes from"):
        kept.set("flows.backup.path_manager", {"kind": "ndiffports", "subflows": 2})
    # One cell of several that has such packets will do.
    either = (
        kept.model_dump_json()
        .replace('"transport": "mptcp"', '"transport": "${transport}"')
        .replace('"duration"', '"matrix": {"transport": ["tcp", "mptcp"]}, "duration"')
    )
    assert len(cells(Study.model_validate_json(either))) == 2


def test_a_tunnel_that_carried_nothing_is_told(tmp_path):
    results = simulate(bypassed(transport="tcp"), out=tmp_path)
    beware, _ = notes(material(results))
    assert beware == [
        "the tunnel bond carried nothing: no flow goes through it; one does whose `client_address` and `server_address` are "
        "10.9.0.1 and 10.9.0.2"
    ]
    assert beware[0] in " ".join(printed(results).split())
    assert page(material(results)).headlines[0] == f"Beware: {beware[0]}."


def test_a_flow_in_the_tunnel_needs_its_addresses_alone(tmp_path):
    results = simulate(bypassed(transport="tcp", client_address="10.9.0.1"), out=tmp_path)
    assert notes(material(results)) == ([], [])
    assert results.tunnel_paths["packets_sent"].sum() > 100
    # Two lines of 15 and 1 Mbit/s: 36 bytes of the tunnel's headers and 14 of the link's beside 1412 of payload.
    assert material(results).limited["bound_mbps"].iloc[0] == pytest.approx(16 * 1412 / 1514, rel=1e-6)


def test_a_tunnel_that_mptcp_takes_for_one_more_path():
    study = Study.load(DATA / "mptcp-beside-tunnel.yaml")
    (sentence,) = tunnels_as_paths(plain(study))
    assert sentence.startswith("backup takes the tunnel bond for one more path (10.9.0.1 → 10.9.0.2), over the links of fast and dsl")
    endpoints = {"kind": "endpoints", "addresses": [{"address": "10.0.1.1"}]}
    assert tunnels_as_paths(plain(study.set("flows.backup.path_manager", endpoints))) == []


def test_tcp_alone_names_its_paths(tmp_path):
    study = Study.load(DATA / "mptcp-beside-tunnel.yaml").set("duration", "5s")
    results = simulate(study, out=tmp_path)
    text = printed(results)
    assert "for one more path" in text
    row = next(line for line in text.splitlines() if line.strip().startswith("backup") and "fast" in line and "Mbit" not in line)
    assert [word for word in row.replace(",", "").split() if word in ("fast", "dsl", "bond")] == ["fast", "dsl", "bond"]


def test_a_subflow_that_no_route_carries(tmp_path):
    study = Study.load(DATA / "backup-used.yaml").replace(duration="3s", seeds=1)
    said = "1 of 2 subflows of up cannot come up: no route from 10.0.2.1 to 10.0.1.2"
    assert without_route(plain(study)) == [said]
    results = simulate(study, out=tmp_path)
    told = said.replace("cannot come up", "never came up")
    assert notes(material(results)) == ([told], [])
    text = printed(results)
    assert told in " ".join(text.split())
    assert " %, 1 path of 2" in text
    assert set(results.summary()["of_paths"]) == {"1 path of 2"}
    made = page(material(results))
    assert made.headlines[0] == f"Beware: {told}."
    assert "of what the links allow with 1 path of 2" in " ".join(made.headlines)


def test_syns_that_nothing_answers_are_no_timeouts(tmp_path):
    results = simulate(Study.load(DATA / "thesis.yaml").replace(baselines=None), out=tmp_path)
    never = results.subflows[results.subflows["established_s"].isna()]
    assert set(zip(never["source"], never["destination"], strict=True)) == {("10.0.1.1", "10.0.2.2"), ("10.0.2.1", "10.0.1.2")}
    assert never["timeouts"].sum() > 20, "every SYN is sent again and again"
    up = results.subflows[results.subflows["established_s"].notna()]
    assert list(results.runs["timeouts"]) == list(up.groupby("key", sort=False)["timeouts"].sum())
    assert results.runs["timeouts"].max() < 5
    assert not results.summary()["why"].str.contains("1[0-9] timeouts").any()
    beware, harmless = notes(material(results))
    assert beware == []
    assert harmless == [
        "2 of 4 subflows of upload never came up: no route from 10.0.1.1 to 10.0.2.2 and from 10.0.2.1 to 10.0.1.2; "
        "every address has another"
    ]
