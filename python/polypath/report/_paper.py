"""One figure for a paper: which runs, which value, in which form."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from polypath.analysis import HEADS, PLATFORM, Metric, applications_in, meant
from polypath.plot import KINDS, PAPER_KINDS, Figure, PaperKind, drawn_as, paper, paper_over_time
from polypath.results import Results
from polypath.study import StudyError, unknown

from ._figures import speeds, subflow_lines
from ._headlines import COMPARED
from ._material import Material, label, varied, with_limits
from ._open import material

OVER_TIME = {"cwnd": ("cwnd", "window, packets"), "srtt": ("srtt_ms", "round trip, ms"), "goodput": ("goodput", "Mbit/s")}
"""What is drawn over time, by name: its column and what stands at its axis."""
SMALLEST_MM, WIDEST_MM = 20.0, 500.0
_MM = {"mm": 1.0, "cm": 10.0, "in": 25.4, "pt": 25.4 / 72}
_LENGTH = re.compile(r"(\d+(?:\.\d+)?) ?(mm|cm|in|pt)")
_NUMBER = re.compile(r"(-?\d+(?:\.\d+)?) ?([A-Za-z%/]*)")


def paper_figure(
    results: Results,
    what: str,
    *,
    kind: str | None = None,
    only: Mapping[str, Sequence[str]] | None = None,
    width: str = "85mm",
    font_size: float = 8.0,
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """`what` of each cell: a metric of the flow's application by its head or column, or what
    `OVER_TIME` has. Raises `StudyError` where that cannot be drawn.
    """
    width_mm = millimetres(width)
    if kind is not None and kind not in PAPER_KINDS:
        raise StudyError(unknown("kind of figure", kind, PAPER_KINDS))
    if not 4 <= font_size <= 30:
        raise StudyError(f"letters of {font_size:g} points cannot be read, or fill the figure; write 4 to 30")
    tables = material(results)
    rows = _chosen(with_limits(tables), only or {}, tables)
    experiments = list(dict.fromkeys(map(str, rows["experiment"])))
    if len(experiments) > 1:
        raise StudyError(f"a figure shows one experiment of {tables.study.name}; choose with --only experiment={experiments[0]}")
    values = list(dict.fromkeys(str(value) for name in ("platform", *tables.parameters) if name in rows for value in rows[name].dropna()))
    for value in labels or {}:
        if value not in values:
            raise StudyError(unknown("value of these cells that a label could be for", value, values))
    names = varied(tables, rows)
    title = tables.study.all_experiments[experiments[0]].title if len(tables.study.all_experiments) > 1 else ""
    across = next((name for name in names[::-1] if _numbers(rows[name]) is not None), "")
    if what in OVER_TIME and (kind or ("line" if what != "goodput" else "bar")) == "line" and not (across and what == "goodput"):
        return _over_time(what, rows, names, tables, width_mm, font_size, labels or {}, title or "")
    form: PaperKind = kind or "bar"
    every = rows
    metric, rows = _metric(what, rows, tables)
    if form == "line" and not across:
        raise StudyError(
            f"a line goes over a number, and nothing that {tables.study.name} varies is one ({', '.join(names)}); take box, bar or cdf"
        )
    if form != "line":
        compared = next((name for name in COMPARED if name in names), names[0] if names else "")
        rest = [name for name in names if name != compared]
        across = rest[0] if len(rest) == 1 and rows[rest[0]].nunique() > 1 else ""
    inner = [name for name in names if name != across]
    drawn = pd.DataFrame({"value": rows[metric.column].astype(float) * metric.scale})
    flows = rows["flow"].nunique()
    drawn["cell"] = [_named(dict(row), inner, flows, labels or {}) for _, row in rows.iterrows()]
    across_title = across
    if form == "line":
        numbers = _numbers(rows[across])
        assert numbers is not None, "it was chosen for its numbers"
        drawn["across"], unit = numbers
        across_title = f"{across}, {unit}" if unit else across
    elif across:
        drawn["across"] = [(labels or {}).get(str(value), str(value)) for value in rows[across]]
    axis = f"{metric.head}, {metric.unit}" if metric.unit else metric.head
    name = f"{re.sub(r'[^A-Za-z0-9_]+', '-', what)}-{form}"
    with drawn_as(KINDS):
        figure = paper(
            name,
            drawn,
            form,
            axis,
            width_mm=width_mm,
            font_pt=font_size,
            across="across" if across else "",
            across_title=across_title,
            of=title or "",
        )
    return replace(figure, caption=_left_out(every, rows, metric))


def _left_out(every: pd.DataFrame, drawn: pd.DataFrame, metric: Metric) -> str:
    """Which rows have no figure, in words: a mean over what finished is none over all."""
    left = every.drop(drawn.index)
    kinds = [name for name in dict.fromkeys(left["application"]) if name not in set(drawn["application"])]
    missing = int((~left["application"].isin(kinds)).sum())
    words = [f"{missing} of {missing + len(drawn)} runs have no {metric.head}, such as those that never finished"] if missing else []
    flows = dict.fromkeys(left.loc[left["application"].isin(kinds), "flow"])
    words += [f"the flows {', '.join(flows)} have another metric"] if kinds else []
    return f"beware, left out: {'; '.join(words)}" if words else ""


def millimetres(text: str) -> float:
    match = _LENGTH.fullmatch(text.strip())
    if match is None:
        raise StudyError(f'the width "{text}" is no length; write 85mm, or another number of mm, cm, in or pt')
    length = float(match[1]) * _MM[match[2]]
    if not SMALLEST_MM <= length <= WIDEST_MM:
        raise StudyError(f"no figure is {text} wide; write {SMALLEST_MM:g}mm to {WIDEST_MM:g}mm (a column of a paper has 85mm)")
    return length


def _chosen(runs: pd.DataFrame, only: Mapping[str, Sequence[str]], material: Material) -> pd.DataFrame:
    """The runs with these values, in the order in which they are named; else in the study's."""
    for name, values in only.items():
        names = [each for each in ("experiment", "flow", PLATFORM, *material.parameters) if each in runs]
        if name not in names:
            named = [f"{PLATFORM} ({', '.join(dict.fromkeys(runs[each]))})" if each == PLATFORM else each for each in names]
            raise StudyError(f'the runs of {material.study.name} have no parameter "{name}" to choose by; they have {", ".join(named)}')
        there = list(dict.fromkeys(map(str, runs[name].dropna())))
        for value in values:
            if value not in there:
                raise StudyError(unknown(f"{name} in the runs of {material.study.name}", value, there))
        texts = runs[name].astype(str)
        runs = pd.concat([runs[texts == value] for value in dict.fromkeys(values)])
    if runs.empty:
        raise StudyError(f"no run of {material.study.name} has all of these values at once; leave one --only out")
    return runs


def _metric(what: str, rows: pd.DataFrame, material: Material) -> tuple[Metric, pd.DataFrame]:
    """The metric that is meant, and the runs that have it."""
    word = what.lower().replace("_", " ")
    for application in applications_in(rows):
        ordered = sorted(application.metrics, key=lambda metric: metric.column != application.compared_by)
        for metric in ordered:
            if what == metric.column or word in (metric.head, metric.head.split()[0]):
                chosen = rows[(rows["application"] == application.name) & rows[metric.column].notna()]
                if len(chosen):
                    return metric, chosen
    if what in rows and pd.api.types.is_numeric_dtype(rows[what]) and rows[what].notna().any():
        return Metric(column=what, head=_words(what), unit="", meaning="", of_a_run=""), rows[rows[what].notna()]
    if what in HEADS or what in rows:
        raise StudyError(f"no run of {material.study.name} has a figure of {what}")
    heads = [metric.head for kind in applications_in(rows) for metric in kind.metrics]
    names = dict.fromkeys([*heads, *OVER_TIME])
    near = meant(what, [*names, *map(str, rows.columns)]) or ";"
    raise StudyError(f'there is no figure "{what}"{near} there are {", ".join(names)}, and every column of the runs')


def _words(column: str) -> str:
    for end, unit in (("_mbps", "Mbit/s"), ("_ms", "ms"), ("_s", "s"), ("_bytes", "bytes")):
        if column.endswith(end):
            return f"{column.removesuffix(end).replace('_', ' ')}, {unit}"
    return column.replace("_", " ")


def _numbers(values: pd.Series[Any]) -> tuple[list[float], str] | None:
    """The values as numbers of one unit, if they are."""
    matches = [_NUMBER.fullmatch(str(value)) for value in values]
    units = {match[2] if match else None for match in matches}
    if len(units) != 1 or None in units or values.nunique() < 2:
        return None
    return [float(match[1]) for match in matches if match], str(next(iter(units)))


def _named(row: Mapping[Any, Any], names: Sequence[str], flows: int, labels: Mapping[str, str]) -> str:
    """A cell as the author calls it."""
    return label({**row, **{name: labels.get(str(row[name]), row[name]) for name in names}}, names, flows)


def _over_time(
    what: str,
    rows: pd.DataFrame,
    names: Sequence[str],
    material: Material,
    width_mm: float,
    font_pt: float,
    labels: Mapping[str, str],
    title: str,
) -> Figure:
    lines = subflow_lines(rows, names, material)
    if lines is None:
        raise StudyError(f"{material.study.name} has no series of its subflows: give it `measure: {{series: 100ms}}` and run it again")
    series, titles, _ = lines
    if what == "goodput":
        series, _ = speeds(series)
    first = rows.drop_duplicates("key").set_index("key")
    called = {old: _named(dict(first.loc[key]), names, 1, labels) for key, old in titles.items()}
    series = series.assign(label=series["label"].map(called))
    column, axis = OVER_TIME[what]
    with drawn_as(KINDS):
        return paper_over_time(
            f"{what}-line", series, column, axis, width_mm=width_mm, font_pt=font_pt, cells=list(dict.fromkeys(called.values())), of=title
        )


def as_printed(figure: Figure, kind: str) -> bytes:
    """The figure as a file; an SVG says how wide it is on paper, where a pixel is no point."""
    if kind != "svg":
        return figure.file(kind)

    def in_mm(match: re.Match[str]) -> str:
        return f'{match[1]}="{float(match[2]) * _MM["pt"]:.2f}mm"'

    head, rest = figure.svg.split(">", 1)
    return (re.sub(r'\b(width|height)="([\d.]+)"', in_mm, head) + ">" + rest).encode()
