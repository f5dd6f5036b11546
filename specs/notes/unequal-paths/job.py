"""Questions of two unequal paths, over ten to twelve starts on both engines: vegas, simult-flows,
nitk, and poster beside a TCP.

python job.py run QUESTION [--engines sim,linux] [--only CC]: runs one question; results in
./results. python job.py table QUESTION: what came out, mean and its error. python job.py look
QUESTION CELL SEED: one run on both engines with a series of 10 ms.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from polypath import Study, run

ROOT = Path(__file__).resolve().parents[3]
BUFFERS: dict[str, Any] = {"sysctl": {"net.ipv4.tcp_rmem": [4096, 131072, 16777216], "net.ipv4.tcp_wmem": [4096, 16384, 16777216]}}
# Two paths each: rate, Mbit/s; delay each way, ms; queue, packets.
VEGAS = {
    "100-10-80_50-30-200": ((100, 10, 80), (50, 30, 200)),
    "60-5-60_40-15-100": ((60, 5, 60), (40, 15, 100)),
    "80-3-50_80-40-400": ((80, 3, 50), (80, 40, 400)),
    "20-10-40_90-25-300": ((20, 10, 40), (90, 25, 300)),
    "110-2-30_30-50-250": ((110, 2, 30), (30, 50, 250)),
    "45-20-150_100-8-120": ((45, 20, 150), (100, 8, 120)),
}
WMEAN = "srtt_ms"


def path(number: int, rate: float, half: float, queue: int) -> dict[str, Any]:
    at = [f"10.{number}.1", f"10.{number}.2"]
    first = {
        "ends": [{"node": "c", "address": f"{at[0]}.1"}, {"node": f"p{number}", "address": f"{at[0]}.2"}],
        "forward": {"delay": f"{half}ms"},
    }
    second = {
        "ends": [{"node": f"p{number}", "address": f"{at[1]}.1"}, {"node": "s", "address": f"{at[1]}.2"}],
        "forward": {"rate": f"{rate}mbit", "queue": f"{queue}packets"},
        "backward": {"delay": f"{half}ms"},
    }
    return {f"first{number}": first, f"second{number}": second}


def vegas(cc: list[str]) -> dict[str, Any]:
    def topology(paths: tuple[tuple[float, float, int], ...]) -> dict[str, Any]:
        links = path(1, *paths[0]) | path(2, *paths[1])
        nodes = {"c": BUFFERS, "p1": {"router": True}, "p2": {"router": True}, "s": {**BUFFERS, "addresses": ["10.9.1.1"]}}
        return {"nodes": nodes, "links": links}

    flow = {"client": "c", "server": "s", "server_address": "10.9.1.1", "transport": "mptcp", "cc": "${cc}", "start_spread": "4ms"}
    flow["path_manager"] = {"kind": "endpoints", "addresses": [{"address": "10.2.1.1"}]}
    study = {"name": "vegas", "topology": topology(VEGAS["60-5-60_40-15-100"]), "flows": {"c": flow}, "duration": "25s", "seeds": 10}
    study["measure"] = {"window": ["0s", "25s"], "series": "100ms"}
    study["experiments"] = {name: {"title": name, "topology": topology(paths), "matrix": {"cc": cc}} for name, paths in VEGAS.items()}
    return study


def of_study(name: str, experiments: list[str], cc: list[str], seeds: int) -> dict[str, Any]:
    study = yaml.safe_load((ROOT / "studies" / name / "study.yaml").read_text())
    study["experiments"] = {key: study["experiments"][key] for key in experiments}
    for experiment in study["experiments"].values():
        experiment["matrix"] = {"cc": cc}
        experiment.pop("exclude", None)
    for part in ("claims", "published", "short", "baselines", "figures", "questions", "report"):
        study.pop(part, None)
    study["seeds"] = seeds
    study["measure"]["series"] = "100ms"
    return study


def varied(cc: list[str]) -> dict[str, Any]:
    """simult-flows with other queues: nothing else in it moves what the first overflow loses, since
    all starts lie within a tick.
    """
    study = of_study("simult-flows", ["unbalanced-opposed"], cc, 2)
    study["parameters"]["queue"] = "1000packets"
    for link in ("eth1", "eth2"):
        study["topology"]["links"][link]["both"][0]["queue"] = "${queue}"
    study["experiments"]["unbalanced-opposed"]["matrix"] |= {"queue": [f"{packets}packets" for packets in range(900, 1110, 20)]}
    return study


QUESTIONS = {
    "queues": lambda cc: varied(cc or ["reno"]),
    "vegas": lambda cc: vegas(cc or ["vegas"]),
    "simult": lambda cc: of_study("simult-flows", ["unbalanced-opposed"], cc or ["reno", "lia", "balia", "cubic"], 10),
    "nitk": lambda cc: of_study("nitk", ["v1"], cc or ["balia", "lia", "reno"], 10),
    "poster": lambda cc: of_study("poster", ["beside-tcp"], cc or ["cubic", "lia", "olia", "balia", "reno"], 12),
}
MEASURES = {"queues": ["completion_s"], "simult": ["completion_s", WMEAN], "nitk": ["goodput_receiver_mbps", WMEAN]}


def study(question: str, cc: list[str], linux: bool, look: tuple[str, int] | None = None) -> Study:
    made = {"baselines": None, **QUESTIONS[question](cc)}
    for experiment in made["experiments"].values():
        if linux and question == "vegas":
            experiment["matrix"] = {"cc": [f"{name}@{whose}" for name in experiment["matrix"]["cc"] for whose in ("linux", "polypath")]}
    if look:
        cell, seed = look
        made["experiments"] = {key: each for key, each in made["experiments"].items() if key == cell}
        made["seeds"], made["measure"]["series"] = [seed], "10ms"
    return Study.model_validate(made)


def table(question: str, out: Path) -> None:
    columns = {}
    for engine in ("sim", "linux"):
        file = out / (engine if question != "queues" else f"{engine}-queues") / QUESTIONS[question]([])["name"] / "runs.parquet"
        if not file.exists():
            continue
        runs = pd.read_parquet(file)
        for measure in MEASURES.get(question, ["goodput_receiver_mbps"]):
            values = runs.groupby(["experiment", "cc", *(["queue"] if question == "queues" else []), "flow"])[measure]
            columns[engine, measure] = values.mean().map("{:.2f}".format) + " ± " + values.sem().map("{:.2f}".format)
    print(pd.DataFrame(columns).to_string())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["run", "table", "look"])
    parser.add_argument("question", choices=list(QUESTIONS))
    parser.add_argument("cell", nargs="?")
    parser.add_argument("seed", nargs="?", type=int)
    parser.add_argument("--only", default="")
    parser.add_argument("--engines", default="sim,linux")
    parser.add_argument("--out", type=Path, default=Path("results"))
    arguments = parser.parse_args()
    cc = [name for name in arguments.only.split(",") if name]
    if arguments.what == "table":
        table(arguments.question, arguments.out)
        return
    for engine in arguments.engines.split(","):
        look = (arguments.cell, arguments.seed) if arguments.what == "look" else None
        out = arguments.out / (f"look-{engine}" if look else f"{engine}-queues" if arguments.question == "queues" else engine)
        run(study(arguments.question, cc, engine == "linux", look), engine=engine, out=out)


if __name__ == "__main__":
    main()
