"""Where a study's runs are carried out: on this machine, or on those of an engine that a lab runs already."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from pathlib import Path

from polypath.engines import Engine
from polypath.study import Run, StudyError, unknown

from ._finished import Failed, Finished

LOCAL = "local"


@dataclass(frozen=True, kw_only=True)
class State:
    """How far a sweep is, for whoever looks."""

    machines: int
    threads: int
    # Runs that are on a machine now.
    active: int
    # What a person should know, such as "the scheduler does not answer".
    note: str = ""


class Place(ABC):
    """Machines that carry out runs."""

    # As a person writes it after --on.
    name: str

    @abstractmethod
    def carry_out(self, engine: Engine, runs: Iterable[Run], tell: Callable[[State], None]) -> Generator[Finished | Failed]:
        """Each run once, in the order in which they end; closing the iterator takes back what was handed out.

        `runs` are made while others run, and only as far as they are asked for.
        Raises `StudyError` where a machine lacks what the runs need, before any of them runs.
        """


def check_place(engine: Engine) -> None:
    """Raises `StudyError` for an engine whose runs belong to one machine."""
    if engine.real_time:
        raise StudyError(
            f"--on spreads runs over machines, and the engine {engine.name} measures the machine it runs on: leave --on out, "
            "or take --engine sim or linux"
        )


def find_place(
    on: str, *, handover: str | None = None, build_kernels: bool = False, certificates: str | Path | None = None
) -> Place | None:
    """The place that a person names; None for this machine. With `build_kernels` machines build the kernels that they lack.

    `certificates` is a folder with ca.pem, cert.pem and key.pem, for tls://; by default Dask's own configuration names the files.
    """
    kind, colon, address = on.partition("://")
    if certificates is not None and kind != "tls":
        raise StudyError("--certificates are for an encrypted scheduler; write --on tls://HOST:PORT, or leave them out")
    if on == LOCAL:
        if handover is not None:
            raise StudyError("--handover is where other machines put what they finish; give --on too, or leave it out")
        if build_kernels:
            raise StudyError("--build-kernels is for other machines; give --on too, or build it here: polypath linux build NAME")
        return None
    if kind in ("dask", "tls"):
        host, _, port = address.rpartition(":")
        if not colon or not host or not port.isdigit():
            raise StudyError(f"--on {on} names no scheduler; write {kind}://HOST:PORT, such as {kind}://127.0.0.1:8786")
        from ._dask import DaskPlace, Tls

        tls = Tls.of(certificates) if kind == "tls" else None
        return DaskPlace(address, handover=handover, build_kernels=build_kernels, tls=tls)
    kind, _, file = on.partition(":")
    if kind == "slurm":
        from ._slurm import SlurmPlace, profile

        return SlurmPlace(profile(file), handover=handover, build_kernels=build_kernels)
    raise StudyError(unknown("place to run on", on, [LOCAL, "dask://HOST:PORT", "tls://HOST:PORT", "slurm:PROFILE.toml"]))
