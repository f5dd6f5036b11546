"""Before and after: the text for a commit message, and what is refused before anything is built."""

from __future__ import annotations

import random
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from polypath import linux
from polypath.analysis import PLATFORM, Comparison, distance, significant
from polypath.cli import _linux_ab
from polypath.cli._app import build
from polypath.study import StudyError

STUDY = """
name: one
topology:
  nodes: {a: , b: }
  links: {l: {ends: [a, b], both: {rate: 10mbit, delay: 5ms}}}
flows: {f: {client: a, server: b, transport: tcp, cc: reno}}
duration: 1s
"""


def kernel(name: str, key: str) -> linux.Kernel:
    return linux.Kernel(name=name, release="6.12.7", file=Path("linux"), key=key, algorithms=("reno",), mptcp=1)


def test_a_text_says_what_changed_and_what_of_it_is_significant() -> None:
    chance = random.Random(1)
    before = [10 + chance.gauss(0, 0.1) for _ in range(20)]
    cells = {"faster": [value + 1 for value in before], "same": [value + chance.gauss(0, 0.1) for value in before]}
    rows = [
        {"experiment": "main", "cc": name, "flow": "f", PLATFORM: platform, "metric": "goodput_receiver_mbps", "distance": found}
        for name, after in cells.items()
        for platform, found in (("linux old", None), ("linux new", distance(after, before)))
    ]
    by = ("experiment", "cc", "flow")
    made = Comparison(platforms=["linux new", "linux old"], reference="linux old", by=by, rows=pd.DataFrame(rows), windows=pd.DataFrame())
    text = _linux_ab._text("one", [kernel("old", "1"), kernel("new", "2")], made, 20)
    lines = {line.split()[0]: line for line in text.splitlines() if line.startswith(("faster", "same"))}
    assert "+10.0 % ± 0.0" in lines["faster"]
    assert "significant" not in lines["faster"]
    assert lines["same"].endswith("(not significant)")
    assert "1 of 2 rows are significant" in " ".join(text.split())
    assert max(len(line) for line in text.splitlines()) <= 75


def test_what_chance_alone_would_do_is_not_significant() -> None:
    assert significant([0.001, 0.04, 0.5, 0.9]) == [True, False, False, False]
    assert significant([0.01, 0.02, 0.03, 0.04]) == [True] * 4
    assert significant([]) == []


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "study.yaml").write_text(STUDY)
    return str(tmp_path / "study.yaml")


@pytest.mark.parametrize(
    ("trees", "why"), [(["a"], "name both"), (["a", "b", "c"], "name both"), (["nowhere", "b"], "nowhere is neither a release")]
)
def test_what_is_no_pair_of_kernels_is_refused(study: str, trees: list[str], why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polypath.linux._tools.require", lambda *_: None)
    done = CliRunner().invoke(build(["linux"]), ["linux", "ab", study, *(word for tree in trees for word in ("--tree", tree))])
    assert isinstance(done.exception, (StudyError, linux.KernelError))
    assert why in str(done.exception)


def test_a_kernel_is_not_compared_with_itself(study: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_linux_ab, "_kernel", lambda *_: kernel("same", "1"))
    done = CliRunner().invoke(build(["linux"]), ["linux", "ab", study, "--tree", "x", "--tree", "y"])
    assert isinstance(done.exception, StudyError)
    assert "x and y give the same kernel to the byte" in str(done.exception)
