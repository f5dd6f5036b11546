"""The engine host: studies on this machine's own kernel, in real time."""

import json
import subprocess
import sys
from pathlib import Path
from statistics import mean

import pytest
from requirement import planned_on_host

from polypath import EngineError, Study, StudyError, emu, run
from polypath.engines import HostEngine
from polypath.results import execute, plan

ROOT = Path(__file__).resolve().parents[2]
AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
# Two paths of the same rate, a host behind each end, and an address of the server that both reach.
TWO_PATHS = {
    "nodes": {"c": None, "r": {"router": True}, "s": None},
    "links": {
        "one": {"ends": ["c", "r"], "both": {"rate": "10mbit", "queue": "40packets", "delay": "5ms"}},
        "two": {"ends": ["c", "r"], "both": {"rate": "10mbit", "queue": "40packets", "delay": "10ms"}},
        "last": {"ends": ["r", "s"], "both": {"delay": "1ms"}},
    },
}
FLOW = {"client": "c", "server": "s", "transport": "mptcp", "cc": "cubic", "start_spread": "4ms"}
BASE = {"name": "here", "topology": TWO_PATHS, "flows": {"f": FLOW}, "duration": "2s", "seeds": 2, "baselines": None}


def study(**parts):
    """MPTCP over both paths for two seconds, and what a test changes of it."""
    return Study.model_validate({**BASE, **parts})


def flow(**parts):
    """The one flow of a study, changed."""
    return {"f": {**FLOW, **parts}}


def link(name, **both):
    """The network with one link changed."""
    links = TWO_PATHS["links"]
    return {**TWO_PATHS, "links": {**links, name: {**links[name], "both": {**links[name]["both"], **both}}}}


@pytest.fixture(scope="module", autouse=True)
def host():
    """A machine on which studies run."""
    planned_on_host(study(flows=flow(cc="lia")))


@pytest.fixture(scope="module")
def lia(tmp_path_factory):
    """Three repetitions with an algorithm that no stock kernel has."""
    return run(study(flows=flow(cc="lia"), seeds=3), engine="host", out=tmp_path_factory.mktemp("lia"))


def test_a_coupled_algorithm_fills_both_paths_and_tables_say_what_was(lia):
    # Of 20 Mbit/s, 18.9 are payload; 17 and more were seen, slow start included.
    assert 13 < lia.runs["goodput_receiver_mbps"].mean() < 19
    assert (lia.runs["subflows"] == 2).all()
    assert not lia.runs["fallback"].any()
    assert sorted(lia.subflows.query("key == @lia.runs.key[0]")["source"].str.rpartition(":")[0]) == ["10.0.1.1", "10.0.2.1"]
    by_path = lia.subflows.groupby("subflow")["acked_mbps"].mean()
    assert (by_path > 5).all()
    assert lia.runs["flow_cc"].unique() == ["lia"]
    assert "pp_lia" not in AVAILABLE.read_text().split()
    least = lia.subflows.groupby("subflow")["min_rtt_ms"].min()
    # 12 and 22 ms, and what a packet of 1500 bytes takes at 10 Mbit/s; never early.
    assert 12 <= least[0] < 16
    assert 22 <= least[1] < 26
    series = lia.series.query("key == @lia.runs.key[0]")
    assert set(series["subflow"]) == {0, 1}
    assert series["time_s"].drop_duplicates().diff().dropna().round(9).eq(0.1).all()
    assert series["cwnd"].max() > 10
    queues = lia.table("link_series").to_pandas().query("key == @lia.runs.key[0] and link == 'one' and a_to_b")
    assert 5 < queues["queue_packets"].max() <= 40
    assert queues["time_s"].iloc[0] == 0
    links = lia.links.query("link == 'one' and a_to_b")
    assert (links["max_queue_packets"] <= 40).all()
    assert (links["packets"] > 500).all()
    assert lia.runs["late_p99_ms"].between(0, 1000, inclusive="neither").all()
    assert (lia.runs["late_median_ms"] <= lia.runs["late_p99_ms"]).all()
    assert (lia.runs["late_p99_ms"] <= lia.runs["late_max_ms"]).all()
    assert lia.links["late_p99_ms"].notna().all()
    assert lia.runs["trusted"].eq((lia.runs["late_p99_ms"] <= 1) & (lia.links.groupby("key")["missed"].sum() == 0).to_numpy()).all()


def test_the_kernel_agrees_with_the_simulator(lia, tmp_path):
    simulated = run(study(flows=flow(cc="lia"), seeds=3), engine="sim", out=tmp_path)
    ratio = lia.runs["goodput_receiver_mbps"].mean() / simulated.runs["goodput_receiver_mbps"].mean()
    assert 0.8 < ratio < 1.2


def test_the_kernels_own_and_ours_stand_side_by_side(tmp_path):
    both = run(
        study(flows=flow(transport="tcp", cc="${cc}"), matrix={"cc": ["cubic@kernel", "cubic@polypath"]}), engine="host", out=tmp_path
    )
    goodput = both.runs.groupby("cc")["goodput_receiver_mbps"].mean()
    assert set(goodput.index) == {"cubic@kernel", "cubic@polypath"}
    # 9.5 Mbit/s is all that 10 have room for.
    assert goodput.between(7, 9.6).all()


def test_every_algorithm_of_ours_decides_the_window(tmp_path):
    # 22 ms of round trip: the path holds 180 packets, far above the initial window of 10.
    ours = [f"{path.stem}@polypath" for path in sorted((ROOT / "cc" / "algs").glob("*.c"))]
    fast = link("one", rate="100mbit", delay="10ms", queue="200packets")
    made = run(
        study(topology=fast, flows=flow(transport="tcp", cc="${cc}"), matrix={"cc": ours}, duration="600ms", seeds=1),
        engine="host",
        out=tmp_path,
    )
    highest = made.series.merge(made.runs[["key", "flow_cc"]], on="key").groupby("flow_cc")["cwnd"].max()
    assert set(highest.index) == set(ours)
    assert (highest > 15).all(), highest[highest <= 15]


def test_what_links_do_to_packets_is_done(tmp_path):
    lossy = run(study(topology=link("one", loss="2%"), flows=flow(transport="tcp"), duration="3s"), engine="host", out=tmp_path)
    there = lossy.links.query("link == 'one' and a_to_b")
    share = there["loss_drops"].sum() / (there["packets"].sum() + there["loss_drops"].sum())
    assert 0.005 < share < 0.05
    assert lossy.runs["retransmissions"].sum() >= there["loss_drops"].sum() * 0.8
    # Another seed loses other packets; equal seeds would lose the same numbers of them.
    assert lossy.runs["goodput_receiver_mbps"].nunique() == 2


def test_a_path_that_goes_down_hands_over_in_its_own_time(tmp_path):
    chain = [
        {"kind": "rate", "rate": "10mbit", "queue": "40packets"},
        {"kind": "delay", "delay": "5ms"},
        {"kind": "down", "spans": [["1s", "2s"]]},
    ]
    links = {**TWO_PATHS["links"], "one": {"ends": ["c", "r"], "both": chain}}
    made = run(study(topology={**TWO_PATHS, "links": links}, duration="3s", seeds=1), engine="host", out=tmp_path)
    assert made.links.query("link == 'one'")["down_drops"].sum() > 0
    series = made.series.query("subflow == 0").set_index("time_s")["bytes_acked"]
    before, during = series.loc[0.9] - series.loc[0.5], series.loc[1.9] - series.loc[1.2]
    assert before > 200_000
    assert during == 0
    assert made.runs["goodput_receiver_mbps"].mean() > 8


def test_a_transfer_completes(tmp_path):
    made = run(study(flows=flow(app={"kind": "transfer", "size": "1MB"}), duration="5s"), engine="host", out=tmp_path)
    assert (made.runs["bytes_received"] == 1_000_000).all()
    # 0.42 s if both paths were full from the beginning.
    assert made.runs["completion_s"].between(0.42, 5).all()


@pytest.mark.parametrize("subflows", [2, 4])
def test_ndiffports_opens_subflows_between_the_same_addresses(tmp_path, subflows):
    ports = flow(path_manager={"kind": "ndiffports", "subflows": subflows})
    made = run(study(flows=ports, seeds=1), engine="host", out=tmp_path)
    assert list(made.runs["subflows"]) == [subflows]
    ends = made.subflows[["source", "destination"]].map(lambda end: end.rpartition(":")[0])
    assert list(ends.drop_duplicates().itertuples(index=False)) == [("10.0.1.1", "10.0.3.2")]
    assert (made.subflows["acked_mbps"] > 0.5).all()
    assert 7 < made.runs["goodput_receiver_mbps"].mean() < 9.6


def test_datagrams_and_requests_find_the_links_delays(tmp_path):
    stream = {"client": "c", "server": "s", "transport": "udp", "datagram": "500B", "app": {"kind": "constant", "rate": "2mbit"}}
    asking = {
        "client": "c",
        "server": "s",
        "transport": "tcp",
        "app": {"kind": "requests", "request": "300B", "response": "2KB", "pause": "20ms"},
    }
    made = run(study(topology=link("one", loss="5%"), flows={"u": stream, "r": asking}, seeds=1), engine="host", out=tmp_path)
    rows = made.runs.set_index("flow")
    # 500 datagrams a second for two seconds.
    assert rows.loc["u", "datagrams_sent"] == pytest.approx(1000, abs=20)
    assert 0.01 < rows.loc["u", "datagram_loss"] < 0.1
    # 6 ms and the time of a packet, never less; a busy machine draws it out.
    assert 6 < rows.loc["u", "delay_p50_ms"] < 20
    assert rows.loc["r", "responses"] > 20


def test_competing_flows_and_settings_of_each_host(tmp_path):
    nodes = {"c": {"sysctl": {"net.ipv4.tcp_wmem": [4096, 16384, 32768]}}, "r": {"router": True}, "s": None, "d": None}
    links = {
        **TWO_PATHS["links"],
        "three": {"ends": ["d", "r"], "both": {"delay": "20ms"}},
        "last": {"ends": ["r", "s"], "both": {"rate": "20mbit"}},
    }
    tcp = {"client": "c", "server": "s", "transport": "tcp", "cc": "reno"}
    flows = {"small": tcp, "large": {**tcp, "client": "d", "start": "500ms"}}
    made = run(study(topology={"nodes": nodes, "links": links}, flows=flows), engine="host", out=tmp_path)
    goodput = made.runs.groupby("flow")["goodput_receiver_mbps"].mean()
    # Some 20 KB of payload over 10 ms and more: less than the link has room for.
    assert goodput["small"] < 9.6 < goodput["large"]
    assert (made.runs.query("flow == 'large'")["established_s"] >= 0.5).all()


def test_engines_stand_beside_one_another_in_short_form(tmp_path):
    (tmp_path / "study.yaml").write_text(study(duration="4s", seeds=3, short={"duration": "2s", "seeds": 2}).to_yaml())
    call = "from polypath.cli import main; main()"
    words = ["compare", str(tmp_path), "--engines", "sim,host", "--short", "--json", "--out", str(tmp_path / "out")]
    done = subprocess.run([sys.executable, "-c", call, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    here = f"host {HostEngine().only_kernel}"
    assert (said["platforms"], said["reference"]) == (["sim", here], here)
    (row,) = said["rows"]
    assert [row["platforms"][name]["runs"] for name in said["platforms"]] == [2, 2]
    assert row["platforms"][here]["untrusted"] in (0, 1, 2)
    page = (tmp_path / "out" / "here-short" / "report.html").read_text()
    assert "How well real time was kept" in page


def test_captures_show_what_a_host_sent(tmp_path):
    made = run(study(seeds=1, duration="1s", measure={"capture": ["c:one"]}), engine="host", out=tmp_path)
    (pcap,) = made.folder.glob("captures/*/c-one.pcapng")
    assert pcap.stat().st_size > 10_000


def test_runs_that_were_late_are_told_apart_and_run_again_when_asked(tmp_path, monkeypatch):
    here = study(seeds=2, duration="500ms")
    monkeypatch.setattr(emu, "LATE_LIMIT_NS", 1)
    late = run(here, engine="host", out=tmp_path)
    assert not late.runs["trusted"].any()
    again = plan(here, engine=HostEngine(), out=tmp_path, again=True)
    assert (len(again.pending), len(plan(here, engine=HostEngine(), out=tmp_path).pending)) == (2, 0)
    monkeypatch.setattr(emu, "LATE_LIMIT_NS", 10**12)
    assert execute(again).runs["trusted"].all()


@pytest.fixture
def unspoilt():
    """Nothing of this machine's own network is different afterwards."""

    def state():
        names = ("tcp_congestion_control", "ip_forward", "tcp_rmem", "tcp_wmem", "tcp_mtu_probing", "conf/all/rp_filter")
        files = [*(Path("/proc/sys/net/ipv4") / name for name in names), Path("/proc/net/route"), Path("/proc/net/fib_trie")]
        devices = " ".join(sorted(place.name for place in Path("/sys/class/net").iterdir()))
        return {**{str(file): file.read_text() for file in files}, "devices": devices}

    before = state()
    yield
    assert state() == before


@pytest.mark.usefixtures("unspoilt")
def test_the_machines_own_network_is_not_touched(tmp_path):
    assert mean(run(study(flows=flow(cc="olia"), seeds=1), engine="host", out=tmp_path).runs["goodput_receiver_mbps"]) > 5


REFUSED = {
    "a setting": (
        {"topology": {**TWO_PATHS, "nodes": {**TWO_PATHS["nodes"], "c": {"sysctl": {"net.ipv4.tcp_no_such": 1}}}}},
        "net.ipv4.tcp_no_such",
    ),
    "a scheduler": ({"flows": flow(scheduler="roundrobin")}, "roundrobin"),
    "an algorithm": ({"flows": flow(cc="nosuch")}, 'there is no congestion control "nosuch"'),
    "another version of MPTCP": ({"flows": flow(), "kernel": "5.4-mptcp"}, "kernel 5.4-mptcp, which has MPTCP version 0"),
    "an algorithm of other kernels": ({"flows": flow(cc="cdg@linux")}, "congestion control cdg@linux"),
}


@pytest.mark.parametrize(("parts", "named"), REFUSED.values(), ids=REFUSED.keys())
def test_what_this_kernel_lacks_is_named_before_anything_runs(parts, named, tmp_path):
    with pytest.raises(StudyError, match=named) as error:
        plan(study(**parts), engine=HostEngine(), out=tmp_path)
    assert "\n" not in str(error.value)


def test_a_run_that_cannot_end_well_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(emu, "run", lambda *_, **__: (_ for _ in ()).throw(emu.EmuError("no room for another namespace")))
    with pytest.raises(EngineError, match="the run could not be carried out: no room for another namespace"):
        HostEngine().run(plan_of_one(tmp_path))


def plan_of_one(folder):
    """The scenario of a run."""
    engine = HostEngine()
    engine._try_network = lambda *_: ""
    return plan(study(seeds=1), engine=engine, out=folder).runs[0].scenario


@pytest.mark.parametrize(("transport", "least", "most"), [("tcp", 7.0, 9.6), ("mptcp", 10.0, 19.0)])
def test_a_download_comes_from_the_server(transport, least, most, tmp_path):
    # The way from the client has a tenth of the rate, so nothing else could be as fast.
    links = {**TWO_PATHS["links"]}
    for name in ("one", "two"):
        both = links[name]["both"]
        links[name] = {"ends": ["c", "r"], "forward": {**both, "rate": "1mbit"}, "backward": both}
    made = run(
        study(topology={**TWO_PATHS, "links": links}, flows=flow(transport=transport, cc="lia", direction="download"), duration="3s"),
        engine="host",
        out=tmp_path,
    )
    assert least < made.runs["goodput_receiver_mbps"].mean() < most
    ends = made.subflows["destination"].str.rpartition(":")[0]
    assert set(ends) == ({"10.0.1.1", "10.0.2.1"} if transport == "mptcp" else {"10.0.1.1"})
    assert (made.subflows["bytes_acked"] > 500_000).all()
    assert made.runs["flow_cc"].unique() == ["lia"]
