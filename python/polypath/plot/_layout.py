"""Where nodes, links and words of a topology stand: geometry alone, nothing is drawn here.

Words are set after everything else, each where it covers neither a node nor other words. Where that
cannot be, the rows move apart; words that have no room even then are left out of the drawing and
given back.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ._letters import width_of

COLUMN = 320
"""Distance of node centres of two columns, in px, at least."""
SLOT = 18
"""Distance of the ends of links on one side of a node."""
BOX_WIDTH, BOX_HEIGHT = 92, 52
"""Of a node with few links and a short name."""
BEND = 92
"""Distance between parallel links at their middle."""
NESTED = 250
"""How much further an arch between nodes of one column goes for each node that it passes."""
ROOM = 1.15
"""Letters of a browser that has no such font are wider."""
NAME, SMALL, ADDRESS, LINE = 13.0, 12.0, 10.5, 15.0
"""Sizes of letters, and the distance of two lines."""
STRETCHES = (1.0, 1.25, 1.6, 2.0, 2.6, 3.4)
"""How far rows move apart, step by step, until all words have room."""
MOST_TRIED = 24
"""Links; with more some words have no room in any drawing."""


@dataclass(frozen=True, kw_only=True)
class Box:
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box, gap: float = 0.0) -> bool:
        return (
            self.left < other.right + gap
            and other.left < self.right + gap
            and self.top < other.bottom + gap
            and other.top < self.bottom + gap
        )

    def holds(self, point: tuple[float, float], gap: float = 0.0) -> bool:
        return self.left - gap < point[0] < self.right + gap and self.top - gap < point[1] < self.bottom + gap


@dataclass(frozen=True, kw_only=True)
class Join:
    """A link or a tunnel between two nodes, with the words beside it."""

    name: str
    ends: tuple[str, str]
    addresses: tuple[str, str]
    words: Sequence[str]
    tunnel: bool = False


@dataclass(frozen=True, kw_only=True)
class Curve:
    join: Join
    start: tuple[float, float]
    end: tuple[float, float]
    bend: float
    turned: bool
    """Whether it starts at the second of the two nodes."""
    flat: tuple[float, float] = (0.3, 0.3)
    """How far it leaves each end level, as parts of its width."""

    @property
    def upright(self) -> bool:
        """Between two nodes of one column: it arches to the right."""
        return abs(self.end[0] - self.start[0]) < 1

    def controls(self) -> tuple[tuple[float, float], tuple[float, float]]:
        (x1, y1), (x2, y2) = self.start, self.end
        lift = self.bend * 4 / 3
        if self.upright:
            return (x1 + abs(lift) + 60, y1), (x2 + abs(lift) + 60, y2)
        # A tunnel rises beside its nodes, to stay low between them.
        first, second = (0.06, 0.06) if self.join.tunnel else self.flat
        return (x1 + (x2 - x1) * first, y1 + lift), (x2 - (x2 - x1) * second, y2 + lift)

    def at(self, t: float) -> tuple[float, float]:
        points = (self.start, *self.controls(), self.end)
        weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3)
        return sum(w * p[0] for w, p in zip(weights, points, strict=True)), sum(w * p[1] for w, p in zip(weights, points, strict=True))

    def points(self) -> list[tuple[float, float]]:
        return [self.at(step / 60) for step in range(61)]

    def fine(self) -> list[tuple[float, float]]:
        """So close that no line of words lies between two of them."""
        return [self.at(step / 240) for step in range(241)]


@dataclass(frozen=True, kw_only=True)
class Words:
    """Lines in a box; the first one is bold where `title` is true."""

    lines: Sequence[str]
    box: Box
    anchor: Literal["start", "middle", "end"]
    title: bool
    size: float

    def baselines(self) -> Iterator[tuple[float, float, str]]:
        """x, y and text of each line."""
        x = {"start": self.box.left, "middle": (self.box.left + self.box.right) / 2, "end": self.box.right}[self.anchor]
        for index, line in enumerate(self.lines):
            yield x, self.box.top + 0.95 * (NAME if self.title else self.size) + LINE * index, line


@dataclass(frozen=True, kw_only=True)
class Layout:
    nodes: Mapping[str, Box]
    curves: Sequence[Curve]
    words: Sequence[Words]
    left_out: Sequence[Join] = field(default=())
    """Links without room for their words."""
    struck: int = 0
    """Words that a line goes through."""

    def extent(self) -> Box:
        """What the drawing takes up."""
        boxes = [*self.nodes.values(), *(word.box for word in self.words)]
        points = [point for curve in self.curves for point in curve.points()]
        return Box(
            left=min([*(box.left for box in boxes), *(x for x, _ in points)]),
            top=min([*(box.top for box in boxes), *(y for _, y in points)]),
            right=max([*(box.right for box in boxes), *(x for x, _ in points)]),
            bottom=max([*(box.bottom for box in boxes), *(y for _, y in points)]),
        )


def layout(scenario: Mapping[str, Any], joins: Sequence[Join]) -> Layout:
    """The first of ever larger drawings in which all words have room beside the lines, or else the
    one in which most have.
    """
    best: Layout | None = None
    for stretch in STRETCHES if len(joins) <= MOST_TRIED else STRETCHES[2:3]:
        placed = _layout(scenario, joins, stretch)
        if best is None or (len(placed.left_out), placed.struck) < (len(best.left_out), best.struck):
            best = placed
        if not placed.left_out and not placed.struck:
            break
    assert best is not None, "there is at least one stretch"
    return best


def _layout(scenario: Mapping[str, Any], joins: Sequence[Join], stretch: float) -> Layout:
    columns = _columns(scenario)
    nodes = _nodes(columns, joins, stretch)
    curves: list[Curve] = []
    words: list[Words] = []
    left_out = []
    taken = list(nodes.values())
    # Tunnels go round the links and their words.
    for kind in ([join for join in joins if not join.tunnel], [join for join in joins if join.tunnel]):
        kind_curves = _curves(nodes, kind, joins, [word.box for word in words], [point for curve in curves for point in curve.points()])
        curves += kind_curves
        points = {curve.join.name: curve.fine() for curve in curves}
        # Those with the most words have the fewest places.
        for curve in sorted(kind_curves, key=lambda candidate: -len(candidate.join.words)):
            label = _beside(curve, points, taken)
            if label is None:
                left_out.append(curve.join)
            else:
                words.append(label)
                taken.append(label.box)
        for curve in kind_curves:
            for label in _addresses(curve, points, taken):
                words.append(label)
                taken.append(label.box)
    order = {join.name: index for index, join in enumerate(joins)}
    left_out.sort(key=lambda join: order[join.name])
    lines = [point for curve in curves for point in curve.fine()]
    under = [word for word in words if any(word.box.holds(point, 1) for point in lines)]
    # A tunnel may go through an address, which the tables have, too.
    words = [word for word in words if word.title or word not in under]
    struck = sum(word.title for word in under)
    return Layout(nodes=nodes, curves=curves, words=words, left_out=left_out, struck=struck)


def _columns(scenario: Mapping[str, Any]) -> list[list[str]]:
    """By distance from the first flow's client. Who opens connections stands on the left, who
    accepts them on the right, and whoever does both where its first flow has it; a host that no
    flow uses stands on the left, since flows of other cells begin there.
    """
    first, last, routers = set[str](), set[str](), {node["name"] for node in scenario["nodes"] if node.get("router")}
    for flow in scenario["flows"]:
        first |= {flow["client"]} - last
        last |= {flow["server"]} - first
    start = scenario["flows"][0]["client"] if scenario["flows"] else scenario["nodes"][0]["name"]
    distance = _distances(scenario, start)
    for node in scenario["nodes"]:
        distance.setdefault(node["name"], 0)
    furthest = max(distance.values())
    if any(distance[name] == furthest for name in routers) and last:
        furthest += 1
    for name in distance:
        if name in last:
            distance[name] = furthest
        elif name in first or name not in routers:
            distance[name] = 0
    columns: dict[int, list[str]] = {}
    for node in scenario["nodes"]:
        columns.setdefault(distance[node["name"]], []).append(node["name"])
    return _untangled([columns[number] for number in sorted(columns)], scenario)


def _untangled(columns: list[list[str]], scenario: Mapping[str, Any]) -> list[list[str]]:
    """The nodes of each column in the order of what they are joined to in the column before."""
    neighbours: dict[str, list[str]] = {}
    for link in scenario["links"]:
        a, b = link["a"]["node"], link["b"]["node"]
        neighbours.setdefault(a, []).append(b)
        neighbours.setdefault(b, []).append(a)
    for number in range(1, len(columns)):
        before = {name: position - (len(columns[number - 1]) - 1) / 2 for position, name in enumerate(columns[number - 1])}
        middle = {}
        for position, name in enumerate(columns[number]):
            before_positions = [before[other] for other in neighbours.get(name, ()) if other in before]
            middle[name] = sum(before_positions) / len(before_positions) if before_positions else position - (len(columns[number]) - 1) / 2
        columns[number] = sorted(columns[number], key=lambda name: middle[name])
    return columns


def _distances(scenario: Mapping[str, Any], start: str) -> dict[str, int]:
    distances, waiting = {start: 0}, deque([start])
    while waiting:
        node = waiting.popleft()
        for link in scenario["links"]:
            ends = (link["a"]["node"], link["b"]["node"])
            if node in ends:
                other = ends[1] if ends[0] == node else ends[0]
                if other not in distances:
                    distances[other] = distances[node] + 1
                    waiting.append(other)
    return distances


CROWDED = 4
"""Links that end on one side of a node: with as many they need room to come together."""


def _most_on_a_side(columns: Sequence[Sequence[str]], joins: Sequence[Join]) -> int:
    column_of = {name: number for number, column in enumerate(columns) for name in column}
    counts: dict[tuple[str, bool], int] = {}
    pairs = {frozenset(join.ends): join.ends for join in joins if not join.tunnel}
    for one, other in pairs.values():
        for node, far in ((one, other), (other, one)):
            if column_of[node] != column_of[far]:
                counts[node, column_of[far] < column_of[node]] = counts.get((node, column_of[far] < column_of[node]), 0) + 1
    return max(counts.values(), default=0)


def _nodes(columns: Sequence[Sequence[str]], joins: Sequence[Join], stretch: float) -> dict[str, Box]:
    sides = [end for join in joins if not join.tunnel for end in join.ends]
    parallel: dict[frozenset[str], int] = {}
    for join in joins:
        parallel[frozenset(join.ends)] = parallel.get(frozenset(join.ends), 0) + 1
    tallest = max((_size(join)[1] for join in joins), default=0.0)
    pitch = stretch * max(110.0, tallest + 64.0) + BEND * (max(parallel.values(), default=1) - 1)
    widest = max((_size(join)[0] for join in joins), default=0.0)
    names = [name for column in columns for name in column]
    widths = {name: max(BOX_WIDTH, width_of(name, 15, bold=True) * ROOM + 26) for name in names}
    apart = (
        max(COLUMN, widest + 0.6 * BOX_WIDTH + max(widths.values()))
        * (1 + 0.35 * (stretch - 1))
        * (1 + 0.7 * (_most_on_a_side(columns, joins) >= CROWDED))
    )
    boxes = {}
    for number, column in enumerate(columns):
        for row, name in enumerate(column):
            x, y = number * apart, (row - (len(column) - 1) / 2) * pitch
            height = max(BOX_HEIGHT, SLOT * sides.count(name))
            boxes[name] = Box(left=x - widths[name] / 2, top=y - height / 2, right=x + widths[name] / 2, bottom=y + height / 2)
    return boxes


def _middle(box: Box) -> tuple[float, float]:
    return (box.left + box.right) / 2, (box.top + box.bottom) / 2


def _curves(
    nodes: Mapping[str, Box], chosen: Sequence[Join], joins: Sequence[Join], words: Sequence[Box], before: Sequence[tuple[float, float]]
) -> list[Curve]:
    """The `chosen` of all joins, each past nodes that are not its own and past `words`, and apart
    from the points of those `before` it.
    """
    pairs: dict[frozenset[str], list[Join]] = {}
    for join in chosen:
        pairs.setdefault(frozenset(join.ends), []).append(join)
    slots = _slots(nodes, joins)
    taken = _near(before)
    curves = {}
    # Near nodes before far ones.
    for links in sorted(pairs.values(), key=lambda pair: _length(nodes, pair[0])):
        for index, join in enumerate(links):
            offset = index - (len(links) - 1) / 2
            base = offset * BEND + NESTED * _within(nodes, join)
            tried = [_curve(join, nodes, slots, base + extra) for extra in _EXTRA]
            costs = [_crowd(curve, nodes, words, taken) + 0.3 * abs(curve.bend - base) for curve in tried]
            curve = tried[costs.index(min(costs))]
            curves[join.name] = curve
            taken |= _near(curve.points()[6:-6])
    return [curves[join.name] for join in chosen]


def _within(nodes: Mapping[str, Box], join: Join) -> int:
    """How many nodes of their column stand between its ends: a longer arch goes round the shorter
    ones.
    """
    (x, one), (x2, other) = (_middle(nodes[end]) for end in join.ends)
    if abs(x2 - x) >= 1:
        return 0
    return sum(abs(at - x) < 1 and min(one, other) < y < max(one, other) for at, y in map(_middle, nodes.values()))


_EXTRA = (0, -70, 70, -140, 140, -210, 210, -290, 290, -380, 380, -480, 480, -600, 600, -740, 740)
"""Bends that are tried, the flattest first."""


def _near(points: Iterable[tuple[float, float]]) -> set[tuple[int, int]]:
    """The squares of 16 px that points lie in."""
    return {(int(x // 16), int(y // 16)) for x, y in points}


def _length(nodes: Mapping[str, Box], join: Join) -> float:
    return math.dist(*(_middle(nodes[end]) for end in join.ends))


def _crowd(curve: Curve, nodes: Mapping[str, Box], words: Sequence[Box], taken: set[tuple[int, int]]) -> float:
    points = curve.points()
    covered = sum(box.holds(point, 3) for box in words for point in points)
    through = sum(box.holds(point, 8) for name, box in nodes.items() if name not in curve.join.ends for point in points)
    through += sum(nodes[end].holds(point, -2) for end in curve.join.ends for point in points[4:-4])
    close = len(_near(points[6:-6]) & taken)
    return 400.0 * through + 100.0 * covered + 5.0 * close


def _curve(join: Join, nodes: Mapping[str, Box], slots: Mapping[tuple[str, str], tuple[float, int]], bend: float) -> Curve:
    one, other = (nodes[end] for end in join.ends)
    turned = _middle(one) > _middle(other)
    left, right = (other, one) if turned else (one, other)
    names = join.ends[::-1] if turned else join.ends
    upright = abs(_middle(left)[0] - _middle(right)[0]) < 1
    start = (left.right, _middle(left)[1] + slots.get((join.name, names[0]), (0.0, 1))[0])
    end = (right.right if upright else right.left, _middle(right)[1] + slots.get((join.name, names[1]), (0.0, 1))[0])
    if upright:
        start, end = (max(start[0], end[0]), start[1]), (max(start[0], end[0]), end[1])
    if join.tunnel and not upright:
        # It leaves by the top or the bottom, where no link does.
        edge = "top" if bend <= 0 else "bottom"
        start, end = (_middle(left)[0], getattr(left, edge)), (_middle(right)[0], getattr(right, edge))
    return Curve(join=join, start=start, end=end, bend=bend, turned=turned, flat=_flat(join, slots, names))


def _flat(join: Join, slots: Mapping[tuple[str, str], tuple[float, int]], names: Sequence[str]) -> tuple[float, float]:
    """Many lines of a node part near it and run level beyond, where each has room for its words."""
    first, second = (slots[join.name, name][1] if (join.name, name) in slots else 1 for name in names)
    return (0.15, 0.72) if first >= CROWDED > second else (0.72, 0.15) if second >= CROWDED > first else (0.3, 0.3)


def _slots(nodes: Mapping[str, Box], joins: Sequence[Join]) -> dict[tuple[str, str], tuple[float, int]]:
    """Where on its side of a node each link ends, so that links do not cross at the node: by the
    height of the other end; and how many do.
    """
    sides: dict[tuple[str, bool], list[tuple[float, int, str]]] = {}
    for index, join in enumerate(joins):
        if join.tunnel:
            continue
        for end, other in (join.ends, join.ends[::-1]):
            leftward = _middle(nodes[other])[0] < _middle(nodes[end])[0]
            sides.setdefault((end, leftward), []).append((_middle(nodes[other])[1], index, join.name))
    slots = {}
    for (node, _), links in sides.items():
        for slot, (_, _, name) in enumerate(sorted(links)):
            slots[name, node] = ((slot - (len(links) - 1) / 2) * SLOT, len(links))
    return slots


def _size(join: Join) -> tuple[float, float]:
    widths = [width_of(join.name, NAME, bold=True), *(width_of(line, SMALL) for line in join.words)]
    return ROOM * max(widths), LINE * (1 + len(join.words)) + 3


def _beside(curve: Curve, points: Mapping[str, Sequence[tuple[float, float]]], taken: Sequence[Box]) -> Words | None:
    """The name and the words of a link where they cover nothing; None where they would."""
    width, height = _size(curve.join)
    on_curve = points[curve.join.name]
    best: tuple[float, Words] | None = None
    for t in (0.5, 0.42, 0.58, 0.34, 0.66, 0.26, 0.74, 0.18, 0.82):
        for anchor, box in _around(curve.at(t), on_curve, width, height):
            if any(box.meets(other, 5) for other in taken):
                continue
            covered = sum(box.holds(point, 2) for name, line in points.items() for point in line if name != curve.join.name)
            covered += 3 * sum(box.holds(point, 1) for point in on_curve)
            above = box.bottom < curve.at(t)[1]
            cost = 8.0 * covered + 30 * abs(t - 0.5) + (4 if above == (curve.bend > 0) else 0) + (6 if anchor != "middle" else 0)
            if best is None or cost < best[0]:
                label = Words(lines=[curve.join.name, *curve.join.words], box=box, anchor=anchor, title=True, size=SMALL)
                best = (cost, label)
    return None if best is None else best[1]


def _around(
    point: tuple[float, float], line: Sequence[tuple[float, float]], width: float, height: float
) -> Iterable[tuple[Literal["start", "middle", "end"], Box]]:
    """Above and below a point of a curve, and on its sides, so that the curve itself stays free."""
    x, y = point
    near = [py for px, py in line if x - width / 2 <= px <= x + width / 2] or [y]
    yield "middle", Box(left=x - width / 2, top=min(near) - 7 - height, right=x + width / 2, bottom=min(near) - 7)
    yield "middle", Box(left=x - width / 2, top=max(near) + 7, right=x + width / 2, bottom=max(near) + 7 + height)
    beside = [px for px, py in line if y - height / 2 <= py <= y + height / 2] or [x]
    yield "start", Box(left=max(beside) + 9, top=y - height / 2, right=max(beside) + 9 + width, bottom=y + height / 2)
    yield "end", Box(left=min(beside) - 9 - width, top=y - height / 2, right=min(beside) - 9, bottom=y + height / 2)


def _addresses(curve: Curve, points: Mapping[str, Sequence[tuple[float, float]]], taken: Sequence[Box]) -> Iterator[Words]:
    """The addresses at both ends; one without room is left out, since the tables have it, too."""
    ends = curve.join.addresses[::-1] if curve.turned else curve.join.addresses
    on_curve, occupied = points[curve.join.name], list(taken)
    for address, (x, y), outward in ((ends[0], curve.start, 1), (ends[1], curve.end, 1 if curve.upright else -1)):
        width, height = ROOM * width_of(address, ADDRESS), 1.25 * ADDRESS
        best: tuple[float, Words] | None = None
        for away in (7.0, 22.0, 40.0):
            left = x + away if outward > 0 else x - away - width
            near = [py for px, py in on_curve if left <= px <= left + width and abs(py - y) < 60] or [y]
            for top in (min(near) - 4 - height, max(near) + 3):
                box = Box(left=left, top=top, right=left + width, bottom=top + height)
                if any(box.meets(other, 2) for other in occupied):
                    continue
                if any(box.holds(point, 1) for line in points.values() for point in line):
                    continue
                cost = away / 4 + (top > y)
                if best is None or cost < best[0]:
                    anchor: Literal["start", "end"] = "start" if outward > 0 else "end"
                    best = (cost, Words(lines=[address], box=box, anchor=anchor, title=False, size=ADDRESS))
        if best is not None:
            occupied.append(best[1].box)
            yield best[1]
