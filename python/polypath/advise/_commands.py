"""The commands that set what is advised, as they are typed; what is not known of the machine is a
variable at the top.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from polypath.study import Rate

from ._paths import Path
from ._settings import STOCK_CC, Setting
from ._study import Question, shaped_to
from ._uses import use

Machine = Literal["host", "server"]
_BUILT_IN = ("cubic", "reno")
# Linux's own first two figures of the buffers, bytes.
_RMEM, _WMEM = "4096 131072", "4096 16384"
_SUBFLOWS = 8
_TABLES = 100


@dataclass(frozen=True, kw_only=True)
class Command:
    where: Machine
    line: str
    why: str
    unless: str = ""
    """A command that tells whether this one was run already, for the script: it may be run again."""
    undo: str = ""
    """What takes it back; settings of sysctl and limits are kept by the script."""


def commands(question: Question, setting: Setting) -> list[Command]:
    """What is to be run as root, at the host with the paths and at the server, in this order."""
    numbered = [(number, path) for number, path in enumerate(question.paths, start=1) if setting.uses(path)]
    several = setting.multipath
    lines = [*_congestion_control(question, setting)]
    if setting.scheduler != "default":
        line = f"sysctl -w net.mptcp.scheduler={setting.scheduler}"
        lines += [Command(where=where, line=line, why="the scheduler, of the side that sends") for where in _senders(question)]
    if several:
        lines += _mptcp(numbered)
    elif len(question.paths) > 1:
        number, path = numbered[0]
        line = f"ip route replace default {_via(path, number)}dev {_device(path, number)}"
        undo = line.replace("replace", "del", 1)
        lines.append(Command(where="host", line=line, why=f"all packets leave by {path.name}", undo=undo))
    if setting.buffer is not None:
        for where in ("host", "server"):
            for name, figures in (("rmem", _RMEM), ("wmem", _WMEM)):
                line = f'sysctl -w net.ipv4.tcp_{name}="{figures} {setting.buffer}"'
                lines.append(Command(where=where, line=line, why="buffers that hold what is under way"))
    if setting.shaped:
        lines += [command for number, path in numbered for command in _shaper(path, number)]
    return sorted(lines, key=lambda command: command.where)


def variables(question: Question, setting: Setting) -> list[tuple[str, str]]:
    """Name and meaning of what the commands leave open."""
    text = "\n".join(command.line for command in commands(question, setting))
    assignments = []
    for number, path in enumerate(question.paths, start=1):
        for name, meaning in (("DEV", "network device"), ("ADDRESS", "address of this host"), ("GATEWAY", "next hop")):
            if f"${name}{number}" in text:
                assignments.append((f"{name}{number}", f"{meaning} of {path.name}"))
    return assignments


def script(question: Question, setting: Setting, where: Machine) -> str:
    """The commands of one side as a shell script, which takes them back with the word `undo`;
    nothing where there are none.
    """
    here = [command for command in commands(question, setting) if command.where == where]
    if not here:
        return ""
    lines = ["#!/bin/sh", f"# {setting.name}: what to run as root on the {where}, and `sh {where}.sh undo` to take it back."]
    lines += ["# Written by polypath advise.", "set -e"]
    text = "\n".join(command.line for command in here)
    lines += [f': "${{{name}:?{meaning}}}"' for name, meaning in variables(question, setting) if f"${name}" in text]
    lines += _undo(here)
    why = ""
    for command in here:
        lines += [f"# {command.why}"] * (command.why != why) + [f"{command.unless} || {command.line}" if command.unless else command.line]
        why = command.why
    return "\n".join([*lines, ""])


def _undo(here: Sequence[Command]) -> Iterator[str]:
    """Keeps what was set before, once, and what takes everything back."""
    settings = list(dict.fromkeys(match[1] for command in here if (match := _SYSCTL.match(command.line))))
    limits = any(command.line.startswith("ip mptcp limits") for command in here)
    route = any(command.line.startswith("ip route replace default") and " table " not in command.line for command in here)
    yield 'before="$0.before"'
    yield 'if [ "$1" = undo ]; then'
    for line in dict.fromkeys(command.undo for command in reversed(here) if command.undo):
        yield f"    {line} 2>/dev/null || true"
    if settings:
        yield '    [ ! -e "$before" ] || sysctl -q -p "$before"'
    if limits:
        yield '    [ ! -e "$before.limits" ] || ip mptcp limits set $(cat "$before.limits")'
    if route:
        yield '    [ ! -e "$before.route" ] || while read -r route; do ip route replace $route; done <"$before.route"'
    yield '    rm -f "$before" "$before.limits" "$before.route"'
    yield "    exit"
    yield "fi"
    if settings:
        yield f'[ -e "$before" ] || sysctl {" ".join(settings)} >"$before" || {{ rm -f "$before"; exit 1; }}'
    if limits:
        yield '[ -e "$before.limits" ] || ip mptcp limits show >"$before.limits"'
    if route:
        yield '[ -e "$before.route" ] || ip route show default >"$before.route"'
    yield """trap '[ $? = 0 ] || echo "$0 stopped at the command above; sh $0 undo takes back what was set" >&2' EXIT"""


_SYSCTL = re.compile(r"sysctl -w ([a-z0-9_.]+)=")


def _senders(question: Question) -> Sequence[Machine]:
    """Who sends on connections; a call's datagrams ask no congestion control."""
    senders = {use(name).sender for name in question.weights} - {"both"}
    return [where for where in ("host", "server") if where in senders]


def _congestion_control(question: Question, setting: Setting) -> Iterator[Command]:
    for where in _senders(question):
        kernel = setting.cc if setting.cc in STOCK_CC else f"pp_{setting.cc}"
        why = "the congestion control, of the side that sends"
        if setting.cc not in STOCK_CC:
            yield Command(where=where, line=f"polypath cc load {setting.cc}", why=why)
        elif setting.cc not in _BUILT_IN:
            # Where it is built in there is no module, and nothing to do.
            yield Command(where=where, line=f"modprobe -q tcp_{setting.cc} || true", why=why)
        yield Command(where=where, line=f"sysctl -w net.ipv4.tcp_congestion_control={kernel}", why=why)


def _mptcp(paths: Sequence[tuple[int, Path]]) -> Iterator[Command]:
    for where in ("host", "server"):
        why = "MPTCP with a subflow on each path; programs ask for it themselves, or by mptcpize run PROGRAM"
        yield Command(where=where, line="sysctl -w net.mptcp.enabled=1", why=why)
        yield Command(where=where, line=f"ip mptcp limits set subflows {_SUBFLOWS} add_addr_accepted {_SUBFLOWS}", why=why)
    for number, path in paths:
        address, device, table = _address(path, number), _device(path, number), _TABLES + number
        why = f"an endpoint on {path.name}, and a route of its own for what leaves from there"
        there = f"ip mptcp endpoint show | grep -qwF {address}"
        gone = f"ip mptcp endpoint delete id $(ip mptcp endpoint show | grep -wF {address} | sed 's/.* id \\([0-9]*\\).*/\\1/')"
        yield Command(where="host", line=f"ip mptcp endpoint add {address} dev {device} subflow", why=why, unless=there, undo=gone)
        there = f"ip rule show from {address} | grep -qw {table}"
        yield Command(
            where="host",
            line=f"ip rule add from {address} table {table}",
            why=why,
            unless=there,
            undo=f"ip rule del from {address} table {table}",
        )
        line = f"ip route replace default {_via(path, number)}dev {device} table {table}"
        yield Command(where="host", line=line, why=why, undo=f"ip route flush table {table}")


def _shaper(path: Path, number: int) -> Iterator[Command]:
    """A token bucket with fq_codel in it, for what leaves, and by a device of its own for what
    arrives.
    """
    rates, device = shaped_to(path), _device(path, number)
    mirror = f"pp-ifb{number}"
    why = f"a queue of the host's own in front of {path.name}, a little slower than the path, so that none forms where nobody rules it"
    lines = [
        *_bucket(device, rates["up"]),
        f"ip link add {mirror} type ifb",
        f"ip link set {mirror} up",
        f"tc qdisc replace dev {device} ingress",
        f"tc filter replace dev {device} ingress protocol all prio 1 u32 match u32 0 0 action mirred egress redirect dev {mirror}",
        *_bucket(mirror, rates["down"]),
    ]
    for line in lines:
        there = f"ip link show {mirror} >/dev/null 2>&1" if line.startswith("ip link add") else ""
        yield Command(where="host", line=line, why=why, unless=there, undo=_undone(line, device, mirror))


def _undone(line: str, device: str, mirror: str) -> str:
    """What is on the mirror is gone with it."""
    if line.startswith("ip link add"):
        return f"ip link del {mirror}"
    if line.startswith("tc filter"):
        return f"tc qdisc del dev {device} ingress"
    return f"tc qdisc del dev {device} root" if line.startswith(f"tc qdisc replace dev {device} root") else ""


def _bucket(device: str, rate: Rate) -> Iterator[str]:
    # A bucket holds at least what comes in 4 ms, the longest tick of kernels, and three packets.
    burst = max(3 * 1514, int(rate) // 8 // 250)
    yield f"tc qdisc replace dev {device} root handle 1: tbf rate {rate} burst {burst} latency 50ms"
    yield f"tc qdisc replace dev {device} parent 1:1 handle 10: fq_codel"


def _device(path: Path, number: int) -> str:
    return shlex.quote(path.device) if path.device else f'"$DEV{number}"'


def _address(path: Path, number: int) -> str:
    return path.address or f'"$ADDRESS{number}"'


def _via(path: Path, number: int) -> str:
    """The next hop; a device that is described without one may have none, as that of a mobile
    network.
    """
    if path.gateway:
        return f"via {path.gateway} "
    return "" if path.device and path.address else f'via "$GATEWAY{number}" '
