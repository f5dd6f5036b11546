"""What the results of the atlas say, as Markdown tables and a figure.

    polypath run studies/atlas                  # or a part of it: --only draw=1..2000
    python studies/atlas/map.py results/atlas bulk      # or ratios, page, settings; all without one
    python studies/atlas/map.py results/atlas --figure gain.png

Gains are beside TCP (cubic) alone on the better of the two links, in the same network.
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path

import numpy as np
import pandas as pd

from polypath import Results

# The slower link's rate, and the slower round trip, beside the other link's.
RATES = [0, 0.1, 0.25, 0.5, 1]
DELAYS = [1, 1.5, 3, 1000]
# What counts as better and as worse.
MORE = 1.1


def rows(results: Results, experiment: str, metric: str) -> pd.DataFrame:
    """A row a network and setting: `value`, and `alone`, the same of TCP on the better link; `gain` is above 1 where MPTCP is better."""
    own = results.runs.query("experiment == @experiment and engine == 'sim'")
    # Lost connections and transfers that did not end have no figure.
    alone = results.baselines.query("experiment == @experiment and engine == 'sim'")
    best = alone.groupby("draw")[metric].agg("min" if metric == "completion_s" else "max")
    found = own.assign(value=own[metric], alone=own["draw"].map(best))
    found["gain"] = found["alone"] / found["value"] if metric == "completion_s" else found["value"] / found["alone"]
    home, mobile = found["home_rate"].astype(float), found["mobile_rate"].astype(float)
    found["rates"] = np.minimum(home, mobile) / np.maximum(home, mobile)
    first, second = found["home_delay"].astype(float), found["mobile_delay"].astype(float)
    found["delays"] = np.maximum(first, second) / np.minimum(first, second)
    return found


def markdown(heads: list[str], body: list[list[str]]) -> str:
    """A Markdown table: the first column text, the others figures."""
    lines = [f"| {' | '.join(heads)} |", f"| --- |{' ---: |' * (len(heads) - 1)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in body)])


def shares(gain: pd.Series) -> list[str]:
    """How gains are spread."""
    return [
        f"{gain.median():.2f}",
        f"{gain.quantile(0.1):.2f}",
        f"{gain.quantile(0.9):.2f}",
        f"{100 * (gain > MORE).mean():.0f} %",
        f"{100 * (gain < 1 / MORE).mean():.0f} %",
    ]


SPREAD = ["median gain", "tenth", "nine tenths", f"better by {100 * (MORE - 1):.0f} %", "worse by as much"]


def bulk(results: Results) -> str:
    """By congestion control."""
    found = rows(results, "bulk", "goodput_receiver_mbps")
    body = [[f"`{cc}`", str(len(own)), f"{own['value'].mean():.1f}", *shares(own["gain"])] for cc, own in found.groupby("cc", sort=False)]
    return markdown(["congestion control", "networks", "mean Mbit/s", *SPREAD], body)


def ratios(results: Results) -> str:
    """The gain of cubic by how equal the links are."""
    found = rows(results, "bulk", "goodput_receiver_mbps").query("cc == 'cubic'")
    body = []
    for low, high in itertools.pairwise(RATES):
        row = [f"{low:g} to {high:g}"]
        for near, far in itertools.pairwise(DELAYS):
            own = found[(found["rates"] > low) & (found["rates"] <= high) & (found["delays"] >= near) & (found["delays"] < far)]
            row.append(f"{own['gain'].median():.2f} ({len(own)})" if len(own) else "–")
        body.append(row)
    spans = ["below 1.5", "1.5 to 3", "3 or more"]
    return markdown(["rates, slower to faster", *(f"delays {span}" for span in spans)], body)


def page(results: Results) -> str:
    """By scheduler."""
    found = rows(results, "page", "completion_s")
    body = [
        [f"`{name}`", str(len(own)), f"{own['value'].median():.3f}", *shares(own["gain"])]
        for name, own in found.groupby("scheduler", sort=False)
    ]
    return markdown(["scheduler", "networks", "median s", *SPREAD], body)


def settings(results: Results) -> str:
    """Schedulers by how much longer a transfer takes than with the best one of each network, by how equal the links are."""
    found = rows(results, "page", "completion_s")
    times = found.pivot_table(index="draw", columns="scheduler", values="value")
    network = found.drop_duplicates("draw").set_index("draw")
    body = []
    for low, high in itertools.pairwise(RATES):
        chosen = network.index[(network["rates"] > low) & (network["rates"] <= high)]
        own = times.loc[times.index.intersection(chosen)].dropna()
        if own.empty:
            continue
        # Of the time that the best scheduler of each network needs.
        behind = (own.div(own.min(axis=1), axis=0) - 1).mean().sort_values()
        words = [f"`{name}` +{100 * behind[name]:.0f} %" for name in behind.index]
        body.append([f"{low:g} to {high:g}", str(len(own)), *words])
    heads = ["rates, slower to faster", "networks", "least behind the best of six", *(["then"] * (len(body[0]) - 3 if body else 0))]
    return markdown(heads, body)


def figure(results: Results, file: Path) -> None:
    """The gain of each network over the ratio of rates, by the ratio of delays."""
    import altair as alt

    found = rows(results, "bulk", "goodput_receiver_mbps").query("cc == 'cubic'")
    found = found.assign(delay=pd.cut(found["delays"], DELAYS, right=False, labels=["below 1.5", "1.5 to 3", "3 or more"]).astype(str))
    chart = (
        alt.Chart(found[["rates", "gain", "delay"]])
        .mark_circle(size=14, opacity=0.5)
        .encode(
            x=alt.X("rates", title="rate of the slower link beside the faster one").scale(type="log", domain=[0.01, 1]),
            y=alt.Y("gain", title="goodput beside TCP on the better link").scale(zero=False),
            color=alt.Color("delay", title="ratio of delays"),
        )
        .properties(width=560, height=320, title="Gain of MPTCP with cubic, a point a network")
    )
    chart.save(file, scale_factor=1.5)


TABLES = {"bulk": bulk, "ratios": ratios, "page": page, "settings": settings}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="?", default="results/atlas")
    parser.add_argument("table", nargs="?", choices=TABLES)
    parser.add_argument("--figure", type=Path)
    given = parser.parse_args()
    if given.table is None and given.results in TABLES:
        given.results, given.table = "results/atlas", given.results
    results = Results.open(given.results)
    if given.figure is not None:
        figure(results, given.figure)
    for name in TABLES if given.table is None and given.figure is None else [given.table] if given.table else []:
        print(TABLES[name](results))


if __name__ == "__main__":
    main()
