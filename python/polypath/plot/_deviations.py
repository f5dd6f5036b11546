"""How far each row of a comparison lies from the reference, beside how far it may."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import pandas as pd

from ._export import Figure, figure, quick
from ._letters import room_of
from ._theme import GRID, INK

SHOWN = 0.5
"""A deviation beyond 50 % is drawn at the edge: the rest would be pressed into the middle."""


@quick
def deviations(
    name: str,
    title: str,
    caption: str,
    rows: pd.DataFrame,
    platforms: Sequence[str],
    colours: Sequence[str],
    allowed: float,
    within: str,
) -> Figure:
    """A line a row with the band that is `allowed`, and a dot a platform in its colour: filled
    where the column `within` says so.

    `rows`: label, platform, deviation as a share, and `within`. Rows without a deviation are not
    drawn.
    """
    drawn = rows[rows["deviation"].notna()].assign(
        shown=lambda table: table["deviation"].clip(-SHOWN, SHOWN),
        low=-allowed,
        high=allowed,
    )
    order = list(dict.fromkeys(drawn["label"]))
    room = room_of(order, 11, 300)
    y = alt.Y("label:N", sort=order, title=None, axis=alt.Axis(labelFontSize=11, labelColor=INK, labelLimit=300, minExtent=room, grid=True))
    scale = alt.Scale(domain=[-SHOWN, SHOWN], nice=False)
    axis = alt.Axis(format="+.0%", grid=True, tickCount=10)
    bands = drawn.drop_duplicates("label")[["label", "low", "high"]]
    band = alt.Chart(bands).mark_bar(height=9, color=GRID, cornerRadius=3).encode(x=alt.X("low:Q", scale=scale), x2=alt.X2("high:Q"), y=y)
    zero = alt.Chart(pd.DataFrame({"x": [0.0]})).mark_rule(color=INK, strokeWidth=1).encode(x=alt.X("x:Q", scale=scale))
    colour = alt.Color(
        "platform:N", title=None, scale=alt.Scale(domain=list(platforms), range=list(colours)), legend=alt.Legend(symbolSize=80)
    )
    x = alt.X("shown:Q", title="deviation from the reference", scale=scale, axis=axis)
    full = alt.Chart(drawn[drawn[within].astype(bool)]).mark_point(filled=True, size=60, opacity=1).encode(x=x, y=y, color=colour)
    empty = alt.Chart(drawn[~drawn[within].astype(bool)]).mark_point(filled=False, size=60, strokeWidth=2.4, opacity=1)
    chart = alt.layer(band, zero, full, empty.encode(x=x, y=y, color=colour), width=640, height=max(40, 18 * len(order)))
    return figure(name, title, caption, chart)
