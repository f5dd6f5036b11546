"""The rules by which runs are tried again, without a machine."""

from typing import Any

import pytest
from sweep_data import STUDY, study

from polypath.results import plan
from polypath.sweep import Failed, Fault, Finished
from polypath.sweep._finished import DIED
from polypath.sweep._ledger import FAULTS, TRIES, Ledger

RUNS = [run for run in plan(study(STUDY.replace("seeds: 3", "seeds: 1"))).runs if run.baseline is None]
# Dask blames all chunks of a worker that died, and has tried them; a job dies alone.
DASK: dict[str, Any] = {"isolated": False, "deaths": 1}
SLURM: dict[str, Any] = {"isolated": True, "deaths": TRIES}
MACHINES = {"one", "two", "three"}


class Sweep:
    """A ledger with a place that does what a test says."""

    def __init__(self, runs=RUNS, most=10, machines=MACHINES, **options):
        self.ledger = Ledger(runs, **options)
        self.most, self.machines, self.now = most, set(machines), 0.0

    def next(self):
        return self.ledger.next(self.now, self.most, lambda: self.machines)

    def sent(self):
        assigned = self.next()
        assert assigned is not None
        return assigned

    def all_sent(self):
        return list(iter(self.next, None))

    def finish(self, assigned, machine="one", seconds=1.0):
        return self.ledger.ended(assigned.number, machine, [Finished(key=run.key, files={}, seconds=seconds) for run in assigned.runs])

    def fail(self, assigned, machine, fault=Fault.MACHINE):
        return self.ledger.ended(assigned.number, machine, [Failed(key=run.key, fault=fault, sentence="no space") for run in assigned.runs])


def keys(assigned):
    return [] if assigned is None else [run.key for run in assigned.runs]


@pytest.fixture(params=[DASK, SLURM], ids=["dask", "slurm"])
def options(request):
    """Rules that hold at both places."""
    return request.param


def test_each_run_ends_once_and_then_the_sweep_has_ended(options):
    sweep = Sweep(**options)
    ends = [end for assigned in sweep.all_sent() for end in sweep.finish(assigned)]
    assert sorted(end.key for end in ends) == sorted(run.key for run in RUNS)
    assert (bool(sweep.ledger), sweep.ledger.idle, sweep.next()) == (False, True, None)
    sweep = Sweep(most=2, **options)
    first, _ = sweep.all_sent()
    sweep.finish(first)
    assert len(sweep.all_sent()) == 1


def test_a_fault_of_the_study_or_the_engine_is_not_tried_again(options):
    for fault in (Fault.STUDY, Fault.ENGINE):
        sweep = Sweep(RUNS[:1], **options)
        (end,) = sweep.fail(sweep.sent(), "one", fault)
        assert (isinstance(end, Failed) and end.fault, bool(sweep.ledger)) == (fault, False)


def test_a_run_that_fails_by_its_machines_fault_goes_to_others_where_there_are_some(options):
    sweep = Sweep(RUNS[:1], **options)
    first = sweep.sent()
    assert (first.among, first.avoid) == (None, frozenset())
    assert sweep.fail(first, "one") == []
    second = sweep.sent()
    assert (second.among, second.avoid) == ({"two", "three"}, {"one"})
    assert sweep.fail(second, "two") == []
    third = sweep.sent()
    assert third.among == {"three"}
    (end,) = sweep.fail(third, "three")
    assert isinstance(end, Failed)
    assert end.sentence == "no space"
    assert not sweep.ledger
    sweep = Sweep(RUNS[:1], machines={"one"}, **options)
    sweep.fail(sweep.sent(), "one")
    again = sweep.sent()
    assert (again.among, again.avoid) == (None, frozenset())
    assert [type(end) for end in sweep.finish(again)] == [Finished]
    sweep = Sweep(RUNS, most=1, first=2, **options)
    first = sweep.sent()
    assert len(first.runs) == 2
    sweep.fail(first, "one")
    again = sweep.sent()
    assert (keys(again), again.avoid) == (keys(first), {"one"})


@pytest.mark.parametrize(("retried_at", "avoided"), [("two", {"one"}), ("one", set())])
def test_a_machine_that_fails_at_some_runs_in_a_row_gets_none_while_there_are_others(options, retried_at, avoided):
    # Runs so long that each is a chunk.
    sweep = Sweep(plan(study()).runs, most=1, **options)
    for _ in range(FAULTS):
        failed = sweep.sent()
        assert failed.avoid == set()
        sweep.fail(failed, "one")
        sweep.finish(sweep.sent(), retried_at, seconds=1_000.0)
    assert sweep.sent().avoid == avoided


def test_a_chunk_that_no_machine_can_begin_is_named_and_one_of_which_nothing_is_known_goes_out_again(options):
    sweep = Sweep(RUNS[:1], **options)
    for _ in range(TRIES - 1):
        assert sweep.ledger.raised(sweep.sent().number, "No module named polypath") == []
    (end,) = sweep.ledger.raised(sweep.sent().number, "No module named polypath")
    assert (isinstance(end, Failed) and end.sentence, bool(sweep.ledger)) == ("No module named polypath", False)
    sweep = Sweep(RUNS[:1], **options)
    for _ in range(3 * TRIES):
        sweep.ledger.back(sweep.sent().number)
    assert len(sweep.finish(sweep.sent())) == 1


def test_what_was_on_its_way_to_a_place_that_went_goes_out_again_once(options):
    sweep = Sweep(**options)
    for assigned in sweep.all_sent():
        sweep.ledger.repeat(assigned.number, ["one"], sweep.machines)
    sweep.all_sent()
    sweep.ledger.all_back()
    assert sweep.ledger.idle
    assert sorted(key for assigned in sweep.all_sent() for key in keys(assigned)) == sorted(run.key for run in RUNS)


def test_a_place_that_does_not_say_who_is_there_loses_no_run(options):
    sweep = Sweep(RUNS[:1], **options)
    sweep.fail(sweep.sent(), "one")

    def silent():
        raise OSError

    with pytest.raises(OSError):
        sweep.ledger.next(0.0, 1, silent)
    sweep.ledger.all_back()
    assert keys(sweep.next()) == [RUNS[0].key]


# --- machines that die


def test_of_a_chunk_that_a_worker_died_of_each_run_goes_alone_when_nothing_else_is_on_its_way():
    sweep = Sweep(first=2, most=2, **DASK)
    first, second = sweep.all_sent()
    assert sweep.ledger.died(first.number) == []
    assert sweep.all_sent() == [], "what else is there would be blamed with them"
    sweep.finish(second)
    alone = sweep.sent()
    assert (len(alone.runs), sweep.next()) == (1, None)
    (end,) = sweep.ledger.died(alone.number)
    assert (end.key, end.fault, end.sentence) == (alone.runs[0].key, Fault.ENGINE, DIED)
    last = sweep.sent()
    assert sorted(keys(last) + keys(alone)) == sorted(keys(first))
    assert len(sweep.finish(last)) == 1
    assert not sweep.ledger


def test_of_a_job_that_vanished_each_run_goes_alone_and_is_named_when_it_vanished_alone_so_often():
    sweep = Sweep(first=2, most=3, **SLURM)
    first, second = sweep.all_sent()
    assert sweep.ledger.died(first.number, "one.err") == []
    alone = sweep.all_sent()
    assert [len(each.runs) for each in alone] == [1, 1], "jobs do not take others with them, so both go at once"
    bad, good = alone
    sweep.finish(good)
    for number in range(TRIES - 1):
        assert sweep.ledger.died(bad.number, f"{number}.err") == []
        bad = sweep.sent()
        assert keys(bad) == keys(alone[0])
    (end,) = sweep.ledger.died(bad.number, "last.err")
    assert end.sentence == f"{DIED} (log: last.err)"
    assert len(sweep.finish(second)) == 2
    assert not sweep.ledger


def test_of_a_job_that_vanished_what_lies_at_the_handover_has_ended_and_a_single_run_that_is_left_is_to_blame():
    sweep = Sweep(RUNS[:2], first=2, **SLURM)
    assigned = sweep.sent()
    assert sweep.ledger.found([assigned.runs[0].key, "unknown"]) == [assigned.runs[0].key]
    assert sweep.ledger.found([assigned.runs[0].key]) == []
    for _ in range(TRIES - 1):
        assert sweep.ledger.died(assigned.number) == []
        assigned = sweep.sent()
    assert [end.key for end in sweep.ledger.died(assigned.number)] == [RUNS[1].key]


def test_a_suspect_stays_alone_unless_it_ends_well(options):
    sweep = Sweep(RUNS[:2], first=2, **options)
    sweep.ledger.died(sweep.sent().number)
    suspect = sweep.sent()
    sweep.fail(suspect, "one")
    back = sweep.sent()
    assert (len(back.runs), back.avoid if keys(back) == keys(suspect) else {"one"}) == (1, {"one"})
    sweep.ledger.back(back.number)
    sweep.ledger.all_back()
    assert len(sweep.sent().runs) == 1
    sweep = Sweep(RUNS[:2], first=2, **options)
    sweep.ledger.died(sweep.sent().number)
    while assigned := sweep.next():
        assert [type(end) for end in sweep.finish(assigned)] == [Finished]
    assert not sweep.ledger


# --- machines that hang


def test_an_overdue_chunk_goes_to_another_machine_and_the_first_to_end_counts():
    sweep = Sweep(RUNS[:1], most=1, **DASK)
    first = sweep.sent()
    sweep.now = 59.0
    assert sweep.ledger.overdue(sweep.now, 60.0, 20.0) == []
    sweep.now = 60.0
    assert sweep.ledger.overdue(sweep.now, 60.0, 20.0) == [first.number]
    sweep.ledger.repeat(first.number, ["one"], sweep.machines)
    assert sweep.ledger.overdue(1e9, 60.0, 20.0) == [], "once"
    second = sweep.sent()
    assert (keys(second), second.among) == (keys(first), {"two", "three"})
    assert len(sweep.finish(second, "two")) == 1
    assert sweep.finish(first, "one") == []
    sweep = Sweep(most=1, **DASK)
    sweep.finish(sweep.sent(), seconds=100.0)
    second = sweep.sent()
    assert sweep.ledger.overdue(1_000.0, 60.0, 20.0) == []
    assert sweep.ledger.overdue(1e6, 60.0, 20.0) == [second.number]
    sweep = Sweep(RUNS[:1], **DASK)
    sweep.ledger.died(sweep.sent().number)
    sweep.ledger.repeat(sweep.sent().number, ["one"], sweep.machines)
    assert [end.sentence for end in sweep.ledger.died(sweep.sent().number)] == [DIED]


def test_an_overdue_chunk_is_sent_to_each_machine_at_most_once_and_not_at_all_where_all_have_it():
    sweep = Sweep(RUNS[:1], machines={"one", "two"}, **DASK)
    first = sweep.sent()
    sweep.ledger.repeat(first.number, ["one"], sweep.machines)
    second = sweep.sent()
    assert second.among == {"two"}
    sweep.ledger.repeat(second.number, ["two"], sweep.machines)
    assert sweep.next() is None
    sweep.machines.add("three")
    sweep.ledger.repeat(second.number, ["two"], sweep.machines)
    assert sweep.sent().among == {"three"}


def test_a_chunk_for_machines_that_are_gone_is_taken_back():
    sweep = Sweep(RUNS[:1], **DASK)
    sweep.fail(sweep.sent(), "one")
    second = sweep.sent()
    assert sweep.ledger.take_back({"one", "two"}) == []
    assert sweep.ledger.take_back({"one"}) == [second.number]
    assert sweep.finish(second, "two") == [], "what was taken back does not count"
    assert keys(sweep.sent()) == keys(second)


def test_a_machine_that_hangs_keeps_nobody_from_the_end():
    sweep = Sweep(RUNS[:1], **DASK)
    hangs = sweep.sent()
    sweep.ledger.repeat(hangs.number, ["one"], sweep.machines)
    deadly = sweep.sent()
    assert sweep.ledger.died(deadly.number) == []
    assert sweep.next() is None, "the one that hangs is still on its way"
    assert sweep.ledger.take_back(sweep.machines) == [hangs.number]
    assert [end.sentence for end in sweep.ledger.died(sweep.sent().number)] == [DIED]


# --- what others finished


def test_runs_that_lie_at_the_handover_are_not_handed_out(options):
    sweep = Sweep(there=[RUNS[0].key, "unknown"], **options)
    assert sweep.ledger.lying() == [RUNS[0].key]
    assert sweep.ledger.lying() == []
    assert RUNS[0].key not in [key for assigned in sweep.all_sent() for key in keys(assigned)]
    sweep = Sweep(most=1, **options)
    first = sweep.sent()
    waits = next(run for run in RUNS if run.key not in keys(first))
    assert sweep.ledger.found([waits.key]) == [waits.key]
    sent = keys(first)
    while sweep.ledger:
        sweep.finish(first)
        if (assigned := sweep.next()) is not None:
            first = assigned
            sent += keys(first)
    assert sorted([*sent, waits.key]) == sorted(run.key for run in RUNS)


def test_what_runs_cost_is_learnt_also_of_those_that_were_taken_from_the_handover(options):
    sweep = Sweep(RUNS[:1], **options)
    assigned = sweep.sent()
    sweep.ledger.found(keys(assigned))
    assert sweep.finish(assigned, seconds=3.0) == []
    assert sweep.ledger.queue.costs.expected(1.0) is not None
