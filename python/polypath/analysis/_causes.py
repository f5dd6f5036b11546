"""Why a flow got less than its links allow, where the counter that ran names no cause: its evidence
as a name and a sentence.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ._evidence import Evidence

MOSTLY = 0.5
"""Share of the time, or of drops, from which on something is the rule."""
FULL = 0.85
"""Share of what a path of a tunnel carries from which on it is full: headers of acknowledgements
and the start are the rest.
"""
USED = 0.95
"""Share below which another path of the tunnel had room."""
FEW_AGAIN = 0.002
"""Share of the segments: fewer that were sent again needlessly slow nothing down."""
WORTH = 0.05
"""Share of what a path carries below which it carried nothing to speak of."""
SLOW_START = 20
"""Round trips: a connection that lived for fewer, and lost nothing, was still growing."""
LONG_QUEUE = 20.0
"""Packets: a mean queue that is worth a word."""


def explained(base: str, why: str, seen: Evidence) -> tuple[str, str]:
    """A name and a sentence for the cause, where the evidence shows one behind `base`, the counter
    that ran most; else both as they are.
    """
    if seen["mbps"] <= 0 and base != "application":
        return _nothing_came(base, why, seen)
    if base in ("application", "application's rate", "links", "links, shared"):
        return base, why
    for find in (_full_path_of_tunnel, _way_back, _overtaken):
        if explanation := find(seen):
            return explanation
    if base == "send buffer":
        return base, why
    up = [path for path in seen["paths"] if path["up"]]
    if len(up) > 1:
        return _of_several(base, why, seen, up)
    return _of_one(base, why, seen, up[0]) if up else (base, why)


def _nothing_came(base: str, why: str, seen: Evidence) -> tuple[str, str]:
    for path in seen["paths"]:
        dropped = path["drops"]
        if path["black_hole"] and seen["established"]:
            many = f" ({dropped['mtu']:.0f} were dropped there)" if dropped["mtu"] else ""
            return "black hole", f"nothing arrived: {path['black_hole']}{many}"
        if path["down"] > 0 and dropped["down"] + dropped["loss"]:
            return "black hole", f"nothing arrived: {path['name']} let nothing pass for {path['down']:.3g} s"
    return ("black hole", f"nothing arrived: {why}") if seen["established"] else (base, why)


def _full_path_of_tunnel(seen: Evidence) -> tuple[str, str] | None:
    """A tunnel gives one of its paths more than that carries, while another has room."""
    for tunnel in seen["tunnels"]:
        full = max(tunnel["strands"], key=lambda strand: strand["used"])
        idle = min(tunnel["strands"], key=lambda strand: strand["used"])
        if not full["used"] >= FULL or not idle["used"] < USED:
            continue
        rules = {"turns": "by its weights ", "flows": "keeping a flow on one path, ", "earliest": ""}
        some = "all" if full["share"] > 0.995 else f"{100 * full['share']:.0f} %"
        rest = f"is used to {100 * idle['used']:.0f} %" if idle["share"] else "carries nothing"
        sentence = (
            f"{rules[tunnel['distribution']]}the tunnel {tunnel['name']} sends {some} of the packets over {full['name']}, which is full "
            f"({full['alone']:.1f} Mbit/s), while {idle['name']} ({idle['alone']:.1f} Mbit/s) {rest}"
        )
        return "tunnel's distribution", sentence
    return None


def _way_back(seen: Evidence) -> tuple[str, str] | None:
    """Acknowledgements wait for the link on which they come back, while the data's own has room."""
    up = [path for path in seen["paths"] if path["up"]]
    limited = [path for path in up if path["back"] >= MOSTLY and not min(strand["waits"] for strand in path["strands"]) > path["back"]]
    if not limited or len(limited) < len(up):
        return None
    path = max(limited, key=lambda candidate: candidate["back"])
    behind = " behind data of other flows" if path["back_shared"] else ""
    grew = f", and the round trip grew from {_ms(path['least_rtt'])} to {_ms(path['rtt'])}" if path["rtt"] > 1.2 * path["least_rtt"] else ""
    sentence = f"acknowledgements wait on the way back{behind}: {path['back_hop']} had a queue {100 * path['back']:.0f} % of the time{grew}"
    return "acknowledgements", sentence


def _ms(value: float) -> str:
    return f"{value:.3g} ms" if value < 1000 else f"{value / 1000:.2g} s"


def _overtaken(seen: Evidence) -> tuple[str, str] | None:
    """Packets overtake one another, are taken for lost, and the window becomes smaller for nothing."""
    up = [path for path in seen["paths"] if path["up"]]
    again, needless = seen["again"], seen["needless"]
    if not again or not again >= FEW_AGAIN * seen["segments"] or not any(path["overtakes"] for path in up):
        return None
    if math.isnan(needless) or needless < MOSTLY * again:
        return None
    sentence = f"packets overtake one another on {_listed([path['name'] for path in up if path['overtakes']])} and are taken for lost: of "
    return "reordering", f"{sentence}{again:.0f} segments that were sent again, at the cost of the window, {needless:.0f} had arrived"


def _of_one(base: str, why: str, seen: Evidence, path: Evidence) -> tuple[str, str]:
    """One path, which the congestion window does not fill."""
    if base == "receive window" and seen["blocked"] >= MOSTLY:
        buffered = f"{seen['held'] / 1e6:.2g} MB at the most"
        return base, f"{why}; {100 * seen['blocked']:.0f} % of the time it held data that had come out of order, {buffered}"
    if base != "congestion window":
        return base, why
    name, about = _lossy(path)
    trips = 1e3 * seen["life"] / path["rtt"] if path["rtt"] else math.nan
    if not seen["again"] and not sum(path["drops"].values()) and trips < SLOW_START:
        return "slow start", f"the connection lived for {trips:.0f} round trips, in which its window was still growing"
    if not about:
        return base, why
    got = f"{path['acked']:.1f} of {path['alone']:.1f} Mbit/s"
    return name, f"{seen['cc']} keeps {_packets(path['cwnd'])} under way ({got}), because {about}; {why}"


def _of_several(base: str, why: str, seen: Evidence, up: Sequence[Evidence]) -> tuple[str, str]:
    """Several paths, of which at least one is not filled."""
    low = min(up, key=lambda path: path["acked"] / path["alone"] if 0 < path["alone"] < math.inf else 1.0)
    if not 0 < low["alone"] < math.inf or low["acked"] > USED * low["alone"]:
        return base, why
    if low["backup"] and low["acked"] < WORTH * low["alone"]:
        others = [path for path in up if path is not low]
        name, sentence = _of_one(base, why, seen, others[0]) if len(others) == 1 else (base, why)
        unused = f"{low['name']} is a backup, which carries data only when no other subflow works, of {low['alone']:.1f} Mbit/s"
        return ("backup", unused) if name == base else (name, f"{sentence}; {unused}")
    if base == "receive window":
        return _of_one(base, why, seen, low)
    name, about = _lossy(low)
    who = "the scheduler" if base == "scheduler" else seen["cc"]
    sentence = f"{who} gives {low['name']} {_packets(low['cwnd'])} ({low['acked']:.1f} of {low['alone']:.1f} Mbit/s)"
    if about and base != "scheduler":
        sentence += f", because {'it' + about.removeprefix(low['name']) if about.startswith(low['name']) else about},"
    long = [path for path in up if path is not low and path["queue"] >= LONG_QUEUE]
    kept = _listed([f"{_packets(path['queue'])} waiting at {path['name']}" for path in long])
    sentence += f" and keeps {kept}" if kept else ""
    return name if base == "congestion window" and name else base, f"{sentence.rstrip(',')}; {why}"


def _lossy(path: Evidence) -> tuple[str, str]:
    """What makes the window of a path small, as a name and in words; nothing where nothing was
    dropped.
    """
    dropped = path["drops"]
    every = sum(dropped.values())
    if path["black_hole"] and path["acked"] < WORTH * path["alone"]:
        return f"black hole of {path['name']}", path["black_hole"]
    if path["down"] > 0 and dropped["down"] + dropped["loss"] and dropped["queue"] <= MOSTLY * every:
        return f"outages of {path['name']}", f"{path['name']} let nothing pass for {path['down']:.3g} s"
    # A queue that holds a round trip keeps its link busy while a window is halved: its drops, such
    # as the many at the end of slow start, hide no cause.
    long_queue = path["queue_trips"] >= 1.0
    if dropped["loss"] and dropped["loss"] >= MOSTLY * (every - dropped["queue"] * long_queue):
        lost = 100 * dropped["loss"] / (dropped["loss"] + path["passed"])
        return f"loss on {path['name']}", f"{path['name']} loses {lost:.2g} % of its packets"
    waits = min(strand["waits"] for strand in path["strands"])
    if dropped["queue"] and dropped["queue"] >= MOSTLY * every and path["overflowing"].startswith("the policer"):
        return f"policer of {path['name']}", f"{path['overflowing']} dropped {_packets(dropped['queue'])}"
    if dropped["queue"] and dropped["queue"] >= MOSTLY * every and waits < MOSTLY and not long_queue:
        words = f"{path['overflowing']} overflowed {dropped['queue']:.0f} times, and was empty {100 * (1 - waits):.0f} % of the time"
        return f"short queue of {path['name']}", words
    return "", ""


def _packets(number: float) -> str:
    return f"{number:.0f} packet{'s' * (round(number) != 1)}"


def _listed(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)
