"""Saying what goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ._console import err


def say(text: str) -> None:
    """A line, as it is."""
    err.print(text, highlight=False, markup=False, soft_wrap=True)


@contextmanager
def steps() -> Iterator[Callable[[str], None]]:
    """What says the present step: in a terminal the last one alone, in a log a line for each."""
    with err.status("", spinner="line") as status:
        yield status.update if err.is_terminal else say
