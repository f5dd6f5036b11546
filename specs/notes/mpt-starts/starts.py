"""Runs of the reference (tests/data/reference/mpt-gre) again on a kernel, from several starts, with
a program that speaks MPT's format.

python specs/notes/mpt-starts/starts.py CSV [PATTERN..] [--kernel 6.1] [--starts 5]

Appends a row a run to CSV: name of the reference's run, start in us, seed of the kernel, goodput in
Mbit/s, retransmissions, and Mbit/s of each second. A run with losses has another seed each time,
any other begins at another moment of a tick of the kernel's clock (4 ms). What is there is not run
again.
"""

import argparse
import csv
import subprocess
import sys
import tempfile
from fnmatch import fnmatchcase
from pathlib import Path

HERE = Path(__file__).parent
REFERENCE = HERE.parents[2] / "tests/data/reference/mpt-gre/summary.csv"
TICK_US = 4000
FIRST_PATH = "_synp1"


def settings(row: dict[str, str], shift: int) -> dict[str, str]:
    """What run.sh is told for a run of the reference."""
    before = "4" if row["id"].endswith(FIRST_PATH) else "3"
    return {
        "MODE": row["mode"], "CC": row["cc"], "DELAY": row["delay_ms"], "LOSS": row["loss_pct"] or "0", "WINDOW": row["reorder_window"],
        "QUEUE": row["queue_pkts"] or "100", "DURATION": row["dur_s"], "BEFORE": before, "SHIFT": str(shift),
    }  # fmt: skip


def run(row: dict[str, str], shift: int, seed: int, kernel: str) -> dict[str, str]:
    """What the two programs print, by the first word."""
    given = " ".join(f"{name}={value}" for name, value in settings(row, shift).items())
    with tempfile.NamedTemporaryFile("w", suffix=".sh") as job:
        job.write(f"{given} sh {HERE.resolve() / 'run.sh'}\n")
        job.flush()
        command = ["polypath", "linux", "exec", "--kernel", kernel, "--seed", str(seed), job.name]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return dict(line.split(" ", 1) for line in printed.splitlines() if " " in line)


def main() -> None:
    """Runs what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("csv", type=Path)
    parser.add_argument("patterns", nargs="*")
    parser.add_argument("--kernel", default="6.1")
    parser.add_argument("--starts", type=int, default=5)
    given = parser.parse_args()
    done = set()
    if given.csv.exists():
        with given.csv.open() as file:
            done = {(row["id"], row["shift_us"], row["seed"]) for row in csv.DictReader(line for line in file if line[0] != "#")}
    with REFERENCE.open() as file:
        rows = [row for row in csv.DictReader(file) if any(fnmatchcase(row["id"], pattern) for pattern in given.patterns or ["*"])]
    for number in range(given.starts):
        for row in rows:
            lossy = float(row["loss_pct"] or 0) > 0
            shift, seed = (0, 1 + number) if lossy else (number * TICK_US // given.starts, 1)
            if (row["id"], str(shift), str(seed)) in done:
                continue
            found = run(row, shift, seed, given.kernel)
            new = not given.csv.exists()
            with given.csv.open("a") as file:
                writer = csv.writer(file, lineterminator="\n")
                if new:
                    writer.writerow(["id", "shift_us", "seed", "goodput_mbps", "retrans", "seconds"])
                writer.writerow([row["id"], shift, seed, found["goodput"], found["retransmissions"], found["seconds"]])
            print(row["id"], shift, seed, found["goodput"], row["goodput_mbps"], file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
