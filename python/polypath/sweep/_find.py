"""The place that a person names after --on."""

from __future__ import annotations

from pathlib import Path

from polypath.engines import Engine
from polypath.study import StudyError, unknown

from ._abstract import Backend

LOCAL = "local"


def check_backend(engine: Engine) -> None:
    """Raises `StudyError` for an engine whose runs belong to one machine."""
    if engine.real_time:
        raise StudyError(
            f"--on spreads runs over machines, and the engine {engine.name} measures the machine it runs on: leave --on out, "
            "or take --engine sim or linux"
        )


def find_backend(
    on: str, *, handover: str | None = None, build_kernels: bool = False, certificates: str | Path | None = None
) -> Backend | None:
    """The place that a person names; None for this machine. With `build_kernels` machines build the
    kernels that they lack.

    `certificates` is a folder with ca.pem, cert.pem and key.pem, for tls://; by default Dask's own
    configuration names the files.
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
        # What runs on this machine alone does not wait for these modules to load (25 ms each).
        from ._dask import DaskBackend, Tls

        tls = Tls.of(certificates) if kind == "tls" else None
        return DaskBackend(address, handover=handover, build_kernels=build_kernels, tls=tls)
    kind, _, file = on.partition(":")
    if kind == "slurm":
        from ._slurm import SlurmBackend, profile

        return SlurmBackend(profile(file), handover=handover, build_kernels=build_kernels)
    raise StudyError(unknown("place to run on", on, [LOCAL, "dask://HOST:PORT", "tls://HOST:PORT", "slurm:PROFILE.toml"]))
