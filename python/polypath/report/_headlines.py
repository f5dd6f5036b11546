"""The report's own sentences about an experiment: best and worst cell, ties with the best, what is
best where, and what limited.

Made from means and intervals alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from polypath.analysis import CONFIDENCE, half_width

from ._format import mean_ci, number, percent, several
from ._material import GOODPUT, label

ALIKE = 0.005
"""Cells that differ by less are told in one figure."""
MOST_NAMED = 6
"""So many cells are named; of more their number is told."""
COMPARED = ("cc", "scheduler")
"""Parameters that studies compare; the others say under which conditions."""
MOST_CONDITIONS = 24


def headlines(title: str, rows: pd.DataFrame, table: pd.DataFrame, names: Sequence[str]) -> list[str]:
    """Of the cells (`table` of `_tables.cells`) of one experiment, a sentence for each thing that
    there is to tell.
    """
    table = table[table[GOODPUT].notna()]
    if table.empty:
        return [f"{title or 'Goodput'}: nothing was measured."]
    flows = list(dict.fromkeys(table["flow"]))
    first = _each(table, flows, names) if len(flows) > 1 else _spread(rows, table)
    sentences = [f"{title}: {first}" if title else first[:1].upper() + first[1:]]
    if len(flows) == 1 and len(table) > 1 and not _alike(table):
        sentences += [*_ties(table), *_where(rows, table, names)]
    return sentences


def limiting(table: pd.DataFrame) -> list[str]:
    """What held the cells, in one paragraph."""
    table = table[table[GOODPUT].notna()]
    return [] if table.empty else [" ".join(_limits(table))]


def _each(table: pd.DataFrame, flows: Sequence[str], names: Sequence[str]) -> str:
    """Flows are not compared with one another but each with itself: its best cell and its worst, or
    the one figure that it has.
    """
    sentences = []
    for flow in flows[:MOST_NAMED]:
        flow_rows = table[table["flow"] == flow]
        low, high = flow_rows.iloc[int(flow_rows[GOODPUT].argmin())], flow_rows.iloc[int(flow_rows[GOODPUT].argmax())]
        if len(flow_rows) == 1:
            sentences.append(f"{flow} {_value(high)}")
        elif _alike(flow_rows):
            sentences.append(f"{flow} {number(flow_rows[GOODPUT].mean())} in every cell")
        else:
            sentences.append(f"{flow} {_value(low)} ({label(dict(low), names, 1)}) to {_value(high)} ({label(dict(high), names, 1)})")
    more = f"; and {len(flows) - MOST_NAMED} more flows" if len(flows) > MOST_NAMED else ""
    least, most = percent(table["share_all"].min()), percent(table["share_all"].max())
    told_of = zip(table["flow"], table.get("of_paths", [""] * len(table)), strict=True)
    paths = [f"{flow} with {remark}" for flow, remark in dict.fromkeys(told_of) if remark]
    fewer = f" ({', '.join(paths[:MOST_NAMED])})" if paths else ""
    shares = f"{least}{f' to {most}' * (least != most)}"
    return f"goodput in Mbit/s: {'; '.join(sentences)}{more}. That is {shares} of what the links allow together{fewer}."


def _alike(table: pd.DataFrame) -> bool:
    high, low = table[GOODPUT].max(), table[GOODPUT].min()
    return bool(high <= 0 or (high - low) / high < ALIKE)


def _spread(rows: pd.DataFrame, table: pd.DataFrame) -> str:
    """From the best to the worst, and how close that is to what was possible."""
    low, high = table.iloc[int(table[GOODPUT].argmin())], table.iloc[int(table[GOODPUT].argmax())]
    fewer = list(dict.fromkeys(remark for remark in table.get("of_paths", ()) if remark))
    many = " together" * (rows["flow"].nunique() > 1) + f" with {several(fewer)}" * bool(fewer)
    if len(table) == 1:
        return f"{_value(high)} Mbit/s, {percent(high['share'])} of what the links allow{many}."
    least, most = percent(table["share_all"].min()), percent(table["share_all"].max())
    shares = f"{least}{f' to {most}' * (least != most)} of what the links allow{many}"
    if _alike(table):
        within = percent((high[GOODPUT] - low[GOODPUT]) / high[GOODPUT], 2) if high[GOODPUT] else "0 %"
        every = "both" if len(table) == 2 else f"all {len(table)}"
        return f"{every} cells reach {number(table[GOODPUT].mean())} Mbit/s, within {within} of each other, {shares}."
    if _none_best(table):
        others, which = ("The other is", "neither") if len(table) == 2 else ("All others are", "none")
        return (
            f"the cells reach {_value(low)} Mbit/s ({low['label']}) to {_value(high)} ({high['label']}). "
            f"{others} not told apart from the highest, so {which} is clearly the best. That is {shares}."
        )
    times = high[GOODPUT] / low[GOODPUT] if low[GOODPUT] else math.inf
    apart = f"{number(times, 1 if times >= 2 else 2)} times as much" if math.isfinite(times) else "the worst got nothing"
    return (
        f"the best is {high['label']} with {_value(high)} Mbit/s, the worst {low['label']} with {_value(low)}: {apart}. That is {shares}."
    )


def _ties(table: pd.DataFrame) -> list[str]:
    """Cells that are not told apart from the best, where some are."""
    best = table.iloc[int(table[GOODPUT].argmax())]
    alike = _not_apart(table, best)
    if pd.isna(best[f"{GOODPUT}_ci"]) or _none_best(table):
        return []
    if not alike:
        return [f"All others are told apart from {best['label']} (95 %)."]
    which = several(alike) if len(alike) <= MOST_NAMED else f"{len(alike)} other cells"
    return [f"{which} {'is' if len(alike) == 1 else 'are'} not told apart from {best['label']} (95 %, or within 0.5 %)."]


def _none_best(table: pd.DataFrame) -> bool:
    """Whether no cell is told apart from the best."""
    best = table.iloc[int(table[GOODPUT].argmax())]
    return len(table) > 1 and bool(pd.notna(best[f"{GOODPUT}_ci"])) and len(_not_apart(table, best)) == len(table) - 1


def _not_apart(table: pd.DataFrame, best: pd.Series) -> list[str]:
    """The other cells whose interval of the paired difference from the best, over the seeds that
    both have, holds zero; all intervals hold together (Bonferroni). Where there are no pairs, those
    whose own interval overlaps with that of the best. What differs by less than `ALIKE` is alike.
    """
    others = table[table["label"] != best["label"]]
    confidence = 1 - (1 - CONFIDENCE) / max(len(others), 1)
    return [str(other["label"]) for _, other in others.iterrows() if not _is_apart(best, other, confidence)]


def _is_apart(best: pd.Series, other: pd.Series, confidence: float) -> bool:
    ours, theirs = (side.get("by_seed") or {} for side in (best, other))
    differences = [value - theirs[seed] for seed, value in ours.items() if seed in theirs]
    half = half_width(differences, confidence)
    if best[GOODPUT] - other[GOODPUT] < ALIKE * best[GOODPUT]:
        return False
    if not math.isnan(half):
        return bool(sum(differences) / len(differences) > half)
    own = [0.0 if pd.isna(side[f"{GOODPUT}_ci"]) else float(side[f"{GOODPUT}_ci"]) for side in (best, other)]
    return bool(other[GOODPUT] + own[1] < best[GOODPUT] - own[0])


def _where(rows: pd.DataFrame, table: pd.DataFrame, names: Sequence[str]) -> list[str]:
    """Of a matrix over several parameters: which value of the one that is compared is best under
    which conditions.
    """
    compared = next((name for name in COMPARED if name in names), None)
    conditions = [name for name in names if name != compared]
    if compared is None or not conditions or rows["flow"].nunique() > 1 or table[compared].nunique() < 2:
        return []
    winners: dict[str, list[str]] = {}
    parts = list(table.groupby(conditions, sort=False, dropna=False))
    if not 1 < len(parts) <= MOST_CONDITIONS:
        return []
    for _, part in parts:
        best = part.iloc[int(part[GOODPUT].argmax())]
        alike = part[part["label"].isin(_not_apart(part, best)) & (part[compared] != best[compared])]
        close = list(dict.fromkeys(str(name) for name in alike[compared])) if pd.notna(best[f"{GOODPUT}_ci"]) else []
        winner = "nothing is clearly best" if len(close) > 2 else " or ".join(sorted([str(best[compared]), *close]))
        winners.setdefault(winner, []).append(label(dict(best), conditions, 1))
    sentences = [f"{winner} at {several(places)}" for winner, places in winners.items()]
    return (
        [f"Best by {' and '.join(conditions)}: {'; '.join(sentences)}."]
        if len(winners) > 1
        else [f"At every {' and '.join(conditions)}: {next(iter(winners))}."]
    )


def _limits(table: pd.DataFrame) -> list[str]:
    """What held how many cells."""
    counts = table["limited_by"].astype(str).value_counts(sort=False)
    if len(counts) == 1:
        return [f"What limited {'it' if len(table) == 1 else 'all of them'}: {counts.index[0]}.", *_why(table)]
    sentences = []
    for cause, many in counts.sort_values(ascending=False, kind="stable").items():
        labels = [str(name) for name in table.loc[table["limited_by"] == cause, "label"]]
        sentences.append(f"{cause} ({several(labels) if many <= 3 else f'{many} of {len(table)}'})")
    return [f"What limited: {'; '.join(sentences)}.", *_why(table)]


_PLAIN = ("links", "links, shared", "application", "not connected")
"""Names that say all by themselves."""
MOST_EXPLAINED = 3


def _why(table: pd.DataFrame) -> list[str]:
    """For each cause a sentence, of the cell that it held most."""
    sentences = []
    for _, affected in table[~table["limited_by"].isin(_PLAIN)].groupby("limited_by", sort=False) if "why" in table else ():
        worst = affected.iloc[int(affected["share"].fillna(0.0).argmin())]
        why = str(worst["why"])
        # "lia gives wifi 2 packets" says whose it is.
        which = f"{worst['label']}: " if len(table) > 1 and not why.startswith(f"{worst['label']} ") else ""
        sentences.append(f"{which}{why}." if len(table) > 1 else f"{why[:1].upper()}{why[1:]}.")
    return sentences[:MOST_EXPLAINED]


def _value(row: pd.Series) -> str:
    return mean_ci(row[GOODPUT], row[f"{GOODPUT}_ci"])
