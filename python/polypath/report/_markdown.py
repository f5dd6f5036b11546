"""Markdown as HTML."""

from __future__ import annotations

from markdown_it import MarkdownIt
from markupsafe import Markup

from polypath.errors import visible


def as_html(text: str) -> Markup:
    # An image would be loaded by opening the page.
    markdown = MarkdownIt("commonmark", {"html": False, "typographer": False}).enable("table").disable("image")
    return Markup(markdown.render(visible(text)))
