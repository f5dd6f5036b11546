"""What somebody needs who goes on in Python: seeds and progress of a run, units, order, xarray."""

import ast
import json
import sys
from importlib.util import find_spec

import pytest
from requirement import lacking
from study_data import LOSSY_LINK

import polypath
from polypath import PolypathError, customcc, run

STUDY = f"""{LOSSY_LINK}experiments:
  main: {{matrix: {{cc: [reno, cubic, bbr], loss: [1%, 0%]}}, seeds: 9}}
measure: {{series: 500ms}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("many")
    (folder / "study.yaml").write_text(STUDY)
    return folder


@pytest.fixture(scope="module")
def results(folder):
    return run(folder, out=folder / "results", seeds=[3, 5])


def test_results_of_these_seeds_have_units_and_the_study_s_order(results):
    assert sorted(results.runs["seed"].unique()) == [3, 5]
    assert len(results.runs) == 12
    units = results.runs.attrs["units"]
    assert units["goodput_receiver_mbps"] == "Mbit/s"
    assert units["srtt_ms"] == "ms"
    assert units["completion_s"] == "s"
    assert results.series.attrs["units"]["cwnd"] == "segments"
    assert results.runs[results.runs["cc"] == "reno"].attrs["units"]["srtt_ms"] == "ms"
    assert results.summary().attrs["units"]["goodput_receiver_mbps_ci"] == "Mbit/s"
    frame = results.to_pandas(ordered=True)
    assert list(frame.groupby("cc", observed=True)["goodput_receiver_mbps"].mean().index) == ["reno", "cubic", "bbr"]
    assert list(frame["loss"].cat.categories) == ["1%", "0%"]
    assert not frame["cc"].isna().any()
    shown = results._repr_html_()
    assert "<th>cc</th><th>loss</th><th>runs</th><th>goodput, Mbit/s</th>" in shown
    assert shown.count("<tr") == 7


def test_progress_is_a_bar_or_a_function(folder, tmp_path, capsys):
    ended = []
    run(folder, out=tmp_path / "a", seeds=1, only={"cc": "reno"}, progress=ended.append)
    assert [finished.label for finished in ended] and len(ended) == 2
    run(folder, out=tmp_path / "b", seeds=1, only={"cc": "reno"}, progress=True)
    shown = capsys.readouterr().out
    assert "many: 2 runs" in shown and "2/2" in shown


def _needs_xarray():
    if find_spec("xarray") is None:
        lacking("xarray", "the package xarray is not installed: make setup")


def test_a_matrix_is_an_xarray(results, monkeypatch):
    _needs_xarray()
    data = results.to_xarray()
    assert dict(data.sizes) == {"cc": 3, "loss": 2, "seed": 2, "flow": 1}
    assert list(data["cc"].values) == ["reno", "cubic", "bbr"]
    assert data["goodput_receiver_mbps"].attrs["units"] == "Mbit/s"
    runs = results.runs.set_index(["cc", "loss", "seed"])["goodput_receiver_mbps"]
    one = data["goodput_receiver_mbps"].sel(cc="cubic", loss="0%", seed=5, flow="bulk").item()
    assert one == runs["cubic", "0%", 5]
    series = results.to_xarray("series")
    assert {"subflow", "time_s"} < set(series.sizes) and series["time_s"].attrs["units"] == "s"
    _needs_xarray()
    with pytest.raises(ValueError, match='the table "counters" has no dimensions'):
        results.to_xarray("counters")
    monkeypatch.setitem(sys.modules, "xarray", None)
    monkeypatch.setattr("polypath.results._results.find_spec", lambda name: None)
    with pytest.raises(PolypathError, match="pip install xarray"):
        results.to_xarray()


def test_a_tidy_table_has_a_row_a_number(results):
    long = results.tidy()
    assert list(long.columns) == ["experiment", "engine", "kernel", "cc", "loss", "seed", "flow", "metric", "value", "unit"]
    assert list(long.index) == list(range(len(long))) and not long["value"].isna().any()
    goodput = long[long["metric"] == "goodput_receiver_mbps"]
    assert (len(goodput), set(goodput["unit"]), list(goodput["cc"].cat.categories)) == (12, {"Mbit/s"}, ["reno", "cubic", "bbr"])
    assert sorted(goodput["value"]) == sorted(results.runs["goodput_receiver_mbps"])
    assert {"subflow", "time_s"} < set(results.tidy("series").columns)
    with pytest.raises(ValueError, match='the table "counters" has no dimensions'):
        results.tidy("counters")


def test_congestion_controls_are_listed_with_ones_own(tmp_path, own_cache):
    assert {"lia", "cubic", "bbr"} < set(polypath.list_cc())
    assert "lia" in polypath.list_cc(coupled=True) and "cubic" not in polypath.list_cc(coupled=True)
    customcc.new("tst_list", tmp_path / "cc", begin_from="lia")
    assert "tst_list" in polypath.list_cc(coupled=True, cc_path=tmp_path / "cc")


def test_the_notebook_runs_from_top_to_bottom_and_its_last_lines_are_shown(request, tmp_path, monkeypatch, capsys):
    """As a kernel does: a cell after another, and what its last expression gives is shown."""
    monkeypatch.chdir(tmp_path)
    notebook = json.loads((request.config.rootpath / "docs/guide/first-notebook.ipynb").read_text())
    names, shown = {}, []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            *statements, last = ast.parse("".join(cell["source"])).body
            ends_in_value = isinstance(last, ast.Expr)
            exec(compile(ast.Module(statements if ends_in_value else [*statements, last], []), "notebook", "exec"), names)
            if ends_in_value:
                value = eval(compile(ast.Expression(last.value), "notebook", "eval"), names)
                shown.append(next(f(value) for f in map(_shower, ("_repr_html_", "_repr_svg_")) if f(value)))
            assert cell["outputs"] == [] and cell["execution_count"] is None
    assert len(shown) == 7
    assert "24/24" in capsys.readouterr().out
    assert (tmp_path / "goodput.pdf").read_bytes().startswith(b"%PDF")


def _shower(name):
    return lambda value: getattr(value, name, lambda: "")()
