"""The study linux-reference."""

from pathlib import Path

import pandas as pd
import pytest
from study_data import module_of

from polypath.engines import SimEngine
from polypath.results import plan
from polypath.study import Study, cells, runs
from polypath.validate import build, parse

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "studies" / "linux-reference"
linux_reference = module_of(FOLDER / "published.py")


@pytest.fixture(scope="module")
def study():
    return Study.load(FOLDER)


@pytest.fixture(scope="module")
def published():
    return pd.read_csv(FOLDER / "published.csv", dtype=str).fillna("")


def meant(row, study):
    """The cells that a published row is about."""
    keys = [key for key in study.published.keys if row[key]]
    return [
        cell
        for cell in cells(study)
        if all(
            cell.experiment == row[key]
            if key == "experiment"
            else row[key] in cell.setup.flows
            if key == "flow"
            else str(cell.parameters.get(key, "")) == row[key]
            for key in keys
        )
    ]


def test_every_measured_row_has_its_cells_and_every_cell_a_row(study, published):
    found = [meant(row, study) for _, row in published.iterrows()]
    assert all(found)
    assert {id(cell) for own in found for cell in own} == {id(cell) for cell in cells(study)}
    # Repetitions: three later starts in b and f, and one cell of a row otherwise.
    assert {len(own) for row, own in zip(published["experiment"], found, strict=True) if row in "bf"} == {3}
    assert {len(own) for row, own in zip(published["experiment"], found, strict=True) if row not in "bf"} == {1}


def test_the_published_rows_are_the_measured_table_and_the_repeats(tmp_path, monkeypatch):
    (tmp_path / "repeats.csv").write_bytes((FOLDER / "repeats.csv").read_bytes())
    monkeypatch.setattr(linux_reference, "TARGET", tmp_path / "published.csv")
    linux_reference.main(str(ROOT / "tests/data/reference/linux-6.12.csv"))
    assert (tmp_path / "published.csv").read_bytes() == (FOLDER / "published.csv").read_bytes()


@pytest.mark.parametrize(
    "name, place",
    {
        "a_rtt20_loss1_bbr_r2": {"experiment": "a-rtt20-loss1", "cc": "bbr"},
        "b_cubic_vs_yeah": {"experiment": "b", "cc": "yeah"},
        "c_q20_tcp_vegas": {"experiment": "c", "cc": "vegas", "transport": "tcp"},
        "d_delay20_reno": {"experiment": "d-delay", "cc": "reno", "half1": "21ms"},
        "d_defbuf_loss5_cubic": {"experiment": "d-defbuf-loss", "cc": "cubic", "loss": "5%"},
        "e_mptcp_9000+1500_probe1_icmpdrop": {
            "experiment": "e-mptcp-probing",
            "mtu1": "9000B",
            "mtu2": "9000B",
            "middle": "1500B",
            "probing": "1",
            "oversize": "silent",
        },
        "e_tcp_1500mid_probe0_icmpdrop": {"experiment": "e-tcp-silent", "mtu1": "9000B", "middle": "1500B", "oversize": "silent"},
        "f_reno_r3": {"experiment": "f", "cc": "reno"},
    }.items(),
)
def test_a_measured_run_is_placed_in_the_study(name, place):
    assert linux_reference.place(parse(name)) == place


@pytest.mark.parametrize(
    "name", ["a_rtt20_loss1_cubic", "a_rtt100_reno", "b_cubic_vs_reno_r2", "c_q20_cubic", "d_delay20_cubic", "f_reno_r3"]
)
def test_the_cells_are_what_validate_makes_of_the_names(name, study):
    """Links as they are: the same delays, rates, queues, losses and starts."""
    setup = parse(name)
    wanted, place = build(setup), linux_reference.place(setup)
    experiment = place.pop("experiment")
    own = [cell for cell in cells(study) if cell.experiment == experiment]
    own = [cell for cell in own if "start" not in cell.parameters or cell.parameters["start"] == STARTS[experiment][setup.repeat - 1]]
    (cell,) = [cell for cell in own if all(str(cell.parameters[key]) == value for key, value in place.items())]
    all_runs = runs(study, engine="sim", version="1")
    run = next(run for run in all_runs if run.parameters == cell.parameters and run.experiment == cell.experiment)
    assert _figures(run.scenario) == _figures(wanted)


# Of the second flow, in the order of the repeats.
STARTS = {"b": ("1330us", "371330us", "1301330us"), "f": ("1477us", "371477us", "1301477us")}


def _figures(scenario):
    """What decides a run, without names."""

    def element(each):
        kept = ("kind", "delay_ns", "bits_per_s", "queue", "probability")
        return {name: each[name] for name in kept if name in each} if each.get("probability") != 0.0 else None

    def direction(elements):
        return [found for found in map(element, elements) if found]

    links = [
        (link["a"]["address"], link["b"]["address"], direction(link["a_to_b"]), direction(link["b_to_a"])) for link in scenario["links"]
    ]
    hosts = {
        node["name"]: {name: value for name, value in node.get("sysctl", {}).items() if name.startswith("net.")}
        for node in scenario["nodes"]
        if not node.get("router")
    }

    def after(flow):
        # To the millisecond: below it stands where between two ticks the measured programs began.
        return round((flow["start_ns"] - scenario["flows"][0]["start_ns"]) / 1e6)

    flows = [
        (flow["transport"], flow["cc"], flow["client"], flow["server_address"], after(flow), flow["window_ns"], flow["app"])
        for flow in scenario["flows"]
    ]
    return sorted(links, key=str), hosts, flows


def test_the_simulator_runs_every_cell_and_leaves_out_what_only_a_kernel_has(study, tmp_path):
    planned = plan(study, engine=SimEngine(), out=tmp_path)
    assert planned.left_out == ()
    wanted = [(cell.experiment, tuple(cell.parameters.items()), seed) for cell in cells(study) for seed in cell.seeds]
    assert [(run.experiment, tuple(run.parameters.items()), run.seed) for run in planned.runs] == wanted
    # One algorithm of the kernel's own, and its cells are named and gone.
    theirs = study.experiments["c"].model_copy(update={"matrix": {**study.experiments["c"].matrix, "cc": ("reno", "cubic@linux")}})
    fewer = plan(study.replace(experiments={**study.experiments, "c": theirs}), engine=SimEngine(), out=tmp_path)
    (line,) = fewer.left_out
    assert "congestion controls that only a Linux kernel has" in line
    assert {run.parameters["cc"] for run in fewer.runs if run.experiment == "c"} == {"reno"}
