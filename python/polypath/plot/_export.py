"""Figures as text and bytes: SVG for the page, PNG for slides. Nothing is fetched and nothing is
written here.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from importlib import metadata
from typing import Any, ParamSpec, cast

import altair as alt
import numpy as np
import pandas as pd
from altair.utils.schemapi import debug_mode

from ._drawers import Drawing, drawing
from ._theme import config

VEGALITE = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
"""The version that Altair writes; vl-convert carries several."""
KINDS = ("svg", "png", "pdf")
"""Kinds of file that a figure can be."""
SCALE = 2.0
"""Pixels a point in a PNG: sharp on paper at the size of the page."""
CHECKED = False
"""Whether charts are checked against Vega-Lite's schema; in the tests they are."""

P = ParamSpec("P")


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A drawing with its name (of a file), what it shows and the sentence below it. It is drawn
    while the next ones are prepared.
    """

    name: str
    title: str
    caption: str
    drawing: Future[Drawing] = field(repr=False, compare=False)
    legend: Sequence[tuple[str, str]] = ()
    """Of several pictures in one: what a line is called, and its colour."""
    digest: str = field(default="", repr=False)
    """Of what it shows: figures of one digest look alike."""

    @property
    def svg(self) -> str:
        return self.drawing.result().svg

    @property
    def narrow(self) -> str:
        """The same for a narrow screen; nothing where it has no such form."""
        return self.drawing.result().narrow

    def _repr_svg_(self) -> str:
        """What a notebook shows."""
        return self.svg

    def png(self) -> bytes:
        return self.drawing.result().png

    def file(self, kind: str) -> bytes:
        """The figure as a file of a kind of `KINDS`."""
        return self.svg.encode() if kind == "svg" else self.drawing.result().files[kind]


def quick(make: Callable[P, Figure]) -> Callable[P, Figure]:
    """For functions that make charts: Altair checks each part against the schema as it is made,
    which takes longer than all the rest.
    """

    @wraps(make)
    def unchecked(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with debug_mode(CHECKED):
            return make(*args, **kwargs)

    return unchecked


def figure(name: str, title: str, caption: str, chart: Any, narrow: Any = None, legend: Sequence[tuple[str, str]] = ()) -> Figure:
    """Renders an Altair chart, and the same for a narrow screen where there is one; the data is
    inlined, so the drawing stands alone.
    """
    variants = {"narrow": _spec(narrow)} if narrow is not None else {}
    return _figure(name, title, caption, {"chart": _spec(chart), **variants, "version": VEGALITE}, legend)


def _spec(chart: Any) -> dict[str, Any]:
    tables: dict[int, pd.DataFrame] = {}

    def named(table: pd.DataFrame) -> dict[str, str]:
        tables[id(table)] = table
        return {"name": f"table{list(tables).index(id(table))}"}

    # Altair would copy every value several times on the way.
    alt.data_transformers.register("polypath", cast("Any", named))
    with alt.data_transformers.enable("polypath"):
        spec = chart.to_dict(validate=CHECKED)
    spec.pop("$schema", None)
    datasets = {f"table{index}": _rows(table) for index, table in enumerate(tables.values())}
    # What a chart asks for beside the look of all.
    own = (spec.pop("usermeta", None) or {}).get("look", {})
    look = {**config(), **{name: value for name, value in own.items() if not isinstance(value, dict)}}
    look |= {name: {**look.get(name, {}), **value} for name, value in own.items() if isinstance(value, dict)}
    look["view"] = {**spec.get("config", {}).get("view", {}), **look["view"]}
    return {**spec, "datasets": datasets, "config": look}


def _rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The table as JSON has it: what is missing or infinite is null."""
    columns = []
    for name in table.columns:
        # Of texts as Arrow has them a list takes ten times as long.
        values = table[name].astype(object).tolist()
        if not (pd.api.types.is_float_dtype(table[name]) and np.isfinite(table[name].to_numpy()).all()):
            values = [None if value is None or (isinstance(value, float) and not math.isfinite(value)) else value for value in values]
        columns.append(values)
    names = list(table.columns)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def drawn(name: str, title: str, caption: str, svg: str) -> Figure:
    """A drawing of our own."""
    return _figure(name, title, caption, {"svg": svg})


def _figure(name: str, title: str, caption: str, request: dict[str, Any], legend: Sequence[tuple[str, str]] = ()) -> Figure:
    kinds, kept = _wanted.get()
    shown = {**request, "scale": SCALE}
    asked = {**shown, "kinds": [kind for kind in kinds if kind != "svg"]}
    digest = hashlib.sha256(json.dumps([shown, metadata.version("vl-convert-python")], sort_keys=True).encode()).hexdigest()
    drawn_before = None if kept is None else kept(name, digest)
    drawn: Future[Drawing] = Future()
    if drawn_before is None:
        drawn = drawing(asked)
    else:
        drawn.set_result(drawn_before)
    return Figure(name=name, title=title, caption=caption, drawing=drawn, legend=legend, digest=digest)


Kept = Callable[[str, str], Drawing | None]
"""A drawing of a name and a digest, where one is kept."""
_wanted: ContextVar[tuple[Sequence[str], Kept | None]] = ContextVar("wanted", default=(("png",), None))


@contextmanager
def drawn_as(kinds: Sequence[str], kept: Kept | None = None) -> Iterator[None]:
    """Figures that are made within are drawn as these kinds of file, unless they are `kept`."""
    token = _wanted.set((tuple(kinds), kept))
    try:
        yield
    finally:
        _wanted.reset(token)


_PICTURE = re.compile(
    r'concat_\d+_group"[^>]*><g transform="translate\(([\d.]+),([\d.]+)\)"><path class="background" aria-hidden="true" '
    r'd="M0,0h([\d.]+)v([\d.]+)h'
)


def pictures(svg: str, prefix: str) -> str:
    """The pictures of a drawing of several, one beneath another: each shows its part of the drawing
    that `inline` made of the same.
    """
    root = re.search(r'translate\(([\d.]+),([\d.]+)\)"><g class="mark-group role-frame root"', svg)
    assert root is not None, "a drawing of several pictures has a frame"
    x0, y0 = float(root[1]), float(root[2])
    places = [tuple(map(float, box)) for box in _PICTURE.findall(svg)]
    last = max(y for _, y, _, _ in places)
    parts = []
    for x, y, width, height in places:
        # Room for the numbers of the axes, for the axes' names where they stand, and for the
        # picture's title.
        left, below = (x0 if x == 0 else 40.0), (46 if y == last else 24)
        box = f"{x0 + x - left:g} {y0 + y - 26:g} {left + width + 12:g} {height + 26 + below:g}"
        parts.append(f'<svg viewBox="{box}" style="--own:{left + width + 12:.0f}px"><use href="#{prefix}-drawing"/></svg>')
    return "".join(parts)


def inline(svg: str, prefix: str) -> str:
    """The SVG for use inside a page: ids made unique by `prefix`, size left to the page, and no XML
    header.
    """
    svg = re.sub(r"<\?xml[^>]*\?>|<!DOCTYPE[^>]*>", "", svg).strip()
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", svg)
    svg = re.sub(r'href="#([^"]+)"', rf'href="#{prefix}-\1"', svg)
    head, rest = svg.split(">", 1)
    # What `pictures` show parts of.
    rest = rest.replace('<g fill="none" stroke-miterlimit', f'<g id="{prefix}-drawing" fill="none" stroke-miterlimit', 1)
    width = re.search(r'\bwidth="([\d.]+)(?:px)?"', head)
    if width is not None and "viewBox" in head:
        head = re.sub(r'\s(width|height)="[^"]*"', "", head)
        head += f' style="--own:{float(width[1]):.0f}px"'
    return head + ">" + rest
