"""Every study of the project on the engine host.

The parts are chosen for their length. What runs at once shares the processors, so several runs at a
time are for links as slow as these.
"""

from pathlib import Path

import pandas as pd
import pytest
from requirement import planned_on_host

from polypath import Study, run
from polypath.engines import HostEngine
from polypath.results import execute, plan
from polypath.study import OUT_OF_TREE

STUDIES = Path(__file__).resolve().parents[2] / "studies"
# What is run of each, and how far each row may be from the simulator's: seconds of slow start on a
# machine that has more to do. Where TCP connections compete, who wins in some seconds is chance (16
# to 20 of 38 Mbit/s in three runs), so that is of them together.
PARTS: dict[str, dict[str, list[str]]] = {
    # Draw 1 waits for the receive window in the simulator and on Linux 6.12, not on 6.18.
    "atlas": {"experiment": ["bulk"], "cc": ["cubic"], "draw": ["2"]},
    "linux-6.8": {"experiment": ["shared"], "cc": ["cubic"]},
    "linux-reference": {"experiment": ["c", "e-tcp-probing"]},
    # The losses, the same ones here and there, decide: each holds the tunnel for 300 ms.
    "mpt-gre": {"experiment": ["router-loss"], "cc": ["cubic"], "loss": ["1%"]},
    "mtu": {"experiment": ["mixed"]},
    "nitk": {"experiment": ["v1"]},
    "poster": {"experiment": ["beside-udp"], "cc": ["lia"]},
    "reorder": {"experiment": ["loss-05"], "cc": ["cubic"], "rule": ["progress"]},
    "simult-flows": {"experiment": ["balanced-delays"], "cc": ["lia"]},
}
# Nobody has tried a part of these on the engine host yet.
NOT_TRIED = ("bbr-shared", "hybrid", "jittertrap", "one-tcp-many-paths", "rfc9438", "schedulers")
WITHIN = 0.35
# Runs at once: twice as many where a run's links carry some 10 Mbit/s together.
AT_ONCE = {
    "atlas": 2,
    "linux-6.8": 2,
    "linux-reference": 4,
    "mpt-gre": 1,
    "mtu": 1,
    "nitk": 4,
    "poster": 2,
    "reorder": 1,
    "simult-flows": 3,
}


def test_each_study_has_a_part_here():
    assert sorted([*PARTS, *NOT_TRIED]) == sorted(place.parent.name for place in STUDIES.glob("*/study.yaml"))


@pytest.mark.parametrize("name", PARTS)
def test_its_short_form_is_accepted_and_a_part_of_it_resembles_the_simulator(name, tmp_path):
    study = Study.load(STUDIES / name).in_short()
    whole = planned_on_host(study, tmp_path / "host")
    part = plan(study, engine=HostEngine(), out=tmp_path / "host", only=PARTS[name])
    assert 0 < len(part.runs) <= len(whole.runs)

    here = execute(part, workers=AT_ONCE[name]).runs
    there = run(study, engine="sim", out=tmp_path / "sim", only=PARTS[name]).runs
    there = there[there["client_kernel"] != OUT_OF_TREE]
    cell = list(dict.fromkeys(key for key in ("experiment", *study.parameters, *PARTS[name]) if key in here))
    means = [table.groupby([*cell, "flow", "flow_transport"], dropna=False)["goodput_receiver_mbps"].mean() for table in (here, there)]
    assert len(means[0]) == len(means[1]) > 0
    both = pd.DataFrame({"here": means[0], "there": means[1]}).reset_index()
    both["datagrams"] = both["flow_transport"] == "udp"
    together = both.groupby([*cell, "datagrams"], dropna=False)[["here", "there"]].transform("sum")
    assert (together["here"] / together["there"]).between(1 - WITHIN, 1 + WITHIN).all(), both
    assert ((both["here"] - both["there"]).abs() <= WITHIN * together["there"]).all(), both
