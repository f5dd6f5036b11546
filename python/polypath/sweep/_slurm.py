"""Runs as jobs of Slurm, submitted through submitit. What a job finishes lies in a folder that all
nodes see.

Not through dask-jobqueue: its scheduler lives in the client, so that jobs end when the client is
killed, and their nodes must reach it. Here jobs go on without the client, and the next one takes
what they finish.
"""

from __future__ import annotations

import getpass
import os
import subprocess
import time
import tomllib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from polypath.engines import Engine
from polypath.study import Run, StudyError, Time

from ._abstract import Backend, State
from ._finished import Failed, Finished
from ._handover import Handover
from ._ledger import TRIES, Assignment, Ledger
from ._sweep import Sweep
from ._worker import Described, describe, work_on

# Of one processor's work in a job: long beside the seconds in which Slurm starts one.
_JOB_S = 60.0
_LOOK_S = 1.0
# A job that Slurm does not list any more may still have a result on its way through a shared file
# system.
_GRACE_S = 15.0
# How long Slurm may not answer before the sweep gives up.
_PATIENCE_S = 600.0
# What sbatch says where a controller is busy or starts anew, if it says anything: no word about the
# job.
_PASSING = ("unable to contact", "timed out", "connect failure", "temporarily unable")


class Profile(BaseModel):
    """What jobs ask Slurm for."""

    # Built when a profile is read: most sessions have none.
    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)

    # That all nodes see: jobs' logs and, where nobody says otherwise, what they finish.
    folder: Path
    partition: str | None = None
    account: str | None = None
    minutes: int = Field(default=60, gt=0)
    # Of one job: runs at once in it, and memory for all of them.
    cpus: int = Field(default=1, gt=0)
    memory_gb: float | None = Field(default=None, gt=0)
    # Most jobs that wait or run.
    jobs: int = Field(default=10, gt=0)
    # Lines of shell before the job, such as "module load gcc"; and further options of sbatch, by
    # name.
    setup: tuple[str, ...] = ()
    sbatch: Mapping[str, str | int | bool] = Field(default_factory=dict)


def profile(file: str) -> Profile:
    """The profile in a TOML file; raises `StudyError` with the file and the field."""
    path = Path(file or "slurm.toml")
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StudyError(
            f"--on slurm reads what to ask Slurm for from {path}, which cannot be read ({error.strerror}); "
            "docs/guide/many-machines.md shows one; --on slurm:FILE names another"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise StudyError(f"{path} is no TOML: {error}") from None
    try:
        settings = Profile.model_validate(given)
    except ValidationError as error:
        (problem, *_) = error.errors()
        where = ".".join(map(str, problem["loc"]))
        allowed = f"; there are {', '.join(Profile.model_fields)}" if problem["type"] == "extra_forbidden" else ""
        raise StudyError(f"{path}: `{where}`: {problem['msg'][:1].lower()}{problem['msg'][1:]}{allowed}") from None
    return settings.model_copy(update={"folder": settings.folder.absolute()})


@dataclass(kw_only=True)
class _Job:
    """A job that has not ended, and the number of its chunk; None of the first one, which has no
    runs.
    """

    job: Any
    number: int | None
    # Since when Slurm does not list it.
    gone: float | None = None


class SlurmBackend(Backend):
    """The nodes of a Slurm cluster."""

    handover: Handover

    def __init__(self, asked: Profile, *, handover: str | None = None, build_kernels: bool = False) -> None:
        try:
            import submitit  # noqa: F401  # Said here, before anything else is looked at.
        except ImportError:
            raise StudyError("--on slurm needs submitit: pip install submitit") from None
        self.name = "slurm"
        self.profile = asked
        self.build_kernels = build_kernels
        self.handover = Handover(handover or str(asked.folder / "handover"))

    def carry_out(self, engine: Engine, runs: Iterable[Run], tell: Callable[[State], None]) -> Generator[Finished | Failed]:
        sweep = _Sweep(self, engine, runs, tell)
        try:
            sweep.check()
            yield from sweep.results()
        finally:
            sweep.close()


class _Sweep(Sweep):
    """One study's runs as jobs."""

    def __init__(self, backend: SlurmBackend, engine: Engine, runs: Iterable[Run], tell: Callable[[State], None]) -> None:
        asked = backend.profile
        ledger = Ledger(
            runs,
            there=backend.handover.keys(),
            isolated=True,
            deaths=TRIES,
            threads=asked.jobs * asked.cpus,
            chunk_s=_JOB_S * asked.cpus,
            first=asked.cpus,
        )
        super().__init__(backend, engine, ledger, tell)
        self._backend, self._profile = backend, asked
        self._executor = _executor(asked)
        self._jobs: dict[str, _Job] = {}
        self._answered = time.monotonic()

    def check(self) -> None:
        """Asks a first node what it has. Each job says so of its own node, too. Raises `StudyError`
        where it differs.
        """
        job = self._submitted(describe, self._engine.name, self._kernels, list(self._custom.values()), self._build_kernels)
        self._jobs[job.job_id] = _Job(job=job, number=None)
        while not _has_result(job):
            self._look()
            if job.job_id not in self._jobs:
                raise StudyError(f"Slurm's first job ended without a result; its log is {job.paths.stderr}")
            time.sleep(_LOOK_S)
        del self._jobs[job.job_id]
        described: Described = _result(job)
        self._check(described.machine, described)

    def results(self) -> Iterator[Finished | Failed]:
        while self._ledger:
            while assigned := self._ledger.next(time.monotonic(), self._profile.jobs, self._nodes):
                self._send(assigned)
            # What other clients' jobs left there, and what the jobs of this one finish.
            yield from self._taken(self._ledger.found(sorted(self._backend.handover.keys())))
            for number in [number for number, each in self._jobs.items() if _has_result(each.job)]:
                yield from self._whole(self._ends(self._jobs.pop(number)))
            for lost in self._look():
                assert lost.number is not None, "the first job has ended"
                yield from self._ledger.died(lost.number, str(lost.job.paths.stderr))
            if self._ledger:
                time.sleep(_LOOK_S)

    def close(self) -> None:
        """Takes back jobs that have not ended."""
        if self._jobs:
            with suppress(OSError):
                subprocess.run(["scancel", *self._jobs], check=False, capture_output=True)

    def _send(self, assigned: Assignment) -> None:
        self._executor.update_parameters(exclude=",".join(sorted(assigned.avoid)) or None)
        job = self._submitted(work_on, self._chunk(assigned.runs), self._profile.cpus)
        self._jobs[job.job_id] = _Job(job=job, number=assigned.number)

    def _nodes(self) -> set[str]:
        """The nodes that may get jobs; none where Slurm does not say."""
        partition = self._profile.partition
        asked = [
            "sinfo",
            "--noheader",
            "--Node",
            "--responding",
            "--states=alloc,completing,idle,mixed",
            "--format=%N",
            *(["--partition", partition] if partition else []),
        ]
        try:
            return set(subprocess.run(asked, check=True, capture_output=True, text=True).stdout.split())
        except (OSError, subprocess.CalledProcessError):
            return set()

    def _submitted(self, function: Callable[..., object], *arguments: object) -> Any:
        while True:
            try:
                return self._executor.submit(function, *arguments)
            except (OSError, subprocess.CalledProcessError, RuntimeError) as error:
                # submitit tells the command and where it was called from, and then what sbatch
                # said.
                said = [line.strip() for line in str(error).splitlines() if "error:" in line]
                passes = not str(error).strip() or any(word in line.lower() for line in said for word in _PASSING)
                if isinstance(error, OSError) or not passes:
                    raise StudyError(f"Slurm takes no job: {said[-1] if said else error}; what is finished is kept") from None
            self._silent()
            time.sleep(_LOOK_S)

    def _ends(self, ended: _Job) -> Sequence[Finished | Failed]:
        """What a job that ended gave; its runs lie at the handover."""
        assert ended.number is not None, "the first job has ended"
        try:
            node, results = _result(ended.job)
        except Exception as error:  # Whatever the job died of.
            ends = self._ledger.raised(ended.number, str(error))
        else:
            ends = self._ledger.ended(ended.number, node, results)
        # The log stays.
        for file in (ended.job.paths.result_pickle, ended.job.paths.submitted_pickle):
            file.unlink(missing_ok=True)
        return ends

    def _look(self) -> list[_Job]:
        """Asks Slurm which jobs there are; gives those that ended without a result."""
        asked = ["squeue", "--noheader", "--format=%i %t", f"--user={getpass.getuser()}"]
        try:
            listed = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.split()
        except (OSError, subprocess.CalledProcessError):
            self._silent()
            return []
        self._answered = time.monotonic()
        states = dict(zip(listed[::2], listed[1::2], strict=True))
        lost = []
        for number, each in list(self._jobs.items()):
            if number in states or _has_result(each.job):
                each.gone = None
            elif each.gone is None:
                each.gone = time.monotonic()
            elif time.monotonic() > each.gone + _GRACE_S:
                lost.append(self._jobs.pop(number))
        running = sum(states.get(number) == "R" for number in self._jobs)
        waiting = "" if running or not self._jobs else f"{len(self._jobs)} jobs wait for Slurm to start them"
        self._tell(State(machines=running, threads=running * self._profile.cpus, active=self._ledger.active, note=waiting))
        return lost

    def _silent(self) -> None:
        if time.monotonic() > self._answered + _PATIENCE_S:
            raise StudyError(f"Slurm has not answered for {Time.about(_PATIENCE_S)}; what is finished is kept: run this again once it does")
        self._tell(State(machines=0, threads=0, active=0, note="Slurm does not answer (squeue); trying again"))


def _executor(asked: Profile) -> Any:
    import submitit

    try:
        executor = submitit.SlurmExecutor(folder=asked.folder / "jobs")
    except RuntimeError:
        raise StudyError("--on slurm submits jobs, and this machine has no Slurm commands (srun): run it on a login node") from None
    options: dict[str, Any] = {"time": asked.minutes, "cpus_per_task": asked.cpus, "job_name": "polypath", "setup": list(asked.setup)}
    options |= {name: value for name in ("partition", "account") if (value := getattr(asked, name)) is not None}
    if asked.memory_gb is not None:
        options["mem"] = f"{round(asked.memory_gb * 1024)}M"
    executor.update_parameters(**options, additional_parameters=dict(asked.sbatch), use_srun=False, stderr_to_stdout=False)
    # Jobs import the same package as this process, wherever it was found.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")]))
    return executor


def _has_result(job: Any) -> bool:
    return bool(job.paths.result_pickle.exists())


def _result(job: Any) -> Any:
    from submitit.core.utils import pickle_load

    outcome, result = pickle_load(job.paths.result_pickle)
    if outcome == "error":
        raise RuntimeError(str(result).strip().splitlines()[-1])
    return result
