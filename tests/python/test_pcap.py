"""What `polypath pcap` says of captures of the simulator."""

import json
import re
import struct
from collections import defaultdict
from html.parser import HTMLParser

import pyarrow.parquet as pq
import pytest
from test_captures import INSIDE, PARTS, captured

from polypath import _native
from polypath.pcap import PcapError, analyse, series_table, subflow_table
from polypath.report import Part, Replayed, _pcap, capture_page


def by_addresses(subflows, numbers):
    sums = defaultdict(lambda: [0] * len(numbers))
    for ends, values in subflows:
        for place, name in enumerate(numbers):
            sums[ends][place] += values[name]
    return dict(sums)


@pytest.mark.parametrize("name", PARTS)
def test_its_figures_are_the_counters_of_the_run(name, request, tmp_path):
    outcome, files = captured(name, request.config.rootpath, tmp_path, at=INSIDE.get(name))
    report = analyse(files)
    assert not any(file["broken"] or file["unread"] for file in report["files"])
    numbers = ("retransmissions", "bytes_acked")
    counted = by_addresses(
        [((subflow["source"], subflow["destination"]), subflow) for flow in outcome["flows"] for subflow in flow["subflows"]], numbers
    )
    found = [subflow for connection in report["connections"] for subflow in connection["subflows"]]
    bare = [tuple(subflow[end].rpartition(":")[0] for end in ("client", "server")) for subflow in found]
    # The counter counts an acknowledged FIN, as Linux's does; the capture counts payload.
    fins = [bool(subflow["end"]) and (subflow["end"]["how"], subflow["end"]["by"]) == ("FIN", "client") for subflow in found]
    sent = [
        {**subflow["directions"][0], "bytes_acked": subflow["directions"][0]["acked_bytes"] + fin}
        for subflow, fin in zip(found, fins, strict=True)
    ]
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
        # 5 or 10 ms, and 2 ms at the bottleneck, where packets wait; the same back.
        assert 7 < sent["one_way_delay"]["min_ms"] < sent["rtt"]["min_ms"] - 7
        assert sent["one_way_delay"]["count"] > 100
    assert connection["data"][0]["acked_bytes"] <= connection["data"][0]["sent_bytes"]


def test_the_paths_of_a_tunnel_show_the_connection_inside(request, tmp_path):
    files = []
    for link in ("a-r1", "a-r2"):
        (tmp_path / link).mkdir()
        outcome, found = captured("mpt-gre", request.config.rootpath, tmp_path / link, at={"link": link})
        files += found
    (connection,) = analyse(files, one_end=True)["connections"]
    (subflow,) = connection["subflows"]
    (counted,) = outcome["flows"][0]["subflows"]
    assert connection["in_tunnel"]
    assert [subflow[end].rpartition(":")[0] for end in ("client", "server")] == [counted["source"], counted["destination"]]
    sent = subflow["directions"][0]
    assert sent["acked_bytes"] == counted["bytes_acked"] > 1_000_000
    assert sent["one_way_delay"] is None, "both files are of one end"
    # The paths' queues change the order; what TCP sent again is told from that by its time.
    assert sent["retransmissions"] == pytest.approx(counted["retransmissions"], abs=2)
    assert sent["reordered"] > 100
    assert sent["segments"] == counted["data_segments_sent"]
    assert sent["acked_bytes"] <= sent["bytes"]
    assert sent["file"] == ", ".join(map(str, files))
    (apart,) = (each["subflows"][0]["directions"][0] for each in analyse(files)["connections"])
    assert 0 < apart["segments"] < sent["segments"], "a file alone has a part"


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
        ("endpoints-v1", ["only one subflow carried data until the capture ends: the others are backups"]),
        ("scheduler-v1-backup", ["only one subflow carried data until the capture ends: no MP_JOIN was sent"]),
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


def test_series_add_up_and_the_command_prints_tables_json_and_parquet(request, tmp_path, polypath):
    _, files = captured("nitk", request.config.rootpath, tmp_path)
    code, said, _ = polypath("pcap", *files)
    assert code == 0 and "mptcp v0" in said and "(join)" in said
    code, said, _ = polypath("pcap", "--json", "--parquet", tmp_path / "subflows.parquet", *files)
    assert code == 0
    report = json.loads(said)
    table = pq.read_table(tmp_path / "subflows.parquet")
    assert table == subflow_table(report)
    assert table.num_rows == 2 * sum(len(connection["subflows"]) for connection in report["connections"])
    report = analyse(files)
    table = series_table(report).to_pandas()
    (connection,) = report["connections"]
    whole = table[table["subflow"].isna() & (table["sender"] == "client")]
    assert whole["sent_bytes"].iloc[-1] == connection["data"][0]["sent_bytes"]
    assert whole["acked_bytes"].iloc[-1] == connection["data"][0]["acked_bytes"]
    reached = 0
    for place, subflow in enumerate(connection["subflows"]):
        sent = subflow["directions"][0]
        own = table[(table["subflow"] == place) & (table["sender"] == "client")]
        for name, total in (("new_bytes", "bytes"), ("retransmitted_bytes",) * 2, ("reinjected_bytes",) * 2):
            assert own[name].sum() == sent[total]
        assert own["acked_bytes"].iloc[-1] == sent["acked_bytes"]
        assert own["rtt_ms"].min() >= sent["rtt"]["min_ms"]
        assert own["time_s"].is_monotonic_increasing
        assert own["dsn"].dropna().gt(0).all()
        reached = max(reached, own["dsn"].max(), own["reinjected_dsn"].max())
    assert reached == connection["data"][0]["sent_bytes"]


class Page(HTMLParser):
    """Open tags, ids and addresses of a page."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag not in ("meta", "br", "link", "img", "input", "hr"):
            self.open.append(tag)
        self.ids += [value for name, value in attributes if name == "id"]
        self.links += [value for name, value in attributes if name in ("href", "src", "xlink:href")]

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_stands_alone_and_begins_with_the_diagnosis(request, tmp_path, polypath):
    _, files = captured("poster", request.config.rootpath, tmp_path)
    assert polypath("pcap", "--html", tmp_path / "page.html", "--series", tmp_path / "series.parquet", *files)[0] == 0
    report = analyse(files)
    assert pq.read_table(tmp_path / "series.parquet") == series_table(report)
    text = (tmp_path / "page.html").read_text()
    page = Page(text)
    assert not page.open
    assert len(page.ids) == len(set(page.ids))
    assert all(link.startswith("#") and link[1:] in page.ids for link in page.links), "nothing is fetched"
    assert not re.search(r"@import|url\((?!#)", text)
    diagnosis = [sentence for connection in report["connections"] for sentence in connection["diagnosis"]]
    assert text.index("What stands out") < text.index("<table")
    assert all(sentence.replace("'", "&#39;") in text for sentence in diagnosis)
    made = capture_page(report)
    (direction, *_) = made.connections[0].directions
    assert [figure.title for figure in direction.figures] == [
        "Goodput of each subflow",
        "Progress of the data, by subflow",
        "Round-trip time",
        "Receive window",
        "Segment sizes",
    ]
    # Every bar of the histogram names a size that was measured.
    (most, _), *_ = report["connections"][0]["subflows"][0]["directions"][0]["sizes"]
    assert f">{most}<" in direction.figures[-1].svg


def test_a_page_of_nothing_and_of_icmp_errors(request, tmp_path, polypath):
    (tmp_path / "empty.pcap").write_bytes(bytes.fromhex("d4c3b2a1020004000000000000000000ffff000065000000"))
    assert polypath("pcap", "--html", tmp_path / "page.html", tmp_path / "empty.pcap")[0] == 0
    assert "There is no TCP connection in these packets." in (tmp_path / "page.html").read_text()
    connection = diagnosed("mtu-icmp-0-tcp-v1", request.config.rootpath, tmp_path)
    report = {"start_ns": 0, "files": [{"name": "a", "packets": 1, "unread": 0, "broken": None, "icmp": []}], "connections": [connection]}
    (view,) = capture_page(report).connections
    assert [cell.text for cell in view.icmp.rows[0]][1:4] == ["ICMP fragmentation needed", "10.0.1.3", "client"]
    assert "fragmentation needed: 1200 bytes" in view.directions[0].figures[1].svg


def delayed(connection, by):
    """The same connection, later."""
    later = json.loads(json.dumps(connection))
    later["began_s"] += by
    for part in [*later["data"], *(sent for subflow in later["subflows"] for sent in subflow["directions"])]:
        part["series"]["time_s"] = [time + by for time in part["series"]["time_s"]]
    return later


def test_failed_parts_of_a_test_come_first_and_what_is_left_out_is_said(request, tmp_path, monkeypatch):
    connection = diagnosed("small-buffers", request.config.rootpath, tmp_path)
    monkeypatch.setattr(_pcap, "DRAWN", 1)
    monkeypatch.setattr(_pcap, "_figures", lambda *_: [])
    report = {"start_ns": 0, "files": [], "connections": [connection] * 5}
    verdicts = ["pass", "ignored", "fail", "fail"]
    parts = [Part(name=f"subtest {number}, x", verdict=verdict) for number, verdict in enumerate(verdicts, 1)]
    page = capture_page(report, Replayed(during=[*parts, None], began_s=0.5336))
    names = [row[0].text.partition(":")[0] for row in page.overview.rows]
    assert names[:4] == ["subtest 3, x (fail)", "subtest 4, x (fail)", "subtest 2, x (ignored)", "subtest 1, x (pass)"]
    assert [view.title.partition(":")[0] for view in page.connections] == ["subtest 3, x (fail)"]
    assert page.left_out.startswith(
        "1 of 5 connections have figures, those of failed subtests, then those that carried most. 4 have none: "
    )
    assert all(name in page.left_out for name in names[1:]) and "--subtest N" in page.left_out
    assert page.machine == "0.534"
    monkeypatch.setattr(_pcap, "DRAWN", 8)
    assert not capture_page(report).left_out


def test_a_page_leads_with_the_bulk_and_shows_the_time_of_the_connection_alone(request, tmp_path):
    connection = delayed(diagnosed("small-buffers", request.config.rootpath, tmp_path), 4000)
    said = "MPTCP sent again"
    connection["joined"] = said
    connection["data"].reverse()
    for subflow in connection["subflows"]:
        subflow["directions"].reverse()
        # Of MPTCP, so that the bulk goes again, too.
        sent = subflow["directions"][1]
        sent["mptcp_retransmitted_bytes"] = 1234
        sent["series"]["mptcp_retransmitted_dsn"][-1] = 1000
    (view,) = capture_page({"start_ns": 0, "files": [], "connections": [connection]}).connections
    assert view.directions[0].title == "What the server sent" and view.words.startswith("The server sent")
    assert view.diagnosis[-1] == said
    figures = view.directions[0].figures
    assert all(re.search(r">4,?00[\d.]*[1-9]<", figure.svg) and ">0.5<" not in figure.svg for figure in figures[:4])
    assert "e+0" not in figures[0].caption and "A triangle is" in figures[1].caption
    columns = [column.title for column in view.subflows.columns]
    assert "1.2" in [row[columns.index("MPTCP again")].text for row in view.subflows.rows]


def test_what_is_missing_or_no_capture_is_one_sentence(tmp_path, polypath, request):
    (tmp_path / "notes.txt").write_text("no packets here\n")
    for words, sentence in [
        ([tmp_path / "nothing.pcap"], "No such file"),
        ([tmp_path / "notes.txt"], "this is no capture"),
        ([tmp_path / "notes.txt"] * 2, "a file is named twice"),
    ]:
        code, _, err = polypath("pcap", *words)
        assert code == 2 and sentence in err
    with pytest.raises(PcapError, match="no capture"):
        analyse([tmp_path / "notes.txt"])
    _, (file, *_) = captured("nitk", request.config.rootpath, tmp_path)
    for option in ("--html", "--parquet", "--series"):
        for target, sentence in ((tmp_path / "none" / "out", "the result cannot be written"), (file, "is one of the captures, and would")):
            code, _, err = polypath("pcap", option, target, file)
            assert code == 2 and sentence in err
    file.write_bytes(file.read_bytes()[:-10])
    # What was read is told, with an exit status of its own.
    code, out, err = polypath("pcap", file)
    assert code == 1 and "mptcp v0" in out and "cut off in the middle of a packet" in err


def written(path, packets):
    """A pcap of TCP segments without options between 10.0.0.1:4000 and 10.0.0.2:80: s, whether the client sends it, bytes before
    it, and payload.
    """
    parts = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101)]
    for time_s, is_from_client, before, length in packets:
        addresses, ports = [bytes((10, 0, 0, 1)), bytes((10, 0, 0, 2))], [4000, 80]
        numbers = [1000 + before, 5000]
        if not is_from_client:
            addresses, ports, numbers = addresses[::-1], ports[::-1], numbers[::-1]
        ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 40 + length, 0, 0, 64, 6, 0, *addresses)
        packet = ip + struct.pack(">HHIIBBHHH", *ports, *numbers, 0x50, 0x10, 1460, 0, 0) + bytes(length)
        parts.append(struct.pack("<IIII", int(time_s), round(time_s % 1 * 1e6), len(packet), len(packet)) + packet)
    path.write_bytes(b"".join(parts))
    return path


def test_a_part_of_a_connection_and_a_clock_that_goes_back_are_said_to_be_so(tmp_path, polypath):
    rounds = [
        (2000 + number / 10 + (not data) / 20, data, 1460 * (number + (not data)), 1460 * data)
        for number in range(20)
        for data in (True, False)
    ]
    page = tmp_path / "page.html"
    code, out, err = polypath("pcap", "--html", page, written(tmp_path / "middle.pcap", rounds))
    said = " ".join(out.split())
    assert (code, err) == (0, "") and "whether the receive window of the server limited the client is not known" in said
    assert "limited by" not in said and "Window full" not in page.read_text()
    back = written(tmp_path / "back.pcap", [*rounds, *((time_s - 898, *rest) for time_s, *rest in rounds)])
    code, _, err = polypath("pcap", back)
    assert code == 0 and "its times go back by up to 900 s, so delays, rates and shares of time may be wrong" in " ".join(err.split())
    code, out, _ = polypath("pcap", written(tmp_path / "half.pcap", [packet for packet in rounds if packet[1]]))
    assert code == 0 and "10.0.0.1:4000 to 10.0.0.2:80: the capture shows only what the client sent" in " ".join(out.split())
