"""What the packets of a run show, as tables for the README: packets.py rounds | depth | unordered

`rounds` shows round trips as Vegas and BBR see them, `depth` by how many places packets overtake
one another on the paths and how long they wait, `unordered` what TCP makes of it without a reorder
buffer. Runs are cells of the study, shortened, with captures.
"""

import argparse
import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from polypath import _native
from polypath.study import Study, cells, scenario

HERE = Path(__file__).parent
SECOND = 1_000_000_000
# Seconds, and round trips, that are shown.
DEPTH = 20
# Addresses of the sender's paths.
SOURCES = (bytes((10, 1, 0, 1)), bytes((10, 2, 0, 1)))
# Types of a series' columns.
CODES = {"<u1": "B", "<u4": "I", "<u8": "Q"}
SHOWN = (0, 1, 4, 60)
TCP_PORT_OFFSET = 20
ENHANCED_PACKET, TCP, UDP, SYN = 6, 6, 17, 2


@dataclass(frozen=True, kw_only=True)
class Run:
    """A cell that was run: its outcome, samples of its one connection, and captured packets by the
    file's name.
    """

    outcome: dict[str, Any]
    samples: list[dict[str, int]]
    captures: dict[str, list[tuple[int, bytes]]]

    @property
    def mbps(self) -> float:
        return float(self.outcome["flows"][0]["goodput_receiver_bps"] / 1e6)

    @property
    def tunnel(self) -> dict[str, Any]:
        """The direction of the data."""
        return next(each for each in self.outcome["tunnels"] if each["a_to_b"])


@dataclass(frozen=True, kw_only=True)
class Segment:
    """Of TCP, in a capture of the tunnel's device."""

    at: int
    from_sender: bool
    seq: int
    ack: int
    length: int
    sacks: tuple[tuple[int, int], ...]


def packets(capture: bytes) -> list[tuple[int, bytes]]:
    """Time in ns and bytes from the IP header on, of each packet of a pcapng as the simulator
    writes it.
    """
    found, at = [], 0
    while at < len(capture):
        kind, length = struct.unpack_from("<II", capture, at)
        if kind == ENHANCED_PACKET:
            _, high, low, kept = struct.unpack_from("<IIII", capture, at + 8)
            found.append((high << 32 | low, capture[at + 28 : at + 28 + kept]))
        at += length
    return found


def run(
    seconds: float, *, before: int | None = None, experiment: str, cc: str, delay: str, captures: tuple[tuple[str, str], ...] = ()
) -> Run:
    """A cell of the study for so long, with what nodes send to links and get from them."""
    study = Study.load(HERE)
    like = next(c for c in cells(study) if (c.experiment, c.parameters["cc"], str(c.parameters["delay"])) == (experiment, cc, delay))
    plain = scenario(like.setup, 1)
    duration = round(seconds * SECOND)
    plain |= {"duration_ns": duration, "series_interval_ns": SECOND // 200}
    plain["flows"][0] |= {"app": {"kind": "bulk", "duration_ns": duration}, "window_ns": [0, duration]}
    if before is not None:
        plain["tunnels"][0]["packets_before"] = before
    plain["captures"] = [{"node": node, "link": link, "snaplen": 128, "packets": 10_000_000} for node, link in captures]
    outcome, series, _, files = _native.simulate(json.dumps(plain))
    columns = {name: memoryview(data).cast(CODES[kind]).tolist() for name, (kind, data) in series.items()}
    samples = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return Run(outcome=json.loads(outcome), samples=samples, captures={Path(name).stem: packets(data) for name, data in files.items()})


def segments(capture: list[tuple[int, bytes]]) -> Iterator[Segment]:
    """The TCP segments of a capture of the device; the sender is 10.9.0.1."""
    for at, ip in capture:
        head = (ip[0] & 15) * 4
        if ip[9] != TCP:
            continue
        seq, ack, offset = struct.unpack_from(">IIB", ip, head + 4)
        options, sacks = ip[head + TCP_PORT_OFFSET : head + (offset >> 4) * 4], []
        while options and options[0]:
            if options[0] == 1:
                options = options[1:]
                continue
            if options[0] == 5:
                edges = struct.unpack_from(f">{(options[1] - 2) // 4}I", options, 2)
                sacks = list(zip(edges[::2], edges[1::2], strict=True))
            options = options[options[1] :]
        length = struct.unpack_from(">H", ip, 2)[0] - head - (offset >> 4) * 4 + bool(ip[head + 13] & SYN)
        yield Segment(at=at, from_sender=ip[15] == 1, seq=seq, ack=ack, length=length, sacks=tuple(sacks))


def numbers(capture: list[tuple[int, bytes]], source: bytes) -> Iterator[tuple[int, int]]:
    """Time and the tunnel's number of each packet from an address (RFC 2890: behind 4 bytes of GRE,
    where bit S is set).
    """
    for at, ip in capture:
        if ip[9] == UDP and ip[12:16] == source and ip[28] & 0x10:
            yield at, struct.unpack_from(">I", ip, 32)[0]


def rounds(found: Run) -> Iterator[tuple[int, int, list[int]]]:
    """Of each round trip: its start, what was sent in it, and the round-trip times of its segments,
    by the packets at the sender.
    """
    (capture,) = found.captures.values()
    sent: list[tuple[int, int]] = []
    begun, end, count, times = 0, None, 0, []
    for segment in segments(capture):
        if segment.from_sender and segment.length:
            sent.append((segment.seq + segment.length, segment.at))
            count += 1
            if end is None:
                begun, end = segment.at, segment.seq + segment.length
        elif not segment.from_sender:
            while sent and sent[0][0] <= segment.ack:
                times.append(segment.at - sent.pop(0)[1])
            if end is not None and segment.ack >= end:
                yield begun, count, times
                begun, end, count, times = segment.at, None, 0, []


def show_rounds() -> None:
    """Vegas and BBR at 50 ms, with the SYN on either path."""
    print("| algorithm | SYN on path | round trip | begins at, ms | sent | least, ms | so far, ms | Vegas sees queued | cwnd after |")
    print("|---|---:" + "|---:" * 7 + "|")
    for cc in ("vegas", "bbr"):
        for before in (3, 4):
            found = run(8, experiment="nic-delay", cc=cc, delay="50ms", before=before, captures=(("a", "mpt"),))
            least = 0
            for number, (begun, count, times) in enumerate(rounds(found)):
                own = min(times)
                least = min(least or own, own)
                if number not in SHOWN:
                    continue
                end = begun + max(times)
                cwnd = next((row["cwnd"] for row in found.samples if row["time_ns"] >= end), found.samples[-1]["cwnd"])
                # Linux: `tcp_vegas_cong_avoid`.
                shown = f"{count * (own - least) / least:.0f}" if cc == "vegas" else ""
                path, times_ms = 2 if before % 2 else 1, f"{own / 1e6:.2f} | {least / 1e6:.2f}"
                print(f"| `{cc}` | {path} | {number} | {begun / 1e6:.1f} | {count} | {times_ms} | {shown} | {cwnd} |")


def show_depth() -> None:
    """How far packets overtake one another, in the tunnel's numbers, in the second half of a run."""
    print("| added to path 1 | algorithm | Mbit/s | come behind later ones | behind, median | at most | wait | median, ms | at most, ms |")
    print("|---:|---|" + "---:|" * 7)
    for delay in ("10ms", "20ms", "50ms", "100ms"):
        for cc in ("reno", "vegas"):
            found = run(DEPTH, experiment="nic-delay", cc=cc, delay=delay, captures=(("b", "r1-b"), ("b", "r2-b")))
            files = found.captures.values()
            every = sorted(arrival for file in files for source in SOURCES for arrival in numbers(file, source))
            behind, waits, seen = overtaken(every, DEPTH * SECOND // 2)
            print(
                f"| {delay} | `{cc}` | {found.mbps:.1f} | {len(behind) / seen:.0%} | {median(behind):.0f} | {max(behind)} |"
                f" {len(waits) / seen:.0%} | {median(waits) / 1e6:.1f} | {max(waits) / 1e6:.1f} |"
            )


def overtaken(arrivals: list[tuple[int, int]], since: int) -> tuple[list[int], list[int], int]:
    """Of the packets from a time on: behind how many later ones each came that came behind any; how
    long each waited that had to wait for earlier ones; and how many packets there were. Numbers
    begin with the least.
    """
    behind, waits, early = [], [], {}
    expected, seen = min(number for _, number in arrivals), 0
    for at, number in arrivals:
        seen += at >= since
        if number != expected:
            early[number] = at
            continue
        # Every earlier number is there, so what is early is later.
        if early and at >= since:
            behind.append(len(early))
        expected += 1
        while expected in early:
            came = early.pop(expected)
            if at >= since:
                waits.append(at - came)
            expected += 1
    return behind or [0], waits or [0], max(seen, 1)


def show_unordered() -> None:
    """Without a reorder buffer: what TCP sees, and how it adapts."""
    print("| algorithm | added | after | least, ms | srtt, ms | reordering | cwnd | sent again | duplicates told | Mbit/s so far |")
    print("|---|---:|" + "---:|" * 8)
    for cc, delay in (("cubic", "10ms"), ("bbr", "10ms"), ("cubic", "100ms")):
        found = run(10, experiment="no-reorder", cc=cc, delay=delay, captures=(("a", "mpt"),))
        (capture,) = found.captures.values()
        told = [s.at for s in segments(capture) if not s.from_sender and s.sacks and s.sacks[0][1] <= s.ack]
        for second in (0.1, 1, 5, 10):
            at = round(second * SECOND)
            row = max((row for row in found.samples if row["time_ns"] <= at), key=lambda row: row["time_ns"])
            duplicates = sum(time <= at for time in told)
            mbps = row["bytes_received"] * 8e-6 / second
            times_ms = f"{row['min_rtt_us'] / 1e3:.2f} | {row['srtt_us'] / 1e3:.2f}"
            counts = f"{row['reordering']} | {row['cwnd']} | {row['retransmissions']} | {duplicates}"
            print(f"| `{cc}` | {delay} | {second:g} s | {times_ms} | {counts} | {mbps:.1f} |")


def main() -> None:
    """Prints the table that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    shown = {"rounds": show_rounds, "depth": show_depth, "unordered": show_unordered}
    parser.add_argument("table", choices=shown)
    shown[parser.parse_args().table]()


if __name__ == "__main__":
    main()
