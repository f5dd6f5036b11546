"""`polypath list`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated

import typer
import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from rich.table import Table

from polypath import _native, linux
from polypath import study as model
from polypath.engines import ENGINES, Algorithm, SimEngine
from polypath.linux import installed
from polypath.planner import PREFIX
from polypath.study import MODELLED, Study, StudyError, unknown

from . import _init, _studies
from ._console import give, out, renamed, rows_of
from ._work import AsJson, CcPath, use_custom


def list_(
    what: Annotated[
        str,
        typer.Argument(
            help="cc, schedulers, path-managers, mtu-searches, elements, aqm, columns, engines, kernels, studies, templates or traces; "
            "schema prints the JSON Schema of study files; "
            "default: the names of the lists; all prints all of them."
        ),
    ] = "",
    cc_path: CcPath = None,
    as_json: AsJson = False,
) -> None:
    """List what there is to choose from, as far as it has a name."""
    if what == _SCHEMA:
        sys.stdout.write(model.json_schema())
        return
    if what and what != "all" and what not in _LISTS:
        raise StudyError(unknown("list", what, [*_LISTS, _SCHEMA]))
    use_custom(cc_path)
    if as_json:
        give({name: rows_of(_LISTS[name]()) for name in (_LISTS if what in ("", "all") else [what])})
        return
    if not what:
        out.print(f"polypath list NAME shows one of these: {', '.join([*_LISTS, _SCHEMA])}", soft_wrap=True)
        return
    for name in _LISTS if what == "all" else [what]:
        table = _LISTS[name]()
        out.print(table if table.row_count else f"{name}: {_NONE[name]}")


def schema(file: Annotated[Path | None, typer.Argument(help="Write it here; default: print it.")] = None) -> None:
    """Print the JSON Schema of study files, with which editors check and complete them."""
    if file is None:
        sys.stdout.write(model.json_schema())
    else:
        file.write_text(model.json_schema(), encoding="utf-8")
    renamed("schema", "list schema")


def _cc() -> Table:
    table = _table("cc", "congestion control", "also called", "family", "coupled", "draws", "source", "Linux's own", "in the kernels")
    kernels = {kernel.name: kernel.algorithms for kernel in linux.installed()}
    theirs = {name for algorithms in kernels.values() for name in algorithms if not name.startswith(PREFIX)}
    ours = {algorithm.name: algorithm for algorithm in SimEngine().algorithms()}
    only_theirs = {name: Algorithm(name, coupled=False, source="only in kernels", counterpart=name) for name in theirs}
    for name, rows in sorted({**only_theirs, **ours}.items()):
        # Upstream has no coupled ones, and an out-of-tree kernel has.
        own = rows.counterpart or (name if name in theirs else "")
        having = ", ".join(kernel for kernel, algorithms in kernels.items() if own in algorithms)
        coupled, draws = ("yes" if fact else "no" for fact in (rows.coupled, rows.draws))
        # Whether those of a kernel alone draw is not known.
        draws = draws if name in ours else ""
        table.add_row(name, rows.aliases, rows.family, coupled, draws, rows.source, own, having)
    return table


def _columns() -> Table:
    from polypath.results import TABLES, columns

    there = {name: ", ".join(columns(name)) for name in TABLES}
    return _said("columns", "table", there, what="its columns, beside those that name the run")


def _kernels() -> Table:
    table = _table("kernels", "kernel", "engine", "release", "MPTCP", "congestion controls of its own; ours are pp_<name>")
    for modelled in MODELLED.values():
        # How they differ: docs/reference/kernels.md.
        table.add_row(modelled.name, "sim", modelled.release, f"version {modelled.mptcp}", "")
    for kernel in installed():
        algorithms = " ".join(name for name in kernel.algorithms if not name.startswith("pp_"))
        table.add_row(kernel.name, "linux", kernel.release, kernel.mptcp_in_words, algorithms)
    return table


def _studies_here() -> Table:
    table = _table("studies", "study", "title", "cells")
    names: dict[str, str] = {}
    for file in _studies.files():
        folder = str(file.parent)
        try:
            study = Study.load(file)
        except StudyError as error:
            table.add_row(folder, f"cannot be read: {error}", "")
            continue
        twice = f' (called "{study.name}" as {names[study.name]} is: rename one)' if study.name in names else ""
        names.setdefault(study.name, folder)
        table.add_row(folder, (study.title or study.name) + twice, str(model.number_of_cells(study)))
    return table


def _traces() -> Table:
    from polypath.traces import packaged

    there = {name: each.about for name, each in packaged().items()}
    return _said("traces", "trace", there, what="what it is (`polypath trace NAME --out FILE.csv` writes it)")


def _templates() -> Table:
    there = {name: text.splitlines()[0].lstrip("# ") for name, text in _init.templates().items()}
    for name, text in _init.exercises().items():
        there[name] = f"An exercise, whose claims judge your answer. {yaml.safe_load(text)['question']}"
    return _said("templates", "template", there, what="what it sets up")


def _said(title: str, head: str, there: Iterable[tuple[str, str]] | Mapping[str, str], *, what: str = "what it does") -> Table:
    """A row a name."""
    table = _table(title, head, what)
    for name, about in dict(there).items():
        table.add_row(name, about)
    return table


def _models(title: str, head: str, *models: type[BaseModel]) -> Table:
    table = _table(title, head, "what it does", "fields with defaults (!: must be given)")
    for kind_model in models:
        # The kind's default is its name in study files.
        kind = kind_model.model_fields["kind"].default
        fields = [_field(name, field) for name, field in kind_model.model_fields.items() if name != "kind"]
        # The first paragraph; the table wraps its lines.
        about = " ".join((kind_model.__doc__ or "").split("\n\n")[0].split())
        table.add_row(kind, about, ", ".join(fields))
    return table


def _field(name: str, field: FieldInfo) -> str:
    if field.is_required():
        return f"{name}!"
    default = field.get_default(call_default_factory=True)
    # What is empty unless it is given needs no word.
    if default is None or default == ():
        return name
    return f"{name}: {str(default).lower() if isinstance(default, bool) else default}"


def _table(title: str, *columns: str) -> Table:
    return Table(*columns, title=title, title_justify="left")


# The JSON Schema of study files, with which editors check and complete them.
_SCHEMA = "schema"
_ELEMENTS = (
    *(model.RateLimit, model.Delay, model.Loss, model.BurstLoss, model.DropPackets, model.Mtu, model.Down, model.Retry),
    *(model.Policer, model.Trace, model.Table, model.Wireless),
)
_LISTS: dict[str, Callable[[], Table]] = {
    "cc": _cc,
    "schedulers": lambda: _said("schedulers", "scheduler", SimEngine().described_schedulers()),
    "path-managers": lambda: _models("path-managers", "path manager", *model.PATH_MANAGERS),
    "mtu-searches": lambda: _said("mtu-searches", "search for a path's MTU", _native.mtu_searches()),
    "reorder-rules": lambda: _models("reorder-rules", "reorder rule of a tunnel", *model.REORDER_RULES),
    "distributions": lambda: _said("distributions", "distribution of a tunnel", model.DISTRIBUTIONS),
    "elements": lambda: _models("elements", "link element", *_ELEMENTS),
    "aqm": lambda: _models("aqm", "queue management of a rate", model.Red, model.Codel, model.FqCodel, model.Pie, model.DualPi2),
    "columns": _columns,
    "engines": lambda: _said("engines", "engine", {name: kind.summary for name, kind in ENGINES.items()}, what="what it is"),
    "kernels": _kernels,
    "studies": _studies_here,
    "templates": _templates,
    "traces": _traces,
}
# What may have nothing to list, and what to do then.
_NONE = {
    "studies": "there are none in this folder or in ./studies; begin one with: polypath init NAME",
}
