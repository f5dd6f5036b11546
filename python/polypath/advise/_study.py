"""Settings and networks as a study: what is searched and what is written for the reader are built
here alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from polypath.study import Rate, Study, Time

from ._errors import AdviceError
from ._networks import Line, drawn
from ._paths import Path, Way
from ._settings import ALL, AND, DEFAULT_RMEM, DEFAULT_WMEM, SHAPED, Setting, linux_default
from ._uses import use

SETTING, NETWORK = "setting", "network"
# The device of the host in front of a path, where nothing is shaped.
_DEVICE = Rate("40gbit")
_SPREAD = "500ms"
_FAST_BPS = 500e6
NEIGHBOUR = "neighbour"
TUNNEL = "tunnel"
_TUNNEL_ENDS = ("10.9.0.1", "10.9.0.2")
# Of every path: Linux's default largest socket buffer, as the tunnel's daemon has it.
_TUNNEL_BUFFER = "212992B"
_MOST_WEIGHT = 1000
_LONGEST_PERIOD_S = 30
# Experiments.
COMPARED, BESIDE, ALONE = "settings", "with-neighbours", "neighbours-alone"


@dataclass(frozen=True, kw_only=True)
class Question:
    """Which paths, and for what."""

    paths: tuple[Path, ...]
    weights: Mapping[str, float]
    """By use, in sum one."""

    @property
    def seconds(self) -> tuple[int, int]:
        """When the window of each figure begins and ends: long round trips need longer to fill a
        window, and fast paths cost more.

        It holds an outage of each path that has some, if these come often enough; of rarer ones
        some networks have one, and others none.
        """
        slowest = max(path.rtt.high for path in self.paths) / 1e9
        warm = max(2, math.ceil(10 * slowest))
        period = min(math.ceil(max(path.every.high for path in self.paths) / 1e9), _LONGEST_PERIOD_S)
        return warm, warm + max(8 if self.filled_bps < _FAST_BPS else 4, math.ceil(40 * slowest), period)

    @property
    def filled_bps(self) -> float:
        """The most that the paths carry in the directions in which some use fills them."""
        ways = {"download": [path.down.high for path in self.paths], "upload": [path.up.high for path in self.paths]}
        return sum(sum(rates) for name, rates in ways.items() if name in self.weights)

    @property
    def downward(self) -> bool:
        """Whether most of the data comes to the host."""
        down = sum(weight for name, weight in self.weights.items() if name != "upload")
        return down >= self.weights.get("upload", 0.0)


def study(question: Question, settings: Sequence[Setting], networks: Sequence[int], more: Mapping[str, Any] | None = None) -> Study:
    """A study of these settings in these networks, every one in every one; `more` are further
    fields of it.

    Where they are tunnels the topology has one; MPTCP would open subflows through it.
    """
    start, end = question.seconds
    ours = _flows(question, settings)
    tree: dict[str, Any] = {
        "name": "advice",
        "topology": _topology(question, tunnel=all(setting.tunnel is not None for setting in settings)),
        "flows": ours,
        "duration": f"{end}s",
        "baselines": None,
        "bundles": {
            SETTING: {setting.name: _set(question, setting) for setting in settings},
            NETWORK: {_number(network): {"seed": network, **_values(question, drawn(question.paths, network))} for network in networks},
        },
        "matrix": {SETTING: [each.name for each in settings], NETWORK: [_number(each) for each in networks]},
        "repeat_over": [NETWORK],
        "measure": {"window": [f"{start}s", f"{end}s"], "series": None},
        **(more or {}),
    }
    return Study.model_validate(tree)


def experiment(name: str, setting: Setting) -> str:
    """The experiment that has a setting: tunnels have a topology of their own."""
    return name if setting.tunnel is None else f"{name}-{TUNNEL}"


def compared(question: Question, settings: Sequence[Setting], networks: Sequence[int]) -> dict[str, Any]:
    """The experiments that compare the settings."""
    return _experiments(question, COMPARED, "The settings", settings, networks, {})


def with_neighbours(question: Question, settings: Sequence[Setting], networks: Sequence[int]) -> dict[str, Any]:
    """The experiments that tell what settings cost others: a TCP connection on each path beside
    them, and without them.
    """
    others = {f"{NEIGHBOUR}{index}": _neighbour(question, index) for index, _ in enumerate(question.paths, start=1)}
    numbers = [_number(network) for network in networks]
    return {
        **_experiments(question, BESIDE, "Beside a TCP connection on each path", settings, networks, others),
        ALONE: {
            "title": "The TCP connections by themselves",
            "parameters": {SETTING: linux_default(question.paths).name},
            "flows": others,
            "matrix": {NETWORK: numbers},
        },
    }


def _experiments(
    question: Question, name: str, title: str, settings: Sequence[Setting], networks: Sequence[int], others: Mapping[str, Any]
) -> dict[str, Any]:
    experiments: dict[str, Any] = {}
    for tunnel in (False, True):
        some = [setting for setting in settings if (setting.tunnel is not None) is tunnel]
        if some:
            experiments[experiment(name, some[0])] = {
                "title": f"{title}: tunnels" if tunnel else title,
                **({"topology": _topology(question, tunnel=True)} if tunnel else {}),
                "flows": {**_flows(question, some), **others},
                "matrix": {SETTING: [each.name for each in some], NETWORK: [_number(each) for each in networks]},
            }
    return experiments


def _topology(question: Question, *, tunnel: bool) -> dict[str, Any]:
    links = {"nodes": _nodes(question.paths), "links": _links(question)}
    return {**links, "tunnels": {TUNNEL: _tunnel(question)}} if tunnel else links


def _number(network: int) -> str:
    # A letter first, so that nothing takes it for a figure.
    return f"n{network}"


def _nodes(paths: Sequence[Path]) -> dict[str, Any]:
    buffers = {"net.ipv4.tcp_rmem": "4096 131072 ${rmem}", "net.ipv4.tcp_wmem": "4096 16384 ${wmem}"}
    gateways = {f"gateway{index}": {"router": True} for index, _ in enumerate(paths, start=1)}
    others: dict[str, Any] = {f"{NEIGHBOUR}{index}": {} for index, _ in enumerate(paths, start=1)}
    return {"host": {"sysctl": buffers}, **gateways, "internet": {"router": True}, "server": {"sysctl": buffers}, **others}


def _links(question: Question) -> dict[str, Any]:
    """A device of the host in front of each path, and the host's neighbours behind the same
    gateways.
    """
    links: dict[str, Any] = {}
    paths = question.paths
    for index, path in enumerate(paths, start=1):
        # Of more than two paths one may be left out.
        cut = {"changes": [{"at": f"${{cut{index}}}", "up": False}]} if len(paths) > 2 else {}
        links[f"device{index}"] = {
            "ends": ["host", f"gateway{index}"],
            **{
                side: {"rate": f"${{{way}_shaped{index}}}", "queue": "10000packets", "aqm": "${aqm}", **cut} for side, way in _SIDES.items()
            },
        }
        sides = {side: _shape(question, path, index, way) for side, way in _SIDES.items()}
        links[path.name] = {"ends": [f"gateway{index}", "internet"], **sides}
    links["uplink"] = {"ends": ["internet", "server"], "both": {"delay": "0ms"}}
    for index, _ in enumerate(paths, start=1):
        links[f"cable{index}"] = {"ends": [f"{NEIGHBOUR}{index}", f"gateway{index}"], "both": {"delay": "0ms"}}
    return links


_SIDES: Mapping[str, Way] = {"forward": "up", "backward": "down"}


def _tunnel(question: Question) -> dict[str, Any]:
    """Over all paths, from the host to the server, with weights as the rates are."""
    rates = [path.usual("down" if question.downward else "up").middle for path in question.paths]
    server = _server(question.paths)
    ends = [{"ends": [_address(index), server], "weight": min(round(rate / min(rates)), _MOST_WEIGHT)} for index, rate in enumerate(rates)]
    return {
        "ends": [{"node": node, "address": address} for node, address in zip(("host", "server"), _TUNNEL_ENDS, strict=True)],
        "paths": ends,
        "distribution": "${distribution}",
        "send_buffer": _TUNNEL_BUFFER,
    }


def _outages(question: Question, path: Path) -> int:
    """So many may begin in a run, whatever network is drawn."""
    return math.ceil(question.seconds[1] * 1e9 / path.every.low) if path.outage.high else 0


def _steps(question: Question, path: Path, way: Way) -> range:
    """The numbers of the rates that a run takes of what was measured."""
    if path.measured is None or not (rates := path.measured.rates(way)):
        return range(0)
    return range(min(math.ceil(question.seconds[1] * 1e9 / path.measured.step), len(rates)))


def _measured_chain(question: Question, path: Path, index: int, way: Way, steps: range) -> list[dict[str, Any]]:
    """What `_shape` says, with rates that change: those of a shape stand in one order with outages."""
    assert path.measured is not None
    spans = [[f"${{out{index}_{number}}}", f"${{back{index}_{number}}}"] for number in range(_outages(question, path))]
    step = path.measured.step
    rate = {
        "kind": "rate",
        "rate": f"${{{way}{index}_0}}",
        "queue": f"${{{way}_queue{index}}}",
        "changes": [{"at": str(Time.base(number * step)), "to": f"${{{way}{index}_{number}}}"} for number in steps[1:]],
    }
    if len(steps) > 1 and len(steps) * step < question.seconds[1] * 10**9:
        rate["repeat"] = str(Time.base(len(steps) * step))
    delay = {"kind": "delay", "delay": f"${{delay{index}}}", **({"jitter": f"${{jitter{index}}}"} if path.jitter.high else {})}
    down = [{"kind": "down", "spans": spans}] if spans else []
    loss = [{"kind": "loss", "share": f"${{loss{index}}}"}] if path.loss.high else []
    return [*down, *loss, rate, delay]


def _shape(question: Question, path: Path, index: int, way: Way) -> dict[str, Any] | list[dict[str, Any]]:
    if steps := _steps(question, path, way):
        return _measured_chain(question, path, index, way, steps)
    shape: dict[str, Any] = {"rate": f"${{{way}{index}}}", "queue": f"${{{way}_queue{index}}}", "delay": f"${{delay{index}}}"}
    if path.jitter.high:
        shape["jitter"] = f"${{jitter{index}}}"
    if path.loss.high:
        shape["loss"] = f"${{loss{index}}}"
    if outages := range(_outages(question, path)):
        shape["changes"] = [{"at": f"${{{edge}{index}_{number}}}", "up": edge == "back"} for number in outages for edge in ("out", "back")]
    return shape


def _flows(question: Question, settings: Sequence[Setting]) -> dict[str, Any]:
    several = any(setting.multipath for setting in settings)
    return {name: _flow(name, mptcp=several, peer=len(question.paths) > 1) for name in question.weights}


def _flow(name: str, *, mptcp: bool, peer: bool) -> dict[str, Any]:
    """A use as a flow; `mptcp`: whether some setting has it; `peer`: whether the server may have
    several addresses.
    """
    kind = use(name)
    flow: dict[str, Any] = {**kind.flow, "start_spread": _SPREAD}
    # The host's address by which a connection begins; where it takes one path, its only one.
    ours, theirs = ("client_address", "server_address") if flow["client"] == "host" else ("server_address", "client_address")
    flow[ours] = "${address}"
    if peer:
        flow[theirs] = "${peer}"
    if flow.get("transport") == "udp":
        return flow
    flow["cc"] = "${cc}"
    flow["transport"] = "${transport}" if mptcp else "tcp"
    return {**flow, "scheduler": "${scheduler}"} if mptcp else flow


def _neighbour(question: Question, index: int) -> dict[str, Any]:
    ends = ("server", f"{NEIGHBOUR}{index}")
    client, server = ends if question.downward else ends[::-1]
    return {"client": client, "server": server, "transport": "tcp", "cc": "cubic", "start_spread": _SPREAD}


def _set(question: Question, setting: Setting) -> dict[str, Any]:
    """What a setting is in the study."""
    paths = question.paths
    first = next(index for index, path in enumerate(paths) if setting.uses(path))
    values: dict[str, Any] = {
        "cc": setting.cc,
        "aqm": "fq_codel" if setting.shaped else "none",
        "rmem": setting.buffer or DEFAULT_RMEM,
        "wmem": setting.buffer or DEFAULT_WMEM,
        "address": _address(first),
    }
    if len(paths) > 1:
        values |= {"transport": "mptcp" if setting.multipath else "tcp", "scheduler": setting.scheduler, "peer": _server(paths)}
    if setting.tunnel is not None:
        values["distribution"] = setting.tunnel
        values["address"], values["peer"] = _TUNNEL_ENDS
    if len(paths) > 2:
        left_out = [AND in setting.paths and not setting.uses(path) for path in paths]
        # A study has no change behind its end: the last nanosecond does.
        never = str(Time.base(question.seconds[1] * 10**9 - 1))
        values |= {f"cut{index}": "0s" if out else never for index, out in enumerate(left_out, start=1)}
    for index, path in enumerate(paths, start=1):
        rates = shaped_to(path)
        values |= {f"{way}_shaped{index}": str(rates[way] if setting.shaped else _DEVICE) for way in ("up", "down")}
    return values


def _address(index: int) -> str:
    """The host's address on a path, as studies count them: a device and a path have a link each."""
    return f"10.0.{2 * index + 1}.1"


def _server(paths: Sequence[Path]) -> str:
    return f"10.0.{2 * len(paths) + 1}.2"


def shaped_to(path: Path) -> dict[str, Rate]:
    """The rates up and down that a shaper in front of a path lets through: below the least that the
    path may have.
    """
    return {way: Rate.base(int(SHAPED * span.low // 1000) * 1000) for way, span in (("up", path.up), ("down", path.down))}


def _values(question: Question, lines: Sequence[Line]) -> dict[str, str]:
    values: dict[str, str] = {}
    way: Way
    for index, (path, line) in enumerate(zip(question.paths, lines, strict=True), start=1):
        own_values: dict[str, Any] = {}
        for way, usual, rates in (("up", line.up, line.up_rates), ("down", line.down, line.down_rates)):
            steps = _steps(question, path, way)
            own_values |= {f"{way}{index}_{number}": rates[number] for number in steps} if steps else {f"{way}{index}": usual}
        own_values |= {
            f"up_queue{index}": line.up_queue,
            f"down_queue{index}": line.down_queue,
            f"delay{index}": line.delay,
            f"jitter{index}": line.jitter,
            f"loss{index}": line.loss,
        }
        # Those behind the run's end are in its last nanoseconds, one after the other: a study has
        # no change behind its end.
        last = question.seconds[1] * 10**9 - 2 * (count := _outages(question, path))
        for number in range(count):
            begins = int(line.begins) + number * int(line.every)
            own_values |= {
                f"out{index}_{number}": Time.base(min(begins, last + 2 * number)),
                f"back{index}_{number}": Time.base(min(begins + int(line.outage), last + 2 * number + 1)),
            }
        values |= {name: str(value) for name, value in own_values.items()}
    return values


def check_names(paths: Sequence[Path]) -> None:
    """Raises `AdviceError` where a path is called as something else in the study."""
    count = len(paths)
    taken = {"uplink", ALL, TUNNEL, *(f"{noun}{index}" for noun in ("device", "cable") for index in range(1, count + 1))}
    for path in paths:
        if path.name in taken:
            raise AdviceError(f'a path cannot be called "{path.name}", as another part of the study is: give it another `name`')
