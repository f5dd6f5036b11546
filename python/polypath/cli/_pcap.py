"""`polypath pcap`: what captures say of connections, and what held them back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from polypath.pcap import PcapError, analyse, complaints, contents, series_table, subflow_table

from ._console import complain, give, out
from ._work import AsJson

# Connections that the terminal shows, those with most bytes; --json and --parquet have all.
_SHOWN = 20


def pcap(
    files: Annotated[
        list[Path], typer.Argument(help="Captures, pcap or pcapng, also packed (gzip, zstd); several places are read side by side.")
    ],
    one_end: Annotated[
        bool, typer.Option("--one-end", help="All files were captured at one end, such as those of a tunnel's paths: read them as one.")
    ] = False,
    as_json: AsJson = False,
    html: Annotated[
        Path | None, typer.Option(help="Also write a page with figures over time to this file; it opens without a network.")
    ] = None,
    parquet: Annotated[Path | None, typer.Option(help="Also write a row for each subflow and direction to this file.")] = None,
    series: Annotated[
        Path | None, typer.Option(help="Also write what happened over time to this file (parquet): bytes, data sequence, RTT, window.")
    ] = None,
) -> None:
    """Explain captures of any program: connections, subflows, what they carried, what was lost, and
    what held them back.

    TCP and MPTCP of both versions, also in tunnels. Name captures of both ends, with clocks that
    agree, for one-way delays. A file that is cut off or damaged is told of as far as it goes, with
    exit status 1; the exit status is 2 if nothing could be read.
    """
    for target in (html, parquet, series):
        if target is not None and any(target.exists() and file.exists() and target.samefile(file) for file in files):
            raise PcapError(f"{target} is one of the captures, and would be lost")
    report = analyse(files, one_end=one_end)
    try:
        for file, table in ((parquet, subflow_table), (series, series_table)):
            if file is not None:
                import pyarrow.parquet as pq

                pq.write_table(table(report), file)
        if html is not None:
            from polypath.report import write_captures

            write_captures(report, html)
    except OSError as error:
        raise PcapError(f"the result cannot be written: {error}") from error
    packets, unread = (sum(file[name] for file in report["files"]) for name in ("packets", "unread"))
    is_unread = 0 < packets == unread
    if as_json:
        give(report)
    elif not is_unread:
        _show(report)
    for sentence in complaints(report):
        complain(sentence)
    if is_unread:
        raise typer.Exit(2)
    if any(file["broken"] for file in report["files"]):
        raise typer.Exit(1)


def _bytes_of(connection: dict[str, Any]) -> int:
    return sum(direction["bytes"] for subflow in connection["subflows"] for direction in subflow["directions"])


def _show(report: dict[str, Any]) -> None:
    connections = sorted(report["connections"], key=lambda connection: -_bytes_of(connection))
    if not connections:
        unread = any(file["unread"] for file in report["files"])
        out.print(Text(f"no TCP connection{' in what was read' if unread else ''}: {contents(report)}"))
    is_whole = not any(file["broken"] or file["missing"] for file in report["files"])
    for connection in connections[:_SHOWN]:
        _show_connection(connection, is_whole)
    if len(connections) > _SHOWN:
        out.print(f"and {len(connections) - _SHOWN} smaller connections; --json has all")


def _show_connection(connection: dict[str, Any], is_whole: bool) -> None:
    tunnel = f", in {connection['tunnel']}" if connection["tunnel"] else ""
    table = Table(title=f"{connection['kind']}{tunnel}", title_justify="left")
    for name in ("subflow", "from"):
        table.add_column(name)
    for name in ("MB", "Mbit/s", "segments", "again", "reordered", "reinjected kB", "MSS", "longest", "RTT ms", "one way ms"):
        table.add_column(name, justify="right")
    for subflow in connection["subflows"]:
        mark = (" (join" + (", backup)" if subflow["backup"] else ")")) if subflow["is_join"] else ""
        for sender, sent in zip(("client", "server"), subflow["directions"], strict=True):
            if sender == "server" and not sent["segments"]:
                continue
            cells = [
                f"{sent['bytes'] / 1e6:.2f}",
                f"{sent['goodput_bps'] / 1e6:.2f}",
                str(sent["segments"]),
                str(sent["retransmissions"]),
                str(sent["reordered"]),
                f"{sent['reinjected_bytes'] / 1e3:.1f}",
                str(sent["mss_announced"] or "-"),
                str(sent["mss_used"]),
                _middle(sent["rtt"]),
                _middle(sent["one_way_delay"]),
            ]
            table.add_row(f"{subflow['client']} > {subflow['server']}{mark}" if sender == "client" else "", sender, *cells)
    out.print(table)
    nothing = "nothing stands out" if is_whole else "nothing stands out in what was read"
    for sentence in [*(connection["diagnosis"] or [nothing]), connection["ended"], connection["joined"]]:
        if sentence:
            out.print(Text(f"- {sentence}"))
    out.print()


def _middle(spread: dict[str, Any] | None) -> str:
    return "-" if spread is None else f"{spread['p50_ms']:.1f}"
