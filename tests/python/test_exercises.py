"""Exercises: wrong as they begin, right with the change that each asks for and nothing else."""

import pytest

from polypath import Results, run
from polypath.analysis import Verdict
from polypath.cli._init import exercises
from polypath.report import claim_results, material

ENDPOINTS = "path_manager: {kind: endpoints, addresses: [{address: 10.0.1.1}, {address: 10.0.2.1, backup: true}]}"
ANSWERS = {
    "exercise-headers": [("rate: 20mbit", "rate: 21mbit")],
    "exercise-queue": [("8packets", "66packets")],
    "exercise-bufferbloat": [("queue: 1000packets}", "queue: 1000packets, aqm: fq_codel}")],
    "exercise-receive-buffer": [("131072, 1048576", "131072, 16777216"), ("16384, 4194304", "16384, 16777216")],
    "exercise-fair": [("mptcp, cc: cubic", "mptcp, cc: lia")],
    "exercise-loss": [("cc: cubic", "cc: bbr")],
    "exercise-way-back": [("rate: 200kbit", "rate: 1500kbit")],
    "exercise-two-delays": [("cc: cubic,", f"cc: cubic, {ENDPOINTS},")],
}


def test_each_has_an_answer_and_is_listed(polypath):
    assert list(exercises()) == sorted(ANSWERS)
    assert set(ANSWERS) <= set(polypath("list", "templates")[1].replace("│", " ").split())


@pytest.mark.parametrize("name", ANSWERS)
def test_claims_tell_a_right_answer_from_none(name, polypath, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = polypath("init", "mine", "--template", name)
    assert code == 0 and "see whether its claims hold" in " ".join(out.split()), err
    file = tmp_path / "mine/study.yaml"
    run(file, out="begun")
    begun = claim_results(material(Results.open("begun/mine")))
    assert any(claim.verdict is Verdict.FAILS for claim in begun)
    text = file.read_text()
    for before, after in ANSWERS[name]:
        assert text.count(before) == 1
        text = text.replace(before, after)
    file.write_text(text)
    run(file, out="solved")
    solved = claim_results(material(Results.open("solved/mine")))
    assert [claim.verdict for claim in solved] == [Verdict.HOLDS] * len(begun)
