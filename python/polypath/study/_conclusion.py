"""A study's conclusion: Markdown, with blanks that its results fill.

`{{ METRIC where cc=lia, experiment=v0 }}` is the mean of a column of the runs with its interval;
over several cells, the lowest to the highest. `highest` or `lowest` before the metric takes one
cell, `name of` before that gives the cell's name for its value, and `names of` those of all cells,
beginning with it. `{{ verdict ID }}` says what became of a claim.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

# Bounded, so that text with many beginnings and no end is looked through once.
BLANK = re.compile(r"\{\{(.{0,1000}?)\}\}", re.DOTALL)
_VALUE = re.compile(r"(?P<name>names?\s+of\s+)?(?:(?P<end>highest|lowest)\s+)?(?P<metric>\w+)(?:\s+where\s+(?P<where>.+))?", re.DOTALL)
_VERDICT = re.compile(r"verdict\s+(\S+)")


@dataclass(frozen=True, kw_only=True)
class Blank:
    """What a conclusion asks of the results."""

    claim: str = ""
    """The claim whose verdict is meant; else a metric is."""
    metric: str = ""
    where: Mapping[str, str] = field(default_factory=dict)
    """Column -> the value that it has in the cells that are meant, as it is written in the study."""
    end: str = ""
    """`highest` or `lowest`: the one cell with the largest or smallest mean."""
    name: bool = False
    """Whether its name is meant and not its value."""
    all: bool = False
    """Whether the names of all cells are, beginning with that one."""


def filled(text: str, value: Callable[[Blank], str]) -> str:
    """The text with `value` of each blank; one that cannot be read is a ValueError."""
    return BLANK.sub(lambda match: value(_blank(match[1])), text)


def blanks(text: str) -> list[Blank]:
    """What the text asks of the results."""
    return [_blank(match[1]) for match in BLANK.finditer(text)]


def _blank(written: str) -> Blank:
    words = " ".join(written.split())
    if verdict := _VERDICT.fullmatch(words):
        return Blank(claim=verdict[1])
    value = _VALUE.fullmatch(words)
    if value is None or (value["name"] and not value["end"]):
        raise ValueError(
            f'"{{{{ {words} }}}}" asks for nothing that the results have; write like "{{{{ goodput_receiver_mbps where cc=lia }}}}", '
            '"{{ name of highest goodput_receiver_mbps }}" or "{{ verdict a-claim }}"'
        )
    where = {}
    for part in (value["where"] or "").split(","):
        column, equals, wanted = (each.strip() for each in part.partition("="))
        if part.strip() and not (column and equals and wanted):
            raise ValueError(f'"{part.strip()}" in "{{{{ {words} }}}}" is no condition; write like "cc=lia, experiment=v0"')
        if column:
            where[column] = wanted
    return Blank(
        metric=value["metric"], where=where, end=value["end"] or "", name=bool(value["name"]), all=(value["name"] or "").startswith("names")
    )
