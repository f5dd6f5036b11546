"""Scripts of packets on two engines: where the simulator's endpoint and a kernel part."""

from __future__ import annotations

import dataclasses
import json
import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ._errors import EngineError
from ._packets import PLAYER, play
from ._random_scripts import RandomScript, random_script

NS = 10**9
# What a kernel measures: each system call takes a quarter of a microsecond there, and none here.
MEASURED = ("tcpi_rtt", "tcpi_rttvar", "tcpi_min_rtt")
SLACK_US = 20
# TCP_SYN_SENT and TCP_SYN_RECV: what Linux has in the other fields then is a beginning, not a measurement.
HANDSHAKE = (2, 3)
# Scripts that one machine plays, within the time after which it counts as hanging.
BATCH = 400


@dataclass(frozen=True)
class Happening:
    """One thing that happened: when (s), on which line of the script, a packet that was `sent` or a
    step of the script that was `done`, and TCP_INFO just before, by Linux's names.
    """

    at: float
    line: int
    kind: str
    text: str
    info: dict[str, int]


@dataclass(frozen=True)
class Parting:
    """Where two engines part: the first happening that differs on each, none where one has no more,
    and what differs: `packet`, `call`, `time` or a field of TCP_INFO.
    """

    what: str
    sim: Happening | None
    linux: Happening | None
    # How many happenings were the same before.
    same: int


def record(texts: Sequence[str], *, kernel: str, machine: Path | None = None) -> list[list[Happening] | str]:
    """What happens in each of the scripts `texts`, or the sentence why one cannot be played.

    The endpoint does as `kernel`: the simulator's, or the kernel in the executable `machine`.
    """
    records: list[list[Happening] | str] = []
    for begin in range(0, len(texts), BATCH):
        records += _batch(texts[begin : begin + BATCH], kernel, machine)
    return records


def _batch(texts: Sequence[str], kernel: str, machine: Path | None) -> list[list[Happening] | str]:
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{number}.pkt" for number in range(len(texts))]
        for file, text in zip(files, texts, strict=True):
            file.write_text(text, encoding="utf-8")
        code, said = play(files, machine, "--record", "--kernel", kernel, folder=Path(folder))
    answers = said.splitlines()
    if code != 0 or len(answers) != len(texts):
        raise EngineError(f"{PLAYER.name} ended with status {code} after {len(answers)} of {len(texts)} scripts: {said[-500:]}")
    return [_read(json.loads(answer)) for answer in answers]


def _read(answer: dict[str, Any]) -> list[Happening] | str:
    if "error" in answer:
        return str(answer["error"])
    return [Happening(one["at"] / NS, one["line"], one["kind"], one["text"], one["info"]) for one in answer["happened"]]


def parting(sim: Sequence[Happening], linux: Sequence[Happening], *, tolerance_s: float) -> Parting | None:
    """The first difference of two records; none if there is none.

    Packets and results of calls must be the same, times to `tolerance_s`, and TCP_INFO before each
    step of the script.
    """
    for same, (ours, theirs) in enumerate(zip(sim, linux, strict=False)):
        if (ours.kind, ours.text) != (theirs.kind, theirs.text):
            what = "packet" if "sent" in (ours.kind, theirs.kind) else "call"
            return Parting(what, ours, theirs, same)
        if not math.isclose(ours.at, theirs.at, rel_tol=0, abs_tol=tolerance_s):
            return Parting("time", ours, theirs, same)
        if ours.kind == "done" and ours.info.get("tcpi_state") not in HANDSHAKE:
            differing = [field for field in ours.info if field in theirs.info and not _agree(field, ours.info, theirs.info)]
            if differing:
                return Parting(differing[0], ours, theirs, same)
    same = min(len(sim), len(linux))
    if len(sim) != len(linux):
        return Parting("packet", next(iter(sim[same:]), None), next(iter(linux[same:]), None), same)
    return None


def _agree(field: str, ours: dict[str, int], theirs: dict[str, int]) -> bool:
    return abs(ours[field] - theirs[field]) <= (SLACK_US if field in MEASURED else 0)


def shrink(script: RandomScript, still_parts: Callable[[list[RandomScript]], list[bool]]) -> RandomScript:
    """A part of the script that still parts and loses that with each event less (Zeller and
    Hildebrandt 2002, "Simplifying and Isolating Failure-Inducing Input", with all tries of a step
    at once).
    """
    step = max(len(script.events) // 2, 1)
    while step and script.events:
        tries = [
            dataclasses.replace(script, events=script.events[:begin] + script.events[begin + step :])
            for begin in range(0, len(script.events), step)
        ]
        smaller = next((one for one, parts in zip(tries, still_parts(tries), strict=True) if parts), None)
        if smaller is None:
            step //= 2
        else:
            script = smaller
            step = min(step, max(len(script.events) // 2, 1))
    return script


def random_partings(
    seeds: Sequence[int], *, mptcp: bool, kernel: str, machine: Path, tolerance_s: float
) -> dict[int, tuple[RandomScript, Parting]]:
    """Plays random scripts on the simulator's endpoint and on the kernel in `machine`. Those that
    part come back by their seeds, each made smaller as long as the same thing differs.
    """

    def partings(scripts: Sequence[RandomScript]) -> list[Parting | None]:
        texts = [script.text() for script in scripts]
        return script_partings(texts, kernel=kernel, machine=machine, tolerance_s=tolerance_s)

    scripts = [random_script(seed, mptcp=mptcp, kernel=kernel) for seed in seeds]
    parted = {}
    for seed, script, first in zip(seeds, scripts, partings(scripts), strict=True):
        if first is not None:

            def still_parts(tries: list[RandomScript], what: str = first.what) -> list[bool]:
                return [one is not None and one.what == what for one in partings(tries)]

            small = shrink(script, still_parts)
            parted[seed] = small, partings([small])[0] or first
    return parted


def script_partings(
    texts: Sequence[str], *, kernel: str, machine: Path, tolerance_s: float, names: Sequence[str] | None = None
) -> list[Parting | None]:
    """Where the engines part in each script; what one of them cannot play is an error."""
    partings = []
    both = zip(record(texts, kernel=kernel), record(texts, kernel=kernel, machine=machine), strict=True)
    for number, (ours, theirs) in enumerate(both):
        name = names[number] if names else f"script {number + 1} of {len(texts)}"
        if isinstance(ours, str):
            raise EngineError(f"{name} cannot be played on sim: {ours}")
        if isinstance(theirs, str):
            raise EngineError(f"{name} cannot be played on linux: {theirs}")
        partings.append(parting(ours, theirs, tolerance_s=tolerance_s))
    return partings


def describe_parting(one: Parting) -> str:
    """The parting in lines, with the TCP_INFO of both engines."""
    at = min(happening.at for happening in (one.sim, one.linux) if happening)
    lines = [f"  they part at {at:.6f} s after {one.same} equal steps, in {one.what}:"]
    for engine, happening in (("sim", one.sim), ("linux", one.linux)):
        what = f"{happening.at:.6f} line {happening.line}: {happening.text}" if happening else "nothing more"
        lines.append(f"    {engine:5}  {what}")
    lines.append(f"    {'just before':20} {'sim':>12} {'linux':>12}")
    infos = [happening.info if happening else {} for happening in (one.sim, one.linux)]
    for name in sorted({*infos[0], *infos[1]}):
        sim, linux = (info.get(name, "-") for info in infos)
        lines.append(f"    {name:20} {sim:>12} {linux:>12}{'' if sim == linux else '  *'}")
    return "\n".join(lines)
