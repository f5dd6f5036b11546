"""A few cells of studies/mpt-gre, 10 s each, in the simulator and on Linux with the daemon: goodput, and what the tunnels counted.

python specs/notes/tunnel-on-linux/compare.py FOLDER   (results go there; a quarter of an hour on two cores)
"""

import sys
from pathlib import Path

from polypath import Study, run

CELLS = [
    ("nic-delay", "cubic", "delay", "50ms"),
    ("nic-delay", "reno", "delay", "50ms"),
    ("nic-delay", "vegas", "delay", "50ms"),
    ("nic-delay", "bbr", "delay", "50ms"),
    ("router-delay", "cubic", "delay", "50ms"),
    ("router-delay", "vegas", "delay", "50ms"),
    ("nic-loss", "cubic", "loss", "1%"),
    ("no-reorder", "cubic", "delay", "100ms"),
    ("no-reorder", "bbr", "delay", "10ms"),
]


def main(folder: Path) -> None:
    study = Study.load(Path(__file__).parents[3] / "studies" / "mpt-gre").replace(short={"duration": "10s", "seeds": 1}).in_short()
    print(f"{'cell':32} {'engine':6} {'Mbit/s':>7} {'retrans':>8} {'blocked s':>9} {'drops':>6} {'by time':>8} {'late':>6}", flush=True)
    for experiment, cc, name, value in CELLS:
        for engine in ("sim", "linux"):
            only = {"experiment": [experiment], "cc": [cc], name: [value]}
            results = run(study, engine=engine, out=folder / engine / f"{experiment}-{cc}-{value}", only=only)
            row = results.runs.iloc[0]
            retransmissions = int(results.subflows["retransmissions"].sum())
            tunnel = results.tunnels[results.tunnels["a_to_b"]].iloc[0]
            late = tunnel["late_dropped"] + tunnel["late_delivered"]
            print(
                f"{experiment + ' ' + cc + ' ' + value:32} {engine:6} {row['goodput_receiver_mbps']:7.2f} {retransmissions:8}"
                f" {tunnel['blocked_s']:9.3f} {tunnel['queue_drops']:6} {tunnel['given_up_by_time']:8} {late:6}",
                flush=True,
            )


main(Path(sys.argv[1]))
