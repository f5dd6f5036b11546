"""`polypath trace`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import _console
from ._work import AsJson

if TYPE_CHECKING:
    from polypath.traces import Measurement

_COLUMNS = "time, rate, delay, rtt or loss"


def trace(
    what: Annotated[
        str,
        typer.Argument(
            metavar="FILE|NAME",
            help="What was measured: JSON or text of iperf3, text of ping, a capture, a table with a time and a rate; or a trace of the "
            "package (`polypath list traces`).",
        ),
    ],
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            metavar="KIND=NAME[:UNIT]",
            help=f"Of a table: which column is the {_COLUMNS}, and its unit: rate=DL_bitrate:kbit, rtt=PINGAVG:ms. For each one.",
        ),
    ] = None,
    direction: Annotated[
        str | None,
        typer.Option(metavar="upload|download", help="Of a capture: who sends, the client or the server. Default: who sent more."),
    ] = None,
    length: Annotated[
        str | None, typer.Option(metavar="TIME", help="How long it is, before it begins anew; default: so long as its last sample counts.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write it for a study: NAME.csv for {kind: table}, NAME.trace for {kind: trace}."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what was measured of a path over time, and write it as a link of a study.

    It says how it understood the file, and shows the rate from beginning to end, where it begins
    anew.
    """
    from polypath.traces import KINDS, TraceError, lasting, packaged, read

    if direction not in (None, "upload", "download"):
        raise TraceError(f'--direction "{direction}" is neither upload nor download')
    if file is not None and file.suffix not in (".csv", ".trace"):
        raise TraceError(f"--out {file}: its name ends in .csv for a table of rate, delay and loss, or in .trace for chances to send")
    chosen: dict[str, tuple[str, str]] = {}
    for text in columns or []:
        kind, equals, rest = text.partition("=")
        name, _, unit = rest.rpartition(":") if ":" in rest else (rest, "", "")
        if kind not in KINDS or not equals or not name:
            raise TraceError(f"--column {text}: write which column is the {_COLUMNS}, like --column rate=DL_bitrate:kbit")
        if kind in chosen:
            raise TraceError(f"--column {text}: a second column for the {kind}; take one of them")
        chosen[kind] = (name, unit)
    there = packaged()
    own = None if Path(what).exists() else there.get(what)
    if own is None and not Path(what).is_file():
        raise TraceError(f"there is no file {what}, and no trace of this name: there are {', '.join(there)}")
    measured = read(own.file if own else Path(what), chosen, direction)
    if own or length:
        measured = lasting(measured, _console.time_of("--length", length, TraceError) / 1e9 if length else own.length if own else 0.0)
    wrote = None if file is None else _write(file, measured)
    if as_json:
        samples = [{"time_s": each.at, "rate_bps": each.rate, "delay_s": each.delay, "loss": each.loss} for each in measured.samples]
        _console.give({"understood": list(measured.said), "length_s": measured.length, "samples": samples})
        return
    print_ = _console.out.print
    for sentence in [own.about] if own else measured.said:
        print_(sentence, markup=False, highlight=False, soft_wrap=True)
    for line in _shown(measured):
        print_(line, markup=False, highlight=False, soft_wrap=True)
    if wrote:
        print_(wrote, markup=False, highlight=False, soft_wrap=True)


_WIDE = 72
_QUEUE_S, _PACKET_BITS = 0.1, 1514 * 8


def _shown(measured: Measurement) -> list[str]:
    """Each figure over time as a line of bars, with its least, mean and largest value."""
    from polypath.traces import FIGURES

    lines = []
    for name, unit, scale in zip(FIGURES, ("Mbit/s", "ms", "%"), (1e-6, 1e3, 100.0), strict=True):
        values = measured.values(name)
        if not values or (name == "loss" and not any(values)):
            continue
        top = max(values) or 1.0
        bars = "".join(_console.BARS[min(round(value / top * 8), 8)] for value in measured.spans(name, _WIDE))
        low, mean, high = (scale * value for value in (min(values), measured.mean(name) or 0.0, max(values)))
        lines += [f"{name:5} |{bars}|", f"      {low:.3g} to {high:.3g} {unit}, on average {mean:.3g}"]
    return [*lines, f"      0 s {'':{_WIDE - 14}} {measured.length:g} s, then it begins anew"]


def _write(file: Path, measured: Measurement) -> str:
    from polypath.results import replace_file
    from polypath.traces import as_chances, as_table

    table = file.suffix == ".csv"
    text = as_table(measured) if table else as_chances(measured)
    replace_file(file, text.encode())
    has_rate, has_delay = bool(measured.values("rate")), bool(measured.values("delay")) and table
    parts = [f"kind: {'table' if table else 'trace'}", f"file: {file.name}", *([f"repeat: {measured.length:g}s"] if table else [])]
    # What the mean rate carries in 100 ms.
    packets = max(round((measured.mean("rate") or 0.0) * _QUEUE_S / _PACKET_BITS), 4)
    parts += [f"queue: {packets}packets"] if has_rate else []
    chain = [f"{{{', '.join(parts)}}}", *([] if has_delay else ["{kind: delay, delay: 20ms}"])]
    yours = [*([f"the queue (here {1000 * _QUEUE_S:g} ms at the mean rate)"] if has_rate else []), *([] if has_delay else ["the delay"])]
    fill = f"fill in {' and '.join(yours)}, and" if yours else "fill in"
    lost = " A trace has no delay: what was measured of it is lost." if not table and measured.values("delay") else ""
    return (
        f"wrote {file}; in a study, on a link ({'all engines' if table else 'engines sim and host'}): forward: [{', '.join(chain)}]\n"
        f"This is the direction that was measured, from the link's first end: {fill} `backward`, the other one.{lost}"
    )
