"""The report on disk: one HTML file that opens without a network, and every figure as SVG and PNG beside it."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from polypath.plot import Figure, inline

from ._material import Material
from ._page import Page, page

PAGE = "report.html"
FIGURES = "figures"


def render(made: Page) -> str:
    """The page as HTML."""
    return rendered("page.html.j2", page=made)


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
    style = Markup((files / "style.css").read_text(encoding="utf-8"))
    return environment.get_template(template).render(style=style, **values)


def write(material: Material, folder: Path) -> Path:
    """Writes the report and its figures into `folder`; gives the path of the page."""
    made = page(material)
    (folder / FIGURES).mkdir(parents=True, exist_ok=True)
    for figure in made.figures:
        replace(folder / FIGURES / f"{figure.name}.svg", figure.svg.encode())
        replace(folder / FIGURES / f"{figure.name}.png", figure.png())
    target = folder / PAGE
    replace(target, render(made).encode())
    return target


def _drawing(figure: Figure) -> Markup:
    # The SVG is our own output, so it is trusted as markup.
    return Markup(inline(figure.svg, figure.name))


def replace(path: Path, content: bytes) -> None:
    """Whole or not at all: a reader never sees half a page."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_bytes(content)
    fresh.replace(path)
