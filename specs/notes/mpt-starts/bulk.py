"""A bulk TCP: bulk.py read SECONDS | bulk.py write CC SECONDS SHIFT_US

The reader prints the bytes of SECONDS, and Mbit/s of each of them; the writer what TCP_INFO says
every half second and at the end.
"""

import contextlib
import itertools
import socket
import struct
import sys
import threading
import time

SERVER = ("10.9.0.2", 5001)
CHUNK = 1 << 18
SHOWN = ("snd_cwnd", "snd_ssthresh", "rtt", "min_rtt", "total_retrans", "reordering", "ca_state")


def read(seconds: int) -> None:
    """Reads until the writer ends."""
    with socket.create_server(SERVER) as listener:
        connection, _ = listener.accept()
    marks, total, begun = [0], 0, time.monotonic()
    while data := connection.recv(CHUNK):
        while time.monotonic() >= begun + len(marks):
            marks.append(total)
        total += len(data)
    marks += [total] * (seconds + 1 - len(marks))
    print(f"goodput {marks[seconds] * 8e-6 / seconds:.3f}")
    print("seconds", *(f"{(after - before) * 8e-6:.1f}" for before, after in itertools.pairwise(marks[: seconds + 1])))


def info(connection: socket.socket) -> dict[str, int]:
    """Some of TCP_INFO (include/uapi/linux/tcp.h)."""
    raw = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    words = struct.unpack("<24I", raw[8:104])
    names = (
        "rto ato snd_mss rcv_mss unacked sacked lost retrans fackets last_sent last_ack_sent last_recv last_ack_recv pmtu rcv_ssthresh "
        "rtt rttvar snd_ssthresh snd_cwnd advmss reordering rcv_rtt rcv_space total_retrans"
    )
    found = dict(zip(names.split(), words, strict=True)) | {"ca_state": raw[1]}
    found["min_rtt"] = struct.unpack("<I", raw[148:152])[0]
    return found


def tell(connection: socket.socket, begun: float, ended: threading.Event) -> None:
    """Prints TCP_INFO every half second."""
    while not ended.wait(0.5):
        told = info(connection)
        print("info", f"{time.monotonic() - begun:.1f}", *(f"{name}={told[name]}" for name in SHOWN))


def write(cc: str, seconds: float, shift_us: int) -> None:
    """Writes for so long, as the reference's program does: each `send` blocks until it has taken
    all, and asks for room in no other way.
    """
    with socket.socket() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cc.encode())
        time.sleep(shift_us / 1e6)
        connection.connect(SERVER)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", 1, 0))
        begun, ended = time.monotonic(), threading.Event()
        teller = threading.Thread(target=tell, args=(connection, begun, ended))
        teller.start()
        while time.monotonic() - begun < seconds:
            with contextlib.suppress(BlockingIOError):
                connection.send(bytes(CHUNK))
        ended.set()
        teller.join()
        print(f"retransmissions {info(connection)['total_retrans']}")


def main() -> None:
    """Does what the first argument says."""
    what, *rest = sys.argv[1:]
    if what == "read":
        read(int(rest[0]))
    else:
        write(rest[0], float(rest[1]), int(rest[2]))


if __name__ == "__main__":
    main()
