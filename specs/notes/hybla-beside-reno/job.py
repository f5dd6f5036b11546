"""hybla beside reno in one queue, over twelve starts: the simulator, Linux 6.12 with its own hybla,
and Linux 6.12 with ours compiled in.

python job.py run [--only PATTERN]: runs them; results in ./results.
python job.py table: the goodput of both flows, mean and its error.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pandas as pd

from polypath import Study, run

HOST: dict[str, Any] = {"sysctl": {"net.ipv4.tcp_rmem": [4096, 131072, 16777216], "net.ipv4.tcp_wmem": [4096, 16384, 16777216]}}
# Rate, Mbit/s; round trip, ms; queue, packets. From a fifth of what the path holds to one and a
# half times that.
NETWORKS = {
    "20-40": (20, 40, 67),
    "10-60": (10, 60, 25),
    "30-100": (30, 100, 370),
    "8-30": (8, 30, 30),
    "40-50": (40, 50, 80),
    "15-150": (15, 150, 90),
}
STARTS = 12


def cell(mbit: float, rtt_ms: float, queue: int) -> dict[str, Any]:
    half = f"{rtt_ms / 2}ms"
    links = {
        "c1": {"ends": ["c1", "ra"], "forward": {"delay": half}},
        "c2": {"ends": ["c2", "ra"], "forward": {"delay": half}},
        "m": {"ends": ["ra", "rb"], "forward": {"rate": f"{mbit}mbit", "queue": f"{queue}packets"}},
        "s1": {"ends": ["rb", "s1"], "backward": {"delay": half}},
        "s2": {"ends": ["rb", "s2"], "backward": {"delay": half}},
    }
    nodes = {"c1": HOST, "c2": HOST, "ra": {"router": True}, "rb": {"router": True}, "s1": HOST, "s2": HOST}
    return {"topology": {"nodes": nodes, "links": links}}


def study(hybla: str, reno: str, only: str) -> Study:
    flows = {
        "hybla": {"client": "c1", "server": "s1", "cc": hybla, "start": "1330us"},
        "reno": {"client": "c2", "server": "s2", "cc": reno, "start": "${start}"},
    }
    later = {"start": [f"{1330 + 127_000 * n}us" for n in range(STARTS)]}
    experiments = {name: {"title": name, "matrix": later, **cell(*figures)} for name, figures in NETWORKS.items() if only in name}
    return Study.model_validate(
        {
            "name": "hybla",
            "baselines": None,
            "flows": flows,
            "duration": "45s",
            "measure": {"window": ["10s", "40s"], "series": "100ms"},
            "experiments": experiments,
            **cell(*next(iter(NETWORKS.values()))),
        }
    )


ENGINES = {
    "sim": ("sim", "hybla", "reno"),
    "linux": ("linux", "hybla@linux", "reno@linux"),
    "ours-on-linux": ("linux", "hybla@polypath", "reno@linux"),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["run", "table"])
    parser.add_argument("--only", default="")
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--out", type=Path, default=Path("results"))
    arguments = parser.parse_args()
    names = arguments.engines.split(",")
    if arguments.what == "run":
        for name in names:
            engine, hybla, reno = ENGINES[name]
            run(study(hybla, reno, arguments.only), engine=engine, out=arguments.out / name)
        return
    columns = {}
    for name in names:
        runs = pd.read_parquet(arguments.out / name / "hybla" / "runs.parquet")
        rates = runs.groupby(["experiment", "flow"]).goodput_receiver_mbps
        columns[name] = rates.mean().map("{:.2f}".format) + " ± " + rates.sem().map("{:.2f}".format)
    print(pd.DataFrame(columns).to_string())


if __name__ == "__main__":
    main()
