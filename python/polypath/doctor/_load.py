"""Checks of what limits a transfer: congestion control, buffers, and what live subflows say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from polypath.sockets import Subflow

from ._facts import Facts, Finding, Question

# Algorithms that look at their sibling subflows, under our prefix or not.
ALGORITHMS = frozenset({"lia", "olia", "balia", "wvegas"})
# Of a socket's buffer half is for data (tcp_adv_win_scale 1), the rest for what the kernel keeps
# with it.
_OVERHEAD = 2
# A subflow held back for a larger part of its busy time is held back.
_MUCH, _ENOUGH_S = 0.1, 1.0
# Bytes from which a connection has had occasion to use all its paths: a control connection carries
# less.
_TELLING = 1_000_000


def congestion_control(facts: Facts, question: Question) -> Iterator[Finding]:
    chosen = facts.sysctls.get("net.ipv4.tcp_congestion_control")
    if chosen is None:
        return
    bare = chosen.removeprefix("pp_")
    if bare not in ALGORITHMS:
        yield Finding(
            id="uncoupled",
            severity="note",
            sentence=f"{chosen} is not coupled, which is well on paths of their own; "
            "subflows that share a bottleneck together take more than one TCP flow's share",
            run=("# where they share one:", "polypath cc load lia", "sysctl -w net.ipv4.tcp_congestion_control=pp_lia"),
        )
    used = sorted({subflow.cc for subflow in facts.subflows if subflow.cc and subflow.cc != chosen})
    if used:
        words = ", ".join(used)
        sentence = f"live subflows use {words} and not {chosen}, which new ones get: chosen by their program, or from before it was set"
        yield Finding(id="another-algorithm", severity="note", sentence=sentence)


def buffers(facts: Facts, question: Question) -> Iterator[Finding]:
    """What RFC 8684, section 3.3.1 asks for: room for the sum of all rates over the longest
    round-trip time.
    """
    if question.rates_bps and question.rtts_ns:
        rate, rtt_ns, source = sum(question.rates_bps), max(question.rtts_ns), "given"
    else:
        measured = [subflow for subflow in facts.subflows if subflow.srtt_ms is not None and subflow.delivery_mbps > 0]
        if not measured:
            return
        # Only what goes together adds up.
        by_token: dict[int | None, list[float]] = {}
        for subflow in measured:
            by_token.setdefault(subflow.token, []).append(subflow.delivery_mbps)
        rate = round(max(sum(rates) for rates in by_token.values()) * 1e6)
        rtt_ns, source = round(max(subflow.srtt_ms or 0 for subflow in measured) * 1e6), "of live subflows"
    product = rate * rtt_ns // 8_000_000_000
    needed = product * _OVERHEAD
    paths = f"{rate / 1e6:g} Mbit/s over {rtt_ns / 1e6:g} ms, {source}"
    for name, direction in (("tcp_rmem", "receive"), ("tcp_wmem", "send")):
        most = facts.largest(f"net.ipv4.{name}")
        if most is None or (most >= needed and not question.rates_bps):
            continue
        if most >= needed:
            yield Finding(
                id=f"{direction}-buffer-enough",
                severity="note",
                sentence=f"{direction} buffers end at {_size(most)}, and the paths together ({paths}) need {_size(needed)}: enough",
            )
            continue
        least = " ".join(facts.sysctls[f"net.ipv4.{name}"].split()[:2])
        yield Finding(
            id=f"{direction}-buffer",
            severity="doubt",
            sentence=f"{direction} buffers end at {_size(most)}, and the paths together ({paths}) need {_size(needed)} "
            f"on the host that {direction}s: {_size(product)} are under way, and as much again is for what the kernel keeps with each "
            "packet",
            # The next power of two.
            run=(f'sysctl -w net.ipv4.{name}="{least} {2 ** (needed - 1).bit_length()}"',),
        )


def live_limits(facts: Facts, question: Question) -> Iterator[Finding]:
    siblings = Counter(subflow.token for subflow in facts.subflows)
    for subflow in facts.subflows:
        if subflow.busy_s < _ENOUGH_S:
            continue
        where = f"the subflow {subflow.source}:{subflow.source_port} to {subflow.destination}:{subflow.destination_port}"
        causes = [(subflow.rwnd_limited_s, "the receiver's window", "raise net.ipv4.tcp_rmem there")]
        # Beside siblings Linux counts the send buffer, too, while the connection gives a subflow
        # nothing because others carry its data.
        if siblings[subflow.token] == 1:
            causes.append((subflow.sndbuf_limited_s, "this host's send buffer", "raise net.ipv4.tcp_wmem here"))
        for spent, limit, mend in causes:
            if spent > _MUCH * subflow.busy_s:
                sentence = f"{where} was held back by {limit} for {spent / subflow.busy_s:.0%} of the time in which it had data: {mend}"
                yield Finding(id="held-back", severity="doubt", sentence=sentence)


def plain_connections(facts: Facts, question: Question) -> Iterator[Finding]:
    """Which of the two programs did not ask for MPTCP: one has to at each end."""
    plain = [
        (f"{_connections(count)} to {address}", count, "its program here did not ask for it (mptcpize run PROGRAM makes it); the server's "
         "has to speak it, too, as programs of Go 1.24 and later do by themselves")
        for address, count in facts.plain.items()
    ]  # fmt: skip
    plain += [
        (f"{_connections(count)} to {address}", count, "its program here asked for it, and the answer had none: the program there does not "
         "speak it (mptcpize run PROGRAM makes it), or a box between takes the option out")
        for address, count in facts.fell_back.items()
    ]  # fmt: skip
    for (address, port, speaks), count in facts.came_plain.items():
        if speaks:
            why = "the program here that listens speaks it, so the one there did not ask for it, or a box between takes the option out"
        else:
            why = "the program here that listens does not speak it (mptcpize run PROGRAM makes it); the one there has to ask for it, too"
        plain.append((f"{_connections(count)} from {address} to port {port}", count, why))
    for which, count, why in plain:
        does = "does" if count == 1 else "do"
        yield Finding(id="plain-tcp", severity="doubt", sentence=f"{which} {does} not use MPTCP: {why}")


def _connections(count: int) -> str:
    return "a TCP connection" if count == 1 else f"{count} TCP connections"


def live_paths(facts: Facts, question: Question) -> Iterator[Finding]:
    """Which devices the data of each live connection took."""
    connections: dict[int | None, list[Subflow]] = {}
    for subflow in facts.subflows:
        connections.setdefault(subflow.token, []).append(subflow)
    for token, subflows in connections.items():
        taken: Counter[str] = Counter()
        for subflow in subflows:
            taken[facts.holds(subflow.source) or "no device"] += subflow.bytes_acked + subflow.bytes_received
        total = taken.total()
        if total < _TELLING or len(facts.outward) < 2:
            continue
        used = {name: count / total for name, count in taken.most_common() if count}
        # A backup waits, and is meant to.
        waiting = {facts.holds(subflow.source) for subflow in subflows if subflow.backup}
        unused = [device for device in facts.outward if device.name not in used and device.name not in waiting]
        shares = " and ".join(f"{name} ({share:.0%})" for name, share in used.items())
        uses = f"the connection {token:08x}, {total / 1e6:.1f} MB so far, uses {shares if len(used) > 1 else f'{next(iter(used))} alone'}"
        if not unused:
            yield Finding(id="paths-used" if len(used) > 1 else "one-path-used", severity="note", sentence=uses)
            continue
        names = " and ".join(device.name if device.carrier else f"{device.name} (which has no carrier)" for device in unused)
        sentence, run = f"{uses}, and not {names}", tuple[str, ...]()
        further = sum(subflow.joined for subflow in subflows)
        if facts.limits is not None and 0 < facts.limits[0] <= further:
            sentence += f": it has {further} further subflows, and no more are allowed"
            run = (f"ip mptcp limits set subflows {further + len(unused)}",)
        yield Finding(id="path-unused" if len(used) > 1 else "one-path-used", severity="doubt", sentence=sentence, run=run)


def _size(count: int) -> str:
    return f"{count / 2**20:.1f} MiB" if count >= 2**20 else f"{count / 2**10:.0f} KiB"
