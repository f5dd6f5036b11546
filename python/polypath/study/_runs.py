"""Runs: one cell with one seed on one engine, and the plain-TCP baselines beside it. A run's key
covers all that can change its result.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ._cells import cells, cells_of_draws
from ._errors import SetupError
from ._flows import Endpoints, Flow, Ndiffports, Route
from ._kernel import bare_of_ours, scheduler_of_ours
from ._placeholder import Scalar
from ._question import Question, located
from ._reach import leads
from ._scenario import copies, links_of, scenario, seeds_make_links
from ._setup import Cell, Setup
from ._topology import node_addresses

# Raise it when stored runs of earlier versions must not be used again although the engine gives the
# same outcome.
STORE_FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """Which flow a baseline is beside, and which of its paths plain TCP has for itself; or the flow
    as it is, without the others.
    """

    of: str
    client_address: str = ""
    server_address: str = ""
    alone: bool = False


@dataclass(frozen=True, kw_only=True)
class Run:
    """One cell of a study with one seed on one engine."""

    study: str
    experiment: str
    parameters: Mapping[str, Scalar]
    seed: int
    engine: str
    # Of the engine (with its kernel, if it has one): a new version may give another result.
    version: str
    scenario: Mapping[str, Any] = field(repr=False)
    # Each connection's flow in the study.
    groups: Mapping[str, str] = field(repr=False)
    baseline: Baseline | None = None
    # Which Linux kernel, if the engine runs kernels.
    kernel: str | None = None
    # Of the sources of a person's own congestion controls that it uses, by name.
    custom: Mapping[str, str] = field(default_factory=dict)
    # Whether its captures stay as files once the tables have what they say.
    keeps_captures: bool = field(default=True, repr=False)

    @cached_property
    def key(self) -> str:
        """Names the run in the store: equal keys, equal results."""
        return key_of(self.engine, self.version, self.scenario, self.custom)

    @property
    def label(self) -> str:
        """For people: the cell in a few words."""
        parts = [f"{name}={value}" for name, value in self.parameters.items()]
        beside = [self._beside(self.baseline)] if self.baseline else []
        return ", ".join([self.experiment, *parts, f"seed {self.seed}", *beside])

    @staticmethod
    def _beside(baseline: Baseline) -> str:
        return f"{baseline.of} alone" if baseline.alone else f"tcp alone from {baseline.client_address}"


def _ours(setup: Setup) -> set[str]:
    """Congestion controls and schedulers that may be ours, by their bare names."""
    return {name for flow in setup.flows.values() for name in (bare_of_ours(flow.cc), scheduler_of_ours(flow.scheduler))}


def key_of(engine: str, version: str, scenario: Mapping[str, Any], custom: Mapping[str, str] | None = None) -> str:
    """The key of a run; `custom` are hashes of a person's own congestion controls that it uses."""
    everything = {"format": STORE_FORMAT, "engine": engine, "version": version, "scenario": scenario}
    if custom:
        everything["own"] = dict(custom)
    text = json.dumps(everything, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def runs(
    study: Question,
    *,
    engine: str,
    version: str | Callable[[str], str],
    kernel: str | None = None,
    custom: Mapping[str, str] | None = None,
    leave_out: Callable[[Cell], object] = lambda cell: None,
    draws: Collection[int] | None = None,
) -> Iterator[Run]:
    """All runs of a study in the order of its file, each cell's baselines behind it; each is made
    when it is asked for.

    An engine that runs kernels gives its version as a function of the kernel's name; `kernel` then
    stands in for the study's own. `custom` are hashes of a person's own congestion controls by name.
    Cells of which `leave_out` says why are left out, and draws that are not in `draws`. Raises
    `StudyError` at a cell of a large study that cannot be run.
    """
    try:
        for cell in cells(study) if draws is None else cells_of_draws(study, draws):
            if not leave_out(cell):
                # Most cells have the same links with every seed.
                same = None if seeds_make_links(cell.setup) else links_of(cell.setup, 0)
                for seed in cell.seeds:
                    yield from _runs_of(
                        study, cell, links_of(cell.setup, seed) if same is None else same, seed, engine, version, kernel, custom or {}
                    )
    except SetupError as error:
        raise located(study, error) from None


def _runs_of(
    study: Question,
    cell: Cell,
    links: list[dict[str, Any]],
    seed: int,
    engine: str,
    version: str | Callable[[str], str],
    kernel: str | None,
    custom: Mapping[str, str],
) -> Iterable[Run]:
    # A version that is no function of kernels belongs to an engine that has none.
    chosen = None if isinstance(version, str) else kernel or cell.setup.kernel
    fixed = version if isinstance(version, str) else version(kernel or cell.setup.kernel)

    def run(setup: Setup, baseline: Baseline | None) -> Run:
        return Run(
            study=study.name,
            experiment=cell.experiment,
            parameters=cell.parameters,
            seed=seed,
            engine=engine,
            version=fixed,
            scenario=scenario(setup, seed, kernel=chosen, links=links),
            groups={copy: name for name, flow in setup.flows.items() for copy in copies(name, flow)},
            baseline=baseline,
            kernel=chosen,
            custom={name: custom[name] for name in sorted(_ours(setup) & custom.keys())},
            keeps_captures=any(each.keep for each in setup.measure.capture),
        )

    yield run(cell.setup, None)
    if study.baselines is None:
        return
    for name, flow in cell.setup.flows.items():
        if flow.transport == "mptcp":
            for baseline in paths(cell.setup, name, flow):
                yield run(_alone(cell.setup, flow, baseline, study.baselines.cc), baseline)
    if study.baselines.alone and (len(cell.setup.flows) > 1 or any(flow.count > 1 for flow in cell.setup.flows.values())):
        for name, flow in cell.setup.flows.items():
            yield run(_without_others(cell.setup, name, flow), Baseline(of=name, alone=True))


def paths(setup: Setup, name: str, flow: Flow) -> list[Baseline]:
    """The paths a flow can take: one from each address its path manager uses.

    Each goes to the server's address of a route by hand if there is one, to the address of the same
    number where both ends have equally many, and to the first one otherwise.
    """
    own = node_addresses(setup.topology, flow.client)
    # A loopback-like address belongs to no link, so it is no path of its own.
    linked = own[: len(own) - len(setup.topology.nodes[flow.client].addresses)] or own
    match flow.path_manager:
        case Ndiffports():
            sources = [flow.client_address or own[0]]
        case Endpoints(addresses=endpoints):
            sources = list(dict.fromkeys([flow.client_address or own[0], *(endpoint.address for endpoint in endpoints)]))
        case _:
            sources = linked
    theirs = node_addresses(setup.topology, flow.server)
    by_route = {route.source: route.destination for route in reversed(flow.routes)}
    baselines = []
    for index, source in enumerate(sources):
        pair = theirs[index] if len(theirs) == len(sources) else theirs[0]
        # Of the server's addresses the first that this path reaches, where it is not that one.
        reached = [each for each in (pair, *theirs) if leads(setup.topology, flow.client, source, flow.server, each)]
        destination = by_route.get(source) or flow.server_address or next(iter(reached), pair)
        baselines.append(Baseline(of=name, client_address=source, server_address=destination))
    return baselines


def _alone(setup: Setup, flow: Flow, baseline: Baseline, cc: str) -> Setup:
    routes: tuple[Route, ...] = tuple(route for route in flow.routes if route.source == baseline.client_address)
    changes: dict[str, Any] = {
        "transport": "tcp",
        "cc": cc,
        "count": 1,
        "client_address": baseline.client_address,
        "server_address": baseline.server_address,
        "path_manager": {"kind": "fullmesh"},
        "scheduler": None,
        "routes": routes,
    }
    tcp = Flow.model_validate({**{field: getattr(flow, field) for field in flow.model_fields_set}, **changes})
    return _only(setup, baseline.of, tcp)


def _without_others(setup: Setup, name: str, flow: Flow) -> Setup:
    return _only(setup, name, Flow.model_validate({**{field: getattr(flow, field) for field in flow.model_fields_set}, "count": 1}))


def _only(setup: Setup, name: str, flow: Flow) -> Setup:
    # A baseline is one figure beside the cell's; it needs no series and no captures.
    measure = setup.measure.with_checked(series=None, capture=())
    return setup.with_checked(flows={name: flow}, measure=measure)
