"""Results beside one another: over the draws that all of them have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ._errors import BenchmarkError
from ._record import Record
from ._score import Ratio, Score, overall, ratio, score
from ._set import families


@dataclass(frozen=True, kw_only=True)
class Rank:
    """One result among others, by the test half."""

    rank: int
    record: Record
    score: Score
    of_best: Ratio
    """Its score over the first one's, paired over the draws."""
    families: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Ranking:
    draws: int
    """All up to this one; the test half of them counts."""
    ranks: tuple[Rank, ...]
    left_out: tuple[Record, ...]
    """Those of the open half alone."""


def ranking(records: Sequence[Record]) -> Ranking:
    """Of results of one kind. Raises `BenchmarkError` where none has the test half."""
    whole = [record for record in records if record.only is None]
    if not whole:
        raise BenchmarkError("no result here has the test half, whose score counts: run one without --half")
    most = min(record.draws for record in whole)
    draws = whole[0].of_half("test", most)
    ordered = sorted(whole, key=lambda record: -overall(record.figures, draws).mean)
    ranks = tuple(
        Rank(
            rank=number,
            record=record,
            score=overall(record.figures, draws),
            of_best=ratio(record.figures, ordered[0].figures, draws),
            families={name: score([by_draw[draw] for draw in draws]).mean for name, by_draw in record.figures.items()},
        )
        for number, record in enumerate(ordered, start=1)
    )
    return Ranking(draws=most, ranks=ranks, left_out=tuple(record for record in records if record.only is not None))


@dataclass(frozen=True, kw_only=True)
class Worst:
    """A network of the open half in which a result is far behind the best."""

    family: str
    experiment: str
    draw: int
    figure: float
    best: float | None
    by: str | None
    """Who has the best figure there; None where no other algorithm ran."""


def worst(record: Record, others: Sequence[Record], number: int = 5) -> list[Worst]:
    """The networks in which it is furthest behind the best of the others."""
    rows = []
    experiments = {family.name: family.experiment for family in families(record.kind)}
    for family, by_draw in record.figures.items():
        for draw in record.of_half("open"):
            best = max(
                (other for other in others if draw in other.figures[family]), key=lambda one: one.figures[family][draw], default=None
            )
            figure = None if best is None else best.figures[family][draw]
            by = None if best is None else best.title
            rows.append(Worst(family=family, experiment=experiments[family], draw=draw, figure=by_draw[draw], best=figure, by=by))
    # Networks in which it ran alone stand last.
    return sorted(rows, key=lambda one: (one.best is None, one.figure / (one.best or 1), one.family, one.draw))[:number]
