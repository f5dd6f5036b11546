"""What studies may name, for programs."""

from __future__ import annotations

from pathlib import Path

from polypath import customcc

from ._sim import SimEngine


def list_cc(coupled: bool | None = None, cc_path: str | Path | None = None) -> list[str]:
    """The congestion controls that a study may name, on every engine; `polypath list cc` says more.

    Args:
        coupled: Only those that couple the subflows of a connection (True), or do not (False).
        cc_path: A folder with some of your own, each in NAME.c; they are among them then.

    Raises:
        CustomCcError: One of your own cannot be used.
    """
    if cc_path is not None:
        customcc.use(cc_path)
    return [algorithm.name for algorithm in SimEngine().algorithms() if coupled is None or algorithm.coupled == coupled]
