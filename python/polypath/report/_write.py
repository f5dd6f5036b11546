"""The report on disk: one HTML file that opens without a network, and every figure as SVG and PNG
beside it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from polypath.errors import visible
from polypath.plot import KINDS, Drawing, Figure, drawn_as, inline, pictures

from ._markdown import as_html
from ._material import Material
from ._page import Page, page

PAGE = "report.html"
FIGURES = "figures"
DRAWN = ".drawn.json"
"""Beside the figures: what each shows, as a hash, the hashes of its files, and its form for a
narrow screen.
"""


_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""A page loads nothing and runs nothing, whatever stands in a study."""


def render(report_page: Page) -> str:
    """The page as HTML."""
    return rendered("page.html.j2", page=report_page)


def rendered(template: str, **values: Any) -> str:
    """A template of this folder as HTML, with the style of all pages."""
    files = resources.files("polypath.report")
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: (files / name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["drawing"] = _drawing
    environment.finalize = _readable
    style = Markup((files / "style.css").read_text(encoding="utf-8"))
    return environment.get_template(template).render(style=style, policy=_POLICY, **values)


def markdown_page(text: str, kicker: str) -> str:
    """Markdown that begins with its title, as a page that looks like a report."""
    title, _, body = text.removeprefix("# ").partition("\n")
    return rendered("markdown.html.j2", title=title, kicker=kicker, body=as_html(body))


def write(material: Material, folder: Path, kinds: Sequence[str] = ("svg", "png")) -> Path:
    """Writes the report and its figures (as files of these `kinds`) into `folder`; gives the path
    of the page.

    What the figures of the folder show already is not drawn again. Files of other kinds that show
    something else than the figure of their name are removed.
    """
    figures = folder / FIGURES
    before = _drawn(figures)
    with drawn_as(kinds, _unchanged_figures(figures, kinds, before)):
        report_page = page(material)
    figures.mkdir(parents=True, exist_ok=True)
    index = {}
    for figure in report_page.figures:
        files = {kind: figure.file(kind) for kind in ("svg", *(kind for kind in kinds if kind != "svg"))}
        for kind in kinds:
            replace(figures / f"{figure.name}.{kind}", files[kind])
        narrow = {"narrow": figure.narrow} if figure.narrow else {}
        others = {}
        for kind in (kind for kind in KINDS if kind not in kinds):
            if before.get(figure.name, {}).get("shows") != figure.digest:
                (figures / f"{figure.name}.{kind}").unlink(missing_ok=True)
            elif kind in before[figure.name]:
                others[kind] = before[figure.name][kind]
        index[figure.name] = {"shows": figure.digest, **narrow, **others, **{kind: _sha(files[kind]) for kind in kinds}}
    replace(figures / DRAWN, json.dumps(index, indent=1).encode())
    target = folder / PAGE
    replace(target, render(report_page).encode())
    return target


def _drawn(folder: Path) -> dict[str, dict[str, str]]:
    """What the figures of a folder show, by their names."""
    try:
        index: dict[str, dict[str, str]] = json.loads((folder / DRAWN).read_bytes())
    except (OSError, ValueError):
        return {}
    return index


def _unchanged_figures(folder: Path, kinds: Sequence[str], index: Mapping[str, Mapping[str, str]]) -> Callable[[str, str], Drawing | None]:
    """The figures of a folder that are as they were drawn."""

    def known(name: str, digest: str) -> Drawing | None:
        entry = index.get(name, {})
        if entry.get("shows") != digest or "svg" not in entry:
            return None
        try:
            files = {kind: (folder / f"{name}.{kind}").read_bytes() for kind in {"svg", *kinds}}
        except OSError:
            return None
        if any(entry.get(kind) != _sha(data) for kind, data in files.items()):
            return None
        return Drawing(svg=files.pop("svg").decode(), narrow=entry.get("narrow", ""), files=files)

    return known


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _readable(value: Any) -> Any:
    """Text with what reverses or hides other text written out; what is markup already is ours."""
    return visible(value) if type(value) is str else value


def _drawing(figure: Figure) -> Markup:
    # The SVG is our own output, so it is trusted as markup.
    whole = inline(figure.svg, figure.name)
    if figure.narrow:
        beneath = inline(figure.narrow, f"{figure.name}-narrow")
    elif figure.legend:
        beneath = _legend(figure) + pictures(figure.svg, figure.name)
    else:
        return Markup(f'<div class="scroll">{whole}</div>')
    return Markup(f'<div class="wide">{whole}</div><div class="narrow" aria-hidden="true">{beneath}</div>')


def _legend(figure: Figure) -> str:
    lines = (f'<span><i style="background:{colour}"></i>{escape(name)}</span>' for name, colour in figure.legend)
    return f'<p class="legend">{"".join(lines)}</p>'


def replace(path: Path, content: bytes) -> None:
    """Whole or not at all: a reader never sees half a page."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_bytes(content)
    fresh.replace(path)
