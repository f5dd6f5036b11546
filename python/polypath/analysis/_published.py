"""Published values beside measured ones."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ._names import SUBFLOW
from ._statistics import half_width


def beside(
    measured: pd.DataFrame, published: pd.DataFrame, keys: Sequence[str], compare: Mapping[str, str], spread: str | None = None
) -> pd.DataFrame:
    """A row a published value: the keys, `column`, `metric`, `published`, `measured` with `ci` and
    `n`, and the relative `deviation`.

    `measured` is the table of runs, or of subflows, already narrowed to the cells meant. `compare`
    maps a column of `published` to a metric; `spread` names a column that is taken over. A
    published cell that nothing measured keeps its row with `measured` missing. Published numbers of
    one subflow are not beside runs, whose table has no column `subflow`.

    A key that is text, such as a field of a CSV file, means the text of the study file ("1e-2",
    "6.10"), and beside a measured number that number.
    """
    metrics = {metric: measured[metric].to_numpy(dtype=float, na_value=math.nan) for metric in compare.values() if metric in measured}
    rows = []
    records = published[list(dict.fromkeys([*compare, *([spread] if spread else [])]))].to_dict("records")
    for line, (row_texts, match) in zip(records, matches(measured, published, keys), strict=True):
        if SUBFLOW in keys and SUBFLOW not in measured and row_texts[list(keys).index(SUBFLOW)]:
            continue
        for column, metric in compare.items():
            if pd.isna(line[column]):
                continue
            said = float(line[column])
            matching = metrics[metric][match] if metric in metrics else np.empty(0)
            values = matching[~np.isnan(matching)].tolist()
            got = sum(values) / len(values) if values else math.nan
            rows.append(
                {
                    **dict(zip(keys, row_texts, strict=True)),
                    "column": column,
                    "metric": metric,
                    "published": said,
                    "measured": got,
                    "ci": half_width(values),
                    "n": int(match.sum()),
                    "deviation": (got - said) / said if said else 0.0 if got == said else math.nan,
                    **({"spread": line[spread]} if spread else {}),
                }
            )
    columns = [*keys, "column", "metric", "published", "measured", "ci", "n", "deviation", *(["spread"] if spread else [])]
    return pd.DataFrame(rows, columns=columns)


def matches(
    measured: pd.DataFrame, published: pd.DataFrame, keys: Sequence[str]
) -> Iterator[tuple[tuple[str, ...], npt.NDArray[np.bool_]]]:
    """Of each published row the texts of its keys, and which of the measured rows it is beside."""
    # As arrays: to narrow a table of many columns for each value takes a hundred times as long.
    own = [key for key in keys if key != SUBFLOW or SUBFLOW in measured]
    measured_texts = {key: texts(measured[key]).to_numpy(dtype=object) for key in own}
    numeric = {key: measured[key].map(lambda value: isinstance(value, numbers.Real)).to_numpy(dtype=bool) for key in own}
    for row_texts in zip(*(texts(published[key]) for key in keys), strict=True):
        match = np.full(len(measured), fill_value=True)
        for key, wanted in zip(keys, row_texts, strict=True):
            # An empty field says nothing of its column.
            if wanted and key not in own:
                match[:] = False
            elif wanted:
                match &= (measured_texts[key] == wanted) | (numeric[key] & (measured_texts[key] == _of_number(wanted)))
        yield row_texts, match


def texts(values: pd.Series[Any]) -> pd.Series[str]:
    """Values as text, so that 1, 1.0 and "1" are one; missing ones are empty."""
    # Of few values many rows; 1, 1.0 and True are one key of a dictionary.
    known: dict[tuple[type, Any], str] = {}
    said = []
    for value in values.tolist():
        of = type(value), value
        if of not in known:
            known[of] = "" if pd.isna(value) else text(value)
        said.append(known[of])
    return pd.Series(said, values.index, dtype=str)


def text(value: object) -> str:
    """One of them."""
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(float(value))
    return str(value)


def _of_number(value: str) -> str:
    """The text of the number that a text says; of any other text itself."""
    try:
        return text(float(value))
    except (ValueError, OverflowError):
        return value
