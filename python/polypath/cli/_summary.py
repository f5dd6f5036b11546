"""What is printed after a run: each cell beside what was possible, published numbers beside measured ones, and the claims."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from polypath.results import Results

from ._console import out

if TYPE_CHECKING:
    from polypath.report import Material

_RECEIVER = "goodput_receiver_mbps"
# Columns that a narrow terminal can do without: width in characters from which they are shown.
_ROOMY = 120


def summary(results: Results, made: Material | None = None) -> RenderableType:
    """A table for each experiment, then published numbers and claims where the study has them. `made`: their material where it is there."""
    from polypath.report import material, warnings, with_limits  # The drawing library takes longer to load than most commands take to run.

    if results.runs.empty:
        return Text(f"{results.folder} holds no finished run")
    made = made or material(results)
    runs = with_limits(made)
    parts: list[RenderableType] = [_experiment(str(name), rows, made) for name, rows in runs.groupby("experiment", sort=False)]
    parts += [Text(sentence, style="yellow") for sentence in warnings(runs, made.parameters)]
    if made.published is not None:
        parts.append(_published(made))
    if made.study.claims:
        parts.append(claims(made))
    return Group(*parts)


def _experiment(name: str, rows: pd.DataFrame, made: Material) -> Table:
    from polypath.analysis import groups, limits_of_cells, summarise
    from polypath.report import MARK, varied

    by = varied(made, rows)
    if rows["flow"].nunique() > 1 or not by:
        by = [*by, "flow"]
    roomy, transfers = out.width >= _ROOMY, bool(rows["completion_s"].notna().any())
    cells = summarise(rows, by, [_RECEIVER, "goodput_sender_mbps", "share", "retransmissions", "srtt_ms", "completion_s"])
    cells = cells.merge(limits_of_cells(rows, by), on=by, how="left")
    table = _table(made.study.all_experiments[name].title or name, by)
    heads = ["runs", "receiver\nMbit/s", *["sender\nMbit/s"] * roomy, "of\npossible", "TCP alone\nMbit/s"]
    heads += [*["retrans-\nmissions", "srtt\nms"] * roomy, *["completion\ns"] * transfers]
    for head in heads:
        table.add_column(head, justify="right")
    table.add_column("limited by")
    late = rows["trusted"].eq(False).to_numpy(dtype=bool) if "trusted" in rows else np.zeros(len(rows), dtype=bool)
    alone = _alone(name, by, made.baselines)
    # `summarise` has a row a group, in their order.
    for (_, row), (values, where) in zip(cells.iterrows(), groups(rows, by), strict=True):
        runs_here = f"{row['n']} {MARK}" if late[where].any() else str(row["n"])
        texts = [runs_here, _figure(row, _RECEIVER, 2, spread=True), *[_figure(row, "goodput_sender_mbps", 2)] * roomy]
        texts += [_percent(row["share"]), alone(values, rows["group"].iloc[where])]
        texts += [*[_figure(row, "retransmissions", 0), _figure(row, "srtt_ms", 1)] * roomy]
        texts += [*[_figure(row, "completion_s", 3, spread=True)] * transfers, str(row["limited_by"])]
        table.add_row(*(str(row[column]) for column in by), *texts)
    return table


def _alone(experiment: str, by: Sequence[str], baselines: pd.DataFrame) -> Callable[[Sequence[Any], Iterable[str]], str]:
    """For a cell (its values of `by`) and the flows in it: plain TCP's mean on each path that they have, in the order of the paths."""
    from polypath.analysis import groups

    own = baselines[baselines["experiment"] == experiment]
    known = [name != "flow" and name in own for name in by]
    shared = [name for name, there in zip(by, known, strict=True) if there]
    places = dict(groups(own, ["baseline_of", *shared]))
    ways = list(zip(own["client_address"], own["server_address"], strict=True))
    goodputs = own[_RECEIVER].tolist()

    def alone(values: Sequence[Any], flows: Iterable[str]) -> str:
        cell = [value for value, there in zip(values, known, strict=True) if there]
        found: dict[tuple[str, str], list[float]] = {}
        for place in sorted(place for flow in dict.fromkeys(flows) for place in places.get((flow, *cell), ())):
            found.setdefault(ways[place], []).append(goodputs[place])
        return " / ".join(f"{sum(each) / len(each):.2f}" for each in found.values())

    return alone


def _published(made: Material) -> Table:
    from polypath.analysis import PLATFORM
    from polypath.report import published_beside

    said = made.study.published
    rows = published_beside(made)
    # What is the same in every line goes into the title.
    parts = {"column": "published as", "metric": "compared with", PLATFORM: "on"}
    shown = [part for part in parts if rows[part].nunique() > 1]
    title = [
        "published beside measured",
        *(str(rows[part].iloc[0]) for part in ("metric", PLATFORM) if part not in shown and len(rows) and rows[part].iloc[0]),
    ]
    table = _table(", ".join(title), ["cell", *(parts[part] for part in shown)])
    for head in ("published", "measured", "deviation"):
        table.add_column(head, justify="right")
    for _, row in rows.iterrows():
        measured = "not measured" if _missing(row["measured"]) else f"{row['measured']:.2f}"
        deviation = "" if _missing(row["deviation"]) else f"{100 * row['deviation']:+.1f} %"
        cell = " ".join(str(row[key]) for key in said.keys if row[key])
        table.add_row(cell, *(row[part] for part in shown), f"{row['published']:.2f}", measured, deviation)
    return table


def claims(made: Material, platforms: Sequence[str] | None = None) -> RenderableType:
    """Every claim: on one platform its verdict and why; on several the verdicts side by side, and why where they differ."""
    from polypath.analysis import PLATFORM, platforms_in_order
    from polypath.report import claims_of

    platforms = platforms or platforms_in_order(made.runs[PLATFORM])
    found = claims_of(made)
    if len(platforms) < 2:
        table = _table("claims", ["claim", "on", "verdict", "why"])
        for claim in found:
            own = claim.on(platforms[0])
            table.add_row(claim.id, own.platform, Text(str(own.verdict), style=_VERDICTS.get(own.css, "")), own.why)
        return table
    table = _table("claims", ["claim", *platforms])
    reasons: list[Text] = []
    for claim in found:
        said = [claim.on(platform) for platform in platforms]
        table.add_row(claim.id, *(Text(str(each.verdict), style=_VERDICTS.get(each.css, "")) for each in said))
        if not claim.agreed:
            reasons += [Text(f"{claim.id} on {each.platform}: {each.why}") for each in said]
    return Group(table, *reasons)


_VERDICTS = {"holds": "green", "fails": "red"}


def _table(title: str, words: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for word in words:
        table.add_column(word, vertical="bottom")
    return table


def _figure(row: pd.Series[Any], metric: str, digits: int, *, spread: bool = False) -> str:
    if _missing(row[metric]):
        return ""
    interval = row[f"{metric}_ci"] if spread else None
    return f"{row[metric]:.{digits}f}" + (f" ± {interval:.{digits}f}" if interval and not _missing(interval) else "")


def _percent(share: float) -> str:
    return "" if _missing(share) else f"{100 * share:.1f} %"


def _missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and not math.isfinite(value))
