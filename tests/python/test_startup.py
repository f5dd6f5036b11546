"""A command loads what it needs."""

import json
import subprocess
import sys

import pytest

from polypath.study import json_schema

HEAVY = {"altair", "networkx", "numpy", "pandas", "polars", "pyarrow", "rich", "scipy", "vl_convert"}
CALL = """
import json, sys
from polypath.cli import main
try:
    main()
except SystemExit as end:
    print(json.dumps([end.code, sorted(sys.modules)]))
"""


@pytest.mark.parametrize(
    ("words", "status", "pydantic"),
    [(["--version"], 0, False), (["run", "no-study"], 2, True), (["run", "study.yaml"], 2, True), (["show", "study.yaml"], 2, True)],
)
def test_what_needs_no_table_loads_none(words, status, pydantic, tmp_path):
    (tmp_path / "study.yaml").write_text("name: mine\nflows: 3\n")
    done = subprocess.run([sys.executable, "-c", CALL, *words], capture_output=True, text=True, cwd=tmp_path, check=True)
    code, modules = json.loads(done.stdout.splitlines()[-1])
    assert code == status
    assert ("pydantic" in modules) == pydantic
    assert HEAVY.intersection(modules) == set()


@pytest.mark.parametrize(("words", "status"), [(["--help"], 0), (["frobnicate"], 2)])
def test_the_help_and_an_unknown_command_load_no_command(words, status):
    done = subprocess.run([sys.executable, "-c", CALL, *words], capture_output=True, text=True, check=True)
    code, modules = json.loads(done.stdout.splitlines()[-1])
    assert (code or 0) == status
    assert (HEAVY - {"rich"}).intersection(modules) == set() and "polypath.study" not in modules


def test_commands_help_is_the_same_whether_loaded_or_not():
    from typer.main import get_command

    from polypath.cli._app import COMMANDS, build

    loaded, known = get_command(build()).commands, get_command(build([])).commands
    assert {name: each.help for name, each in known.items()} == {name: each.help for name, each in loaded.items()}
    assert list(COMMANDS) == get_command(build([])).list_commands(None)
    from polypath.cli._app import COMMANDS

    done = subprocess.run(
        [sys.executable, "-c", "from polypath.cli import main; main()", "--help"], capture_output=True, text=True, check=True
    )
    shown = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("│ ") and line[2] != " "]
    # Two have another name now, and work under the old one.
    assert [name for name in shown if name in COMMANDS] == [name for name in COMMANDS if name not in ("schema", "script")]


@pytest.mark.parametrize(("cc", "engine"), [("cubicc", "sim"), ("cubic", "simm")])
def test_what_only_an_engine_knows_is_told_before_the_libraries_of_tables_are_there(cc, engine, tmp_path):
    code, modules, said = run_of_one_flow(tmp_path, cc, "--engine", engine)
    assert code == 2 and ("cubicc" in said or "simm" in said)
    assert HEAVY.intersection(modules) == set()


def test_a_run_without_report_loads_no_figures_and_a_single_flow_no_solver(tmp_path):
    code, modules, _ = run_of_one_flow(tmp_path, "cubic", "--no-report")
    assert code == 0 and "pandas" in modules
    assert {"altair", "vl_convert", "scipy.optimize"}.intersection(modules) == set()


def run_of_one_flow(folder, cc, *words):
    links = {"l": {"ends": ["c", "s"], "both": {"rate": "10mbit"}}}
    flow = {"client": "c", "server": "s", "transport": "tcp", "cc": cc}
    study = {"name": "mine", "duration": "1s", "topology": {"nodes": {"c": None, "s": None}, "links": links}, "flows": {"f": flow}}
    (folder / "study.yaml").write_text(json.dumps(study))
    call = [sys.executable, "-c", CALL, "run", "study.yaml", *words]
    done = subprocess.run(call, capture_output=True, text=True, cwd=folder, check=True)
    return *json.loads(done.stdout.splitlines()[-1]), done.stderr


def test_what_lies_below_a_field_is_read_for_the_schema_alone():
    call = "import inspect, sys; inspect.getsource = inspect.getsourcelines = None; from polypath.study import Study; print(Study.__name__)"
    done = subprocess.run([sys.executable, "-c", call], capture_output=True, text=True, check=True)
    assert done.stdout == "Study\n"
    fields = json.loads(json_schema())["$defs"]["Flow"]["properties"]
    assert fields["start"]["description"] == "Since the start of the run."
