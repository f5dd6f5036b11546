"""The study: one question, its set-up with placeholders, and the matrices that fill them.

A `Study` is a frozen value. Building one checks every cell of every matrix, so a study that exists can be run.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from ._claims import Claim, Published
from ._conclusion import places
from ._draw import Draw
from ._errors import SetupError
from ._flows import Flow
from ._kernel import DEFAULT_KERNEL, KernelName
from ._model import FrozenDict, Model, Name
from ._parameters import ParameterName, parameter_name
from ._placeholder import Scalar, is_placeholder
from ._quantity import Size, Time
from ._short import Short
from ._topology import Topology
from ._traces import FOLDER

# In the context of a validation: the study was made up around a topology, and nobody will run it.
NETWORK_ONLY = "network_only"

FEWEST_STARTS = 8
"""With fewer, tests of chance hardly ever speak, whatever differs."""


# Of a cell. With a run of a second each, days of running; more of them is a mistake.
MOST_SEEDS = 1_000_000


def _axis(value: Any) -> Any:
    if isinstance(value, list | tuple) and len(value) != len({(type(item), item) for item in value if not isinstance(item, list | dict)}):
        raise ValueError("a value stands here twice")
    return value


def _seeds(value: Any) -> Any:
    # `seeds: 5` means five repetitions.
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 1:
            raise ValueError("at least one repetition is needed")
        if value > MOST_SEEDS:
            raise ValueError(f"{value} repetitions are too many; the most is {MOST_SEEDS:,}")
        return tuple(range(1, value + 1))
    if isinstance(value, float | str) and not is_placeholder(value):
        raise ValueError(f"{value} is no number of repetitions: write a whole number, or a list of seeds like [1, 2, 3]")
    if isinstance(value, list | tuple) and len(set(map(str, value))) != len(value):
        raise ValueError("a seed stands here twice, and would give the same run again")
    return value


Axis = Annotated[tuple[Scalar, ...], Field(min_length=1), BeforeValidator(_axis)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Seeds = Annotated[tuple[Seed, ...], Field(min_length=1), BeforeValidator(_seeds)]
Matrix = Mapping[ParameterName, Axis]
Parameters = Mapping[ParameterName, Scalar]
SEED = "seed"
"""What a bundle may bring beside values of parameters: the seed of the cells that have it."""


def _brought(value: Any) -> Any:
    if isinstance(value, Mapping) and SEED in value and (type(value[SEED]) is not int or not 0 <= value[SEED] < 2**63):
        raise ValueError(f"a seed is a whole number from 0 on, and no {value[SEED]!r}")
    return value


BroughtName = Annotated[str, AfterValidator(lambda value: value if value == SEED else parameter_name(value))]
Bundle = Annotated[Mapping[BroughtName, Scalar], BeforeValidator(_brought)]
Bundles = Mapping[ParameterName, Mapping[str, Bundle]]


class Capture(Model):
    """Packets that a node sends to a link and gets from it, written to a pcapng; in a list, "client:wifi" is enough, or "client"."""

    node: str
    """Where packets are captured."""
    link: str | None = None
    """By default each link of the node, a file each."""
    snaplen: Size = Size("128B")
    """Bytes kept of each packet; the default holds all headers with their options."""
    packets: int = Field(default=1_000_000, ge=1)
    """Packets kept of each link; a file says how many came after them."""
    keep: bool = True
    """With false at each capture, no file stays: what they say of segments and packets is in the tables."""

    @model_validator(mode="before")
    @classmethod
    def _node_and_link(cls, value: Any) -> Any:
        if isinstance(value, str) and not is_placeholder(value):
            node, colon, link = value.partition(":")
            if not node or bool(colon) != bool(link):
                raise ValueError(f'"{value}" names no place to capture; write node and link, like "client:wifi", or a node alone')
            return {"node": node, "link": link} if link else {"node": node}
        return value

    def links(self, topology: Topology) -> list[str]:
        """The links that are captured at this node."""
        if self.link is not None:
            return [self.link]
        return [name for name, link in topology.links.items() if self.node in (end.node for end in link.ends)]

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(
            self,
            *,
            node: str,
            link: str | None = ...,
            snaplen: Size | str = ...,
            packets: int | str = ...,
            keep: bool | str = ...,
        ) -> None: ...


class Measure(Model):
    """What is measured, and when."""

    window: tuple[Time, Time] | None = None
    """Span of the goodput and of the means since a connection was established; default: all of its application's time."""
    series: Time | None = Time("100ms")
    """Interval of the series of cwnd, srtt and so on; null keeps none."""
    capture: tuple[Capture, ...] = ()
    """Where to write a pcapng of the packets."""

    @field_validator("series", mode="after")
    @classmethod
    def _has_length(cls, value: Time | None) -> Time | None:
        if value == 0:
            raise ValueError("samples that are no time apart have no end: give an interval like 100ms, or null for no series")
        return value

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(
            self,
            *,
            window: Sequence[Time | str] | str | None = ...,
            series: Time | str | None = ...,
            capture: Sequence[Capture | Mapping[str, Any] | str] | str = ...,
        ) -> None: ...


class Baselines(Model):
    """Plain TCP alone on each path of each MPTCP flow, run beside every cell."""

    cc: str = "cubic"
    """Congestion control of the plain TCP."""
    alone: bool = False
    """Also each flow of a cell with several by itself, as it is: what the harm that the others do to it is counted from."""

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(self, *, cc: str = ..., alone: bool | str = ...) -> None: ...


class Experiment(Model):
    """One matrix of a study, with what it changes in the study's set-up."""

    title: str | None = None
    """What the report calls it."""
    parameters: Parameters = Field(default_factory=FrozenDict)
    """Values that hold in this experiment; they replace the study's."""
    matrix: Matrix = Field(default_factory=FrozenDict)
    """Parameter -> its values; every combination is a cell."""
    exclude: tuple[Parameters, ...] = ()
    """Combinations that are left out; a missing parameter means any of its values."""
    topology: Topology | None = None
    """In place of the study's."""
    flows: Mapping[Name, Flow] | None = None
    """In place of the study's."""
    duration: Time | None = None
    """In place of the study's."""
    measure: Measure | None = None
    """In place of the study's."""
    kernel: KernelName | None = None
    """In place of the study's."""
    seeds: Seeds | None = None
    """In place of the study's."""

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(
            self,
            *,
            title: str | None = ...,
            parameters: Mapping[str, Scalar | str] | str = ...,
            matrix: Mapping[str, Sequence[Scalar | str] | str] | str = ...,
            exclude: Sequence[Mapping[str, Scalar | str] | str] | str = ...,
            topology: Topology | Mapping[str, Any] | str | None = ...,
            flows: Mapping[str, Flow | Mapping[str, Any] | str] | str | None = ...,
            duration: Time | str | None = ...,
            measure: Measure | Mapping[str, Any] | str | None = ...,
            kernel: str | None = ...,
            seeds: Sequence[int | str] | int | str | None = ...,
        ) -> None: ...


class Study(Model):
    """A question, the set-up that answers it, and what its paper says."""

    name: Name
    """Small letters, digits and dashes; its results go to a folder of this name."""
    title: str | None = None
    """What the report calls it."""
    question: str | None = None
    """What it is to answer; the report begins with it."""
    source: str | None = None
    """Where the set-up and the claims come from."""
    conclusion: str | None = None
    """What the results show, in Markdown; the report begins with it. `{{ goodput_receiver_mbps where cc=lia }}` stands for a value of the
    results, `{{ verdict ID }}` for the verdict on a claim."""
    highlights: Mapping[str, str] = Field(default_factory=FrozenDict)
    """What the report shows large at its head, in place of figures of its own: what it is -> its value, both written as in `conclusion`."""
    topology: Topology
    """Nodes, and the links between them."""
    flows: Mapping[Name, Flow] = Field(min_length=1, max_length=1000)
    """Who sends what to whom, by name."""
    duration: Time
    """How long applications run, from the start of a run."""
    parameters: Parameters = Field(default_factory=FrozenDict)
    """Values of parameters that no matrix varies."""
    bundles: Bundles = Field(default_factory=FrozenDict)
    """Parameter -> each of its values -> what it brings with it: values of further parameters, which belong together, and `seed` in place
    of `seeds`."""
    matrix: Matrix = Field(default_factory=FrozenDict)
    """Parameter -> its values, when there is one experiment; it is then called `main`."""
    experiments: Mapping[Name, Experiment] = Field(default_factory=FrozenDict)
    """Several matrices by name."""
    draw: Draw | None = None
    """Parameters whose values are drawn at random; each cell runs with every draw. Draws are repetitions, as those of `repeat_over`."""
    seeds: Seeds = (1,)
    """Seeds to repeat each cell with, or a number of repetitions."""
    repeat_over: tuple[ParameterName, ...] = ()
    """Parameters whose values are repetitions of a cell as seeds are, such as a later start: tables show means over them."""
    measure: Measure = Measure()
    """What is measured, besides what always is."""
    kernel: KernelName = DEFAULT_KERNEL
    """Which Linux the engine `linux` runs, and the simulator's hosts are: in quotes, "6.12"; see `polypath list kernels`."""
    baselines: Baselines | None = Baselines()
    """What runs beside the cells for comparison; null: nothing."""
    published: Published | None = None
    """Numbers to stand beside the measured ones."""
    claims: tuple[Claim, ...] = ()
    """What the study sets out to decide."""
    short: Short = Short()
    """Its short form, for engines in real time and for tests."""
    shortened: bool = False
    """Run the short form and nothing else; `polypath run --short` says so for once."""

    # The file this study was read from, with the lines of its fields: a `StudyFile`, kept untyped since it knows `Study`.
    _file: Any = PrivateAttr(default=None)
    # Its cells once they were asked for: a study cannot change, and making them takes most of the time of reading it.
    _cells: Any = PrivateAttr(default=None)
    _specimens: Any = PrivateAttr(default=None)

    @field_validator("conclusion", mode="after")
    @classmethod
    def _can_be_filled(cls, value: str | None) -> str | None:
        places(value or "")
        return value

    @field_validator("highlights", mode="after")
    @classmethod
    def _each_can_be_filled(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        for words, text in value.items():
            places(words + text)
        return value

    @model_validator(mode="after")
    def _every_cell_stands(self, info: ValidationInfo) -> Self:
        from ._check import check  # It needs `Study`, and nobody else may build an unchecked one.

        try:
            check(self, network_only=bool(info.context and info.context.get(NETWORK_ONLY)))
        except SetupError as error:
            # `where` tells the loader the line; the text alone is for those who build a study in Python.
            raise PydanticCustomError("setup", "{sentence}", {"sentence": str(error), "error": error}) from None
        return self

    @cached_property
    def all_experiments(self) -> Mapping[str, Experiment]:
        """The named experiments, or the one that the study's own matrix makes."""
        return self.experiments or {"main": Experiment(matrix=self.matrix)}

    @property
    def repeated(self) -> tuple[str, ...]:
        """Parameters whose values are repetitions of a cell."""
        return (*self.repeat_over, *(self.draw.names if self.draw else ()))

    @property
    def has_own_seeds(self) -> bool:
        """Whether each draw has seeds of its own."""
        return self.draw is not None and self.draw.own_seeds

    @property
    def varies_kernel(self) -> bool:
        """Whether parameters decide the kernel, so that no other can stand in for it."""
        return any(is_placeholder(kernel) for kernel in (self.kernel, *(each.kernel for each in self.all_experiments.values())))

    @property
    def folder(self) -> Path | None:
        """Where the study file lies; None for a study built in Python."""
        return None if self._file is None else self._file.path.parent

    def replace(self, **changes: Any) -> "Study":
        """The study with some fields changed, checked as a new one is.

        Args:
            **changes: Fields of a study, as `Study` takes them.

        Raises:
            StudyError: The changed study is wrong.
        """
        token = FOLDER.set(self.folder)
        try:
            study = Study(**{**self._said(), **changes})
        finally:
            FOLDER.reset(token)
        study._file = self._file
        return study

    def set(self, place: str, value: Any) -> "Study":
        """The study with one value changed, however deep it stands, checked as a new one is.

        Args:
            place: Where it stands, as in a study file: "flows.f.cc", "topology.links.wifi.both.rate" or "claims.0.metric". A name that is
                not there yet is added.
            value: What stands there then, as a file has it: "30mbit", or a part such as `Flow(...)`.

        Raises:
            StudyError: There is no such place, or the changed study is wrong.
        """
        from ._set import changed

        token = FOLDER.set(self.folder)
        try:
            found: Study = changed(self, place, value)
        finally:
            FOLDER.reset(token)
        return found

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> "Study":
        # It has to forget the cells of the old study.
        return self.replace(**(update or {}))

    def in_short(self) -> "Study":
        """The short form as a study of its own. It decides no claims and concludes nothing: that is for runs of full length."""
        return self.replace(name=f"{self.name}-short", shortened=True, conclusion=None, highlights={}, claims=(), published=None)

    def over_starts(self, starts: int, spread: Time) -> "Study":
        """The same cells with so many starts each, as a study of its own, to be judged as distributions.

        Every flow begins at a moment drawn from seed and name: the same moment on every engine. It decides no claims, and has no baselines.

        Args:
            starts: Repetitions of each cell; each has its seed.
            spread: The span in which flows begin that have no `start_spread` of their own.
        """

        def spread_out(flows: Mapping[str, Flow]) -> dict[str, Flow]:
            return {name: flow if flow.start_spread else flow.model_copy(update={"start_spread": spread}) for name, flow in flows.items()}

        experiments = {
            name: each.model_copy(update={"seeds": None, **({"flows": spread_out(each.flows)} if each.flows else {})})
            for name, each in self.experiments.items()
        }
        changes: dict[str, Any] = {"experiments": experiments} if experiments else {}
        return self.replace(
            name=f"{self.name}-starts",
            flows=spread_out(self.flows),
            seeds=starts,
            # A short form would cut them down to its own number.
            short=self.short.model_copy(update={"seeds": max(starts, self.short.seeds)}),
            baselines=None,
            conclusion=None,
            highlights={},
            claims=(),
            published=None,
            **changes,
        )

    def _repr_html_(self) -> str:
        """What a notebook shows: what is asked, how much is run, and the study as a file holds it."""
        from ._cells import number_of_cells

        each = "1 cell" if (cells := number_of_cells(self)) == 1 else f"{cells:,} cells"
        seeds = "1 seed" if len(self.seeds) == 1 else f"{len(self.seeds)} seeds"
        lines = [f"<b>{escape(self.title or self.name)}</b>", f"{each}, {seeds}, {self.duration} each"]
        lines[1:1] = [escape(self.question.strip())] if self.question else []
        return f"<p>{'<br>'.join(lines)}</p><details><summary>{escape(self.name)}</summary><pre>{escape(self.to_yaml())}</pre></details>"

    def to_yaml(self) -> str:
        """The study as a file would hold it."""
        from ._load import dump

        return dump(self)

    def model_dump_json(self, *, indent: int | None = None, **how: Any) -> str:
        """The study as JSON, which `Study.model_validate_json` reads back."""
        from ._load import written

        # Pydantic's own would write what was not set, too, and quantities as numbers where a placeholder might stand.
        return super().model_dump_json(indent=indent, **how) if how else json.dumps(written(self), indent=indent, ensure_ascii=False)

    @classmethod
    def load(cls, path: str | Path) -> "Study":
        """Reads a study file, or the study.yaml in a folder, as `polypath.load` does.

        Args:
            path: The file or the folder.

        Raises:
            StudyError: There is no such study, or it is wrong.
        """
        from ._load import load

        return load(path)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Study):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in type(self).model_fields)

    __hash__ = None  # type: ignore[assignment]  # It holds mappings.

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(
            self,
            *,
            name: str,
            title: str | None = ...,
            question: str | None = ...,
            source: str | None = ...,
            conclusion: str | None = ...,
            highlights: Mapping[str, str] | str = ...,
            topology: Topology | Mapping[str, Any] | str,
            flows: Mapping[str, Flow | Mapping[str, Any] | str] | str,
            duration: Time | str,
            parameters: Mapping[str, Scalar | str] | str = ...,
            bundles: Mapping[str, Mapping[str, Mapping[str, Scalar | str] | str] | str] | str = ...,
            matrix: Mapping[str, Sequence[Scalar | str] | str] | str = ...,
            experiments: Mapping[str, Experiment | Mapping[str, Any] | str] | str = ...,
            draw: Draw | Mapping[str, Any] | str | None = ...,
            seeds: Sequence[int | str] | int | str = ...,
            repeat_over: Sequence[str] | str = ...,
            measure: Measure | Mapping[str, Any] | str = ...,
            kernel: str = ...,
            baselines: Baselines | Mapping[str, Any] | str | None = ...,
            published: Published | Mapping[str, Any] | str | None = ...,
            claims: Sequence[Claim | Mapping[str, Any] | str] | str = ...,
            short: Short | Mapping[str, Any] | str = ...,
            shortened: bool | str = ...,
        ) -> None: ...
