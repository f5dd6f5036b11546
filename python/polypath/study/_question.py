"""What a study asks, as data: its set-up with placeholders, the matrices that fill them, and what
its paper says. `Study` checks it.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, field_validator

from ._claims import Claim, Published
from ._conclusion import blanks
from ._draw import Draw
from ._errors import SetupError, StudyError
from ._file import StudyFile
from ._flows import Flow
from ._kernel import DEFAULT_KERNEL, KernelName
from ._measure import Measure
from ._model import FrozenDict, Model, Name
from ._parameters import ParameterName, parameter_name
from ._placeholder import Scalar, is_placeholder
from ._quantity import Time
from ._setup import Cell
from ._short import Short
from ._topology import Topology

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


class Baselines(Model):
    """Plain TCP alone on each path of each MPTCP flow, run beside every cell."""

    cc: str = "cubic"
    """Congestion control of the plain TCP."""
    alone: bool = False
    """Also each flow of a cell with several by itself, as it is: what the harm that the others do
    to it is counted from.
    """

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


class Question(Model):
    """The fields of a study."""

    name: Name
    """Small letters, digits and dashes; its results go to a folder of this name."""
    title: str | None = None
    """What the report calls it."""
    question: str | None = None
    """What it is to answer; the report begins with it."""
    source: str | None = None
    """Where the set-up and the claims come from."""
    conclusion: str | None = None
    """What the results show, in Markdown; the report begins with it.
    `{{ goodput_receiver_mbps where cc=lia }}` stands for a value of the results, `{{ verdict ID }}`
    for the verdict on a claim.
    """
    highlights: Mapping[str, str] = Field(default_factory=FrozenDict)
    """What the report shows large at its head, in place of figures of its own: what it is -> its
    value, both written as in `conclusion`.
    """
    topology: Topology
    """Nodes, and the links between them."""
    flows: Mapping[Name, Flow] = Field(default_factory=FrozenDict, max_length=1000)
    """Who sends what to whom, by name; may be left out where each experiment has its own."""
    duration: Time
    """How long applications run, from the start of a run."""
    parameters: Parameters = Field(default_factory=FrozenDict)
    """Values of parameters that no matrix varies."""
    bundles: Bundles = Field(default_factory=FrozenDict)
    """Parameter -> each of its values -> what it brings with it: values of further parameters,
    which belong together, and `seed` in place of `seeds`.
    """
    matrix: Matrix = Field(default_factory=FrozenDict)
    """Parameter -> its values, when there is one experiment; it is then called `main`."""
    experiments: Mapping[Name, Experiment] = Field(default_factory=FrozenDict)
    """Several matrices by name."""
    draw: Draw | None = None
    """Parameters whose values are drawn at random; each cell runs with every draw. Draws are
    repetitions, as those of `repeat_over`.
    """
    seeds: Seeds = (1,)
    """Seeds to repeat each cell with, or a number of repetitions."""
    repeat_over: tuple[ParameterName, ...] = ()
    """Parameters whose values are repetitions of a cell as seeds are, such as a later start: tables
    show means over them.
    """
    measure: Measure = Measure()
    """What is measured, besides what always is."""
    kernel: KernelName = DEFAULT_KERNEL
    """Which Linux the engine `linux` runs, and the simulator's hosts are: in quotes, "6.12"; see
    `polypath list kernels`.
    """
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

    # The file this study was read from, with the lines of its fields.
    _file: StudyFile | None = PrivateAttr(default=None)
    # Its cells once they were asked for: a study cannot change, and making them takes most of the
    # time of reading it.
    _cells: Sequence[Cell] | None = PrivateAttr(default=None)
    _specimens: Sequence[Cell] | None = PrivateAttr(default=None)

    @field_validator("conclusion", mode="after")
    @classmethod
    def _can_be_filled(cls, value: str | None) -> str | None:
        blanks(value or "")
        return value

    @field_validator("highlights", mode="after")
    @classmethod
    def _each_can_be_filled(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        for words, text in value.items():
            blanks(words + text)
        return value

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
        return None if self.file is None else self.file.parent

    @property
    def file(self) -> Path | None:
        """The study file; None for a study built in Python."""
        return None if self._file is None else self._file.path


def located(study: Question, error: SetupError) -> StudyError:
    """A mistake that was found after loading (by an engine), with file and line if the study has
    them.
    """
    return error if study._file is None else study._file.error(error.where, error.sentence)
