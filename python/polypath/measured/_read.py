"""Which tool a file is of."""

from __future__ import annotations

import json
from pathlib import Path

from polypath.traces import TraceError, text_of

from ._flent import of_flent
from ._iperf3 import of_iperf3
from ._model import Measured
from ._nest import of_nest
from ._ss import of_ss


def measured(file: Path) -> Measured:
    """What a file or a folder of NeST's dumps tells of connections. Raises `TraceError` with file and
    line.
    """
    if file.is_dir():
        return of_nest(file)
    if file.name in ("ss.json", "netperf.json") and (file.parent / "ss.json").is_file():
        return of_nest(file.parent)
    if not file.is_file():
        raise TraceError(f"there is no file {file}")
    text = text_of(file)
    if not text.lstrip().startswith("{"):
        return of_ss(file, text)
    try:
        first, _ = json.JSONDecoder().raw_decode(text.lstrip())
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{file}: this is no JSON: {error}") from None
    return of_flent(file, text) if "metadata" in first and "results" in first else of_iperf3(file)
