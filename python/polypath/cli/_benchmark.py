"""`polypath benchmark`."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from polypath.terminal import bar, hush

from . import _console
from ._work import AsJson, Workers

if TYPE_CHECKING:
    from rich.table import Table

    from polypath.benchmark import Ranking, Record


class _Half(StrEnum):
    BOTH = "both"
    OPEN = "open"


def benchmark(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[cc NAME... | scheduler NAME... | FILE.c]",
            help="What is measured: built-in algorithms by name (`all`: every one), or a file of your own.",
            show_default=False,
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="200 draws, at most two minutes on two cores; without it 6000, in an hour.")
    ] = False,
    budget: Annotated[str | None, typer.Option(metavar="TIME", help="As many draws as two cores do in that time, or 40draws.")] = None,
    half: Annotated[_Half, typer.Option(help="Draws: open, on which you may tune; the test half alone counts.")] = _Half.BOTH,
    on_linux: Annotated[bool, typer.Option("--linux", help="A tenth of the draws on a Linux kernel too.")] = False,
    rank: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="In place of measuring: rank the JSON files of a folder among the built-in algorithms."),
    ] = None,
    out_folder: Annotated[Path, typer.Option("--out", help="Where JSON, page, study and runs go.")] = Path("benchmark"),
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Score a congestion control or a scheduler in a fixed set of networks, and rank it among all
    that are built in: one page, one JSON.

    The set and the score are defined in docs/concepts/benchmark.md. Runs that are finished are
    kept.
    """
    from polypath.benchmark import QUICK, WHOLE, BenchmarkError, check_linux, draws_of, run, subject

    if rank is not None:
        if words:
            raise BenchmarkError(f"--rank reads what was measured, and measures nothing: leave {' '.join(words)} out")
        given = {"--quick": quick, "--budget": budget, "--half": half is not _Half.BOTH, "--linux": on_linux, "--workers": workers}
        for name in (name for name, value in given.items() if value):
            raise BenchmarkError(f"--rank reads what was measured, and measures nothing: leave {name} out")
        _rank(rank, plain=as_json)
        return
    if quick and budget is not None:
        raise BenchmarkError(f"--quick is a budget of its own: leave it or --budget {budget} out")
    draws = draws_of(budget) if budget is not None else QUICK if quick else WHOLE
    subjects = subject(words or [])
    if on_linux:
        check_linux()
    if as_json:
        hush()
    records, err = [], _console.err
    for number, what in enumerate(subjects, start=1):
        title = f"{what.label} ({number} of {len(subjects)}), draws 1 to {draws}"
        if not err.is_terminal:
            err.print(title, soft_wrap=True)
        with bar(err, words=title) as move:
            only: Literal["open"] | None = None if half is _Half.BOTH else "open"
            records.append(
                run(what, draws, out_folder, only=only, on_linux=on_linux, workers=workers, progress=lambda run: move(advance=1))
            )
        _tell(records[-1], out_folder / f"{what.label}.md", one=len(subjects) == 1)
    if as_json:
        from polypath.benchmark import as_json as text_of

        sys.stdout.write("[" + ",\n".join(text_of(record).rstrip() for record in records) + "]\n")


def _tell(record: Record, file: Path, *, one: bool) -> None:
    """The page, or of several results a line each."""
    from rich.markdown import Markdown

    from polypath.report import markdown_page

    text = file.read_text(encoding="utf-8")
    page = file.with_suffix(".html")
    page.write_text(markdown_page(text, "Benchmark"), encoding="utf-8")
    if one:
        _console.out.print(Markdown(text, hyperlinks=False))
    else:
        _console.out.print(text.splitlines()[0].removeprefix("# "), soft_wrap=True)
    _console.out.print(f"page: {page}, result: {file.with_suffix('.json')}", soft_wrap=True)


def _rank(folder: Path, *, plain: bool) -> None:
    from polypath.benchmark import KINDS, WORDS, as_plain, built_in, ranking, read_folder

    read = read_folder(folder)
    records: list[dict[str, object]] = []
    for kind in KINDS:
        sent = [record for _, record in read if record.kind == kind]
        if not sent:
            continue
        known = {(record.name, record.source) for record in sent}
        ranked = ranking([*sent, *(record for record in built_in(kind) if (record.name, record.source) not in known)])
        records += as_plain(ranked)
        if not plain:
            _console.out.print(
                f"{WORDS[kind]}: scores of the test half of draws 1 to {ranked.draws}; = is not told apart from the first", soft_wrap=True
            )
            _console.out.print(_as_table(ranked))
            for record in ranked.left_out:
                _console.out.print(f"left out: {record.title}, which has the open half alone")
    if plain:
        _console.give(records)


def _as_table(ranked: Ranking) -> Table:
    from rich import box
    from rich.table import Table

    table = Table("", "", "score", "of the first", "draws", "polypath", box=box.SIMPLE_HEAD, pad_edge=False)
    for place in ranked.ranks:
        of, record = place.of_best, place.record
        rank = f"{place.rank}{'' if of.tells_apart or place.rank == 1 else ' ='}"
        table.add_row(
            rank, record.title, str(place.score), f"{of.mean:.2f} ({of.low:.2f} to {of.high:.2f})", f"{record.draws}", record.polypath
        )
    return table
