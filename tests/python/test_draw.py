"""Parameters that are drawn, and studies with more cells than are kept."""

import html
import itertools
import math
import statistics

import duckdb
import numpy as np
import pandas
import polars
import pyarrow.parquet as pq
import pytest
import yaml
from fake_engine import FakeEngine
from typer.testing import CliRunner

from polypath import Draw, Drawn, Results, Study, StudyError
from polypath.cli._app import build
from polypath.engines import EngineError
from polypath.results import Plan, _assemble, _plan, cost, execute, plan
from polypath.results import _store as store
from polypath.study import Cells, cells, is_large, number_of_cells, parameter_names, specimens
from polypath.study import _cells as making

STUDY = """
name: drawn
title: Any two paths
topology:
  nodes: {a: {}, b: {}}
  links:
    one: {ends: [a, b], both: {rate: "${rate}mbit", delay: "${delay}ms", queue: 50packets}}
    two: {ends: [a, b], both: {rate: 20mbit, delay: 15ms, queue: 50packets}}
flows: {m: {client: a, server: b, transport: mptcp, cc: "${cc}"}}
duration: 2s
measure: {series: null}
draw:
  number: 4
  parameters:
    rate: {loguniform: [1, 100]}
    delay: {choice: {5: 3, 50: 1}}
matrix: {cc: [lia, cubic]}
"""


def study(text=STUDY):
    return Study.model_validate(yaml.safe_load(text))


def large(monkeypatch, text=STUDY):
    """A study of which no cell is kept."""
    monkeypatch.setattr(making, "MOST_KEPT", 3)
    made = study(text)
    assert is_large(made)
    return made


# --- values


def test_draws_stand_with_every_cell_and_stay_what_they_are():
    made = study()
    assert [(cell.parameters["draw"], cell.parameters["cc"]) for cell in cells(made)] == list(
        itertools.product((1, 2, 3, 4), ("lia", "cubic"))
    )
    assert parameter_names(made) == ["draw", "rate", "delay", "cc"]
    both = cells(made)[0].parameters, cells(made)[1].parameters
    assert {both[0]["rate"], both[0]["delay"]} == {both[1]["rate"], both[1]["delay"]}, "all algorithms have the same networks"
    few = Draw(number=2, parameters={"x": Drawn(uniform=(0, 1))})
    many = Draw(number=9, parameters={"y": Drawn(uniform=(0, 1)), "x": Drawn(uniform=(0, 1))})
    assert few.values(2)["x"] == many.values(2)["x"]
    assert few.values(1)["x"] != few.values(2)["x"]
    assert Draw(number=2, seed=2, parameters=few.parameters).values(2)["x"] != few.values(2)["x"]
    # SHA-256 of "1/2/x"; the same on any machine and with any library.
    assert few.values(2) == {"draw": 2, "x": 0.841}
    drawn = Drawn(choice={"dsl": 3, "lte": 1, "never": 0})
    found = [Draw(number=1, parameters={"kind": drawn}).values(number)["kind"] for number in range(1, 4001)]
    assert set(found) == {"dsl", "lte"}
    assert statistics.mean(kind == "dsl" for kind in found) == pytest.approx(0.75, abs=0.03)
    assert {Drawn(choice=[1, 2]).value(chance) for chance in (0.1, 0.9)} == {1, 2}


@pytest.mark.parametrize(
    ("drawn", "quantiles"),
    [
        (Drawn(uniform=(10, 20), digits=9), {0.25: 12.5, 0.5: 15, 0.9: 19}),
        (Drawn(loguniform=(1, 10000), digits=9), {0.25: 10, 0.5: 100, 0.75: 1000}),
        (Drawn(lognormal=(30, 2), digits=9), {0.15865525393145707: 15, 0.5: 30, 0.8413447460685429: 60}),
    ],
)
def test_numbers_follow_their_distribution(drawn, quantiles):
    for chance, value in quantiles.items():
        assert drawn.value(chance) == pytest.approx(value, rel=1e-6)
    found = sorted(float(Draw(number=1, parameters={"x": drawn}).values(number)["x"]) for number in range(1, 4001))
    for chance in (0.1, 0.5, 0.9):
        # Of 4000 draws, this share lies below the quantile, within four standard deviations.
        below = sum(value < drawn.value(chance) for value in found) / len(found)
        assert abs(below - chance) < 4 * math.sqrt(chance * (1 - chance) / len(found))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("rate: {}", r"give one of uniform, loguniform, lognormal, choice; there is none"),
        ("rate: {uniform: [1, 2], choice: [1]}", r"there are uniform and choice"),
        ("rate: {uniform: [2, 1]}", r"`uniform: \[2, 1\]` spans nothing"),
        ("rate: {loguniform: [0, 1]}", r"begins at 0; only what is greater than 0 has a logarithm"),
        ("rate: {choice: {1: -1}}", r"weights of a `choice` are 0 or more"),
        ("draw: {uniform: [1, 2]}", r'"draw" is the number of a draw'),
        ("cc: {choice: [lia]}", r'"cc" has a value already; a parameter is drawn or given, not both'),
        ("idle: {uniform: [1, 2]}", r'"idle" is drawn, but "\$\{idle\}" stands nowhere in the set-up'),
        ("rate: {uniform: [-2, -1]}", r"-1\.\d\dmbit.* \(in the cell draw=1, rate=-1\.\d\d, delay=5, cc=lia\)"),
    ],
)
def test_what_cannot_be_drawn_is_told(change, sentence):
    name = change.partition(":")[0]
    old = "rate: {loguniform: [1, 100]}"
    with pytest.raises(ValueError, match=sentence):
        study(STUDY.replace(old, change if name == "rate" else f"{old}\n    {change}"))


def test_draws_are_repetitions_in_summaries_and_claims(tmp_path):
    results = execute(plan(study(), out=tmp_path))
    assert set(results.runs["draw"]) == {1, 2, 3, 4}
    summary = results.summary()
    assert list(summary["cc"]) == ["lia", "cubic"]
    assert list(summary["n"]) == [4, 4]
    assert summary["goodput_receiver_mbps"].iloc[0] == pytest.approx(results.runs.query("cc == 'lia'")["goodput_receiver_mbps"].mean())
    from polypath.report import claim_results, material

    claim = "claims: [{id: some, sentence: Some., metric: goodput_receiver_mbps, where: {cc: lia}, check: {kind: between, low: 5}}]\n"
    results = execute(plan(study(STUDY + claim), out=tmp_path))
    (verdict,) = claim_results(material(results))
    assert verdict.why.startswith("1 cell, "), "the mean over four networks"


def test_one_chooses_draws_by_number_and_the_short_form_has_the_first():
    assert {cell.parameters["draw"] for cell in cells(study().in_short())} == {1, 2}
    assert {cell.parameters["draw"] for cell in cells(study(STUDY + "short: {draws: 1}\n").in_short())} == {1}
    made = study()
    assert {run.parameters["draw"] for run in plan(made, only={"draw": ["2", "3"]}).runs} == {2, 3}
    assert {run.parameters["draw"] for run in plan(made, only={"draw": ["2..4"], "cc": ["lia"]}).runs} == {2, 3, 4}
    for wrong in ("5", "2..5", "0", "3..2", "x"):
        with pytest.raises(StudyError, match=rf"no cell of drawn has draw={wrong}; there are 1 to 4, and 1\.\.9 stands for nine of them"):
            plan(made, only={"draw": [wrong]})
    with pytest.raises(StudyError, match=r'"rate" is drawn; choose draws by their number, such as --only draw=1'):
        plan(made, only={"rate": ["5"]})
    with pytest.raises(StudyError, match=r"no cell of drawn-short has draw=3; there are 1 to 2"):
        plan(study().in_short(), only={"draw": ["3"]})


OWN = STUDY.replace("  number: 4\n", "  number: 4\n  own_seeds: true\n") + "seeds: 2\n"


def test_each_draw_has_seeds_of_its_own_if_it_is_told_so(monkeypatch):
    made = study(OWN)
    of = {(cell.parameters["draw"], cell.parameters["cc"]): cell.seeds for cell in cells(made)}
    assert len({seed for seeds in of.values() for seed in seeds}) == 4 * 2, "as many as draws and seeds"
    assert all(of[number, "lia"] == of[number, "cubic"] for number in (1, 2, 3, 4)), "algorithms have the same chance"
    # SHA-256 of "1/2/seed/1" and "1/2/seed/2"; the same on any machine, and below 2**48.
    assert of[2, "lia"] == (10437805187506, 176090115697453)
    # Whatever else is drawn, and however often.
    more = study(OWN.replace("number: 4", "number: 5").replace("{loguniform: [1, 100]}", "{uniform: [1, 9]}"))
    assert [cell.seeds for cell in cells(more)][:8] == [cell.seeds for cell in cells(made)]
    other = study(OWN.replace("  number: 4\n", "  number: 4\n  seed: 2\n"))
    assert not {seed for cell in cells(other) for seed in cell.seeds} & {seed for seeds in of.values() for seed in seeds}
    assert [cell.seeds for cell in cells(made.in_short())] == [cell.seeds for cell in cells(made)][:4]
    one = study(OWN + "short: {seeds: 1}\n").in_short()
    assert [cell.seeds for cell in cells(one)] == [cell.seeds[:1] for cell in cells(made)][:4]
    assert [cell.seeds for cell in cells(large(monkeypatch, OWN))] == [cell.seeds for cell in cells(made)], "made late, they are the same"
    brought = study(OWN + "bundles: {cc: {lia: {seed: 2}, cubic: {seed: 1}}}\n")
    assert [cell.seeds for cell in cells(brought)][2:4] == [(176090115697453,), (10437805187506,)]
    assert {cell.seeds for cell in cells(study(OWN.replace("own_seeds: true", "own_seeds: false")))} == {(1, 2)}
    # A study that does not say keeps its runs: their keys are what they were.
    assert [run.key for run in plan(study(STUDY + "seeds: 2\n")).runs] == [
        run.key for run in plan(study(OWN.replace("own_seeds: true", "own_seeds: false"))).runs
    ]


def test_links_lose_other_packets_in_each_draw_with_seeds_of_its_own(tmp_path):
    # Four networks that are the same but for chance.
    lossy = (
        STUDY.replace("rate: 20mbit, ", "rate: 20mbit, loss: 1%, ")
        .replace("{loguniform: [1, 100]}", "{choice: [10]}")
        .replace("50: 1", "50: 0")
    )
    shared = execute(plan(study(lossy), out=tmp_path / "shared")).runs
    own = execute(plan(study(lossy.replace("  number: 4\n", "  number: 4\n  own_seeds: true\n")), out=tmp_path / "own")).runs
    assert shared.groupby("cc")["goodput_receiver_mbps"].nunique().max() == 1
    assert own.groupby("cc")["goodput_receiver_mbps"].nunique().min() == 4
    assert own.groupby("draw")["seed"].nunique().max() == 1


def test_results_and_reports_tell_seeds_of_each_draws_own(tmp_path):
    made = study(OWN.replace("measure: {series: null}", "measure: {series: 500ms}"))
    results = execute(plan(made, out=tmp_path))
    assert results.manifest["own_seeds"] is True
    assert "seeds" not in results.manifest
    assert "seeds" in execute(plan(study(), out=tmp_path / "shared")).manifest
    told = CliRunner().invoke(build(), ["report", str(results.folder), "--figures", "svg"])
    assert told.exit_code == 0, told.output
    page = (results.folder / "report.html").read_text()
    assert "Seeds of each draw's own, 8 in all." in html.unescape(page)
    # Figures over time show the first draw, whose seeds need not be the least.
    least = min(results.runs.loc[results.runs["draw"] == 1, "seed"])
    assert f"Seed {least}" in page
    assert min(results.runs["seed"]) != least, "the test has to tell them apart"
    shown = CliRunner().invoke(build(), ["show", str(results.folder / "study.yaml")])
    assert "made into seeds of each draw's own" in " ".join(shown.output.split())


# --- many cells


def bytes_of(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.suffix in (".parquet", ".json")}


def test_cells_that_are_not_kept_give_the_same_bytes(tmp_path, monkeypatch):
    kept = execute(plan(study(), out=tmp_path / "kept"))
    made = large(monkeypatch)
    work = plan(made, out=tmp_path / "made")
    assert work.large
    results = execute(work)
    assert "pending" not in vars(work), "no list of runs was made"
    assert "runs" not in vars(work)
    assert bytes_of(results.folder) == bytes_of(kept.folder)
    assert list(plan(made, out=tmp_path / "made").waiting()) == []


def test_tables_in_parts_are_the_same_tables(tmp_path, monkeypatch):
    whole = execute(plan(study(), out=tmp_path / "whole"))
    monkeypatch.setattr(_assemble, "_TABLE_PART", 3)
    parts = execute(plan(study(), out=tmp_path / "parts"))
    assert pq.ParquetFile(parts.folder / "runs.parquet").num_row_groups > 2
    for name in ("runs", "baselines", "subflows", "links", "progress", "series", "events"):
        assert whole.table(name).equals(parts.table(name)), name
    assert whole.manifest == parts.manifest
    # Other programs read the parts as one table.
    file = f"{parts.folder}/runs.parquet"
    mean = whole.runs["goodput_receiver_mbps"].mean()
    assert duckdb.sql(f"select count(*), avg(goodput_receiver_mbps) from '{file}'").fetchall() == [(len(whole.runs), pytest.approx(mean))]
    assert polars.scan_parquet(file).select(polars.col("goodput_receiver_mbps").mean()).collect().item() == pytest.approx(mean)


def test_a_table_of_many_rows_is_a_folder_that_is_read_as_one(tmp_path, monkeypatch):
    whole = execute(plan(study(), out=tmp_path / "whole"))
    monkeypatch.setattr(_assemble, "_TABLE_PART", 3)
    monkeypatch.setattr(store, "_MOST_ROWS", 4)
    parts = execute(plan(study(), out=tmp_path / "parts"))
    folder = parts.folder / "runs.parquet"
    assert [file.name for file in sorted(folder.iterdir())] == ["part-00000.parquet", "part-00001.parquet"]
    for name in ("runs", "baselines", "subflows", "links", "progress", "series", "events"):
        assert whole.table(name).equals(parts.table(name)), name
    # Other programs read the folder as one table.
    mean = whole.runs["goodput_receiver_mbps"].mean()
    counted = duckdb.sql(f"select count(*), avg(goodput_receiver_mbps) from '{folder}/*.parquet'").fetchall()
    assert counted == [(len(whole.runs), pytest.approx(mean))]
    assert polars.scan_parquet(folder).select(polars.col("goodput_receiver_mbps").mean()).collect().item() == pytest.approx(mean)
    assert polars.read_parquet(folder).equals(whole.to_polars())
    pandas.testing.assert_frame_equal(pandas.read_parquet(folder), whole.runs)
    # What reads results reads such a folder.
    pandas.testing.assert_frame_equal(Results.open(parts.folder, study()).summary(), whole.summary())
    for command in (["show", str(parts.folder)], ["report", str(parts.folder), "--figures", "svg"]):
        told = CliRunner().invoke(build(), command)
        assert told.exit_code == 0, told.output
    assert (parts.folder / "report.html").is_file()


def test_a_folder_and_a_file_take_each_others_place(tmp_path, monkeypatch):
    monkeypatch.setattr(_assemble, "_TABLE_PART", 3)
    before = bytes_of(execute(plan(study(), out=tmp_path)).folder)
    runs = tmp_path / "drawn" / "runs.parquet"
    monkeypatch.setattr(store, "_MOST_ROWS", 4)
    execute(plan(study(), out=tmp_path))
    assert runs.is_dir()
    monkeypatch.setattr(store, "_MOST_ROWS", 1)
    execute(plan(study(), out=tmp_path))
    assert len(list(runs.iterdir())) == 8
    monkeypatch.undo()
    monkeypatch.setattr(_assemble, "_TABLE_PART", 3)
    assert bytes_of(execute(plan(study(), out=tmp_path)).folder) == before
    assert not [file.name for file in runs.parent.iterdir() if file.name.startswith(".runs")]


def test_a_study_of_few_cells_and_many_seeds_keeps_no_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(making, "MOST_KEPT", 9)
    made = study(f"{STUDY}\nseeds: 3\n")
    assert not is_large(made)
    work = plan(made, engine=FakeEngine(), out=tmp_path)
    every = {run.key for run in work.every()}
    assert (work.distinct, work.expected) == (len(every), len(every))
    execute(work)
    assert "pending" not in vars(work), "no list of runs was made"
    assert "runs" not in vars(work)
    assert not list(plan(made, engine=FakeEngine(), out=tmp_path).waiting())


def test_a_large_study_finds_the_files_beside_it(tmp_path, monkeypatch):
    monkeypatch.setattr(making, "MOST_KEPT", 3)
    recorded = '[{kind: table, file: "link.csv"}, {kind: delay, delay: "${delay}ms"}]'
    one = '{rate: "${rate}mbit", delay: "${delay}ms", queue: 50packets}'
    (tmp_path / "study.yaml").write_text(STUDY.replace(one, recorded).replace("    rate: {loguniform: [1, 100]}\n", ""))
    (tmp_path / "link.csv").write_text("time,rate\n0s,5mbit\n1s,9mbit\n")
    made = Study.load(tmp_path)
    assert is_large(made)
    # Cells are made now, and here is no such file.
    monkeypatch.chdir("/")
    assert len(list(cells(made))) == len(cells(made)) == 8


def test_some_draws_of_a_large_study_are_planned_alone(tmp_path, monkeypatch):
    made = large(monkeypatch)
    work = plan(made, out=tmp_path, only={"draw": ["2"]})
    assert not work.large, "its few cells are kept"
    assert {run.parameters["draw"] for run in work.pending} == {2}
    assert set(execute(work).runs["draw"]) == {2}
    results = execute(plan(made, out=tmp_path, only={"draw": ["4"]}))
    assert set(results.runs["draw"]) == {2, 4}, "tables keep what was run before"
    assert results.manifest["draws"] == ["2", "4"]
    assert set(execute(plan(made, out=tmp_path, only={"draw": ["3"], "cc": ["lia"]})).runs["draw"]) == {2, 3, 4}
    results = execute(plan(made, out=tmp_path))
    assert set(results.runs["draw"]) == {1, 2, 3, 4}
    assert "draws" not in results.manifest
    again = execute(plan(made, out=tmp_path, only={"draw": ["1"]}))
    assert set(again.runs["draw"]) == {1, 2, 3, 4}


def test_other_machines_get_runs_that_are_made_meanwhile(tmp_path, monkeypatch):
    from polypath.sweep import Backend, Finished, files_of

    class Here(Backend):
        name = "here"

        def carry_out(self, engine, runs, tell):
            for run in runs:
                yield Finished(key=run.key, files=files_of(run.key, run.engine, run.version, run.scenario, engine.run(run.scenario)))

    made = []
    every = Plan.waiting
    monkeypatch.setattr(Plan, "waiting", lambda self: (made.append(run.key) or run for run in every(self)))
    ahead = []
    work = plan(large(monkeypatch), out=tmp_path / "made")
    results = execute(work, on=Here(), progress=lambda run: ahead.append(len(made) - len(ahead)))
    assert len(ahead) == len({run.key for run in work.every()})
    assert max(ahead) <= 2
    monkeypatch.undo()
    assert bytes_of(results.folder) == bytes_of(execute(plan(study(), out=tmp_path / "kept")).folder)


def test_a_study_of_two_million_cells_is_read_and_planned_at_once():
    axis = {"cc": ["lia", "olia", "balia", "cubic", "reno"], "queue": [f"{n}packets" for n in range(20, 40)]}
    tree = yaml.safe_load(STUDY.replace("50packets", '"${queue}"'))
    made = Study.model_validate({**tree, "draw": {**tree["draw"], "number": 20_000}, "matrix": axis})
    assert number_of_cells(made) == len(cells(made)) == 2_000_000
    assert isinstance(cells(made), Cells)
    assert len(specimens(made)) < 1000
    assert {cell.parameters["queue"] for cell in specimens(made)} == set(axis["queue"])
    work = plan(made, engine=FakeEngine())
    first = list(itertools.islice(work.waiting(), 10))
    assert [run.parameters["cc"] for run in first if run.baseline is None][:2] == ["lia", "lia"]
    assert work.distinct == pytest.approx(2_000_000, rel=1.5)
    assert work.expected == work.distinct
    assert cost(work).simulated_s == pytest.approx(first[0].scenario["duration_ns"] / 1e9 * work.distinct)
    assert cells(made)[1_999].parameters == cells(made)[1_999:2_000][0].parameters


def test_a_cell_that_cannot_run_is_told_when_it_comes(tmp_path, monkeypatch):
    monkeypatch.setattr(making, "_SPECIMEN_DRAWS", 2)
    monkeypatch.setattr(_plan, "_ESTIMATE", 3)
    # The first rate below zero is that of draw 4.
    drawn = STUDY.replace("rate: {loguniform: [1, 100]}", "rate: {uniform: [-50, 100]}").replace("number: 4", "number: 8\n  seed: 2")
    made = large(monkeypatch, drawn)
    work = plan(made, engine=FakeEngine(), out=tmp_path)
    with pytest.raises(StudyError, match=r"draw=4, rate=-43\.9, "):
        execute(work, workers=1)
    assert len(work.store) > 0, "what is finished is kept"


def test_failures_of_a_large_study_are_named(tmp_path, monkeypatch):
    class Failing(FakeEngine):
        def run(self, scenario):
            if scenario["flows"][0]["cc"] == "cubic" and scenario["flows"][0]["transport"] == "mptcp":
                raise EngineError("no luck")
            return super().run(scenario)

    with pytest.raises(EngineError, match=r"(?s)no luck .*4 runs failed; the others are kept"):
        execute(plan(large(monkeypatch), engine=Failing(), out=tmp_path))
    assert set(Results.open(tmp_path / "drawn", study()).runs["cc"]) == {"lia"}


def test_dry_run_tells_the_cost(tmp_path, monkeypatch):
    (tmp_path / "study.yaml").write_text(STUDY.replace("number: 4", "number: 20000"), encoding="utf-8")
    done = CliRunner().invoke(build(["run"]), ["run", str(tmp_path), "--dry-run", "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    assert "40000 cells, about " in said
    assert "of simulated time, at most" in said
    assert np.count_nonzero([line.startswith("main") for line in done.output.splitlines()]) == 0
