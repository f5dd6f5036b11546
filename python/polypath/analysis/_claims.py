"""Claims decided on the tables: each holds, does not hold or was not measured, with the numbers
that decide it.

A comparison counts only if it is larger than what repetition alone would give: `apart`, and the
confidence interval of the difference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pandas as pd

from ._published import beside, text, texts
from ._statistics import difference_half_width, half_width, summarise

MOST_NAMED = 6
"""Cells that a sentence names; more would not be read."""


class Verdict(StrEnum):
    HOLDS = "holds"
    FAILS = "does not hold"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True, kw_only=True)
class ClaimResult:
    """One claim with its verdict, a sentence of why, and the table of numbers behind it."""

    id: str
    sentence: str
    source: str | None
    verdict: Verdict
    why: str
    rule: str
    """The check in words."""
    numbers: pd.DataFrame = field(default_factory=pd.DataFrame)


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The tables a claim may read. `published` is the study's published section with its
    table read.
    """

    runs: pd.DataFrame
    series: pd.DataFrame
    subflows: pd.DataFrame = field(default_factory=pd.DataFrame)
    published: pd.DataFrame | None = None
    keys: Sequence[str] = ()
    published_where: Mapping[str, Any] = field(default_factory=dict)
    compare: Mapping[str, str] = field(default_factory=dict)
    parameters: Sequence[str] = ()
    """Columns that part the cells: experiment, flow and the parameters of the matrix."""

    def of(self, claim: Any) -> Evidence:
        """The evidence of a claim, with the table that it asks for in the place of the runs."""
        if claim.table == "runs":
            return self
        return replace(self, runs=self.subflows, parameters=[*self.parameters, "subflow"])


def select(table: pd.DataFrame, where: Mapping[str, Any]) -> pd.DataFrame:
    """Rows whose columns have these values, or one of several; values are compared as text, so 1,
    1.0 and "1" are one. A column that is missing selects nothing.
    """
    if not where:
        return table
    # The places alone are narrowed: each table between would be a copy of all its columns.
    places = np.arange(len(table))
    for column, wanted in where.items():
        if column not in table:
            return table.iloc[0:0]
        several = isinstance(wanted, Sequence) and not isinstance(wanted, str)
        meant = texts(table[column].iloc[places]).isin([text(value) for value in (wanted if several else (wanted,))])
        places = places[meant.to_numpy(dtype=bool)]
    return table.iloc[places]


def evaluate(claims: Sequence[Any], evidence: Evidence) -> list[ClaimResult]:
    """Every claim of a study in its order."""
    deciders = {
        "order": _order,
        "above": _above,
        "below": _below,
        "within": _within,
        "between": _between,
        "varies": _varies,
        "decides": _decides,
    }
    results = []
    for claim in claims:
        verdict, why, rule, numbers = deciders[claim.check.kind](claim, evidence.of(claim))
        results.append(
            ClaimResult(id=claim.id, sentence=claim.sentence, source=claim.source, verdict=verdict, why=why, rule=rule, numbers=numbers)
        )
    return results


Decision = tuple[Verdict, str, str, pd.DataFrame]


def _order(claim: Any, evidence: Evidence) -> Decision:
    check, runs = claim.check, select(evidence.runs, claim.where)
    rule = f"{claim.metric}: " + " > ".join(str(value) for value in check.of) + _apart(check.apart)
    groups = {str(value): _values(select(runs, {check.by: value}), claim.metric) for value in check.of}
    numbers = _means(groups, check.by, claim.metric)
    missing = [name for name, values in groups.items() if not values]
    if missing:
        return Verdict.NOT_MEASURED, f"no runs of {', '.join(missing)}", rule, numbers
    broken = []
    for higher, lower in pairwise(groups):
        clear, words = _compare(higher, groups[higher], lower, groups[lower], 1.0, float(check.apart))
        if not clear:
            broken.append(words)
    if broken:
        return Verdict.FAILS, "; ".join(broken), rule, numbers
    return Verdict.HOLDS, " > ".join(f"{name} {_mean(values):.3f}" for name, values in groups.items()), rule, numbers


def _above(claim: Any, evidence: Evidence) -> Decision:
    return _beyond(claim, evidence, 1.0)


def _below(claim: Any, evidence: Evidence) -> Decision:
    return _beyond(claim, evidence, -1.0)


def _beyond(claim: Any, evidence: Evidence, sign: float) -> Decision:
    check, runs = claim.check, select(evidence.runs, claim.where)
    rights = check.right if isinstance(check.right, tuple | list) else (check.right,)
    left, left_name = _values(select(runs, check.left), claim.metric), _label(check.left)
    word = "above" if sign > 0 else "below"
    against = " and ".join(_label(right) for right in rights)
    scale = "" if check.factor == 1.0 else f"{check.factor:g} × "
    rule = f"{claim.metric} of {left_name} {word} {scale}{against}{_apart(check.apart)}"
    groups = {left_name: left}
    groups.update({_label(right): [float(right)] if _is_number(right) else _values(select(runs, right), claim.metric) for right in rights})
    numbers = _means(groups, "cells", claim.metric)
    missing = [name for name, values in groups.items() if not values]
    if missing:
        return Verdict.NOT_MEASURED, f"no runs of {', '.join(missing)}", rule, numbers
    outcomes = [
        _compare(left_name, left, _label(right), groups[_label(right)], check.factor, float(check.apart), sign=sign) for right in rights
    ]
    failing = [words for clear, words in outcomes if not clear]
    if failing:
        return Verdict.FAILS, "; ".join(failing), rule, numbers
    return Verdict.HOLDS, "; ".join(words for _, words in outcomes), rule, numbers


def _within(claim: Any, evidence: Evidence) -> Decision:
    check = claim.check
    metric = evidence.compare.get(check.published, claim.metric)
    rule = f"every {metric} within {100 * float(check.of):g} % of the published {check.published}"
    rule += f", or within {check.spread}" if check.spread else ""
    for column in [check.published, *([check.spread] if check.spread else [])]:
        if evidence.published is None or column not in evidence.published:
            return Verdict.NOT_MEASURED, f"the study has no published column {column}", rule, pd.DataFrame()
    runs = select(select(evidence.runs, evidence.published_where), claim.where)
    numbers = beside(runs, _selected(evidence, claim.where), evidence.keys, {check.published: metric}, check.spread)
    if numbers.empty or bool(numbers["measured"].isna().all()):
        return Verdict.NOT_MEASURED, "no cell of the published table was run", rule, numbers
    absent = numbers[numbers["measured"].isna()]
    measured = numbers[numbers["measured"].notna()]
    far = measured[(measured["measured"] - measured["published"]).abs() > _allowed(measured, float(check.of))]
    if len(measured) > MOST_NAMED and not len(far) and not len(absent):
        furthest = measured.iloc[int(measured["deviation"].abs().argmax())]
        return Verdict.HOLDS, f"{len(measured)} cells, the furthest {_beside(furthest, evidence.keys)}", rule, numbers
    named = [_beside(row, evidence.keys) for _, row in (far if len(far) else measured).iterrows()]
    if len(far):
        return Verdict.FAILS, f"{len(far)} of {_cells(len(measured))} further away: {_some(named)}", rule, numbers
    if len(absent):
        return Verdict.NOT_MEASURED, _not_run(absent, len(numbers), evidence.keys), rule, numbers
    return Verdict.HOLDS, "; ".join(named), rule, numbers


def _beside(row: pd.Series, keys: Sequence[str]) -> str:
    return f"{_cell(row, keys)} {row['measured']:.2f} against {row['published']:.2f} ({_signed(row['deviation'], 1)})"


def _not_run(absent: pd.DataFrame, of: int, keys: Sequence[str]) -> str:
    return f"not run, {len(absent)} of {of}: {_some([_cell(row, keys) for _, row in absent.iterrows()])}"


def _selected(evidence: Evidence, where: Mapping[str, Any]) -> pd.DataFrame:
    """The published rows that a claim is about: where it names a column that is a key, only those."""
    assert evidence.published is not None, "the caller has looked"
    return select(evidence.published, {column: wanted for column, wanted in where.items() if column in evidence.keys})


def _allowed(cells: pd.DataFrame, share: float) -> pd.Series[float]:
    """How far each cell may lie from its published value: a share of it, or the published spread
    where that is more.
    """
    # What decimal fractions may lose.
    allowed = share * cells["published"].abs() + 1e-9
    return allowed if "spread" not in cells else allowed.combine(cells["spread"].fillna(0.0) + 1e-9, max)


def _between(claim: Any, evidence: Evidence) -> Decision:
    check = claim.check
    low = -math.inf if check.low is None else check.low
    high = math.inf if check.high is None else check.high
    rule = f"every {claim.metric} " + (
        f"at least {low:g}" if check.high is None else f"at most {high:g}" if check.low is None else f"from {low:g} to {high:g}"
    )
    runs = select(evidence.runs, claim.where)
    cells = summarise(runs, list(evidence.parameters) or ["key"], [claim.metric]) if len(runs) else runs
    if not len(cells) or bool(cells[claim.metric].isna().all()):
        return Verdict.NOT_MEASURED, "no such cells were run", rule, cells
    outside = cells[~cells[claim.metric].between(low, high)]
    if len(outside):
        # A single cell is told from the others of the table.
        names = _telling(cells if len(cells) > 1 else evidence.runs, evidence.parameters)
        named = [f"{_in_words(row, names)} {row[claim.metric]:.3f}" for _, row in outside.iterrows()]
        return Verdict.FAILS, f"{len(outside)} of {_cells(len(cells))} outside: {_some(named)}", rule, cells
    return Verdict.HOLDS, f"{_cells(len(cells))}, {cells[claim.metric].min():.3f} to {cells[claim.metric].max():.3f}", rule, cells


def _cells(count: int) -> str:
    return "1 cell" if count == 1 else f"{count} cells"


def _some(named: Sequence[str]) -> str:
    """As many as a person reads, and how many there are besides."""
    rest = len(named) - MOST_NAMED
    return "; ".join(named[:MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def _varies(claim: Any, evidence: Evidence) -> Decision:
    check = claim.check
    bound = float(check.more_than)
    rule = f"coefficient of variation of {check.series} above {100 * bound:g} % for each {', '.join(check.by)}"
    series = select(evidence.series, claim.where)
    if not len(series) or check.series not in series or any(column not in series for column in check.by):
        return Verdict.NOT_MEASURED, f"no series of {check.series} was kept", rule, pd.DataFrame()
    rows = []
    for values, group in series.groupby(list(check.by), sort=False):
        column = group[check.series].astype(float)
        rows.append(
            {
                **dict(zip(check.by, values if isinstance(values, tuple) else (values,), strict=True)),
                "mean": column.mean(),
                "minimum": column.min(),
                "maximum": column.max(),
                "variation": column.std() / column.mean() if column.mean() else 0.0,
            }
        )
    numbers = pd.DataFrame(rows)
    still = numbers[~(numbers["variation"] > bound)]
    if len(still):
        named = "; ".join(f"{_cell(row, check.by)} {100 * row['variation']:.1f} %" for _, row in still.iterrows())
        return Verdict.FAILS, f"nearly constant: {named}", rule, numbers
    least, most = numbers["variation"].min(), numbers["variation"].max()
    return Verdict.HOLDS, f"coefficient of variation {100 * least:.0f} % to {100 * most:.0f} % over {len(numbers)} groups", rule, numbers


def _decides(claim: Any, evidence: Evidence) -> Decision:
    check = claim.check
    share = float(check.pairs)
    rule = f"{claim.metric}: in every cell the largest mean above {check.factor:g} × the smallest, by {check.by}"
    rule += f", and {100 * share:g} % of all pairs apart"
    runs = select(evidence.runs, claim.where)
    others = [name for name in evidence.parameters if name != check.by and name in runs]
    if not len(runs) or check.by not in runs or claim.metric not in runs:
        return Verdict.NOT_MEASURED, "no such cells were run", rule, pd.DataFrame()
    rows: list[dict[str, Any]] = []
    failing: list[str] = []
    holding: list[str] = []
    for values, cell in runs.groupby(others, sort=False, dropna=False) if others else [((), runs)]:
        groups = {str(value): _values(group, claim.metric) for value, group in cell.groupby(check.by, sort=False)}
        groups = {value: metrics for value, metrics in groups.items() if metrics}
        name = _in_words(cell.iloc[0], _telling(runs, others)) if others else "all"
        if len(groups) < 2 or min(map(len, groups.values())) < 2:
            return (
                Verdict.NOT_MEASURED,
                f"{name}: it takes two values of {check.by} or more, each run twice or more",
                rule,
                pd.DataFrame(rows),
            )
        least, most = (pick(groups, key=lambda value: _mean(groups[value])) for pick in (min, max))
        pairs = [_compare(one, groups[one], two, groups[two], 1.0, 0.0, sign=sign)[0] for one, two, sign in _both_ways(groups)]
        apart = sum(pairs) / math.comb(len(groups), 2)
        wide, words = _compare(most, groups[most], least, groups[least], check.factor, 0.0)
        words = f"{name}: {words}, {100 * apart:.0f} % of the pairs apart"
        (holding if wide and apart >= share else failing).append(words)
        cells = dict(zip(others, values if isinstance(values, tuple) else (values,), strict=True))
        rows.append({**cells, "least": _mean(groups[least]), "most": _mean(groups[most]), "pairs_apart": apart, "n": len(cell)})
    return Verdict.FAILS if failing else Verdict.HOLDS, "; ".join(failing or holding), rule, pd.DataFrame(rows)


def _both_ways(groups: Mapping[str, list[float]]) -> list[tuple[str, str, float]]:
    """All pairs, each once as larger and once as smaller: at most one of the two is clear."""
    return [(one, two, sign) for one, two in combinations(groups, 2) for sign in (1.0, -1.0)]


def _compare(
    left_name: str, left: list[float], right_name: str, right: list[float], factor: float, apart: float, *, sign: float = 1.0
) -> tuple[bool, str]:
    """Whether left is clearly above (sign 1) or below (sign -1) factor * right, and the sentence
    that says so.
    """
    a, b = _mean(left), factor * _mean(right)
    gap = sign * (a - b)
    noise = difference_half_width(left, [factor * value for value in right])
    clear = gap > apart * abs(b) and gap > noise
    wanted, other = (">", "<") if sign > 0 else ("<", ">")
    relation = wanted if clear else other if -gap > max(apart * abs(b), noise) else "≈"
    if factor == 1.0:
        scaled = right_name
    elif _is_text_number(right_name):
        # A value of a parameter, whose mean would be taken for the product; or a number, which is
        # its own mean.
        scaled = f"{right_name} {factor:g} × {_mean(right):.3f} ="
    else:
        scaled = f"{factor:g} × {right_name} ="
    return clear, f"{left_name} {a:.3f} {relation} {scaled} {b:.3f} ({_signed((a - b) / b if b else math.nan)})"


def _means(groups: Mapping[str, list[float]], name: str, metric: str) -> pd.DataFrame:
    rows = [
        {name: label, "n": len(values), metric: _mean(values) if values else math.nan, "ci": half_width(values)}
        for label, values in groups.items()
    ]
    return pd.DataFrame(rows, columns=[name, "n", metric, "ci"])


def _values(table: pd.DataFrame, metric: str) -> list[float]:
    return [float(value) for value in table[metric].dropna()] if metric in table else []


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _label(where: Any) -> str:
    if _is_number(where):
        return f"{float(where):g}"
    return ", ".join("/".join(str(v) for v in value) if isinstance(value, tuple | list) else str(value) for value in where.values())


def _cell(row: pd.Series, keys: Sequence[str]) -> str:
    return " ".join(str(row[key]) for key in keys if key in row and str(row[key]))


def _telling(cells: pd.DataFrame, parameters: Sequence[str]) -> list[str]:
    """The parameters that tell these cells apart; of a single cell, all that have a value."""
    there = [name for name in parameters if name in cells and bool(cells[name].notna().any())]
    telling = [name for name in there if cells[name].nunique(dropna=False) > 1]
    if "experiment" in telling:
        # What an experiment decides, its name says already.
        within = cells.groupby("experiment")
        telling = [name for name in telling if name == "experiment" or int(within[name].nunique(dropna=False).max()) > 1]
    return telling or there


def _in_words(row: pd.Series, names: Sequence[str]) -> str:
    # A value that begins with a letter speaks for itself; "0%" or 4 needs its name.
    parameters = [(name, str(row[name])) for name in names if not pd.isna(row[name])]
    return " ".join(value if value[:1].isalpha() else f"{name} {value}" for name, value in parameters)


def _signed(share: float, digits: int = 2) -> str:
    return f"{100 * share:+.{digits}f} %".replace("-", "−")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def _is_text_number(text: str) -> bool:
    return text.replace(".", "", 1).lstrip("-").isdigit()


def _apart(share: Any) -> str:
    return f", by more than {100 * float(share):g} %" if float(share) else ""
