"""Columns that the engines' counters and series have in the tables: declared in Rust, a line each,
and read from there.

`crates/transport/src/counters.rs` and `crates/link/src/counters.rs` have the counters,
`crates/sim/src/outcome.rs` the series; their heads say how to add one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from polypath import _native


@dataclass(frozen=True, kw_only=True)
class Declared:
    """One counter, or one column of a series."""

    # counters, rejections, links, series or link_series.
    group: str
    # The engines' name of the value, and the column's.
    raw: str
    name: str
    # The column's unit; "" for a plain number, or for what is named by its place.
    unit: str
    # How much of the engines' unit is one of that.
    divisor: float
    # Counters of Linux whose sum it is.
    linux: tuple[str, ...]
    meaning: str

    @property
    def is_count(self) -> bool:
        """Whether it is a whole number as the engines have it."""
        return self.divisor == 1

    @property
    def type(self) -> pa.DataType:
        """The column's type."""
        return pa.int64() if self.is_count else pa.float64()

    def scaled(self, value: int | None) -> float | None:
        """A value of an engine in the column's unit."""
        return value if value is None or self.is_count else value / self.divisor

    def scaled_all(self, values: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
        """Values of an engine in the column's unit."""
        return values if self.is_count else scaled(values, self.divisor)


def scaled(values: pa.ChunkedArray, unit: float) -> pa.Array:
    """Values over a unit."""
    # Divided, not multiplied by the inverse: 300 000 000 ns are 0.3 s then, and not
    # 0.30000000000000004. What is not known is NaN as a float; null in the table.
    return pa.array(values.to_numpy().astype(np.float64) / unit, from_pandas=True)


def columns_of(*groups: str) -> tuple[Declared, ...]:
    """What is declared in these groups, in the order of its declaration."""
    declared = (
        Declared(group=group, raw=raw, name=name, unit=unit, divisor=divisor, linux=tuple(linux), meaning=meaning)
        for group, raw, name, unit, divisor, linux, meaning in _native.columns()
    )
    return tuple(column for column in declared if column.group in groups)
