"""What the atlas says, as Markdown tables and figures.

    python studies/atlas/map.py bulk                          # or claims, ratios, page, settings, confirmed, losses, best; all without one
    python studies/atlas/map.py --figures                     # bulk.png and spread.png, beside this file
    python studies/atlas/map.py --seeds SIM LINUX             # two folders of results with several seeds, one of each engine
    python studies/atlas/map.py --dropped LINUX               # a folder of results of the engine linux, for what its kernel counted
    python studies/atlas/map.py --cured LINUX PATCHED         # the same of two kernels, the second with a patch
    python studies/atlas/map.py --take results/atlas          # atlas.parquet, which the others read, from results of the study

Gains are beside TCP (cubic) alone on the better of the two links, in the same network.
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path

import numpy as np
import pandas as pd

from polypath import Results, Study
from polypath.analysis import Evidence, evaluate, half_width

FILE = Path(__file__).with_name("atlas.parquet")
DRAWN = ["home_rate", "home_delay", "home_queue", "mobile_rate", "mobile_delay", "mobile_jitter", "mobile_loss", "mobile_queue"]
# The slower link's rate, and the slower round trip, beside the other link's.
RATES = [0, 0.1, 0.25, 0.5, 1]
DELAYS = [1, 1.5, 3, 1000]
# What counts as better and as worse.
MORE = 1.1


def taken(results: Results) -> pd.DataFrame:
    """A row a network, setting and engine: goodput or time to completion, and `alone`, the same of
    TCP on the better link.
    """
    # Lost connections and transfers that did not end have no figure.
    measured = {"bulk": ("goodput_receiver_mbps", "max"), "page": ("completion_s", "min")}
    parts = []
    for experiment, (metric, better) in measured.items():
        own = results.runs[results.runs["experiment"] == experiment]
        alone = results.baselines[results.baselines["experiment"] == experiment]
        best = alone.groupby(["engine", "draw"])[metric].agg(better).rename("alone").reset_index()
        found = own.merge(best, on=["engine", "draw"], how="left").rename(columns={metric: "value"})
        parts.append(found[["engine", "draw", "experiment", "cc", "scheduler", *DRAWN, "value", "alone"]])
    return pd.concat(parts, ignore_index=True).astype(dict.fromkeys((*DRAWN, "value", "alone"), "float32"))


def rows(atlas: pd.DataFrame, experiment: str, engine: str = "sim") -> pd.DataFrame:
    """Those of an experiment; `gain` is above 1 where MPTCP is better. `rates` and `delays` are
    ratios of the two links.
    """
    found = atlas[(atlas["experiment"] == experiment) & (atlas["engine"] == engine)].copy()
    found["gain"] = found["alone"] / found["value"] if experiment == "page" else found["value"] / found["alone"]
    home, mobile = found["home_rate"], found["mobile_rate"]
    found["rates"] = np.minimum(home, mobile) / np.maximum(home, mobile)
    first, second = found["home_delay"], found["mobile_delay"]
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


def bulk(atlas: pd.DataFrame) -> str:
    """By congestion control."""
    found = rows(atlas, "bulk")
    body = [[f"`{cc}`", f"{own['value'].mean():.1f}", *shares(own["gain"])] for cc, own in found.groupby("cc", sort=False)]
    return markdown(["congestion control", "mean Mbit/s", *SPREAD], body)


def ratios(atlas: pd.DataFrame) -> str:
    """The gain of cubic by how equal the links are."""
    found = rows(atlas, "bulk").query("cc == 'cubic'")
    body = []
    for low, high in itertools.pairwise(RATES):
        row = [f"{low:g} to {high:g}"]
        for near, far in itertools.pairwise(DELAYS):
            own = found[(found["rates"] > low) & (found["rates"] <= high) & (found["delays"] >= near) & (found["delays"] < far)]
            row.append(f"{own['gain'].median():.2f} ({len(own)})" if len(own) else "–")
        body.append(row)
    spans = ["below 1.5", "1.5 to 3", "3 or more"]
    return markdown(["rates, slower to faster", *(f"delays {span}" for span in spans)], body)


def page(atlas: pd.DataFrame) -> str:
    """By scheduler."""
    found = rows(atlas, "page")
    body = [[f"`{name}`", f"{own['value'].median():.3f}", *shares(own["gain"])] for name, own in found.groupby("scheduler", sort=False)]
    return markdown(["scheduler", "median s", *SPREAD], body)


def settings(atlas: pd.DataFrame) -> str:
    """Schedulers by how much longer a transfer takes than with the best one of each network, by how
    equal the links are.
    """
    found = rows(atlas, "page")
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


def confirmed(atlas: pd.DataFrame) -> str:
    """Networks that ran on a Linux kernel too: goodput or time there beside the simulator's."""
    body = []
    for experiment, setting in (("bulk", "cc"), ("page", "scheduler")):
        for name, own in _both(atlas, experiment, setting).groupby(level=1, sort=False):
            more = 100 * (own["value"] / own["value_sim"] - 1)
            gains = [f"{own[gain].median():.2f}" for gain in ("gain", "gain_sim")]
            body.append([f"{experiment}, `{name}`", f"{more.median():+.1f} %", f"{100 * (more.abs() < 10).mean():.0f} %", *gains])
    return markdown(["setting", "Linux beside the simulator: median", "within a tenth", "median gain on Linux", "in the simulator"], body)


def losses(atlas: pd.DataFrame) -> str:
    """Of the coupled algorithms on a Linux kernel: goodput there beside the simulator's, by the
    mobile link's loss.
    """
    both = _both(atlas, "bulk", "cc").query("cc in ['lia', 'olia', 'balia']")
    more = 100 * (both["value"] / both["value_sim"] - 1)
    body = [
        [f"{loss:g} %", str(len(own)), f"{own.median():+.1f} %", f"{100 * (own.abs() < 10).mean():.0f} %"]
        for loss, own in more.groupby(both["mobile_loss"])
    ]
    return markdown(["loss of the mobile link", "networks by algorithms", "median difference", "within a tenth"], body)


def best(atlas: pd.DataFrame) -> str:
    """Of the networks that ran on a Linux kernel too: how often each congestion control is the best
    one there and in the simulator.
    """
    both = _both(atlas, "bulk", "cc")
    linux, sim = (both[name].unstack() for name in ("value", "value_sim"))
    first, expected = linux.idxmax(axis=1), sim.idxmax(axis=1)
    # What the simulator's choice carries on Linux, of what the best one carries there.
    carried = pd.Series([linux.at[draw, cc] / linux.at[draw, first[draw]] for draw, cc in expected.items()])
    names = atlas.loc[atlas["experiment"] == "bulk", "cc"].unique()
    body = [
        [f"`{name}`", str((first == name).sum()), str((expected == name).sum()), str(((first == name) & (expected == name)).sum())]
        for name in names
    ]
    body.append(["all", str(len(first)), str(len(expected)), str((first == expected).sum())])
    table = markdown(["best congestion control", "on Linux", "in the simulator", "in both"], body)
    shares = f"{100 * carried.mean():.1f} % of what the best one there carries; in a tenth of the networks"
    return f"{table}\n\nThe simulator's best one carries on Linux {shares} {100 * carried.quantile(0.1):.1f} % or less."


def _both(atlas: pd.DataFrame, experiment: str, setting: str) -> pd.DataFrame:
    """Rows of the engine linux, by network and setting, with the simulator's beside them."""
    here, there = (rows(atlas, experiment, engine).set_index(["draw", setting]) for engine in ("sim", "linux"))
    return there.join(here[["value", "gain"]].add_suffix("_sim"), how="inner")


def repeated(sim: Results, linux: Results) -> str:
    """Of networks that ran with several seeds on both engines: Linux beside the simulator, by seed
    1 alone and by the mean of all.
    """
    runs = {
        name: own.runs[own.runs["experiment"] == "bulk"].rename(columns={"goodput_receiver_mbps": "value"})
        for name, own in (("sim", sim), ("linux", linux))
    }
    keys = ["cc", "mobile_loss", "draw"]
    first = {name: own[own["seed"] == 1].set_index(keys)["value"] for name, own in runs.items()}
    groups = {name: own.groupby(keys)["value"] for name, own in runs.items()}
    mean = {name: own.mean() for name, own in groups.items()}
    # Of the difference of two means (Welch); without chance in a network it is 0.
    error = sum(own.var() / own.count() for own in groups.values()).pow(0.5)
    found = pd.DataFrame(
        {
            "first": first["linux"] / first["sim"] - 1,
            "mean": mean["linux"] / mean["sim"] - 1,
            "clear": (mean["linux"] - mean["sim"]).abs() > 2 * error,
        }
    ).dropna()
    found["near"] = found["mean"].abs() < 0.1
    body = []
    for (cc, loss), own in found.groupby(["cc", "mobile_loss"], sort=False):
        lower, higher = ((own["clear"] & ~own["near"] & (sign * own["mean"] > 0)).sum() for sign in (-1, 1))
        middle = [f"{100 * own[name].median():+.1f} %" for name in ("first", "mean")]
        body.append([f"`{cc}`, {loss} %", str(len(own)), *middle, f"{own['near'].sum()}", str(lower), str(higher)])
    apart = found[found["clear"] & ~found["near"]].reset_index().sort_values("mean")
    named = ", ".join(f"{row['draw']:g} (`{row['cc']}`, {100 * row['mean']:+.0f} %)" for row in apart.to_dict("records"))
    seeds = runs["sim"]["seed"].nunique()
    differences = ["median difference, seed 1", f"mean of {seeds} seeds", "within a tenth", "clearly lower", "clearly higher"]
    return f"{markdown(['algorithm, loss', 'networks', *differences], body)}\n\nClearly apart: {named}."


def dropped(atlas: pd.DataFrame, linux: Results) -> str:
    """Runs of `bulk` on Linux whose receiver dropped what lay beyond its window, and the others:
    goodput beside the simulator's.
    """
    both = _beside_sim(atlas, linux)
    both["loses"] = pd.to_numeric(both["mobile_loss"]) > 0
    body = []
    for (loses, drops), own in both.groupby(["loses", "drops"]):
        coupled = own["cc"].isin(["lia", "olia", "balia"]).sum()
        near = f"{100 * (own['more'].abs() < 10).mean():.0f} %"
        words = [("loss" if loses else "no loss"), "yes" if drops else "no"]
        body.append([*words, str(len(own)), str(coupled), f"{own['more'].median():+.1f} %", near])
    heads = ["mobile link", "dropped beyond the window", "runs", "of coupled algorithms", "median difference", "within a tenth"]
    return markdown(heads, body)


def cured(atlas: pd.DataFrame, linux: Results, patched: Results) -> str:
    """The runs of which one kernel's receiver dropped what lay beyond its window, on that kernel
    and on another: beside the simulator's.
    """
    before, after = (_beside_sim(atlas, each).set_index(["draw", "cc"]) for each in (linux, patched))
    dropping = before.index[before["drops"]]
    body = []
    for name, own in (("as it is", before), ("with the patch", after)):
        more = own.loc[dropping, "more"]
        quarters = [f"{more.quantile(share):+.1f} %" for share in (0.25, 0.5, 0.75)]
        body.append([name, f"{own['drops'].sum()} of {len(own)}", *quarters, f"{own.loc[dropping, 'goodput_receiver_mbps'].mean():.1f}"])
    heads = ["Linux", "runs that drop", f"of these {len(dropping)}: a quarter", "median", "three quarters", "mean Mbit/s"]
    return markdown(heads, body)


def _beside_sim(atlas: pd.DataFrame, linux: Results) -> pd.DataFrame:
    """Runs of `bulk` on Linux: `more` than the simulator's, in percent, and whether the receiver
    `drops`.
    """
    counters = linux.table("counters").to_pandas()
    found = counters[(counters["counter"] == "MPTcpExtNoDSSInWindow") & (counters["node"] == "receiver")].set_index("key")["value"]
    runs = linux.runs[(linux.runs["engine"] == "linux") & (linux.runs["experiment"] == "bulk")]
    sim = rows(atlas, "bulk").set_index(["draw", "cc"])["value"].rename("sim").reset_index()
    both = runs.merge(sim, on=["draw", "cc"])
    both["more"] = 100 * (both["goodput_receiver_mbps"] / both["sim"] - 1)
    both["drops"] = both["key"].map(found).fillna(0) > 0
    return both


def figures(atlas: pd.DataFrame, folder: Path) -> None:
    """The gain of each network over the ratio of rates; and how gains are spread, by setting."""
    import altair as alt

    # A page of twenty thousand points would be one spot.
    found = rows(atlas, "bulk").query("cc == 'cubic' and draw <= 2000")
    found = found.assign(delay=pd.cut(found["delays"], DELAYS, right=False, labels=["below 1.5", "1.5 to 3", "3 or more"]).astype(str))
    chart = (
        alt.Chart(found[["rates", "gain", "delay"]])
        .mark_circle(size=14, opacity=0.5)
        .encode(
            x=alt.X("rates", title="rate of the slower link beside the faster one").scale(type="log", domain=[0.01, 1]),
            y=alt.Y("gain", title="goodput beside TCP on the better link").scale(zero=False),
            color=alt.Color("delay", title="ratio of delays", sort=["below 1.5", "1.5 to 3", "3 or more"]),
        )
        .properties(width=560, height=320, title="Gain of MPTCP with cubic, a point a network")
    )
    chart.save(folder / "bulk.png", scale_factor=1.5)
    # Of each setting the gain that a share of all networks falls short of.
    spread = []
    for experiment, setting in (("bulk", "cc"), ("page", "scheduler")):
        for name, own in rows(atlas, experiment).groupby(setting, sort=False):
            shares = np.linspace(0.01, 0.99, 99)
            gains = own["gain"].dropna().quantile(shares)
            spread.append(pd.DataFrame({"experiment": experiment, "setting": name, "share": 100 * shares, "gain": gains.to_numpy()}))
    panels = [
        alt.Chart(pd.concat(spread).query("experiment == @experiment"))
        .mark_line(clip=True)
        .encode(
            x=alt.X("gain", title="gain beside TCP on the better link").scale(domain=[0.4, 2.2]),
            y=alt.Y("share", title="share of networks with less, %"),
            color=alt.Color("setting", title=title, sort=None),
        )
        .properties(width=300, height=260, title=head)
        for experiment, title, head in (("bulk", "congestion control", "Data without end"), ("page", "scheduler", "A transfer of 2 MB"))
    ]
    alt.hconcat(*panels).resolve_scale(color="independent").save(folder / "spread.png", scale_factor=1.5)


def claims(atlas: pd.DataFrame) -> str:
    """The study's claims, decided as a report decides them: a draw is a repetition, and a
    difference counts beyond its 95 % interval.
    """
    study = Study.load(FILE.parent)
    parts = [
        rows(atlas, "bulk").rename(columns={"value": "goodput_receiver_mbps"}),
        rows(atlas, "page").rename(columns={"value": "completion_s"}),
    ]
    parameters = [name for name in ("cc", "scheduler") if name not in study.repeated]
    evidence = Evidence(runs=pd.concat(parts), series=pd.DataFrame(), parameters=["experiment", *parameters])
    body = []
    for claim in evaluate(study.claims, evidence):
        metric = next(each.metric for each in study.claims if each.id == claim.id)
        if claim.id == "atlas-bulk-helps":
            gain = rows(atlas, "bulk").query("cc == 'cubic'")["gain"].dropna()
            between = f"{gain.mean():.3f} ± {half_width(list(gain)):.3f}"
        else:
            between = ", ".join(f"{own.iloc[0]} {own[metric]:.3f} ± {own['ci']:.3f}" for _, own in claim.numbers.iterrows())
        body.append([f"`{claim.id}`", claim.verdict, claim.why, between])
    return markdown(["claim", "verdict", "because", "means with 95 % intervals"], body)


TABLES = {
    "claims": claims,
    "bulk": bulk,
    "ratios": ratios,
    "page": page,
    "settings": settings,
    "confirmed": confirmed,
    "losses": losses,
    "best": best,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", nargs="?", choices=TABLES)
    parser.add_argument("--figures", action="store_true")
    parser.add_argument("--take", metavar="RESULTS")
    parser.add_argument("--seeds", nargs=2, metavar=("SIM", "LINUX"))
    parser.add_argument("--dropped", metavar="LINUX")
    parser.add_argument("--cured", nargs=2, metavar=("LINUX", "PATCHED"))
    given = parser.parse_args()
    if given.seeds is not None:
        print(repeated(*(Results.open(folder) for folder in given.seeds)))
        return
    if given.take is not None:
        found = taken(Results.open(given.take))
        # What another engine gave stays.
        kept = pd.read_parquet(FILE).query("engine not in @found.engine")
        found = pd.concat([found, kept.astype(found.dtypes)])
        found = found.sort_values(["engine", "draw", "experiment"], ascending=[False, True, True], kind="stable")
        found.to_parquet(FILE, index=False, compression="zstd", compression_level=19)
        print(f"{FILE.name}: {len(found)} rows of {found['draw'].nunique()} networks, {FILE.stat().st_size / 1e6:.1f} MB")
        return
    atlas = pd.read_parquet(FILE)
    if given.dropped is not None:
        print(dropped(atlas, Results.open(given.dropped)))
        return
    if given.cured is not None:
        print(cured(atlas, *(Results.open(folder) for folder in given.cured)))
        return
    if given.figures:
        figures(atlas, FILE.parent)
        return
    print("\n\n".join(TABLES[name](atlas) for name in ([given.table] if given.table else TABLES)))


if __name__ == "__main__":
    main()
