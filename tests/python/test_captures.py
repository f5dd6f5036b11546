"""What the simulator captures, judged by tshark."""

import json
import runpy
import shutil
import subprocess
from collections import defaultdict

import pytest
from requirement import lacking
from study_data import changed, written

from polypath import Study, StudyError, _native, advise
from polypath.advise import _study as of_advice
from polypath.engines import SimEngine, check
from polypath.results import execute, plan
from polypath.study import Time, cells, scenario

ORDER = [
    "tcp.analysis.retransmission",
    "tcp.analysis.fast_retransmission",
    "tcp.analysis.spurious_retransmission",
    "tcp.analysis.out_of_order",
]
# A checksum that was looked at is 1 if it is right and 0 if it is wrong.
STATUS = ["ip.checksum.status", "tcp.checksum.status", "udp.checksum.status"]
FIELDS = ["ip.src", "ip.dst", "tcp.stream", "mptcp.stream", "tcp.len", "tcp.ack", "tcp.flags.syn", "_ws.malformed", *STATUS, *ORDER]
CHECKS = [word for name in ("tcp.check_checksum", "ip.check_checksum", "udp.check_checksum") for word in ("-o", f"{name}:TRUE")]


def tshark(file, *words):
    done = subprocess.run(["tshark", "-n", "-r", str(file), *CHECKS, *words], capture_output=True, text=True, check=True)
    return [line.split("\t") for line in done.stdout.splitlines()]


@pytest.fixture(autouse=True)
def _tshark():
    if shutil.which("tshark") is None:
        # Whoever may run the host engine, root, may install it, and make does.
        lacking("host", "tshark is not installed")


# Of each study a cell with Multipath TCP, where there is one with loss.
PARTS = {
    "simult-flows": {},
    "poster": {"experiment": "worse-loss", "loss": "1%", "cc": "lia"},
    "linux-6.8": {"experiment": "alone", "cc": "cubic"},
    "nitk": {"experiment": "v0", "cc": "olia"},
    "linux-reference": {"experiment": "d-loss"},
    # Without ICMP: what it quotes is cut, and tshark calls the checksum of a cut segment wrong.
    "mtu": {"experiment": "mixed", "stack": "6.12", "oversize": "silent", "probing": "2"},
    "atlas": {"experiment": "bulk", "cc": "lia", "draw": "2"},
    # Its studies are made by the advisor, of the first pair of its truth.
    "advice": {"setting": "all-lia"},
    "mpt-gre": {"experiment": "nic-loss", "cc": "reno", "loss": "1%"},
    "reorder": {"experiment": "loss-05", "cc": "cubic", "rule": "progress"},
    "bbr-shared": {"experiment": "figure-2a", "count": "1"},
    "hybrid": {"experiment": "even", "streams": "1"},
    "jittertrap": {"experiment": "baseline", "cc": "cubic"},
    "rfc9438": {"experiment": "loss-1e-3", "cc": "cubic"},
    "one-tcp-many-paths": {"experiment": "ours-loss", "cc": "cubic", "loss": "1%"},
    "schedulers": {"experiment": "beside", "scheduler": "redundant", "draw": "2"},
}
# The device of the tunnel, where the flow's packets are themselves.
INSIDE = {"mpt-gre": {"link": "mpt"}, "reorder": {"link": "bond"}, "hybrid": {"link": "bond"}, "one-tcp-many-paths": {"link": "bond"}}


def study_of(name, root):
    """The study of this name; of the advice one that the advisor makes, with uploads."""
    folder = root / "studies" / name
    if (folder / "study.yaml").exists():
        return Study.load(folder)
    link = runpy.run_path(str(folder / "truth.py"))["link"]
    paths = (link(0, 1), link(0, 2))
    question = advise.Question(paths=paths, weights=advise.weighted("upload"))
    return of_advice.study(question, [each for each in advise.candidates(paths) if each.name == "all-lia"], [1])


def cell_of(study, wanted):
    return next(c for c in cells(study) if all(str({**c.parameters, "experiment": c.experiment}[k]) == v for k, v in wanted.items()))


def captured(name, root, tmp_path, end="client", at=None):
    """Two seconds of a cell: outcome, and captures at its flows' ends (`at` a link)."""
    setup = cell_of(study_of(name, root), PARTS[name]).setup
    nodes = sorted({getattr(flow, end) for flow in setup.flows.values()})
    capture = [{"node": node, "snaplen": "65535B", **(at or {})} for node in nodes]
    measure = type(setup.measure).model_validate({"series": None, "capture": capture})
    outcome, _, _, files = _native.simulate(json.dumps(scenario(setup.model_copy(update={"duration": Time("2s"), "measure": measure}), 1)))
    for file, data in files.items():
        (tmp_path / file).write_bytes(data)
    return json.loads(outcome), sorted(tmp_path.glob("*.pcapng"))


def test_every_study_has_a_part_here(request):
    assert set(PARTS) == {file.parent.name for file in (request.config.rootpath / "studies").glob("*/README.md")}


@pytest.mark.parametrize("name", PARTS)
def test_tshark_finds_nothing_wrong_and_counts_what_we_count(name, request, tmp_path):
    outcome, files = captured(name, request.config.rootpath, tmp_path, at=INSIDE.get(name))
    seen = defaultdict(lambda: [0, 0, 0])
    packets = 0
    for file in files:
        words = [word for field in FIELDS for word in ("-e", field)]
        every = [dict(zip(FIELDS, row, strict=True)) for row in tshark(file, "-T", "fields", *words)]
        assert not [row for row in every if row["_ws.malformed"] or any("0" in row[status] for status in STATUS)]
        # Of ICMP the fields of the packet that it quotes stand behind a comma.
        rows = [row for row in every if row["tcp.stream"] and "," not in row["ip.src"]]
        packets += len(rows)
        clients = {row["tcp.stream"]: (row["ip.src"], row["ip.dst"]) for row in reversed(rows) if row["tcp.flags.syn"] == "1"}
        acked = defaultdict(int)
        for row in rows:
            stream, ends = row["tcp.stream"], clients[row["tcp.stream"]]
            if row["ip.src"] == ends[0]:
                carries_data = int(row["tcp.len"]) > 0
                seen[ends][0] += carries_data and any(row[field] for field in ORDER)
                seen[ends][2] += carries_data
            elif row["tcp.ack"]:
                acked[stream] = max(acked[stream], int(row["tcp.ack"]) - 1)
        for stream, count in acked.items():
            seen[clients[stream]][1] += count
    ours = defaultdict(lambda: [0, 0, 0])
    for flow in outcome["flows"]:
        for subflow in flow["subflows"]:
            sums = ours[subflow["source"], subflow["destination"]]
            sums[0] += subflow["retransmissions"]
            sums[1] += subflow["bytes_acked"]
            # What the host itself refused never came to the interface.
            sums[2] += subflow["data_segments_sent"] - subflow["mtu_probes_refused"]
    assert seen == ours
    assert packets > 1000


def test_tshark_follows_the_connection_over_its_subflows(request, tmp_path):
    outcome, (file,) = captured("nitk", request.config.rootpath, tmp_path, end="server")
    rows = tshark(file, "-T", "fields", "-e", "mptcp.stream", "-e", "tcp.stream")
    assert {tuple(row) for row in rows} == {("0", str(number)) for number in range(len(outcome["flows"][0]["subflows"]))}
    assert len({stream for _, stream in rows}) == 2


def test_tshark_finds_the_packets_of_a_tunnel_in_gre_in_udp(request, tmp_path):
    _, inside = captured("mpt-gre", request.config.rootpath, tmp_path, at={"link": "mpt"})
    sent = len(tshark(inside[0], "-Y", "ip.src == 10.9.0.1"))
    (tmp_path / "outside").mkdir()
    fields = ["-d", "udp.port==23456,gre", "-T", "fields", "-e", "_ws.malformed", "-e", "ip.src", "-e", "gre.sequence_number"]
    rows = []
    for link in ("a-r1", "a-r2"):
        _, (file,) = captured("mpt-gre", request.config.rootpath, tmp_path / "outside", at={"link": link})
        rows += tshark(file, *fields)
        file.unlink()
    assert not [row for row in rows if row[0]]
    # Of outer and inner header; a keepalive is none of these.
    numbers = sorted(int(row[2]) for row in rows if row[1].endswith(",10.9.0.1"))
    assert sent > 1000
    assert len(numbers) == len(set(numbers))
    # What waits in the device's queue at the end has been seen there, and not outside.
    assert sent - 1500 <= len(numbers) <= sent


def with_capture(places):
    return changed(("seeds: 2\n", f"seeds: 2\nmeasure: {{capture: [{places}]}}\n"), ("duration: 20s", "duration: 1s"))


def test_a_node_alone_stands_for_its_links_and_a_file_says_what_is_missing(tmp_path):
    study = written(tmp_path, with_capture("client, {node: server, packets: 10}"))
    results = execute(plan(study, engine=SimEngine(), out=tmp_path / "out", only={"cc": ["lia"], "rate": ["10mbit"]}))
    folders = sorted((results.folder / "captures").iterdir())
    assert [file.name for file in sorted(folders[0].iterdir())] == ["client-first.pcapng", "client-second.pcapng", "server-last.pcapng"]
    assert len(tshark(folders[0] / "server-last.pcapng")) == 10


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ("nowhere", 'there is no node "nowhere"'),
        ("client:last", 'the link "last" does not end at "client"'),
        ("client, client:first", '"client:first" stands here twice'),
        ('"client:"', 'names no place to capture'),
    ],
)  # fmt: skip
def test_places_that_are_none_are_refused(tmp_path, place, sentence):
    (tmp_path / "study.yaml").write_text(with_capture(place))
    with pytest.raises(StudyError, match=sentence):
        check(SimEngine(), Study.load(tmp_path))
