"""Drawing in processes of its own, one for each core but that of the process that asks: the renderer
takes most of a report's time, and draws one figure at once.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any


class DrawError(RuntimeError):
    """A figure could not be drawn; its text is one sentence."""


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """A figure as text for the page and as files for slides and papers."""

    svg: str
    narrow: str = ""
    """The same for a narrow screen, where it has such a form."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Kind -> content, of the kinds beside the SVG that were asked for."""

    @property
    def png(self) -> bytes:
        return self.files["png"]


def drawing(request: Mapping[str, Any]) -> Future[Drawing]:
    """Draws beside whatever else happens; `_drawer` says what a request is."""
    return _drawers().submit(request)


@cache
def _drawers() -> _Drawers:
    # Each takes half a second of the processor before its first figure.
    drawers = _Drawers(max(len(os.sched_getaffinity(0)) - 1, 1))
    atexit.register(drawers.close)
    return drawers


class _Drawers:
    """A thread for each process, which is started with the thread's first figure."""

    def __init__(self, most: int) -> None:
        self._pool = ThreadPoolExecutor(max_workers=most, thread_name_prefix="draw")
        self._own = threading.local()
        self._started: list[subprocess.Popen[bytes]] = []

    def submit(self, request: Mapping[str, Any]) -> Future[Drawing]:
        return self._pool.submit(self._draw, request)

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        for process in self._started:
            # The end of its input is its end.
            process.communicate()

    def _draw(self, request: Mapping[str, Any]) -> Drawing:
        process = self._process()
        assert process.stdin is not None and process.stdout is not None, "it was started with both"
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline() or b"{}")
        except (BrokenPipeError, ValueError):
            answer = {}
        if "svg" not in answer:
            raise DrawError(answer.get("error") or f"the process that draws ended ({process.wait()}) before a figure was done")
        files = {kind: process.stdout.read(length) for kind, length in answer.items()}
        return Drawing(svg=files.pop("svg").decode(), narrow=files.pop("narrow", b"").decode(), files=files)

    def _process(self) -> subprocess.Popen[bytes]:
        process: subprocess.Popen[bytes] | None = getattr(self._own, "process", None)
        if process is None or process.poll() is not None:
            command = [sys.executable, "-P", str(Path(__file__).with_name("_drawer.py"))]
            process = self._own.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self._started.append(process)
        return process
