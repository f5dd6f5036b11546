"""`polypath schema`, which is `polypath list schema` now."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from polypath.study import json_schema

from ._console import renamed


def schema(
    file: Annotated[Path | None, typer.Argument(help="Write it here; default: print it.")] = None,
) -> None:
    """Print the JSON Schema of study files, with which editors check and complete them."""
    if file is None:
        sys.stdout.write(json_schema())
    else:
        file.write_text(json_schema(), encoding="utf-8")
    renamed("schema", "list schema")
