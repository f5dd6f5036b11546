"""Settings and networks as a study: what is searched and what is written for the reader are built here alike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from polypath.study import Rate, Study

from ._errors import AdviceError
from ._networks import Line, drawn
from ._paths import Path
from ._settings import ALL, DEFAULT_RMEM, DEFAULT_WMEM, SHAPED, Setting, linux_default
from ._uses import use

SETTING, NETWORK = "setting", "network"
# The device of the host in front of a path, where nothing is shaped.
_DEVICE = Rate("40gbit")
_SPREAD = "500ms"
_FAST_BPS = 500e6
NEIGHBOUR = "neighbour"
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
        """When the window of each figure begins and ends: long round trips need longer to fill a window, and fast paths cost more."""
        slowest = max(path.rtt.high for path in self.paths) / 1e9
        warm = max(2, math.ceil(10 * slowest))
        return warm, warm + max(8 if self.filled_bps < _FAST_BPS else 4, math.ceil(40 * slowest))

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
    """A study of these settings in these networks, every one in every one; `more` are further fields of it."""
    start, end = question.seconds
    links = _links(question.paths)
    several = any(each.paths == ALL for each in settings)
    ours = {each: _flow(each, several=several) for each in question.weights}
    tree: dict[str, Any] = {
        "name": "advice",
        "topology": {"nodes": _nodes(question.paths), "links": links},
        "flows": ours,
        "duration": f"{end}s",
        "baselines": None,
        "bundles": {
            SETTING: {each.name: _set(question, each) for each in settings},
            NETWORK: {_number(each): {"seed": each, **_drawn(drawn(question.paths, each))} for each in networks},
        },
        "matrix": {SETTING: [each.name for each in settings], NETWORK: [_number(each) for each in networks]},
        "repeat_over": [NETWORK],
        "measure": {"window": [f"{start}s", f"{end}s"], "series": None},
        **(more or {}),
    }
    return Study.model_validate(tree)


def with_neighbours(question: Question, settings: Sequence[Setting], networks: Sequence[int]) -> dict[str, Any]:
    """The experiments that tell what settings cost others: a TCP connection on each path beside them, and without them."""
    others = {f"{NEIGHBOUR}{place}": _neighbour(question, place) for place, _ in enumerate(question.paths, start=1)}
    several = any(each.paths == ALL for each in settings)
    ours = {each: _flow(each, several=several) for each in question.weights}
    numbers = [_number(each) for each in networks]
    return {
        BESIDE: {
            "title": "Beside a TCP connection on each path",
            "flows": {**ours, **others},
            "matrix": {SETTING: [each.name for each in settings], NETWORK: numbers},
        },
        ALONE: {
            "title": "The TCP connections by themselves",
            "parameters": {SETTING: linux_default(question.paths).name},
            "flows": others,
            "matrix": {NETWORK: numbers},
        },
    }


def _number(network: int) -> str:
    # A letter first, so that nothing takes it for a figure.
    return f"n{network}"


def _nodes(paths: Sequence[Path]) -> dict[str, Any]:
    buffers = {"net.ipv4.tcp_rmem": "4096 131072 ${rmem}", "net.ipv4.tcp_wmem": "4096 16384 ${wmem}"}
    gateways = {f"gateway{place}": {"router": True} for place, _ in enumerate(paths, start=1)}
    others: dict[str, Any] = {f"{NEIGHBOUR}{place}": {} for place, _ in enumerate(paths, start=1)}
    return {"host": {"sysctl": buffers}, **gateways, "internet": {"router": True}, "server": {"sysctl": buffers}, **others}


def _links(paths: Sequence[Path]) -> dict[str, Any]:
    """A device of the host in front of each path, and the host's neighbours behind the same gateways."""
    found: dict[str, Any] = {}
    for place, path in enumerate(paths, start=1):
        found[f"device{place}"] = {
            "ends": ["host", f"gateway{place}"],
            **{side: {"rate": f"${{{way}_shaped{place}}}", "queue": "10000packets", "aqm": "${aqm}"} for side, way in _SIDES.items()},
        }
        found[path.name] = {"ends": [f"gateway{place}", "internet"], **{side: _shape(path, place, way) for side, way in _SIDES.items()}}
    found["uplink"] = {"ends": ["internet", "server"], "both": {"delay": "0ms"}}
    for place, _ in enumerate(paths, start=1):
        found[f"cable{place}"] = {"ends": [f"{NEIGHBOUR}{place}", f"gateway{place}"], "both": {"delay": "0ms"}}
    return found


_SIDES = {"forward": "up", "backward": "down"}


def _shape(path: Path, place: int, way: str) -> dict[str, Any]:
    shape = {"rate": f"${{{way}{place}}}", "queue": f"${{{way}_queue{place}}}", "delay": f"${{delay{place}}}"}
    if path.jitter.high:
        shape["jitter"] = f"${{jitter{place}}}"
    if path.loss.high:
        shape["loss"] = f"${{loss{place}}}"
    return shape


def _flow(name: str, *, several: bool) -> dict[str, Any]:
    """A use as a flow; `several`: whether some setting takes all paths."""
    own = use(name)
    flow: dict[str, Any] = {**own.flow, "start_spread": _SPREAD}
    # The host's address by which a connection begins; where it takes one path, its only one.
    flow["client_address" if flow["client"] == "host" else "server_address"] = "${address}"
    if flow.get("transport") == "udp":
        return flow
    flow["cc"] = "${cc}"
    flow["transport"] = "${transport}" if several else "tcp"
    return {**flow, "scheduler": "${scheduler}"} if several else flow


def _neighbour(question: Question, place: int) -> dict[str, Any]:
    ends = ("server", f"{NEIGHBOUR}{place}")
    client, server = ends if question.downward else ends[::-1]
    return {"client": client, "server": server, "transport": "tcp", "cc": "cubic", "start_spread": _SPREAD}


def _set(question: Question, setting: Setting) -> dict[str, Any]:
    """What a setting is in the study."""
    paths = question.paths
    names = [path.name for path in paths]
    found: dict[str, Any] = {
        "cc": setting.cc,
        "aqm": "fq_codel" if setting.shaped else "none",
        "rmem": setting.buffer or DEFAULT_RMEM,
        "wmem": setting.buffer or DEFAULT_WMEM,
        "address": _address(0 if setting.paths == ALL else names.index(setting.paths)),
    }
    if len(paths) > 1:
        found |= {"transport": "mptcp" if setting.paths == ALL else "tcp", "scheduler": setting.scheduler}
    for place, path in enumerate(paths, start=1):
        rates = shaped_to(path)
        found |= {f"{way}_shaped{place}": str(rates[way] if setting.shaped else _DEVICE) for way in ("up", "down")}
    return found


def _address(place: int) -> str:
    """The host's address on a path, as studies count them: a device and a path have a link each."""
    return f"10.0.{2 * place + 1}.1"


def shaped_to(path: Path) -> dict[str, Rate]:
    """The rates up and down that a shaper in front of a path lets through: below the least that the path may have."""
    return {way: Rate.base(int(SHAPED * span.low // 1000) * 1000) for way, span in (("up", path.up), ("down", path.down))}


def _drawn(lines: Sequence[Line]) -> dict[str, str]:
    found: dict[str, str] = {}
    for place, line in enumerate(lines, start=1):
        own = {
            f"up{place}": line.up,
            f"down{place}": line.down,
            f"up_queue{place}": line.up_queue,
            f"down_queue{place}": line.down_queue,
            f"delay{place}": line.delay,
            f"jitter{place}": line.jitter,
            f"loss{place}": line.loss,
        }
        found |= {name: str(value) for name, value in own.items()}
    return found


def check_names(paths: Sequence[Path]) -> None:
    """Raises `AdviceError` where a path is called as something else in the study."""
    count = len(paths)
    taken = {"uplink", ALL, *(f"{what}{place}" for what in ("device", "cable") for place in range(1, count + 1))}
    for path in paths:
        if path.name in taken:
            raise AdviceError(f'a path cannot be called "{path.name}", as another part of the study is: give it another `name`')
