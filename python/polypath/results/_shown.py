"""Results as a notebook shows them: a table for each kind of application."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Any

from polypath.errors import visible

if TYPE_CHECKING:
    import pandas as pd

_NEVER = ("n", "why", "of_paths", "of_possible", "limited_by", "application")


def shown(title: str, summary: pd.DataFrame) -> str:
    """HTML without a style of its own, which a notebook has; `summary` is that of the results."""
    from polypath.analysis import BY_NAME, groups

    if summary.empty:
        return f"<p>{escape(visible(title))}: no run is finished yet.</p>"
    parts = [f"<p><b>{escape(visible(title))}</b></p>"]
    start = list(summary.columns)
    who = start[: start.index("n")]
    for (name,), where in groups(summary, ["application"]):
        rows = summary.iloc[where]
        application = BY_NAME[name]
        metrics = [metric for metric in application.metrics if rows[metric.column].notna().any()]
        apart = [column for column in who if column not in _NEVER and rows[column].nunique(dropna=False) > 1]
        heads = [*apart, "runs", *(f"{metric.head}, {metric.unit}" if metric.unit else metric.head for metric in metrics)]
        heads += ["of possible", "limited by"]
        parts.append(f"<p>{escape(application.name)}</p>" if summary["application"].nunique() > 1 else "")
        parts.append("<table><thead><tr>" + "".join(f"<th>{escape(head)}</th>" for head in heads) + "</tr></thead><tbody>")
        for row in rows.to_dict("records"):
            cells = [_text(row[column]) for column in apart] + [str(row["n"])]
            cells += [_mean(row[metric.column], row[f"{metric.column}_ci"], metric.scale, metric.digits) for metric in metrics]
            share = float(row["of_possible"])
            cells += [f"{100 * share:.1f} %" if math.isfinite(share) else "", str(row["limited_by"])]
            why = f' title="{escape(visible(str(row["why"])))}"'
            parts.append(f"<tr{why}>" + "".join(f"<td>{escape(visible(cell))}</td>" for cell in cells) + "</tr>")
        parts.append("</tbody></table>")
    return "".join([*parts, "<p>Means over the runs, ± half of their 95 % interval.</p>"])


def _text(value: Any) -> str:
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else str(value)


def _mean(value: float, half: float, scale: float, digits: int) -> str:
    if not math.isfinite(value):
        return ""
    spread = scale * half if math.isfinite(half) else 0.0
    return f"{scale * value:.{digits}f}" + (f" ± {spread:.{digits}f}" if spread >= 0.5 * 10**-digits else "")
