"""The newest release of Linux that is a kernel of the simulator: CI builds it, and this much of it
is tried each time.
"""

import pytest
from requirement import lacking

from polypath import EngineError, Study, customcc, linux, selftests
from polypath.engines import _machine, find, prove
from polypath.results import execute, plan

NEWEST = "7.3"


@pytest.fixture(scope="module")
def newest():
    try:
        kernel = linux.find(NEWEST)
        _machine.programs_are_there()
    except (linux.KernelError, EngineError) as error:
        lacking(f"linux {NEWEST}", str(error))
    return kernel


def test_it_repeats_itself(newest):
    prove(newest)


def test_a_study_fills_its_bottleneck_as_on_the_simulator(newest, tmp_path, request):
    nitk = Study.load(request.config.rootpath / "studies/nitk").in_short()
    study = nitk.replace(kernel=NEWEST, experiments={}, matrix={"cc": ["cubic"]}, conclusion=None, baselines=None)
    for engine in ("sim", "linux"):
        results = execute(plan(study, engine=find(engine), out=tmp_path))
    assert (results.runs["subflows"] == 2).all() and (results.runs["retransmissions"] == 0).all()
    goodput = results.runs.groupby("engine")["goodput_receiver_mbps"].mean()
    assert goodput["linux"] == pytest.approx(goodput["sim"], rel=0.005)
    assert goodput["linux"] == pytest.approx(9.33, abs=0.05)


def test_each_scheduler_chooses_as_on_the_simulator(newest):
    found = list(linux.check_schedulers(newest.name, customcc.ours("sched")))
    assert len(found) == 12 and all(calls == 40_000 and difference is None for _, calls, difference in found), found


def test_a_selftest_of_its_own_passes(newest):
    tests = {test.name: test for test in selftests.find(linux.selftests(NEWEST) / linux.TESTS, ["mptcp"])}
    job = selftests.Job(tests["mptcp/pm_netlink"], 1)
    status, log = selftests.run_job(job, kernel=newest.file)
    subtests = selftests.parse(log, job.test.name, status)
    assert {each.verdict for each in subtests} == {"pass"}
    assert len(subtests) == 22
