"""A small part of each study that Linux is to judge, on the simulator and on the kernel: every claim asked has a verdict on both."""

from __future__ import annotations

from pathlib import Path

import pytest

from polypath import Study
from polypath.analysis import Verdict
from polypath.engines import find
from polypath.report import claims_of, material
from polypath.results import execute, plan

pytestmark = pytest.mark.usefixtures("linux_kernel")

SIM, LINUX = "sim", "linux 6.12"
# What is so by a wide margin, on every kernel and however short the run.
CLEAR = {"simult-balanced", "poster-utilisation", "poster-udp-50mbit"}


@pytest.mark.parametrize(
    ("name", "only", "claims"),
    [
        ("simult-flows", {"experiment": ["balanced"], "cc": ["cubic"]}, ["simult-balanced", "simult-strict-20mbit"]),
        ("poster", {"experiment": ["alone"], "transport": ["mptcp"], "cc": ["cubic", "lia"]}, ["poster-utilisation"]),
        ("poster", {"experiment": ["beside-udp"], "transport": ["mptcp"], "udp": ["50mbit"], "cc": ["olia"]}, ["poster-udp-50mbit"]),
        ("poster", {"experiment": ["beside-tcp"], "cc": ["cubic"]}, ["poster-not-worse"]),
        ("linux-6.8", {"experiment": ["shared"], "cc": ["cubic", "vegas"]}, ["linux68-ratio", "linux68-jain"]),
        ("linux-6.8", {"experiment": ["radio-beside"], "cc": ["bbr", "vegas"]}, ["linux68-cc-matters-radio"]),
    ],
)
def test_a_part_of_a_study_has_verdicts_on_both(
    name: str, only: dict[str, list[str]], claims: list[str], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    whole = Study.load(request.config.rootpath / "studies" / name)
    # The short form leaves the claims out, since what they say is of whole runs.
    study = whole.in_short().replace(claims=whole.claims, baselines=None)
    for engine in ("sim", "linux"):
        results = execute(plan(study, engine=find(engine), out=tmp_path, only=only))
    found = {claim.id: claim for claim in claims_of(material(results))}
    for each in claims:
        said = {platform: found[each].on(platform).verdict for platform in (SIM, LINUX)}
        assert Verdict.NOT_MEASURED not in said.values(), (each, said)
        assert each not in CLEAR or set(said.values()) == {Verdict.HOLDS}, (each, said)
