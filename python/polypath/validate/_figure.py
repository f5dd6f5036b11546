"""One picture a run: window and round-trip time of each subflow over time, Linux's beside ours, and
the area between the windows.
"""

from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import vl_convert
from rich.console import Console

from polypath.analysis import area_between
from polypath.validate._ids import Setup
from polypath.validate._judge import Verdict
from polypath.validate._run import scenario_key, simulate

_COLOURS = {"Linux": "#888888", "simulated": "#d1495b"}


def draw(verdicts: list[Verdict], table: Path, folder: Path, console: Console) -> list[Path]:
    """Writes FOLDER/ID.png for each simulated run, its first repeat; Linux's curves come from
    series.parquet beside the table.

    FOLDER/areas.csv has the normalised area between the windows of each run and subflow, the
    largest first.
    """
    series_file = table.parent / "series.parquet"
    linux = pd.read_parquet(series_file) if series_file.exists() else None
    if linux is None:
        console.print(f"{series_file} is missing: the figures show the simulated curves only.")
    setups = {verdict.cell.id: (verdict.cell.setups[0], verdict.cell.platform) for verdict in verdicts if verdict.agrees is not None}
    results = simulate([setup for setup, _ in setups.values()], series=True)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    areas = []
    for name, (setup, platform) in setups.items():
        result = results[scenario_key(setup, series=True)]
        if isinstance(result, str):
            continue
        curves = [_ours(result[1], setup)]
        if linux is not None:
            # Repeat 1 is written without a suffix, with _r1, or does not exist.
            rows = linux[
                (linux.platform == platform)
                & linux.id.isin({name, f"{name}_r{setup.repeat}"} if setup.repeat == 1 else {f"{name}_r{setup.repeat}"})
            ]
            curves.append(_linux(rows))
        file = folder / f"{name}.png"
        both = pd.concat(curves)
        area_table = window_areas(both)
        areas += [{"id": name, "line": line, "area": area} for line, area in area_table.items()]
        file.write_bytes(vl_convert.vegalite_to_png(_chart(both, name, area_table).to_json(), scale=1.5))
        written.append(file)
    if areas:
        file = folder / "areas.csv"
        largest_first = pd.DataFrame(areas).sort_values(["area", "id", "line"], ascending=[False, True, True])
        largest_first.to_csv(file, index=False, float_format="%.4f")
        written.append(file)
    return written


def window_areas(curves: pd.DataFrame) -> dict[str, float]:
    """By line: the area between Linux's window and ours over that under their mean, up to where the
    shorter one ends.
    """
    areas = {}
    for line, rows in curves.groupby("line"):
        sides = [rows[rows.who == who].sort_values("time") for who in _COLOURS]
        if any(side.empty for side in sides):
            continue
        left, right = ((side.time.to_numpy(dtype=np.float64), side.cwnd.to_numpy(dtype=np.float64)) for side in sides)
        start, end = max(left[0][0], right[0][0]), min(left[0][-1], right[0][-1])
        between, mean = area_between(left, right, float(start), float(end))
        if mean > 0:
            areas[str(line)] = between / mean
    return areas


def _linux(rows: pd.DataFrame) -> pd.DataFrame:
    # 6.1's series counts subflows from 0, the others from 1.
    number = rows.subflow - rows.subflow.min() + 1 if len(rows) else rows.subflow
    return pd.DataFrame(
        {"time": rows.t, "line": rows.flow + " " + number.astype(str), "cwnd": rows.cwnd, "srtt": rows.srtt_us / 1000, "who": "Linux"}
    )


def _ours(series: dict[str, Any], setup: Setup) -> pd.DataFrame:
    names = ["c"] if setup.shape != "dumbbell" else [f"c{i}" for i in range(1, len(setup.flows) + 1)]
    table = pd.DataFrame(
        {name: np.frombuffer(series[name][1], dtype=series[name][0]) for name in ("time_ns", "flow", "subflow", "cwnd", "srtt_us")}
    )
    line = table.flow.map(lambda flow: names[flow]) + " " + (table.subflow + 1).astype(str)
    return pd.DataFrame({"time": table.time_ns / 1e9, "line": line, "cwnd": table.cwnd, "srtt": table.srtt_us / 1000, "who": "simulated"})


def _chart(curves: pd.DataFrame, title: str, areas: dict[str, float]) -> alt.VConcatChart:
    colour = alt.Color("who:N", title=None, scale=alt.Scale(domain=list(_COLOURS), range=list(_COLOURS.values())))

    def row(line: str, field: str, label: str) -> alt.Chart:
        data = curves[curves.line == line][["time", field, "who"]]
        x = alt.X("time:Q", title="seconds")
        chart: alt.Chart = alt.Chart(data).mark_line(strokeWidth=1).encode(x=x, y=alt.Y(f"{field}:Q", title=label), color=colour)
        return chart.properties(width=560, height=150)

    def window(line: str) -> str:
        return f"{line}: cwnd, packets" + (f"; area {areas[line]:.1%}" if line in areas else "")

    lines = sorted(curves.line.unique())
    rows = [alt.hconcat(row(line, "cwnd", window(line)), row(line, "srtt", f"{line}: srtt, ms")) for line in lines]
    return alt.vconcat(*rows, title=title)
