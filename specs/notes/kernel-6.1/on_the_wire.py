"""Summarises captures of `polypath run specs/notes/kernel-6.1/wire --engine linux --kernel NAME`:
what segments carry on the wire.

Usage: python wire.py FOLDER-OF-CAPTURES...
"""

import struct
import sys
from collections import Counter
from pathlib import Path

ETHERNET = 14


def segments(file):
    """(from the client, flags, payload bytes, window field, options by kind, MPTCP subtypes with
    lengths) of each TCP segment.
    """
    raw = file.read_bytes()
    order = "<" if raw[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    link = struct.unpack(order + "I", raw[20:24])[0]
    at = 24
    while at < len(raw):
        _, _, kept, full = struct.unpack(order + "IIII", raw[at : at + 16])
        frame, at = raw[at + 16 : at + 16 + kept], at + 16 + kept
        ip = frame[ETHERNET if link == 1 else 0 :]
        if len(ip) < 40 or ip[0] >> 4 != 4 or ip[9] != 6:
            continue
        head = (ip[0] & 15) * 4
        length = struct.unpack(">H", ip[2:4])[0]
        tcp = ip[head:]
        offset = (tcp[12] >> 4) * 4
        options, mptcp, place = {}, [], 20
        while place < offset:
            kind = tcp[place]
            if kind == 0:
                break
            if kind == 1:
                place += 1
                continue
            size = tcp[place + 1]
            options[kind] = options.get(kind, 0) + size
            if kind == 30:
                mptcp.append((tcp[place + 2] >> 4, size))
            place += size
        yield ip[15] == 1, tcp[13], length - head - offset, struct.unpack(">H", tcp[14:16])[0], offset - 20, options, tuple(mptcp)


for folder in sys.argv[1:]:
    for file in sorted(Path(folder).rglob("*.pcap")):
        data, acks, syns, payloads = Counter(), Counter(), [], Counter()
        windows = []
        for client, flags, payload, window, bytes_, options, mptcp in segments(file):
            if flags & 2:
                syns.append((client, window, bytes_, mptcp))
                continue
            if not client:
                windows.append(window)
            if payload:
                data[bytes_, mptcp] += client
                payloads[payload] += client
            else:
                acks[client, bytes_, mptcp] += 1
        print(file.parent.name, file.stem)
        print("  syn ", syns)
        print("  data (bytes of options, MPTCP subtypes and lengths)", data.most_common(4))
        print("  acks (from the client, ...)", acks.most_common(5))
        print("  payloads", payloads.most_common(4), "first windows", windows[:8])
