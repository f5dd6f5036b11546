"""Results: the same bytes for any number of workers."""

import multiprocessing
import os
import signal
import socket
from pathlib import Path

import pandas as pd
import polars
import pytest
from fake_engine import FakeEngine
from study_data import STUDY, changed, one_link, written

from polypath import StudyError
from polypath.cli._studies import own_results
from polypath.engines import EngineError, find
from polypath.results import TABLES, Results, Store, execute, plan
from polypath.results._tables import columns
from polypath.study import Study, runs
from polypath.study._parameters import parameter_name

# Two algorithms, rates and seeds; baselines on two paths for rates and seeds.
CELLS, DISTINCT = 8, 16


@pytest.fixture
def study(tmp_path):
    return written(tmp_path / "study", STUDY)


def run(study, out, *, before=None, version="1", workers=2, only=None):
    return execute(plan(study, engine=FakeEngine(version=version, before=before), out=out, only=only), workers=workers)


def counting(calls):
    return lambda scenario: calls.append(scenario["seed"])


def contents(folder):
    """Every file of a results folder with its bytes."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def test_every_number_of_workers_writes_the_same_bytes(tmp_path, study):
    one, two, many = (contents(run(study, tmp_path / str(workers), workers=workers).folder) for workers in (1, 2, 7))
    assert one == two == many
    assert {f"{name}.parquet" for name in TABLES} <= one.keys()


def test_finished_runs_run_again_with_a_new_engine_alone(tmp_path, study):
    calls = []
    first = contents(run(study, tmp_path, before=counting(calls)).folder)
    assert len(calls) == DISTINCT
    assert contents(run(study, tmp_path, before=counting(calls)).folder) == first
    moved = Study.load(study.folder.rename(tmp_path / "moved"))
    run(moved, tmp_path, before=counting(calls))
    assert len(calls) == DISTINCT
    results = run(moved, tmp_path, before=counting(calls), version="2")
    assert len(calls) == 2 * DISTINCT
    assert results.manifest["engines"] == {"fake": "2"}
    assert len(results.runs) == CELLS


def die_in_the_sixth_run(folder, out, log):
    """Runs the study in another process that is killed, as by kill -9, when its sixth run begins."""

    def before(scenario):
        with log.open("a") as stream:
            stream.write("begun\n")
        if len(log.read_text().splitlines()) == 6:
            os.kill(os.getpid(), signal.SIGKILL)

    run(Study.load(folder), out, before=before, workers=1)


def test_killed_at_any_moment_it_goes_on_from_there(tmp_path, study):
    log, out = tmp_path / "log", tmp_path / "out"
    process = multiprocessing.get_context("spawn").Process(target=die_in_the_sixth_run, args=(study.folder, out, log))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    kept = plan(study, engine=FakeEngine(), out=out)
    assert kept.distinct - len(kept.pending) == 5

    calls = []
    results = run(study, out, before=counting(calls))
    assert len(calls) == DISTINCT - 5
    assert contents(results.folder) == contents(run(study, tmp_path / "undisturbed").folder)


def test_what_a_killed_process_left_half_written_is_removed(tmp_path, study):
    # 2^22 is above the largest process number Linux gives.
    left = tmp_path / "small" / "runs" / f".unfinished-{socket.gethostname()}:{2**22 + 1}:1:abc"
    left.mkdir(parents=True)
    (left / "run.json").write_text("{")
    run(study, tmp_path)
    assert not left.exists()
    left.mkdir()
    assert not Store(left.parent).clean(), "no run came to light"
    assert not left.exists()


@pytest.mark.parametrize(("kind", "told"), [(EngineError, EngineError), (ValueError, StudyError)])
def test_a_run_that_fails_leaves_the_others(tmp_path, study, kind, told):
    def before(scenario):
        if scenario["flows"][0]["cc"] == "olia":
            raise kind("the machine died (signal 9): it said nothing")

    with pytest.raises(told) as error:
        run(study, tmp_path, before=before)
    lines = str(error.value).splitlines()
    # What all of them died of is said once.
    head, _, runs = lines[0].partition(" (in the runs ")
    assert head == "small: the machine died (signal 9): it said nothing"
    assert runs.startswith("main, cc=olia, rate=20mbit, seed 1; main, cc=olia, rate=20mbit, seed 2; ")
    assert (runs.count("; "), runs[-1]) == (3, ")")
    assert (len(lines), lines[-1]) == (2, "4 runs failed; the others are kept")
    results = Results.open(tmp_path / "small")
    assert set(results.runs["cc"]) == {"lia"}
    assert len(plan(study, engine=FakeEngine(), out=tmp_path).pending) == 4


def test_only_runs_a_part_and_tables_hold_all_that_is_finished_of_one_study(tmp_path, study):
    results = run(study, tmp_path, only={"cc": ["lia"], "rate": ["10mbit"]})
    assert set(results.runs["cc"]) == {"lia"}
    assert len(results.runs) == 2
    results = run(study, tmp_path, only={"cc": ["olia"]})
    assert len(results.runs) == 6
    run(study, tmp_path)
    with pytest.raises(StudyError, match='two studies are called "small"'):
        run(written(tmp_path / "other", STUDY), tmp_path)


def test_runs_have_a_row_a_flow_with_the_parameters_as_columns(tmp_path):
    study = written(tmp_path / "study", changed(('cc: "${cc}"}', 'cc: "${cc}", count: 2}')))
    results = run(study, tmp_path)
    assert len(results.runs) == 2 * CELLS
    assert list(results.runs.columns[:10]) == ["key", "study", "experiment", "engine", "kernel", "seed", "cc", "rate", "flow", "group"]
    first = results.runs[results.runs["key"] == results.runs["key"].iloc[0]]
    x, y = first["goodput_receiver_mbps"]
    assert first["total_receiver_mbps"].tolist() == pytest.approx([x + y] * 2)
    assert first["jain"].tolist() == pytest.approx([(x + y) ** 2 / (2 * (x * x + y * y))] * 2)
    assert first["srtt_ms"].tolist() == [20.0, 20.0]
    assert first["retransmissions"].tolist() == [1, 1]


def test_jain_is_of_flows_that_contend(tmp_path):
    others = """
  call: {client: a, server: b, transport: udp, app: {kind: constant, rate: 100kbit}}
  file: {client: a, server: b, transport: tcp, app: {kind: transfer, size: 100KB}}
  late: {client: a, server: b, transport: tcp, start: 2s, app: {kind: bulk, duration: 500ms}}
"""
    text = one_link("s", "{rate: 20mbit, delay: 5ms}", "transport: tcp, count: 2", duration="3s").replace(
        "flows:\n", f"flows:{others.rstrip()}\n", 1
    )
    table = execute(plan(written(tmp_path / "study", text), engine=find("sim"), out=tmp_path)).runs.set_index("flow")
    x, y = table["goodput_receiver_mbps"][["f-1", "f-2"]]
    assert table["jain"].tolist() == pytest.approx([(x + y) ** 2 / (2 * (x * x + y * y))] * 5)


def test_tables_say_what_ran(tmp_path, study):
    results = run(study, tmp_path)
    by = ["experiment", "cc", "rate", "seed"]
    beside = results.runs.merge(results.baselines, on=by, suffixes=("", "_alone"))
    assert len(beside) == 2 * CELLS
    assert set(beside["flow_transport_alone"]) == {"tcp"}
    assert sorted(set(beside["client_address"])) == ["10.0.1.1", "10.0.2.1"]
    cells = [each.key for each in runs(study, engine="fake", version="1") if each.baseline is None]
    assert results.runs["key"].tolist() == cells
    assert {Path(folder).name for folder in (results.folder / "runs").iterdir()} == set(cells) | set(results.baselines["key"])
    import duckdb

    query = f"select avg(goodput_receiver_mbps) from '{results.folder}/runs.parquet' where cc = 'lia'"
    by_duckdb = duckdb.sql(query).fetchall()[0][0]
    by_pandas = results.runs.query("cc == 'lia'")["goodput_receiver_mbps"].mean()
    by_polars = results.to_polars().filter(polars.col("cc") == "lia")["goodput_receiver_mbps"].mean()
    assert by_duckdb == pytest.approx(by_pandas) == pytest.approx(by_polars)
    series = run(study, tmp_path).series
    assert set(series["flow"]) == {"bulk"}
    assert series["ssthresh"].isna().all(), "no threshold yet is null"
    assert series["time_s"].max() == pytest.approx(1.9)
    assert 0.3 in set(series["time_s"]), "times are the nearest float to their decimal"
    (results.folder / "series.parquet").unlink()
    with pytest.raises(StudyError, match=r"lacks series\.parquet; run the study again"):
        _ = results.series


def test_a_parameter_that_an_experiment_lacks_is_null(tmp_path):
    text = changed(("matrix:\n  cc: [lia, olia]\n  rate: [20mbit, 10mbit]\n", ""))
    text += (
        "experiments: {a: {matrix: {cc: [lia], rate: [1mbit]}}, b: {matrix: {many: [1, 2]}, flows: {f: {client: client, server: server, "
    )
    text += 'cc: reno, count: "${many}"}}, parameters: {rate: 2mbit}}}\n'
    results = run(written(tmp_path / "study", text), tmp_path)
    runs = results.table("runs")
    assert str(runs.schema.field("many").type) == "int64"
    assert sorted(set(runs["many"].to_pylist()), key=str) == [1, 2, None]


def test_a_results_folder_can_be_read_alone(tmp_path, study):
    built = Study(**{name: getattr(study, name) for name in type(study).model_fields})
    assert built.folder is None
    assert Results.open(run(built, tmp_path / "out").folder).study == study
    folder = run(study, tmp_path / "a").folder.rename(tmp_path / "elsewhere")
    results = Results.open(folder)
    assert results.study == study
    assert results.scenario(results.runs["key"].iloc[0])["nodes"][0]["name"] == "client"
    assert isinstance(results.runs, pd.DataFrame)


def test_tables_and_folders_that_are_not_there_are_named(tmp_path, study):
    with pytest.raises(StudyError, match=r"holds no results: there is no runs\.parquet"):
        Results.open(tmp_path)
    # In the way of a table that comes before the runs.
    (tmp_path / "small" / "series.parquet" / "in").mkdir(parents=True)
    with pytest.raises(OSError, match=r"series\.parquet"):
        run(study, tmp_path)
    assert not [place.name for place in (tmp_path / "small").iterdir() if place.name.startswith(".series")]
    with pytest.raises(StudyError, match=r"no runs\.parquet"):
        Results.open(tmp_path / "small")


def test_every_column_is_documented(tmp_path, study, pytestconfig):
    text = (pytestconfig.rootpath / "docs/reference/results.md").read_text()
    results = run(study, tmp_path)
    for name in TABLES:
        section = text.split(f"## {name}\n", 1)[1].split("\n## ", 1)[0]
        own = [column for column in results.table(name).column_names if column not in ("cc", "rate")]
        shared = text.split("## Columns of every table\n", 1)[1].split("\n## ", 1)[0]
        also = text.split("## runs\n", 1)[1].split("\n## ", 1)[0] if name in ("baselines", "alone") else ""
        missing = [column for column in own if f"`{column}`" not in section + shared + also]
        assert missing == [], f"docs/reference/results.md says nothing of these columns of {name}"


class Unsampled(FakeEngine):
    def run(self, scenario):
        output = super().run(scenario)
        for flow in output.outcome["flows"]:
            for subflow in flow["subflows"][1:]:
                # It carried something for less than a sample's time.
                subflow["mean_srtt_us"] = 0.0
        return output


@pytest.mark.parametrize("table", TABLES)
def test_no_parameter_may_have_the_name_of_a_column(table):
    for column in columns(table):
        with pytest.raises(ValueError, match="is a column of the results"):
            parameter_name(column)


def test_a_subflow_that_was_never_sampled_has_no_round_trip_time_and_does_not_count(tmp_path, study):
    results = execute(plan(study, engine=Unsampled(), out=tmp_path, only={"rate": "20mbit"}), workers=1)
    assert set(results.runs["srtt_ms"]) == {20.0}
    assert results.subflows.groupby("subflow")["mean_srtt_ms"].count().tolist() == [len(results.runs), 0]


def test_a_cell_that_two_experiments_share_stands_in_both(tmp_path):
    text = SHARED.replace("FIRST", "rate: [1mbit, 2mbit]").replace("SECOND", "cc: [reno, cubic]")
    runs_table = execute(plan(written(tmp_path, text), engine=FakeEngine(), out=tmp_path / "out"), workers=1).runs
    cells_of = runs_table.groupby("experiment")["key"].apply(list)
    assert [len(keys) for keys in cells_of] == [2, 2]
    # With reno at 1 Mbit/s they are the same run.
    assert len(set(cells_of["one"]) & set(cells_of["two"])) == 1


SHARED = one_link(
    "shared-cells",
    '{rate: "${rate}"}',
    duration="1s",
    parameters="{rate: 1mbit, cc: reno}",
    experiments="{one: {matrix: {FIRST}}, two: {matrix: {SECOND}}}",
)


@pytest.fixture
def recorded(tmp_path):
    """A study with a table beside it."""
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "up.csv").write_text("time,rate\n0s,8mbit\n1s,9mbit\n")
    return written(tmp_path / "study", one_link("small", "[{kind: table, file: up.csv}]", "transport: tcp", duration="2s"))


def test_results_hold_the_table_that_was_run_and_another_is_told(tmp_path, monkeypatch, capsys, recorded):
    kept = run(recorded, tmp_path / "results").folder
    table = recorded.folder / "up.csv"
    assert (kept / "up.csv").read_bytes() == table.read_bytes()
    assert Results.open(kept).study == recorded
    monkeypatch.chdir(tmp_path)
    own_results(recorded)
    assert capsys.readouterr().err == ""
    table.write_text("time,rate\n0s,8mbit\n1s,7mbit\n")
    own_results(recorded)
    assert "up.csv has changed since results/small was run" in capsys.readouterr().err


def test_results_without_their_table_take_the_studys_own_if_it_is_what_ran(tmp_path, recorded):
    kept = run(recorded, tmp_path / "results").folder
    (kept / "up.csv").unlink()
    assert Results.open(kept).study == recorded
    (recorded.folder / "up.csv").write_text("time,rate\n0s,8mbit\n1s,7mbit\n")
    with pytest.raises(StudyError, match=r"other tables of links now than those that .* was run with: run the study again"):
        _ = Results.open(kept).study
    (recorded.folder / "up.csv").unlink()
    with pytest.raises(StudyError, match=r'there is no file "up.csv" beside'):
        _ = Results.open(kept).study
