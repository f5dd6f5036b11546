"""One value of a parameter against the others, on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from polypath.report import Material

Against = Annotated[
    str | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="Compare every other value with this one, such as cc=lia: paired differences over the seeds that both had.",
    ),
]
_COLOURS = {"better": "green", "worse": "red"}


def against(material: Material) -> list[RenderableType]:
    """The sentences, and a row for each difference; nothing where `--against` was not given."""
    if material.against.empty:
        return []
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from polypath.report import against_view

    view = against_view(material, drawn=False)
    if view is None:
        return []
    table = Table(title=view.title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in view.table.columns:
        table.add_column(column.title.lower() if column.help else column.title, justify="right" if column.numeric else "left")
    for row in view.table.rows:
        table.add_row(*(Text(cell.text, style=_COLOURS.get(cell.text, "")) for cell in row))
    return [table, Text(view.table.note), *(Text(sentence, style="bold") for sentence in view.sentences)]
