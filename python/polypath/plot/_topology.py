"""The topology of a scenario, drawn: hosts and routers from the client to the right, links with their figures, paths in their colours."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import combinations
from typing import Any

from polypath.analysis import Path, paths

from ._export import Figure, drawn
from ._theme import FONT, INK, PAPER, QUIET, colour

COLUMN, ROW = 350, 150
"""Distance of node centres, in px; parallel links make a row taller."""
SLOT = 18
"""Distance of the ends of links on one side of a node."""
BOX_WIDTH, BOX_HEIGHT = 92, 52
"""Of a node with few links; more links on a side make it taller."""
BEND = 92
"""Distance between parallel links at their middle."""
MARGIN = 24
LONGEST, BESIDE_A_CROSSING = 38, 20
"""Letters of what a link does that fit between two columns."""


@dataclass(frozen=True, kw_only=True)
class _Curve:
    link: Mapping[str, Any]
    start: tuple[float, float]
    end: tuple[float, float]
    bend: float
    a_is_left: bool
    crosses: bool = False
    """Another one between the same columns."""

    def at(self, t: float) -> tuple[float, float]:
        (x1, y1), (x2, y2) = self.start, self.end
        controls = self._controls()
        weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3)
        points = ((x1, y1), *controls, (x2, y2))
        return sum(w * p[0] for w, p in zip(weights, points, strict=True)), sum(w * p[1] for w, p in zip(weights, points, strict=True))

    def _controls(self) -> tuple[tuple[float, float], tuple[float, float]]:
        (x1, y1), (x2, y2) = self.start, self.end
        lift = self.bend * 4 / 3
        if abs(x2 - x1) < 1:
            return (x1 + abs(lift) + 60, y1), (x2 + abs(lift) + 60, y2)
        return (x1 + (x2 - x1) * 0.3, y1 + lift), (x1 + (x2 - x1) * 0.7, y2 + lift)

    def path(self) -> str:
        (ax, ay), (bx, by) = self._controls()
        return f"M{self.start[0]:.1f},{self.start[1]:.1f} C{ax:.1f},{ay:.1f} {bx:.1f},{by:.1f} {self.end[0]:.1f},{self.end[1]:.1f}"


def topology(scenario: Mapping[str, Any], name: str = "topology", title: str = "Topology", caption: str = "") -> Figure:
    """Draws the graph; a link that only one path takes has that path's colour, one that several share is dark."""
    taken = list(dict.fromkeys((path.source, path.destination) for flow in scenario["flows"] for path in paths(scenario, flow)))
    every = [path for flow in scenario["flows"] for path in paths(scenario, flow)]
    places = _places(scenario)
    curves = _curves(scenario, places)
    users = _users(every, taken)
    parts = [_link(curve, users.get(curve.link["name"], set())) for curve in curves]
    parts += [_node(node, places[node["name"]], scenario) for node in scenario["nodes"]]
    right = max(x for x, _ in places.values()) + BOX_WIDTH / 2
    tops = [curve.at(0.4)[1] - 30 - 15 * len(_figures(curve.link, LONGEST)) for curve in curves] + [
        y - BOX_HEIGHT / 2 for _, y in places.values()
    ]
    bottoms = [curve.at(0.6)[1] + 48 for curve in curves] + [y + BOX_HEIGHT / 2 + 16 for _, y in places.values()]
    top, bottom = min(tops) - 8, max(bottoms) + 12
    legend, height = _legend(scenario, taken, bottom)
    left = min(x for x, _ in places.values()) - BOX_WIDTH / 2 - MARGIN
    width, tall = right + MARGIN - left, height - top
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{left:.0f} {top:.0f} {width:.0f} {tall:.0f}" width="{width:.0f}" '
        f'height="{tall:.0f}" font-family="{FONT}" role="img" aria-label="{escape(title)}">'
        f'<rect class="paper" x="{left:.0f}" y="{top:.0f}" width="{width:.0f}" height="{tall:.0f}" fill="{PAPER}"/>'
        + "".join(parts)
        + legend
        + "</svg>"
    )
    return drawn(name, title, caption, svg)


def _places(scenario: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Columns by distance from the first flow's client; within a column in the order of the study. Servers never stand left of a router.

    A host that no flow uses here stands among the clients: flows of other cells begin there.
    """
    start = scenario["flows"][0]["client"] if scenario["flows"] else scenario["nodes"][0]["name"]
    distance = _distances(scenario, start)
    for node in scenario["nodes"]:
        distance.setdefault(node["name"], 0)
    servers = {flow["server"] for flow in scenario["flows"]}
    clients = {node["name"] for node in scenario["nodes"] if not node.get("router")} - servers
    clients |= {flow["client"] for flow in scenario["flows"]}
    last = max(distance.values())
    for name in distance:
        if name in clients:
            distance[name] = 0
        elif name in servers:
            distance[name] = last
    columns: dict[int, list[str]] = {}
    for node in scenario["nodes"]:
        columns.setdefault(distance[node["name"]], []).append(node["name"])
    parallel: dict[frozenset[str], int] = {}
    for link in scenario["links"]:
        pair = frozenset((link["a"]["node"], link["b"]["node"]))
        parallel[pair] = parallel.get(pair, 0) + 1
    height = ROW + BEND * (max(parallel.values(), default=1) - 1)
    places: dict[str, tuple[float, float]] = {}
    for column, names in columns.items():
        for row, name in enumerate(names):
            places[name] = (column * COLUMN, (row - (len(names) - 1) / 2) * height)
    ways = [_way(places, link) for link in scenario["links"]]
    if any(_cross(one, other) for one, other in combinations(ways, 2)):
        # Words stand above and below the crossing.
        places = {name: (x, 1.5 * y) for name, (x, y) in places.items()}
    return places


def _way(places: Mapping[str, tuple[float, float]], link: Mapping[str, Any]) -> tuple[tuple[float, float], tuple[float, float]]:
    left, right = sorted((places[link["a"]["node"]], places[link["b"]["node"]]))
    return left, right


def _cross(one: tuple[tuple[float, float], tuple[float, float]], other: tuple[tuple[float, float], tuple[float, float]]) -> bool:
    """Between the same two columns, in the other order at the other end."""
    (start, end), (other_start, other_end) = one, other
    same = start[0] == other_start[0] < end[0] == other_end[0]
    return same and (start[1] - other_start[1]) * (end[1] - other_end[1]) < 0


def _distances(scenario: Mapping[str, Any], start: str) -> dict[str, int]:
    found, waiting = {start: 0}, deque([start])
    while waiting:
        node = waiting.popleft()
        for link in scenario["links"]:
            ends = (link["a"]["node"], link["b"]["node"])
            if node in ends:
                other = ends[1] if ends[0] == node else ends[0]
                if other not in found:
                    found[other] = found[node] + 1
                    waiting.append(other)
    return found


def _curves(scenario: Mapping[str, Any], places: Mapping[str, tuple[float, float]]) -> list[_Curve]:
    pairs: dict[frozenset[str], list[Mapping[str, Any]]] = {}
    for link in scenario["links"]:
        pairs.setdefault(frozenset((link["a"]["node"], link["b"]["node"])), []).append(link)
    slots = _slots(scenario, places)
    curves = []
    for links in pairs.values():
        for index, link in enumerate(links):
            a_is_left = places[link["a"]["node"]] <= places[link["b"]["node"]]
            left, right = (link["a"], link["b"]) if a_is_left else (link["b"], link["a"])
            (x1, y1), (x2, y2) = places[left["node"]], places[right["node"]]
            offset = index - (len(links) - 1) / 2
            # A link over more than one column arches over the nodes between.
            bend = offset * BEND if len(links) > 1 else (-BEND if abs(x2 - x1) > 1.5 * COLUMN else 0.0)
            into = -BOX_WIDTH / 2 if abs(x2 - x1) > 1 else BOX_WIDTH / 2
            curves.append(
                _Curve(
                    link=link,
                    start=(x1 + BOX_WIDTH / 2, y1 + slots[link["name"], left["node"]]),
                    end=(x2 + into, y2 + slots[link["name"], right["node"]]),
                    bend=bend,
                    a_is_left=a_is_left,
                )
            )
    return [replace(curve, crosses=any(_cross((curve.start, curve.end), (other.start, other.end)) for other in curves)) for curve in curves]


def _slots(scenario: Mapping[str, Any], places: Mapping[str, tuple[float, float]]) -> dict[tuple[str, str], float]:
    """Where on its side of a node each link ends, so that links do not cross at the node: by the height of the other end."""
    sides: dict[tuple[str, bool], list[tuple[float, int, str]]] = {}
    for index, link in enumerate(scenario["links"]):
        for own, other in ((link["a"]["node"], link["b"]["node"]), (link["b"]["node"], link["a"]["node"])):
            leftward = places[other][0] < places[own][0]
            sides.setdefault((own, leftward), []).append((places[other][1], index, link["name"]))
    slots = {}
    for (node, _), links in sides.items():
        for place, (_, _, name) in enumerate(sorted(links)):
            slots[name, node] = (place - (len(links) - 1) / 2) * SLOT
    return slots


def _users(every: Sequence[Path], taken: Sequence[tuple[str, str]]) -> dict[str, set[int]]:
    users: dict[str, set[int]] = {}
    for path in every:
        for hop in path.hops:
            users.setdefault(hop.link, set()).add(taken.index((path.source, path.destination)))
    return users


def _link(curve: _Curve, users: set[int]) -> str:
    link = curve.link
    stroke = colour(next(iter(users))) if len(users) == 1 else INK if users else QUIET
    dash = "" if users else ' stroke-dasharray="5 4"'
    shade = ' class="ink-line"' if stroke == INK else ""
    fall = curve.end[1] - curve.start[1]
    # On a slope the words stand nearer to the outer end, where there is room.
    outer_left = abs(curve.start[1]) >= abs(curve.end[1])
    slope = abs(fall) >= ROW / 4
    middle = 0.5 if not slope else 0.4 if outer_left else 0.6
    # Off the middle by more than the ends on a side of one node are.
    low = (curve.start[1] if outer_left else curve.end[1]) > (0 if slope else 2 * SLOT)
    below = curve.bend > 0 or (curve.bend == 0 and low)
    x, y = curve.at(middle)
    lines = _figures(link, BESIDE_A_CROSSING if curve.crosses else LONGEST)
    spread = 15
    base = y + 20 if below else y - 12 - spread * len(lines)
    side = "middle"
    if slope:
        # Beside the line, on the side that it leaves free.
        side = "start" if (fall < 0) == below else "end"
        x, base = x + (12 if side == "start" else -12), y + (14 if below else -spread * len(lines) - 2)
    if slope and curve.crosses:
        # To the right of the line, before the crossing: above the one that falls, below the one that climbs.
        (x, y), side = curve.at(0.3), "start"
        x, base = x + 12, y + (2 - spread * len(lines) if fall > 0 else 16)
    text = [_text(x, base, link["name"], weight="bold", size=13, anchor=side, css="ink", fill=INK)]
    text += [_text(x, base + spread * (index + 1), line, size=12, anchor=side, css="ink", fill=INK) for index, line in enumerate(lines)]
    ends = (link["a"], link["b"]) if curve.a_is_left else (link["b"], link["a"])
    for end, t, anchor, nudge in ((ends[0], 0.0, "start", 7), (ends[1], 1.0, "end", -7)):
        _, ey = curve.at(0.05 if t == 0 else 0.95)
        inside = -6 if below else 14
        text.append(_text(curve.at(t)[0] + nudge, ey + inside, end["address"], size=10.5, anchor=anchor, css="quiet", fill=QUIET))
    return f'<path d="{curve.path()}" fill="none" stroke="{stroke}" stroke-width="2.6"{dash}{shade}/>' + "".join(text)


def _node(node: Mapping[str, Any], place: tuple[float, float], scenario: Mapping[str, Any]) -> str:
    x, y = place
    clients = {flow["client"] for flow in scenario["flows"]}
    servers = {flow["server"] for flow in scenario["flows"]}
    role = "router" if node.get("router") else "client" if node["name"] in clients else "server" if node["name"] in servers else "host"
    height = max(BOX_HEIGHT, SLOT * [link[end]["node"] for link in scenario["links"] for end in ("a", "b")].count(node["name"]))
    radius = 26 if role == "router" else 9
    box = (
        f'<rect class="node" x="{x - BOX_WIDTH / 2}" y="{y - height / 2}" width="{BOX_WIDTH}" height="{height}" rx="{radius}" '
        f'fill="#eef2f6" stroke="#8794a1" stroke-width="1.4"/>'
    )
    return (
        box
        + _text(x, y - 1, node["name"], weight="bold", size=15, css="ink", fill=INK, halo=False)
        + _text(x, y + 15, role, size=11, css="quiet", fill=QUIET, halo=False)
    )


def _legend(scenario: Mapping[str, Any], taken: Sequence[tuple[str, str]], top: float) -> tuple[str, float]:
    left = -BOX_WIDTH / 2
    if len(taken) < 2:
        return "", top
    parts, y = [], top + 6
    for index, (source, destination) in enumerate(taken):
        parts.append(f'<path d="M{left},{y - 4} h26" stroke="{colour(index)}" stroke-width="3.4" fill="none"/>')
        words = f"path {index + 1}: {source} → {destination}"
        parts.append(_text(left + 34, y, words, size=12, anchor="start", css="ink", fill=INK, halo=False))
        left += 60 + 6.4 * len(words)
    return "".join(parts), y + 14


def _text(
    x: float, y: float, words: str, *, size: float, fill: str, css: str, weight: str = "normal", anchor: str = "middle", halo: bool = True
) -> str:
    behind = f' stroke="{PAPER}" stroke-width="4" stroke-linejoin="round" paint-order="stroke"' if halo else ""
    return (
        f'<text class="{css}{" halo" if halo else ""}" x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" '
        f'text-anchor="{anchor}" fill="{fill}"{behind}>{escape(words)}</text>'
    )


def _figures(link: Mapping[str, Any], longest: int) -> list[str]:
    """What the link does, in words: one line if both directions are alike, else one a direction."""
    there, back = (", ".join(_words(link.get(side, ()))) or "no limits" for side in ("a_to_b", "b_to_a"))
    mtus = {int(link[end].get("mtu", 1500)) for end in ("a", "b")}
    extra = "" if mtus == {1500} else f", MTU {'/'.join(str(mtu) for mtu in sorted(mtus, reverse=True))}"
    if there == back:
        return _lines(there + extra, longest)
    a, b = link["a"]["node"], link["b"]["node"]
    return [*_lines(f"{a} → {b}: {there}{extra}", longest), *_lines(f"{b} → {a}: {back}", longest)]


def _lines(words: str, longest: int) -> list[str]:
    """In two lines where one would reach into the nodes."""
    if len(words) <= longest:
        return [words]
    commas = [place for place, letter in enumerate(words) if letter == ","]
    middle = min(commas, key=lambda place: abs(place - len(words) / 2), default=0)
    return [words[: middle + 1], words[middle + 1 :].strip()] if commas else [words]


def _words(elements: Sequence[Mapping[str, Any]]) -> list[str]:
    words = []
    for element in elements:
        kind = element["kind"]
        if kind == "rate":
            queue = element["queue"]
            room = f"{queue['packets']} packets" if "packets" in queue else f"{int(queue['bytes']) / 1000:g} kB"
            words.append(_rate(float(element["bits_per_s"])) + (" (changes)" if element.get("changes") else ""))
            words.append(f"queue {room}")
        elif kind == "delay":
            jitter = f" ± {_time(int(element['jitter_ns']))}" if element.get("jitter_ns") else ""
            words.append(_time(int(element["delay_ns"])) + jitter)
        elif kind == "loss":
            words.append(_loss(element))
        elif kind == "mtu":
            words.append(f"MTU {element['bytes']} ({element['oversize']})")
        elif kind == "down":
            words.append(f"down {len(element['spans_ns'])} times")
    return words


def _loss(element: Mapping[str, Any]) -> str:
    if element["model"] == "bernoulli":
        return f"loss {100 * float(element['probability']):g} %"
    return "burst loss" if element["model"] == "gilbert_elliott" else "drops chosen packets"


def _rate(bits: float) -> str:
    for size, unit in ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")):
        if bits >= size:
            return f"{bits / size:g} {unit}"
    return f"{bits:g} bit/s"


def _time(ns: int) -> str:
    for size, unit in ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs")):
        if ns >= size:
            return f"{ns / size:g} {unit}"
    return f"{ns} ns"
