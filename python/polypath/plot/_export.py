"""Figures as text and bytes: SVG for the page, PNG for slides. Nothing is fetched and nothing is written here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import altair as alt
import vl_convert as vlc

from ._theme import config

VEGALITE = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
"""The version that Altair writes; vl-convert carries several."""
SCALE = 2.0
"""Pixels a point in a PNG: sharp on paper at the size of the page."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A drawing with its name (of a file), what it shows and the sentence below it."""

    name: str
    title: str
    caption: str
    svg: str

    def png(self) -> bytes:
        return bytes(vlc.svg_to_png(self.svg, scale=SCALE))


def figure(name: str, title: str, caption: str, chart: Any) -> Figure:
    """Renders an Altair chart; the data is inlined, so the drawing stands alone."""
    with alt.data_transformers.enable("default", max_rows=None):
        spec = chart.configure(**config()).to_dict()
    spec.pop("$schema", None)
    return Figure(name=name, title=title, caption=caption, svg=_renumbered(vlc.vegalite_to_svg(spec, vl_version=VEGALITE)))


def _renumbered(svg: str) -> str:
    """Vega counts its clips through the life of the process; counted from 0 in each figure, the same chart has the same bytes."""
    names = {name: f"clip{index}" for index, name in enumerate(dict.fromkeys(re.findall(r'\bid="(clip\d+)"', svg)))}
    return re.sub(r"\bclip\d+\b", lambda found: names.get(found[0], found[0]), svg)


def inline(svg: str, prefix: str) -> str:
    """The SVG for use inside a page: ids made unique by `prefix`, size left to the page, and no XML header."""
    svg = re.sub(r"<\?xml[^>]*\?>|<!DOCTYPE[^>]*>", "", svg).strip()
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", svg)
    svg = re.sub(r'href="#([^"]+)"', rf'href="#{prefix}-\1"', svg)
    head, rest = svg.split(">", 1)
    width = re.search(r'\bwidth="([\d.]+)(?:px)?"', head)
    if width is not None and "viewBox" in head:
        head = re.sub(r'\s(width|height)="[^"]*"', "", head)
        head += f' style="width:{float(width[1]):.0f}px;max-width:100%;height:auto"'
    return head + ">" + rest
