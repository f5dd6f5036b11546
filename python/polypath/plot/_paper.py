"""One figure for a column of a paper: as wide as it will be printed, with letters of the size that
they will have there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import altair as alt
import pandas as pd

from polypath.analysis import summarise

from ._charts import thinned
from ._export import Figure, figure, quick
from ._letters import width_of
from ._theme import INK, PALETTE

PaperKind = Literal["box", "cdf", "bar", "line"]
PAPER_KINDS: tuple[PaperKind, ...] = ("box", "cdf", "bar", "line")
POINTS_PER_MM = 72 / 25.4
"""A pixel of a drawing is a point of a PDF."""
FLAT = 0.62
"""Height over width of one picture."""
DASHES: tuple[list[int], ...] = ([], [6, 2], [2, 2], [6, 2, 2, 2], [8, 3], [1, 2], [4, 1], [3, 3])
"""Lines that are told apart in print without colour."""


@quick
def paper(
    name: str,
    rows: pd.DataFrame,
    kind: PaperKind,
    axis: str,
    *,
    width_mm: float,
    font_pt: float,
    across: str = "",
    across_title: str = "",
    of: str = "",
) -> Figure:
    """A value of many runs as boxes (quartiles, and whiskers of 1.5 of their distance), as empirical
    distributions (cdf), as means with their 95 % intervals (bar), or as means over a number (line).

    `rows`: a run each, with `value`, `cell` (what is compared) and `across` (a
    further column, with which cells are grouped; for lines a number).
    """
    rows = rows[rows["value"].notna()]
    cells = list(dict.fromkeys(rows["cell"]))
    groups = list(dict.fromkeys(rows[across])) if across else []
    draws: dict[PaperKind, Callable[..., Any]] = {
        "box": partial(_boxes, width_mm * POINTS_PER_MM),
        "cdf": _distributions,
        "bar": _bars,
        "line": _means,
    }
    chart = draws[kind](rows, axis, cells, across, across_title, groups)
    # Distributions name cell and group in one.
    names = [f"{cell}, {across_title} {group}" for cell in cells for group in groups] if kind == "cdf" and groups else cells
    return figure(name, name, "", _sized(chart, width_mm, font_pt, of, names))


@quick
def paper_over_time(
    name: str, series: pd.DataFrame, value: str, axis: str, *, width_mm: float, font_pt: float, cells: Sequence[str], of: str = ""
) -> Figure:
    """A picture a cell, one beneath another, with a line a subflow. `series` as `over_time` has it."""
    thin = thinned(series, value)
    lines = list(dict.fromkeys(thin["line"]))
    points = width_mm * POINTS_PER_MM
    top = float(thin[value].max()) or 1.0
    pictures = []
    for index, cell in enumerate(cells):
        last = index == len(cells) - 1
        x = alt.X("time_s:Q", title="time, s" if last else None, axis=alt.Axis(tickCount=6, labels=last))
        y = alt.Y(f"{value}:Q", title=axis, scale=alt.Scale(domain=[0, 1.04 * top], nice=False), axis=alt.Axis(tickCount=3, grid=True))
        legend = None if index or len(lines) == 1 else alt.Legend()
        line = alt.Chart(thin[thin["label"] == cell]).mark_line(strokeWidth=1, clip=True)
        picture = line.encode(x=x, y=y, color=_colour("line", lines, legend), strokeDash=_dash("line", lines, legend))
        # The axis and its title stand beside the picture.
        picture = picture.properties(width=points - 5.5 * font_pt, height=max(4 * font_pt, points * FLAT / max(2, len(cells))))
        pictures.append(picture if len(cells) == 1 else picture.properties(title=alt.TitleParams(cell, fontSize=font_pt, offset=2)))
    chart = alt.vconcat(*pictures, spacing=4) if len(pictures) > 1 else pictures[0]
    return figure(name, name, "", _look(chart, width_mm, font_pt, of, lines))


def _boxes(
    points: float, rows: pd.DataFrame, axis: str, cells: Sequence[str], across: str, across_title: str, groups: Sequence[Any]
) -> Any:
    wide = min(_WIDEST_BOX, 0.5 * points / (len(cells) * max(1, len(groups))))
    mark = alt.Chart(rows).mark_boxplot(
        extent=1.5,
        size=wide,
        box={"opacity": 0.75},
        median={"color": INK, "strokeWidth": 1.4},
        outliers={"size": 10, "filled": True, "color": INK},
        rule={"strokeWidth": 0.8},
        ticks={"size": wide / 2, "thickness": 0.8},
    )
    return mark.encode(y=alt.Y("value:Q", title=axis, scale=alt.Scale(zero=False)), **_places(cells, across, across_title, groups))


def _bars(rows: pd.DataFrame, axis: str, cells: Sequence[str], across: str, across_title: str, groups: Sequence[Any]) -> Any:
    means = _summary(rows, across)
    places = _places(cells, across, across_title, groups)
    bars = alt.Chart(means).mark_bar(opacity=0.85).encode(y=alt.Y("value:Q", title=axis), **places)
    beside = {name: channel for name, channel in places.items() if name != "color"}
    spread = alt.Chart(means[means["value_ci"] > 0]).mark_rule(color=INK, strokeWidth=1)
    return alt.layer(bars, spread.encode(y=alt.Y("low:Q"), y2=alt.Y2("high:Q"), **beside))


def _distributions(rows: pd.DataFrame, axis: str, cells: Sequence[str], across: str, across_title: str, groups: Sequence[Any]) -> Any:
    parts = []
    names = []
    for group in groups or [None]:
        for cell in cells:
            of = rows[(rows["cell"] == cell) & (rows[across] == group if across else True)]
            values = sorted(of["value"])
            name = cell if group is None else f"{cell}, {across_title} {group}"
            names.append(name)
            parts.append(
                pd.DataFrame({"line": name, "value": [values[0], *values], "share": [i / len(values) for i in range(len(values) + 1)]})
            )
    x = alt.X("value:Q", title=axis, scale=alt.Scale(zero=False))
    y = alt.Y("share:Q", title="share of the runs", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(tickCount=4, grid=True))
    mark = alt.Chart(pd.concat(parts)).mark_line(interpolate="step-after", strokeWidth=1.2)
    legend = alt.Legend() if len(names) > 1 else None
    return mark.encode(x=x, y=y, color=_colour("line", names, legend), strokeDash=_dash("line", names, legend))


def _means(rows: pd.DataFrame, axis: str, cells: Sequence[str], across: str, across_title: str, groups: Sequence[Any]) -> Any:
    means = _summary(rows, across)
    legend = alt.Legend() if len(cells) > 1 else None
    x = alt.X(f"{across}:Q", title=across_title, scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=6))
    colour = _colour("cell", cells, legend)
    base = alt.Chart(means)
    spread = alt.Chart(means[means["value_ci"] > 0]).mark_rule(strokeWidth=1)
    return alt.layer(
        base.mark_line(strokeWidth=1.2).encode(
            x=x, y=alt.Y("value:Q", title=axis, axis=alt.Axis(grid=True)), color=colour, strokeDash=_dash("cell", cells, legend)
        ),
        spread.encode(x=x, y=alt.Y("low:Q"), y2=alt.Y2("high:Q"), color=colour),
        base.mark_point(filled=True, size=14, opacity=1).encode(x=x, y=alt.Y("value:Q"), color=colour),
    )


def _summary(rows: pd.DataFrame, across: str) -> pd.DataFrame:
    means = summarise(rows, ["cell", *[across] * bool(across)], ["value"])
    half = means["value_ci"].fillna(0.0)
    return means.assign(low=means["value"] - half, high=means["value"] + half)


def _places(cells: Sequence[str], across: str, across_title: str, groups: Sequence[Any]) -> dict[str, Any]:
    """Where boxes and bars stand: beside one another, or in groups."""
    if not across:
        names = alt.Axis(labelAngle=0 if sum(map(len, cells)) <= _UPRIGHT else -40)
        return {"x": alt.X("cell:N", sort=list(cells), title=None, axis=names), "color": _colour("cell", cells, None)}
    return {
        "x": alt.X(f"{across}:N", sort=list(groups), title=across_title, axis=alt.Axis(labelAngle=0)),
        "xOffset": alt.XOffset("cell:N", sort=list(cells)),
        "color": _colour("cell", cells, alt.Legend()),
    }


_WIDEST_BOX = 30.0
_UPRIGHT = 36
"""Letters of all names that stand beside one another in a column."""


def _colour(name: str, values: Sequence[str], legend: alt.Legend | None) -> alt.Color:
    colours = [PALETTE[index % len(PALETTE)] for index in range(len(values))]
    return alt.Color(f"{name}:N", title=None, sort=list(values), scale=alt.Scale(domain=list(values), range=colours), legend=legend)


def _dash(name: str, values: Sequence[str], legend: alt.Legend | None) -> alt.StrokeDash:
    dashes = [DASHES[index % len(DASHES)] for index in range(len(values))]
    return alt.StrokeDash(f"{name}:N", title=None, sort=list(values), scale=alt.Scale(domain=list(values), range=dashes), legend=legend)


def _sized(chart: Any, width_mm: float, font_pt: float, of: str, names: Sequence[str]) -> Any:
    points = width_mm * POINTS_PER_MM
    sized = chart.properties(width=points, height=math.ceil(points * FLAT), autosize=alt.AutoSizeParams(type="fit", contains="padding"))
    return _look(sized, width_mm, font_pt, of, names)


def _look(chart: Any, width_mm: float, font_pt: float, of: str, names: Sequence[str]) -> Any:
    """Every letter of one size; `of` stands above the picture, and as many `names` of the legend
    beside one another as there is room for.
    """
    axis = {"labelFontSize": font_pt, "titleFontSize": font_pt, "titlePadding": 3, "labelPadding": 2, "labelColor": INK, "tickSize": 3}
    legend = {
        "labelFontSize": font_pt,
        "symbolSize": 5 * font_pt,
        "symbolStrokeWidth": 1.4,
        "columnPadding": 6,
        "rowPadding": 1,
        "padding": 0,
    }
    legend["columns"] = max(1, int(width_mm * POINTS_PER_MM // (max((width_of(name, font_pt) for name in names), default=0) + 4 * font_pt)))
    look = {"padding": 1, "axis": axis, "legend": {**legend, "offset": 4}, "header": {"labelFontSize": font_pt}}
    if of:
        chart = chart.properties(title=alt.TitleParams(of, fontSize=font_pt, fontWeight="normal"))
    return chart.properties(usermeta={"look": look})
