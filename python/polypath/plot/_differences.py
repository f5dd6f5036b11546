"""Differences from one value of a parameter, each with its interval, around zero."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from ._charts import NARROW, NARROW_ROW
from ._export import Figure, figure, quick
from ._letters import room_of
from ._theme import INK, PALETTE, QUIET

WIDTH, VALUES = 640, 76
COLOURS = {"better": PALETTE[2], "worse": PALETTE[4], "higher": PALETTE[0], "lower": PALETTE[1], "not told apart": QUIET}
ROOM = 0.06
"""Of the axis, beyond the widest interval."""


@quick
def differences(name: str, title: str, caption: str, rows: pd.DataFrame, axis: str) -> Figure:
    """A dot a row with its interval, and its figure beside it; the colour says how it stands.

    `rows`: label, difference, ci (not a number where unknown), standing, text. Rows without a
    difference are not drawn.
    """
    drawn = rows[rows["difference"].notna()]
    half = drawn["ci"].fillna(0.0)
    drawn = drawn.assign(low=drawn["difference"] - half, high=drawn["difference"] + half)
    return figure(name, title, caption, _chart(drawn, axis, narrow=False), _chart(drawn, axis, narrow=True))


def _chart(drawn: pd.DataFrame, axis: str, *, narrow: bool) -> Any:
    order, width = list(dict.fromkeys(drawn["label"])), NARROW if narrow else WIDTH
    low, high = min(0.0, float(drawn["low"].min())), max(0.0, float(drawn["high"].max()))
    room = ROOM * (high - low) or 1.0
    names = alt.Axis(labelFontSize=12, labelColor=INK, labelLimit=300, minExtent=room_of(order, 12, 300))
    y = alt.Y("label:N", sort=order, title=None, axis=None if narrow else names)
    span = alt.Scale(domain=[low - room, high + room], nice=False, zero=False)
    x = alt.X("difference:Q", title=axis, scale=span, axis=alt.Axis(grid=True, tickCount=4 if narrow else 8))
    present = [standing for standing in dict.fromkeys([*COLOURS, *drawn["standing"]]) if standing in set(drawn["standing"])]
    domain = alt.Scale(domain=present, range=[COLOURS.get(standing, QUIET) for standing in present])
    colour = alt.Color("standing:N", title=None, sort=present, scale=domain, legend=alt.Legend(symbolSize=90, columns=1 if narrow else 0))
    # On a narrow screen the names stand between the rows, where a line would cross them.
    mark = alt.Chart(drawn.assign(x=0.0))
    zero = mark.mark_tick(color=INK, thickness=1, size=18) if narrow else mark.mark_rule(color=INK, strokeWidth=1)
    zero = zero.encode(x=alt.X("x:Q", scale=span), **({"y": y} if narrow else {}))
    spread = alt.Chart(drawn).mark_rule(strokeWidth=2.4).encode(x=alt.X("low:Q", scale=span), x2=alt.X2("high:Q"), y=y, color=colour)
    dots = alt.Chart(drawn).mark_point(filled=True, size=85, opacity=1).encode(x=x, y=y, color=colour)
    values = alt.Chart(drawn).mark_text(align="right", dx=VALUES - 8, fontSize=11, color=INK, clip=False)
    layers = [zero, spread, dots, values.encode(x=alt.value(width), y=y, text=alt.Text("text:N"))]
    if narrow:
        words = alt.Chart(drawn).mark_text(align="left", dy=-16, fontSize=12, color=INK, clip=False)
        layers.append(words.encode(x=alt.value(0), y=y, text=alt.Text("label:N")))
    return alt.layer(*layers, width=width, height=NARROW_ROW * len(order) if narrow else max(60, 28 * len(order)))
