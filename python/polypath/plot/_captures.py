"""Figures of captures: how far each subflow got in the data, and how long its segments were."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import pandas as pd

from ._charts import COLUMN_PADDING
from ._export import Figure, figure, quick
from ._theme import INK, PALETTE, PAPER, QUIET

AGAIN = {"reinjected_mb": "diamond", "resent_mb": "triangle-up"}
"""Marks of data that were sent again."""
MOST_SIZES = 24
"""Sizes that have a bar of their own; more are put together in spans of equal width."""


@quick
def progress(
    name: str, title: str, caption: str, series: pd.DataFrame, lines: Sequence[str], events: pd.DataFrame, span: tuple[float, float]
) -> Figure:
    """A line a subflow: how far in the connection's data what it carried reached.

    `series`: line (the subflow), time_s, reached_mb, and of data that another subflow or the same
    one had carried before, reinjected_mb and resent_mb (missing where there were none). `events`:
    time_s, words; a rule each. `span` is the time that is shown.
    """
    colours = [PALETTE[index % len(PALETTE)] for index in range(len(lines))]
    legend = alt.Legend(columns=2, columnPadding=COLUMN_PADDING)
    colour = alt.Color("line:N", title=None, sort=list(lines), scale=alt.Scale(domain=list(lines), range=colours), legend=legend)
    top = max((float(series[kind].max()) for kind in ("reached_mb", *AGAIN) if series[kind].notna().any()), default=0.0)
    time = alt.X(
        "time_s:Q",
        title="time, s",
        scale=alt.Scale(domain=list(span), nice=False),
        axis=alt.Axis(tickCount=6),
    )
    y = alt.Scale(domain=[0, 1.04 * top or 1.0], nice=False)
    reached = series[series["reached_mb"].notna()]
    layers: list[alt.Chart] = []
    if not events.empty:
        rules = alt.Chart(events)
        layers.append(rules.mark_rule(color=QUIET, strokeDash=[4, 3]).encode(x=time))
        named = alt.Chart(_apart(events, 0.15 * (span[1] - span[0])))
        text = named.mark_text(align="left", baseline="top", dx=3, dy=2, fontSize=10, color=QUIET)
        layers.append(text.encode(x=time, y=alt.value(0), text=alt.Text("words:N")))
    axis = alt.Y("reached_mb:Q", title="data, MB", scale=y, axis=alt.Axis(tickCount=5))
    layers.append(alt.Chart(reached).mark_line(strokeWidth=1.8, clip=True, strokeJoin="round").encode(x=time, y=axis, color=colour))
    for kind, shape in AGAIN.items():
        again = series[series[kind].notna()]
        if not again.empty:
            marks = alt.Chart(again).mark_point(shape=shape, filled=True, size=30, opacity=1, stroke=INK, strokeWidth=0.5)
            layers.append(marks.encode(x=time, y=alt.Y(f"{kind}:Q", title="data, MB", scale=y), color=colour))
    return figure(name, title, caption, alt.layer(*layers, width=820, height=280))


@quick
def size_histogram(name: str, title: str, caption: str, sizes: pd.DataFrame, lines: Sequence[str]) -> Figure:
    """A row a subflow with a bar a size of segments.

    `sizes`: line (the subflow), bytes (payload of a segment), segments (how many).
    """
    order = sorted(sizes["bytes"].unique())
    if len(order) > MOST_SIZES:
        width = _round_up(int(max(order)) / MOST_SIZES)
        low = sizes["bytes"] // width * width
        sizes = sizes.assign(low=low, size=[f"{edge}-{edge + width - 1}" for edge in low])
    else:
        sizes = sizes.assign(low=sizes["bytes"], size=[str(size) for size in sizes["bytes"]])
    drawn = sizes.groupby(["line", "low", "size"], as_index=False, sort=True)["segments"].sum()
    drawn["share"] = drawn["segments"] / drawn.groupby("line")["segments"].transform("sum")
    drawn["text"] = [f"{share:.0%}" if share >= 0.01 else "<1%" for share in drawn["share"]]
    names = [str(size) for _, size in sorted(set(zip(drawn["low"], drawn["size"], strict=True)))]
    charts = []
    for index, line in enumerate(lines):
        line_rows = drawn[drawn["line"] == line]
        if line_rows.empty:
            continue
        x = alt.X("size:N", sort=names, scale=alt.Scale(domain=names), title=None, axis=alt.Axis(labelAngle=-45 if len(names) > 10 else 0))
        y = alt.Y("share:Q", title="segments", scale=alt.Scale(domain=[0, 1.12]), axis=alt.Axis(format=".0%", values=[0, 0.5, 1]))
        bars = alt.Chart(line_rows).mark_bar(color=PALETTE[index % len(PALETTE)], opacity=0.85, width={"band": 0.7}).encode(x=x, y=y)
        texts = (
            alt.Chart(line_rows)
            .mark_text(dy=-6, fontSize=10, color=INK, stroke=PAPER, strokeWidth=0)
            .encode(x=x, y=y, text=alt.Text("text:N"))
        )
        of = alt.TitleParams(line, fontSize=12, offset=6, frame="group")
        charts.append(alt.layer(bars, texts, width=min(800, max(160, 64 * len(names))), height=100, title=of))
    return figure(name, title, caption, alt.vconcat(*charts, spacing=14))


def _apart(events: pd.DataFrame, least: float) -> pd.DataFrame:
    """The events whose words have room: the first of each span, with how many more are in it."""
    kept: list[dict[str, float | str | int]] = []
    for time, words in sorted(zip(events["time_s"], events["words"], strict=True)):
        if kept and time - float(kept[-1]["time_s"]) < least:
            kept[-1]["more"] = int(kept[-1]["more"]) + 1
        else:
            kept.append({"time_s": time, "words": words, "more": 0})
    for entry in kept:
        entry["words"] = f"{entry['words']}, and {entry['more']} more" if entry["more"] else entry["words"]
    return pd.DataFrame(kept)


def _round_up(width: float) -> int:
    """The next of 1, 2, 5, 10, 20, 50, ..."""
    step = 1
    while True:
        for factor in (1, 2, 5):
            if factor * step >= width:
                return factor * step
        step *= 10
