"""What coupled congestion controls carry where the slower path loses packets: the simulator beside Linux 6.12, by network.

    python specs/notes/slow-subflow-backlog/figures.py

The links are pair 6 of `studies/advice/truth.py`; 60 networks are drawn from their ranges. Our C files are linked into the kernel, too.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "studies" / "advice"))

from truth import link  # noqa: E402  # It lies beside the study.

from polypath import run  # noqa: E402
from polypath.advise import Question, candidates, weighted  # noqa: E402
from polypath.advise._study import study  # noqa: E402

PAIR = 6
# Twelve are too few: in the twelve of truth.py the simulator's LIA carried half of Linux's.
NETWORKS = range(2001, 2061)
ALGORITHMS = ("reno", "lia", "balia")


def main() -> None:
    paths = (link(PAIR - 1, 1), link(PAIR - 1, 2))
    every = [each for each in candidates(paths) if each.paths == "all" and each.scheduler == "default" and not each.shaped]
    asked = study(Question(paths=paths, weights=weighted("download")), [each for each in every if each.cc in ALGORITHMS], list(NETWORKS))
    with tempfile.TemporaryDirectory() as folder:
        runs = pd.concat([run(asked, engine=engine, out=Path(folder) / engine).runs for engine in ("sim", "linux")])
    print("| setting | engine | mean, Mbit/s | its standard error | median | least | below 5 Mbit/s |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for (setting, engine), group in runs.groupby(["setting", "engine"], observed=True, sort=False):
        rates = group["goodput_receiver_mbps"]
        numbers = f"{rates.mean():.1f} | {rates.sem():.1f} | {rates.median():.1f} | {rates.min():.1f} | {(rates < 5).sum()} of {len(rates)}"
        print(f"| {setting} | {engine} | {numbers} |")


if __name__ == "__main__":
    main()
