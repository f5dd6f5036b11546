"""Parameters that are drawn at random, so that a study is over a population of networks and not
over one.

A value depends on the study's seed of drawing, the number of the draw and the parameter's name
alone: not on how many are drawn, on other parameters, or on a library's generator.
"""

import bisect
import hashlib
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from ._model import Model
from ._parameters import NUMBER_OF_DRAW, ParameterName
from ._placeholder import Scalar, names_in

# The fields of which one says the distribution.
_DISTRIBUTIONS = ("uniform", "loguniform", "lognormal", "choice")


def _weighted(value: Any) -> Any:
    are_values = isinstance(value, list | tuple) and all(isinstance(each, Scalar) for each in value)
    return dict.fromkeys(value, 1.0) if are_values else value


class Drawn(Model):
    """The distribution of a parameter: one of `uniform`, `loguniform`, `lognormal`, `choice`."""

    uniform: tuple[float, float] | None = None
    """Least and greatest value."""
    loguniform: tuple[float, float] | None = None
    """Least and greatest value of one whose logarithm is uniform."""
    lognormal: tuple[float, float] | None = None
    """Median, and the factor that is one standard deviation of the logarithm: two thirds lie within
    this factor of the median.
    """
    choice: Annotated[Mapping[Scalar, float], Field(min_length=1), BeforeValidator(_weighted)] | None = None
    """Values with their weights, or a list of values that are equally likely."""
    digits: int = Field(default=3, ge=1, le=15)
    """Significant digits of a drawn number; nobody knows a link's rate to the bit."""

    @model_validator(mode="after")
    def _one_that_stands(self) -> Self:
        given = [name for name in _DISTRIBUTIONS if getattr(self, name) is not None]
        if any(True for name in (*_DISTRIBUTIONS, "digits") for _ in names_in(getattr(self, name))):
            raise ValueError("a distribution holds no placeholder: it is drawn from before parameters have their values")
        if len(given) != 1:
            raise ValueError(f"give one of {', '.join(_DISTRIBUTIONS)}; there {'are ' + ' and '.join(given) if given else 'is none'}")
        for name in ("uniform", "loguniform"):
            span = getattr(self, name)
            if span is not None and not span[0] < span[1]:
                raise ValueError(f"`{name}: [{span[0]:g}, {span[1]:g}]` spans nothing; write the least value first, and then the greatest")
        if self.loguniform is not None and self.loguniform[0] <= 0:
            raise ValueError(f"`loguniform` begins at {self.loguniform[0]:g}; only what is greater than 0 has a logarithm")
        if self.lognormal is not None and (self.lognormal[0] <= 0 or self.lognormal[1] < 1):
            raise ValueError("`lognormal` takes a median greater than 0 and a factor of 1 or more")
        if self.choice is not None and (min(self.choice.values()) < 0 or not sum(self.choice.values()) > 0):
            raise ValueError("weights of a `choice` are 0 or more, and one of them is more")
        return self

    def value(self, chance: float) -> Scalar:
        """The value that has this much of the distribution below it; `chance` is above 0 and below
        1.
        """
        if self.choice is not None:
            possible = [value for value, weight in self.choice.items() if weight > 0]
            sums = list(itertools.accumulate(weight for weight in self.choice.values() if weight > 0))
            return possible[min(bisect.bisect_right(sums, chance * sums[-1]), len(possible) - 1)]
        if self.uniform is not None:
            least, greatest = self.uniform
            return self._rounded(least + chance * (greatest - least))
        if self.loguniform is not None:
            least, greatest = self.loguniform
            return self._rounded(least * (greatest / least) ** chance)
        assert self.lognormal is not None, "one of them was given"
        median, factor = self.lognormal
        return self._rounded(median * factor ** NormalDist().inv_cdf(chance))

    def _rounded(self, value: float) -> float:
        return float(f"{value:.{self.digits}g}") if value else 0.0

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(
            self,
            *,
            uniform: Sequence[float | str] | str | None = ...,
            loguniform: Sequence[float | str] | str | None = ...,
            lognormal: Sequence[float | str] | str | None = ...,
            choice: Mapping[str, float | str] | str | None = ...,
            digits: int | str = ...,
        ) -> None: ...


class Draw(Model):
    """Parameters whose values are drawn: every cell of a matrix is run with each draw."""

    number: int = Field(ge=1, le=1_000_000)
    """How many draws; the first ones stay what they are when there are more."""
    seed: int = Field(default=1, ge=0, lt=2**63)
    """From which the draws are made."""
    own_seeds: bool = False
    """With true the runs of each draw have seeds of their own, made from `seed` here, the draw's
    number and the study's `seeds`; by default all draws have the study's.
    """
    parameters: Mapping[ParameterName, Drawn] = Field(min_length=1)
    """Parameter -> its distribution."""

    def values(self, number: int) -> dict[str, Scalar]:
        """The parameters of one draw, and its number."""
        return {NUMBER_OF_DRAW: number, **{name: drawn.value(_chance(self.seed, number, name)) for name, drawn in self.parameters.items()}}

    def seeds_of(self, number: int, seeds: Sequence[int]) -> tuple[int, ...]:
        """The seeds of one draw's runs; `seeds` are those that the study gives to its cells."""
        return tuple(_own_seed(self.seed, number, seed) for seed in seeds) if self.own_seeds else tuple(seeds)

    @property
    def names(self) -> tuple[str, ...]:
        """What it gives to every cell, the number first."""
        return (NUMBER_OF_DRAW, *self.parameters)

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(
            self,
            *,
            number: int | str,
            seed: int | str = ...,
            own_seeds: bool | str = ...,
            parameters: Mapping[str, Drawn | Mapping[str, Any] | str] | str,
        ) -> None: ...


def numbers_in(text: str) -> range:
    """Draws by their numbers: "7", or "1..100" for all from the first to the last. Raises
    ValueError for anything else.
    """
    first, dots, last = text.partition("..")
    numbers = range(int(first), int(last if dots else first) + 1)
    if not numbers or numbers[0] < 1:
        raise ValueError(f"{text} names no draws")
    return numbers


def spans_of(numbers: Iterable[int]) -> list[str]:
    """Numbers of draws as `numbers_in` reads them."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return [str(first) if first == last else f"{first}..{last}" for first, last in spans]


def _chance(seed: int, number: int, name: str) -> float:
    """Uniform between 0 and 1, neither of them; the same on every machine."""
    digest = hashlib.sha256(f"{seed}/{number}/{name}".encode()).digest()
    return math.ldexp((int.from_bytes(digest[:8]) >> 12) + 0.5, -52)


def _own_seed(seed: int, number: int, given: int) -> int:
    """A seed of a draw's own. No parameter is called so, for no name has a slash; and 48 bits pass
    through any table and JSON unharmed.
    """
    return int.from_bytes(hashlib.sha256(f"{seed}/{number}/seed/{given}".encode()).digest()[:6])
