"""The engine linux."""

import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from requirement import lacking
from waiting import PATIENCE_S, until

from polypath import EngineError, Results, Study, StudyError, linux, run
from polypath.engines import LinuxEngine, _machine
from polypath.pcap import analyse
from polypath.results import TABLES, execute, plan

NOBODY = 65534

TWO_PATHS = {
    "nodes": {"c": None, "r": {"router": True}, "s": None},
    "links": {
        "wifi": {"ends": ["c", "r"], "both": {"rate": "20mbit", "queue": "50packets", "delay": "5ms", "loss": "0.5%"}},
        "lte": {"ends": ["c", "r"], "both": {"rate": "10mbit", "queue": "50packets", "delay": "20ms", "jitter": "4ms"}},
        "last": {"ends": ["r", "s"], "both": {"delay": "1ms"}},
    },
}


def study(**parts):
    """MPTCP over two paths with random loss and jitter, and what a test changes of it."""
    flow = {"client": "c", "server": "s", "transport": "mptcp", "cc": "lia", "start_spread": "4ms"}
    base = {"name": "lossy", "topology": TWO_PATHS, "flows": {"f": flow}, "duration": "2s", "seeds": [1, 2], "baselines": None}
    return Study.model_validate({**base, **parts})


pytestmark = pytest.mark.usefixtures("linux_kernel")


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    return run(study(), engine="linux", out=tmp_path_factory.mktemp("reference"))


def same(results, reference):
    """Whether two results folders hold the same bytes, apart from where their study came from."""

    def contents(folder):
        files = [file for file in sorted(folder.rglob("*")) if file.is_file() and file.name != ".study-file"]
        return {str(file.relative_to(folder)): file.read_bytes() for file in files}

    return contents(results) == contents(reference)


def test_another_folder_and_other_workers_change_no_byte(reference, tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere, with a longer name"
    elsewhere.mkdir()
    monkeypatch.setattr(_machine, "_place", lambda: elsewhere)
    again = run(study(), engine="linux", out=tmp_path / "out", workers=1)
    assert same(again.folder, reference.folder)
    assert list(elsewhere.iterdir()) == []
    assert {f"{name}.parquet" for name in TABLES} <= {file.name for file in again.folder.iterdir()}


@pytest.fixture
def load():
    """A busy process for every core."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    yield
    for process in busy:
        process.kill()
        process.wait()


@pytest.mark.usefixtures("load")
def test_load_changes_no_byte(reference, tmp_path):
    assert same(run(study(), engine="linux", out=tmp_path).folder, reference.folder)


def test_another_user_changes_no_byte(reference):
    if os.geteuid():
        lacking("host", "only root can become another user")
    with tempfile.TemporaryDirectory(prefix="polypath-other-user-") as text:
        home = Path(text)
        shutil.copytree(linux.folder(), home / "polypath" / "linux", symlinks=True)
        (home / "study.yaml").write_text(study().to_yaml())
        subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", home], check=True)
        call = "import polypath; polypath.run('study.yaml', engine='linux', out='out')"
        # Who may read everything, since this installation may lie where others must not look.
        reads = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
        command = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *reads, sys.executable, "-c", call]
        environment = {"HOME": text, "XDG_CACHE_HOME": text, "PATH": os.environ["PATH"], "LANG": "tr_TR.UTF-8"}
        done = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert same(home / "out" / "lossy", reference.folder)


def test_seeds_differ_and_the_table_says_what_a_kernel_says(reference):
    first, second = (reference.series[reference.series["seed"] == seed] for seed in (1, 2))
    assert list(first["cwnd"]) != list(second["cwnd"])
    starts = reference.runs.set_index("seed")["start_s"]
    assert starts[1] != starts[2]
    assert set(reference.runs["kernel"]) == {"6.12"}
    assert (reference.runs["subflows"] == 2).all()
    assert not reference.runs["fallback"].any()
    assert (reference.subflows["bytes_acked"] > 100_000).all()
    counters = reference.counters[reference.counters["seed"] == 1].set_index(["node", "counter"])["value"]
    assert counters["c", "MPTcpExtMPJoinSynAckRx"] == 1
    wifi = reference.links[(reference.links["link"] == "wifi") & reference.links["a_to_b"]]
    assert (wifi["drops"] > 0).all(), "half a percent of some thousand packets"
    assert {"lost", "pmtu", "flags", "busy_s"} <= set(reference.series.columns)


def test_a_window_that_opens_at_once_loses_nothing_between_devices(tmp_path):
    link = {"rate": "500mbit", "queue": "4000packets", "delay": "40ms"}
    nodes = {
        "c": {"sysctl": {"net.ipv4.tcp_wmem": "4096 16384 20000000"}},
        "r": {"router": True},
        "s": {"sysctl": {"net.ipv4.tcp_rmem": "4096 131072 20000000"}},
    }
    ends = {"a": ["c", "r"], "b": ["c", "r"], "last": ["r", "s"]}
    links = {name: {"ends": two, "both": {"delay": "1us"} if name == "last" else link} for name, two in ends.items()}
    flow = {"client": "c", "server": "s", "transport": "mptcp", "cc": "cubic"}
    fast = study(topology={"nodes": nodes, "links": links}, flows={"f": flow}, duration="1500ms", seeds=1)
    results = run(fast, engine="linux", out=tmp_path)
    (row,) = results.table("runs").to_pylist()
    assert row["retransmissions"] == sum(link["drops"] for link in results.table("links").to_pylist()) == 0
    # Linux's own 1000 packets between two devices lost 4177 of them.
    assert max(link["max_queue_packets"] for link in results.table("links").to_pylist()) > 1000


def test_captures_are_whole_and_equal(tmp_path):
    captured = study(seeds=[1], duration="1s", measure={"capture": ["c:wifi", {"node": "r", "link": "last", "snaplen": "96B"}]})
    folders = [run(captured, engine="linux", out=tmp_path / name).folder for name in ("one", "two")]
    assert same(*folders)
    (files,) = (sorted(place.iterdir()) for place in (folders[0] / "captures").iterdir())
    assert [file.name for file in files] == ["c-wifi.pcapng", "r-last.pcapng"]
    for file, snaplen in zip(files, (128, 96), strict=True):
        raw, place, times, lengths = file.read_bytes(), 0, [], []
        while place < len(raw):
            kind, block = struct.unpack("<II", raw[place : place + 8])
            if kind == 1:
                assert struct.unpack("<II", raw[place + 8 : place + 16]) == (1, snaplen), "Ethernet"
            if kind == 6:
                _, high, low, _, length = struct.unpack("<IIIII", raw[place + 8 : place + 28])
                times.append(high << 32 | low)
                lengths.append(length)
            place += block
        assert times == sorted(times)
        assert max(lengths) == 1514, "every frame is one packet"
    # A capture that was deleted is made again, and nothing else runs.
    shutil.rmtree(folders[0] / "captures")
    assert len(plan(captured, engine=LinuxEngine(), out=tmp_path / "one").pending) == 1


def test_what_is_captured_beside_the_kernel_has_the_kernel_s_own_counters(tmp_path):
    captured = study(seeds=[1], measure={"capture": ["c"]})
    made = run(captured, engine="linux", out=tmp_path)
    (connection,) = analyse(sorted(made.folder.glob("captures/*/*.pcapng")))["connections"]
    assert connection["kind"] == "mptcp v1"
    seen = {each["client"]: each["directions"][0] for each in connection["subflows"]}
    counted = {row["source"]: row for row in made.subflows.to_dict("records")}
    assert set(seen) == set(counted) and len(seen) == 2
    for source, row in counted.items():
        assert seen[source]["retransmissions"] == row["retransmissions"] > 0
        # The kernel's counter is of the last sample.
        assert row["bytes_acked"] <= seen[source]["acked_bytes"] < row["bytes_acked"] * 1.2


def test_what_a_dead_path_had_is_counted_as_given_again(tmp_path):
    paths = {f"p{n}": {"ends": ["c", "s"], "both": {"rate": "20mbit", "delay": f"{n}ms"}} for n in (5, 30)}
    paths["p5"]["both"]["changes"] = [{"at": "1s", "up": False}]
    flow = {"client": "c", "server": "s", "transport": "mptcp", "app": {"kind": "transfer", "size": "5MB"}}
    topology = {"nodes": {"c": None, "s": None}, "links": paths}
    dies = study(topology=topology, flows={"f": flow}, seeds=[1], duration="8s", measure={"capture": ["c"]})
    made = run(dies, engine="linux", out=tmp_path / "linux")
    (connection,) = analyse(sorted(made.folder.glob("captures/*/*.pcapng")))["connections"]
    again = made.runs["reinjected_bytes"].item()
    # A part of it had not left on the path that died.
    assert again > connection["data"][0]["reinjected_bytes"] > 200_000
    # What a path has when it dies differs by a third between starts; the kernel's own counter has 5 %.
    assert again == pytest.approx(run(dies, engine="sim", out=tmp_path / "sim").runs["reinjected_bytes"].item(), rel=0.5)


def alone(**both):
    """One TCP over a router; `both` is its second link."""
    links = {"first": {"ends": ["c", "r"], "both": {"delay": "5ms"}}, "second": {"ends": ["r", "s"], **both}}
    flows = {"f": {"client": "c", "server": "s", "transport": "tcp"}}
    return study(topology={"nodes": TWO_PATHS["nodes"], "links": links}, flows=flows, seeds=[1], duration="6s")


def goodput(of, out, engine):
    return float(run(of, engine=engine, out=out / engine).runs["goodput_receiver_mbps"].iloc[0])


ELEMENTS = {
    "rate and delay": {"both": {"rate": "20mbit", "queue": "60packets", "delay": "10ms"}},
    "hold": {"both": [{"kind": "rate", "rate": "20mbit", "hold": "10ms", "queue": "80packets"}]},
    "framing": {"both": {"rate": "20mbit", "queue": "60packets", "framing": "100B", "delay": "5ms"}},
    "a rate that changes": {
        "forward": {"rate": "20mbit", "queue": "60packets", "changes": [{"at": "3s", "rate": "5mbit"}]},
        "backward": {"delay": "5ms"},
    },
    # Not up at 4 s, when the moment of the third timeout would decide.
    "an outage": {
        "forward": {"rate": "20mbit", "queue": "60packets", "changes": [{"at": "2s", "up": False}, {"at": "3500ms", "up": True}]},
        "backward": {"delay": "5ms"},
    },
    "a small MTU": {"forward": {"rate": "20mbit", "queue": "60packets", "mtu": "1000B"}, "backward": {"delay": "5ms"}},
    "jitter": {
        "forward": [{"kind": "delay", "delay": "10ms", "jitter": "5ms"}, {"kind": "rate", "rate": "20mbit", "queue": "60packets"}],
        "backward": [],
    },
}


@pytest.mark.parametrize("link", ELEMENTS.values(), ids=ELEMENTS.keys())
def test_elements_do_what_the_simulators_do(tmp_path, link):
    # The tenth that the project allows its simulator against a kernel.
    assert goodput(alone(**link), tmp_path, "linux") == pytest.approx(goodput(alone(**link), tmp_path, "sim"), rel=0.1)


def test_a_silent_mtu_lets_nothing_longer_pass(tmp_path):
    chain = [{"kind": "mtu", "size": "1300B", "oversize": "silent"}, {"kind": "rate", "rate": "20mbit"}]
    narrow = run(alone(forward=chain, backward={"delay": "5ms"}), engine="linux", out=tmp_path / "narrow")
    assert narrow.runs["bytes_received"].iloc[0] == 0, "the handshake passes, and no full segment does"
    assert narrow.runs["established_s"].notna().all()
    chain[0]["size"] = "1500B"
    wide = run(alone(forward=chain, backward={"delay": "5ms"}), engine="linux", out=tmp_path / "wide")
    assert wide.runs["goodput_receiver_mbps"].iloc[0] > 15


def test_a_transfer_ends_when_all_is_read(tmp_path):
    flows = {"f": {"client": "c", "server": "s", "transport": "tcp", "app": {"kind": "transfer", "size": "1MB"}}}
    links = {"both": {"rate": "20mbit", "delay": "5ms"}}
    of = alone(**links).replace(flows=flows)
    times = [run(of, engine=engine, out=tmp_path / engine).runs[["completion_s", "bytes_received"]].iloc[0] for engine in ("linux", "sim")]
    assert times[0]["bytes_received"] == times[1]["bytes_received"] == 1_000_000
    assert times[0]["completion_s"] == pytest.approx(times[1]["completion_s"], rel=0.1)


def test_the_kernels_and_our_build_of_an_algorithm_stand_side_by_side(tmp_path):
    flow = {"client": "c", "server": "s", "transport": "tcp", "cc": "${cc}"}
    links = {"first": {"ends": ["c", "r"], "both": {"delay": "5ms"}}, "second": {"ends": ["r", "s"], "both": {"rate": "20mbit"}}}
    both = study(
        topology={"nodes": TWO_PATHS["nodes"], "links": links},
        flows={"f": flow},
        seeds=[1],
        matrix={"cc": ["reno@linux", "reno@kernel", "reno@polypath", "reno"]},
    )
    results = run(both, engine="linux", out=tmp_path)
    used = {cc: results_cc(results, key) for cc, key in zip(results.runs["cc"], results.runs["key"], strict=True)}
    assert used == {"reno@linux": "reno", "reno@kernel": "reno", "reno@polypath": "pp_reno", "reno": "reno"}
    assert results.runs.set_index("cc")["key"].nunique() == 3, "two names of one algorithm are one run"


def results_cc(results, key):
    from polypath.results import Store

    return str(Store(results.folder / "runs").record(key)["outcome"]["flows"][0]["subflows"][0]["cc"])


def test_a_machine_that_dies_is_named_and_the_others_go_on(tmp_path, monkeypatch):
    starter = tmp_path / "starter"
    # The machine of the first seed gets a kernel that ends at once.
    starter.write_text(f'#!/bin/sh\ncase "$*" in *"--seed 1 "*) set -- "$@" --kernel /bin/false;; esac\nexec {_machine.STARTER} "$@"\n')
    starter.chmod(0o755)
    monkeypatch.setattr(_machine, "STARTER", starter)
    with pytest.raises(EngineError, match=r"^lossy: the machine died \(exit status 1\).*\(in the run main, seed 1\)$"):
        run(study(), engine="linux", out=tmp_path)
    kept = Results.open(tmp_path / "lossy")
    assert list(kept.runs["seed"]) == [2]


def machines():
    """Folders of machines that there are now, of whichever process."""
    return list(_machine._place().glob(f"{_machine.PREFIX}.*"))


def living_in(folder):
    """Processes whose working directory is this folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink() == folder:
                found.append(int(process.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_nothing_outlives_a_run_that_is_killed(tmp_path, how):
    (tmp_path / "study.yaml").write_text(study(duration="50000s", seeds=[1]).to_yaml())
    call = "from polypath.cli import main; main()"
    command = [sys.executable, "-c", call, "run", "study.yaml", "--engine", "linux", "--out", "out"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def own():
        return [folder for folder in machines() if folder.name.split(".")[1] == str(process.pid)]

    try:
        until(lambda: own() and living_in(own()[0]), "a machine runs")
        (folder,) = own()
        process.send_signal(how)
        process.wait(timeout=PATIENCE_S)
    finally:
        process.kill()
    until(lambda: not living_in(folder), "no process is left")
    _machine.clean()
    assert not folder.exists()


def test_what_cannot_run_is_left_out_or_refused_with_its_place(tmp_path):
    flow = {"client": "c", "server": "s", "cc": "lia"}
    mixed = study(flows={"f": flow}, kernel="${stack}", matrix={"stack": ["5.4-mptcp", "6.12"]}, seeds=[1])
    planned = plan(mixed, engine=LinuxEngine(), out=tmp_path)
    assert [each.parameters["stack"] for each in planned.runs] == ["6.12"]
    assert len(planned.left_out) == 1
    assert planned.left_out[0].startswith("left out on linux 5.4-mptcp: 1 cell with kernel 5.4-mptcp, which is not there")
    with pytest.raises(StudyError, match="nothing of lossy can run here"):
        plan(mixed, engine=LinuxEngine(), out=tmp_path, only={"stack": ["5.4-mptcp"]})
    file = tmp_path / "study.yaml"
    file.write_text(alone(both=[{"kind": "rate", "rate": "1mbit", "burst": "3000B"}]).to_yaml())
    with pytest.raises(StudyError, match=r"study\.yaml:\d+: topology\.links\.second\.both.*netem has no token bucket.*--engine sim"):
        execute(plan(Study.load(file), engine=LinuxEngine(), out=tmp_path))


SCRIPT = """\
ip netns add inside && ip -n inside link | grep -c LOOPBACK
touch /usr/here || echo "the host is read-only"
od -An -N8 -tx1 /dev/urandom; cat /proc/sys/kernel/random/boot_id; sleep 1000; date +%s
mkdir $OUT/folder && date > $OUT/folder/file
exit 3
"""


def executed(tmp_path, *options):
    script = tmp_path / "script.sh"
    script.write_text(SCRIPT)
    call = "from polypath.cli import main; main()"
    command = [sys.executable, "-c", call, "linux", "exec", str(script), "--out", str(tmp_path / "out"), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_a_script_runs_as_root_in_virtual_time_and_exactly(tmp_path):
    code, said = executed(tmp_path)
    assert code == 3, said
    assert said.startswith("1\n")
    assert "the host is read-only" in said
    # 1 January 2025, and the thousand seconds of the sleep; it took none of ours.
    assert said.splitlines()[-1] == str(1735689600 + 1000)
    assert (tmp_path / "out" / "folder" / "file").is_file()
    assert executed(tmp_path) == (code, said)
    assert executed(tmp_path, "--seed", "2")[1] != said


def test_a_kernel_that_is_not_there_is_named_with_the_command_that_builds_it(tmp_path):
    code, said = executed(tmp_path, "--kernel", "6.13")
    assert (code, "polypath linux build 6.13" in said) == (2, True), said
    with pytest.raises(linux.KernelError, match=r"polypath linux build 5\.99"):
        plan(study(kernel="5.99"), engine=LinuxEngine(), out=tmp_path)


MESH = {
    "a": {"ends": ["c", "r"], "both": {"rate": "10mbit", "delay": "5ms"}},
    "b": {"ends": ["c", "r"], "both": {"rate": "10mbit", "delay": "9ms"}},
    "d": {"ends": ["r", "s"], "both": {"rate": "100mbit", "delay": "1ms"}},
}
BACKUP = {"kind": "endpoints", "addresses": [{"address": "10.0.2.1", "backup": True}]}
REMOVED = {"kind": "endpoints", "addresses": [{"address": "10.0.2.1", "remove_at": "2s"}]}


def same_subflows(folder, kernel, links, manager, subflows):
    """Both engines open so many subflows, between the same addresses; returns these pairs."""
    flow = {"client": "c", "server": "s", "cc": "cubic", "path_manager": manager}
    of = study(topology={"nodes": TWO_PATHS["nodes"], "links": links}, flows={"f": flow}, seeds=[1], duration="4s", kernel=kernel)
    linux_, sim = (run(of, engine=engine, out=folder / engine) for engine in ("linux", "sim"))
    assert (linux_.runs["subflows"].iloc[0], sim.runs["subflows"].iloc[0]) == (subflows, subflows)
    ways = [
        sorted(zip(each.subflows["source"].str.partition(":")[0], each.subflows["destination"].str.partition(":")[0], strict=True))
        for each in (linux_, sim)
    ]
    assert ways[0] == ways[1]
    assert linux_.runs["goodput_receiver_mbps"].iloc[0] == pytest.approx(sim.runs["goodput_receiver_mbps"].iloc[0], rel=0.1)
    return ways[0]


@pytest.mark.parametrize(
    ("links", "manager", "subflows"),
    [
        (MESH | {"e": {"ends": ["r", "s"], "both": {"rate": "100mbit", "delay": "2ms"}}}, "fullmesh", 4),
        (MESH, BACKUP, 2),
        (MESH, REMOVED, 2),
        (MESH, {"kind": "ndiffports", "subflows": 3}, 3),
    ],
    ids=["fullmesh", "backup", "removed", "ndiffports"],
)
def test_path_managers_open_what_the_simulators_do(tmp_path, links, manager, subflows):
    same_subflows(tmp_path, "6.12", links, manager, subflows)


LAMINAR_CLIENT = MESH | {"g": {"ends": ["c", "r"], "both": {"rate": "10mbit", "delay": "7ms"}}}
# 10.0.1.1, 10.0.2.1 and 10.0.4.1 are the client's; 10.0.3.2, then 10.0.5.2 and 10.0.6.2 the server's.
LAMINAR_ONE = LAMINAR_CLIENT | {"h": {"ends": ["r", "s"], "both": {"rate": "100mbit", "delay": "2ms"}}}
LAMINAR_TWO = LAMINAR_ONE | {"i": {"ends": ["r", "s"], "both": {"rate": "100mbit", "delay": "2ms"}}}
FIRST = ("10.0.1.1", "10.0.3.2")


@pytest.mark.parametrize(
    ("links", "addresses", "joined"),
    [
        # One endpoint an announcement, in the order in which they were added.
        (LAMINAR_ONE, ["10.0.4.1 laminar", "10.0.2.1 laminar"], [("10.0.4.1", "10.0.5.2")]),
        (LAMINAR_TWO, ["10.0.4.1 laminar", "10.0.2.1 laminar"], [("10.0.2.1", "10.0.6.2"), ("10.0.4.1", "10.0.5.2")]),
        # Not from the address of the first subflow, nor where no endpoint is left.
        (LAMINAR_TWO, ["10.0.1.1 laminar", "10.0.2.1 laminar"], [("10.0.2.1", "10.0.5.2")]),
        (LAMINAR_ONE, ["10.0.2.1 subflow", "10.0.4.1 laminar"], [("10.0.2.1", "10.0.3.2"), ("10.0.4.1", "10.0.5.2")]),
        (LAMINAR_CLIENT, ["10.0.2.1 laminar"], []),
    ],
    ids=["one announced", "two announced", "own address", "beside subflow", "nothing announced"],
)
def test_laminar_endpoints_answer_announced_addresses_as_the_simulators_do(tmp_path, links, addresses, joined):
    if not linux.is_there("7.3"):
        lacking("linux 7.3", "no kernel 7.3 is there: polypath linux build 7.3")
    named = [{"address": address, "laminar": flag == "laminar"} for address, flag in map(str.split, addresses)]
    ways = same_subflows(tmp_path, "7.3", links, {"kind": "endpoints", "addresses": named}, 1 + len(joined))
    assert ways == sorted([FIRST, *joined])
