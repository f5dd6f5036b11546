"""Units of columns, and their values in the study's order, for people who go on in Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from polypath.columns import columns_of
from polypath.study import Study

if TYPE_CHECKING:
    import pandas as pd

_ENDS = {"_mbps": "Mbit/s", "_ms": "ms", "_s": "s", "_bytes": "bytes", "_share": "1"}
_GROUPS = ("counters", "rejections", "links", "series", "link_series", "tunnels", "tunnel_paths")
_WORDS = {"mean_cwnd": "segments", "max_cwnd": "segments", "mss": "bytes", "pmtu": "bytes", "jain": "1", "datagram_loss": "1"}


class Units(dict[str, str]):
    """By column. pandas copies what a frame carries with every operation, and this need not be."""

    def __deepcopy__(self, memo: Any) -> Units:
        return self


def units_of(names: Iterable[str]) -> Units:
    """The unit of each column that has one; "1" is a share or another plain ratio."""
    declared = {column.name: column.unit for column in columns_of(*_GROUPS) if column.unit}
    units = {}
    for name in map(str, names):
        # An interval, and a figure of the other side, have the unit of what they are of.
        bare = name.removesuffix("_ci")
        end = next((unit for end, unit in _ENDS.items() if bare.endswith(end)), "")
        if unit := declared.get(bare) or _WORDS.get(bare) or end:
            units[name] = unit
    return Units(units)


def in_order(frame: pd.DataFrame, study: Study) -> pd.DataFrame:
    """The frame with the parameters of matrices as ordered categories: `groupby` and plots keep the
    study's order.
    """
    import pandas as pd

    axes: dict[str, dict[Any, None]] = {}
    for experiment in study.all_experiments.values():
        for name, values in experiment.matrix.items():
            axes.setdefault(name, {}).update(dict.fromkeys(values))
    # A column has one type, whatever stands in the study.
    kinds = {name: (str if pd.api.types.is_string_dtype(frame[name]) else None) for name in axes if name in frame}
    categories = {name: list(dict.fromkeys(axes[name] if kind is None else map(kind, axes[name]))) for name, kind in kinds.items()}
    return frame.assign(**{name: pd.Categorical(frame[name], categories=values, ordered=True) for name, values in categories.items()})


KEYS: Mapping[str, tuple[str, ...]] = {
    "runs": ("flow",),
    "alone": ("flow",),
    "subflows": ("flow", "subflow"),
    "links": ("link", "a_to_b"),
    "tunnels": ("tunnel", "a_to_b"),
    "tunnel_paths": ("tunnel", "a_to_b", "path"),
    "progress": ("flow", "time_s"),
    "series": ("flow", "subflow", "time_s"),
    "link_series": ("link", "a_to_b", "time_s"),
}
"""What tells the rows of a run apart, in tables that have one row for each."""
