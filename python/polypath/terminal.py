"""What is printed. A study or a capture may hold any text, and none of it steers a terminal:
control characters are written out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from .errors import visible

if TYPE_CHECKING:
    from rich.console import Console


# Those that were made, and whether they print.
_consoles: WeakSet[Console] = WeakSet()
_quiet = False


def hush(quiet: bool = True) -> None:
    """Nothing is printed from now on but what is wrong, and what a command gives to programs; with
    False, consoles print again.
    """
    global _quiet
    _quiet = quiet
    for each in _consoles:
        each.quiet = quiet


def console(**how: Any) -> Console:
    """A console as rich makes it. By default brackets and colons in a text are what they are,
    neither styles nor pictures.
    """
    # A mistake is told without the library that draws tables.
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class Visible(Console):
        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                # What steers the terminal is rich's own, and marked as such.
                yield segment if segment.control or segment.text.isprintable() else Segment(visible(segment.text), segment.style)

    visible_console = Visible(**{"markup": False, "emoji": False, "highlight": False, "quiet": _quiet, **how})
    _consoles.add(visible_console)
    return visible_console


# Where no bar can be, a line says at most so often how far something is.
_LINE_EVERY_S = 30.0


def _lines(on: Console, total: int | None) -> Callable[..., None]:
    """What moves a bar that is not there: a line now and then, as a log wants it."""
    done, last_line = 0, time.monotonic()

    def move(*, advance: int = 0, completed: int | None = None, **changed: Any) -> None:
        nonlocal done, total, last_line
        done = done + advance if completed is None else completed
        total = changed.get("total", total)
        if total and 0 < done < total and time.monotonic() - last_line >= _LINE_EVERY_S:
            last_line = time.monotonic()
            on.print(f"{done} of {total} finished")

    return move


@contextmanager
def bar(on: Console | None = None, *, total: int | None = None, words: str = "") -> Iterator[Callable[..., None]]:
    """How far something is, while it goes on: on a terminal `on`, or in a notebook, where it stays. Gives
    what moves it: `move(advance=1)`, `move(description="cc=lia")`, `move(completed=3, total=7)`.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    if on is not None and not on.is_terminal:
        yield _lines(on, total)
        return
    with Progress(*columns, TextColumn("left"), TimeRemainingColumn(), console=on, transient=on is not None) as shown:
        yield partial(shown.update, shown.add_task(words, total=total))
