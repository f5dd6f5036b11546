"""Random scripts of packets: calls, segments, losses, reorderings and times that nobody chose."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

GAPS_S = (0, 0, 0.001, 0.003, 0.01, 0.02, 0.04, 0.05, 0.1, 0.2, 0.25, 0.4, 1, 3)
LISTEN = (
    "0 socket(..., SOCK_STREAM, IPPROTO_{protocol}) = 3",
    "+0 bind(3, ..., ...) = 0",
    "+0 listen(3, 1) = 0",
)


@dataclass(frozen=True)
class RandomScript:
    """A script in parts: `head` and `opening` belong together, of `events` each may go."""

    head: tuple[str, ...]
    opening: tuple[str, ...]
    events: tuple[str, ...]

    def text(self) -> str:
        return "\n".join([*self.head, *self.opening, *self.events, "+0 quiet"]) + "\n"


@dataclass
class _Subflow:
    number: int
    written: int = 0
    acked: int = 0
    sent: int = 0

    def name(self) -> str:
        return f"[{self.number}] " if self.number else ""


@dataclass
class _Peer:
    """What the peer may say: it does not see what the endpoint sends, but what the program wrote."""

    draw: random.Random
    mss: int
    mptcp: bool
    sack: bool
    timestamps: bool
    fd: int
    now: float = 0.1
    # Data sequence numbers of MPTCP; without it those of the one subflow.
    written: int = 0
    acked: int = 0
    sent: int = 0
    closed: bool = False
    subflows: list[_Subflow] = field(default_factory=lambda: [_Subflow(0)])

    def line(self, event: str, *, least_s: float = 0) -> str:
        # Off the ticks of the kernel's clock, on whose edges two orders are right.
        gap = max(self.draw.choice(GAPS_S) * self.draw.uniform(0.8, 1.2), least_s)
        tick, within = divmod(round((self.now + gap) * 10_000), 40)
        self.now = max(self.now, (tick * 40 + min(max(within, 6), 34)) / 10_000)
        return f"{self.now:.4f} {event}"

    def segment(self, flags: str, begin: int, length: int, options: Sequence[str], subflow: _Subflow) -> str:
        ack = subflow.acked + 1
        window = self.draw.choice((65535, 65535, 65535, 257, 10, 1, 0))
        ts = [f"TS val {1000 + round(self.now * 1000)} ecr *"] if self.timestamps else []
        listed = ", ".join([*ts, *options])
        behind = f" <{listed}>" if listed else ""
        return f"< {subflow.name()}{flags} {begin}:{begin + length}({length}) ack {ack} win {window}{behind}"

    def write(self) -> str:
        length = self.draw.choice((1, 100, self.mss - 1, self.mss, 2 * self.mss, 10 * self.mss, self.draw.randrange(1, 40_000)))
        self.written += length
        for subflow in self.subflows:
            subflow.written += length
        return f"write({self.fd}, ..., {length}) = {length}"

    def acknowledge(self) -> str:
        subflow = self.draw.choice(self.subflows)
        left = subflow.written - subflow.acked
        step = self.draw.choice((0, self.mss, self.mss, 2 * self.mss, left, left, 4 * self.mss))
        subflow.acked += min(step, left)
        options = []
        if self.mptcp:
            self.acked = min(self.written, max(self.acked, sum(one.acked for one in self.subflows)))
            options.append(f"dss dack8={self.acked + 1}")
        beyond = (subflow.written - subflow.acked) // self.mss
        if self.sack and beyond > 1 and self.draw.random() < 0.5:
            first = self.draw.randrange(1, min(beyond, 12))
            blocks = []
            for _ in range(self.draw.choice((1, 1, 2))):
                begin = subflow.acked + 1 + first * self.mss
                last = self.draw.randrange(1, 4)
                blocks.append(f"{begin}:{begin + last * self.mss}")
                first += last + 1
            options.append("sack " + " ".join(reversed(blocks)))
        return self.segment(".", subflow.sent + 1, 0, options, subflow)

    def send(self) -> str:
        subflow = self.draw.choice(self.subflows)
        length = self.draw.choice((1, 100, self.mss, self.mss, self.mss))
        begin = subflow.sent + self.draw.choice((0, 0, 0, 0, self.mss, 2 * self.mss, -length, -length // 2))
        begin = max(begin, 0)
        options = []
        if self.mptcp:
            data = max(self.sent + begin - subflow.sent, 0)
            options.append(f"dss dack8={self.acked + 1} dsn8={data + 1} ssn={begin + 1} dll={length} nocs")
            if begin == subflow.sent:
                self.sent += length
        if begin <= subflow.sent:
            subflow.sent = max(subflow.sent, begin + length)
        return self.segment(self.draw.choice((".", "P.")), begin + 1, length, options, subflow)

    def finish(self) -> str:
        subflow = self.draw.choice(self.subflows)
        if self.mptcp and self.draw.random() < 0.6:
            fin = f"dss dack8={self.acked + 1} dsn8={self.sent + 1} ssn=0 dll=1 nocs fin"
            return self.segment(".", subflow.sent + 1, 0, [fin], subflow)
        return self.segment("F.", subflow.sent + 1, 0, [f"dss dack8={self.acked + 1}"] if self.mptcp else [], subflow)

    def close(self) -> str:
        self.closed = True
        return f"shutdown({self.fd}, SHUT_WR) = 0"

    def reset(self) -> str:
        subflow = self.draw.choice(self.subflows)
        begin = subflow.sent + 1 + self.draw.choice((0, 0, 1000))
        return f"< {subflow.name()}R {begin}:{begin}(0) win 0"

    def event(self) -> str:
        verbs: list[tuple[Callable[[], str], float]] = [(self.acknowledge, 8), (self.send, 3), (self.finish, 0.3), (self.reset, 0.1)]
        if not self.closed:
            verbs += [(self.write, 4), (self.close, 0.3)]
        verb = self.draw.choices([verb for verb, _ in verbs], [weight for _, weight in verbs])[0]
        # An ACK takes a round trip: a call's microseconds are none, and judge losses on one engine.
        return self.line(verb(), least_s=0.001 if verb == self.acknowledge else 0)


_EVENTS = 30


def random_script(seed: int, *, mptcp: bool, kernel: str) -> RandomScript:
    """The script of this seed: a handshake and events."""
    draw = random.Random(f"{seed} {mptcp}")
    mss = draw.choice((536, 1000, 1220, 1460))
    sack = mptcp or draw.random() < 0.8
    timestamps = draw.random() < 0.5
    scale = draw.choice((None, 0, 7, 7, 10))
    # What is computed from it lies off the ticks too.
    rtt = draw.choice((0.0013, 0.0113, 0.0513, 0.1013))
    head = [f"kernel {kernel}", f"sysctl net.ipv4.tcp_congestion_control={draw.choice(('reno', 'cubic'))}"]
    options = [f"mss {mss}", *(["sackOK"] if sack else []), *(["TS val 1000 ecr 0"] if timestamps else [])]
    options += [] if scale is None else [f"wscale {scale}"]
    ts = "TS val 1001 ecr *, " if timestamps else ""
    mss -= 12 if timestamps else 0
    active = draw.random() < 0.3
    peer = _Peer(draw, mss, mptcp, sack, timestamps, fd=3 if active else 4)
    protocol = "MPTCP" if mptcp else "TCP"
    if active and not mptcp:
        opening = [
            LISTEN[0].format(protocol=protocol),
            "+0 connect(3, ..., ...) = -1 EINPROGRESS",
            "+0 > S 0:0(0) <...>",
            f"+{rtt} < S. 0:0(0) ack 1 win 65535 <{', '.join(options).replace('ecr 0', 'ecr *')}>",
        ]
    elif not mptcp:
        opening = [
            *(line.format(protocol=protocol) for line in LISTEN),
            f"+0 < S 0:0(0) win 65535 <{', '.join(options)}>",
            "+0 > S. 0:0(0) ack 1 <...>",
            f"+{rtt} < . 1:1(0) ack 1 win 257{f' <{ts[:-2]}>' if ts else ''}",
            "+0 accept(3, ..., ...) = 4",
        ]
    else:
        peer.fd = 4
        count = draw.choice((1, 2, 3))
        head += ["limits subflows 3 add_addr_accepted 0"]
        head += [f"subflow {number} local 10.9.0.1 remote 10.9.{number}.2" for number in range(1, count)]
        capable = "mpcapable v1 flags[flag_h]"
        opening = [
            *(line.format(protocol=protocol) for line in LISTEN),
            f"+0 < S 0:0(0) win 65535 <{', '.join(options)}, {capable} nokey>",
            f"+0 > S. 0:0(0) ack 1 <{capable} key[skey], ...>",
            f"+{rtt} < . 1:1(0) ack 1 win 257 <{ts}{capable} key[ckey=2, skey]>",
            "+0 accept(3, ..., ...) = 4",
            f"+0.0113 < P. 1:101(100) ack 1 win 257 <{ts}{capable} key[ckey, skey] mpcdatalen 100>",
            "+0 > . 1:1(0) ack 101 <...>",
        ]
        for number in range(1, count):
            join = f"mp_join_syn address_id={number} backup={draw.choice((0, 0, 1))}"
            opening += [
                f"+0.0113 < [{number}] S 0:0(0) win 65535 <{', '.join(options)}, {join}>",
                f"+0 > [{number}] S. 0:0(0) ack 1 <...>",
                f"+{rtt} < [{number}] . 1:1(0) ack 1 win 257 <{ts}mp_join_ack>",
                f"+0 > [{number}] . 1:1(0) ack 1 <...>",
            ]
            peer.subflows.append(_Subflow(number))
        peer.sent = peer.subflows[0].sent = 100
    peer.now = 0.5
    return RandomScript(tuple(head), tuple(opening), tuple(peer.event() for _ in range(_EVENTS)))
