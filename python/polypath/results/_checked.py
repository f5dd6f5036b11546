"""Claims and published numbers that could never be decided: they name a column, a parameter or a
value that no results will have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from polypath.analysis import FAIRNESS, SUBFLOW, meant
from polypath.study import Blank, SetupError, Study, Where, conclusion_blanks, copies, located, parameter_names, specimens, unknown

from ._tables import columns

# Columns of every table.
_ALWAYS = ("key", "study", "engine", "kernel", "seed")


def check_claims(study: Study) -> None:
    """Raises `StudyError`, with file and line, at the first one. A claim that is misspelled would
    otherwise be "not measured" for ever.
    """
    try:
        checked = _Known(study)
        for index, claim in enumerate(study.claims):
            checked.claim(("claims", index), claim)
        checked.table = "runs"
        if study.published is not None:
            of_subflows = columns("subflows") if SUBFLOW in study.published.keys else []
            for column, metric in study.published.compare.items():
                if metric in of_subflows:
                    continue
                checked.metric(("published", "compare", column), metric)
            checked.selection(("published", "where"), study.published.where)
        ids = [claim.id for claim in study.claims]
        texts: dict[Where, str] = {("conclusion",): study.conclusion or ""}
        texts |= {("highlights", words): words + text for words, text in study.highlights.items()}
        for where, text in texts.items():
            for placeholder in conclusion_blanks(text):
                checked.place(where, placeholder, ids)
    except SetupError as error:
        raise located(study, error) from None


class _Known:
    """What the results of a study can have."""

    def __init__(self, study: Study) -> None:
        self._columns = {"runs": [*columns("runs"), *FAIRNESS], "subflows": columns("subflows")}
        # The table that is asked for: a claim names it, and published numbers stand beside runs.
        self.table = "runs"
        self._series = columns("series")
        self._values: dict[str, dict[str, None]] = {name: {} for name in ("experiment", "flow", *parameter_names(study))}
        for cell in specimens(study):
            flows = [copy for name, flow in cell.setup.flows.items() for copy in copies(name, flow)]
            self._values["experiment"][cell.experiment] = None
            self._values["flow"] |= dict.fromkeys(flows)
            for name, value in cell.parameters.items():
                self._values[name][str(value)] = None
        # Any value of what is drawn may be among those that are not looked at.
        self._drawn = study.draw.names if study.draw else ()

    def place(self, where: Where, placeholder: Blank, ids: Sequence[str]) -> None:
        """What a text asks of the results."""
        self.table = "runs"
        if placeholder.claim:
            if placeholder.claim not in ids:
                raise SetupError(where, unknown("claim", placeholder.claim, ids))
            return
        self.metric(where, placeholder.metric)
        for name, wanted in placeholder.where.items():
            self.column(where, name)
            self.value(where, name, wanted)

    def claim(self, where: Where, claim: Any) -> None:
        check, where_check = claim.check, (*where, "check")
        self.table = claim.table
        self.metric((*where, "metric"), claim.metric)
        self.selection((*where, "where"), claim.where)
        match check.kind:
            case "order":
                self.column((*where_check, "by"), check.by)
                for index, value in enumerate(check.of):
                    self.value((*where_check, "of", index), check.by, value)
            case "above" | "below":
                for side in ("left", "right"):
                    for way, selection in _selections(getattr(check, side)):
                        self.selection((*where_check, side, *way), selection)
            case "decides":
                self.column((*where_check, "by"), check.by)
            case "varies":
                if check.series not in self._series:
                    raise SetupError((*where_check, "series"), unknown("column of the series", check.series, self._series))
                for index, column in enumerate(check.by):
                    if column not in self._series:
                        self.column((*where_check, "by", index), column)

    def metric(self, where: Where, name: str) -> None:
        available = self._columns[self.table]
        if name not in available:
            hint = meant(name, available) or ";"
            raise SetupError(where, f'there is no column "{name}" of the {self.table}{hint} `polypath list columns` shows all of them')

    def selection(self, where: Where, selection: Mapping[str, Any]) -> None:
        for name, wanted in selection.items():
            self.column((*where, name), name)
            several = isinstance(wanted, Sequence) and not isinstance(wanted, str)
            for value in wanted if several else [wanted]:
                self.value((*where, name), name, value)

    def column(self, where: Where, name: str) -> None:
        if name not in self._values and name not in (*_ALWAYS, *self._columns[self.table]):
            raise SetupError(where, unknown("parameter or column", name, self._values))

    def value(self, where: Where, name: str, value: Any) -> None:
        there: Iterable[str] | None = self._values.get(name)
        if there is not None and name not in self._drawn and str(value) not in there:
            raise SetupError(where, f"no cell has this: {unknown(name, str(value), there)}")


def _selections(side: Any) -> Iterator[tuple[Where, Mapping[str, Any]]]:
    if isinstance(side, Mapping):
        yield (), side
    elif isinstance(side, tuple | list):
        for index, selection in enumerate(side):
            yield (index,), selection
