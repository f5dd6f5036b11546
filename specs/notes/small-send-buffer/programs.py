"""Senders as programs write them, over one path, and how much of their data the socket held: a line
a sender.

    python3 programs.py ADDRESS HOW SIZE CC SECONDS     at the client
    python3 programs.py ADDRESS                         at the server, in the background

HOW is `blocks` (a send that waits), `until-full` (sends until EAGAIN, then waits for room: Go,
tokio, asyncio, edge-triggered epoll) or `asks` (asks for room before each send: iperf3, a
level-triggered loop). Prints goodput, the most that the socket had queued (sk_wmem_queued) and its
limit (sk_sndbuf).
"""

import select
import socket
import struct
import sys
import threading
import time

TCP_CONGESTION, SO_MEMINFO = 13, 55
WMEM_QUEUED, SNDBUF = 5, 3


def serve(address):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, 5000))
    listener.listen()
    while True:
        connection, _ = listener.accept()
        total = 0
        while got := connection.recv(1 << 20):
            total += len(got)
        connection.sendall(struct.pack("Q", total))
        connection.close()


def send(client, how, data, until):
    room = select.poll()
    room.register(client, select.POLLOUT)
    while time.monotonic() < until:
        if how == "asks" and not room.poll(1000):
            continue
        try:
            client.send(data)
        except BlockingIOError:
            room.poll(1000)


def main(address, how=None, size=None, cc=None, seconds=None):
    if how is None:
        return serve(address)
    client = socket.socket()
    client.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, cc.encode())
    client.connect((address, 5000))
    client.setblocking(how == "blocks")
    most, done = [], threading.Event()

    def watch():
        while not done.wait(0.01):
            most.append(struct.unpack("9I", client.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 36)))

    watcher = threading.Thread(target=watch)
    watcher.start()
    began = time.monotonic()
    send(client, how, bytes(int(size)), began + float(seconds))
    done.set()
    watcher.join()
    client.setblocking(True)
    client.shutdown(socket.SHUT_WR)
    read = struct.unpack("Q", client.recv(8, socket.MSG_WAITALL))[0]
    rate = read * 8e-6 / (time.monotonic() - began)
    late = most[len(most) // 2 :]
    queued, limit = max(each[WMEM_QUEUED] for each in late), late[-1][SNDBUF]
    print(f"{cc:6} {how:10} {size:>7} {rate:8.2f} Mbit/s  queued {queued:8}  sndbuf {limit:8}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
