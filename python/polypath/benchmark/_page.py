"""A result, and a ranking, as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ._rank import Rank, Ranking, Worst, ranking, worst
from ._record import Record
from ._score import overall, ratio, score
from ._set import HALVES, WORDS, families

Network = Callable[[Worst], str]
"""What is drawn of a network, in words."""


def markdown(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *body))


def page(record: Record, built_in: Sequence[Record], network: Network, again: str, alone: str) -> str:
    """The page of one result among the built-in algorithms; `again`: the command that gives it,
    `alone`: that of one network.
    """
    others = [other for other in built_in if (other.name, other.source) != (record.name, record.source)]
    halves = [which for which in HALVES if record.of_half(which)]
    parts = [f"# {record.title}: {overall(record.figures, record.of_half(halves[0]))}"]
    parts.append(
        f"The score of the {WORDS[record.kind]} {record.title} in the {halves[0]} half of draws 1 to {record.draws}, of 100, with its 95 % "
        f"interval; the simulator of {record.polypath}."
    )
    if record.only is None and others:
        parts.append(_standing(record, others))
    parts.append(markdown(["family", *(f"{which} half" for which in halves), "best built-in"], _families(record, others, halves)))
    weakest = worst(record, others)
    parts.append("Furthest behind the best built-in algorithm, in the open half:" if others else "The worst, in the open half:")
    parts.append("\n".join(f"- {_worst(one)}; {network(one)}" for one in weakest))
    if record.linux is not None:
        parts += _linux(record)
    parts.append(f"Again: `{again}`. A network by itself: `{alone}`.")
    return "\n\n".join(parts) + "\n"


def table(ranked: Ranking) -> str:
    """Places with the scores of all families."""
    first = ranked.ranks[0].record
    head = [WORDS[first.kind], "place", "score", *(family.name for family in families(first.kind))]
    body = [
        [f"`{place.record.title}`", _rank(place), str(place.score), *(f"{value:.0f}" for value in place.families.values())]
        for place in ranked.ranks
    ]
    return markdown(head, body)


def as_plain(ranked: Ranking) -> list[dict[str, object]]:
    """For programs."""
    return [
        {
            "rank": place.rank,
            "kind": place.record.kind,
            "name": place.record.name,
            "source": place.record.source,
            "polypath": place.record.polypath,
            "score": [place.score.mean, place.score.low, place.score.high],
            "of_best": [place.of_best.mean, place.of_best.low, place.of_best.high],
            "families": place.families,
        }
        for place in ranked.ranks
    ]


def _rank(place: Rank) -> str:
    return f"{place.rank}" if place.of_best.tells_apart or place.rank == 1 else f"{place.rank} ="


def _standing(record: Record, others: Sequence[Record]) -> str:
    ranked = ranking([record, *others])
    place = next(place for place in ranked.ranks if place.record is record)
    sentence = f"Place {place.rank} of {len(ranked.ranks)} among the built-in algorithms"
    if ranked.draws < record.draws:
        sentence += f", over draws 1 to {ranked.draws}"
    first = ranked.ranks[0]
    if place is not first:
        of = place.of_best
        sentence += f"; of the score of {first.record.title} it has {of.mean:.2f} ({of.low:.2f} to {of.high:.2f})"
    mine = [other.record.title for other in ranked.ranks if other is not place and not _apart(record, other.record, ranked.draws)]
    sentence += f"; not told apart from {', '.join(mine)}." if mine else "."
    versions = sorted({other.polypath for other in others} - {record.polypath})
    return f"{sentence} The built-in algorithms were measured by {', '.join(versions)}." if versions else sentence


def _apart(record: Record, other: Record, draws: int) -> bool:
    return ratio(record.figures, other.figures, record.of_half("test", draws)).tells_apart


def _families(record: Record, others: Sequence[Record], halves: Sequence[str]) -> list[list[str]]:
    rows = []
    for name, by_draw in record.figures.items():
        row = [name]
        for which in HALVES:
            if which in halves:
                row.append(str(score([by_draw[draw] for draw in record.of_half(which)])))
        rows.append([*row, _best(name, others)])
    return rows


def _best(family: str, others: Sequence[Record]) -> str:
    """Over their own test halves."""
    means = [(score([other.figures[family][draw] for draw in other.of_half("test")]).mean, other.title) for other in others]
    return f"{max(means)[1]} {max(means)[0]:.1f}" if means else ""


def _worst(one: Worst) -> str:
    beside = "" if one.best is None else f", {one.by} {one.best:.3g}"
    where = "" if one.family == one.experiment else f" (experiment `{one.experiment}`)"
    return f"`{one.family}`{where}, draw {one.draw}: {one.figure:.3g}{beside}"


def _linux(record: Record) -> list[str]:
    assert record.linux is not None, "the caller looked"
    rows, apart = [], 0
    for name, by_draw in record.linux.figures.items():
        draws = sorted(by_draw)
        here = {name: record.figures[name]}
        of = ratio({name: by_draw}, here, draws)
        apart += of.tells_apart
        both = [f"{score([values[draw] for draw in draws]).mean:.1f}" for values in (record.figures[name], by_draw)]
        rows.append([name, *both, f"{of.mean:.2f} ({of.low:.2f} to {of.high:.2f})"])
    draws = sorted(next(iter(record.linux.figures.values())))
    sentence = (
        f"Linux {record.linux.kernel} in {len(draws)} of the draws is told apart from the simulator in {apart} of {len(rows)} families."
    )
    sentence += " A wide interval says that the draws are too few to tell."
    return [sentence, markdown(["family", "simulator", "Linux", "Linux over the simulator"], rows)]
