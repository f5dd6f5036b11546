"""`polypath doctor`: what is wrong with MPTCP here, and what to run."""

from __future__ import annotations

import shlex
from dataclasses import asdict, replace
from enum import StrEnum
from ipaddress import ip_address
from typing import Annotated

import typer
from rich.text import Text

from polypath.doctor import Finding, Question, collect, findings
from polypath.sockets import SocketsError
from polypath.study import Rate

from ._console import give, out, quantity_of, time_of
from ._work import AsJson

_FOUND = 1
_STYLES = {"wrong": "bold red", "doubt": "yellow", "note": "dim"}


class Role(StrEnum):
    """Who opens connections, and who waits for them."""

    client = "client"
    server = "server"
    both = "both"


def doctor(
    netns: Annotated[str | None, typer.Option(help="A network namespace: a name of `ip netns`, or a file. Default: this one.")] = None,
    role: Annotated[Role | None, typer.Option(help="What this host is: a client needs other endpoints than a server.")] = None,
    to: Annotated[list[str] | None, typer.Option(help="Address of the other host, for the routes; may be repeated.")] = None,
    rate: Annotated[list[str] | None, typer.Option(help="Rate of a path, such as 50mbit, for the buffers; once for each path.")] = None,
    rtt: Annotated[list[str] | None, typer.Option(help="Round-trip time of a path, such as 40ms; once for each path.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Doubts count as well for the exit status.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check this host for MPTCP: settings, limits, endpoints, routes, buffers, the kernel; each
    finding says what to run. Changes nothing.

    Exit status: 0 if nothing is wrong, 1 if something is (with --strict: or doubtful), 2 if it
    could not be looked at.
    """
    if bool(rate) != bool(rtt):
        raise SocketsError("--rate and --rtt go together: buffers must hold the paths' rates over the longest round-trip time")
    if rate and rtt and len(rate) != len(rtt):
        raise SocketsError(f"--rate is given {len(rate)} times and --rtt {len(rtt)} times: give both once for each path")
    question = Question(
        role=role.value if role else None,
        rates_bps=tuple(int(quantity_of("--rate", text, Rate, SocketsError)) for text in rate or ()),
        rtts_ns=tuple(time_of("--rtt", text, SocketsError) for text in rtt or ()),
    )
    for address in to or ():
        _check_address(address)
    shown = [
        replace(finding, run=tuple(_inside(netns, line) for line in finding.run))
        for finding in findings(collect(netns, to or ()), question)
    ]
    if as_json:
        give({"namespace": netns, "findings": [asdict(finding) for finding in shown]})
    else:
        _show(shown)
    counted = ("wrong", "doubt") if strict else ("wrong",)
    if any(finding.severity in counted for finding in shown):
        raise typer.Exit(_FOUND)


def _show(shown: list[Finding]) -> None:
    for finding in shown:
        out.print(Text.assemble((f"{finding.severity:5}", _STYLES[finding.severity]), f"  {finding.sentence}"), soft_wrap=True)
        for command in finding.run:
            out.print(Text(f"         {command}", style="cyan"), soft_wrap=True)
    if any(command.startswith("sysctl -w") for finding in shown for command in finding.run):
        out.print("what sysctl -w sets lasts until the next start: lines in a file of /etc/sysctl.d keep it", soft_wrap=True)
    if not any(finding.severity == "wrong" for finding in shown):
        out.print("nothing is wrong" + (", doubts and notes apart" if shown else ""))


def _inside(netns: str | None, command: str) -> str:
    """A command as it works where it is pasted: what sets a network namespace has to run in it."""
    if netns is None or not command.startswith(("ip ", "sysctl ")):
        return command
    enter = f"nsenter --net={shlex.quote(netns)}" if "/" in netns else f"ip netns exec {shlex.quote(netns)}"
    return f"{enter} {command}"


def _check_address(text: str) -> None:
    try:
        ip_address(text)
    except ValueError:
        raise SocketsError(f"--to: {text} is no IP address; write the other host's, such as 10.0.0.2") from None
