"""Runs tests, a machine for each test and seed, and keeps what is finished: a file a run, named by
its key, put into place in one step.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import hashlib
import itertools
import json
import os
import shlex
import tarfile
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from polypath import linux, programs
from polypath.engines import NONE, EngineError, Variation, draws_of, run_script

from ._errors import SelftestError
from ._suite import PLAYER, SCRIPT, Suite, Test
from ._tap import Subtest, parse
from ._watch import IDLE, Watch

# Raise it when the same machine would answer otherwise: another script around the tests, another
# way to read them.
FORMAT = 2
USE = "selftests"
ARCHIVE = "tests.tar"
# Where a machine's programs are looked for, first of all a person's own
# (crates/guest/src/observe.rs).
PATH = tuple(map(Path, ("/usr/local/bin", "/usr/local/sbin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")))


@dataclass(frozen=True)
class Job:
    """One test with one seed."""

    test: Test
    seed: int
    # What the test is called with.
    arguments: tuple[str, ...] = ()
    # What chance does to it.
    vary: Variation = NONE
    # What the kernel calls the MPTCP scheduler of all network namespaces; "": its own.
    scheduler: str = ""


@dataclass(frozen=True)
class Record:
    """A finished run."""

    test: str
    seed: int
    status: int
    subtests: tuple[Subtest, ...]
    # All that the test printed.
    log: str
    # Of each kind of variation, how many draws there were.
    draws: Mapping[str, int] = field(default_factory=dict, hash=False)

    def json(self) -> dict[str, Any]:
        """As it is kept."""
        return dataclasses.asdict(self)

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Record:
        """What was kept."""
        return cls(**{**record, "subtests": tuple(Subtest(**fields) for fields in record["subtests"])})


def record(job: Job, status: int, log: str, draws: Mapping[str, int] | None = None) -> Record:
    """What came of a run."""
    return Record(job.test.name, job.seed, status, tuple(parse(log, job.test.name, status)), log, draws or {})


def tools_hash() -> str:
    """Hash of the programs of this machine that the tests use. Raises `SelftestError` if one is
    missing.
    """
    lacking = programs.packages(programs.missing(USE))
    if lacking:
        raise SelftestError(f"the selftests use programs of the Debian packages {' '.join(lacking)}: install them (apt-get install)")
    digest = hashlib.sha256()
    for thing in programs.THINGS:
        if USE in thing.uses:
            with Path(programs.need(thing.name)).resolve().open("rb") as file:
                digest.update(thing.name.encode() + hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


class Runner:
    """Runs jobs on one kernel and keeps their records below `folder`."""

    def __init__(self, kernel: linux.Kernel, folder: Path) -> None:
        self.kernel = kernel
        self.folder = folder
        self._tools = tools_hash()

    def key(self, job: Job) -> str:
        """What a run's outcome depends on, as a name for it."""
        parts = (
            FORMAT,
            self.kernel.key,
            job.test.suite.key,
            self._tools,
            job.test.name,
            job.seed,
            *job.arguments,
            *([job.vary.key] if job.vary else []),
            *([f"scheduler {job.scheduler}"] if job.scheduler else []),
        )
        return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:32]

    def kept(self, job: Job) -> Record | None:
        """The record of a finished run."""
        file = self.folder / f"{self.key(job)}.json"
        return Record.of(json.loads(file.read_bytes())) if file.is_file() else None

    def run(self, job: Job) -> Record:
        """Runs a job in a machine of its own and keeps the record."""
        with tempfile.TemporaryDirectory() as name:
            out = Path(name) if job.vary else None
            status, log = run_job(job, kernel=self.kernel.file, out=out)
            kept = record(job, status, log, draws_of(out) if out else None)
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / f"{self.key(job)}.json"
        aside = file.with_name(f".{file.name}-{os.getpid()}-{threading.get_ident()}")
        aside.write_text(json.dumps(kept.json()), encoding="utf-8")
        aside.replace(file)
        return kept

    def run_all(
        self, jobs: Sequence[Job], *, workers: int, done: Callable[[Job, Record | None, str], None]
    ) -> tuple[list[Record], list[tuple[Job, str]]]:
        """Runs what is not there yet; records in the order of the jobs, and the jobs without one
        with the reason.

        `done` is told of each finished job, with the reason if it has no record.
        """
        records = {job: self.kept(job) for job in jobs}
        failed: dict[Job, str] = {}
        with _workers(workers) as pool:
            futures = {pool.submit(self.run, job): job for job in jobs if records[job] is None}
            try:
                for future in concurrent.futures.as_completed(futures):
                    job = futures[future]
                    try:
                        records[job] = future.result()
                    except EngineError as error:
                        failed[job] = str(error)
                    done(job, records[job], failed.get(job, ""))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return [record for record in records.values() if record], list(failed.items())


def _workers(number: int) -> concurrent.futures.ThreadPoolExecutor:
    """Threads that start machines. Where they fill the processors, each keeps to one, and its
    machines with it.

    A test starts programs without end, and wherever the kernel stops one of them, both go on sooner
    on the same processor.
    """
    cores = sorted(os.sched_getaffinity(0))
    if number < len(cores):
        return concurrent.futures.ThreadPoolExecutor(max_workers=number)
    turns = itertools.cycle(cores)
    # The first argument means the calling thread alone.
    return concurrent.futures.ThreadPoolExecutor(max_workers=number, initializer=lambda: os.sched_setaffinity(0, {next(turns)}))


def run_job(
    job: Job,
    *,
    kernel: Path,
    out: Path | None = None,
    watch: Watch = IDLE,
    shell: tuple[int, int] | None = None,
    timeout_s: float | None = None,
) -> tuple[int, str]:
    """The exit status of a test and all that it printed. The machine writes into `out` what `watch`
    says; that changes no run.

    `shell` has the descriptors of a person's input and output, for a shell in the machine.
    """
    with tempfile.TemporaryDirectory() as name:
        script = Path(name) / "script"
        script.write_text(_script(job), encoding="utf-8")
        return run_script(
            script,
            kernel=kernel,
            seed=job.seed,
            out=out,
            timeout_s=timeout_s or job.test.patience_s,
            files={ARCHIVE: job.test.suite.archive},
            observe=watch.text(),
            vary=job.vary.text(job.seed) if job.vary else "",
            shell=shell,
        )


# A namespace begins with the kernel's own scheduler, so `ip` chooses when it makes one.
_SCHEDULER = """\
sysctl -qw net.mptcp.scheduler={0} || exit 97
real=$(command -v ip) && mkdir /tmp/bin && cat >/tmp/bin/ip <<END || exit 97
#!/bin/sh
$real "\\$@" || exit
[ "\\$1 \\$2" != "netns add" ] || exec $real netns exec "\\$3" sysctl -qw net.mptcp.scheduler={0}
END
chmod +x /tmp/bin/ip && export PATH="/tmp/bin:$PATH" || exit 97
"""


def _script(job: Job) -> str:
    """What the machine does: the test where the kernel's own runner would start it, in a file
    system of its own.
    """
    words = shlex.join([*job.test.command, *job.arguments])
    return "\n".join(
        (
            "mkdir /tmp/kselftest && cd /tmp/kselftest || exit 97",
            f"tar -xf /run/polypath/{ARCHIVE} || exit 97",
            # iptables puts its lock there, and ip its namespaces.
            "mkdir -p /run/netns /run/lock",
            # The tracing folder is where programs look for it; a kernel without one has none.
            "mount -t tracefs none /sys/kernel/tracing 2>/dev/null",
            "mount -t debugfs none /sys/kernel/debug 2>/dev/null",
            *(_SCHEDULER.format(job.scheduler).splitlines() if job.scheduler else []),
            # The shell's <(command) is a file there, which on other machines a daemon makes.
            *(["ln -s /proc/self/fd /dev/fd || exit 97"] if _reads_commands(job.test) else []),
            f"cd {shlex.quote(job.test.suite.name)} || exit 97",
            f"exec {words}",
            "",
        )
    )


def _reads_commands(test: Test) -> bool:
    """Whether a test reads what a command says as a file. Others begin with as many programs as
    ever, since one more moves what each seed draws.
    """
    with tarfile.open(test.suite.archive) as tar:
        member = next((entry for entry in tar if entry.name == f"{test.suite.name}/{test.file}"), None)
        file = tar.extractfile(member) if member else None
        text = file.read() if file else b""
    return text.startswith(b"#!") and b"<(" in text


def jobs(tests: Iterable[Test], seeds: Iterable[int], vary: Variation = NONE, scheduler: str = "") -> list[Job]:
    """Every test with every seed; seed by seed, so that an interrupted run has looked at all tests."""
    listed = list(tests)
    return [Job(test, seed, vary=vary, scheduler=scheduler) for seed in seeds for test in listed]


def option_of(words: Sequence[str], name: str) -> tuple[list[str], str | None]:
    """Words without the one option that may stand among them, and its value. Raises `SelftestError`."""
    rest, value = list(words), None
    if name in rest:
        at = rest.index(name)
        if at + 1 == len(rest):
            raise SelftestError(f"{name} needs a value")
        value = rest[at + 1]
        del rest[at : at + 2]
    if strange := [word for word in rest if word.startswith("-")]:
        raise SelftestError(f"{strange[0]} is not known here")
    return rest, value


def seeds_of(text: str) -> list[int]:
    """The seeds that "1..100", "7" or "1..5,13" mean. Raises `SelftestError` if it means none."""
    seeds: list[int] = []
    for part in text.split(","):
        first, dots, last = part.strip().partition("..")
        if not first.isdigit() or (dots and not last.isdigit()):
            raise SelftestError(f'"{text}" names no seeds; write one like 13, some like 3,5, or a range like 1..100')
        seeds += range(int(first), int(last if dots else first) + 1)
    if not seeds:
        raise SelftestError(f'"{text}" names no seeds: the range ends before it begins')
    return list(dict.fromkeys(seeds))


def missing_of(tests: Iterable[Test]) -> list[str]:
    """A sentence for each program that these tests use and that is not there: helpers that did not
    compile, and packetdrill.
    """
    listed = list(tests)
    suites: dict[str, Suite] = {test.suite.name: test.suite for test in listed}
    said = [f"{suite.name} lacks its program {name}: {why}" for suite in suites.values() for name, why in suite.missing.items()]
    if any(test.file.endswith(SCRIPT) for test in listed) and not any((folder / PLAYER).is_file() for folder in PATH):
        said.append(
            f"packets' scripts are skipped without the program {PLAYER} in {PATH[0]}: Debian has no package, so build it, or play them "
            "with polypath linux packetdrill"
        )
    return said
