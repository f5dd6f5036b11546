"""What a person did wrong in a study, as one sentence that says where and what is allowed."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from polypath.errors import PolypathError

Where = tuple[str | int, ...]
"""The way to a field: keys and list indices."""


class StudyError(PolypathError, ValueError):
    """A mistake in a study; its text is one sentence."""


class SetupError(StudyError):
    """A mistake at a known field; the reader of the file adds name and line."""

    def __init__(self, where: Where, sentence: str) -> None:
        super().__init__(f"{dotted(where)}: {sentence}" if where else sentence)
        self.where = where
        self.sentence = sentence
        # What else is wrong, where several things were looked at.
        self.others: tuple[SetupError, ...] = ()


class MistakesError(StudyError):
    """All mistakes of a study or a part of one, a line each."""

    def __init__(self, wrong: Sequence[SetupError]) -> None:
        super().__init__(lines_of(map(str, wrong)))
        self.wrong = tuple(wrong)


# A text in a list or a mapping that needs no quotes there; YAML reads the last as something else.
_PLAIN = re.compile(r"(?!(?:true|false|yes|no|on|off|null)$)(?:[a-z_][\w./-]*|[\d.]+[a-df-z%][a-z/%]*)", re.IGNORECASE)
# Letters of a value that a sentence has.
_MOST_LETTERS = 200


def written(value: Any) -> str:
    """A value as a study file has it, for a sentence; a long one is cut."""
    text = f'"{value}"' if isinstance(value, str) else _written(value)
    return text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]}..."


def _written(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value if _PLAIN.fullmatch(value) else json.dumps(value, ensure_ascii=False)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_written, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{name}: {_written(each)}' for name, each in value.items())}}}"
    return repr(value)


MOST_TOLD = 20
"""So many mistakes are told at once."""


def lines_of(sentences: Iterable[str]) -> str:
    """A line for each of the first mistakes, and how many more there are."""
    lines = list(sentences)
    more = len(lines) - MOST_TOLD
    return "\n".join(lines[:MOST_TOLD]) + (f"\n{more} more mistakes are not told" if more > 0 else "")


def raise_all(errors: Sequence[SetupError]) -> None:
    """Raises the first of these mistakes, with the others behind it; none of none."""
    if not errors:
        return
    first, *others = {(error.where, error.sentence): error for each in errors for error in (each, *each.others)}.values()
    first.others = tuple(others)
    raise first


def gathered(checks: Iterable[Callable[[], object]]) -> None:
    """Makes each of these checks, whatever the others find, and raises all mistakes as one."""
    errors = []
    for check in checks:
        try:
            check()
        except SetupError as error:
            errors.append(error)
    raise_all(errors)


def dotted(where: Where) -> str:
    """flows.bulk.routes[0].via, for people."""
    text = ""
    for part in where:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else part)
    return text


def unknown(what: str, name: str, known: Iterable[str], *, meant: str | None = None) -> str:
    """One sentence: what is not known, the nearest that is (`meant`, if somebody knows better than
    the letters), and all there are.
    """
    known = list(known)
    near = [meant] if meant else difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    hint = f'; did you mean "{near[0]}"?' if near else ";"
    there = f"there are {', '.join(known)}" if known else "there are none"
    return f'there is no {what} "{name}"{hint} {there}'
