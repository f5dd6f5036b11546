"""Verdicts as a table for a person, and as JSON for a program."""

from typing import Any

from rich.console import Console
from rich.table import Table

from polypath.validate._judge import Verdict, count, count_srtt, find_subflow


def to_json(verdicts: list[Verdict]) -> dict[str, Any]:
    """One entry a cell; cells that could not be simulated count in neither `agree` nor `of`."""
    agree, of = count(verdicts)
    srtt_agree, srtt_of = count_srtt(verdicts)
    rows = [
        {
            "id": verdict.cell.id,
            "flow": verdict.cell.flow,
            "linux_mbps": round(verdict.cell.mbps, 4),
            "sim_mbps": _rounded(verdict.sim_mbps),
            "error": _rounded(verdict.error),
            "agrees": verdict.agrees,
            "why": verdict.why,
        }
        for verdict in verdicts
    ]
    return {
        "rows": rows,
        "agree": agree,
        "of": of,
        "srtt": {"agree": srtt_agree, "of": srtt_of, "rows": _srtt_rows(verdicts)},
        "groups": {name: _counts(part) for name, part in _by_group(verdicts)},
        "algorithms": {name: _counts(part) for name, part in _by_algorithm(verdicts)},
    }


def to_markdown(verdicts: list[Verdict]) -> str:
    """The counts by group and of all, as a table in Markdown."""
    lines = ["| group | goodput agrees | share | mean srtt agrees | share |", "|---|---:|---:|---:|---:|"]
    for name, part in [*_by_group(verdicts), ("all", verdicts)]:
        lines.append(f"| {name} | " + " | ".join([*_share(*count(part)), *_share(*count_srtt(part))]).replace("%", " %") + " |")
    return "\n".join(lines) + "\n"


def _by_group(verdicts: list[Verdict]) -> list[tuple[str, list[Verdict]]]:
    return [(group, [v for v in verdicts if v.cell.group == group]) for group in dict.fromkeys(v.cell.group for v in verdicts)]


def _by_algorithm(verdicts: list[Verdict]) -> list[tuple[str, list[Verdict]]]:
    return [(cc, [v for v in verdicts if v.cell.cc == cc]) for cc in dict.fromkeys(v.cell.cc for v in verdicts)]


def _counts(verdicts: list[Verdict]) -> dict[str, int]:
    (agree, of), (srtt_agree, srtt_of) = count(verdicts), count_srtt(verdicts)
    return {"agree": agree, "of": of, "srtt_agree": srtt_agree, "srtt_of": srtt_of}


def _srtt_rows(verdicts: list[Verdict]) -> list[dict[str, Any]]:
    return [
        {
            "id": verdict.cell.id,
            "flow": verdict.cell.flow,
            "linux_ms": _rounded(verdict.linux_srtt_ms),
            "sim_ms": _rounded(verdict.sim_srtt_ms),
            "error": _rounded(verdict.srtt_error),
            "agrees": verdict.srtt_agrees,
        }
        for verdict in verdicts
        if verdict.srtt_agrees is not None
    ]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def show(verdicts: list[Verdict], console: Console, *, detail: bool = False, only_differing: bool = False) -> None:
    table = table_of("run", "flow", ">Linux", ">simulated", ">error", "verdict", ">srtt: Linux", ">simulated", ">error")
    table.add_column("remark", style="dim", overflow="fold")
    for verdict in verdicts:
        if only_differing and verdict.agrees and verdict.srtt_agrees is not False:
            continue
        table.add_row(
            verdict.cell.id,
            verdict.cell.flow,
            f"{verdict.cell.mbps:.2f}",
            _figure(verdict.sim_mbps, ".2f"),
            _figure(verdict.error, "+.1%"),
            {True: "[green]agrees[/]", False: "[red]differs[/]", None: "[yellow]not simulated[/]"}[verdict.agrees],
            _figure(verdict.linux_srtt_ms, ".1f"),
            _figure(verdict.sim_srtt_ms, ".1f"),
            f"[{'green' if verdict.srtt_agrees else 'red'}]{verdict.srtt_error:+.1%}[/]" if verdict.srtt_error is not None else "",
            # The rest of a simulator's sentence lists what would be allowed; it is in the JSON.
            (verdict.why or "").split("; ")[0] if verdict.agrees is None else verdict.why or "",
        )
        if detail:
            for line in _subflows(verdict):
                table.add_row(*line)
    console.print(table)
    console.print("Mbit/s read by the receiver; milliseconds of the first subflow, on runs without random loss.", style="dim")
    _summary(verdicts, console)


def table_of(*heads: str) -> Table:
    """A table without lines; columns whose head begins with ">" are of figures."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for head in heads:
        table.add_column(head.removeprefix(">"), justify="right" if head.startswith(">") else "left", no_wrap=head.startswith(">"))
    return table


def _figure(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _subflows(verdict: Verdict) -> list[list[str]]:
    """Per subflow of the first repeat: acknowledged rate, retransmissions, round-trip time, mean
    and largest window.
    """
    lines = []
    if not verdict.outcomes:
        return []
    for i, linux in enumerate(verdict.cell.rows[0].subflows):
        ours = find_subflow(verdict.outcomes[0], linux.source, i)
        if ours is None:
            lines.append([f"  subflow {i + 1}", "", _figure(linux.acked_mbps, ".2f"), "missing", *[""] * 6])
            continue
        remark = "; ".join(
            [
                f"retransmissions {_figure(linux.retransmissions, '.0f')} / {ours['retransmissions']}",
                f"mean cwnd {_figure(linux.cwnd, '.1f')} / {ours['mean_cwnd']:.1f}",
                f"largest {_figure(linux.max_cwnd, '.0f')} / {ours['max_cwnd']}",
                f"min RTT {_figure(linux.min_rtt_ms, '.2f')} / {ours['min_rtt_us'] / 1000:.2f} ms",
                f"timeouts {ours['timeouts']}",
            ]
        )
        lines.append(
            [
                f"  subflow {i + 1}",
                "",
                _figure(linux.acked_mbps, ".2f"),
                f"{ours['acked_bps'] / 1e6:.2f}",
                "",
                "",
                _figure(linux.srtt_ms, ".1f"),
                f"{ours['mean_srtt_us'] / 1000:.1f}",
                "",
                remark,
            ]
        )
    return lines


def _summary(verdicts: list[Verdict], console: Console) -> None:
    table = table_of("", ">goodput agrees", ">share", ">srtt agrees", ">share")
    parts: list[tuple[str, list[Verdict]]] = [
        *((f"group {name}", part) for name, part in _by_group(verdicts)),
        *((f"algorithm {name}", part) for name, part in _by_algorithm(verdicts)),
        ("all", verdicts),
    ]
    for name, part in parts:
        cells = [*_share(*count(part)), *_share(*count_srtt(part))]
        if any(cells):
            table.add_row(name, *cells)
    console.print(table)
    left = sum(verdict.agrees is None for verdict in verdicts)
    if left:
        console.print(f"{left} cell{'s' * (left != 1)} not simulated, counted in neither.")


def _share(agree: int, of: int) -> tuple[str, str]:
    return (f"{agree} of {of}", f"{agree / of:.0%}") if of else ("", "")
