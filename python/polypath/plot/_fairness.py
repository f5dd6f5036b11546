"""Figures of fairness: shares of the fair share, and who yields to whom."""

from __future__ import annotations

import altair as alt
import pandas as pd

from ._export import Figure, figure, quick
from ._letters import room_of
from ._theme import INK, PALETTE, PAPER, QUIET


@quick
def share_dots(name: str, title: str, caption: str, cells: pd.DataFrame) -> Figure:
    """A dot a cell and flow with its confidence interval, and a line at the fair share.

    `cells`: label, share (1 is the fair share), ci (not a number where unknown), group (decides the
    colour).
    """
    order, groups = list(cells["label"]), list(dict.fromkeys(cells["group"]))
    marks = cells.assign(
        low=(cells["share"] - cells["ci"].fillna(0.0)).clip(lower=0.0),
        high=cells["share"] + cells["ci"].fillna(0.0),
        text=[f"{share:.2f}" for share in cells["share"]],
    )
    top = 1.08 * max(float(marks["high"].max()), 1.0)
    room = room_of(order, 12, 320)
    y = alt.Y("label:N", sort=order, title=None, axis=alt.Axis(labelFontSize=12, labelColor=INK, labelLimit=320, minExtent=room, grid=True))
    x = alt.X("share:Q", title="goodput over the fair share", scale=alt.Scale(domain=[0, top], nice=False), axis=alt.Axis(tickCount=8))
    colours = [PALETTE[index % len(PALETTE)] for index in range(len(groups))]
    legend = alt.Legend() if len(groups) > 1 else None
    colour = alt.Color("group:N", title=None, sort=groups, scale=alt.Scale(domain=groups, range=colours), legend=legend)
    fair = alt.Chart(pd.DataFrame({"share": [1.0]})).mark_rule(color=QUIET, strokeDash=[5, 4], strokeWidth=1.4).encode(x=alt.X("share:Q"))
    spread = alt.Chart(marks).mark_rule(strokeWidth=2).encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"), y=y, color=colour)
    dots = alt.Chart(marks).mark_point(filled=True, size=85, opacity=1).encode(x=x, y=y, color=colour)
    texts = alt.Chart(marks).mark_text(align="left", dx=8, fontSize=11, color=INK).encode(x=alt.X("high:Q"), y=y, text=alt.Text("text:N"))
    chart = alt.layer(fair, spread, dots, texts, width=700, height=max(60, 24 * len(order)))
    return figure(name, title, caption, chart)


@quick
def harm_matrix(name: str, title: str, caption: str, cells: pd.DataFrame, rows: str, columns: str) -> Figure:
    """A square a pair of congestion controls.

    `cells`: own (of `rows`, which is harmed), other (of `columns`, which harms), harm (1 is
    everything, negative is a benefit).
    """
    own_names, other = list(dict.fromkeys(cells["own"])), list(dict.fromkeys(cells["other"]))
    drawn = cells.assign(text=[f"{100 * harm:.0f}" for harm in cells["harm"]], dark=cells["harm"].abs() > 0.55)
    colour = alt.Color(
        "harm:Q",
        title="harm",
        scale=alt.Scale(domain=[-1, 0, 1], range=[PALETTE[2], PAPER, PALETTE[4]], clamp=True, interpolate="rgb"),
        legend=alt.Legend(format="%", gradientLength=160, orient="right"),
    )
    x = alt.X("other:N", sort=other, title=f"congestion control of {columns}", axis=alt.Axis(orient="top", labelAngle=-40, labelColor=INK))
    y = alt.Y("own:N", sort=own_names, title=f"congestion control of {rows}", axis=alt.Axis(labelColor=INK))
    squares = alt.Chart(drawn).mark_rect(stroke=PAPER, strokeWidth=2).encode(x=x, y=y, color=colour)
    ink = alt.condition("datum.dark", alt.value(PAPER), alt.value(INK))
    texts = alt.Chart(drawn).mark_text(fontSize=11).encode(x=x, y=y, text=alt.Text("text:N"), color=ink)
    chart = alt.layer(squares, texts, width=max(120, 38 * len(other)), height=max(80, 28 * len(own_names)))
    return figure(name, title, caption, chart)
