"""polypath validate over many starts, and on networks drawn at random."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from polypath import _native
from polypath.engines import ENGINES, SimEngine
from polypath.study import DEFAULT_KERNEL, runs
from polypath.validate import Selection, TableError, _networks, _starts, parse, read
from polypath.validate._drawn import KINDS, USUAL, algorithms, draw, is_drawn

DATA = Path(__file__).parent.parent / "data"


def test_a_start_moves_every_flow_by_what_it_draws_within_the_spread():
    setup = parse("b_cubic_vs_reno_r2")
    moved = [_starts.moved(setup, start, 20.0) for start in range(1, 13)]
    offsets = [[flow.start_s - base.start_s for flow, base in zip(each.flows, setup.flows, strict=True)] for each in moved]
    assert all(0 <= offset < 0.020 for own in offsets for offset in own)
    assert len({round(offset * 1e9) for own in offsets for offset in own}) == 24
    assert len({each.seed for each in moved}) == 12
    assert moved == [_starts.moved(setup, start, 20.0) for start in range(1, 13)]


def spread(measured, sim, kernel=()):
    cell = next(each for each in read(DATA / "summary-v1.csv") if each.id == "a_rtt20_reno")
    assert cell.mbps == 95.533
    return _starts.Spread(cell=cell, sim=tuple(value * 95.533 / measured for value in sim), kernel=tuple(kernel))


def test_a_measured_row_has_its_place_among_the_starts():
    among = spread(10.0, [7.0, 8.0, 9.0, 11.0])
    assert (among.percentile, among.inside, among.words) == (0.75, True, "one of its draws")
    outside = spread(10.0, [7.0, 8.0, 9.0, 9.3])
    assert (outside.percentile, outside.inside, outside.words) == (1.0, False, "outside")
    # Outside a range that has no width, and yet near enough.
    near = spread(10.0, [10.1] * 4)
    assert (near.percentile, near.inside, near.words) == (0.0, False, "within 5 %")
    # Of five draws each is the lowest or the highest with a chance of two in five.
    assert _starts.outside([among, outside, near]) == (2, 3, pytest.approx(3 * 2 / 5))


def test_a_kernel_that_is_the_simulator_cannot_be_told_from_it(monkeypatch):
    seen = []

    def on_kernel(kernel):
        def simulator(scenario):
            seen.append(json.loads(scenario)["flows"][0]["start_ns"])
            return _native.simulate(scenario)[:3]

        return simulator

    monkeypatch.setattr(_starts, "_on_kernel", on_kernel)
    (found,) = _starts.run_starts(DATA / "summary-v1.csv", starts=8, kernel="6.12", selection=Selection(ids=("a_rtt20_reno",)))
    assert (len(found.sim), found.sim) == (8, found.kernel)
    assert len(set(seen)) == 8
    assert found.near
    assert found.distance.standing == "within 5 %"
    assert "8 lie" not in "".join(_starts.summary([found]))
    assert "1 of 1 rows (100.0 %) are within 5 %" in _starts.summary([found])[-1]
    assert _starts.to_json([found])["rows"][0]["standing"] == "within 5 %"
    assert "| a | 1 | 0 | 0 |" in _starts.to_markdown([found])


def test_options_that_mean_nothing_are_refused(polypath, tmp_path):
    for arguments, sentence in (
        ((), "name a SUMMARY.csv"),
        (("--drawn", 1, "--group", "a"), "--group means nothing with --drawn"),
        (("--drawn", 1, "--kinds", "az"), '--kinds "az" is no list of kinds; write letters of "abcdfghijkl", each once'),
        ((DATA / "summary-v1.csv", "--kernel", "6.13"), "the simulator has no kernel 6.13: it has 5.4-mptcp, 6.1, 6.12, 7.3"),
        ((DATA / "summary-v1.csv", "--starts", 8, "--figure", tmp_path), "--figure means nothing with --starts"),
        ((DATA / "summary-v1.csv", "--drawn", 1), "--drawn runs networks of its own"),
    ):
        code, out, err = polypath("validate", *arguments)
        assert (code, out) == (2, "")
        assert sentence in err
    with pytest.raises(TableError, match="leave --kernel out"):
        _starts.run_starts(DATA / "summary-v0.csv", starts=8, kernel="6.12")


# Networks drawn at random.


def test_a_draw_is_the_same_again_and_every_kind_has_its_turn():
    assert draw(5, 18, 12) == draw(5, 18, 12)
    few, many = draw(5, 6, 12).experiments, draw(5, 18, 12).experiments
    assert [few[name] == many[name] for name in few] == [True] * 6
    assert draw(6, 6, 12).experiments != few
    study = draw(20261201, 48, 12)
    assert {name[0] for name in study.experiments} == set(USUAL)
    assert {flow.cc for each in study.experiments.values() for flow in each.flows.values()} == set(algorithms())
    assert {"reno", "cubic", "bbr", "cdg"} <= set(algorithms())
    assert not {"lia", "bbr3"} & set(algorithms())
    study = draw(5, 11, 8, "".join(KINDS))
    assert [name[0] for name in study.experiments] == [*KINDS]
    of = {name[0]: each for name, each in study.experiments.items()}
    assert len(of["h"].flows["c1"].path_manager.addresses) in (2, 3)
    assert of["i"].flows["c1"].direction == "download"
    assert {flow.direction for flow in of["j"].flows.values()} == {"upload", "download"}
    assert of["j"].topology.links["bottleneck"].forward == of["j"].topology.links["bottleneck"].backward
    assert "aqm" in of["k"].model_dump_json()
    assert "wireless" in of["l"].model_dump_json()


def test_the_same_starts_on_every_engine():
    study = draw(5, 11, 12, "".join(KINDS))
    starts = {
        engine: [
            [flow["start_ns"] for flow in run.scenario["flows"]]
            for run in runs(study, engine=engine, version="1" if engine == "sim" else lambda kernel: kernel)
        ]
        for engine in ("sim", "linux")
    }
    assert starts["sim"] == starts["linux"]
    assert len(starts["sim"]) == 11 * 12
    assert all(0 <= start < 1_000_000_000 for own in starts["sim"] for start in own)


class Slower(SimEngine):
    """A kernel that is the simulator, with a tenth less goodput."""

    name = "linux"

    def versions(self, kernel=None):
        return lambda kernel: "1"

    def kernels(self):
        return [None]

    def run(self, scenario):
        output = super().run({name: value for name, value in scenario.items() if name != "kernel"})
        for flow in output.outcome["flows"]:
            flow["goodput_receiver_bps"] *= 0.9
        return output


def test_networks_are_run_on_both_and_what_was_found_can_be_judged_again(monkeypatch, tmp_path, polypath):
    monkeypatch.setitem(ENGINES, "linux", Slower)
    flows = _networks.run_networks(draw(5, 2, 8), kernel=DEFAULT_KERNEL, out=tmp_path)
    assert [flow.flow for flow in flows] == ["c1", "c1", "c2"]
    for flow in flows:
        assert flow.linux == pytest.approx([0.9 * value for value in flow.sim], rel=1e-5)
        assert flow.distance.difference == pytest.approx(1 / 0.9 - 1, rel=1e-4)
    kept = tmp_path / "drawn.csv"
    with kept.open("w", encoding="utf-8") as stream:
        _networks.write_csv(flows, stream)
    assert is_drawn(kept)
    assert not is_drawn(DATA / "summary-v1.csv")
    code, out, _ = polypath("validate", kept, "--json")
    again = json.loads(out)
    assert code == 0
    assert again["flows"] == _networks.rows_of(flows)
    assert {row["standing"] for row in again["flows"]} <= {"differs", "not told apart"}
    _, out, _ = polypath("validate", kept, "--markdown")
    assert "| all | 0 |" in out


@pytest.mark.parametrize("name", ["new-6.12.csv", "wide-6.12.csv"])
def test_the_note_on_drawn_networks_says_what_its_starts_say(name, request, polypath):
    folder = request.config.rootpath / "specs/notes/held-out"
    code, out, _ = polypath("validate", folder / name, "--markdown")
    page = (folder / "README.md").read_text(encoding="utf-8")
    block = page.split(f"<!-- begin: polypath validate {name} --markdown -->\n")[1].split("<!-- end -->")[0]
    # The table by kind comes first; the page leaves out the list of flows that differ.
    assert (code, block) == (0, out.split("\n\n")[0] + "\n")


@pytest.mark.parametrize(
    ("name", "seed", "networks", "kinds"),
    [
        ("drawn-6.12.csv", 20261201, 48, USUAL),
        ("fresh-6.12.csv", 20261125, 96, USUAL),
        ("new-6.12.csv", 20261128, 96, USUAL),
        ("seven-6.12.csv", 20261205, 48, USUAL),
        ("seven-7.3.csv", 20261205, 48, USUAL),
        ("wide-6.12.csv", 20261129, 60, "hijkl"),
    ],
)
def test_what_was_kept_is_what_the_rule_of_the_note_draws(request, name, seed, networks, kinds):
    kept = _networks.read_csv(request.config.rootpath / "specs/notes/held-out" / name)
    study = draw(seed, networks, 12, kinds)
    wanted = [(name, each.title, flow) for name, each in study.experiments.items() for flow in each.flows]
    assert [(flow.network, flow.title, flow.flow) for flow in kept] == wanted
    assert {(len(flow.linux), len(flow.sim)) for flow in kept} == {(12, 12)}


def test_the_simulator_alone_runs_again_beside_what_was_measured(request, tmp_path, polypath):
    kept = _networks.read_csv(request.config.rootpath / "specs/notes/held-out/drawn-6.12.csv")
    few = [replace(flow, linux=flow.linux[:8], sim=flow.sim[:8]) for flow in kept if flow.network in ("a00-hybla", "b01-illinois-cubic")]
    measured = tmp_path / "measured.csv"
    with measured.open("w", encoding="utf-8") as stream:
        _networks.write_csv(few, stream)
    draws = ("validate", "--drawn", 20261201, "--networks", 2, "--out", tmp_path, "--measured", measured)
    again = tmp_path / "again.csv"
    code, _, _ = polypath(*draws, "--starts", 8, "--csv", again)
    # The note's starts are what the simulator gives today.
    assert (code, again.read_text(encoding="utf-8")) == (0, measured.read_text(encoding="utf-8"))
    code, _, error = polypath(*draws, "--starts", 9)
    assert (code, "measured.csv: it has 8 starts a flow, and 9 are asked for" in error) == (2, True)
    code, _, error = polypath("validate", "--drawn", 1, "--starts", 8, "--measured", measured)
    assert (code, "measured.csv: it has other networks" in error) == (2, True)
    code, _, error = polypath("validate", "--drawn", 1, "--measured", DATA / "summary-v1.csv")
    assert (code, "is not what --drawn wrote with --csv" in error) == (2, True)
