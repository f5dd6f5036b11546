"""What MPTCP told on the wire, from a capture at the client: python wire.py FILE.pcap [FROM_S]
[TO_S].
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import Any

import pandas as pd


def dss(option: bytes) -> dict[str, int]:
    flags, at, found = option[3], 4, {}
    if flags & 1:
        size = 8 if flags & 2 else 4
        found["data_ack"] = int.from_bytes(option[at : at + size], "big") & 0xFFFFFFFF
        at += size
    if flags & 4:
        size = 8 if flags & 8 else 4
        found["dsn"] = int.from_bytes(option[at : at + size], "big") & 0xFFFFFFFF
        found["map_seq"] = int.from_bytes(option[at + size : at + size + 4], "big")
        found["map_len"] = int.from_bytes(option[at + size + 4 : at + size + 6], "big")
    return found


def packets(file: Path) -> pd.DataFrame:
    raw = file.read_bytes()
    magic = struct.unpack("<I", raw[:4])[0]
    unit = 1e-9 if magic == 0xA1B23C4D else 1e-6
    link = struct.unpack("<I", raw[20:24])[0]
    at, rows, scales = 24, [], {}
    while at + 16 <= len(raw):
        seconds, part, size, _ = struct.unpack("<IIII", raw[at : at + 16])
        frame = raw[at + 16 : at + 16 + size]
        at += 16 + size
        ip = frame[14:] if link == 1 else frame
        if len(ip) < 40 or ip[0] >> 4 != 4 or ip[9] != 6:
            continue
        head = (ip[0] & 15) * 4
        tcp = ip[head:]
        sport, dport, seq, ack, offset, flags, window = struct.unpack(">HHIIBBH", tcp[:16])
        length = struct.unpack(">H", ip[2:4])[0] - head - (offset >> 4) * 4
        source = ".".join(map(str, ip[12:16]))
        row: dict[str, Any] = {"t": seconds + part * unit, "src": source, "sport": sport, "dport": dport}
        row |= {"seq": seq, "ack": ack, "len": length, "flags": flags, "win": window}
        options, i = tcp[20 : (offset >> 4) * 4], 0
        while i < len(options) and options[i]:
            if options[i] == 1:
                i += 1
                continue
            if i + 1 >= len(options) or options[i + 1] < 2:
                break
            option = options[i : i + options[i + 1]]
            i += options[i + 1]
            if option[0] == 3:
                scales[source, sport, dport] = option[2]
            if option[0] == 5:
                row["sacks"] = (len(option) - 2) // 8
            if option[0] == 30 and option[2] >> 4 == 2:
                row |= dss(option)
        if not flags & 2:
            row["win"] = window << scales.get((source, sport, dport), 0)
        rows.append(row)
    return pd.DataFrame(rows)


def main() -> None:
    table = packets(Path(sys.argv[1]))
    low, high = (float(sys.argv[2]) if len(sys.argv) > 2 else 0), (float(sys.argv[3]) if len(sys.argv) > 3 else 1e9)
    table.t -= table.t.iloc[0]
    print(table[(table.t >= low) & (table.t <= high)].to_string())


if __name__ == "__main__":
    main()
