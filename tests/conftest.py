"""What all tests share: programs are those of the project's list and no others, and a test that
costs much runs in `make test-all` alone.

`costs.tsv` has what each test costs that costs a second or more, with what it shares with others;
`make test-all` renews it. `kept.tsv` names tests that `make test` runs whatever they cost: one of
each kind. A test that neither file names runs.
"""

import fcntl
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
COSTS = HERE / "costs.tsv"
KEPT = HERE / "kept.tsv"
# What costs less is not listed, and what is listed stays until it is wrong by half: the file
# changes when a cost does.
LEAST_S = 1.0
WRONG = 1.5
# While a test waits, others have the processor: a second of it costs this much of one that
# computes.
WAITING = 1 / 3


def rows(file):
    """The first column by the second one, a test's name."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return {name: first for first, _, name in (line.partition("\t") for line in lines if not line.startswith("#"))}


def pytest_addoption(parser):
    group = parser.getgroup("polypath")
    group.addoption("--most-seconds", type=float, help="leave out tests that cost more by tests/costs.tsv, save those of tests/kept.tsv")
    group.addoption("--durations-into", type=Path, metavar="FILE", help="write what each test took")
    group.addoption("--renew-costs", action="store_true", help="write tests/costs.tsv anew for the tests that run")


def pytest_configure(config):
    os.environ["PATH"] = subprocess.check_output([HERE.parent / "tools/machine", "listed"], text=True).strip()
    # What a shell starts in the background ignores interrupts, and hands that down.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.option.durations_into or config.option.renew_costs:
        config.pluginmanager.register(Durations(config))


@pytest.fixture
def polypath(monkeypatch, capsys):
    """Runs the command line in this process: exit code, stdout, stderr."""
    from polypath import cli

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["polypath", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        captured = capsys.readouterr()
        return end.value.code or 0, captured.out, captured.err

    return call


@pytest.fixture
def own_cache(monkeypatch, tmp_path):
    """What this test keeps in the user's cache (kernels, objects, seals) is not found by others."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    most = config.option.most_seconds
    if most is None:
        return
    costs, kept = rows(COSTS), rows(KEPT)
    files, names = {item.nodeid.partition("::")[0] for item in items}, {item.nodeid for item in items}
    gone = [name for name in kept if name.partition("::")[0] in files and name not in names]
    if gone:
        raise pytest.UsageError(f"tests/kept.tsv names tests that are not there: {', '.join(gone)}")
    # Of each function's tests the dearest.
    functions = {}
    for name, cost in costs.items():
        function = name.partition("[")[0]
        functions[function] = max(functions.get(function, 0), float(cost))

    def costs_of(item):
        # On a kernel that happens to be there a test costs what it costs on the others.
        if "-6.12]" in item.nodeid or "[6.12]" in item.nodeid or "kernel" not in getattr(item, "fixturenames", ()):
            return float(costs.get(item.nodeid, 0))
        return float(costs.get(item.nodeid, functions.get(item.nodeid.partition("[")[0], 0)))

    left_out = {item.nodeid: cost for item in items if item.nodeid not in kept and (cost := costs_of(item)) > most}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left_out])
    items[:] = [item for item in items if item.nodeid not in left_out]
    total = sum(left_out.values())
    config.stash[LEFT_OUT] = (
        f"left out: {len(left_out)} tests that cost more than {most:g} s each, {total:.0f} s together; make test-all runs them"
    )


LEFT_OUT = pytest.StashKey[str]()


def pytest_terminal_summary(terminalreporter, config):
    if said := config.stash.get(LEFT_OUT, None):
        terminalreporter.write_line(said)


@dataclass(frozen=True)
class Seconds:
    """Of the clock, and of the processor, by this process and the ended ones that it started."""

    clock: float
    processor: float

    @classmethod
    def now(cls):
        used = os.times()
        return cls(time.monotonic(), used.user + used.system + used.children_user + used.children_system)

    def __add__(self, other):
        return Seconds(self.clock + other.clock, self.processor + other.processor)

    def __sub__(self, other):
        return Seconds(self.clock - other.clock, self.processor - other.processor)


class Durations:
    """What each test costs: its own seconds, and all of those that a fixture of several tests takes
    once.
    """

    def __init__(self, config):
        self.config = config
        self.own: dict[str, Seconds] = {}
        # By the folder or file of the fixture, and its name.
        self.shared: dict[tuple[str, str], Seconds] = {}
        self.in_fixtures = Seconds(0, 0)
        self.uses: dict[str, tuple[str, ...]] = {}
        self.passed: set[str] = set()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item):
        begin, before = Seconds.now(), self.in_fixtures
        result = yield
        self.own[item.nodeid] = Seconds.now() - begin - (self.in_fixtures - before)
        self.uses[item.nodeid] = tuple(getattr(item, "fixturenames", ()))
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef):
        begin, before = Seconds.now(), self.in_fixtures
        try:
            return (yield)
        finally:
            if fixturedef.scope != "function":
                # One fixture may ask for another while it is set up.
                took = Seconds.now() - begin - (self.in_fixtures - before)
                key = (fixturedef.baseid, fixturedef.argname)
                self.shared[key] = self.shared.get(key, Seconds(0, 0)) + took
                self.in_fixtures += took

    def pytest_runtest_logreport(self, report):
        if report.when == "call" and report.passed:
            self.passed.add(report.nodeid)

    def cost(self, name):
        """In seconds."""
        fixtures = (took for (base, fixture), took in self.shared.items() if fixture in self.uses[name] and name.startswith(base))
        took = sum(fixtures, self.own[name])
        # At idle priority the clock says nothing.
        return took.processor if os.sched_getscheduler(0) == os.SCHED_IDLE else max(took.processor, WAITING * took.clock)

    def pytest_sessionfinish(self):
        if into := self.config.option.durations_into:
            into.parent.mkdir(parents=True, exist_ok=True)
            slowest = sorted(self.own, key=self.cost, reverse=True)
            lines = (f"{self.cost(name):.2f}\t{self.own[name].clock:.2f}\t{self.own[name].processor:.2f}\t{name}\n" for name in slowest)
            into.write_text("# cost, own seconds, own seconds of the processor, test\n" + "".join(lines), encoding="utf-8")
        if self.config.option.renew_costs:
            # The other lines of tests end about now, too.
            with (COSTS.parent / "requirement.py").open() as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                renew({name: self.cost(name) if name in self.passed else None for name in self.own})


def renew(took):
    """Writes what tests cost; what did not pass, or of a file that did not run, costs what it did."""
    heading = [line for line in COSTS.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    costs = {name: float(cost) for name, cost in rows(COSTS).items()}
    files = {name.partition("::")[0] for name in took}
    for name in [name for name in costs if name.partition("::")[0] in files and name not in took]:
        del costs[name]
    for name, cost in took.items():
        if cost is None:
            continue
        if cost < LEAST_S:
            if costs.get(name, 0) > WRONG * LEAST_S:
                del costs[name]
        elif not cost / WRONG <= costs.get(name, 0) <= cost * WRONG:
            costs[name] = cost
    lines = [f"{cost:.3g}\t{name}" for name, cost in sorted(costs.items())]
    fresh = COSTS.with_suffix(f".{os.getpid()}")
    fresh.write_text("\n".join([*heading, *lines, ""]), encoding="utf-8")
    fresh.replace(COSTS)
