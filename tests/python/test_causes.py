"""What a study asks for and does not get is said, and what limited a flow is named by its cause."""

import io
import re
from pathlib import Path

import pytest
from requirement import lacking
from rich.console import Console

from polypath import Study, StudyError
from polypath import run as simulate
from polypath.analysis import bare, subflows_across, subflows_opened, tunnels_as_paths, without_route
from polypath.cli import _show, _summary
from polypath.engines import EngineError, find
from polypath.linux import KernelError
from polypath.report import material, notes, page
from polypath.report._notes import _where
from polypath.results import plan
from polypath.study import Link, cells, chain, scenario

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
    route = {"source": "10.9.0.1", "destination": "10.9.0.2", "via": "bond"}
    assert bypassed(routes=[route]).flows["backup"].routes[0].via == ("bond",)


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


def test_a_tunnel_that_one_cell_uses_need_carry_nothing_in_another(tmp_path):
    flow = {"client": "site", "server": "hub", "transport": "tcp", "client_address": "${from}"}
    study = bypassed().replace(flows={"backup": flow}, matrix={"from": ["10.0.1.1", "10.9.0.1"]})
    results = simulate(study, out=tmp_path)
    assert sorted(results.tunnel_paths.groupby("key")["packets_sent"].sum() > 0) == [False, True]
    assert notes(material(results)) == ([], [])


def test_a_flow_in_the_tunnel_needs_its_addresses_alone(tmp_path):
    results = simulate(bypassed(transport="tcp", client_address="10.9.0.1"), out=tmp_path)
    assert notes(material(results)) == ([], [])
    assert results.tunnel_paths["packets_sent"].sum() > 100
    # 36 bytes of the tunnel's headers and 14 of the link's beside 1412 of payload.
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


SAID = "up can have only 1 of its 2 subflows: no route from 10.0.3.1 to 10.0.2.2"


def test_a_subflow_that_no_route_carries(tmp_path):
    study = Study.load(DATA / "backup-used.yaml").replace(duration="3s", seeds=1)
    made = plain(study)
    assert without_route(made) == [SAID]
    alike = {**made, "flows": [{**made["flows"][0], "name": name} for name in "abcdef"]}
    assert without_route(alike) == [SAID.replace("up", "each of a, b, c, d and 2 more")]
    results = simulate(study, out=tmp_path)
    told = "up had only 1 of its 2 subflows: no route from 10.0.3.1 to 10.0.2.2"
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
    assert set(zip(never["source"], never["destination"], strict=True)) == {("10.0.1.1", "10.0.4.2"), ("10.0.3.1", "10.0.2.2")}
    assert never["timeouts"].sum() > 20, "every SYN is sent again and again"
    up = results.subflows[results.subflows["established_s"].notna()]
    assert list(results.runs["timeouts"]) == list(up.groupby("key", sort=False)["timeouts"].sum())
    assert results.runs["timeouts"].max() < 5
    assert not results.summary()["why"].str.contains("1[0-9] timeouts").any()
    beware, harmless = notes(material(results))
    assert beware == []
    assert harmless == [
        "upload had 2 of its 4 subflows: no route from 10.0.1.1 to 10.0.4.2 and from 10.0.3.1 to 10.0.2.2; "
        "every address has another subflow, so no path is missing"
    ]


LOST_ANNOUNCEMENT = """
name: lost
topology:
  nodes: {phone: , server: }
  links:
    wifi: {ends: [phone, server], both: {rate: 50mbit, rtt: 20ms, loss: 1%}}
    lte: {ends: [phone, server], both: {rate: 30mbit, rtt: 60ms, queue: 500ms}}
flows:
  download: {client: phone, server: server, transport: mptcp, direction: download, cc: lia, start_spread: 100ms}
baselines: null
duration: 2s
seeds: [8, 9]
"""


def test_what_was_never_tried_has_no_cause(tmp_path):
    (tmp_path / "study.yaml").write_text(LOST_ANNOUNCEMENT)
    study = Study.load(tmp_path)
    assert subflows_opened(plain(study)) == [
        "download opens 4 subflows over 2 paths, by its path manager fullmesh: "
        "one from each address of the client to each of the server that a route leads to"
    ]
    beside = {"kind": "endpoints", "addresses": [{"address": "10.0.2.1"}]}
    assert subflows_opened(plain(study.set("flows.download.path_manager", beside))) == []
    # Two direct links are what everybody has; with a third every path has three subflows.
    third = {"ends": ["phone", "server"], "both": {"rate": "10mbit"}}
    assert subflows_across(plain(study)) == []
    (across,) = subflows_across(plain(study.set("topology.links.dsl", third)))
    assert across.startswith("download opens 9 subflows over 3 paths")
    assert plan(study.set("topology.links.dsl", third), engine=find("sim"), out=tmp_path).notes[0] == across
    results = simulate(study, out=tmp_path / "results")
    # The announcement of 10.0.2.2 is lost with one of both seeds.
    ((sentence,), harmless) = notes(material(results))
    assert sentence == (
        "download had only 2 of its 4 subflows: none from 10.0.1.1 to 10.0.2.2 and from 10.0.2.1 to 10.0.2.2 (in 1 of 2 runs)"
    )
    assert harmless == []


LINE = {"rate": "20mbit", "delay": "10ms", "queue": "100packets"}
TCP = {"client": "c", "server": "s", "transport": "tcp", "cc": "cubic"}
MPTCP = {**TCP, "transport": "mptcp"}
CHAIN = [{"kind": "rate", "rate": "20mbit", "queue": "100packets"}, {"kind": "delay", "delay": "10ms"}]
THIN = {"forward": {**LINE, "rate": "100kbit"}, "backward": LINE}
SILENT = {"kind": "mtu", "size": "1400B", "oversize": "silent"}
STOPS = {"kind": "loss", "share": "0%", "changes": [{"at": "1s", "to": "100%"}]}
BACKUP = {"kind": "endpoints", "addresses": [{"address": "10.0.2.1", "backup": True}]}
ANYWHERE = {"c": None, "s": {"addresses": ["10.9.9.9"]}}


def of_links(links, flow, nodes=None, **more):
    ends = {name: {"ends": ["c", "s"], **(each if isinstance(each, dict) else {"both": each})} for name, each in links.items()}
    topology = {"nodes": nodes or {"c": None, "s": None}, "links": ends}
    flows = flow if "client" not in flow else {"f": flow}
    return Study.model_validate({"name": "cause", "topology": topology, "flows": flows, "duration": "6s", "baselines": None, **more})


CASES = {
    "a path that silently drops full packets": (
        ({"l": [*CHAIN, SILENT]}, TCP),
        "black hole",
        r"packets of more than 1400 bytes vanish at c → s \(l\) without an ICMP message \(\d+ were dropped there\)",
    ),
    "one of two paths does": (
        ({"l": [*CHAIN, SILENT], "m": CHAIN}, MPTCP),
        "black hole of l",
        r"cubic gives l \d packets? \(0.0 of 18.\d Mbit/s\), because packets of more than 1400 bytes vanish",
    ),
    "a path that loses everything from a second on": (
        ({"l": [*CHAIN, STOPS]}, TCP, None, {"measure": {"window": ["2s", "6s"]}}),
        "black hole",
        "nothing arrived: l let nothing pass for 4 s",
    ),
    "datagrams of which none arrives": (
        ({"l": {"both": {**LINE, "loss": "100%"}}}, {**TCP, "transport": "udp", "cc": None, "app": {"kind": "constant", "rate": "1mbit"}}),
        "black hole",
        "nothing arrived: l let nothing pass",
    ),
    "a handshake that is under way": (
        ({"l": {"both": {**LINE, "delay": "4s"}}}, TCP),
        "not connected",
        "the connection was never established",
    ),
    "loss": (
        ({"l": {"both": {**LINE, "loss": "1%"}}}, TCP),
        "loss on l",
        r"cubic keeps \d+ packets under way \(\d\.\d of 19.1 Mbit/s\), because l loses (0\.\d+|1(\.\d)?) % of its packets",
    ),
    "loss of a download": (({"l": {"both": {**LINE, "loss": "1%"}}}, {**TCP, "direction": "download"}), "loss on l", "because l loses"),
    "outages": (
        ({"l": [*CHAIN, {"kind": "down", "spans": [["1s", "2s"], ["3s", "4s"]]}]}, TCP),
        "outages of l",
        "because l let nothing pass for 2 s",
    ),
    "a queue of three packets": (
        ({"l": {"both": {**LINE, "queue": "3packets"}}}, TCP),
        "short queue of l",
        r"the queue of c → s \(l\) \(3 packets\) overflowed \d+ times",
    ),
    "loss behind a queue of five round trips, which overflows in slow start": (
        # A hole on the lossy path may keep the receive window shut for seconds: seeds differ.
        (
            {"l": {"both": {"rate": "50mbit", "rtt": "20ms", "queue": "100ms", "loss": "0.1%"}}, "m": CHAIN},
            {**MPTCP, "cc": "lia"},
            None,
            {"seeds": 4},
        ),
        "loss on l",
        "lia gives l .* because it loses",
    ),
    "acknowledgements of a download": (
        ({"l": THIN}, {**TCP, "direction": "download"}),
        "acknowledgements",
        r"wait on the way back: c → s \(l\) had a queue \d+ % of the time, and the round trip grew from",
    ),
    "a backup that is not needed": (
        ({"l": CHAIN, "m": CHAIN}, {**MPTCP, "server_address": "10.9.9.9", "path_manager": BACKUP}, ANYWHERE),
        "backup",
        "m is a backup, which carries data only when no other subflow works",
    ),
    "a transfer of a few round trips": (
        ({"l": {"both": {**LINE, "delay": "100ms"}}}, {**TCP, "app": {"kind": "transfer", "size": "200KB"}}),
        "slow start",
        "lived for 3 round trips",
    ),
    "a transfer that is complete before the window begins": (
        (
            {"l": {"both": {**LINE, "loss": "2%"}}},
            {**TCP, "app": {"kind": "transfer", "size": "1MB"}},
            None,
            {"duration": "9s", "measure": {"window": ["8s", "9s"]}},
        ),
        "loss on l",
        r"under way \([1-9]\.\d of 19.1 Mbit/s\), because l loses",
    ),
    "a queue that is never empty": (({"l": CHAIN}, TCP), "links", "packets waited at the bottleneck"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_limited_names_the_cause(case, tmp_path):
    (links, flow, *more), name, words = CASES[case]
    flow = {field: value for field, value in flow.items() if value is not None}
    study = of_links(links, flow, *more[:1], **(more[1] if len(more) > 1 else {}))
    (row,) = simulate(study, out=tmp_path).summary().to_dict("records")
    assert row["limited_by"] == name
    assert re.search(words, row["why"]), row["why"]


def test_acknowledgements_behind_the_data_of_another_flow(tmp_path):
    thin = {"forward": {**LINE, "rate": "1mbit"}, "backward": LINE}
    study = of_links({"l": thin}, {"down": {**TCP, "direction": "download"}, "up": TCP})
    found = simulate(study, out=tmp_path).summary().set_index("flow")
    assert found.loc["down", "limited_by"] == "acknowledgements"
    assert found.loc["down", "why"].startswith("acknowledgements wait on the way back behind data of other flows: c → s (l)")


def test_acknowledgements_fill_the_way_back(tmp_path):
    results = simulate(Study.load(DATA / "asym-ack.yaml").replace(duration="30s"), out=tmp_path)
    found = results.summary().set_index(["cc", "q"])["limited_by"].to_dict()
    ways = {"acknowledgements": [("bbr", "1000packets"), ("bbr", "20packets"), ("cubic", "1000packets"), ("reno", "1000packets")]}
    assert sorted(cell for cell, name in found.items() if name == "acknowledgements") == ways["acknowledgements"]
    assert "acknowledgements wait on the way back: b → a (link) had a queue" in " ".join(printed(results).split())
    headlines = " ".join(page(material(results)).headlines)
    assert "from" in headlines


def test_a_tunnel_that_gives_half_to_the_slower_line(tmp_path):
    study = Study.load(DATA / "bond-unequal.yaml").replace(duration="10s", measure={"window": ["3s", "10s"]})
    # Beside another tunnel over the same line, which nothing goes through.
    ends = [{"node": "a", "address": "10.8.0.1"}, {"node": "b", "address": "10.8.0.2"}]
    aside = {"ends": ends, "port": 2346, "paths": [{"ends": ["10.2.0.1", "10.2.0.2"]}]}
    study = study.set("topology.tunnels.aside", aside)
    results = simulate(study, out=tmp_path)
    found = results.summary().set_index(["rule", "how", "w", "streams", "flow"])
    equal, weighed = found.loc["progress", "turns", 1, 1, "down"], found.loc["progress", "turns", 5, 1, "down"]
    assert equal["limited_by"] == "tunnel's distribution"
    assert re.match(
        r"by its weights the tunnel bond sends 50 % of the packets over usb, which is full \(11.2 Mbit/s\), while wire \(60.6 Mbit/s\) is",
        equal["why"],
    )
    assert weighed["limited_by"] != "tunnel's distribution"
    # A little of what arrives in the window was sent before it.
    assert found["of_possible"].between(0.01, 1.02).all()
    assert found.loc["off", "turns", 5, 1, "down"]["limited_by"] == "reordering"
    # The four connections of `count: 4` have a sum.
    sums = [line for line in printed(results).splitlines() if "down x 4" in line]
    assert len(sums) == 6
    assert all("all together" in line and "–" in line for line in sums)
    four = results.runs[(results.runs["streams"] == 4) & (results.runs["how"] == "earliest") & (results.runs["w"] == 1)]
    assert f"{four['goodput_receiver_mbps'].sum():.2f}" in sums[-2]


def test_a_coupled_algorithm_and_what_it_gives_each_path(tmp_path):
    results = simulate(Study.load(DATA / "thesis.yaml").replace(baselines=None), out=tmp_path)
    why = results.summary().set_index("cc")["why"]
    told = r"lia gives wifi \d packets \(\d\.\d of 47.0 Mbit/s\), because it loses 0\.\d+ % of its packets, "
    told += r"and keeps \d+ packets waiting at lte"
    assert re.match(told, why["lia"])
    assert re.search(told, " ".join(printed(results).split()))
    assert re.search(told, " ".join(page(material(results)).headlines))


def linux(study, tmp_path):
    try:
        return simulate(study, out=tmp_path, engine="linux")
    except (EngineError, KernelError) as error:
        lacking("linux", str(error))


@pytest.mark.parametrize("engine", ["sim", "linux"])
def test_direct_links_are_one_network_on_every_engine(engine, tmp_path):
    study = Study.load(DATA / "direct-links.yaml").replace(
        duration="4s", seeds=1, baselines=None, matrix={"loss": ["5%"], "b": [True, False]}
    )
    assert without_route(plain(study)) == []
    results = linux(study, tmp_path) if engine == "linux" else simulate(study, out=tmp_path)
    # The second subflow takes the link of its source to an address of the other link.
    pairs = {tuple(bare(end) for end in pair) for pair in zip(results.subflows["source"], results.subflows["destination"], strict=True)}
    assert pairs == {("10.0.1.1", "10.0.1.2"), ("10.0.2.1", "10.0.1.2")}
    assert list(results.runs["subflows"]) == [2, 2]
    assert notes(material(results)) == ([], [])
    found = results.summary().set_index("b")
    assert list(found["of_paths"]) == ["", ""]
    assert found.loc[True, "limited_by"] == "loss on main"
    assert "spare is a backup" in found.loc[True, "why"]
    assert found.loc[False, "of_possible"] > 3 * found.loc[True, "of_possible"]


def shown(link):
    return [_show._words(element) for element in chain(Link.model_validate({"ends": ["a", "b"], "both": link}).both)]


def test_show_tells_changes_in_few_words():
    same = {"rate": "15mbit", "delay": "7.5ms"}
    times = [(at, f"{loss}%") for start in (147, 297, 447, 597) for at, loss in ((start, 100), (start + 3, 0))]
    outages = [{**same, "at": f"{at}00ms", "loss": loss} for at, loss in times]
    link = {**same, "loss": "0%", "changes": outages}
    assert shown(link) == ["loss 0% 4 outages of 300ms from 14.7s on", "rate 15mbit", "delay 7.5ms"]
    # The last one ends with the table, or not at all.
    table = [{"kind": "loss", "share": "0%", "changes": [{"at": change["at"], "to": change["loss"]} for change in outages[:-1]]}]
    assert shown(table) == ["loss 0% 3 outages of 300ms from 14.7s on, and one from 59.7s on"]
    assert shown([{**table[0], "repeat": "60s"}]) == ["loss 0% 4 outages of 300ms from 14.7s on every 60s"]
    once = [{"at": "59700ms", "to": "100%"}]
    assert shown([{**table[0], "changes": once}]) == ["loss 0% changes from 59.7s 100%"]
    assert shown([{**table[0], "changes": once, "repeat": "60s"}]) == ["loss 0% outages 59.7s to 60s every 60s"]
    # What stays as it was repeats nothing.
    still = {"kind": "delay", "delay": "20ms", "changes": [{"at": "15s", "to": "20ms"}], "repeat": "60s"}
    assert shown([still]) == ["delay 20ms"]
    steps = [{"at": f"{at}s", "rate": f"{rate}mbit"} for at, rate in enumerate((10, 12, 9, 15), start=1)]
    assert shown({"rate": "15mbit", "changes": steps}) == ["rate 15mbit 4 changes from 1s to 4s: 9mbit to 15mbit"]
    assert shown({"delay": "10ms", "changes": [{"at": "1500ms", "delay": "12250us"}]}) == ["delay 10ms changes from 1.5s 12.25ms"]
    assert shown([{"kind": "down", "spans": [["1s", "2s"], ["3s", "4500ms"], ["5s", "6s"]]}]) == ["down 3 outages of 1s to 1.5s from 1s on"]


def test_a_duration_stands_at_the_top_once(tmp_path):
    file = tmp_path / "study.yaml"
    topology = "topology: {nodes: {a: , b: }, links: {l: {ends: [a, b], both: {rate: 1mbit}}}}"
    flows = "experiments: {e: {duration: 3s, flows: {f: {client: a, server: b}}}}"
    file.write_text(f"name: x\n{topology}\n{flows}\n", encoding="utf-8")
    with pytest.raises(StudyError, match="the field `duration` is missing: experiments may replace it, but it has to stand here once"):
        Study.load(file)


def test_a_search_for_the_mtu_says_whose_rule_it_is(tmp_path):
    path = {"ends": ["c", "s"], "mtu": "1480B", "both": {"rate": "200mbit", "queue": "1500packets", "loss": "1%", "delay": "42500us"}}
    topology = {"nodes": {"c": {"mtu_search": "${search}"}, "s": {"mtu_search": "${search}"}}, "links": {"path": path}}
    matrix = {"search": ["quinn", "quinn-0.11.16"]}
    study = {"name": "quinn", "topology": topology, "flows": {"f": {**TCP, "cc": "bbr"}}, "duration": "10s", "baselines": None, "seeds": 4}
    results = simulate(Study.model_validate({**study, "matrix": matrix}), out=tmp_path)
    # Ordinary loss is a black hole for the release's rule alone: 1200 less 52 of headers.
    sizes = results.subflows.groupby("search")["mss"].agg(list).to_dict()
    assert sizes == {"quinn": [1428] * 4, "quinn-0.11.16": [1148] * 4}
    text = " ".join(printed(results).split())
    assert "segment" in text and " 1148 " in text
    assert "as quinn since August 2026" in text and "as quinn 0.11.16" in text
    assert any(name == "Search for the MTU quinn" for name, _ in page(material(results)).setup)


def test_what_some_seeds_of_a_cell_have_says_of_how_many_runs(tmp_path):
    study = of_links({"l": CHAIN}, TCP, seeds=3)
    results = simulate(study.replace(duration="1s", flows={"f": {**TCP, "cc": "${cc}"}}, matrix={"cc": ["reno", "lia"]}), out=tmp_path)
    tables = material(results)
    keys = list(tables.runs.loc[tables.runs["cc"] == "reno", "key"])
    assert _where(tables, keys) == " (reno)"
    assert _where(tables, keys[:1]) == " (in 1 of 3 runs of reno)"
    assert _where(tables, list(tables.runs["key"])) == ""
