"""The tables of the page, as text cells; every number on the page comes from here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from polypath.analysis import PLATFORM, ClaimResult, bare, gains, groups, limits_of_cells, of_paths, single_paths, summarise

from ._format import count, mean_ci, number, percent, share_of_paths
from ._material import GOODPUT, Material, label, published_beside


@dataclass(frozen=True, kw_only=True)
class Column:
    title: str
    unit: str = ""
    help: str = ""
    numeric: bool = True


@dataclass(frozen=True, kw_only=True)
class Cell:
    text: str
    css: str = ""
    meter: float | None = None
    """Share of a bar drawn behind the text, 0 to 1."""


@dataclass(frozen=True, kw_only=True)
class Table:
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    reasons: Sequence[tuple[str, str]] = ()
    """Cells, and a sentence about them that would be too long for the table."""

    @property
    def explained(self) -> list[Column]:
        """The columns whose heads need words."""
        return list({column.title: column for column in self.columns if column.help}.values())


PathNames = Mapping[tuple[str, str], str]
"""What people call the path between two addresses; see `analysis.path_names`."""

METRICS = [
    GOODPUT,
    "goodput_sender_mbps",
    "bound_mbps",
    "share",
    "share_all",
    "retransmissions",
    "timeouts",
    "transient_s",
    "jain",
    "completion_s",
]


def cells(rows: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """A row a cell and flow: means with intervals, the label, and what limited most of its runs."""
    by = [*names, "flow"]
    table = summarise(rows, by, METRICS)
    flows = rows["flow"].nunique()
    table["label"] = [label(dict(row), names, flows) for _, row in table.iterrows()]
    table["of_paths"] = of_paths(rows, by)
    seeds, goodputs = rows["seed"].to_numpy(), rows[GOODPUT].to_numpy()
    table["by_seed"] = pd.Series([_by_seed(seeds[where].tolist(), goodputs[where].tolist()) for _, where in groups(rows, by)], dtype=object)
    return table.merge(limits_of_cells(rows, by), on=by, how="left")


def _by_seed(seeds: Sequence[Any], goodputs: Sequence[float]) -> dict[Any, float]:
    """The goodput of each seed of a cell; nothing where seeds do not tell the repetitions apart."""
    by_seed = dict(zip(seeds, goodputs, strict=True))
    return by_seed if len(by_seed) == len(seeds) else {}


def results(rows: pd.DataFrame, table: pd.DataFrame, names: Sequence[str], material: Material, possible: str = "") -> Table:
    """What each cell (of `cells`) reached, what was possible (a sentence on it), and what limited it."""
    baselines = _baselines_of(rows, material)
    beside_tcp = gains(rows, baselines, names)
    table = table.merge(beside_tcp[[*names, "flow", "best_single", "gain"]], on=[*names, "flow"], how="left")
    transfers = bool(table["completion_s"].notna().any())
    many = rows["flow"].nunique() > 1
    columns = [
        Column(title="Cell", numeric=False),
        Column(title="Goodput", unit="Mbit/s", help="Mbit/s that the receiving application read over the window, mean and 95 % interval"),
        Column(title="Sender’s view", unit="Mbit/s", help="Mbit/s that the sending socket accepted over the window"),
        Column(title="Possible", unit="Mbit/s", help="The most that the links and the framing allow, Mbit/s"),
        Column(
            title="Reached",
            help="Goodput over what was possible; above 100 % where data that came before the window were put in order in it",
        ),
        Column(
            title="Limited by",
            help="What held it below what was possible: the bottleneck’s queue or the endpoints’ counters tell",
            numeric=False,
        ),
        Column(title="Retrans.", help="Segments sent again, mean of the runs"),
        Column(
            title="Settles after",
            unit="s",
            help="From when on the goodput of each second lies within 10 % of the mean, mean of the runs that settle; "
            "“never”: the last second still does not",
        ),
    ]
    single = bool(table["best_single"].notna().any())
    if single:
        columns.append(Column(title="Best TCP", unit="Mbit/s", help="Plain TCP on the best path alone, Mbit/s"))
        columns.append(Column(title="Gain", help="Goodput over that of plain TCP on the best path"))
    if many:
        columns.append(Column(title="Together", help="All flows of the run, over what the links allow them together"))
        columns.append(Column(title="Jain", help="Jain’s index over the flows that take all they can get at once: 1 is equal"))
    if transfers:
        columns.append(Column(title="Time", unit="s", help="Seconds until everything was read"))
    settled = _settled(rows, [*names, "flow"], material)
    body = []
    for row, settles in zip(table.to_dict("records"), settled, strict=True):
        share = float(row["share"])
        line = [
            Cell(text=row["label"], css="name"),
            Cell(text=mean_ci(row[GOODPUT], row[f"{GOODPUT}_ci"]), css="strong"),
            Cell(text=mean_ci(row["goodput_sender_mbps"], row["goodput_sender_mbps_ci"])),
            Cell(text=number(row["bound_mbps"])),
            Cell(text=share_of_paths(percent(share), row["of_paths"]), meter=min(1.0, share) if math.isfinite(share) else None),
            Cell(text=str(row["limited_by"]), css="words"),
            Cell(text=count(row["retransmissions"])),
            Cell(text=settles),
        ]
        if single:
            line.append(Cell(text=number(row["best_single"])))
            line.append(Cell(text=f"{number(row['gain'])} ×" if math.isfinite(float(row["gain"])) else "–"))
        if many:
            line.append(Cell(text=percent(row["share_all"])))
            line.append(Cell(text=number(row["jain"], 3)))
        if transfers:
            line.append(Cell(text=mean_ci(row["completion_s"], row["completion_s_ci"])))
        body.append(line)
    return Table(columns=columns, rows=body, reasons=reasons(table), note=possible)


SETTLED_S = 1.0
"""A goodput that is near its mean for the last second alone has not settled: that is one value of
the moving mean.
"""


def _settled(rows: pd.DataFrame, by: Sequence[str], material: Material) -> list[str]:
    """Of each cell: when its runs settled, and in how many of them."""
    ends = {
        (key, flow["name"]): flow["window_ns"][1] / 1e9 for key in dict.fromkeys(rows["key"]) for flow in material.scenarios[key]["flows"]
    }
    window = pd.Series([ends.get(of, math.inf) for of in zip(rows["key"], rows["flow"], strict=True)], index=rows.index)
    end = pd.concat([window, rows["lifetime_s"].astype(float)], axis=1).min(axis=1)
    at = rows["transient_s"].astype(float).where(rows["transient_s"] < end - SETTLED_S)
    texts = []
    for _, where in groups(rows, by):
        settled = at.iloc[where].dropna()
        known = int(rows[GOODPUT].iloc[where].notna().sum())
        some = f" in {len(settled)} of {len(where)}" if len(settled) < len(where) else ""
        texts.append(f"{number(settled.mean(), 1)}{some}" if len(settled) else "never" if known else "–")
    return texts


def reasons(table: pd.DataFrame) -> list[tuple[str, str]]:
    """What limited the cells (label, limited_by, why) in a sentence each; cells of one sentence
    stand together.
    """
    labels_of: dict[str, list[str]] = {}
    for _, row in table.iterrows():
        labels_of.setdefault(str(row["why"]), []).append(str(row["label"]))
    return [(", ".join(labels) if len(labels_of) > 1 else "All", why) for why, labels in labels_of.items()]


_SIZES = {
    "segment_usual_bytes": ("Segment", "Most frequent payload of the captured segments, bytes"),
    "packet_max_acked_bytes": ("Longest acked", "Longest packet that was acknowledged, with its IP header, bytes"),
}


def paths(rows: pd.DataFrame, names: Sequence[str], subflows: pd.DataFrame, named: PathNames, why: Sequence[str] = ()) -> Table:
    """Each subflow of each cell: its share of the work, and the figures of its path. `why`: of
    those that never came up.
    """
    shown = subflows[subflows["key"].isin(rows["key"])]
    # Fullmesh asks for a subflow between every two addresses; those that no route joins never come
    # up, and say nothing.
    never = shown[shown["established_s"].isna()]
    shown = _over_seeds(shown[shown["established_s"].notna()])
    metrics = [
        "acked_mbps",
        "mean_srtt_ms",
        "min_rtt_ms",
        "mean_cwnd",
        "max_cwnd",
        "retransmissions",
        "timeouts",
        "cwnd_limited_s",
        "busy_s",
    ]
    # Only where something was captured.
    sizes = [name for name in ("segment_usual_bytes", "packet_max_acked_bytes") if name in shown and bool(shown[name].notna().any())]
    table = summarise(shown, [*names, "flow", "subflow", "source", "destination"], [*metrics, *sizes])
    flows = shown["flow"].nunique()
    columns = [
        Column(title="Cell", numeric=False),
        Column(
            title="Path", help="The link that no other path of the flow takes, as the study calls it; of several the slowest", numeric=False
        ),
        Column(title="Addresses", numeric=False),
        Column(title="Acked", unit="Mbit/s", help="Mbit/s acknowledged over the window"),
        Column(title="Mean RTT", unit="ms", help="Mean smoothed round-trip time, ms"),
        Column(title="Min RTT", unit="ms", help="Smallest round-trip time, ms"),
        Column(title="Mean cwnd", unit="packets", help="Mean congestion window, packets"),
        Column(title="Max cwnd", unit="packets", help="Largest congestion window, packets"),
        Column(title="Retrans.", help="Segments sent again"),
        Column(title="Timeouts"),
        Column(title="cwnd full", help="Share of its busy time in which data waited and the congestion window was full"),
        *[Column(title=_SIZES[name][0], unit="bytes", help=_SIZES[name][1]) for name in sizes],
    ]
    body, last = [], None
    for _, row in table.iterrows():
        name = label(dict(row), names, flows)
        busy = float(row["busy_s"])
        body.append(
            [
                Cell(text="" if name == last else name, css="name"),
                Cell(text=named.get((bare(row["source"]), bare(row["destination"])), ""), css="name"),
                Cell(text=f"{row['source']} → {row['destination']}", css="ends"),
                Cell(text=number(row["acked_mbps"]), css="strong"),
                Cell(text=number(row["mean_srtt_ms"], 1)),
                Cell(text=number(row["min_rtt_ms"], 1)),
                Cell(text=number(row["mean_cwnd"], 1)),
                Cell(text=count(row["max_cwnd"])),
                Cell(text=count(row["retransmissions"])),
                Cell(text=count(row["timeouts"])),
                Cell(text=percent(float(row["cwnd_limited_s"]) / busy, 0) if busy > 0 else "–"),
                *[Cell(text=count(row[name])) for name in sizes],
            ]
        )
        last = name
    return Table(
        columns=columns,
        rows=body,
        note=" ".join([_never_up(never), *(f"{sentence[:1].upper()}{sentence[1:]}." for sentence in why)]).strip(),
    )


def _over_seeds(subflows: pd.DataFrame) -> pd.DataFrame:
    """A kernel draws ports, and numbers subflows as they come up: over several seeds a subflow is
    known by its addresses, and by its number among those that share them.
    """
    ends = [subflows[name].map(bare) for name in ("source", "destination")]
    if subflows["seed"].nunique() < 2 or all((end == subflows[end.name]).all() for end in ends):
        return subflows
    subflows = subflows.assign(source=ends[0], destination=ends[1])
    return subflows.assign(subflow=subflows.groupby(["key", "flow", "source", "destination"]).cumcount())


def _never_up(never: pd.DataFrame) -> str:
    """A sentence about subflows that were asked for and never established."""
    pairs = list(dict.fromkeys(zip(never["source"], never["destination"], strict=True)))
    if not pairs:
        return ""
    named = ", ".join(f"{source} → {destination}" for source, destination in pairs[:_NAMED])
    more = f" and {len(pairs) - _NAMED} more" if len(pairs) > _NAMED else ""
    return f"Never established and left out: {named}{more}."


# So many pairs of addresses are named.
_NAMED = 6

ORDER = [
    "byte_delay_p50_ms",
    "byte_delay_p95_ms",
    "byte_delay_p99_ms",
    "out_of_order_share",
    "reordering_max_bytes",
    "out_of_order_mean_bytes",
    "hol_delay_ms",
    "hol_blocked_s",
]


def order(rows: pd.DataFrame, names: Sequence[str]) -> Table | None:
    """How long the application's bytes took, and what waited for what came before it; nothing where
    no engine told.
    """
    with_delay = rows[rows["byte_delay_p50_ms"].notna()] if "byte_delay_p50_ms" in rows else rows.iloc[:0]
    if with_delay.empty:
        return None
    table = summarise(with_delay, [*names, "flow"], ORDER)
    flows = with_delay["flow"].nunique()
    columns = [
        Column(title="Cell", numeric=False),
        Column(
            title="Delay p50",
            unit="ms",
            help="From when the sender’s socket accepted a byte until it was read: of half of the bytes at most so many ms",
        ),
        Column(title="p95", unit="ms", help="The same of 95 % of the bytes, ms"),
        Column(title="p99", unit="ms", help="The same of 99 % of the bytes, ms"),
        Column(title="Out of order", help="Share of the bytes that came before their turn; of MPTCP, between subflows"),
        Column(title="Furthest", unit="KB", help="Most KB by which something came before its turn"),
        Column(title="Waiting", unit="KB", help="KB that waited at the receiver for what comes before them, mean over time"),
        Column(title="Wait", unit="ms", help="Ms that a byte waited there, mean over all"),
        Column(title="Blocked", unit="s", help="Seconds in which something waited"),
    ]
    body = [
        [
            Cell(text=label(dict(row), names, flows), css="name"),
            *(Cell(text=number(row[f"byte_delay_{name}_ms"], 1)) for name in ("p50", "p95", "p99")),
            Cell(text=percent(row["out_of_order_share"])),
            Cell(text=number(row["reordering_max_bytes"] / 1e3, 0)),
            Cell(text=number(row["out_of_order_mean_bytes"] / 1e3, 1)),
            Cell(text=number(row["hol_delay_ms"], 2)),
            Cell(text=number(row["hol_blocked_s"], 2)),
        ]
        for _, row in table.iterrows()
    ]
    return Table(columns=columns, rows=body)


def published(material: Material) -> Table | None:
    """Published values beside the measured ones."""
    said = material.study.published
    if said is None or material.published is None:
        return None
    table = published_beside(material)
    several = table[PLATFORM].nunique() > 1
    columns = [
        Column(title="Cell", numeric=False),
        *[Column(title="On", numeric=False)] * several,
        Column(title="Published as", numeric=False),
        Column(title="Compared with", numeric=False),
        Column(title="Published"),
        Column(title="Measured"),
        Column(title="Deviation", help="Measured minus published, over published"),
    ]
    body, last = [], None
    for _, row in table.iterrows():
        name = " ".join(str(row[key]) for key in said.keys if row[key])
        deviation = float(row["deviation"])
        body.append(
            [
                Cell(text="" if name == last else name, css="name"),
                *[Cell(text=str(row[PLATFORM]), css="words")] * several,
                Cell(text=_title(row["column"]), css="words"),
                Cell(text=_title(row["metric"]), css="words"),
                Cell(text=number(row["published"])),
                Cell(text=mean_ci(row["measured"], row["ci"]), css="strong"),
                Cell(text=percent(deviation, signed=True), css=_distance(deviation)),
            ]
        )
        last = name
    return Table(columns=columns, rows=body)


def single(material: Material, named: PathNames) -> Table | None:
    """Plain TCP on each path alone; cells that give the same figures are one row."""
    if material.baselines.empty:
        return None
    names = [name for name in material.parameters if name in material.baselines and material.baselines[name].notna().any()]
    table = single_paths(material.baselines, ["experiment", *names])
    table["text"] = [mean_ci(row[GOODPUT], row[f"{GOODPUT}_ci"]) for _, row in table.iterrows()]
    columns = [
        Column(title="Experiment", numeric=False),
        Column(title="Cells", numeric=False),
        Column(title="Path", numeric=False),
        Column(title="Plain TCP alone", unit="Mbit/s"),
    ]
    body = []
    for (experiment, source, destination, text), group in table.groupby(
        ["experiment", "client_address", "server_address", "text"], sort=False
    ):
        cells_of = list(dict.fromkeys(" ".join(str(row[name]) for name in names) for _, row in group.iterrows()))
        body.append(
            [
                Cell(text=str(experiment), css="name"),
                Cell(text=", ".join(cells_of) if len(cells_of) <= 8 else f"{len(cells_of)} cells", css="words"),
                Cell(text=named.get((str(source), str(destination)), f"{source} → {destination}"), css="words"),
                Cell(text=str(text), css="strong"),
            ]
        )
    return Table(columns=columns, rows=body)


def numbers(result: ClaimResult) -> Table | None:
    """The numbers behind a claim, as they are."""
    table = result.numbers
    if table.empty:
        return None
    columns = [Column(title=_title(name), numeric=pd.api.types.is_numeric_dtype(table[name])) for name in table.columns]
    body = [[_plain(name, row[name]) for name in table.columns] for _, row in table.iterrows()]
    return Table(columns=columns, rows=body)


def _plain(name: str, value: Any) -> Cell:
    if name in ("deviation", "variation"):
        return Cell(text=percent(value, signed=name == "deviation"))
    if isinstance(value, bool | str) or value is None:
        return Cell(text="–" if value is None else _title(value) if name in ("metric", "column") else str(value))
    if float(value).is_integer() and name in ("n", "minimum", "maximum", "subflow"):
        return Cell(text=count(value))
    return Cell(text=number(value, 3))


def _baselines_of(rows: pd.DataFrame, material: Material) -> pd.DataFrame:
    if material.baselines.empty:
        return material.baselines
    return material.baselines[material.baselines["experiment"].isin(rows["experiment"].unique())]


def _title(name: Any) -> str:
    titles: Mapping[str, str] = {
        "goodput_receiver_mbps": "goodput, receiver’s view",
        "goodput_sender_mbps": "goodput, sender’s view",
        "n": "runs",
        "ci": "± 95 %",
        "variation": "coefficient of variation",
        "column": "published as",
    }
    return titles.get(str(name), str(name).replace("_mbps", ", Mbit/s").replace("_", " "))


def _distance(deviation: float) -> str:
    """How far off, in three steps, for the eye."""
    if not math.isfinite(deviation):
        return ""
    return "near" if abs(deviation) <= 0.05 else "off" if abs(deviation) <= 0.20 else "far"
