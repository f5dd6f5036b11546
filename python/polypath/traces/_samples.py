"""What was measured of a path over time, from whatever file."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from polypath.study import Time

from ._errors import TraceError

MOST_SAMPLES = 200_000
"""Of a measurement; a day of two a second."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """From `at` until the next one; what was not measured is None."""

    at: float
    """Seconds since the beginning."""
    rate: float | None = None
    """bit/s."""
    delay: float | None = None
    """One way, seconds."""
    loss: float | None = None
    """Of the packets, from 0 to 1."""


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """A path over time, and how the file was understood."""

    samples: tuple[Sample, ...]
    length: float
    """Seconds; what follows begins anew."""
    said: tuple[str, ...] = field(default=())
    """What was understood, a sentence each."""

    def values(self, name: str) -> list[float]:
        """Those of a figure that were measured."""
        return [value for each in self.samples if (value := getattr(each, name)) is not None]

    def spans(self, name: str, number: int) -> list[float]:
        """A figure in so many equal spans of time: its mean; of losses the largest, so that no outage
        is overlooked.
        """
        times = [each.at for each in self.samples]
        values = [getattr(each, name) or 0.0 for each in self.samples]
        spans_found = []
        for span in range(number):
            first = max(bisect.bisect_right(times, span * self.length / number) - 1, 0)
            own = values[first : max(bisect.bisect_left(times, (span + 1) * self.length / number), first + 1)]
            spans_found.append(max(own) if name == "loss" else sum(own) / len(own))
        return spans_found

    def mean(self, name: str) -> float | None:
        """Over time."""
        ends = [*(each.at for each in self.samples[1:]), self.length]
        spans = [(value, end - each.at) for each, end in zip(self.samples, ends, strict=True) if (value := getattr(each, name)) is not None]
        whole = sum(span for _, span in spans)
        return sum(value * span for value, span in spans) / whole if whole > 0 else None


def measurement(file: str, raw: Iterable[Sample], said: Sequence[str], *, last: float | None = None) -> Measurement:
    """From samples in the order of the file: times from zero on, those of one time as their mean, and
    what is missing as the last that was measured. `last` is how long the last one holds.
    """
    samples = list(itertools.islice(raw, MOST_SAMPLES + 1))
    if len(samples) > MOST_SAMPLES:
        raise TraceError(f"{file}: more than {MOST_SAMPLES:,} samples are too many; measure less often, or cut the file")
    if not samples:
        raise TraceError(f"{file}: nothing was measured in it")
    words = list(said)
    for earlier, later in itertools.pairwise(samples):
        if later.at < earlier.at:
            here, there = (Time.about(each.at - samples[0].at) for each in (later, earlier))
            raise TraceError(f"{file}: {here} stands after {there}: sort the file by its time")
    begins = samples[0].at
    groups = [list(group) for _, group in itertools.groupby(samples, key=lambda each: each.at)]
    if len(groups) < len(samples):
        words.append(f"{len(samples) - len(groups)} of {len(samples)} samples have the time of another one: they count as their mean")
    merged = [
        Sample(at=group[0].at - begins, **{name: _mean([getattr(each, name) for each in group]) for name in FIGURES}) for group in groups
    ]
    steps = sorted(later.at - earlier.at for earlier, later in itertools.pairwise(merged))
    usual = steps[len(steps) // 2] if steps else (last or 1.0)
    if gaps := sum(step > 1.5 * usual for step in steps):
        words.append(f"{gaps} gap{'s' * (gaps > 1)} of more than {Time.about(usual)}: the figures before them hold on")
    kept: list[Sample] = []
    empty = 0
    for each in merged:
        before = kept[-1] if kept else each
        filled = {name: getattr(before, name) if (value := getattr(each, name)) is None else value for name in FIGURES}
        empty += any(getattr(each, name) is None and filled[name] is not None for name in FIGURES)
        kept.append(replace(each, **filled))
    # What was not measured at first is as it was when it first was.
    for name in FIGURES:
        first = next((value for each in kept if (value := getattr(each, name)) is not None), None)
        if first is not None and getattr(kept[0], name) is None:
            kept = [replace(each, **{name: first}) if getattr(each, name) is None else each for each in kept]
    if empty:
        words.append(f"in {empty} sample{'s' * (empty > 1)} something was not measured: what was measured before holds on")
    if all(getattr(each, name) is None for each in kept for name in FIGURES):
        raise TraceError(f"{file}: neither a rate nor a delay or loss was measured in it")
    return Measurement(samples=tuple(kept), length=kept[-1].at + (usual if last is None else last), said=tuple(words))


def lasting(measured: Measurement, length: float) -> Measurement:
    """The same, with another length. Raises `TraceError` where it is shorter than what was measured."""
    if length <= measured.samples[-1].at:
        last = Time.about(measured.samples[-1].at)
        raise TraceError(f"a length of {Time.about(length)} ends before the last sample, at {last}: cut the file, or take more")
    return replace(measured, length=length)


FIGURES = ("rate", "delay", "loss")


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
