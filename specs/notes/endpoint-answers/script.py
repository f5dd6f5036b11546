"exec" "python3" "$0"  # fmt: skip

# polypath linux exec --kernel 6.12 specs/notes/endpoint-answers/script.py: the first line makes a
# shell run it as Python.
import fcntl
import os
import pathlib
import select
import signal
import socket
import struct
import subprocess
import time

KERNEL, PEER = "10.9.0.1", "10.9.0.2"
FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
NAMES = ((SYN, "S"), (FIN, "F"), (RST, "R"), (PSH, "P"), (ACK, "."))


def run(*command: str) -> None:
    subprocess.run(command, check=True)


def checksum(data: bytes) -> int:
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


class Segment:
    """A TCP segment of the kernel's."""

    def __init__(self, packet: bytes, at: float) -> None:
        ip = (packet[0] & 15) * 4
        self.at = at
        self.sport, self.dport, self.seq, self.ack, offset, self.flags, self.window = struct.unpack("!HHIIBBH", packet[ip : ip + 16])
        self.options = packet[ip + 20 : ip + (offset >> 4) * 4]
        self.data = packet[ip + (offset >> 4) * 4 :]
        self.ts = self.option(8)

    def option(self, kind: int) -> bytes | None:
        """What an option of this kind holds."""
        options = self.options
        while options and options[0]:
            if options[0] == 1:
                options = options[1:]
                continue
            if options[0] == kind:
                return options[2 : options[1]]
            options = options[options[1] :]
        return None


class Peer:
    """The other end of a connection with the kernel; `rel` numbers count from each side's first
    sequence number.
    """

    def __init__(self) -> None:
        self.tun = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(self.tun, 0x400454CA, struct.pack("16sH", b"tun0", 0x1001))
        run("ip", "addr", "add", f"{KERNEL}/24", "dev", "tun0")
        run("ip", "link", "set", "tun0", "up")
        run("ip", "link", "set", "lo", "up")
        self.start()

    def start(self, port: int = 4000, kernel_port: int = 5000) -> None:
        """A connection of its own: other ports, the same sequence numbers."""
        self.port, self.kernel_port = port, kernel_port
        self.iss, self.irs = 10_000, 0
        self.snd, self.rcv = 10_000, 0
        self.ts: int | None = None
        self.ts_recent = 0

    def now(self) -> float:
        return time.clock_gettime(time.CLOCK_MONOTONIC)

    def send(self, flags: int, seq: int, ack: int, data: bytes = b"", options: bytes = b"", window: int = 65535) -> None:
        """`seq` and `ack` are absolute; with `self.ts` set the segment has a timestamp."""
        if self.ts is not None:
            options = b"\1\1\x08\x0a" + struct.pack("!II", self.ts & 0xFFFFFFFF, self.ts_recent) + options
        options += b"\1" * (-len(options) % 4)
        tcp = struct.pack(
            "!HHIIBBHHH", self.port, self.kernel_port, seq & 0xFFFFFFFF, ack & 0xFFFFFFFF, (5 + len(options) // 4) << 4, flags, window, 0, 0
        )
        tcp += options + data
        a, b = socket.inet_aton(PEER), socket.inet_aton(KERNEL)
        total = checksum(a + b + struct.pack("!HH", 6, len(tcp)) + tcp)
        tcp = tcp[:16] + struct.pack("!H", total) + tcp[18:]
        ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp), 0, 0x4000, 64, 6, 0, a, b)
        ip = ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:]
        os.write(self.tun, ip + tcp)

    def receive(self, seconds: float, count: int = 1_000_000) -> list[Segment]:
        """What the kernel sends within this time, at most so many segments."""
        end, got = self.now() + seconds, []
        while (left := end - self.now()) > 0 and len(got) < count and select.select([self.tun], [], [], left)[0]:
            packet = os.read(self.tun, 65536)
            if packet[0] >> 4 != 4 or packet[9] != 6:
                continue
            segment = Segment(packet, self.now())
            if segment.dport == self.port:
                self.rcv = segment.seq + len(segment.data) + bool(segment.flags & (SYN | FIN))
                if segment.ts:
                    self.ts_recent = struct.unpack("!I", segment.ts[:4])[0]
                got.append(segment)
        return got

    def one(self, seconds: float = 1) -> Segment:
        """The next segment of the kernel."""
        got = self.receive(seconds, 1)
        if not got:
            raise SystemExit("the kernel sent nothing")
        return got[0]

    def syn_options(self) -> bytes:
        return b"\x02\x04" + struct.pack("!H", 1460) + b"\x04\x02" + b"\1\1"

    def connect(self, rtt: float, timestamps: bool = False) -> socket.socket:
        """The peer opens a connection to a listening socket of the kernel; returns the kernel's
        end.
        """
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((KERNEL, self.kernel_port))
        listener.listen()
        self.ts = 1000 if timestamps else None
        self.send(SYN, self.iss, 0, options=self.syn_options())
        answer = self.one()
        self.irs = answer.seq
        time.sleep(rtt)
        self.snd = self.iss + 1
        self.send(ACK, self.snd, self.irs + 1)
        end, _ = listener.accept()
        listener.close()
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return end

    def rel(self, segment: Segment) -> str:
        """A segment with numbers counted from each side's first one."""
        flags = "".join(name for bit, name in NAMES if segment.flags & bit)
        ack = (segment.ack - self.iss) & 0xFFFFFFFF if segment.flags & ACK else 0
        return f"{flags} {(segment.seq - self.irs) & 0xFFFFFFFF}:+{len(segment.data)} ack {ack}"


RTT = 0.050


def phase(peer: Peer, ms: float) -> None:
    """Sleeps until `ms` after a multiple of 4 ms of the clock."""
    now = peer.now()
    time.sleep((ms / 1000 - now) % 0.004 + 0.004)


def warm(peer: Peer, end, rounds: int) -> None:
    """Single segments answered after RTT, until the smoothed RTT is the path's."""
    for _ in range(rounds):
        end.send(b"x" * 1000)
        peer.one()
        time.sleep(RTT)
        peer.send(ACK, peer.snd, peer.rcv)


def probe(peer: Peer, offset: float) -> float:
    end = peer.connect(RTT)
    warm(peer, end, 30)
    phase(peer, offset)
    end.send(b"x" * 1460 * 4)
    sent = [peer.one() for _ in range(1)]
    again = peer.receive(1.0)
    new = [s for s in again if s.seq != sent[0].seq]
    first = again[-1] if not new else next(s for i, s in enumerate(again) if s.at - sent[0].at > RTT)
    end.close()
    return (first.at - sent[0].at) * 1000


def reordering(peer: Peer, offset: float) -> float:
    """Four segments; the second and the fourth are selectively acknowledged, so the first and the
    third wait for a quarter of the RTT.
    """
    end = peer.connect(RTT)
    warm(peer, end, 30)
    # One round with reordering makes RACK wait.
    end.send(b"x" * 1460 * 3)
    peer.receive(RTT)
    base = peer.rcv - 3 * 1460
    peer.send(ACK, peer.snd, base, options=b"\1\1\x05\x0a" + struct.pack("!II", base + 1460, base + 2920))
    time.sleep(0.001)
    peer.send(ACK, peer.snd, base + 3 * 1460)
    peer.receive(0.2)
    peer.rcv = base + 3 * 1460
    warm(peer, end, 10)
    phase(peer, offset)
    end.send(b"x" * 1460 * 3)
    first = peer.one()
    peer.receive(RTT - (peer.now() - first.at))
    base = first.seq
    sacked = peer.now()
    peer.send(ACK, peer.snd, base, options=b"\1\1\x05\x0a" + struct.pack("!II", base + 1460, base + 2920))
    again = peer.receive(1.0)
    end.close()
    return (again[0].at - sacked) * 1000 if again else -1.0


def ask(peer: Peer, what: str, flags: int, seq: int, ack: int, data: bytes = b"", wait: float = 0.02, options: bytes = b"") -> None:
    """Sends one segment and prints what the kernel answers within `wait`."""
    peer.send(flags, seq, ack, data, options)
    print(f"  {what}:", "; ".join(peer.rel(s) for s in peer.receive(wait)) or "no answer", flush=True)


def state(peer: Peer) -> str:
    """The kernel's state of the connection."""
    said = subprocess.run(["ss", "-Htano", f"sport = :{peer.kernel_port}"], capture_output=True, text=True, check=True).stdout
    return " / ".join(line.split()[0] + (" " + line.split("timer:")[1] if "timer:" in line else "") for line in said.splitlines()) or "none"


def time_wait(peer: Peer) -> None:
    print("TIME-WAIT: the kernel closes first; the peer repeats its FIN")
    end = peer.connect(0.01)
    end.close()
    fin = peer.one()
    peer.send(ACK, peer.snd, fin.seq + 1)
    ask(peer, "FIN", FIN | ACK, peer.snd, fin.seq + 1)
    print("  state:", state(peer))
    for after in (0.001, 0.001, 30, 55, 59.9):
        time.sleep(after)
        ask(peer, f"the same FIN {after} s later", FIN | ACK, peer.snd, fin.seq + 1)
    ask(peer, "an ACK in its place", ACK, peer.snd + 1, fin.seq + 1)
    ask(peer, "an old ACK", ACK, peer.snd - 1, fin.seq + 1)
    ask(peer, "an old ACK at once again", ACK, peer.snd - 1, fin.seq + 1)
    time.sleep(62.5)
    ask(peer, "FIN 62.5 s after the last", FIN | ACK, peer.snd, fin.seq + 1)


def syn_sent(peer: Peer) -> None:
    print("SYN-SENT")
    for name, flags, ack in (
        ("RST without ACK", RST, 0),
        ("RST with another ACK", RST | ACK, 7),
        ("SYN/ACK with another ACK", SYN | ACK, 7),
        ("RST that acknowledges the SYN", RST | ACK, 1),
    ):
        peer.start(peer.port + 1, peer.kernel_port + 1)
        end = socket.socket()
        end.setblocking(False)
        end.bind((KERNEL, peer.kernel_port))
        end.connect_ex((PEER, peer.port))
        syn = peer.one()
        peer.irs, peer.iss = syn.seq, 0
        ask(peer, name, flags, 10_000, syn.seq + ack, options=peer.syn_options() if flags & SYN else b"")
        print("   state:", state(peer))
        end.close()


def resets(peer: Peer) -> None:
    print("RST and SYN in ESTABLISHED")
    end = peer.connect(0.01)
    ask(peer, "RST 100 beyond", RST, peer.snd + 100, 0)
    ask(peer, "RST 200 beyond, at once", RST, peer.snd + 200, 0)
    time.sleep(0.45)
    ask(peer, "RST 0.47 s after the first", RST, peer.snd + 100, 0)
    time.sleep(0.02)
    ask(peer, "RST 0.51 s after the first", RST, peer.snd + 100, 0)
    time.sleep(0.6)
    ask(peer, "SYN in the window", SYN, peer.snd + 100, 0)
    ask(peer, "SYN at once again", SYN, peer.snd + 100, 0)
    time.sleep(0.6)
    ask(peer, "SYN before the window", SYN, peer.snd - 1, 0)
    time.sleep(0.6)
    ask(peer, "RST outside the window", RST, peer.snd - 100, 0)
    ask(peer, "old ACK", ACK, peer.snd - 2, peer.rcv)
    ask(peer, "old ACK at once again", ACK, peer.snd - 2, peer.rcv)
    ask(peer, "old data at once", ACK, peer.snd - 2, peer.rcv, b"x")
    ask(peer, "old data at once again", ACK, peer.snd - 2, peer.rcv, b"x")
    time.sleep(0.6)
    ask(peer, "ACK of data not sent", ACK, peer.snd, peer.rcv + 1000)
    ask(peer, "data with an ACK of data not sent", ACK, peer.snd, peer.rcv + 1000, b"x")
    print("   received:", received(end))
    ask(peer, "RST in its place", RST, peer.snd, 0)
    print("  state:", state(peer))
    end.close()


def received(end: socket.socket) -> int:
    end.setblocking(False)
    try:
        return len(end.recv(65536))
    except BlockingIOError:
        return 0


def paws(peer: Peer) -> None:
    print("PAWS")
    end = peer.connect(0.01, timestamps=True)
    peer.ts = 5000
    ask(peer, "data with timestamp 5000", ACK, peer.snd, peer.rcv, b"x", 0.1)
    peer.snd += 1
    for ts in (4999, 4998):
        peer.ts = ts
        ask(peer, f"new data with {ts}", ACK, peer.snd, peer.rcv, b"y", 0.1)
        got = received(end)
        print("   received:", got)
        peer.snd += 1 if got and ts == 4999 else 0
    ask(peer, "ACK in its place with 4998", ACK, peer.snd, peer.rcv)
    peer.ts = 4000
    ask(peer, "ACK in its place with 4000", ACK, peer.snd, peer.rcv)
    ask(peer, "the same at once", ACK, peer.snd, peer.rcv)
    ask(peer, "data beyond a hole with 4000", ACK, peer.snd + 10, peer.rcv, b"z")
    ask(peer, "SYN with 4000", SYN, peer.snd + 1, peer.rcv)
    print("  state:", state(peer))
    time.sleep(24.5 * 86400)
    ask(peer, "data with 4000, 24.5 days later", ACK, peer.snd, peer.rcv, b"y", 0.1)
    print("   received:", received(end))
    peer.ts = 3000
    ask(peer, "RST in its place with 3000", RST, peer.snd + 1, 0)
    print("  state:", state(peer))
    end.close()


def blackhole(peer: Peer) -> None:
    print("blackhole_timeout")
    setting = pathlib.Path("/proc/sys/net/mptcp/blackhole_timeout")
    print("  default:", setting.read_text().strip() if setting.exists() else "no such setting", flush=True)

    def asks(drop: int) -> str:
        """Opens an MPTCP connection whose first `drop` SYNs the peer loses; says which SYNs had
        MP_CAPABLE.
        """
        peer.start(peer.port + 1, peer.kernel_port + 1)
        end = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
        end.setblocking(False)
        end.bind((KERNEL, peer.kernel_port))
        end.connect_ex((PEER, peer.port))
        syns = []
        for _ in range(drop + 1):
            syns.append(peer.one(40))
        peer.send(SYN | ACK, 10_000, syns[-1].seq + 1, options=peer.syn_options())
        peer.receive(0.1)
        end.close()
        time.sleep(0.1)
        peer.send(RST, 10_001, 0)
        times = [f"{s.at - syns[0].at:.3f} s" + (" with" if s.option(30) else " without") for s in syns]
        return ", ".join(times)

    print("  SYNs with MP_CAPABLE:", asks(0))
    print("  three SYNs lost:", asks(3))
    for after in (1, 1800, 1700):
        time.sleep(after)
        print(f"  {after} s later:", asks(0), flush=True)
    time.sleep(200)
    print("  3700 s after it:", asks(0))
    print("  three SYNs lost:", asks(3))
    for after in (3700, 3700):
        time.sleep(after)
        print(f"  {after} s later:", asks(0), flush=True)


def main() -> None:
    signal.signal(signal.SIGALRM, lambda *_: 1 / 0)
    peer = Peer()
    port = 4000
    for case in (time_wait, syn_sent, resets, paws, blackhole):
        signal.alarm(4_000_000)
        port += 100
        peer.start(port, port + 1000)
        try:
            case(peer)
        except ZeroDivisionError:
            print("  hangs", flush=True)
    for name, case in (("tail loss probe after the last segment", probe), ("retransmission after the SACK", reordering)):
        times = []
        for i in range(8):
            port += 1
            peer.start(port, port + 1000)
            signal.alarm(100)
            try:
                times.append(case(peer, i / 2))
            except ZeroDivisionError:
                times.append(-1.0)
        print(f"{name}, ms, at phases 0, 0.5, ... 3.5 ms:", " ".join(f"{t:.2f}" for t in times), flush=True)


main()
