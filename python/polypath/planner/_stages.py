"""From a chain of link elements to stages: what one netem, or one port's limit on length, can do at
once.

netem draws the loss when a packet arrives, then looks for room, then lets delay and rate work
together: the delay runs while a packet waits, and the limit counts packets until they have left. So
a loss followed by a rate (with its `hold`) is one stage, a loss followed by a delay is another, and
a rate followed by a delay needs two. Retransmissions of a link layer are a delay with a
distribution of its own: none for most packets, the time of one attempt for some, of two for few;
and a loss for those that are given up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from ._errors import FieldPath, PlanError

Element = Mapping[str, Any]
Netem = dict[str, Any]

# Packets; room enough for a delay line that must lose nothing: a second at 10 Gbit/s.
ENDLESS = 1_000_000
# Bits a second. At this rate netem adds no whole nanosecond to a packet, but no packet overtakes
# another.
IN_ORDER = 8_000_000_000_000_000
# netem sees the Ethernet header; the simulator's framing counts from the IP packet.
ETHERNET = 14
# veth takes in packets of its MTU and a VLAN tag (`is_skb_forwardable`).
VLAN = 4
# The longest IP packet that a token bucket lets pass, bytes.
LONGEST = 1500
LEAST_MTU = 68
# netem draws a delay from a table of at most so many values, which it multiplies by jitter / 8192
# (linux/pkt_sched.h).
TABLE = 16_384
SCALE = 8192
MOST = 32_767
MOST_JITTER_NS = 2**31 - 1
# Seconds; the kernel keeps the time in which a bucket fills in 32 bits of 64 ns.
LONGEST_BURST_S = 274
CERTAIN = {"model": "random", "probability": 1.0}
SIMULATOR = "; the engine sim can (--engine sim)"


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Up to one of each, in this order: limit on length, policer, outages, loss, then a delay, a
    queue with a rate, or retransmissions.
    """

    # Longer IP packets are dropped in silence.
    silent_mtu: int | None = None
    policer: Element | None = None
    down: tuple[tuple[int, int], ...] = ()
    loss: Element | None = None
    delay: Element | None = None
    rate: Element | None = None
    retry: Element | None = None
    # All times are later by this much: packets come here after a delay that stood behind.
    shift_ns: int = 0
    # The rate is a token bucket that lets an IP packet of so many bytes pass: what waits in it
    # stays in its sender's socket buffer, which netem takes it out of (`skb_orphan_partial`).
    bucket: int | None = None

    @property
    def is_pure_delay(self) -> bool:
        """Whether it does the same to every packet and drops none."""
        plain = self.delay is not None and not self.delay["jitter_ns"] and not self.delay["changes"]
        return plain and self.silent_mtu is None and self.policer is None and not self.down and self.loss is None

    @property
    def drops(self) -> bool:
        """Whether its policer or its netem can drop packets."""
        return bool(self.policer or self.down or self.loss or self.rate)

    @property
    def has_netem(self) -> bool:
        return bool(self.drops or self.delay or self.retry)

    @property
    def is_managed(self) -> bool:
        """Whether it is no netem, but a token bucket with a queue of its own."""
        return self.rate is not None and (bool(self.rate.get("aqm")) or self.bucket is not None)

    def discipline(self) -> dict[str, Any]:
        """As it is at the start of the run."""
        return self._discipline(0) | ({"policer": _police(self.policer)} if self.policer else {})

    def netem(self) -> Netem:
        """As it is at the start of the run."""
        return self._at(0)

    def changes(self) -> list[tuple[int, dict[str, Any]]]:
        """Times at which it changes, and what it is from then on."""
        times = {time for span in self.down for time in span}
        for element in (self.loss, self.delay, self.rate):
            times |= {change["at_ns"] for change in (element or {}).get("changes", ())}
        before, changes = self._discipline(0), []
        for time in sorted(times):
            after = self._discipline(time)
            if time > 0 and after != before:
                changes.append((time + self.shift_ns, after))
            before = after
        return changes

    def _discipline(self, time: int) -> dict[str, Any]:
        return {"shaper": self._shaper(time)} if self.is_managed else {"netem": self._at(time)}

    def _shaper(self, time: int) -> dict[str, Any]:
        rate = self.rate or {}
        aqm, framing = rate.get("aqm"), rate["framing_bytes"]
        bits = _value(rate, "bits_per_s", time)
        (limit,) = rate["queue"].values()
        if aqm is None:
            plain = {"kind": "fifo", "limit": limit}
        elif aqm["kind"] == "red":
            packet_ns = (aqm["mean_packet_bytes"] + framing) * 8_000_000_000 // bits
            same = {name: aqm[name] for name in ("probability", "weight_log", "ecn")}
            plain = {"kind": "red", "limit": limit, "min": aqm["min_bytes"], "max": aqm["max_bytes"], "packet_ns": packet_ns, **same}
        else:
            plain = {"limit": limit, **{"quantum" if name == "quantum_bytes" else name: value for name, value in aqm.items()}}
        return {"rate": bits, "overhead": framing - ETHERNET, "burst": (self.bucket or LONGEST) + ETHERNET, "aqm": plain}

    def _at(self, time: int) -> Netem:
        netem: Netem = {"limit": ENDLESS, "loss": self._loss(time)}
        if self.delay is not None:
            netem["delay_ns"] = _value(self.delay, "delay_ns", time)
            netem["jitter_ns"] = self.delay["jitter_ns"]
            varies = self.delay["jitter_ns"] or self.delay["changes"]
            netem["rate"] = IN_ORDER if varies and not self.delay["reorder"] else 0
        if self.rate is not None:
            netem["limit"] = self.rate["queue"]["packets"]
            netem["delay_ns"] = self.rate["hold_ns"]
            netem["rate"] = _value(self.rate, "bits_per_s", time)
            netem["overhead"] = self.rate["framing_bytes"] - ETHERNET
        if self.retry is not None:
            netem |= _attempts(self.retry) | {"rate": IN_ORDER}
        return netem

    def _loss(self, time: int) -> dict[str, Any]:
        if any(start <= time < end for start, end in self.down):
            return CERTAIN
        if self.loss is None:
            return {"model": "none"}
        if self.loss["model"] == "gilbert_elliott":
            return {name: self.loss[name] for name in ("model", "good_to_bad", "bad_to_good", "loss_good", "loss_bad")}
        probability = _value(self.loss, "probability", time)
        return {"model": "random", "probability": probability} if probability else {"model": "none"}


@dataclass(kw_only=True)
class Direction:
    """A direction of a link: where its packets are held and dropped."""

    # On the device by which packets leave the node where it begins.
    egress: Stage | None = None
    # Inside the link, in the order in which packets come by.
    inside: list[Stage] = field(default_factory=list)
    # What the MTU of the device where it begins is lowered to, since an element of the link says
    # so.
    mtu: int | None = None


def direction(
    elements: Sequence[Element],
    *,
    where: FieldPath,
    from_router: bool,
    captured: bool,
    mtu: int = LONGEST,
    bucket: FieldPath | None = None,
) -> Direction:
    """Where the elements of a direction go, which begins at an interface of this MTU. `bucket`: its
    rate has to hold up who sends, by a token bucket; who wants it.

    The sender's own device sees aggregates of segments, and what it drops is no loss to TCP: at a
    host only a pure delay may stand there, and at a device that is captured not even that, or the
    capture would show packets after it.
    """
    built = Direction()
    stages: list[Stage] = []
    for number, element in enumerate(elements):
        here = (*where, number)
        if element["kind"] == "mtu":
            mtu = min(mtu, element["bytes"])
        if element["kind"] == "mtu" and element["oversize"] != "silent":
            if not from_router or number > 0:
                raise PlanError(here, _no_icmp(element, from_router))
            built.mtu = element["bytes"]
            continue
        alone = _alone(in_packets(element, mtu), here)
        grown = _with(stages[-1], in_packets(element, mtu)) if stages else None
        if grown is None:
            stages.append(alone)
        else:
            stages[-1] = grown
    if bucket is not None and any(stage.rate is not None for stage in stages):
        built.egress = _bucket(stages.pop(0), where, mtu, bucket)
    elif from_router and stages and stages[0].silent_mtu is None:
        built.egress = stages.pop(0)
    elif not from_router and not captured and stages:
        # A delay that is the same for every packet may as well come before the rest: all leave the
        # link at the same times.
        index = next((index for index in (0, len(stages) - 1) if stages[index].is_pure_delay), None)
        if index is not None:
            built.egress = stages.pop(index)
            delay = built.egress.delay["delay_ns"] if built.egress.delay else 0
            stages = [replace(stage, shift_ns=stage.shift_ns + (delay if number < index else 0)) for number, stage in enumerate(stages)]
    built.inside = stages
    return built


def _bucket(stage: Stage, link: FieldPath, mtu: int, where: FieldPath) -> Stage:
    """The first stage as a token bucket, if it is one rate with a plain queue."""
    rate = stage.rate
    if rate is None or rate.get("aqm") or rate["hold_ns"] or stage != Stage(rate=rate) or rate["framing_bytes"] < ETHERNET:
        sentence = f"its socket waits for {link[1]} only if that begins with a rate, and {ETHERNET} bytes of framing"
        raise PlanError(where, f"{sentence} or more, without `aqm` and `hold`{SIMULATOR}")
    return replace(stage, bucket=mtu)


def _with(stage: Stage, element: Element) -> Stage | None:
    """The stage with one more element; None if the element needs a stage of its own."""
    if element["kind"] in ("mtu", "retry", "policer") or stage.rate is not None or stage.retry is not None or element.get("aqm"):
        return None
    if element["kind"] == "delay" and stage.delay is not None:
        if not (Stage(delay=stage.delay).is_pure_delay and Stage(delay=element).is_pure_delay):
            return None
        return replace(stage, delay={**element, "delay_ns": stage.delay["delay_ns"] + element["delay_ns"]})
    if stage.delay is not None:
        return None
    match element["kind"]:
        case "down":
            return replace(stage, down=(*stage.down, *map(tuple, element["spans_ns"])))
        case "loss":
            return None if stage.loss is not None else replace(stage, loss=element)
        case "delay":
            return replace(stage, delay=element)
        case _:
            return replace(stage, rate=element)


def in_packets(element: Element, mtu: int) -> Element:
    """An element whose plain queue is of packets, as netem counts it (`limit` of sch_netem.c): as
    many full ones as its bytes hold.
    """
    if element["kind"] != "rate" or element.get("aqm") or "packets" in element["queue"]:
        return element
    return {**element, "queue": {"packets": max(1, element["queue"]["bytes"] // (mtu + element["framing_bytes"]))}}


def _alone(element: Element, where: FieldPath) -> Stage:
    match element["kind"]:
        case "rate":
            if element.get("burst_bytes"):
                raise PlanError(where, f"netem has no token bucket: leave out `burst`{SIMULATOR}")
            if element.get("aqm"):
                if element["framing_bytes"] < ETHERNET:
                    raise PlanError(where, f"a token bucket counts {ETHERNET} bytes of Ethernet header at least{SIMULATOR}")
                return Stage(rate=element)
            return Stage(rate=element)
        case "delay":
            return Stage(delay=element)
        case "loss":
            if element["model"] == "packets":
                raise PlanError(where, f"netem cannot drop packets by their numbers{SIMULATOR}")
            return Stage(loss=element)
        case "down":
            return Stage(down=tuple(map(tuple, element["spans_ns"])))
        case "mtu":
            if element["bytes"] - VLAN < LEAST_MTU:
                raise PlanError(where, f"no device has an MTU of {element['bytes']} bytes; the least here is {LEAST_MTU + VLAN}")
            return Stage(silent_mtu=element["bytes"])
        case "retry":
            if _attempts(element)["jitter_ns"] > MOST_JITTER_NS:
                raise PlanError(
                    where, f"so many attempts so far apart are more than netem can tell apart; give fewer `attempts`{SIMULATOR}"
                )
            given_up = element["probability"] ** element["attempts"]
            return Stage(retry=element, loss={"kind": "loss", "model": "random", "probability": given_up, "changes": []})
        case "policer":
            if element["framing_bytes"] < ETHERNET:
                raise PlanError(where, f"a policer counts {ETHERNET} bytes of Ethernet header at least{SIMULATOR}")
            if element["burst_bytes"] * 8 > element["bits_per_s"] * LONGEST_BURST_S:
                raise PlanError(where, f"a bucket of the kernel's fills within {LONGEST_BURST_S} s: give a smaller `burst`{SIMULATOR}")
            return Stage(policer=element)
        case "trace":
            raise PlanError(where, f"netem cannot replay single chances to send; describe the link by a `table`{SIMULATOR}")
        case kind:
            raise PlanError(where, f"the kernel has nothing like the element {kind}{SIMULATOR}")


def _police(policer: Element) -> dict[str, Any]:
    return {"rate": policer["bits_per_s"], "burst": policer["burst_bytes"], "overhead": policer["framing_bytes"] - ETHERNET}


def _attempts(retry: Element) -> Netem:
    """The time that failed attempts cost a packet which is not given up, as netem draws it: a share
    of its table for each number of them.

    A value of the table counts in SCALE-ths of the jitter, so the jitter makes the step from one
    number to the next as long as an attempt.
    """
    fails, attempts = retry["probability"], retry["attempts"]
    arrives = 1.0 - fails**attempts
    # Of the packets that arrive, those that needed at least so many further attempts.
    rest = [(fails**number - fails**attempts) / arrives if arrives else 0.0 for number in range(attempts)]
    edges = [round(TABLE * share) for share in rest] + [0]
    counts = [more - fewer for more, fewer in pairwise(edges) if more]
    step = min(SCALE, 1 << ((MOST // max(len(counts) - 1, 1)).bit_length() - 1))
    table = [{"value": number * step, "count": count} for number, count in enumerate(counts) if count]
    return {"jitter_ns": retry["delay_ns"] * SCALE // step, "delays": table}


def _no_icmp(element: Element, from_router: bool) -> str:
    fate = "split" if element["oversize"] == "fragment" else "answered by ICMP"
    where = "only a router does that, before anything else on the link" if from_router else "this direction begins at a host"
    return f"packets too long cannot be {fate} here: {where}; give the link's end an `mtu`, or write `oversize: silent`{SIMULATOR}"


def _value(element: Element, name: str, time: int) -> Any:
    """A figure that may change, at a time."""
    value = element[name]
    for change in element["changes"]:
        if change["at_ns"] <= time:
            value = change["to"]
    return value
