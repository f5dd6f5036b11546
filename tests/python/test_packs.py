"""Packs of finished runs: studies of many runs keep them so, and lose nothing by it."""

import errno
import hashlib
import multiprocessing
import os
import resource
import signal
import socket
import sqlite3
import tracemalloc

import pytest
import yaml
from fake_engine import FakeEngine
from hypothesis import given, settings
from hypothesis import strategies as st
from many_runs import measured
from study_data import one_link

from polypath.results import Results, execute, plan
from polypath.results._keys import KEY, Keys
from polypath.results._packs import Packs
from polypath.results._store import Store
from polypath.study import MOST_KEPT, Study, StudyError

FIELDS = {"duration": "2s", "measure": "{series: 1s}", "matrix": "{cc: [lia, reno]}", "seeds": 3}
STUDY = one_link("many", "{rate: 1mbit}", **FIELDS)
RUNS = 6


def study(text=STUDY):
    return Study.model_validate(yaml.safe_load(text))


@pytest.fixture
def packed(monkeypatch):
    """Six runs are many."""
    monkeypatch.setattr("polypath.study._cells.MOST_KEPT", RUNS - 1)


def key(number):
    return f"{number:032x}"


def counting(seen):
    return lambda scenario: seen.append(scenario["flows"][0]["cc"])


def run(folder, seen):
    return execute(plan(study(), engine=FakeEngine(before=counting(seen)), out=folder))


def packs(folder):
    return sorted(file.name for file in (folder / "many" / "runs").iterdir())


def tables(folder):
    return {file.name: file.read_bytes() for file in sorted((folder / "many").glob("*.parquet"))}


def test_the_number_of_runs_decides_between_folders_and_packs():
    # A study of few cells may have many seeds.
    plans = [plan(study(STUDY.replace("seeds: 3", f"seeds: {seeds}")), engine=FakeEngine()) for seeds in (250, 251, MOST_KEPT // 2 + 1)]
    assert [each.packs for each in plans] == [False, True, True]
    # So many are planned while they run.
    assert [each.large for each in plans] == [False, False, True]


def test_a_study_of_many_runs_keeps_them_in_one_file_and_its_tables_are_the_same(tmp_path, monkeypatch):
    run(tmp_path / "folders", [])
    monkeypatch.setattr("polypath.study._cells.MOST_KEPT", RUNS - 1)
    results = run(tmp_path / "packs", [])
    (pack,) = packs(tmp_path / "packs")
    assert pack.startswith("pack-")
    assert tables(tmp_path / "packs") == tables(tmp_path / "folders")
    folders = Results.open(tmp_path / "folders" / "many")
    assert len(results.series)
    assert dict(results.scenarios) == dict(folders.scenarios)
    # The same files, byte for byte.
    for folder in (tmp_path / "folders" / "many" / "runs").iterdir():
        for file in folder.iterdir():
            assert Store(tmp_path / "packs" / "many" / "runs").read(folder.name, file.name) == file.read_bytes()


@pytest.mark.usefixtures("packed")
def test_what_is_packed_never_runs_again(tmp_path):
    seen = []
    run(tmp_path, seen)
    assert len(seen) == RUNS
    run(tmp_path, seen)
    assert len(seen) == RUNS
    assert len(packs(tmp_path)) == 1
    results = run(tmp_path, [])
    folder = results.folder / "runs"
    chosen = str(results.runs["key"].iloc[0])
    Store(folder).put(chosen, {"run.json": b"{}"}, replace=True, packed=True)
    store = Store(folder)
    assert store.record(chosen) == {}
    assert len(packs(tmp_path)) == 2


def test_runs_in_folders_count_when_the_study_grows(tmp_path, monkeypatch):
    small = study(STUDY.replace("seeds: 3", "seeds: 2"))
    execute(plan(small, engine=FakeEngine(), out=tmp_path))
    monkeypatch.setattr("polypath.study._cells.MOST_KEPT", RUNS - 1)
    seen = []
    results = run(tmp_path, seen)
    assert len(seen) == 2
    assert len(results.runs) == RUNS
    assert len(packs(tmp_path)) == 4 + 1


def die_in_the_fifth_run(folder):
    """In another process that is killed, as by kill -9, when its fifth run begins."""
    from polypath.study import _cells

    _cells.MOST_KEPT = RUNS - 1
    seen = []

    def before(scenario):
        seen.append("begun")
        if len(seen) == 5:
            os.kill(os.getpid(), signal.SIGKILL)

    execute(plan(study(), engine=FakeEngine(before=before), out=folder), workers=1)


@pytest.mark.usefixtures("packed")
def test_a_process_that_is_killed_loses_only_what_it_was_doing(tmp_path):
    process = multiprocessing.get_context("spawn").Process(target=die_in_the_fifth_run, args=(tmp_path,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert all(name.startswith(".unfinished-") for name in packs(tmp_path))
    seen = []
    run(tmp_path, seen)
    assert len(seen) == RUNS - 4
    # Its pack has become whole, and nothing else is left of it.
    assert [name.partition("-")[0] for name in packs(tmp_path)] == ["pack", "pack"]
    run(tmp_path / "undisturbed", [])
    assert tables(tmp_path) == tables(tmp_path / "undisturbed")


@pytest.mark.usefixtures("packed")
def test_packs_of_others_are_left_alone_and_of_processes_that_ended_removed(tmp_path):
    folder = tmp_path / "many" / "runs"
    folder.mkdir(parents=True)
    # 2^22 is above the largest process number Linux gives.
    (folder / f".unfinished-{socket.gethostname()}:{2**22 + 1}:0:pack").touch()
    for host, process in (("elsewhere", 1), (socket.gethostname(), os.getppid())):
        (folder / f".unfinished-{host}:{process}:0:pack").write_bytes(b"in the middle")
    run(tmp_path, [])
    assert len(packs(tmp_path)) == 3


@pytest.mark.usefixtures("packed")
def test_processes_that_share_a_folder_find_each_others_runs(tmp_path):
    seen = []
    for cc in ("lia", "reno"):
        execute(plan(study(), engine=FakeEngine(before=counting(seen)), out=tmp_path, only={"cc": cc}))
    results = run(tmp_path, seen)
    assert len(seen) == RUNS
    assert len(results.runs) == RUNS


@pytest.mark.usefixtures("packed")
def test_a_pack_that_was_cut_is_named_and_its_runs_run_again_without_it(tmp_path):
    run(tmp_path, [])
    pack = tmp_path / "many" / "runs" / packs(tmp_path)[0]
    os.truncate(pack, 40_000)
    with pytest.raises(StudyError, match=rf"{pack.name} is no whole pack of runs \(.+\): remove it, and run the study again"):
        run(tmp_path, [])
    pack.unlink()
    seen = []
    run(tmp_path, seen)
    assert len(seen) == RUNS


def test_a_disk_that_is_full_is_an_error_that_names_the_pack(tmp_path):
    made = Packs(tmp_path)
    made.put(key(1), {"run.json": b"first"})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, before[1]))
        with pytest.raises(OSError, match=r":pack") as told:
            made.put(key(2), {"run.json": os.urandom(400_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert told.value.errno in (errno.ENOSPC, errno.EIO)
    # What was there before stays, and the next one is kept.
    assert (made.read(key(1), "run.json"), made.read(key(2), "run.json")) == (b"first", None)
    made.put(key(3), {"run.json": b"third"})
    made.close()
    assert Packs(tmp_path).read(key(3), "run.json") == b"third"


def test_sqlite_itself_unpacks_a_pack(tmp_path):
    made = Packs(tmp_path)
    made.put(key(1), {"run.json": b"text " * 100, "links.parquet": b"\x00\x01"})
    made.close()
    (pack,) = tmp_path.iterdir()
    rows = sqlite3.connect(pack).execute("SELECT name, sz, length(data) FROM sqlar ORDER BY name").fetchall()
    assert rows[0] == (f"{key(1)}/links.parquet", 2, 2), "what does not become shorter stands as it is"
    assert rows[1][:2] == (f"{key(1)}/run.json", 500)
    assert rows[1][2] < 100


@settings(max_examples=40, deadline=None)
@given(
    operations=st.lists(
        st.one_of(
            st.tuples(st.just("put"), st.integers(0, 5), st.binary(max_size=3000)),
            st.tuples(st.sampled_from(["close", "open"]), st.just(0), st.just(b"")),
        ),
        max_size=30,
    )
)
def test_packs_hold_what_a_dictionary_holds(operations, tmp_path_factory):
    folder = tmp_path_factory.mktemp("packs")
    made = Packs(folder)
    known = {}
    for verb, number, content in operations:
        match verb:
            case "put" if key(number) not in known:
                made.put(key(number), {"run.json": content})
                known[key(number)] = content
            case "close":
                made.close()
            case "open":
                made.close()
                made = Packs(folder)
    assert len(made) == len(known)
    assert {each: made.read(each, "run.json") for each in map(key, range(6)) if each in made} == known
    made.close()


@settings(max_examples=60, deadline=None)
@given(
    # Few different hashes meet at one place; a table of zeros could mistake the last.
    st.lists(
        st.tuples(st.one_of(st.integers(0, 2**128 - 1), st.integers(0, 20), st.integers(0, 8).map(lambda n: n << 64)), st.integers(0, 9))
    )
)
def test_keys_hold_what_a_dictionary_holds(added):
    made, known = Keys(), dict[bytes, int]()
    for number, value in added:
        digest = number.to_bytes(KEY)
        assert made.add(digest, value) is (digest not in known)
        known[digest] = value
    assert len(made) == len(known)
    for number in (*range(30), *(number for number, _ in added)):
        digest = number.to_bytes(KEY)
        assert (made.get(digest), digest in made) == (known.get(digest), digest in known)


def test_keys_stay_themselves_as_their_table_grows_and_take_40_bytes_at_most():
    made, number = Keys(), 50_000
    digests = [hashlib.sha256(str(each).encode()).digest()[:KEY] for each in range(2 * number)]
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for each, digest in enumerate(digests[:number]):
        made.add(digest, each)
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert [made.get(digest) for digest in digests[:number]] == list(range(number))
    assert not any(digest in made for digest in digests[number:])
    assert taken < 40 * number


def test_memory_hardly_grows_with_the_number_of_runs(tmp_path):
    few, many = 6_000, 18_000
    most = {}
    for runs in (few, many):
        (tmp_path / str(runs)).mkdir()
        most[runs] = measured(runs, tmp_path / str(runs))
    # A run that is kept takes 9 kB, its rows more. Of 3 kB, two million would take 6 GB: a
    # process's memory comes in pieces of megabytes.
    for less, more in zip(most[few], most[many], strict=True):
        assert more - less < 3_000 * (many - few), most
