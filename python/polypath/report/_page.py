"""The page as data: sections in the order in which a reader asks, every sentence made from numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
from markupsafe import Markup

from polypath.analysis import PLATFORM, Verdict, applications_in, path_bounds, platforms_in_order, summarise
from polypath.plot import Figure
from polypath.study import kernel_of

from . import _answers, _events, _fairness, _figures, _tables
from ._against import AgainstView, against_view
from ._answers import AnswerView
from ._claims import ClaimView, claims_of, verdicts
from ._compare import ComparisonView, view
from ._conclusion import conclusion, highlights
from ._fairness import FairnessView
from ._format import mean_ci, number, percent, several
from ._headlines import COMPARED, headlines, limiting
from ._material import GOODPUT, Material, experiments, label, varied, with_limits
from ._notes import notes
from ._segments import mtu_searches
from ._tables import Cell, Column, Table
from ._timing import timing, warnings

RESULTS = "Results"
MOST_CHARTS = 2
"""Experiments whose charts stand at the head of the page; of more, each keeps its own."""


@dataclass(frozen=True, kw_only=True)
class ExperimentView:
    name: str
    title: str
    headlines: Sequence[str]
    answers: Sequence[AnswerView]
    """What applications got that goodput does not tell."""
    bars: Figure | None
    """None where every application has figures of its own."""
    results: Table
    paths: Table
    order: Table | None
    outages: Table | None
    """None where no link was ever down."""
    over_time: Sequence[Figure]
    fairness: FairnessView | None
    """None where no two flows ran together."""

    @property
    def figures(self) -> list[Figure]:
        drawn = [self.bars, *(answer.bars for answer in self.answers)]
        return [*(figure for figure in drawn if figure is not None), *(self.fairness.figures if self.fairness else ()), *self.over_time]


@dataclass(frozen=True, kw_only=True)
class Fact:
    """A large figure at the head of the page."""

    value: str
    words: str
    css: str = ""


@dataclass(frozen=True, kw_only=True)
class Page:
    title: str
    name: str
    question: str
    source: str
    conclusion: Markup | None
    """What the study says that its results show; None where it says nothing."""
    engine: str
    facts: Sequence[Fact]
    highlighted: bool
    """Whether the study itself says which figures are to be large: then they stand before its
    conclusion.
    """
    headlines: Sequence[str]
    charts: Sequence[Figure]
    """What shows the answer; these figures stand nowhere else on the page."""
    against: AgainstView | None
    """None where no value is set against the others."""
    topology: Figure
    bounds: Table
    setup: Sequence[tuple[str, str]]
    experiments: Sequence[ExperimentView]
    comparison: ComparisonView | None
    """None where only one engine ran."""
    published: Table | None
    published_source: str
    claims: Sequence[ClaimView]
    verdicts: Table | None
    """Of each claim on each platform; None where there is only one."""
    timing: Table | None
    """None where nothing ran in real time."""
    single: Table | None
    baseline_cc: str
    seeds: str
    versions: Mapping[str, str]
    repeat: Sequence[str]

    @property
    def figures(self) -> list[Figure]:
        compared = [*(self.comparison.figures if self.comparison else ()), *(self.against.figures if self.against else ())]
        return [self.topology, *(figure for experiment in self.experiments for figure in experiment.figures), *compared]

    def at_head(self, figure: Figure) -> bool:
        """Whether it is one of the charts at the head of the page."""
        return any(chart.name == figure.name for chart in self.charts)

    @property
    def topology_lies_across(self) -> bool:
        """Whether the drawing of the network is printed on a page of its own, across: upright paper
        would make its letters too small.
        """
        match = re.search(r'viewBox="\S+ \S+ (\S+)', self.topology.svg)
        return match is not None and float(match[1]) > _WIDEST_UPRIGHT


_WIDEST_UPRIGHT = 950.0
"""Pixels of a drawing that upright A4, 688 px between its margins, shows with letters of three
quarters of their size.
"""


def page(material: Material) -> Page:
    """Everything the template shows."""
    study = material.study
    runs = with_limits(material)
    beware, harmless = notes(material)
    views = [_experiment(str(name), rows, material, harmless) for name, rows in runs.groupby("experiment", sort=False)]
    platforms = platforms_in_order(runs[PLATFORM])
    claims = claims_of(material)
    concluded = conclusion(material, claims)
    compared = against_view(material, drawn=True)
    seeds = sorted({int(seed) for seed in runs["seed"]})
    first = material.scenarios[str(runs["key"].iloc[0])]
    return Page(
        title=study.title or study.name,
        name=study.name,
        question=(study.question or "").strip(),
        source=study.source or "",
        conclusion=concluded,
        engine=several(platforms),
        facts=_facts(runs, claims, platforms, highlights(material, claims), material),
        highlighted=bool(study.highlights),
        headlines=[
            *(compared.sentences if compared else ()),
            *(f"Beware: {sentence}." for sentence in (*material.origin, *warnings(runs, material.parameters), *beware)),
            # A study that concludes needs no sentences of ours about it; each experiment keeps its
            # own.
            *(line for view in views for line in view.headlines if concluded is None),
        ],
        charts=compared.figures[:1] if compared and compared.figures else _charts(views),
        against=compared,
        topology=_figures.drawing(material),
        bounds=_bounds(first, material.paths_of(runs.head(1))),
        setup=_setup(first, material),
        experiments=views,
        comparison=view(material),
        published=_tables.published(material),
        published_source=getattr(study.published, "source", None) or "",
        claims=claims,
        verdicts=verdicts(claims, platforms) if len(platforms) > 1 else None,
        timing=timing(material),
        single=_tables.single(material, material.paths_of(runs)),
        baseline_cc=several(sorted({str(cc) for cc in material.baselines.get("flow_cc", pd.Series(dtype=str)).dropna()})),
        seeds=_seeds(seeds, runs, own=study.has_own_seeds),
        versions=material.versions,
        repeat=material.repeat,
    )


def _experiment(name: str, rows: pd.DataFrame, material: Material, never_up: Sequence[str]) -> ExperimentView:
    names = varied(material, rows)
    said = material.study.all_experiments[name]
    table = _tables.cells(rows, names)
    title = said.title or (RESULTS if len(material.study.all_experiments) == 1 else name)
    answers = _answers.views(name, "" if title == RESULTS else title, rows, names)
    bulk = rows["application"].eq(_answers.BULK)
    greedy = table[table["flow"].isin(rows["flow"][bulk])]
    # What applications with a rate of their own got stands in their own tables.
    goodputs, sent = (greedy, rows[bulk]) if bulk.any() else (table, rows)
    # A study with one experiment without a title needs no word for it.
    lead = "" if title == RESULTS else title
    first = [" ".join(headlines(lead, rows, greedy, names)), *limiting(greedy)] if bulk.any() else []
    return ExperimentView(
        name=name,
        title=title,
        headlines=[*first, *(answer.headline for answer in answers)],
        answers=answers,
        bars=_figures.bars(name, rows, greedy, names, material) if bulk.any() else None,
        results=_tables.results(sent, goodputs, names, material, _possible(rows, material)),
        paths=_tables.paths(rows, names, material.subflows, material.paths_of(rows), never_up),
        order=_tables.order(rows, names),
        outages=_events.table(name, names, material),
        over_time=_figures.over_time_of(name, rows, names, material),
        fairness=_fairness.view(
            name,
            rows[rows["application"].isin(_fairness.CONTENDING)],
            names,
            alone=bool(rows["application"].isin(_fairness.CONTENDING).all()),
        ),
    )


def _charts(views: Sequence[ExperimentView]) -> list[Figure]:
    """Of each experiment the first figure, which shows what its cells got."""
    first = [(view, next(iter(view.figures), None)) for view in views]
    drawn = [(view, figure) for view, figure in first if figure is not None and figure not in view.over_time]
    if len(views) > MOST_CHARTS:
        return []
    return [figure if len(views) == 1 else replace(figure, title=f"{view.title}: {figure.title}") for view, figure in drawn]


def _facts(
    runs: pd.DataFrame, claims: Sequence[ClaimView], platforms: Sequence[str], highlights: Mapping[str, str], material: Material
) -> list[Fact]:
    """`highlights`: those of the study itself; where it has some, the report adds none of its own
    about applications.
    """
    facts = [Fact(value=value, words=words) for words, value in highlights.items()]
    if claims:
        # With several platforms the last one, the reference, decides.
        kinds = {verdict: sum(claim.decisions[0].verdict is verdict for claim in claims) for verdict in Verdict}
        rest = [f"{n} {'do not' if verdict is Verdict.FAILS else 'not measured'}" for verdict, n in list(kinds.items())[1:] if n]
        where = f" on {platforms[-1]}" if len(platforms) > 1 else ""
        words = f"claims hold{where}" + (f"; {', '.join(rest)}" if rest else "")
        facts.append(Fact(value=f"{kinds[Verdict.HOLDS]} of {len(claims)}", words=words))
        if len(platforms) > 1:
            alike = sum(claim.agreed for claim in claims)
            facts.append(Fact(value=f"{alike} of {len(claims)}", words="claims have the same verdict wherever they were measured"))
    facts += () if highlights else _best(runs, material)
    facts.append(Fact(value=str(runs["key"].nunique()), words=f"runs, {runs['seed'].nunique()} seed{'s' * (runs['seed'].nunique() > 1)}"))
    return facts


def _best(runs: pd.DataFrame, material: Material) -> list[Fact]:
    """What the best cell got, where the cells answer one question: they differ in what studies
    compare, or there is one. Cells under several conditions, and several flows, have no best.
    """
    names = varied(material, runs)
    compares = bool(names) and runs[names[0]].nunique(dropna=False) > 1
    if runs["experiment"].nunique() > 1 or runs["flow"].nunique() > 1 or (compares and (len(names) > 1 or names[0] not in COMPARED)):
        return []
    (kind,) = applications_in(runs)
    main = kind.main
    if main.column not in runs or runs[main.column].isna().all():
        return []
    cells = summarise(runs, [*names, "flow"], [main.column, "share_all"])
    lowest = main.better != "higher"
    best = cells.sort_values(main.column, ascending=lowest, kind="stable").iloc[0]
    value = mean_ci(main.scale * best[main.column], main.scale * best[f"{main.column}_ci"], main.digits)
    of = f", {label(dict(best), names, 1)}: the {'lowest' if lowest else 'highest'} {main.head} of {len(cells)} cells"
    words = f"{main.unit}{of if len(cells) > 1 else f', {main.head}'}"
    share = float(best["share_all"])
    allowed = f"of what the links allow{f': {label(dict(best), names, 1)}' if len(cells) > 1 else ''}"
    return [Fact(value=value, words=words)] + [Fact(value=percent(share), words=allowed)] * (share > 0)


def _possible(rows: pd.DataFrame, material: Material) -> str:
    """Where the bound of the first cell comes from."""
    scenario = material.scenarios[str(rows["key"].iloc[0])]
    named = material.paths_of(rows.head(1))
    bounds, sentences = path_bounds(scenario), []
    for flow, ways in bounds.groupby("flow", sort=False):
        known = ways[ways["alone_mbps"].between(0, math.inf, inclusive="neither")]
        if known.empty or len(known) < len(ways) or known["payload_bytes"].eq(0).any():
            continue
        sizes = dict.fromkeys(f"{row['payload_bytes']} of {row['packet_bytes']}" for _, row in known.iterrows())
        called = [named.get((row["source"], row["destination"]), row["hops"]) for _, row in known.iterrows()]
        paths = [f"{name} {number(alone)}" for name, alone in zip(called, known["alone_mbps"], strict=True)]
        of_flow = rows[(rows["flow"] == flow) & (rows["key"] == rows["key"].iloc[0])]
        together = f", together {number(of_flow['bound_mbps'].iloc[0])}" if len(paths) > 1 and len(of_flow) else ""
        sentences.append(f"{flow}: {several(paths)} Mbit/s{together} (payload is {several(list(sizes))} bytes of a full packet)")
    if not sentences:
        return ""
    more = f"; and {len(sentences) - _MOST_SAID} more flows" if len(sentences) > _MOST_SAID else ""
    return (
        "Possible is the payload that the links carry, with every other flow silent and nothing lost to the start: "
        f"{'; '.join(sentences[:_MOST_SAID])}{more}. Figures of the first cell."
    )


_MOST_SAID = 3


def _bounds(scenario: Mapping[str, Any], named: Mapping[tuple[str, str], str]) -> Table:
    columns = [
        Column(title="Flow", numeric=False),
        Column(
            title="Path", help="The link that no other path of the flow takes, as the study calls it; of several the slowest", numeric=False
        ),
        Column(title="Addresses", numeric=False),
        Column(title="Links", numeric=False),
        Column(title="Bottleneck", numeric=False),
        Column(title="Payload of a full packet", unit="bytes", help="Bytes of payload in the largest IP packet that passes"),
        Column(title="Possible alone", unit="Mbit/s", help="Rate of the bottleneck times payload over frame"),
    ]
    rows = [
        [
            Cell(text=str(row["flow"]), css="name"),
            Cell(text=named.get((row["source"], row["destination"]), ""), css="name"),
            Cell(text=f"{row['source']} → {row['destination']}", css="ends"),
            Cell(text=str(row["hops"]), css="words"),
            Cell(text=str(row["bottleneck"]) or "none", css="words"),
            Cell(text=f"{row['payload_bytes']} of {row['packet_bytes']}"),
            Cell(text=number(row["alone_mbps"], 3), css="strong"),
        ]
        for _, row in path_bounds(scenario).iterrows()
    ]
    return Table(columns=columns, rows=rows)


def _setup(scenario: Mapping[str, Any], material: Material) -> list[tuple[str, str]]:
    facts = []
    for flow in scenario["flows"]:
        start, end = (edge / 1e9 for edge in flow["window_ns"])
        ends = (flow["client"], flow["server"]) if flow.get("direction") != "download" else (flow["server"], flow["client"])
        opened = "" if flow.get("direction") != "download" else f", opened by {flow['client']}"
        words = [f"{flow['transport'].upper()} from {ends[0]} to {ends[1]}{opened}", _application(flow["app"])]
        if flow["transport"] == "mptcp":
            words.append(f"MPTCP of Linux {kernel_of(scenario, flow['client'])}")
            words.append(f"path manager {flow['mptcp']['path_manager']['kind']}")
            if flow["mptcp"].get("scheduler"):
                words.append(f"scheduler {flow['mptcp']['scheduler']}")
        stops = int(flow["app"].get("duration_ns") or scenario["duration_ns"])
        until = "until the sender stops" if int(flow["window_ns"][1]) >= stops else f"until {end:g} s after"
        words.append(f"measured from {start:g} s after the connection stood {until}")
        facts.append((f"Flow {flow['name']}", ", ".join(words)))
    for name, rows in experiments(material).items():
        axes = [
            f"{parameter}: {', '.join(dict.fromkeys(str(value) for value in rows[parameter].dropna()))}"
            for parameter in material.parameters
            if parameter in rows and rows[parameter].notna().any()
        ]
        facts.append((f"Experiment {name}", "; ".join(axes) or "one cell"))
    for name, about in mtu_searches(material, material.runs).items():
        facts.append((f"Search for the MTU {name}", about))
    for node in scenario["nodes"]:
        if node.get("sysctl"):
            settings = ", ".join(f"{key} = {_setting(value)}" for key, value in node["sysctl"].items())
            facts.append((f"Settings of {node['name']}", settings))
    return facts


def _setting(value: Any) -> str:
    return " ".join(str(item) for item in value) if isinstance(value, Sequence) and not isinstance(value, str) else str(value)


def _seconds(app: Mapping[str, Any]) -> str:
    """How long an application runs; a start that was drawn leaves a number with many digits."""
    length = int(app["duration_ns"]) / 1e9
    return f"{length:.3g}" if length < 1000 else f"{length:.0f}"


def _application(app: Mapping[str, Any]) -> str:
    if app["kind"] == "bulk":
        return f"sends as fast as it can for {_seconds(app)} s"
    if app["kind"] == "transfer":
        return f"sends {int(app['bytes']) / 1e6:g} MB"
    if app["kind"] == "requests":
        sizes = f"{int(app['request_bytes'])} bytes, waits for {int(app['response_bytes'])}"
        return f"asks with {sizes} and asks again {int(app['pause_ns']) / 1e6:g} ms later, for {_seconds(app)} s"
    rate = f" at {int(app['bits_per_s']) / 1e6:g} Mbit/s" if app.get("bits_per_s") else ""
    if not app["off_ns"]:
        return f"sends{rate} for {_seconds(app)} s"
    return f"sends{rate} for {int(app['on_ns']) / 1e9:g} s and rests for {int(app['off_ns']) / 1e9:g} s, in turn"


def _seeds(seeds: Sequence[int], runs: pd.DataFrame, *, own: bool) -> str:
    words = ", ".join(str(seed) for seed in seeds)
    if len(seeds) < 2:
        return f"Seed {words}. One run a cell, so no confidence intervals."
    words = f"Seeds of each draw's own, {len(seeds)} in all" if own else f"Seeds {words}"
    names = [column for column in runs.columns if column in ("experiment", "flow")]
    spread = runs.groupby([*names, *[c for c in runs.columns if c == "cc"]], dropna=False)[GOODPUT].std().max()
    same = " All repetitions of a cell gave the same figures: nothing in this set-up is drawn at random." if spread == 0 else ""
    return f"{words}. Intervals are of the mean, 95 %, by Student’s t.{same}"
