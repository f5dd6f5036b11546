"""What newcomers typed wrong."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from wrong_inputs import BASE

CASES: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parents[1] / "data" / "newcomers.yaml").read_text(encoding="utf-8"))
VALUES = {"x": "mbit", "y": "ms"}
Command = Callable[..., tuple[int, str, str]]


def text_of(case):
    """The study that was typed."""
    text = case.get("whole", BASE)
    for old, new in case.get("replace", ()):
        assert old in text
        text = text.replace(old, new)
    if case.get("generated") == "matrix":
        axes = ", ".join(f"{name}: [{', '.join(f'{n}{unit}' for n in range(1, 1001))}]" for name, unit in VALUES.items())
        text = text.replace("[cubic, reno]}", f"[cubic, reno], {axes}}}").replace("rate: 10mbit", 'rate: "${x}"')
        text = text.replace("queue: 50packets, delay: 5ms", 'queue: 50packets, delay: "${y}"')
    return text


def answer(case, folder, polypath, *more):
    file = folder / "study.yaml"
    file.write_text(text_of(case), encoding="utf-8")
    options = case.get("options", [])
    out = [] if "--out" in options else ["--out", str(folder / "out")]
    return polypath("run", str(file), *more, *out, *options)


def test_there_are_all_of_them():
    assert len(CASES) == 141
    assert len({case["did"] for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["did"]) for case in CASES if "says" in case])
def test_a_mistake_is_one_sentence(case, tmp_path, polypath):
    code, out, err = answer(case, tmp_path, polypath, "--no-report")
    assert (code, out) == (2, "")
    assert "Traceback" not in err
    told = [line for line in err.splitlines() if line.startswith("polypath: ")]
    (line,) = told
    assert line.removeprefix("polypath: ").removeprefix(f"{tmp_path / 'study.yaml'}:").startswith(case["says"])
    assert not list((tmp_path / "out").rglob("*.parquet"))


@pytest.mark.parametrize("case", [pytest.param(case, id=case["did"]) for case in CASES if "valid" in case])
def test_what_is_no_mistake_is_planned(case, tmp_path, polypath):
    code, out, err = answer(case, tmp_path, polypath, "--dry-run")
    assert (code, err) == (0, ""), case["valid"]
    assert "to run; results go to" in out
