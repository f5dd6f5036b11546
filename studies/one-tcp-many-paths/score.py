"""Goals and score of a congestion control in this study: python studies/one-tcp-many-paths/score.py

goals CC [KERNEL]       the paper's networks: a row an experiment; on a kernel the sample
cells CC [KERNEL]       each of their cells
drawn HALF[:N] CC ...   the score in drawn networks; HALF is open or test, N the number of its first draws
harm CC ...             what cubic, reno and bbr have beside it
constant                what windows reach that do not change
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from figure_tables import RESULTS, table

from polypath import Results, Study, run
from polypath.analysis import possible

HERE = Path(__file__).parent
ALONE = ["mpt-delay", "mpt-loss", "mpt-memory", "ours-delay", "ours-loss"]
BESIDE = ["mpt-beside", "ours-beside", "ours-beside-loss"]
GOODPUT = "goodput_receiver_mbps"
CAPACITY, JAIN, QUEUE = 0.9, 0.9, 1.05
# The drawn networks' queue is held against the best of these, and fairness with losses against the first.
BUILT_IN = ["cubic", "reno", "bbr", "bbr3"]
LEAST = 0.01
# What a kernel is asked, with one seed, in this order; chosen before the first result, but for the
# shares at 30 ms and 4 % of the connection alone. Without a delay cubic's queue is the measure.
SAMPLE = [
    {"experiment": "ours-beside", "delay": "30ms"},
    {"experiment": "ours-beside-loss", "loss": "4%"},
    {"experiment": "ours-delay", "delay": ["0ms", "30ms"]},
    {"experiment": "ours-loss", "loss": "4%"},
    {"experiment": "ours-beside", "delay": "10ms"},
]
WINDOWS = [25, 100, 400, 800, 1200, 1600, 2000, 3000]


def ran(file: str, names: list[str], own: Path | None = None, **how: Any) -> Results:
    """The study with these congestion controls."""
    asked = yaml.safe_load((HERE / file).read_text(encoding="utf-8"))
    for experiment in asked["experiments"].values():
        experiment["matrix"]["cc"] = names
    asked.pop("short")
    return run(Study.model_validate(asked), cc_path=own, **how)


def possible_mbps(results: Results, keys: Iterable[str]) -> dict[str, float]:
    """What the links allow the flow f of a run, by key; of equal networks computed once."""
    found: dict[str, float] = {}
    for key in dict.fromkeys(keys):
        rows = possible(results.scenario(key)).set_index("flow")["possible_mbps"]
        found[key] = float(rows["f"])
    return found


def paper(cc: str, *kernel: str) -> pd.DataFrame:
    """A row a cell of the paper's networks: the share of the capacity or Jain's index, the call's
    delay over what is allowed, means over the seeds.
    """
    names = list(dict.fromkeys([cc, "cubic"]))
    if kernel:
        linux = {"engine": "linux", "kernel": kernel[0], "out": RESULTS.with_name("figures-linux")}
        for part in SAMPLE:
            results = ran("study.yaml", names, only=part, seeds=1, **linux)
    else:
        results = ran("study.yaml", names, only={"experiment": [*ALONE, *BESIDE]}, out=RESULTS)
    runs = results.runs[results.runs["cc"].isin(names)]
    wide = runs.pivot_table(
        index=["experiment", "cc", "delay", "loss", "key"], columns="flow", values=[GOODPUT, "delay_p95_ms"]
    ).reset_index()
    wide.columns = [part[0] if not part[1] else f"{part[1]}_{part[0]}" for part in wide.columns]
    most = possible_mbps(results, wide["key"])
    wide["share"] = wide[f"f_{GOODPUT}"] / wide["key"].map(most)
    if f"g_{GOODPUT}" not in wide:
        wide[f"g_{GOODPUT}"] = math.nan
    both = wide[[f"f_{GOODPUT}", f"g_{GOODPUT}"]]
    wide["jain"] = both.sum(axis=1, skipna=False) ** 2 / (2 * (both**2).sum(axis=1, skipna=False))
    means = wide.groupby(["experiment", "cc", "delay", "loss"])[
        [f"f_{GOODPUT}", f"g_{GOODPUT}", "share", "jain", "call_delay_p95_ms"]
    ].mean()
    return _judged(means, cc)


def _judged(means: pd.DataFrame, cc: str) -> pd.DataFrame:
    rows = []
    for (experiment, name, delay, loss), row in means.iterrows():
        if name != cc:
            continue
        lossless = f"{experiment.split('-')[0]}-delay"
        beside = means["call_delay_p95_ms"].get((experiment, "cubic", delay, loss), math.nan)
        full = means["call_delay_p95_ms"].get((lossless, "cubic", delay, "0%"), math.nan)
        queue = row["call_delay_p95_ms"] / max(value for value in (beside, full) if not math.isnan(value))
        alone = experiment in ALONE
        reached = (row["share"] >= CAPACITY) if alone else (row["jain"] >= JAIN)
        rows.append(
            {
                "experiment": experiment,
                "delay": delay,
                "loss": loss,
                "mbps": row[f"f_{GOODPUT}"],
                "cubic": row[f"g_{GOODPUT}"],
                "figure": row["share"] if alone else row["jain"],
                "reached": bool(reached),
                "call": row["call_delay_p95_ms"],
                "queue": queue,
                "short": bool(queue <= QUEUE),
            }
        )
    made = pd.DataFrame(rows)
    # The paper's cells: a delay, or a loss.
    return made[(made["delay"] != "0ms") | (made["loss"] != "0%")]


def goals(cc: str, *kernel: str) -> str:
    rows = []
    for experiment, part in paper(cc, *kernel).groupby("experiment", sort=False):
        goal = "share" if experiment in ALONE else "Jain"
        rows.append(
            [
                f"`{experiment}`",
                goal,
                len(part),
                int(part["reached"].sum()),
                f"{part['figure'].min():.2f}",
                int(part["short"].sum()),
                f"{part['queue'].max():.2f}",
            ]
        )
    return table(["experiment", "figure", "cells", "reach 0.9", "least", "queue within 1.05", "longest"], rows, left=2)


def cells(cc: str, *kernel: str) -> str:
    rows = [
        [
            f"`{row['experiment']}`",
            row["delay"],
            row["loss"],
            f"{row['mbps']:.1f}",
            f"{row['cubic']:.1f}",
            f"{row['figure']:.2f}",
            f"{row['call']:.0f}",
            f"{row['queue']:.2f}",
        ]
        for _, row in paper(cc, *kernel).iterrows()
    ]
    return table(["experiment", "delay", "loss", "Mbit/s", "cubic", "figure", "call p95, ms", "queue"], rows, left=3)


def figures(half: str, names: list[str]) -> dict[str, dict[str, dict[tuple[str, str], float]]]:
    """By algorithm and family, of each draw and place."""
    name, _, first = half.partition(":")
    draws = [str(draw) for draw in range(1, 81) if (draw % 2 == 1) == (name == "open")][: int(first) if first else None]
    wanted = list(dict.fromkeys([*BUILT_IN, *names]))
    results = ran("drawn.yaml", wanted, out=RESULTS, only={"draw": draws})
    runs = results.runs[results.runs["draw"].astype(str).isin(draws)]
    most = possible_mbps(results, runs["key"])
    value = {(row.experiment, str(row.draw), row.cc, row.flow): row for row in runs.itertuples()}
    made: dict[str, dict[str, dict[tuple[str, str], float]]] = {}
    for name in names:
        families: dict[str, dict[tuple[str, str], float]] = {"capacity": {}, "fairness": {}, "queue": {}}
        for place in ("nic", "router"):
            for draw in draws:
                alone, call = value[place, draw, name, "f"], value[place, draw, name, "call"]
                families["capacity"][draw, place] = _figure(alone.goodput_receiver_mbps / most[alone.key])
                least = min(value[place, draw, other, "call"].delay_p95_ms for other in BUILT_IN)
                families["queue"][draw, place] = _figure(least / call.delay_p95_ms)
                families["fairness"][draw, place] = _fair(value, most, f"{place}-beside", draw, name)
        made[name] = families
    return made


def _fair(value: Mapping[tuple[str, ...], pd.Series], most: Mapping[str, float], experiment: str, draw: str, name: str) -> float:
    own, other = value[experiment, draw, name, "f"], value[experiment, draw, name, "g"]
    fair = most[own.key] / 2
    due = fair if str(own.loss) in ("0", "0.0") else value[experiment, draw, "cubic", "g"].goodput_receiver_mbps
    return _figure(min(own.goodput_receiver_mbps / fair, other.goodput_receiver_mbps / due))


def _figure(ratio: float) -> float:
    return LEAST if math.isnan(ratio) else min(max(ratio, LEAST), 1.0)


def _mean(values: Iterable[float]) -> float:
    logs = [math.log(value) for value in values]
    return 100 * math.exp(math.fsum(logs) / len(logs))


def drawn(half: str, *names: str) -> str:
    rows = []
    for name, families in figures(half, [*names]).items():
        scores = [_mean(values.values()) for values in families.values()]
        rows.append([f"`{name}`", f"{_mean(score / 100 for score in scores):.1f}", *(f"{score:.1f}" for score in scores)])
    return table(["congestion control", "score", "capacity", "fairness", "queue"], rows)


def harm(*names: str) -> str:
    wanted = list(dict.fromkeys([*names, "cubic", "reno", "bbr"]))
    results = ran("study.yaml", wanted, out=RESULTS, only={"experiment": ["ours-harm", "ours-beside"], "delay": ["10ms", "50ms"]})
    runs = results.runs
    means = runs[runs["flow"] == "g"].groupby(["rival", "delay", "cc"])[GOODPUT].mean()
    rows = [
        [f"`{rival}`", delay, f"{means[rival, delay, rival]:.1f}", *(f"{means[rival, delay, name]:.1f}" for name in names)]
        for rival in ("cubic", "reno", "bbr")
        for delay in ("10ms", "50ms")
    ]
    return table(["beside it", "delay", "beside its own", *(f"beside `{name}`" for name in names)], rows, left=2)


def constant() -> str:
    text = (HERE / "constant.c").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        for window in WINDOWS:
            (Path(folder) / f"w{window}.c").write_text(
                text.replace("constant", f"w{window}").replace("1600", str(window)), encoding="utf-8"
            )
        names = [f"w{window}" for window in WINDOWS]
        results = ran(
            "study.yaml",
            names,
            Path(folder),
            out=RESULTS,
            only={"experiment": ALONE, "delay": ["0ms", "10ms", "50ms", "100ms"], "loss": ["0%", "1%", "3%", "5%"]},
        )
    runs = results.runs[(results.runs["flow"] == "f") & results.runs["cc"].isin(names)]
    means = runs.groupby(["experiment", "delay", "loss", "cc"])[GOODPUT].mean().unstack("cc")[names]
    rows = [[f"`{experiment}`", delay, loss, *(f"{value:.0f}" for value in row)] for (experiment, delay, loss), row in means.iterrows()]
    return table(["experiment", "delay", "loss", *map(str, WINDOWS)], rows, left=3)


if __name__ == "__main__":
    print({"goals": goals, "cells": cells, "drawn": drawn, "harm": harm, "constant": constant}[sys.argv[1]](*sys.argv[2:]))
