"""One value against the others: which runs are pairs, what the intervals hold, and what is refused."""

import math

import pandas as pd
import pytest
from study_data import LOSSY_LINK

from polypath import StudyError, run
from polypath.analysis import against
from polypath.report import material, page
from polypath.report._against import _by_platform, _note
from polypath.report._tables import _over_seeds

NOISE = [3.0, -2.0, 0.5, 4.0, -1.0, 2.5, -3.0, 1.0]


def runs(**of_cc):
    """A run a seed for each congestion control: what the seed does to all of them, and its own."""
    rows = [
        {
            "key": f"{cc}{seed}",
            "experiment": "main",
            "engine": "sim",
            "kernel": None,
            "seed": seed,
            "cc": cc,
            "flow": "bulk",
            "application": "bulk",
            "goodput_receiver_mbps": value,
        }
        for cc, values in of_cc.items()
        for seed, value in enumerate(values, 1)
    ]
    return pd.DataFrame(rows)


def test_what_seeds_have_in_common_falls_out():
    table = against(
        runs(lia=[20 + noise for noise in NOISE], mine=[20.5 + noise + small for noise, small in zip(NOISE, [0.1, -0.1] * 4, strict=True)]),
        "cc",
        "lia",
        axes=["cc"],
    )
    (row,) = table.to_dict("records")
    assert row["difference"] == pytest.approx(0.5)
    # The means themselves are known to ± 2.
    assert row["ci"] < 0.1
    assert (row["standing"], row["n"]) == ("better", 8)


def test_intervals_are_wider_the_more_there_are():
    one = {"lia": NOISE, "a": [noise * 1.1 + 1 for noise in NOISE]}
    alone = against(runs(**one), "cc", "lia", axes=["cc"]).set_index("cc")
    four = against(runs(**one, b=NOISE[::-1], c=NOISE[::-1], d=NOISE[::-1]), "cc", "lia", axes=["cc"]).set_index("cc")
    assert four.at["a", "ci"] > 1.3 * alone.at["a", "ci"]
    assert four.at["a", "p"] == pytest.approx(min(1.0, 4 * alone.at["a", "p"]))
    # Student's t at 1 - 0.05 / 4, 7 degrees of freedom.
    assert four.at["a", "ci"] / alone.at["a", "ci"] == pytest.approx(3.3353 / 2.3646, rel=1e-3)


def test_among_equals_the_answer_is_wrong_in_one_table_of_twenty_at_most():
    import numpy as np

    draws = np.random.default_rng(7)
    wrong = 0
    for _ in range(200):
        start = draws.normal(size=8)
        table = against(
            runs(**{cc: list(start + draws.normal(size=8)) for cc in ("lia", "a", "b", "c", "d")}).assign(
                goodput_receiver_mbps=lambda rows: rows["goodput_receiver_mbps"] + 50
            ),
            "cc",
            "lia",
            axes=["cc"],
        )
        wrong += bool((table["standing"] != "not told apart").any())
    assert wrong <= 20


def test_only_seeds_on_both_sides_are_pairs():
    table = runs(lia=[20.0, 21.0, 22.0, 23.0], mine=[21.0, 22.0, 23.0])
    (row,) = against(table[table["key"] != "lia1"], "cc", "lia", axes=["cc"]).to_dict("records")
    assert (row["n"], row["difference"]) == (2, 1.0)
    (row,) = against(runs(lia=[20.0] * 5, mine=[21.0] * 5), "cc", "lia", axes=["cc"]).to_dict("records")
    assert math.isnan(row["ci"]) and math.isnan(row["p"])
    assert row["standing"] == "better"
    transfers = runs(lia=[9.0, 9.5, 9.2, 9.1], mine=[5.0, 5.5, 5.1, math.nan]).assign(application="transfer")
    transfers = transfers.rename(columns={"goodput_receiver_mbps": "completion_s"})
    (row,) = against(transfers, "cc", "lia", axes=["cc"]).to_dict("records")
    assert (row["standing"], row["n"], row["unfinished"], row["against_unfinished"]) == ("better", 3, 1, 0)


def test_the_line_below_counts_comparisons_and_pairs_that_are_one_run():
    one = {"lia": [20.0, 21.0, 22.0, 23.0], "a": [20.0, 22.0, 22.0, 24.0]}
    alone = against(runs(**one), "cc", "lia", axes=["cc"])
    assert list(alone["equal"]) == [2]
    assert _note(alone) == (
        "Differences are paired, run by run with the same seed; ± is half of each interval of 95 %. 2 of 4 pairs have equal figures."
    )
    both = against(runs(**one, b=[1.0, 2.0, 2.0, 4.0]), "cc", "lia", axes=["cc"])
    assert _note(both).endswith("p is adjusted for 2 comparisons (Bonferroni). 2 of 8 pairs have equal figures.")


STUDY = f"""{LOSSY_LINK}matrix: {{cc: [reno, cubic], loss: [0%, 1%]}}
seeds: 4
"""


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    folder = tmp_path_factory.mktemp("many")
    (folder / "study.yaml").write_text(STUDY)
    return run(folder, out=folder / "results")


def test_any_column_of_a_matrix_is_told_cell_by_cell(many):
    table = many.against(cc="reno")
    assert list(table["loss"]) == ["0%", "1%"]
    by_loss = many.against(loss="0%")
    assert list(by_loss["cc"]) == ["reno", "cubic"] and list(by_loss["standing"]) == ["worse", "worse"]
    made = page(material(many, ("cc", "reno")))
    assert made.headlines[0].lower().startswith("cubic against reno, goodput: ")
    assert made.charts[0].name == "against" and made.charts[0].title == "Against reno: goodput"
    table = many.against("srtt_ms", cc="reno")
    assert set(table["metric"]) == {"srtt_ms"}
    assert set(table["standing"]) <= {"higher", "lower", "not told apart", "the same"}
    with pytest.raises(ValueError, match="name one parameter"):
        many.against()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"cc": "cubik"}, 'there is no cc in many "cubik"; did you mean "cubic"?'),
        ({"queue": "1"}, 'there is no parameter of a matrix of many "queue"'),
    ],
)
def test_what_is_not_in_the_matrix_is_refused(many, asked, said):
    with pytest.raises(StudyError, match=said.replace("?", r"\?")):
        many.against(**asked)


def test_nothing_to_pair_is_one_sentence(tmp_path):
    (tmp_path / "study.yaml").write_text(STUDY)
    results = run(tmp_path, out=tmp_path / "results", only={"cc": "cubic"})
    with pytest.raises(StudyError, match="no finished run of many has cc=reno; there are runs with cc=cubic"):
        results.against(cc="reno")
    with pytest.raises(StudyError, match="every finished run of many has cc=cubic, so there is nothing to compare with it"):
        results.against(cc="cubic")


def test_other_seeds_are_no_pairs(tmp_path):
    experiments = "experiments:\n  a: {matrix: {cc: [reno]}, seeds: [1, 2]}\n  b: {matrix: {cc: [reno]}, seeds: [3, 4]}\n"
    (tmp_path / "study.yaml").write_text(
        STUDY.replace('"${loss}"', "1%").replace("matrix: {cc: [reno, cubic], loss: [0%, 1%]}\n", experiments)
    )
    results = run(tmp_path, out=tmp_path / "results")
    with pytest.raises(StudyError, match="no run of many with experiment=a has a pair: a pair has the same seed"):
        results.against(experiment="a")


def test_the_command_line_answers_and_refuses_before_it_runs(polypath, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/study.yaml").write_text(STUDY)
    code, out, err = polypath("run", "mine", "--against", "cc=cubik")
    assert code == 2 and "there is no cc in many" in err and "runs on sim" not in err
    code, out, err = polypath("run", "mine", "--against", "cc=reno", "--no-report")
    assert code == 0 and "Against reno" in out and "cubic against reno" in out.replace("Cubic", "cubic")
    code, out, err = polypath("report", "many", "--against", "loss=0%")
    assert code == 0 and "Against 0%" in out
    assert "Against 0%" in (tmp_path / "results/many/report.html").read_text()


def test_engines_and_subflows_of_a_kernel_have_their_names():
    table = pd.DataFrame({"cc": ["lia"] * 2, "experiment": "main", "engine": ["sim", "linux"], "kernel": [None, "6.12"], "flow": "f"})
    assert list(_by_platform(table)["platform"]) == ["sim", "linux 6.12"]
    assert "kernel" not in _by_platform(table) and "kernel" in _by_platform(table.rename(columns={"cc": "engine", "engine": "e"}))
    rows = [
        {
            "key": key,
            "seed": seed,
            "flow": "f",
            "subflow": number,
            "source": f"10.0.1.{end}:{4000 + 7 * seed + end}",
            "destination": "10.0.2.1:5001",
        }
        for seed, key in ((1, "a"), (2, "b"))
        for number, end in enumerate((1, 1, 2) if seed == 1 else (2, 1, 1))
    ]
    found = _over_seeds(pd.DataFrame(rows))
    assert found.groupby(["subflow", "source"]).size().to_dict() == {(0, "10.0.1.1"): 2, (1, "10.0.1.1"): 2, (0, "10.0.1.2"): 2}
    alone = pd.DataFrame(rows[:3])
    assert _over_seeds(alone).equals(alone)
