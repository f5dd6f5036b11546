"""Runs on other machines."""

import io
import os
import socket
import subprocess
import sys
import tarfile
import time
from dataclasses import replace
from typing import ClassVar

import pyarrow as pa
import pytest
from dask_cluster import Cluster, cluster_in
from distributed.security import Security
from fake_engine import FakeEngine
from requirement import lacking
from sweep_data import LONGER, STUDY, FakeClient, content, study, sweep_with
from typer.testing import CliRunner

from polypath import customcc
from polypath.cli._app import build
from polypath.engines import ENGINES, HostEngine, Output, find
from polypath.linux import KernelError
from polypath.results import Store, _progress, execute, plan, progress_of
from polypath.results._progress import ProgressFile
from polypath.study import StudyError
from polypath.sweep import (
    DaskBackend,
    Failed,
    Fault,
    Finished,
    _chunks,
    _dask,
    _slurm,
    _worker,
    check_backend,
    files_of,
    find_backend,
    weight,
)
from polypath.sweep._chunks import CHUNK_S, Chunk, Costs, Queue, chunk_seconds, task_of
from polypath.sweep._finished import packed, unpacked
from polypath.sweep._handover import Handover

# --- chunks


def test_the_heaviest_runs_go_first_and_those_that_come_back_are_next():
    runs = plan(study()).runs
    queue = Queue(runs, threads=2)
    first = queue.next()
    assert [run.parameters["rate"] for run in first] == ["50mbit"]
    assert len(first) == 1
    runs = list(plan(study()).runs)
    queue = Queue(runs, threads=1)
    taken = queue.next()
    queue.back(taken)
    assert queue.next() == taken
    assert len(queue) == len(runs) - 1
    costs = Costs()
    assert costs.expected(1.0) is None
    for _ in range(50):
        costs.learn(2.0, 1.0)
    assert costs.expected(4.0) == pytest.approx(2.0)


def test_a_chunk_has_so_many_runs_as_fill_its_time_and_the_last_ones_are_short():
    runs = list(plan(study(STUDY.replace("seeds: 3", "seeds: 100"))).runs)
    queue = Queue(runs, threads=2, chunk_s=2.0)
    for run in queue.next():
        queue.costs.learn(weight(run), 0.13)
    sizes = []
    while chunk := queue.next():
        sizes.append(len(chunk))
    assert sum(sizes) == len(runs) - 1
    assert sizes[0] == 15, "two seconds of runs of 0.13 s"
    assert sizes[-1] == 1, "at the end no machine has much while the other is idle"


def test_a_chunk_is_as_long_as_one_scheduler_needs(monkeypatch):
    assert chunk_seconds(2) == chunk_seconds(200) == CHUNK_S
    assert chunk_seconds(10_000) == 10 * chunk_seconds(1_000) > CHUNK_S
    queue = Queue(plan(study(STUDY.replace("seeds: 3", "seeds: 100"))).runs, threads=1)
    for run in queue.next():
        queue.costs.learn(weight(run), 0.5)
    assert len(queue.next()) == 4
    queue.machines(1, 10.0)
    assert len(queue.next()) == 20
    monkeypatch.setattr(_chunks, "_AT_FIRST", 1)
    monkeypatch.setattr(_chunks, "_AT_ONCE", 3)
    monkeypatch.setattr(_chunks, "_WINDOW", 0)
    queue = Queue(plan(study(STUDY.replace("seeds: 3", "seeds: 50").replace("[5mbit, 50mbit]", "[5mbit]"))).runs, threads=1, chunk_s=2.0)
    for run in queue.next():
        queue.costs.learn(weight(run), 0.13)
    assert len(queue.next()) == 15


# --- packed runs


def finished():
    output = Output(outcome={"flows": []}, subflow_series=pa.table({"x": [1, 2]}), link_series=pa.table({}))
    files = {name: bytes(content) for name, content in files_of("k", "sim", "1", {"seed": 1}, output).items()}
    return Finished(key="k", files=files, captures={"h1.pcapng": b"packets"})


def test_a_packed_run_comes_back_as_it_was_and_one_that_was_cut_is_refused():
    run = finished()
    back = unpacked("k", packed(run))
    assert (dict(back.files), dict(back.captures)) == (dict(run.files), dict(run.captures))
    assert set(back.files) == {"run.json", "subflows.parquet"}
    whole = packed(finished())
    # Behind the record's content stand only zeros.
    for length in range(0, whole.index(b'"outcome"'), 97):
        with pytest.raises(ValueError, match="packed run"):
            unpacked("k", whole[:length])


def tar(*members):
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for member, content in members:
            archive.addfile(member, io.BytesIO(content))
    return sink.getvalue()


def member(name, size=4, kind=tarfile.REGTYPE, link=""):
    made = tarfile.TarInfo(name)
    made.size, made.type, made.linkname = size, kind, link
    return made


RECORD = (member("run.json", 2), b"{}")
# A header that claims a terabyte, and nothing behind it.
HUGE = member("subflows.parquet", 1 << 40).tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize(
    "archive",
    [
        *(
            tar((member(name), b"evil"), RECORD)
            for name in (
                "../../../ESCAPED",
                "/tmp/ESCAPED",
                "captures/../../ESCAPED.pcapng",
                "captures/.hidden.pcapng",
                "captures/a/b.pcapng",
                "captures/",
                "captured.json",
                "extra.parquet",
                "run.json/",
                "./run.json",
                ".progress.json",
            )
        ),
        tar((member("run.json", 0, tarfile.SYMTYPE, "/etc/passwd"), b""), RECORD),
        tar((member("links.parquet", 0, tarfile.LNKTYPE, "../../../x"), b""), RECORD),
        tar((member("links.parquet", 0, tarfile.FIFOTYPE), b""), RECORD),
        tar((member("captures", 0, tarfile.DIRTYPE), b""), RECORD),
        tar(RECORD)[:1024] + HUGE,
        b"",
        b"no archive at all" * 100,
    ],
)
def test_a_packed_run_writes_nowhere_but_in_its_own_folder(archive, tmp_path):
    there = tmp_path / "a/b/c/there"
    place = Handover(str(there))
    there.mkdir(parents=True)
    (there / "k.run").write_bytes(archive)
    with pytest.raises(StudyError, match=r"there/k\.run is no finished run \(.*\): remove it, and run this again$"):
        place.take("k")
    assert [each for each in tmp_path.rglob("*") if each.is_file()] == [there / "k.run"]


def test_the_store_takes_no_file_that_a_run_does_not_have(tmp_path):
    for name in ("../../ESCAPED", "/tmp/ESCAPED", "captures/x.pcapng/y", "manifest.json"):
        with pytest.raises(ValueError, match="a run has no file"):
            Store(tmp_path / "runs").put("00" * 16, {name: b"evil"})
    assert list(tmp_path.rglob("*")) == []


def test_what_lies_at_the_handover_is_whole_or_not_there(tmp_path):
    place = Handover(f"file://{tmp_path}/there")
    assert place.keys() == set()
    place.put(finished())
    assert place.keys() == {"k"}
    assert place.take("k").captures == {"h1.pcapng": b"packets"}
    place.drop("k")
    assert place.keys() == set()
    assert list((tmp_path / "there").iterdir()) == []


# --- words


@pytest.mark.parametrize(
    ("on", "says"),
    [
        ("dask://nohost", "write dask://HOST:PORT"),
        ("dask", "write dask://HOST:PORT"),
        ("dask://host:x", "write dask://HOST:PORT"),
        ("ray://host:1", 'no place to run on "ray://host:1"'),
    ],
)
def test_a_place_that_is_none_is_one_sentence(on, says):
    with pytest.raises(StudyError, match=says):
        find_backend(on)


PROFILE = 'folder = "/shared"'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, r"slurm\.toml, which cannot be read \(No such file or directory\); docs/guide/many-machines\.md shows one"),
        ("folder = ", r"slurm\.toml is no TOML: Invalid value"),
        ("", r"slurm\.toml: `folder`: field required"),
        (f"{PROFILE}\ncores = 4", r"slurm\.toml: `cores`: extra inputs are not permitted; there are folder, partition"),
        (f"{PROFILE}\njobs = 0", r"slurm\.toml: `jobs`: input should be greater than 0"),
    ],
)
def test_a_profile_of_slurm_that_is_none_is_one_sentence(text, says, tmp_path):
    file = tmp_path / "slurm.toml"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    with pytest.raises(StudyError, match=says):
        find_backend(f"slurm:{file}")


def test_a_place_that_cannot_be_is_refused(tmp_path, monkeypatch):
    assert find_backend("local") is None
    with pytest.raises(StudyError, match="give --on too"):
        find_backend("local", handover="/tmp")
    with pytest.raises(StudyError, match="measures the machine it runs on"):
        check_backend(HostEngine())
    check_backend(FakeEngine())
    with pytest.raises(StudyError, match=r"no Dask scheduler answers at 127\.0\.0\.1:1"):
        execute(plan(study(), out=tmp_path), on=DaskBackend("127.0.0.1:1"))
    (tmp_path / "study.yaml").write_text(STUDY, encoding="utf-8")
    with pytest.raises(StudyError, match=r"--build-kernels is for other machines; give --on too"):
        find_backend("local", build_kernels=True)
    with pytest.raises(StudyError, match=r"--build-kernels is for --engine linux, and sim runs no kernel of its own"):
        words = ["run", str(tmp_path), "--on", "dask://127.0.0.1:1", "--build-kernels"]
        CliRunner().invoke(build(["run"]), words, catch_exceptions=False)
    (tmp_path / "slurm.toml").write_text(f'folder = "{tmp_path}"', encoding="utf-8")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StudyError, match=r"this machine has no Slurm commands \(srun\): run it on a login node"):
        execute(plan(study(), out=tmp_path), on=find_backend(f"slurm:{tmp_path / 'slurm.toml'}"))


# --- how far it is


def test_status_tells_how_far_a_study_is_and_nothing_of_it_stays(tmp_path, monkeypatch):
    # Told at each run, since all of them may end within a second.
    monkeypatch.setattr(_progress, "_EVERY_S", 0.0)
    seen = []

    def look(run):
        found = progress_of(tmp_path / "sweep")
        assert found is not None
        seen.append(found)

    work = plan(study(LONGER), out=tmp_path)
    execute(work, workers=2, progress=look)
    assert len(seen) == len(work.pending)
    assert {(each.study, each.engine, each.runs, each.process) for each in seen} == {("sweep", "sim", len(work.pending), os.getpid())}
    assert [each.finished for each in seen] == sorted(each.finished for each in seen)
    assert seen[-1].finished > 0
    assert seen[-1].left_s == pytest.approx((seen[-1].runs - seen[-1].finished) / seen[-1].per_second)
    assert progress_of(tmp_path / "sweep") is None


def test_status_of_a_client_that_was_killed_says_so(tmp_path):
    gone = subprocess.Popen(["true"])
    gone.wait()
    progress_file = ProgressFile(tmp_path, "s", "sim", runs=10, threads=2)
    progress_file.progress = replace(progress_file.progress, process=gone.pid)
    progress_file.__enter__()
    found = progress_of(tmp_path)
    assert found is not None
    assert found.stopped
    assert found.left_s is None


# --- a cluster on this machine


@pytest.fixture
def cluster(tmp_path):
    with cluster_in(tmp_path) as made:
        yield made


def test_the_results_are_the_same_bytes_as_on_one_machine(cluster, tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    text = STUDY.replace("seeds: 3", "seeds: 3\nbaselines: {}\nmeasure: {series: 100ms, capture: [{node: a, link: one, packets: 50}]}")
    execute(plan(study(text), out=here))
    seen = []
    ended = []
    execute(plan(study(text), out=there), on=DaskBackend(cluster.address), progress=ended.append, tell=seen.append)
    assert content(there) == content(here)
    assert {run.key for run in ended} == {run.key for run in plan(study(text), out=there).runs}
    assert max(state.threads for state in seen) == 2
    assert plan(study(text), out=there).pending == ()


def certificates(folder):
    """New ones, for all roles alike."""
    made = Security.temporary()
    folder.mkdir()
    for name, text in (("ca", made.tls_ca_file), ("cert", made.tls_client_cert), ("key", made.tls_client_key)):
        (folder / f"{name}.pem").write_text(text, encoding="utf-8")
    return folder


def test_an_encrypted_scheduler_hears_only_those_who_have_its_certificates(tmp_path, monkeypatch, caplog):
    ours, others = certificates(tmp_path / "ours"), certificates(tmp_path / "others")
    small = study(STUDY.replace("seeds: 3", "seeds: 1"))
    with cluster_in(tmp_path, workers=1, tls=ours) as cluster:
        on = find_backend(f"tls://{cluster.address}", certificates=ours)
        assert on is not None
        assert content(execute(plan(small, out=tmp_path / "there"), on=on).folder) == content(
            execute(plan(small, out=tmp_path / "here")).folder
        )
        # Without them, or with others, nobody answers.
        monkeypatch.setattr(_dask, "_CONNECT_S", 2.0)
        for on in (find_backend(f"tls://{cluster.address}", certificates=others), find_backend(f"dask://{cluster.address}")):
            with pytest.raises(StudyError, match="no Dask scheduler answers"):
                execute(plan(small, out=tmp_path / "never"), on=on)


def test_certificates_that_are_missing_are_one_sentence(tmp_path):
    folder = certificates(tmp_path / "some")
    (folder / "key.pem").unlink()
    for on, given, says in (
        ("tls://127.0.0.1:1", None, "--on tls:// needs certificates: give --certificates FOLDER"),
        ("tls://127.0.0.1:1", folder, r"there is no .*/some/key\.pem; the folder needs ca\.pem, cert\.pem and key\.pem"),
        ("dask://127.0.0.1:1", folder, "--certificates are for an encrypted scheduler; write --on tls://HOST:PORT"),
        ("tls://127.0.0.1", None, "write tls://HOST:PORT, such as"),
    ):
        with pytest.raises(StudyError, match=says):
            find_backend(on, certificates=given)
    (folder / "key.pem").write_text("no key")
    with pytest.raises(StudyError, match="these certificates cannot be used"):
        find_backend("tls://127.0.0.1:1", certificates=folder)


def test_workers_that_are_killed_and_a_scheduler_that_starts_anew_lose_nothing(cluster, tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    execute(plan(study(LONGER), out=here))
    ended = []

    def disturb(run):
        ended.append(run.key)
        if len(ended) == 5:
            cluster.kill("worker0")
        if len(ended) == 10:
            cluster.kill("scheduler")
            cluster.kill("worker1")
            cluster.scheduler()
            cluster.worker("worker2")

    execute(plan(study(LONGER), out=there), on=DaskBackend(cluster.address, patience_s=60.0), progress=disturb)
    assert sorted(ended) == sorted({run.key for run in plan(study(LONGER), out=there).runs}), "each run counted once"
    assert content(there) == content(here)


def test_a_client_that_was_killed_takes_what_was_finished_meanwhile(cluster, tmp_path):
    handover, out = tmp_path / "handover", tmp_path / "there"
    file = tmp_path / "study.yaml"
    file.write_text(LONGER, encoding="utf-8")
    command = ["run", str(file), "--no-report", "--out", str(out), "--on", f"dask://{cluster.address}", "--handover", f"{handover}"]
    client = subprocess.Popen([sys.executable, "-c", "from polypath.cli import main; main()", *command])
    runs = out / "sweep" / "runs"
    while len(list(runs.glob("[0-9a-f]*"))) < 5:
        assert client.poll() is None, "the client ended by itself"
        time.sleep(0.05)
    client.kill()
    client.wait()
    # What was in flight ends by itself and lies at the handover.
    time.sleep(3.0)
    kept = {folder.name for folder in runs.glob("[0-9a-f]*")}
    lying = {name.stem for name in handover.glob("*.run")} - kept
    work = plan(study(LONGER), out=out)
    assert {run.key for run in work.pending} == {run.key for run in work.runs} - kept
    begun = []
    execute(work, on=DaskBackend(cluster.address, handover=str(handover)), progress=lambda run: begun.append(run.key))
    assert set(begun[: len(lying)]) == lying, "what lay there came first, and did not run again"
    assert sorted(begun) == sorted(run.key for run in work.pending)
    assert list(handover.iterdir()) == []


def test_an_algorithm_of_ones_own_travels_with_the_study(cluster, tmp_path):
    own = tmp_path / "own"
    customcc.new("travels", str(own))
    customcc.use(own)
    text = STUDY.replace("cc: [lia, cubic]", "cc: [travels]")
    execute(plan(study(text), out=tmp_path / "here"))
    # Only the client knows the folder.
    execute(plan(study(text), out=tmp_path / "there"), on=DaskBackend(cluster.address))
    assert content(tmp_path / "there") == content(tmp_path / "here")


def test_a_machine_with_another_version_is_named_before_anything_runs(cluster, tmp_path, monkeypatch):
    engine = find("sim")
    monkeypatch.setattr(type(engine), "version", property(lambda self: "another"))
    work = plan(study(), engine=engine, out=tmp_path / "there")
    with pytest.raises(StudyError, match=r"the machine \S+ \(tcp://\S+\) has version \S+ of the engine sim, here it is another"):
        execute(work, on=DaskBackend(cluster.address))
    assert plan(study(), engine=engine, out=tmp_path / "there").pending == work.pending


def test_a_scheduler_without_workers_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr("polypath.sweep._dask._CONNECT_S", 2.0)
    cluster = Cluster(tmp_path)
    try:
        cluster.scheduler()
        cluster.wait_for(0)
        with pytest.raises(StudyError, match="has no workers: start some"):
            execute(plan(study(), out=tmp_path / "there"), on=DaskBackend(cluster.address))
    finally:
        cluster.kill("scheduler")


# --- kernels that a machine lacks


class OfKernels(FakeEngine):
    """An engine whose runs need a kernel, which may have to be built."""

    name: ClassVar[str] = "ofkernels"
    there: ClassVar[set[str]] = set()

    def versions(self, kernel=None):
        return self._with

    def _with(self, kernel):
        if kernel not in self.there:
            raise KernelError(f'there is no kernel "{kernel}"; build it with: polypath linux build {kernel}')
        return f"1 with {kernel}"


@pytest.fixture
def built(monkeypatch):
    """Kernels that were built, in order; the first that is asked for cannot be."""
    names = []

    def build(name, **_):
        names.append(name)
        if name == "9.9":
            raise KernelError("Debian has no Linux 9.9")
        OfKernels.there.add(name)

    monkeypatch.setitem(ENGINES, OfKernels.name, OfKernels)
    monkeypatch.setattr(OfKernels, "there", set())
    monkeypatch.setattr(_worker.linux, "build", build)
    _worker._engine.cache_clear()
    return names


def test_a_machine_without_the_kernel_says_so_and_builds_it_once_if_told(built):
    described = _worker.describe(OfKernels.name, ["6.12"], [])
    assert described.lacks == 'there is no kernel "6.12"; build it with: polypath linux build 6.12'
    assert built == []
    assert _worker.describe(OfKernels.name, ["6.12"], [], build=True).versions == {"6.12": "1 with 6.12"}
    assert _worker.describe(OfKernels.name, ["6.12"], [], build=True).versions == {"6.12": "1 with 6.12"}
    assert built == ["6.12"]
    assert _worker.describe(OfKernels.name, ["9.9"], [], build=True).lacks == "Debian has no Linux 9.9"


def test_a_machine_that_comes_later_builds_before_its_first_run(built):
    some = plan(study(), engine=FakeEngine()).runs[:3]
    tasks = [replace(task_of(run), engine=OfKernels.name, kernel="6.1", version="1 with 6.1") for run in some]
    without = _worker.work(Chunk(tasks=tasks))
    assert [(end.fault, "no kernel" in end.sentence) for end in without if isinstance(end, Failed)] == [(Fault.MACHINE, True)] * 3
    assert [type(end) for end in _worker.work(Chunk(tasks=tasks, build=True), threads=3)] == [Finished] * 3
    assert set(built) == {"6.1"}


# --- what machines say, without machines


def test_a_worker_that_cannot_begin_a_chunk_ends_no_sweep_and_keeps_none_going():
    def answer(task):
        raise ModuleNotFoundError("No module named 'polypath'")

    (end,) = sweep_with(plan(study()).runs[:1], FakeClient(answer))
    assert isinstance(end, Failed)
    assert (end.fault, end.sentence) == (Fault.MACHINE, "a worker cannot begin it: ModuleNotFoundError: No module named 'polypath'")


def test_runs_are_made_while_machines_work_and_each_is_done_once(monkeypatch):
    monkeypatch.setattr(_chunks, "_AT_FIRST", 5)
    monkeypatch.setattr(_chunks, "_AT_ONCE", 3)
    monkeypatch.setattr(_chunks, "_WINDOW", 6)
    runs = [run for run in plan(study(STUDY.replace("seeds: 3", "seeds: 20"))).runs if run.baseline is None]
    made = []
    client = FakeClient(lambda task: Finished(key=task.key, files={}, seconds=0.5))
    ends = []
    ahead = []
    for end in _dask._Sweep(DaskBackend("nowhere:1"), client, find("sim"), (made.append(run.key) or run for run in runs), print).results():
        ends.append(end.key)
        ahead.append(len(made) - len(ends))
    assert sorted(ends) == sorted(run.key for run in runs)
    # What waits, two chunks of at most four, and what comes at once.
    assert max(ahead) <= 6 + 2 * 4 + 3


def test_among_the_runs_that_wait_the_heaviest_is_next_whenever_it_came(monkeypatch):
    monkeypatch.setattr(_chunks, "_AT_FIRST", 2)
    monkeypatch.setattr(_chunks, "_AT_ONCE", 2)
    runs = [run for run in plan(study()).runs if run.baseline is None]
    runs.sort(key=lambda run: run.parameters["rate"] == "50mbit")
    queue = Queue(runs, threads=1)
    order = []
    while chunk := queue.next():
        order += [run.parameters["rate"] for run in chunk]
    # Two light ones were done before a heavy one had come.
    assert order == ["5mbit"] * 2 + ["50mbit"] * 6 + ["5mbit"] * 4


def test_a_machine_whose_disk_is_full_leaves_its_runs_to_others(tmp_path):
    handover, here, there = tmp_path / "handover", tmp_path / "here", tmp_path / "there"
    handover.mkdir()
    inside = ["unshare", "--mount", "sh", "-c", f"mount -t tmpfs -o size=4k none {handover}", "sh"]
    if subprocess.run(inside, capture_output=True, check=False).returncode:
        lacking("host", "to give one worker a disk of its own takes root")
    execute(plan(study(LONGER), out=here))
    with cluster_in(tmp_path, workers=1) as cluster:
        # For this worker the handover is a disk that holds 4 kB.
        inside[4] += ' && exec "$@"'
        cluster.worker("full", inside=inside)
        cluster.wait_for(2)
        work = plan(study(LONGER), out=there)
        execute(work, on=DaskBackend(cluster.address, handover=str(handover)))
    assert "full" in {file.name for file in tmp_path.iterdir()}
    assert content(there) == content(here)


# --- storage of objects


@pytest.fixture
def bucket(monkeypatch):
    """A bucket of S3 on this machine, which workers find by the environment."""
    try:
        import s3fs
        from moto.server import ThreadedMotoServer
    except ImportError as error:
        lacking("s3", f"no storage of objects to test with: {error}")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "anything")
    s3fs.S3FileSystem.clear_instance_cache()
    s3fs.S3FileSystem().makedirs("bucket", exist_ok=True)
    yield "s3://bucket/handover"
    s3fs.S3FileSystem.clear_instance_cache()
    server.stop()


def test_runs_are_handed_over_through_s3_and_are_the_same_bytes(bucket, tmp_path):
    handover = Handover(bucket)
    assert handover.keys() == set()
    handover.put(finished())
    assert handover.keys() == {finished().key}
    assert Handover(bucket).take(finished().key) == replace(finished(), seconds=0.0)
    handover.drop(finished().key)
    assert handover.keys() == set()
    here, there = tmp_path / "here", tmp_path / "there"
    execute(plan(study(), out=here))
    with cluster_in(tmp_path, workers=1) as cluster:
        execute(plan(study(), out=there), on=DaskBackend(cluster.address, handover=bucket))
    assert content(there) == content(here)
    assert Handover(bucket).keys() == set()


def test_what_other_hosts_write_is_left_alone(tmp_path):
    other = tmp_path / "sweep" / "runs" / ".unfinished-elsewhere:1:1:abc"
    mine = other.with_name(f".unfinished-{socket.gethostname()}:{2**22 + 1}:1:abc")
    for folder in (other, mine):
        folder.mkdir(parents=True)
    execute(plan(study(), out=tmp_path, engine=FakeEngine()))
    assert other.is_dir(), "nobody here knows whether its process lives"
    assert not mine.exists()


@pytest.mark.parametrize("said", ["", "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)"])
def test_a_controller_that_is_busy_is_asked_again(said, tmp_path, monkeypatch):
    sweep = _slurm._Sweep.__new__(_slurm._Sweep)
    answers = iter([RuntimeError(said), RuntimeError(said), "job"])

    class Executor:
        def submit(self, *arguments):
            answer = next(answers)
            if isinstance(answer, Exception):
                raise answer
            return answer

    waited = []
    monkeypatch.setattr(_slurm.time, "sleep", waited.append)
    sweep._executor, sweep._answered, sweep._tell = Executor(), time.monotonic(), lambda state: None
    assert (sweep._submitted(print), len(waited)) == ("job", 2)
    answers = iter([RuntimeError(said)] * 2)
    sweep._answered -= 601
    with pytest.raises(StudyError, match="Slurm has not answered for 10min"):
        sweep._submitted(print)
    answers = iter([RuntimeError("sbatch: error: invalid partition specified: nowhere")])
    with pytest.raises(StudyError, match="Slurm takes no job: sbatch: error: invalid partition specified: nowhere;"):
        sweep._submitted(print)
