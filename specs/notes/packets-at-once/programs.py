"""A bulk TCP through a tunnel: programs.py read | programs.py write CC SECONDS

`programs.py acks FILE` says how the reader of a capture acknowledges.
"""

import contextlib
import itertools
import re
import socket
import subprocess
import sys
import time

SERVER = ("10.9.0.2", 5001)
CHUNK = 1 << 18


def read() -> None:
    """Reads until the writer ends, and prints Mbit/s of each second."""
    listener = socket.create_server(SERVER)
    connection, _ = listener.accept()
    marks, total, begun = [0], 0, time.monotonic()
    while data := connection.recv(CHUNK):
        total += len(data)
        while time.monotonic() >= begun + len(marks):
            marks.append(total)
    print("Mbit/s by second:", *(f"{(after - before) * 8e-6:.2f}" for before, after in itertools.pairwise(marks)))


def write(cc: str, seconds: float) -> None:
    """Writes for so long."""
    with socket.socket() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cc.encode())
        connection.connect(SERVER)
        connection.settimeout(0.5)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with contextlib.suppress(TimeoutError):
                connection.send(bytes(CHUNK))


def acks(capture: str) -> None:
    """Of the data segments after the first second: how many an ACK stands for, and how many ACKs
    stand for a single one.
    """
    lines = subprocess.run(["tcpdump", "-tt", "-nr", capture], capture_output=True, text=True, check=True).stdout.splitlines()
    begun, waiting, sizes = float(lines[0].split()[0]), 0, []
    for line in lines:
        if float(line.split()[0]) < begun + 1:
            continue
        if re.search(r"seq \d+:\d+", line):
            waiting += 1
        elif waiting:
            sizes.append(waiting)
            waiting = 0
    print(f"segments for an ACK: {sum(sizes) / len(sizes):.2f}; ACKs for a single one: {sizes.count(1) / len(sizes):.1%}")


def main() -> None:
    """Does what the first argument says."""
    what, *rest = sys.argv[1:]
    if what == "read":
        read()
    elif what == "write":
        write(rest[0], float(rest[1]))
    else:
        acks(rest[0])


if __name__ == "__main__":
    main()
