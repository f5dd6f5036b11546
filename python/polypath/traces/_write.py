"""A path over time as studies read it: a table of rate, delay and loss, or mahimahi's chances."""

from __future__ import annotations

from collections.abc import Iterator

from polypath.study import Rate, Share, Time

from ._errors import TraceError
from ._samples import FIGURES, Measurement

CHANCE_BYTES = 1504
"""What a chance of a mahimahi trace sends."""
# The least that a link can have, bit/s; what is lower lets nothing pass.
_LEAST = 1000


def as_table(measured: Measurement) -> str:
    """CSV with units, as `{kind: table}` reads it; where nothing passes, a loss of 100 %."""
    samples = measured.samples
    cut = [each.rate is not None and each.rate < _LEAST for each in samples]
    there = [name for name in FIGURES if getattr(samples[0], name) is not None]
    rates = [each.rate for each, none in zip(samples, cut, strict=True) if not none and each.rate is not None]
    if "rate" in there and not rates:
        raise TraceError("nothing passed in all of the measurement, so there is no link to write")
    if any(cut) and "loss" not in there:
        there.append("loss")
    lines = [",".join(["time", *there])]
    rate = rates[0] if rates else 0.0
    before: list[str] = []
    for each, none in zip(samples, cut, strict=True):
        rate = rate if none or each.rate is None else each.rate
        cells = {
            "rate": str(Rate.base(round(rate))),
            "delay": str(Time.base(round((each.delay or 0.0) * 1e6) * 1000)),
            "loss": str(Share(f"{100 * (1.0 if none else each.loss or 0.0):.4f}%")),
        }
        row = [cells[name] for name in there]
        if row != before:
            lines.append(",".join([str(Time.base(round(each.at * 1e6) * 1000)), *row]))
        before = row
    return "\n".join(lines) + "\n"


def as_chances(measured: Measurement) -> str:
    """A mahimahi trace: a line a chance to send, ms. The last one is at the end, where it begins anew."""
    if measured.samples[0].rate is None:
        raise TraceError("a trace of chances is a rate over time, and none was measured; write a table: --out NAME.csv")
    times = list(_chances(measured))
    end = round(measured.length * 1000)
    if not times or end < 1:
        raise TraceError(f"less than {CHANCE_BYTES} bytes passed in all of the measurement, so a trace would have no chance to send")
    times[-1] = end
    return "".join(f"{time}\n" for time in times)


_MOST_CHANCES = 3_000_000


def _chances(measured: Measurement) -> Iterator[int]:
    sent, chances = 0.0, 0
    ends = [*(each.at for each in measured.samples[1:]), measured.length]
    for each, end in zip(measured.samples, ends, strict=True):
        rate = (each.rate or 0.0) * (1 - (each.loss or 0.0)) / 8
        if rate <= 0:
            continue
        after = sent + rate * (end - each.at)
        while (chances + 1) * CHANCE_BYTES <= after:
            chances += 1
            if chances > _MOST_CHANCES:
                raise TraceError(f"a trace of more than {_MOST_CHANCES:,} chances is too long: write a table (--out NAME.csv), or cut it")
            yield max(round(1000 * (each.at + (chances * CHANCE_BYTES - sent) / rate)), 1)
        sent = after
