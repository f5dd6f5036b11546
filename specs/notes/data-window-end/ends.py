"""Where the receive window of the data ends: as the receiver announced it, and as Linux's sender
believes; and how far the sender sent.

    python specs/notes/data-window-end/ends.py CAPTURE.pcapng... FROM TO STEP     # of the sender's links; seconds

"Announced" is the newest DATA_ACK with the window of the same packet, "believed" the DATA_ACK with
the window that TCP keeps of the subflow (`tcp_may_update_window`). Needs tshark.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

SERVER_PORT = 5001
FIELDS = [
    *("frame.time_epoch", "tcp.srcport", "tcp.seq", "tcp.ack", "tcp.len", "tcp.window_size"),
    *("tcp.options.mptcp.rawdataseqno", "tcp.options.mptcp.rawdataack", "tcp.options.mptcp.datalvllen"),
]


@dataclass
class Kept:
    """What TCP keeps of a subflow's window."""

    window: int = 0
    seq: int = 0
    una: int = 0

    def update(self, window: int, seq: int, ack: int) -> None:
        if ack > self.una or seq > self.seq or (seq == self.seq and window > self.window):
            self.window, self.seq = window, seq
        self.una = max(self.una, ack)


def packets(file: str) -> Iterator[tuple[float, str, list[str]]]:
    words = [part for field in FIELDS for part in ("-e", field)]
    told = subprocess.run(["tshark", "-r", file, "-Y", "tcp", "-T", "fields", *words], check=True, capture_output=True, text=True)
    for line in told.stdout.splitlines():
        values = line.split("\t")
        yield float(values[0]), file, values


def main() -> None:
    *files, first, last, step = sys.argv[1:]
    found = sorted((packet for file in files for packet in packets(file)), key=lambda packet: packet[0])
    kept = {file: Kept() for file in files}
    base: int | None = None
    acked = announced = believed = sent = 0
    shown = float(first)
    print("| at | data acknowledged | window ends, announced | believed | sent up to |\n|---|---|---|---|---|")
    for time, file, (_, port, seq, ack, length, window, dsn, data_ack, mapped) in found:
        at = time - found[0][0]
        if int(port) == SERVER_PORT:
            if not data_ack:
                continue
            base = int(data_ack) if base is None else base
            kept[file].update(int(window), int(seq), int(ack))
            end = int(data_ack) - base
            acked, announced, believed = max(acked, end), max(announced, end + int(window)), max(believed, end + kept[file].window)
        elif base is not None and dsn and int(length):
            sent = max(sent, int(dsn) - base + int(mapped or length))
        if shown <= at < float(last):
            shown += float(step)
            print(f"| {at:.4f} s | {acked:,} | {announced:,} | {believed:,} | {sent:,} |")


main()
