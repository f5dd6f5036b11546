"""The study's claims, decided on each platform (an engine with its kernel) by itself, and the
verdicts beside one another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from polypath.analysis import PLATFORM, ClaimResult, Evidence, Verdict, evaluate, platforms_in_order, select

from . import _tables
from ._material import GOODPUT, Material
from ._tables import Cell, Column, Table

OTHER_VIEW = {GOODPUT: "goodput_sender_mbps", "goodput_sender_mbps": GOODPUT}
VIEWS = {GOODPUT: "the receiver’s view", "goodput_sender_mbps": "the sender’s view"}
CSS = {Verdict.HOLDS: "holds", Verdict.FAILS: "fails", Verdict.NOT_MEASURED: "unknown"}


@dataclass(frozen=True, kw_only=True)
class DecisionView:
    """What one platform says of a claim."""

    platform: str
    verdict: Verdict
    css: str
    why: str
    numbers: Table | None
    other: str
    """The verdict by the other end's view of the goodput; empty where there is none."""


@dataclass(frozen=True, kw_only=True)
class ClaimView:
    id: str
    sentence: str
    source: str | None
    rule: str
    decisions: Sequence[DecisionView]
    """One a platform: the reference first, since it decides, then the others in the order of the
    comparison.
    """

    @property
    def css(self) -> str:
        return self.decisions[0].css

    @property
    def agreed(self) -> bool:
        """Whether all platforms that measured it say the same."""
        return len({decision.verdict for decision in self.decisions} - {Verdict.NOT_MEASURED}) < 2

    def on(self, platform: str) -> DecisionView:
        return next(decision for decision in self.decisions if decision.platform == platform)


def claims_of(material: Material) -> list[ClaimView]:
    """Every claim of the study in its order, with its verdict on each platform of the results."""
    if "claims" not in material.kept:
        material.kept["claims"] = _claims_of(material)
    claims: list[ClaimView] = material.kept["claims"]
    return claims


def _claims_of(material: Material) -> list[ClaimView]:
    platforms = platforms_in_order(material.runs[PLATFORM])
    reference_first = [*platforms[-1:], *platforms[:-1]]
    decided = {name: list(zip(claim_results(material, name), other_views(material, name), strict=True)) for name in reference_first}
    views = []
    for number, claim in enumerate(material.study.claims):
        decisions = [_decision(name, *decided[name][number]) for name in reference_first]
        rule = decided[platforms[-1]][number][0].rule
        views.append(ClaimView(id=claim.id, sentence=claim.sentence, source=claim.source, rule=rule, decisions=decisions))
    return views


def verdicts(claims: Sequence[ClaimView], platforms: Sequence[str]) -> Table:
    """A row a claim, a column a platform."""
    columns = [Column(title="Claim", numeric=False), *(Column(title=platform, numeric=False) for platform in platforms)]
    rows = []
    for claim in claims:
        decisions = [claim.on(platform) for platform in platforms]
        rows.append(
            [Cell(text=claim.id, css="name"), *(Cell(text=str(decision.verdict), css=f"said {decision.css}") for decision in decisions)]
        )
    return Table(columns=columns, rows=rows)


def claim_results(material: Material, platform: str | None = None) -> list[ClaimResult]:
    """The study's claims, decided on the tables of one platform (an engine with its kernel), or of
    all.
    """
    return evaluate(material.study.claims, _evidence(material, platform))


def other_views(material: Material, platform: str | None = None) -> list[tuple[str, ClaimResult] | None]:
    """For each claim about a goodput, the name of the other end's view and the verdict by it: a
    paper may have counted at the other end.
    """
    turned = [
        claim.model_copy(update={"metric": OTHER_VIEW[claim.metric]})
        if claim.metric in OTHER_VIEW and claim.check.kind not in ("within", "varies")
        else None
        for claim in material.study.claims
    ]
    decided = iter(evaluate([claim for claim in turned if claim is not None], _evidence(material, platform)))
    return [None if claim is None else (VIEWS[claim.metric], next(decided)) for claim in turned]


def _evidence(material: Material, platform: str | None) -> Evidence:
    """The tables of a platform; kept, since every claim about a goodput is decided twice."""
    kept: dict[str | None, Evidence] = material.kept.setdefault("evidence", {})
    if platform not in kept:
        kept[platform] = _evidence_of(material, platform)
    return kept[platform]


def _evidence_of(material: Material, platform: str | None) -> Evidence:
    said = material.study.published
    restricted = {} if platform is None else {PLATFORM: platform}
    # Values of what is repeated are repetitions of one cell.
    parameters = [name for name in material.parameters if name in material.runs and name not in material.study.repeated]
    return Evidence(
        runs=select(material.runs, restricted),
        series=select(material.living, restricted),
        subflows=select(material.subflows, restricted),
        published=material.published,
        keys=tuple(said.keys) if said else (),
        published_where=dict(said.where) if said else {},
        compare=dict(said.compare) if said else {},
        parameters=["experiment", *parameters, "flow"],
    )


def _decision(platform: str, result: ClaimResult, other: tuple[str, ClaimResult] | None) -> DecisionView:
    words = "" if other is None else f"By {other[0]} it {_verb(other[1].verdict)}: {other[1].why}."
    return DecisionView(
        platform=platform,
        verdict=result.verdict,
        css=CSS[result.verdict],
        why=result.why,
        numbers=_tables.numbers(result),
        other=words,
    )


def _verb(verdict: Verdict) -> str:
    return "was not measured" if verdict is Verdict.NOT_MEASURED else str(verdict)
