"""Charts from tables: goodput beside what was possible and published, and subflows over time.
Columns are named in each docstring.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import altair as alt
import pandas as pd

from ._export import Figure, figure, quick
from ._letters import room_of
from ._theme import INK, MARK, PALETTE, QUIET

MOST_NAMES = 6
"""Spans of a picture that are named; the names of more would hide each other."""
MOST_POINTS = 400
"""Points a line: more than a printed column resolves; longer series are thinned by means over equal
spans.
"""
APART = 6.0
"""Pictures whose highest values differ by more than this factor have no linear axis in common: the
lowest could not be read.
"""
AXES = {
    "shared": "All panels have the same y-axis.",
    "log": "All panels have the same logarithmic y-axis.",
    "own": "Each panel has its own y-axis.",
}
WIDTH, VALUES = 740, 56
"""Of bars, and of the figures to their right, in px."""
LIKE = 0.5
"""Values of which the smallest is at least this part of the largest are told apart by dots on an
axis that does not begin at zero.
"""
NARROW, NARROW_VALUES, NARROW_ROW = 250, 52, 46
"""The same on a narrow screen, where the names stand above the bars; and a row's height."""
UPRIGHT = "M0,-0.5L0,0.5"
"""A vertical tick, in the chart and in its legend."""
COLUMN_PADDING = 30
"""Between the columns of a legend, pixels: a reader's font may be wider than the one by which they
were measured.
"""
BESIDE = {
    "published": ("published", MARK, "diamond"),
    "bound": ("what the links allow", INK, UPRIGHT),
    "single": ("plain TCP, best path alone", QUIET, "circle"),
}


@dataclass(frozen=True, kw_only=True)
class Marks:
    """What happened to the links of a run, for pictures over time.

    `spans`: label (the picture), start and end in seconds, link. `back`: label, time_s at which a
    flow was back at its rate.
    """

    spans: pd.DataFrame
    back: pd.DataFrame
    words: str
    """What the grey spans are, for the caption."""

    def without_recovery(self) -> Marks:
        return replace(self, back=self.back.iloc[:0])


@quick
def goodput_bars(name: str, title: str, caption: str, cells: pd.DataFrame, axis: str = "goodput, Mbit/s") -> Figure:
    """A bar a cell with its confidence interval.

    `cells`: label, goodput, and optionally ci, published, bound, single (all Mbit/s); missing
    values are not drawn.
    """
    wide, like = _bars(cells, axis, narrow=False)
    narrow, _ = _bars(cells, axis, narrow=True)
    if like:
        # The length of a bar that does not begin at zero says nothing.
        caption = f"{caption} Dots, since the axis does not begin at zero: its values are close to one another."
    return figure(name, title, caption, wide, narrow)


def _bars(cells: pd.DataFrame, axis: str, *, narrow: bool) -> tuple[Any, bool]:
    """The chart, and whether its axis begins elsewhere than at zero."""
    order, width, values = list(cells["label"]), NARROW if narrow else WIDTH, NARROW_VALUES if narrow else VALUES
    bars = cells.assign(text=[f"{value:.2f}" for value in cells["goodput"]])
    room = room_of(order, 12, 260)
    names = alt.Axis(labelFontSize=12, labelColor=INK, labelLimit=260, minExtent=room)
    y = alt.Y("label:N", sort=order, title=None, axis=None if narrow else names)
    low, top = _span(cells)
    span = alt.Scale(domain=[low, top], nice=False, zero=False)
    x = alt.X("goodput:Q", title=axis, scale=span, axis=alt.Axis(grid=True, tickCount=4 if narrow else 8))
    if low > 0:
        shown = alt.Chart(bars).mark_point(filled=True, size=110, color=PALETTE[0], opacity=1)
    else:
        shown = alt.Chart(bars).mark_bar(height={"band": 0.3 if narrow else 0.62}, color=PALETTE[0], opacity=0.82)
    layers: list[alt.Chart] = [shown.encode(x=x, y=y)]
    if "ci" in cells and bool((cells["ci"] > 0).any()):
        with_interval = bars[bars["ci"] > 0].assign(
            low=lambda table: (table["goodput"] - table["ci"]).clip(lower=low), high=lambda table: table["goodput"] + table["ci"]
        )
        layers.append(alt.Chart(with_interval).mark_rule(color=INK, strokeWidth=1.4).encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"), y=y))
    marks = _beside(cells)
    present = [key for key in BESIDE if key in set(marks["key"])]
    words = [BESIDE[key][0] for key in present]
    hue = alt.Color(
        "what:N",
        title=None,
        scale=alt.Scale(domain=words, range=[BESIDE[key][1] for key in present]),
        legend=alt.Legend(symbolSize=170, symbolStrokeWidth=2, labelLimit=400, columnPadding=26, columns=1 if narrow else 0),
    )
    shape = alt.Shape("what:N", title=None, scale=alt.Scale(domain=words, range=[BESIDE[key][2] for key in present]))
    for key in present:
        upright = BESIDE[key][2] == UPRIGHT
        symbol = alt.Chart(marks[marks["key"] == key]).mark_point(
            filled=not upright, size=(240 if narrow else 420) if upright else 80, opacity=1, strokeWidth=2
        )
        layers.append(symbol.encode(x=alt.X("value:Q"), y=y, color=hue, shape=shape))
    # Beside the plot, where no mark can lie over it.
    words = alt.Chart(bars).mark_text(align="right", dx=values - 4, fontSize=11, color=INK, clip=False)
    layers.append(words.encode(x=alt.value(width), y=y, text=alt.Text("text:N")))
    if narrow:
        layers.append(
            alt.Chart(bars)
            .mark_text(align="left", dy=-16, fontSize=12, color=INK, clip=False)
            .encode(x=alt.value(0), y=y, text=alt.Text("label:N"))
        )
    tall = NARROW_ROW * len(order) if narrow else max(60, 30 * len(order))
    return alt.layer(*layers, width=width, height=tall), low > 0


@quick
def over_time(
    name: str,
    title: str,
    caption: str,
    series: pd.DataFrame,
    value: str,
    axis: str,
    *,
    scale: Literal["auto", "shared", "log", "own"] = "auto",
    lines: Sequence[str] | None = None,
    colours: Sequence[str] | None = None,
    marks: Marks | None = None,
    span: tuple[float, float] | None = None,
) -> Figure:
    """Small pictures, one a cell, with a line a subflow.

    Pictures have one y-axis: a linear one while their highest values lie within a factor `APART`,
    else a logarithmic one where all values are above zero, else each its own. `scale` says
    otherwise; the caption says which it is.

    `series`: label (the cell), line (the subflow's name), time_s, and the column `value`. `lines`
    gives the lines' order in the legend, and `colours` one for each. `marks` lie behind the lines.
    `span` is the time that is shown; without it, from 0 to the last value.
    """
    thin = thinned(series, value)
    cells, lines = list(series["label"].unique()), list(lines or series["line"].unique())
    colours = list(colours or (PALETTE[index % len(PALETTE)] for index in range(len(lines))))
    many = len(cells) > 1
    columns = 2 if len(cells) in (2, 4) else 3
    since, until = span or (0.0, float(thin["time_s"].max()))
    tops = [float(thin.loc[thin["label"] == cell, value].max()) for cell in cells]
    kind = _scale(tops, float(thin[value].min())) if scale == "auto" else scale
    low = max(float(thin[value].min()), 0.0)
    if many:
        caption = f"{AXES[kind]} {caption}"

    def picture(index: int, width: float, height: float, legend: int) -> Any:
        cell = cells[index]
        hue = alt.Color(
            "line:N",
            title=None,
            sort=lines,
            scale=alt.Scale(domain=lines, range=colours),
            legend=alt.Legend(columns=legend, columnPadding=COLUMN_PADDING),
        )
        cell_rows = thin[thin["label"] == cell]
        top = tops[index] if kind == "own" else max(tops)
        if kind == "log":
            span = alt.Scale(type="log", domain=[0.9 * low, 1.2 * top], nice=False)
        else:
            span = alt.Scale(domain=[0, 1.04 * top if top > 0 else 1], nice=False)
        last_row = index + columns >= len(cells)
        ticks = alt.Axis(values=_decades(0.9 * low, 1.2 * top), format="~s") if kind == "log" else alt.Axis(tickCount=4)
        if kind != "log" and top >= 10_000:
            ticks = alt.Axis(tickCount=4, format="~s")
        time = alt.X(
            "time_s:Q",
            title="time, s" if last_row else None,
            scale=alt.Scale(domain=[since, until], nice=False),
            axis=alt.Axis(tickCount=5),
        )
        # `properties` would copy the chart, and look at each against the schema.
        look: dict[str, Any] = {"width": width, "height": height}
        if many:
            look["title"] = alt.TitleParams(cell, fontSize=12, offset=6, frame="group")
        layers = _behind(marks, cell, time, until) if marks is not None else []
        drawn = (
            alt.Chart(cell_rows, **({} if layers else look))
            .mark_line(strokeWidth=1.5, clip=True, strokeJoin="round")
            .encode(
                x=time,
                y=alt.Y(f"{value}:Q", title=axis if index % columns == 0 else None, scale=span, axis=ticks),
                color=hue,
            )
        )
        return alt.layer(*layers, drawn, **look) if layers else drawn

    if not many:
        return figure(name, title, caption, picture(0, 820, 240, 4), picture(0, NARROW + 20, 180, 1))
    width, height = (420, 160) if columns == 2 else (266, 118)
    chart = alt.concat(*(picture(index, width, height, 4) for index in range(len(cells))), columns=columns, spacing=18)
    return figure(name, title, caption, chart, legend=tuple(zip(lines, colours, strict=True)))


def _scale(tops: Sequence[float], lowest: float) -> Literal["shared", "log", "own"]:
    """The y-axis of pictures with these highest values and the lowest of all."""
    positive = [top for top in tops if top > 0]
    if len(positive) < 2 or max(positive) <= APART * min(positive):
        return "shared"
    return "log" if lowest > 0 else "own"


def _decades(low: float, high: float) -> list[float]:
    """Ticks of a logarithmic axis: the powers of ten, with twice and five times them where those
    are few.
    """
    powers = [10.0**power for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
    inside = [power for power in powers if low <= power <= high]
    factors = (1,) if len(inside) > 3 else (1, 3) if len(inside) > 2 else (1, 2, 5)
    return [round(factor * power, 9) for power in powers for factor in factors if low <= factor * power <= high]


def _behind(marks: Marks, cell: str, time: alt.X, until: float) -> list[alt.Chart]:
    """The spans of one picture, each with a thin edge so that a short one is seen too, and where
    flows were back.
    """
    spans = marks.spans[(marks.spans["label"] == cell) & (marks.spans["start"] < until)]
    if spans.empty:
        return []
    spans = spans.rename(columns={"start": "time_s"}).assign(end=spans["end"].clip(upper=until))
    chart = alt.Chart(spans)
    layers = [
        chart.mark_rect(color=QUIET, opacity=0.22).encode(x=time, x2=alt.X2("end:Q")),
        chart.mark_rule(color=QUIET, opacity=0.5).encode(x=time),
    ]
    if marks.spans["link"].nunique() > 1 and len(spans) <= MOST_NAMES:
        text = chart.mark_text(align="left", baseline="top", dx=3, dy=2, fontSize=9, color=QUIET)
        layers.append(text.encode(x=time, y=alt.value(0), text=alt.Text("link:N")))
    back = marks.back[(marks.back["label"] == cell) & (marks.back["time_s"] < until)]
    if not back.empty:
        point = alt.Chart(back).mark_point(shape="triangle-up", filled=True, size=42, color=INK, opacity=0.9, clip=False)
        layers.append(point.encode(x=time, y=alt.value("height")))
    return layers


def _beside(cells: pd.DataFrame) -> pd.DataFrame:
    rows = [
        {"label": row["label"], "key": key, "what": words, "value": float(row[key])}
        for key, (words, _, _) in BESIDE.items()
        if key in cells
        for _, row in cells.iterrows()
        if pd.notna(row[key]) and math.isfinite(row[key])
    ]
    return pd.DataFrame(rows, columns=["label", "key", "what", "value"])


def _span(cells: pd.DataFrame) -> tuple[float, float]:
    """Of the axis: from zero, or from near the smallest value where all are close to one another;
    always with all intervals above it.
    """
    half = cells["ci"].fillna(0.0) if "ci" in cells else 0.0
    beside = [cells[key].replace(math.inf, math.nan) for key in BESIDE if key in cells]
    highs = [(cells["goodput"] + half).max(), *(values.max() for values in beside)]
    lows = [(cells["goodput"] - half).min(), *(values.min() for values in beside)]
    top = max((float(value) for value in highs if pd.notna(value)), default=1.0)
    low = min((float(value) for value in lows if pd.notna(value)), default=0.0)
    if len(cells) > 1 and low >= LIKE * top > 0 and top > low:
        return low - 0.06 * (top - low), top + 0.06 * (top - low)
    return 0.0, 1.06 * top or 1.0


def thinned(series: pd.DataFrame, value: str) -> pd.DataFrame:
    """Means over equal spans for lines of too many points; finite values only."""
    series = series[["label", "line", "time_s", value]].dropna()
    parts: Sequence[pd.DataFrame] = [group for _, group in series.groupby(["label", "line"], sort=False)]
    means = []
    for group in parts:
        step = math.ceil(len(group) / MOST_POINTS)
        if step > 1:
            spans = pd.Series(range(len(group)), index=group.index) // step
            group = group.groupby(spans, sort=True).agg({"label": "first", "line": "first", "time_s": "mean", value: "mean"})
        means.append(group)
    return pd.concat(means) if means else series
