"""Every script of packets of tests/scripts against a real kernel, all in one machine; cargo has them on our endpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from polypath import linux
from polypath.engines import run_packets

SCRIPTS = sorted((Path(__file__).parents[1] / "scripts").glob("*.pkt"))


def kernel_of(script: Path) -> str:
    """The kernel that a script is about."""
    lines = (line.split() for line in script.read_text(encoding="utf-8").splitlines())
    return next((words[1] for words in lines if words[:1] == ["kernel"]), "6.12")


HERE = [script for script in SCRIPTS if kernel_of(script) == "6.12"]


@pytest.fixture(scope="module")
def said(linux_kernel: linux.Kernel) -> list[str]:
    _, text = run_packets(HERE, kernel=linux_kernel.file)
    return text.splitlines()


def test_there_are_scripts() -> None:
    assert len(HERE) >= 30


@pytest.mark.parametrize("script", HERE, ids=lambda script: script.stem)
def test_the_kernel_does_what_the_script_says(script: Path, said: list[str]) -> None:
    verdict = f"{script.name}: passed"
    assert verdict in said, "\n".join(line for line in said if line.startswith(script.name)) or "\n".join(said)


def test_a_wrong_expectation_fails(linux_kernel: linux.Kernel, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.pkt"
    text = (SCRIPTS[0].parent / "tcp-handshake-active.pkt").read_text(encoding="utf-8")
    wrong.write_text(text.replace("1:1001(1000)", "1:1000(999)"), encoding="utf-8")
    code, said = run_packets([wrong], kernel=linux_kernel.file)
    assert code == 1
    assert "the sequence numbers are 1:1001(1000), not 1:1000(999)" in said
