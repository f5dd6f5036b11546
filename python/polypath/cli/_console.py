"""Where the command line prints. A console is made when it is asked for: a mistake is told without
the library that draws tables.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from polypath.errors import PolypathError, visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    out: Console
    err: Console

_Quantity = TypeVar("_Quantity")
# The heights of a line of bars.
BARS = " ▁▂▃▄▅▆▇█"
# A table in a file or a pipe must not be cut at a terminal's width that is not there.
_WIDE = 160


def __getattr__(name: str) -> Console:
    if name not in ("out", "err"):
        raise AttributeError(name)
    from polypath.terminal import console

    opened = console(stderr=name == "err")
    if name == "out" and not opened.is_terminal:
        opened = console(width=_WIDE)
    globals()[name] = opened
    return opened


def say(text: str) -> None:
    """A line about what goes on, as it is."""
    __getattr__("err").print(text, highlight=False, markup=False, soft_wrap=True)


@contextmanager
def steps() -> Iterator[Callable[[str], None]]:
    """What says the present step: in a terminal the last one alone, in a log a line for each."""
    err = __getattr__("err")
    with err.status("", spinner="line") as status:
        yield status.update if err.is_terminal else say


def complain(sentence: str) -> None:
    """One sentence about what went wrong."""
    print(f"polypath: {visible(sentence)}", file=sys.stderr)


def only_json() -> None:
    """Standard output has nothing from now on but what is given to programs."""
    # The one that commands have.
    opened = globals().get("out") or __getattr__("out")
    opened.quiet = True


def give(value: Any) -> None:
    """A value for programs: one JSON document on standard output."""
    sys.stdout.write(json.dumps(value, indent=1) + "\n")


def rows_of(table: Table) -> list[dict[str, str]]:
    """A table for programs: what each row has under each head."""
    return [
        dict(zip((str(column.header) for column in table.columns), map(str, row), strict=True))
        for row in zip(*(column.cells for column in table.columns), strict=True)
    ]


def quantity_of(option: str, text: str, kind: Callable[[str], _Quantity], error: type[PolypathError]) -> _Quantity:
    """What an option of a time or a rate says; raises this error where it is none."""
    try:
        return kind(text)
    except ValueError as wrong:
        raise error(f"{option}: {wrong}") from None


def time_of(option: str, text: str, error: type[PolypathError]) -> int:
    """The same of a time, in ns."""
    from polypath.study import Time

    return int(quantity_of(option, text, Time, error))


def passing(text: str) -> None:
    """What goes on at this moment, on a terminal: the next line takes its place."""
    err = __getattr__("err")
    if err.is_terminal:
        err.print(f"{text} ...", end="\r")


def renamed(old: str, new: str) -> None:
    """A command is called otherwise now; it works as before."""
    print(f"polypath: `polypath {old}` is now `polypath {new}`", file=sys.stderr)
