"""What schedulers are worth, as Markdown tables: python studies/schedulers/compare.py TABLE

    gains           by scheduler and application: what networks gain and lose beside upstream's rule
    worst           the network and application in which each scheduler loses most
    harm            what a TCP flow on the link at home keeps
    score [all]     the score of each scheduler on the half of the networks that judges, or on others: all, design, anew;
                    this and others take an engine, too: linux, 7.3
    goals NAME      what a better scheduler is asked for, on the half that judges
    bound           how much of a burst's time no scheduler can take away
    kernel RELEASE  how far a kernel says the same, network by network; `anew`: where the second search was judged
    cells           the same over the thirty cells of docs/concepts/schedulers.md
    claims          which of the study's claims hold
    --take RESULTS  networks.parquet, which the others read, from results of the study

The constants below are the rules. They were committed before the first result.
"""

from __future__ import annotations

import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from figure_tables import recorded, simulated, table

from polypath import Results, Study
from polypath.analysis import Evidence, evaluate, half_width

HERE = Path(__file__).parent
FILE = HERE / "networks.parquet"
# What judged the second search, whose scheduler is none of the study's; and some of it on Linux.
ANEW = {"sim": HERE / "anew.csv", "linux": HERE / "anew-linux.csv", "7.3": HERE / "anew-7.3.csv"}
DRAWN = ["home_rate", "home_delay", "home_queue", "mobile_rate", "mobile_delay", "mobile_jitter", "mobile_loss", "mobile_queue"]
# What is measured of each application. A rate is better when higher, a time when lower.
METRICS = {
    "bulk": "goodput_receiver_mbps",
    "small": "goodput_receiver_mbps",
    "bursts": "response_p95_ms",
    "requests": "response_p95_ms",
    "video": "byte_delay_p95_ms",
    "beside": "goodput_receiver_mbps",
}
RATES = ("bulk", "small", "beside")
# Those that the score counts, each alike; `beside` is about others.
APPLICATIONS = ("bulk", "small", "bursts", "requests", "video")
# Who answers nothing within a run has its length for a time, and 1 kbit/s for a rate.
WORST_MS, LEAST_MBPS = 30_000.0, 0.001
# What counts as worse than upstream's rule, in one network.
MORE = 1.05
# Odd draws are there to design a scheduler on. Even ones judge it, once: those that ran judged
# `arrival`. A second search sees odd ones alone, tries five designs at most, each with its constants
# chosen on a sample of at most twenty odd networks, and is judged by one look at one design on fifty
# even networks (62 to 160) on which nothing ran before, one start each, beside `default`, `arrival` and `sttf`.
HALVES = {"design": range(1, 501, 2), "judge": range(2, 61, 2)}
# The score is 100 times the geometric mean, over applications and networks, of what a scheduler
# makes of upstream's figure, each within these bounds. A scheduler is shipped if its score on the
# half that judges is above that of every other, and the 95 % interval of the paired difference of
# the networks' logarithms says so.
BOUNDS = (0.01, 100.0)
# On a kernel: the judging half of the first two hundred, in this order, as far as they ran.
SAMPLE = [str(draw) for draw in range(2, 201, 2)]
# On this kernel, and on the simulator as this kernel, each network of the sample has four starts,
# of which means are taken: the 95th percentile of one start is much chance.
NEWEST = "7.3"
# A kernel does not tell when a byte was read.
UNTOLD = ("video",)
# Kernel and simulator agree if the order of the schedulers does and the figures do. The order:
# Kendall's tau over the pairs of schedulers, within a cell, whose figures on the kernel are further
# apart than APART; closer ones have no order. The figures: the share of cells, each with one
# scheduler, that lie within NEAR.
APART, NEAR = 0.05, 0.1
TAU_GOAL, NEAR_GOAL = 0.9, 0.95
# What a better scheduler is asked for beside upstream's rule: the 95th percentile of a burst at
# most half in the median network; bulk data nowhere more than 2 % lower; with a small receive
# buffer 30 % more in the median network; no network worse by more than 5 % in any application.
GOALS = {"bursts": 2.0, "bulk": 0.98, "small": 1.3, "any": 0.95}


def taken(results: Results) -> pd.DataFrame:
    """A row a run: what its application measured, and what the rival had."""
    runs = results.runs.copy()
    rival = runs[runs["flow"] == "rival"].set_index("key")["goodput_receiver_mbps"]
    own = runs[runs["flow"] == "subject"].copy()
    own["value"] = [row.get(METRICS[row["experiment"]]) for row in own.to_dict("records")]
    is_rate = own["experiment"].isin(RATES)
    value = own["value"].astype(float)
    own["value"] = value.fillna(WORST_MS).where(~is_rate, value.fillna(0.0).clip(lower=LEAST_MBPS))
    own["rival"] = own["key"].map(rival).astype(float)
    own["kernel"] = own["kernel"].where(own["engine"] != "sim", NEWEST if results.study.kernel == NEWEST else "")
    columns = ["engine", "kernel", "draw", "seed", "experiment", "scheduler", *DRAWN, "value", "rival"]
    found = own[columns].astype(dict.fromkeys((*DRAWN, "value", "rival"), "float32"))
    return found.astype(dict.fromkeys(("engine", "kernel", "experiment", "scheduler"), "str"))


def beside_default(runs: pd.DataFrame) -> pd.DataFrame:
    """A row an application, network and scheduler; `gain` is above 1 where it is better than
    upstream's rule in the same network.
    """
    mean = runs.groupby(["experiment", "draw", "scheduler"], sort=False)[["value", "rival"]].mean().reset_index()
    base = mean[mean["scheduler"] == "default"].set_index(["experiment", "draw"])[["value", "rival"]].add_suffix("_default")
    found = mean.join(base, on=["experiment", "draw"])
    ratio = found["value"] / found["value_default"]
    found["gain"] = ratio.where(found["experiment"].isin(RATES), 1 / ratio).clip(*BOUNDS)
    found["kept"] = found["rival"] / found["rival_default"]
    return found


def of_engine(engine: str) -> pd.DataFrame:
    """Rows of `sim` and `linux`, with one start of each network, or of Linux `7.3`, with four."""
    runs = pd.read_parquet(FILE)
    if engine == NEWEST:
        return runs.query("engine == 'linux' and kernel == @NEWEST")
    return runs.query("engine == @engine and kernel != @NEWEST")


def of_half(which: str, engine: str) -> pd.DataFrame:
    """Rows of a half of the networks, of `all`, or of the second search's judges (`anew`)."""
    if which == "anew":
        runs = pd.read_csv(ANEW[engine])
        return runs if "rival" in runs else runs.assign(rival=np.nan)
    runs = of_engine(engine)
    return runs if which == "all" else runs[runs["draw"].isin(HALVES[which])]


def gains(engine: str = "sim") -> str:
    """Of each application the median gain, that of a tenth and of nine tenths of the networks, and
    the share that is worse.
    """
    found = beside_default(of_engine(engine))
    rows = []
    for scheduler, own in found.query("scheduler != 'default'").groupby("scheduler", sort=False):
        row = [f"`{scheduler}`"]
        for application in APPLICATIONS:
            gain = own.loc[own["experiment"] == application, "gain"]
            median, low, high = (f"{gain.quantile(share):.2f}" for share in (0.5, 0.1, 0.9))
            row.append(f"{median} ({low} to {high}), {(gain < 1 / MORE).mean():.0%}" if len(gain) else "")
        rows.append(row)
    return table(["scheduler", *APPLICATIONS], rows)


def worst(engine: str = "sim") -> str:
    """Of each scheduler the network and application in which it loses most."""
    runs = of_engine(engine)
    found = beside_default(runs[runs["experiment"].isin(APPLICATIONS)])
    network = runs.drop_duplicates("draw").set_index("draw")
    rows = []
    for scheduler, own in found.query("scheduler != 'default'").groupby("scheduler", sort=False):
        one = own.loc[own["gain"].idxmin()]
        links = network.loc[one["draw"]]
        home = f"{links['home_rate']:g} Mbit/s, {links['home_delay']:.2g} ms, {links['home_queue']:g}"
        mobile = (
            f"{links['mobile_rate']:.2g} Mbit/s, {links['mobile_delay']:.2g} ms, {links['mobile_queue']:g}, {links['mobile_loss']:.2g} %"
        )
        rows.append([f"`{scheduler}`", one["experiment"], f"{one['draw']:g}", home, mobile, f"{one['gain']:.2f}"])
    return table(["scheduler", "application", "draw", "home: rate, delay, queue", "mobile, and its loss", "gain"], rows, left=5)


def harm(engine: str = "sim", which: str = "all") -> str:
    found = beside_default(of_half(which, engine)).query("experiment == 'beside'")
    rows = []
    for scheduler, own in found.groupby("scheduler", sort=False):
        kept = own["kept"]
        row = [f"`{scheduler}`", f"{own['rival'].mean():.2f}", f"{own['value'].mean():.2f}"]
        rows.append([*row, f"{kept.median():.2f}", f"{kept.quantile(0.1):.2f}", f"{(kept < 0.9).mean():.0%}", f"{kept.min():.2f}"])
    heads = ["scheduler", "rival, Mbit/s", "subject", "rival beside `default`'s: median", "tenth", "keeps less than 90 %", "least"]
    return table(heads, rows)


def logarithms(runs: pd.DataFrame, applications: tuple[str, ...]) -> pd.DataFrame:
    """The mean logarithm of a network's gains over the applications, by scheduler."""
    found = beside_default(runs[runs["experiment"].isin(applications)])
    found["log"] = np.log(found["gain"])
    return found.pivot_table(index="draw", columns="scheduler", values="log", aggfunc="mean", sort=False)


def score(which: str = "judge", engine: str = "sim") -> str:
    runs = of_half(which, engine)
    applications = tuple(name for name in APPLICATIONS if engine == "sim" or name not in UNTOLD)
    logs = logarithms(runs, applications).dropna()
    found = beside_default(runs)
    means = np.exp(np.log(found["gain"]).groupby([found["experiment"], found["scheduler"]]).mean())
    first = logs.mean().sort_values(ascending=False).index[0]
    rows = []
    for name in logs.mean().sort_values(ascending=False).index:
        # Of the first one over this one, network by network.
        apart = logs[first] - logs[name]
        half = half_width(list(apart))
        lead = (
            "" if name == first else f"{np.exp(apart.mean()):.3f} ({np.exp(apart.mean() - half):.3f} to {np.exp(apart.mean() + half):.3f})"
        )
        each = [f"{100 * means[application, name]:.0f}" for application in applications]
        rows.append([f"`{name}`", f"{100 * np.exp(logs[name].mean()):.1f}", *each, lead])
    return table(["scheduler", "score", *applications, f"`{first}` over it"], rows)


def goals(name: str, which: str = "judge", engine: str = "sim") -> str:
    runs = of_half(which, engine)
    found = beside_default(runs[runs["scheduler"].isin(["default", name])]).query("scheduler == @name")
    by = {experiment: own.set_index("draw")["gain"] for experiment, own in found.groupby("experiment", sort=False)}

    def least(gain: pd.Series, goal: float) -> str:
        return f"{gain.min():.2f} (draw {gain.idxmin()}; {(gain < goal).sum()} of {len(gain)} below)"

    rows = [[f"{each}: median", f"{GOALS[each]:.2f}", f"{by[each].median():.2f}"] for each in ("bursts", "small")]
    rows.append(["bulk: least", f"{GOALS['bulk']:.2f}", least(by["bulk"], GOALS["bulk"])])
    for experiment, gain in by.items():
        if experiment != "beside":
            rows.append([f"{experiment}: least", f"{GOALS['any']:.2f}", least(gain, GOALS["any"])])
    return table(["gain", "goal", f"`{name}`"], rows)


def bound() -> str:
    """What a burst takes at least: 1 MB at the rate of both links, packets' headers left out, and
    the shorter round trip; of what it takes with upstream's rule.
    """
    runs = of_engine("sim").query("experiment == 'bursts' and scheduler == 'default'")
    least = 8e3 / (runs["home_rate"] + runs["mobile_rate"]) + 2 * np.minimum(runs["home_delay"], runs["mobile_delay"])
    share = least / runs["value"]
    return table(["networks", "median", "half or less"], [[f"{len(share)}", f"{share.median():.2f}", f"{(share <= 0.5).sum()}"]])


def agreement(sim: pd.Series, linux: pd.Series, cell: list[str]) -> list[str]:
    """Both by cell and scheduler: cells, tau within cells, tau over all, share that is near."""
    both = pd.DataFrame({"sim": sim, "linux": linux}).dropna()
    same = other = 0
    for _, own in both.groupby(level=cell):
        for (_, a), (_, b) in combinations(own.iterrows(), 2):
            if abs(np.log(a["linux"] / b["linux"])) > np.log1p(APART):
                agrees = (a["sim"] - b["sim"]) * (a["linux"] - b["linux"]) > 0
                same, other = same + agrees, other + (not agrees)
    near = (np.abs(both["sim"] / both["linux"] - 1) <= NEAR).mean()
    tau = (same - other) / (same + other) if same + other else float("nan")
    rank = both["sim"].corr(both["linux"], method="kendall")
    return [str(len(both)), str(same + other), f"{tau:.2f}", f"{rank:.2f}", f"{near:.0%}"]


AGREEMENT = ["figures", "pairs with an order", "tau of the order", "tau of all figures", "within 10 %"]


def kernel(release: str) -> str:
    """Networks that ran on it, or on Linux of those that judged anew: means of the starts, on both."""
    keys = ["experiment", "draw", "scheduler"]
    if release == "anew":
        here, there = of_half("anew", "sim"), of_half("anew", "linux").query("experiment in @APPLICATIONS")
    else:
        runs = pd.read_parquet(FILE)
        there = runs[(runs["engine"] == "linux") & (runs["kernel"] == release)]
        # The same starts.
        own = release if release == NEWEST else ""
        here = runs[(runs["engine"] == "sim") & (runs["kernel"] == own)].merge(there[[*keys, "seed"]].drop_duplicates(), on=[*keys, "seed"])
    means = [own.groupby(keys)["value"].mean() for own in (here, there)]
    rows = []
    for experiment in there["experiment"].unique():
        sim, linux = (mean[mean.index.get_level_values("experiment") == experiment] for mean in means)
        rows.append([experiment, there.query("experiment == @experiment")["draw"].nunique(), *agreement(sim, linux, ["draw"])])
    rows.append(["all", there["draw"].nunique(), *agreement(means[0], means[1], ["experiment", "draw"])])
    return table(["application", "networks", *AGREEMENT], rows)


def cells() -> str:
    """An endless transfer over the thirty cells: `cells.csv` is the kernel's."""
    keys = ["queue", "rmem", "delay", "scheduler"]
    linux = recorded(HERE / "cells.csv").astype({"value": float}).set_index(keys)["value"]
    names = list(linux.index.unique("scheduler"))
    runs = simulated("specs/notes/schedulers", only={"experiment": ["endless"], "scheduler": names}).runs.query("experiment == 'endless'")
    sim = runs.astype(dict.fromkeys(keys, "str")).set_index(keys)["goodput_receiver_mbps"]
    rows = []
    for name in names:
        one = [own[own.index.get_level_values("scheduler") == name] for own in (sim, linux)]
        rows.append([f"`{name}`", *(f"{own.mean():.1f}" for own in one), f"{(abs(one[0] / one[1] - 1) <= NEAR).mean():.0%}"])
    whole = agreement(sim, linux, keys[:-1])
    found = table(["endless", "simulator, Mbit/s", "Linux", "within 10 %"], rows)
    return f"{found}\n\n{table(['thirty cells', *AGREEMENT], [['all', *whole]])}"


def claims() -> str:
    """The study's claims, as a report decides them, on the networks in which everything ran."""
    runs = of_engine("sim")
    runs = runs[runs["draw"].isin(runs.loc[runs["experiment"] == "beside", "draw"])]
    parts = []
    for metric in dict.fromkeys(METRICS.values()):
        own = runs[runs["experiment"].map(METRICS) == metric].rename(columns={"value": metric})
        rival = own.dropna(subset="rival").assign(flow="rival", **{metric: own["rival"]})
        parts += [own.assign(flow="subject"), rival]
    evidence = Evidence(runs=pd.concat(parts), series=pd.DataFrame(), parameters=["experiment", "scheduler"])
    rows = [[f"`{claim.id}`", claim.verdict, claim.why] for claim in evaluate(Study.load(HERE).claims, evidence)]
    return table(["claim", "verdict", "because"], rows, left=3)


def take(folder: str) -> str:
    found = taken(Results.open(folder))
    if FILE.exists():
        kept = pd.read_parquet(FILE)
        same = ["engine", "kernel", "draw", "seed", "experiment", "scheduler"]
        found = pd.concat([found, kept.astype(found.dtypes)]).drop_duplicates(same, keep="first")
    found = found.sort_values(["engine", "experiment", "draw", "seed"], ascending=[False, True, True, True], kind="stable")
    found.to_parquet(FILE, index=False, compression="zstd", compression_level=19)
    return f"{FILE.name}: {len(found)} rows of {found['draw'].nunique()} networks, {FILE.stat().st_size / 1e6:.1f} MB"


TABLES = {
    "gains": gains,
    "worst": worst,
    "harm": harm,
    "score": score,
    "goals": goals,
    "bound": bound,
    "kernel": kernel,
    "cells": cells,
    "claims": claims,
    "--take": take,
}

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in TABLES:
        raise SystemExit(__doc__)
    print(TABLES[sys.argv[1]](*sys.argv[2:]))
