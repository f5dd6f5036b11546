"""A damaged run is one that is not there."""

import itertools
import random
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from study_data import one_link, written

from polypath.results import Results, Store, plan
from polypath.study import Study, StudyError

STUDY = one_link("hurt", matrix="{cc: [cubic, reno]}", duration="1s", seeds=1, baselines="null", measure="{series: 100ms}")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A study with the results of its two runs."""
    from polypath.results import execute

    folder = tmp_path_factory.mktemp("whole")
    execute(plan(written(folder, STUDY), out=folder / "results"))
    # Copies are of no other study.
    (folder / "results/hurt/.study-file").unlink()
    return folder


@pytest.fixture
def folder(whole, tmp_path, monkeypatch):
    shutil.copytree(whole, tmp_path / "hurt")
    monkeypatch.chdir(tmp_path / "hurt")
    return tmp_path / "hurt"


def a_run(folder):
    return min((folder / "results/hurt/runs").iterdir())


def overwrite(content):
    return lambda file: file.write_bytes(content)


def cut(file):
    file.write_bytes(file.read_bytes()[: len(file.read_bytes()) // 2])


def scrambled(file):
    file.write_bytes(random.Random(7).randbytes(3000))


DAMAGE = {
    "record cut": ("run.json", cut),
    "record random": ("run.json", scrambled),
    "record empty": ("run.json", overwrite(b"")),
    "record a list": ("run.json", overwrite(b"[1, 2]")),
    "outcome null": ("run.json", overwrite(b'{"key": "0", "engine": "sim", "version": "1", "scenario": {}, "outcome": null}')),
    "scenario null": ("run.json", overwrite(b'{"key": "0", "engine": "sim", "version": "1", "scenario": null, "outcome": {}}')),
    "series cut": ("subflows.parquet", cut),
    "series random": ("subflows.parquet", scrambled),
    "series empty": ("links.parquet", overwrite(b"")),
    "record missing": ("run.json", lambda file: file.unlink()),
    "record a folder": ("run.json", lambda file: (file.unlink(), file.mkdir())),
}


# All of them look at a run by the same reader: each damage meets two of them, and one of the others.
COMMANDS = [*itertools.product(("run", "load"), DAMAGE), *zip(itertools.cycle(("show", "report", "compare")), DAMAGE, strict=False)]


@pytest.mark.parametrize(("command", "kind"), COMMANDS)
def test_a_run_that_cannot_be_read_is_told_once_and_runs_again(folder, polypath, kind, command):
    name, hurt = DAMAGE[kind]
    hurt(a_run(folder) / name)
    told = f"{a_run(folder).relative_to(folder)} "
    if command == "load":
        # Tables are what they were; only what is asked of the run itself is not there.
        results = Results.open(folder / "results/hurt")
        assert (len(results.runs), len(results.scenarios)) == (2, 1 if name == "run.json" else 2)
        assert results.notes
        return
    if command in ("show", "report"):
        code, out, err = polypath(command, "results/hurt")
        assert code == 0
        page = (folder / "results/hurt/report.html").read_text() if command == "report" else ""
        assert told in out + err + page
        return
    if command == "compare":
        code, out, err = polypath("compare", ".", "--engines", "sim", "--out", "results", "--no-report")
        assert (code, "only one engine ran" in err, told in err) == (2, True, True)
    else:
        code, out, err = polypath("run", ".", "--no-report")
        assert (code, (out + err).count("cannot be read"), told in err) == (0, 1, True)
        assert "1 of them finished earlier" in err
    # It is as it was.
    code, out, err = polypath("run", ".", "--no-report")
    assert (code, "cannot be read" in out + err, "2 of them finished earlier" in err) == (0, False, True)
    code, out, _ = polypath("run", ".", "--verify", "all")
    assert (code, out.strip()) == (0, "hurt: 2 runs again on sim, the same to the byte")


@pytest.mark.parametrize("content", [b"[1, 2]", b"{", b"null", b'{"engines": [1]}', b'{"engines": {"sim": 1}, "draws": 3}', b"\xff\xfe"])
def test_a_damaged_manifest_is_made_anew_or_told(folder, polypath, content):
    manifest = folder / "results/hurt/manifest.json"
    for command, what in (("show", "results/hurt"), ("report", "results/hurt"), ("status", "results"), ("run", ".")):
        manifest.write_bytes(content)
        code, _, err = polypath(command, what)
        assert code in (0, 2)
        if code:
            assert err.endswith("manifest.json cannot be read: run the study again, which makes it anew\n")
    manifest.write_bytes(content)
    assert polypath("run", ".", "--out", "results", "--no-report")[0] == 0
    assert polypath("report", "results/hurt")[0] == 0


@pytest.mark.parametrize("table", ["runs", "subflows", "series"])
def test_a_damaged_table_is_told_and_made_anew(folder, polypath, table):
    file = folder / f"results/hurt/{table}.parquet"
    cut(file)
    code, _, err = polypath("report", "results/hurt")
    assert (code, err.count("\n"), f"{table}.parquet cannot be read" in err) == (2, 1, True)
    assert polypath("run", ".", "--no-report")[0] == 0
    assert polypath("report", "results/hurt")[0] == 0


def test_a_small_series_of_many_rows_is_not_read(folder, polypath):
    """Equal rows take no room in a file. What they would take in memory is never asked for."""
    place = a_run(folder) / "subflows.parquet"
    before = pq.read_table(place)
    one = before.slice(0, 1)
    row = pa.table({name: pa.repeat(one[name][0], 1_000_000) for name in one.column_names}, schema=one.schema.remove_metadata())
    with pq.ParquetWriter(place, row.schema, compression="zstd") as writer:
        for _ in range(3):
            writer.write_table(row)
    assert place.stat().st_size < 1e6
    allocated = pa.total_allocated_bytes()
    code, _, err = polypath("run", ".", "--no-report")
    assert (code, "subflows.parquet holds 3000000 rows, more than a run of its length has" in err) == (0, True)
    assert pa.total_allocated_bytes() - allocated < 50e6
    assert pq.read_table(place).equals(before)


def test_a_series_of_a_real_run_is_never_too_long(whole):
    store = Store(whole / "results/hurt/runs")
    for each in (whole / "results/hurt/runs").iterdir():
        kept = store.look(each.name)
        assert all(4 * kept.series(name).num_rows <= kept._most_rows(name) for name in ("subflows", "links"))


FILES = ("run.json", "subflows.parquet", "links.parquet")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(FILES),
    place=st.integers(0, 1 << 20),
    kind=st.sampled_from(["flip", "cut", "insert", "swap"]),
    more=st.binary(min_size=1, max_size=40),
    sealed=st.booleans(),
)
def test_no_damage_ends_a_command_with_a_traceback(whole, tmp_path_factory, name, place, kind, more, sealed):
    from polypath.report import material
    from polypath.results import execute

    folder = tmp_path_factory.mktemp("damage")
    shutil.copytree(whole / "results", folder / "results")
    run = min((folder / "results/hurt/runs").iterdir())
    if not sealed:
        # As runs were before there was a hash: nothing but its own sense says that it is whole.
        record = (run / "run.json").read_bytes()
        (run / "run.json").write_bytes(b"{" + record[record.index(b'"key"') :])
    content = bytearray((run / name).read_bytes())
    at = place % len(content)
    match kind:
        case "flip":
            content[at] ^= 1 + more[0] % 255
        case "cut":
            del content[at:]
        case "insert":
            content[at:at] = more
        case "swap":
            content[at : at + len(more)] = more
    (run / name).write_bytes(bytes(content))
    shown = Results.open(folder / "results/hurt")
    made = material(shown)
    assert made.runs["key"].nunique() + len(shown._store.damaged) >= 2
    study = Study.load(whole)
    results = execute(plan(study, out=folder / "results"))
    assert len(results.runs) == 2
    # Whatever it was: it ran again, or it is told.
    whole_again = (run / name).read_bytes() == (min((whole / "results/hurt/runs").iterdir()) / name).read_bytes()
    assert whole_again or results.notes


def test_a_table_without_a_column_is_one_sentence(folder):
    file = folder / "results/hurt/runs.parquet"
    pq.write_table(pq.read_table(file).drop(["srtt_ms", "goodput_receiver_mbps"]), file)
    with pytest.raises(StudyError, match="lacks the columns goodput_receiver_mbps, srtt_ms, so it is of another version or was changed"):
        Results.open(file.parent).table("runs")
