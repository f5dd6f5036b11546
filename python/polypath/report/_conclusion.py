"""The study's own conclusion as HTML, with the values that it asks of the results in their places."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable
from typing import Any

import pandas as pd
from markupsafe import Markup

from polypath.analysis import PLATFORM, platforms_in_order, select, summarise
from polypath.study import Blank, filled

from ._claims import ClaimView, claims_of
from ._format import MISSING, count, mean_ci, percent
from ._markdown import as_html
from ._material import Material, label, varied, with_limits

NOT_MEASURED = "not measured"
# Paragraphs and points of a list.
_PARTS = re.compile(r"\n\s*\n|\n(?=- )")
_SHARES = ("datagram_loss", "share", "share_all", "of_fair", "gain", "harm_goodput", "harm_latency", "harm_completion")


def conclusion(material: Material, claims: list[ClaimView]) -> Markup | None:
    """None where the study has none, or nothing of it was measured. With several platforms its
    values are those of the last one, which decides claims, too.
    """
    text = conclusion_text(material, claims)
    if not text:
        return None
    return as_html(text)


def concluded(material: Material) -> str:
    """The study's conclusion as Markdown, for a terminal."""
    return conclusion_text(material, claims_of(material))


def conclusion_text(material: Material, claims: list[ClaimView]) -> str:
    """As Markdown, without the paragraphs that ask for what was not measured; nothing where the
    study has none.
    """
    # What the results give is text, not Markdown.
    parts = _PARTS.split(material.study.conclusion or "")
    texts = [_filled(part, material, claims, _escaped, needed=True) for part in parts]
    return "\n\n".join(text for text in texts if text)


def highlights(material: Material, claims: list[ClaimView]) -> dict[str, str]:
    """The study's own large figures, by what they are."""
    texts = material.study.highlights.items()
    return {_filled(words, material, claims, str): _filled(text, material, claims, str) for words, text in texts}


def _filled(text: str, material: Material, claims: list[ClaimView], written: Callable[[str], str], *, needed: bool = False) -> str:
    """Nothing where a value that is `needed` was not measured."""
    if "{{" not in text:
        return text
    runs = with_limits(material)
    runs = select(runs, {PLATFORM: platforms_in_order(runs[PLATFORM])[-1]})
    by_id = {claim.id: str(claim.decisions[0].verdict) for claim in claims}

    lacks = []

    def value(placeholder: Blank) -> str:
        if placeholder.claim:
            return written(by_id.get(placeholder.claim, NOT_MEASURED))
        measured = _value(placeholder, runs, material)
        if measured == NOT_MEASURED:
            lacks.append(placeholder)
        return written(measured)

    sentence = filled(text, value)
    return "" if needed and lacks else sentence


def _value(placeholder: Blank, runs: pd.DataFrame, material: Material) -> str:
    rows = select(runs, placeholder.where)
    if placeholder.metric not in rows or rows[placeholder.metric].notna().sum() == 0:
        return NOT_MEASURED
    names = [name for name in varied(material, rows) if name != PLATFORM and name not in placeholder.where]
    groups = ["experiment", *names, "flow"]
    cells = summarise(rows, list(dict.fromkeys(groups)), [placeholder.metric])
    cells = cells[cells[placeholder.metric].notna()].sort_values(placeholder.metric, kind="stable")
    low, high = cells.iloc[0], cells.iloc[-1]
    if placeholder.all:
        ordered = cells.iloc[::-1] if placeholder.end == "highest" else cells
        return _names(ordered, lambda row: label(row, names, rows["flow"].nunique()), placeholder.metric)
    if placeholder.end:
        chosen = high if placeholder.end == "highest" else low
        return label(dict(chosen), names, rows["flow"].nunique()) if placeholder.name else _text(placeholder.metric, chosen)
    first, last = (_text(placeholder.metric, row, interval=len(cells) == 1) for row in (low, high))
    return first if first == last else f"{first} to {last}"


def _names(cells: pd.DataFrame, name: Callable[[dict[Any, Any]], str], metric: str) -> str:
    """In this order; a sign between those whose figure is the same."""
    text, before = "", ""
    for row in cells.to_dict("records"):
        value = _text(metric, pd.Series(row), interval=False)
        text += (" = " if value == before else ", " if text else "") + name(row)
        before = value
    return text


def _text(metric: str, row: pd.Series, *, interval: bool = True) -> str:
    mean, half = float(row[metric]), float(row[f"{metric}_ci"]) if interval else math.nan
    if math.isnan(mean):
        return MISSING
    if metric in _SHARES or metric.endswith("_share"):
        return percent(mean)
    if metric.endswith(("_mbps", "_s")):
        return mean_ci(mean, half)
    if metric.endswith("_ms"):
        return mean_ci(mean, half, 1)
    return count(mean) if abs(mean) >= 10 else mean_ci(mean, half)


def _escaped(text: str) -> str:
    """Text that Markdown leaves as it is."""
    return "".join(f"\\{letter}" if letter in r"\`*_[]<>#|" else letter for letter in html.unescape(text))
