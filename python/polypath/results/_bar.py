"""How far runs are, as a bar: on a terminal, and in a notebook as its own widget of text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from polypath.study import Run


@contextmanager
def bar(words: str, runs: int) -> Iterator[Callable[[Run], None]]:
    """Gives the function that moves it by one run."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TextColumn("left"), TimeRemainingColumn()) as shown:
        task = shown.add_task(words, total=runs)
        yield lambda run: shown.update(task, advance=1)
