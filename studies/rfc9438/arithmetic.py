"""The tables of RFC 9438 section 5 by its own formulas: python studies/rfc9438/arithmetic.py
windows, or rates for table 3.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from figure_tables import table

HERE = Path(__file__).parent
# Figure 5 and section 4.6: what a window keeps of itself after a loss.
BETA = 0.7
# Table 3: packets of 1500 bytes, 0.1 s there and back.
PACKET_BITS, ROUND_TRIP = 12_000, 0.1


def reno(loss: float) -> float:
    """Section 5.1, AVG_W of Reno."""
    return 1.2 / loss**0.5


def highspeed(loss: float) -> float:
    """The same of HSTCP, which below a window of 38 is Reno (RFC 3649 section 5)."""
    return max(0.12 / loss**0.835, reno(loss))


def cubic(loss: float, round_trip: float, c: float = 0.4) -> float:
    """Section 5.1, equation 5, and Reno's window where that is larger (section 4.3)."""
    return max((c * (3 + BETA) / (4 * (1 - BETA))) ** 0.25 * (round_trip / loss) ** 0.75, reno(loss))


def inverse(window: float) -> dict[str, float]:
    """Table 3: the loss with which each has this window."""
    return {
        "reno": (1.2 / window) ** 2,
        "highspeed": (1.2 / window) ** 2 if window < 38 else (0.12 / window) ** (1 / 0.835),
        "cubic": max(((0.4 * (3 + BETA) / (4 * (1 - BETA))) ** 0.25 * ROUND_TRIP**0.75 / window) ** (4 / 3), (1.2 / window) ** 2),
    }


def computed(row: dict[str, str]) -> dict[str, float]:
    """A row of tables 1 and 2."""
    loss, round_trip = 1 / int(row["loss"].removeprefix("1:")), float(row["rtt"].removesuffix("ms")) / 1000
    return {
        "reno": reno(loss),
        "highspeed": highspeed(loss),
        "cubic_0.04": cubic(loss, round_trip, 0.04),
        "cubic": cubic(loss, round_trip),
        "cubic_4": cubic(loss, round_trip, 4),
    }


def read(name: str) -> list[dict[str, str]]:
    with (HERE / name).open() as file:
        return list(csv.DictReader(file))


def windows() -> str:
    """Where the arithmetic and the tables differ by more than one segment."""
    values = [(row, name, value) for row in read("windows.csv") for name, value in computed(row).items()]
    off = [[row["rtt"], row["loss"], name, row[name], f"{value:.2f}"] for row, name, value in values if abs(float(row[name]) - value) > 1]
    return table(
        ["RTT", "loss", "column", "in the RFC", "by its formula"],
        [*off, ["", "", f"{len(values)} values", f"{len(values) - len(off)} within one segment", ""]],
        left=3,
    )


def rates() -> str:
    rows = []
    for row in read("rates.csv"):
        window = float(row["mbps"]) * 1e6 * ROUND_TRIP / PACKET_BITS
        own = inverse(window)
        rows.append(
            [row["mbps"], f"{row['window']} / {window:.1f}", *(f"{row[name]} / {own[name]:.2e}" for name in ("reno", "highspeed", "cubic"))]
        )
    return table(["Mbit/s", "window", "Reno", "HSTCP", "CUBIC"], rows)


if __name__ == "__main__":
    print({"windows": windows, "rates": rates}[sys.argv[1]]())
