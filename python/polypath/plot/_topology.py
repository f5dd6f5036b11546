"""The topology of a scenario, drawn: hosts and routers from the client to the right, links with
their figures, paths in their colours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from polypath.analysis import Path, path_names, paths

from ._export import Figure, drawn
from ._layout import ROOM, Box, Curve, Join, Layout, Words, layout
from ._letters import width_of
from ._theme import FONT, INK, PAPER, QUIET, colour

MARGIN = 16
LONGEST = 38
"""Letters of a line beside a link."""
MOST_COLOURED = 8
"""Paths with a colour each; of more, all links are dark."""


def topology(scenario: Mapping[str, Any], name: str = "topology", title: str = "Topology", caption: str = "") -> Figure:
    """Draws the graph; a link that only one path takes has that path's colour, one that several
    share is dark.
    """
    every = [path for flow in scenario["flows"] for path in paths(scenario, flow)]
    taken = list(dict.fromkeys(tuple(sorted((path.source, path.destination))) for path in every))
    users = _users(every, taken) if len(taken) <= MOST_COLOURED else {}
    drawing = layout(scenario, _joins(scenario))
    extent = drawing.extent()
    parts = [_line(curve, users.get(curve.join.name, set()), plain=len(taken) > MOST_COLOURED) for curve in drawing.curves]
    parts += [_node(node, drawing.nodes[node["name"]], scenario) for node in scenario["nodes"]]
    parts += [_label_of(words) for words in drawing.words]
    left, right = extent.left - MARGIN, extent.right + MARGIN
    legend, bottom, right = _below(scenario, drawing, taken, every, Box(left=left, top=0.0, right=right, bottom=extent.bottom))
    top = extent.top - MARGIN
    width, tall = right - left, bottom + MARGIN - top
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{left:.0f} {top:.0f} {width:.0f} {tall:.0f}" width="{width:.0f}" '
        f'height="{tall:.0f}" font-family="{FONT}" role="img" aria-label="{escape(title)}">'
        f'<rect class="paper" x="{left:.0f}" y="{top:.0f}" width="{width:.0f}" height="{tall:.0f}" fill="{PAPER}"/>'
        + "".join(parts)
        + legend
        + "</svg>"
    )
    return drawn(name, title, caption, svg)


def _joins(scenario: Mapping[str, Any]) -> list[Join]:
    links = [
        Join(
            name=link["name"],
            ends=(link["a"]["node"], link["b"]["node"]),
            addresses=(link["a"]["address"], link["b"]["address"]),
            words=_figures(link),
        )
        for link in scenario["links"]
    ]
    tunnels = [
        Join(
            name=tunnel["name"],
            ends=(tunnel["a"]["node"], tunnel["b"]["node"]),
            addresses=(tunnel["a"]["address"], tunnel["b"]["address"]),
            words=[f"tunnel over {len(tunnel['paths'])} path{'s' * (len(tunnel['paths']) > 1)}"],
            tunnel=True,
        )
        for tunnel in scenario.get("tunnels", ())
    ]
    return links + tunnels


def _users(every: Sequence[Path], taken: Sequence[tuple[str, ...]]) -> dict[str, set[int]]:
    users: dict[str, set[int]] = {}
    for path in every:
        for hop in path.hops:
            users.setdefault(hop.link, set()).add(taken.index(tuple(sorted((path.source, path.destination)))))
    return users


def _line(curve: Curve, users: set[int], *, plain: bool) -> str:
    stroke = colour(next(iter(users))) if len(users) == 1 else INK if users or plain else QUIET
    dash = ' stroke-dasharray="10 5"' if curve.join.tunnel else "" if users or plain else ' stroke-dasharray="5 4"'
    shade = ' class="ink-line"' if stroke == INK else ""
    (ax, ay), (bx, by) = curve.controls()
    path = f"M{curve.start[0]:.1f},{curve.start[1]:.1f} C{ax:.1f},{ay:.1f} {bx:.1f},{by:.1f} {curve.end[0]:.1f},{curve.end[1]:.1f}"
    return f'<path d="{path}" fill="none" stroke="{stroke}" stroke-width="2.6"{dash}{shade}/>'


def _label_of(words: Words) -> str:
    parts = []
    for index, (x, y, line) in enumerate(words.baselines()):
        bold, ink = words.title and index == 0, words.title
        parts.append(
            _text(
                x,
                y,
                line,
                size=13 if bold else words.size,
                weight="bold" if bold else "normal",
                anchor=words.anchor,
                css="ink" if ink else "quiet",
                fill=INK if ink else QUIET,
            )
        )
    return "".join(parts)


def _node(node: Mapping[str, Any], box: Box, scenario: Mapping[str, Any]) -> str:
    clients = {flow["client"] for flow in scenario["flows"]}
    servers = {flow["server"] for flow in scenario["flows"]}
    name = node["name"]
    both = name in clients and name in servers
    role = "router" if node.get("router") else "host" if both else "client" if name in clients else "server" if name in servers else "host"
    x, y = (box.left + box.right) / 2, (box.top + box.bottom) / 2
    return (
        f'<rect class="node" x="{box.left:.1f}" y="{box.top:.1f}" width="{box.right - box.left:.1f}" height="{box.bottom - box.top:.1f}" '
        f'rx="{26 if role == "router" else 9}" fill="#eef2f6" stroke="#8794a1" stroke-width="1.4"/>'
        + _text(x, y - 1, name, weight="bold", size=15, css="ink", fill=INK, halo=False)
        + _text(x, y + 15, role, size=11, css="quiet", fill=QUIET, halo=False)
    )


def _below(
    scenario: Mapping[str, Any], drawing: Layout, taken: Sequence[tuple[str, ...]], every: Sequence[Path], frame: Box
) -> tuple[str, float, float]:
    """The names of the paths, and the figures of links that had no room; with the drawing's new
    lower and right edges.
    """
    parts, x, y, right = [], frame.left + MARGIN, frame.bottom, frame.right
    names = path_names(scenario)
    if 1 < len(taken) <= MOST_COLOURED:
        y += 26
        for index, pair in enumerate(taken):
            source, destination = next((path.source, path.destination) for path in every if {path.source, path.destination} == set(pair))
            words = f"{names.get((source, destination), f'path {index + 1}')}: {source} → {destination}"
            wide = 34 + ROOM * width_of(words, 12)
            if x > frame.left + MARGIN and x + wide > max(right, 700 + frame.left):
                x, y = frame.left + MARGIN, y + 18
            parts.append(f'<path d="M{x:.1f},{y - 4:.1f} h26" stroke="{colour(index)}" stroke-width="3.4" fill="none"/>')
            parts.append(_text(x + 34, y, words, size=12, anchor="start", css="ink", fill=INK, halo=False))
            x += wide + 26
            right = max(right, x)
    for join in drawing.left_out:
        y += 18 if parts else 26
        words = f"{join.name} ({join.ends[0]} – {join.ends[1]}): {', '.join(join.words)}"
        parts.append(_text(frame.left + MARGIN, y, words, size=12, anchor="start", css="ink", fill=INK, halo=False))
        right = max(right, frame.left + 2 * MARGIN + ROOM * width_of(words, 12))
    return "".join(parts), y, right


def _text(
    x: float, y: float, words: str, *, size: float, fill: str, css: str, weight: str = "normal", anchor: str = "middle", halo: bool = True
) -> str:
    behind = f' stroke="{PAPER}" stroke-width="4" stroke-linejoin="round" paint-order="stroke"' if halo else ""
    return (
        f'<text class="{css}{" halo" if halo else ""}" x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" '
        f'text-anchor="{anchor}" fill="{fill}"{behind}>{escape(words)}</text>'
    )


def _figures(link: Mapping[str, Any]) -> list[str]:
    """What the link does, in words: one line if both directions are alike, else one a direction."""
    there, back = (", ".join(_words(link.get(side, ()))) or "no limits" for side in ("a_to_b", "b_to_a"))
    mtus = {int(link[end].get("mtu", 1500)) for end in ("a", "b")}
    extra = "" if mtus == {1500} else f", MTU {'/'.join(str(mtu) for mtu in sorted(mtus, reverse=True))}"
    if there == back:
        return _lines(there + extra)
    a, b = link["a"]["node"], link["b"]["node"]
    return [*_lines(f"{a} → {b}: {there}{extra}"), *_lines(f"{b} → {a}: {back}")]


def _lines(words: str) -> list[str]:
    """In lines that are not much longer than `LONGEST`, broken at commas."""
    lines = [""]
    for part in words.split(", "):
        if lines[-1] and len(lines[-1]) + len(part) + 2 > LONGEST:
            lines[-1] += ","
            lines.append(part)
        else:
            lines[-1] = f"{lines[-1]}, {part}" if lines[-1] else part
    return lines


def _words(elements: Sequence[Mapping[str, Any]]) -> list[str]:
    words = []
    for element in elements:
        kind = element["kind"]
        if kind == "rate":
            queue = element["queue"]
            room = f"{queue['packets']} packets" if "packets" in queue else f"{int(queue['bytes']) / 1000:g} kB"
            words.append(_rate(float(element["bits_per_s"])) + (" (changes)" if element.get("changes") else ""))
            words.append(f"{_AQM[element['aqm']['kind']]}, queue {room}" if element.get("aqm") else f"queue {room}")
        elif kind == "policer":
            words.append(f"policed to {_rate(float(element['bits_per_s']))}")
        elif kind == "delay" and (element["delay_ns"] or element.get("jitter_ns")):
            jitter = f" ± {_time(int(element['jitter_ns']))}" if element.get("jitter_ns") else ""
            words.append(_time(int(element["delay_ns"])) + jitter)
        elif kind == "loss" and not (element["model"] == "bernoulli" and not float(element["probability"])):
            words.append(_loss(element))
        elif kind == "mtu":
            words.append(f"MTU {element['bytes']} ({element['oversize']})")
        elif kind == "down":
            times = len(element["spans_ns"])
            words.append("down once" if times == 1 else f"down {times} times")
    return words


def _loss(element: Mapping[str, Any]) -> str:
    if element["model"] == "bernoulli":
        return f"loss {100 * float(element['probability']):g} %"
    return "burst loss" if element["model"] == "gilbert_elliott" else "drops chosen packets"


def _rate(bits: float) -> str:
    for size, unit in ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")):
        if bits >= size:
            return f"{_figure(bits / size)} {unit}"
    return f"{bits:g} bit/s"


_AQM = {"fq_codel": "fq_codel", "codel": "CoDel", "pie": "PIE", "dualpi2": "DualPI2", "red": "RED"}
"""What keeps a queue; without it the queue drops what finds it full."""


def _figure(value: float) -> str:
    """Three digits, or all before the point: what was drawn at random has more than anybody reads."""
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def _time(ns: int) -> str:
    for size, unit in ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs")):
        if ns >= size:
            return f"{_figure(ns / size)} {unit}"
    return f"{ns} ns"
