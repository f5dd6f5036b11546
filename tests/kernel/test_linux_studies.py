"""A small part of each study that Linux is to judge, on both engines.

Both engines are exact, so a verdict that changes is a change of a model, of a study or of a kernel.
The parts are short forms, so what they say is not what the studies say.
"""

import pytest

from polypath import Study
from polypath.analysis import Verdict
from polypath.engines import find
from polypath.report import claims_of, material
from polypath.results import execute, plan

pytestmark = pytest.mark.usefixtures("linux_kernel")

SIM, LINUX = "sim", "linux 6.12"
YES, NO = Verdict.HOLDS, Verdict.FAILS


@pytest.mark.parametrize(
    ("name", "only", "verdicts"),
    [
        (
            "simult-flows",
            {"experiment": ["balanced"], "cc": ["cubic"]},
            {"simult-balanced": YES, "simult-20mbit-all": YES, "simult-strict-20mbit": YES},
        ),
        (
            "poster",
            {"experiment": ["alone"], "transport": ["mptcp"], "cc": ["cubic", "lia"]},
            {"poster-efficient-path": YES, "poster-utilisation": YES},
        ),
        ("poster", {"experiment": ["beside-udp"], "transport": ["mptcp"], "udp": ["50mbit"], "cc": ["olia"]}, {"poster-udp-50mbit": YES}),
        # Two repetitions cannot tell what MPTCP has beside a TCP flow from what TCP has there.
        ("poster", {"experiment": ["beside-tcp"], "cc": ["cubic"]}, {"poster-not-worse-cubic": NO}),
        ("linux-6.8", {"experiment": ["shared"], "cc": ["cubic", "vegas"]}, {"linux68-ratio": NO, "linux68-jain": NO}),
        (
            "linux-6.8",
            {"experiment": ["pairs"], "cc": ["vegas", "lp"], "rival": ["cubic"]},
            # A single start of 8 s: vegas has 0.56 of its share on Linux and 0.32 here.
            {"linux68-vegas-yields": (YES, NO), "linux68-lp-broken": YES, "linux68-lp-broken-cubic": YES},
        ),
        # The short form of a black hole is too short for what it costs.
        (
            "mtu",
            {"experiment": ["tcp-mixed", "mixed", "known"], "stack": ["6.12"], "oversize": ["icmp"], "probing": ["0"]},
            {
                "mtu-tcp-pmtud-v1": YES,
                "mtu-tcp-at-once-v1": YES,
                "mtu-narrow-idle-v1": NO,
                "mtu-wish-mss-wide": YES,
                "mtu-wish-mss-narrow": YES,
                "mtu-wish-updates": YES,
            },
        ),
    ],
)
def test_a_part_of_a_study_has_these_verdicts_on_both(
    name,
    only,
    verdicts,
    tmp_path,
    request,
):
    whole = Study.load(request.config.rootpath / "studies" / name)
    # The short form leaves the claims out, since what they say is of whole runs.
    study = whole.in_short().replace(claims=whole.claims, baselines=None)
    for engine in ("sim", "linux"):
        results = execute(plan(study, engine=find(engine), out=tmp_path, only=only))
    found = {claim.id: {platform: claim.on(platform).verdict for platform in (SIM, LINUX)} for claim in claims_of(material(results))}
    said = {each: verdict for each, verdict in found.items() if set(verdict.values()) != {Verdict.NOT_MEASURED}}
    pairs = {each: verdict if isinstance(verdict, tuple) else (verdict, verdict) for each, verdict in verdicts.items()}
    assert said == {each: dict(zip((SIM, LINUX), pair, strict=True)) for each, pair in pairs.items()}
