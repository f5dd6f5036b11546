"""One picture a run: window and round-trip time of each subflow over time, Linux's beside ours."""

from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import vl_convert
from rich.console import Console

from polypath.validate._ids import Setup
from polypath.validate._judge import Verdict
from polypath.validate._run import scenario_key, simulate

_COLOURS = {"Linux": "#888888", "simulated": "#d1495b"}


def draw(verdicts: list[Verdict], table: Path, folder: Path, console: Console) -> list[Path]:
    """Writes FOLDER/ID.png for each simulated run, its first repeat; Linux's curves come from series.parquet beside the table."""
    series_file = table.parent / "series.parquet"
    linux = pd.read_parquet(series_file) if series_file.exists() else None
    if linux is None:
        console.print(f"{series_file} is missing: the figures show the simulated curves only.")
    setups = {verdict.cell.id: (verdict.cell.setups[0], verdict.cell.platform) for verdict in verdicts if verdict.agrees is not None}
    results = simulate([setup for setup, _ in setups.values()], series=True)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
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
        file.write_bytes(vl_convert.vegalite_to_png(_chart(pd.concat(curves), name).to_json(), scale=1.5))
        written.append(file)
    return written


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


def _chart(curves: pd.DataFrame, title: str) -> alt.VConcatChart:
    colour = alt.Color("who:N", title=None, scale=alt.Scale(domain=list(_COLOURS), range=list(_COLOURS.values())))

    def row(line: str, field: str, label: str) -> alt.Chart:
        data = curves[curves.line == line][["time", field, "who"]]
        x = alt.X("time:Q", title="seconds")
        chart: alt.Chart = alt.Chart(data).mark_line(strokeWidth=1).encode(x=x, y=alt.Y(f"{field}:Q", title=label), color=colour)
        return chart.properties(width=560, height=150)

    lines = sorted(curves.line.unique())
    rows = [alt.hconcat(row(line, "cwnd", f"{line}: cwnd, packets"), row(line, "srtt", f"{line}: srtt, ms")) for line in lines]
    return alt.vconcat(*rows, title=title)
