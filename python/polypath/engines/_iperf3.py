"""iperf3 as what sends and reads of a flow: the commands of its two ends, and what their JSON says
as the guest's records have it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from polypath import programs as outside
from polypath.planner import PlanError

from ._errors import EngineError

NAME = "iperf3"
# The client's ports of the connections that carry data; the first flow has this one.
FIRST_CLIENT_PORT = 7001
# Between two counts; iperf3 has none closer.
INTERVAL = "0.1"
# The first release that opens MPTCP sockets itself; older ones are made to by mptcpize.
WITH_MPTCP = (3, 19)
_SECOND = 1_000_000_000

Json = dict[str, Any]


@cache
def release() -> tuple[int, ...] | None:
    """That of the iperf3 of this machine; None if there is none."""
    if outside.find(NAME) is None:
        return None
    match = re.match(r"iperf (\d+)\.(\d+)", outside.run(NAME, "--version").stdout)
    return tuple(map(int, match.groups())) if match else None


def programs(number: int, planned: Mapping[str, Any], flow: Mapping[str, Any]) -> Json:
    """Of the flow of this number, as the plan has it: the commands of both ends."""
    field = ("flows", flow["name"], "program")
    version = release()
    if version is None:
        raise PlanError(field, outside.lacks(NAME))
    wrapper: list[str] = []
    extra: list[str] = []
    if planned["mptcp"] and version >= WITH_MPTCP:
        extra = ["--mptcp"]
    elif planned["mptcp"] and outside.find("mptcpize"):
        wrapper = ["mptcpize", "run"]
    elif planned["mptcp"]:
        sentence = f"iperf3 {'.'.join(map(str, version))} opens no MPTCP sockets, and {outside.lacks('mptcpize')}, or iperf3 3.19"
        raise PlanError(field, sentence)
    client_port, port = FIRST_CLIENT_PORT + number, str(planned["port"])
    client = [*wrapper, NAME, "--client", planned["server_address"], "--port", port, "--bind", planned["client_address"]]
    client += ["--cport", str(client_port), "--congestion", planned["cc"], "--interval", INTERVAL, "--json", *extra, *_amount(flow)]
    # With --one-off the server ends after a test; it listens on every address, since it may be
    # announced at others. Its sockets are looked for among those of IPv4.
    server = [*wrapper, NAME, "--server", "--version4", "--one-off", "--port", port, "--interval", INTERVAL, "--json", *extra]
    client += ["--reverse"] if planned.get("download") else []
    return {"client": client, "server": server, "client_port": client_port}


def _amount(flow: Mapping[str, Any]) -> list[str]:
    app = flow["app"]
    if app["kind"] == "transfer":
        return ["--bytes", str(app["bytes"])]
    if app["kind"] == "bulk" and app["duration_ns"] > 0 and app["duration_ns"] % _SECOND == 0:
        return ["--time", str(app["duration_ns"] // _SECOND)]
    raise PlanError(("flows", flow["name"], "program"), "iperf3 sends for whole seconds or a transfer's size, and nothing else")


def read(number: int, flow: Mapping[str, Any], got: Json, results: Path) -> str:
    """Puts what iperf3 counted into the result of the flow of this number; the program with its
    version, as it names itself.

    Its clock starts with its test; the run's time of that is when the first sample showed the data
    connection.
    """
    server, client = (_report_of(flow["name"], results / f"{number}-{end}.json") for end in ("server", "client"))
    if got["error"] or "error" in client:
        raise EngineError(f"flow {flow['name']}: iperf3: {client.get('error') or server.get('error') or got['error']}")
    began = next((subflow["established_ns"] for subflow in got["subflows"] if subflow["established_ns"] is not None), None)
    if began is None:
        raise EngineError(f"flow {flow['name']}: iperf3 opened no connection that carried data")
    got["accepted_ns"] = got["connected_ns"] = began
    reader, sender = (client, server) if flow.get("direction") == "download" else (server, client)
    got["read"], got["written"] = (_points(said, began) for said in (reader, sender))
    if flow["app"]["kind"] == "transfer" and got["read"]:
        got["finished_ns"] = got["read"][-1][0]
    return str(client["start"]["version"]).replace("iperf ", "iperf3 ", 1)


def _report_of(flow: str, file: Path) -> Json:
    try:
        report: Json = json.loads(file.read_text())
    except (OSError, ValueError):
        raise EngineError(f"flow {flow}: iperf3 did not end in time, or without its figures") from None
    return report


def _points(said: Mapping[str, Any], began: int) -> list[tuple[int, int]]:
    """(time, bytes so far) at the end of each interval."""
    points, total = [], 0
    for interval in said["intervals"]:
        total += interval["sum"]["bytes"]
        points.append((began + round(interval["sum"]["end"] * _SECOND), total))
    return points
