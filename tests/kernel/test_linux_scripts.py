"""Every script of packets of tests/scripts against the real kernels that it is about.

One machine a kernel plays all.
"""

from functools import cache
from pathlib import Path

import pytest
from requirement import lacking

from polypath import EngineError, linux
from polypath.engines import _machine, run_packets, script_partings

SCRIPTS = sorted((Path(__file__).parents[1] / "scripts").glob("*.pkt"), key=lambda file: file.stem)
REQUIRED = "6.12"
"""What CI builds. Scripts run on the other kernels too where one was built
(`polypath linux build 6.1`).
"""


def kernels_of(script):
    lines = (line.split() for line in script.read_text(encoding="utf-8").splitlines())
    return next((words[1:] for words in lines if words[:1] == ["kernel"]), ["6.1", "6.12", "7.3"])


CASES = [(kernel, script) for script in SCRIPTS for kernel in kernels_of(script)]


@pytest.fixture(scope="module")
def said_on():
    @cache
    def play(kernel):
        try:
            machine = linux.find(kernel)
            _machine.programs_are_there()
        except (linux.KernelError, EngineError) as error:
            lacking("linux" if kernel == REQUIRED else f"linux {kernel}", str(error))
        _, text = run_packets([script for name, script in CASES if name == kernel], kernel=kernel, machine=machine.file)
        return text.splitlines()

    return play


@pytest.mark.parametrize("kernel", ["6.1", "6.12"])
def test_there_are_scripts(kernel):
    assert sum(name == kernel for name, _ in CASES) >= 30


@pytest.mark.parametrize(("kernel", "script"), CASES, ids=[f"{script.stem}-{kernel}" for kernel, script in CASES])
def test_the_kernel_does_what_the_script_says(kernel, script, said_on):
    said = said_on(kernel)
    verdict = f"{script.name}: passed"
    assert verdict in said, "\n".join(line for line in said if script.name in line) or "\n".join(said)


def test_a_wrong_expectation_fails(linux_kernel, tmp_path):
    wrong = tmp_path / "wrong.pkt"
    text = (SCRIPTS[0].parent / "tcp-handshake-active.pkt").read_text(encoding="utf-8")
    wrong.write_text(text.replace("1:1001(1000)", "1:1000(999)"), encoding="utf-8")
    code, said = run_packets([wrong], kernel=REQUIRED, machine=linux_kernel.file)
    assert code == 1
    assert "the sequence numbers are 1:1001(1000), not 1:1000(999)" in said


def test_engines_part_where_the_tolerance_is_less_than_a_system_call(linux_kernel):
    text = (SCRIPTS[0].parent / "tcp-no-connection.pkt").read_text(encoding="utf-8")
    exact, near = (script_partings([text], kernel=REQUIRED, machine=linux_kernel.file, tolerance_s=s)[0] for s in (0, 1e-4))
    assert (exact and exact.what, near) == ("time", None)
