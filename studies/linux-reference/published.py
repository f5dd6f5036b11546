"""Writes studies/linux-reference/published.csv from measured Linux runs: python
studies/linux-reference/published.py SUMMARY.csv

SUMMARY.csv has the runs; further repeats of them, measured by the same programs, lie in repeats.csv
beside the study. The names are parsed as `polypath validate` does it; here each becomes the
experiment and the parameters that stand for it in the study. Groups that the study does not have
are left out.
"""

import csv
import sys
from pathlib import Path
from statistics import fmean

from polypath.validate import Setup, read

TARGET = Path(__file__).resolve().with_name("published.csv")
KEYS = ("experiment", "flow", "cc", "transport", "half1", "loss", "mtu1", "mtu2", "middle", "oversize", "probing")
DEFAULT_RMEM = 6_291_456
PROBING = "net.ipv4.tcp_mtu_probing"


def main(summary: str) -> None:
    """One line a cell and flow: the keys, the run's name, mean goodput, the largest distance of a
    repeat from it, how many repeats.
    """
    further = repeats(TARGET.with_name("repeats.csv"))
    rows = []
    for cell in read(Path(summary)):
        if not cell.setups or cell.setups[0].group not in "abcdef":
            continue
        values = [row.mbps for row in cell.rows] + further.get((cell.id, cell.flow), [])
        mean = fmean(values)
        figures = {"goodput_mbps": f"{mean:.3f}", "spread_mbps": f"{max(abs(value - mean) for value in values):.3f}"}
        keys = {**dict.fromkeys(KEYS, ""), **place(cell.setups[0]), "flow": cell.flow}
        rows.append({**keys, "id": cell.id, **figures, "repeats": len(values)})
    with TARGET.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, [*KEYS, "id", "goodput_mbps", "spread_mbps", "repeats"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(f"{TARGET.name}: {len(rows)} lines")


def repeats(table: Path) -> dict[tuple[str, str], list[float]]:
    """Goodputs in Mbit/s by run and flow."""
    found: dict[tuple[str, str], list[float]] = {}
    with table.open(newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            found.setdefault((row["id"], row["flow"]), []).append(float(row["goodput_mbps"]))
    return found


def place(setup: Setup) -> dict[str, str]:
    """The experiment of a set-up, and those parameters that tell it from the others of its
    experiment.
    """
    path = setup.paths[0]
    loss = f"{path.loss:g}%"
    match setup.group:
        case "a":
            return {"experiment": f"a-rtt{2 * path.fwd_ms:g}" + (f"-loss{path.loss:g}" if path.loss else ""), "cc": setup.cc}
        case "c":
            return {"experiment": "c", "cc": setup.cc, "transport": "mptcp" if setup.flows[0].mptcp else "tcp"}
        case "d":
            name = "d-defbuf" if setup.buffers[0] == DEFAULT_RMEM else "d"
            if path.loss:
                return {"experiment": f"{name}-loss", "cc": setup.cc, "loss": loss}
            return {"experiment": f"{name}-delay", "cc": setup.cc, "half1": f"{path.fwd_ms:g}ms"}
        case "e":
            return _mtus(setup)
        case group:
            return {"experiment": group, "cc": setup.cc}


def _mtus(setup: Setup) -> dict[str, str]:
    mptcp = setup.flows[0].mptcp
    narrow = setup.paths[-1]
    found = {"experiment": "e-mptcp" if mptcp else "e-tcp", "mtu1": f"{setup.paths[0].mtu}B", "middle": f"{narrow.mtu_mid or narrow.mtu}B"}
    if mptcp:
        found["mtu2"] = f"{narrow.mtu}B"
    if setup.sysctl.get(PROBING):
        found |= {"experiment": f"{found['experiment']}-probing", "probing": str(setup.sysctl[PROBING])}
        return found | {"oversize": "icmp" if setup.icmp else "silent"}
    return found if setup.icmp else found | {"experiment": f"{found['experiment']}-silent", "oversize": "silent"}


if __name__ == "__main__":
    main(*sys.argv[1:])
