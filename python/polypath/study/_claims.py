"""Claims and published numbers as data: what a paper says, and the check on the results that
decides it.

Nothing here evaluates anything; `polypath.analysis` does.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from ._model import FrozenDict, Model, Name, kind_of
from ._placeholder import Scalar
from ._quantity import Share
from ._traces import checked_file

Where = Mapping[str, Scalar | tuple[Scalar, ...]]
"""Rows of a table: column -> value, or one of several values. `experiment` and `flow` are columns
as the parameters are.
"""


class Order(Model):
    """The cells' means fall in this order, highest first."""

    kind: Literal["order"] = "order"
    by: str
    """Parameter whose values are ordered."""
    of: tuple[Scalar, ...] = Field(min_length=2)
    """Its values, highest first."""
    apart: Share = Share("0%")
    """A neighbour counts as higher only if it is higher by more than this share of the lower one; a
    tie breaks the order.
    """

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(self, *, kind: str = ..., by: str, of: Sequence[Scalar | str] | str, apart: Share | str = ...) -> None: ...


class Above(Model):
    """The mean of the left cells is above `factor` times that of the right ones."""

    kind: Literal["above"] = "above"
    left: Where
    """The cells that are to have more: parameters with their values."""
    right: Where | tuple[Where, ...] | float
    """Cells, several selections (then the claim must hold against each), or a number."""
    factor: float = 1.0
    """So many times the right side."""
    apart: Share = Share("0%")
    """By how much of the right side the left one must be above it."""

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(
            self,
            *,
            kind: str = ...,
            left: Mapping[str, Any] | str,
            right: Sequence[Mapping[str, Any] | str] | float | Mapping[str, Any] | str,
            factor: float | str = ...,
            apart: Share | str = ...,
        ) -> None: ...


class Below(Model):
    """The mean of the left cells is below `factor` times that of the right ones."""

    kind: Literal["below"] = "below"
    left: Where
    """The cells that are to have less: parameters with their values."""
    right: Where | tuple[Where, ...] | float
    """Cells, several selections (then the claim must hold against each), or a number."""
    factor: float = 1.0
    """So many times the right side."""
    apart: Share = Share("0%")
    """By how much of the right side the left one must be below it."""

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(
            self,
            *,
            kind: str = ...,
            left: Mapping[str, Any] | str,
            right: Sequence[Mapping[str, Any] | str] | float | Mapping[str, Any] | str,
            factor: float | str = ...,
            apart: Share | str = ...,
        ) -> None: ...


class Within(Model):
    """Every cell's mean is this close to the published value."""

    kind: Literal["within"] = "within"
    of: Share
    """How far from the published value a mean may lie."""
    published: str
    """Column of the published table."""
    spread: str | None = None
    """Column of the published table with a distance that is allowed as well, in the metric's unit,
    such as that of its own repetitions.
    """

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(self, *, kind: str = ..., of: Share | str, published: str, spread: str | None = ...) -> None: ...


class Between(Model):
    """Every cell's mean lies between these bounds; one may be missing."""

    kind: Literal["between"] = "between"
    low: float | None = None
    """The least mean."""
    high: float | None = None
    """The largest mean."""

    @model_validator(mode="after")
    def _has_a_bound(self) -> Self:
        if self.low is None and self.high is None:
            raise ValueError("give `low`, `high` or both")
        return self

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(self, *, kind: str = ..., low: float | str | None = ..., high: float | str | None = ...) -> None: ...


class Varies(Model):
    """A column of the series varies over time: its coefficient of variation is above a bound in
    every group.
    """

    kind: Literal["varies"] = "varies"
    series: str
    """Column of the series table."""
    by: tuple[str, ...]
    """Columns that part the groups."""
    more_than: Share
    """What standard deviation over mean must exceed."""

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(self, *, kind: str = ..., series: str, by: Sequence[str] | str, more_than: Share | str) -> None: ...


class Decides(Model):
    """A parameter decides the metric: in every cell of the others its values are spread widely, and
    most pairs can be told apart.
    """

    kind: Literal["decides"] = "decides"
    by: str
    """Parameter that decides; the cells are those of all others, experiment and flow included."""
    factor: float = 1.0
    """The largest mean of a cell must be clearly above so many times the smallest."""
    pairs: Share = Share("50%")
    """At least this share of all pairs of values must differ by more than the confidence interval
    of their difference.
    """

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(self, *, kind: str = ..., by: str, factor: float | str = ..., pairs: Share | str = ...) -> None: ...


Check = Annotated[
    Annotated[Order, Tag("order")]
    | Annotated[Above, Tag("above")]
    | Annotated[Below, Tag("below")]
    | Annotated[Within, Tag("within")]
    | Annotated[Between, Tag("between")]
    | Annotated[Varies, Tag("varies")]
    | Annotated[Decides, Tag("decides")],
    Discriminator(kind_of),
]


class Claim(Model):
    """A sentence and the check that decides it."""

    id: Name
    """Its name in tables and the report."""
    sentence: str
    """What is claimed, in words."""
    source: str | None = None
    """Where it is claimed."""
    metric: str = "goodput_receiver_mbps"
    """Column that the check reads."""
    table: Literal["runs", "subflows"] = "runs"
    """Of which table: a row a connection, or a row a subflow. Of the latter `subflow`, counted from
    0, may stand in `where`.
    """
    where: Where = Field(default_factory=FrozenDict)
    """Rows it reads; all if empty."""
    check: Check
    """What decides it."""

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(
            self,
            *,
            id: str,
            sentence: str,
            source: str | None = ...,
            metric: str = ...,
            table: str = ...,
            where: Mapping[str, Any] | str = ...,
            check: Order | Above | Below | Within | Between | Varies | Decides | Mapping[str, Any] | str,
        ) -> None: ...


class Published(Model):
    """A table of published numbers: a CSV file beside the study file."""

    file: Annotated[str, AfterValidator(checked_file)]
    """A CSV file beside the study."""
    source: str | None = None
    """Where the numbers come from."""
    keys: tuple[str, ...] = Field(min_length=1)
    """Columns of the CSV: parameters of the matrix, `experiment`, `flow` or `subflow`. A field left
    empty matches any value.
    """
    where: Where = Field(default_factory=FrozenDict)
    """Cells that the numbers are compared with; all if empty."""
    compare: Mapping[str, str]
    """Column of the CSV -> column of the runs table; with the key `subflow`, of the table of
    subflows too.
    """

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(
            self,
            *,
            file: str,
            source: str | None = ...,
            keys: Sequence[str] | str,
            where: Mapping[str, Any] | str = ...,
            compare: Mapping[str, str] | str,
        ) -> None: ...
