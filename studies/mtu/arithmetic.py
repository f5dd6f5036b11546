"""What follows from the thesis' own numbers by arithmetic, as a Markdown table: python
studies/mtu/arithmetic.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

# Ethernet, as a capture has it, IPv4, TCP with timestamps, and the DSS of MPTCP v0 with its
# checksum, in bytes.
HEADERS = 14 + 20 + 32 + 20


def connection_rate(mss: int, subflows: Sequence[Mapping[str, int]]) -> list[float]:
    """What out-of-tree MPTCP expects of each subflow, in Mbit/s, if the whole connection had this
    MSS (the thesis' section 10.5.1).

    mss² · 8·10⁶ · cwnd / (srtt · ⌈mss / own⌉ · own), with `own` the subflow's MSS and `srtt` in µs:
    a segment of the connection that does not fit the subflow's is cut, and the last piece counts as
    a whole one.
    """
    return [mss * mss * 8 * each["cwnd"] / (each["srtt_us"] * ceil(mss / each["mss"]) * each["mss"]) for each in subflows]


EXAMPLE = ({"mss": 8960, "cwnd": 20, "srtt_us": 50_000}, {"mss": 1460, "cwnd": 20, "srtt_us": 50_000})


def share_of_frame(payload: int) -> float:
    """The part of a frame that is payload."""
    return payload / (payload + HEADERS)


def rows() -> list[tuple[str, str, str]]:
    """What, what the thesis says, what it is."""
    wide, narrow = (connection_rate(each["mss"], EXAMPLE) for each in EXAMPLE)
    # Figure 10.13: frames 16, 18, 20, 23, 25, 27, 29, 31 and 33 of subflow 1, each of 9014 bytes.
    begun, ended, frames = 0.007673, 0.065215, 8
    return [
        ("expected rate, MSS 8960, Mbit/s", "28.67 + 28.05 = 56.72", f"{wide[0]:.2f} + {wide[1]:.2f} = {sum(wide):.2f}"),
        ("expected rate, MSS 1460, Mbit/s", "0.76 + 4.67 = 5.43", f"{narrow[0]:.2f} + {narrow[1]:.2f} = {sum(narrow):.2f}"),
        ("rate of a link in figure 10.13, Mbit/s", "not given", f"{frames * 9014 * 8 / (ended - begun) / 1e6:.1f}"),
        ("payload of two links of 10 Mbit/s, segments of 576, Mbit/s", "17.16", f"{20 * share_of_frame(576):.2f}"),
        ("the same with segments of 1024, Mbit/s", "18.36", f"{20 * share_of_frame(1024):.2f}"),
        ("the same with 8928 and 1428, Mbit/s", "", f"{10 * (share_of_frame(8928) + share_of_frame(1428)):.2f}"),
        ("one link of 10 Mbit/s with segments of 8928, Mbit/s", "", f"{10 * share_of_frame(8928):.2f}"),
        (
            "probing, after over before",
            f"{56.8 / 44.3:.2f}",
            f"{2 * share_of_frame(1024) / share_of_frame(8928):.2f} if one full link becomes two",
        ),
    ]


def main() -> None:
    """Prints the table."""
    print("| what | in the thesis | by arithmetic |\n| --- | --- | --- |")
    for row in rows():
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
