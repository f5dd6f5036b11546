"""Renews the figures that Markdown files take from runs, or checks that they are still what a run
gives.

    tools/figures.py [FILE...]                  renew every block of these files, of all Markdown files without any
    tools/figures.py --check [FILE...]          change nothing; exit status 1 when a block differs by more than its tolerance
    tools/figures.py --check --within SECONDS   the cheapest blocks alone, as many as their stated costs allow
    tools/figures.py --picture                  renew the picture of README.md, from the study of its first commands

A block names the command that prints it:

    <!-- figures: COMMAND | tolerance 5 % | cost 7 s -->
    what COMMAND prints, Markdown
    <!-- end of figures -->

Old and new text must be the same but for the numbers, and each number within the tolerance, or
within one unit of its last digit where the number is not a count; `tolerance 5 % or 2` lets each
differ by 2 as well, `tolerance 0 %` asks for the same text. What cannot be had here in minutes
(another kernel, real time, hours) is recorded instead:

    <!-- figures: COMMAND | recorded 2026-05-17, Linux 6.12.117 -->

Such a block says when and on what, and is never renewed. Both may stand within a line. Commands run
in the project's root with .venv/bin, this Python's own folder and tools first in PATH; several
blocks with the same command run it once.

Figures of a page stand in such blocks; the sentences around a block say the finding, so that they
outlive a small change. The cost is the seconds that the command takes on two idle cores.
`tools/figure_tables.py` and `tools/agreement.py` print most tables; a script beside a note imports
the first. What is recorded may be a CSV file whose first line says when and on what, and which the
script reads. After a change of the simulator `make figures` renews all: read what it lists, and the
sentences around it.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"<!-- figures:(?P<head>.*?)-->(?P<content>.*?)<!-- end of figures -->", re.DOTALL)
MARK = re.compile(r"<!-- (?:figures:|end of figures)")
# Not what is part of a name (v1, 50mbit, 6.12.117).
NUMBER = re.compile(r"(?<![\w.])[−-]?\d+(?:\.\d+)?(?!\w|\.\d)")
# A command may have pipes of its own.
HEAD = re.compile(r"(.+?) \| ((?:tolerance|cost|recorded) .*)")
RENEWED = re.compile(r"tolerance (\d+(?:\.\d+)?) %(?: or (\d+(?:\.\d+)?))? \| cost (\d+(?:\.\d+)?) s")
RECORDED = re.compile(r"recorded \d{4}-\d\d-\d\d, (?:Linux \d+\.\d+|commit [0-9a-f]{7}).*")
# A command that takes this many times its stated cost, and this long at least, hangs.
PATIENCE, LEAST_S = 30, 900
PICTURES = ROOT / "docs" / "pictures"
MOST_BYTES = 150_000
# One cell a scheduler.
PICTURED = (["init", "home", "--template", "wifi-lte"], ["run", "home", "--only", "wifi_loss=0%"])
PICTURE = "results/home/figures/time-goodput-main.png"
SAME, CHANGED, DIFFERS, RECORD, FAILED = "same", "within tolerance", "differs", "recorded", "failed"


class BlockError(Exception):
    """A block that cannot be read, in one sentence with file and line."""


class Tolerance(NamedTuple):
    """What may change in a number: a share of it, or an amount."""

    share: float
    amount: float = 0.0


EXACT = Tolerance(0)


@dataclass(frozen=True, kw_only=True)
class Block:
    file: Path
    line: int
    command: str
    content: str
    # None for what is recorded.
    tolerance: Tolerance | None
    cost_s: float = 0
    # Where its content stands in the file's text.
    span: tuple[int, int]

    @property
    def place(self) -> str:
        """FILE:LINE, from the project's root where the file is inside."""
        return f"{shown(self.file)}:{self.line}"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a block."""

    block: Block
    verdict: str
    why: str = ""
    # The new text, where there is one.
    content: str | None = None


def shown(file: Path) -> str:
    """A file's name from the project's root."""
    return str(file.relative_to(ROOT)) if file.is_relative_to(ROOT) else str(file)


def markdown_files() -> list[Path]:
    """Every Markdown file of the project."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in sorted(listed.stdout.split("\n")) if name and (ROOT / name).is_file()]


def blocks(file: Path, text: str | None = None) -> list[Block]:
    """The blocks of a file, in its order. Raises BlockError."""
    text = file.read_text(encoding="utf-8") if text is None else text
    text = _without_code(text)
    found = []
    used: set[int] = set()
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        if MARK.search(match["content"]):
            raise BlockError(f"{shown(file)}:{line}: this block of figures has no end; put <!-- end of figures --> behind it")
        head = _head(file, line, match["head"])
        found.append(Block(file=file, line=line, content=match["content"], span=match.span("content"), **head))
        used |= {match.start(), match.end("content")}
    for mark in MARK.finditer(text):
        if mark.start() not in used:
            line = text.count("\n", 0, mark.start()) + 1
            form = "<!-- figures: COMMAND | ... --> and ends <!-- end of figures -->"
            raise BlockError(f"{shown(file)}:{line}: a block of figures begins {form}")
    return found


def _without_code(text: str) -> str:
    """The text with the marks that stand in code blanked: examples of blocks are none."""
    lines = text.split("\n")
    fenced = False
    for number, line in enumerate(lines):
        if line.startswith("```"):
            fenced = not fenced
        elif MARK.search(line) and (fenced or line.startswith(("    ", "\t"))):
            lines[number] = " " * len(line)
    return "\n".join(lines)


def _head(file: Path, line: int, head: str) -> dict[str, Any]:
    """What the first line of a block says."""
    head = " ".join(head.split())
    match = HEAD.fullmatch(head)
    command, settings = match.groups() if match else ("", head)
    if match := RENEWED.fullmatch(settings):
        share, amount, cost_s = (float(value or 0) for value in match.groups())
        return {"command": command, "tolerance": Tolerance(share / 100, amount), "cost_s": cost_s}
    if RECORDED.fullmatch(settings):
        return {"command": command, "tolerance": None, "cost_s": 0.0}
    raise BlockError(
        f'{shown(file)}:{line}: "{settings}" is not what a block of figures says behind its command; write "tolerance 5 % | cost 7 s", or '
        '"recorded 2026-05-17, Linux 6.12.117" or "recorded 2026-05-17, commit 1234567" for what is not renewed'
    )


def difference(old: str, new: str, tolerance: Tolerance) -> tuple[str, str]:
    """The verdict on two texts, and why."""
    old, new = old.strip(), new.strip()
    if old == new:
        return SAME, ""
    before, after = NUMBER.findall(old), NUMBER.findall(new)
    if _words(old) != _words(new):
        return DIFFERS, _first_line(old, new)
    pairs = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
    outside = [pair for pair in pairs if not _within(*pair, tolerance)]
    if outside:
        return DIFFERS, f"{len(outside)} of {len(after)} numbers: " + ", ".join(f"{a} is now {b}" for a, b in outside[:6])
    return CHANGED, f"{len(pairs)} of {len(after)} numbers: " + ", ".join(f"{a} is now {b}" for a, b in pairs[:6])


def _words(text: str) -> str:
    """A text without its numbers and without how wide columns are."""
    return re.sub(r"[ \t]+|-{3,}", " ", NUMBER.sub("#", text))


def _within(old: str, new: str, tolerance: Tolerance) -> bool:
    """Whether a number may have become another; what has digits behind the point may differ by one
    unit of the last.
    """
    a, b = _value(old), _value(new)
    digits = len(old.partition(".")[2])
    unit = 10.0**-digits if digits and tolerance != EXACT else 0.0
    return abs(a - b) <= max(tolerance.share * max(abs(a), abs(b)), tolerance.amount, unit) * (1 + 1e-9)


def _value(number: str) -> float:
    return float(number.replace("−", "-"))


def _first_line(old: str, new: str) -> str:
    """The first line whose words changed."""
    before, after = old.split("\n"), new.split("\n")
    for a, b in zip(before, after, strict=False):
        if _words(a) != _words(b):
            return f'the text: "{a}" is now "{b}"'
    return f"the text: {len(before)} lines are now {len(after)}"


def printed(command: str, cost_s: float) -> tuple[str | None, str]:
    """What a command prints, or None and why there is nothing."""
    paths = [str(ROOT / ".venv" / "bin"), str(Path(sys.executable).parent), str(ROOT / "tools"), os.environ.get("PATH", "")]
    own = os.pathsep.join([str(ROOT / "tools"), str(ROOT / "python")])  # this tree's package, whichever one the environment has installed
    environment = {**os.environ, "PATH": os.pathsep.join(paths), "PYTHONPATH": own, "COLUMNS": "200", "NO_COLOR": "1"}
    try:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=max(LEAST_S, PATIENCE * cost_s),
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired as expired:
        return None, f"`{command}` was not done after {expired.timeout:.0f} s"
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).split("\n")
        return None, f"`{command}` ended with status {done.returncode}: {said[-1]}"
    if not done.stdout.strip():
        return None, f"`{command}` printed nothing"
    return done.stdout.strip("\n"), ""


def outcomes(listed: Iterable[Block], workers: int) -> Iterator[Outcome]:
    """Runs the commands, cheapest first, and judges each block as its command is done."""
    todo: dict[str, list[Block]] = {}
    for block in listed:
        if block.tolerance is None:
            yield Outcome(block=block, verdict=RECORD)
        else:
            todo.setdefault(block.command, []).append(block)
    # Commands that begin alike run one after the other: they share runs, which the first of them
    # keeps.
    rows: dict[str, list[str]] = {}
    for command in sorted(todo, key=lambda command: max(block.cost_s for block in todo[command])):
        rows.setdefault(" ".join(command.split()[:2]), []).append(command)

    def row(commands: list[str]) -> list[Outcome]:
        return [outcome for command in commands for outcome in _judged(command, todo[command])]

    with ThreadPoolExecutor(max_workers=workers) as pool:
        for done in as_completed([pool.submit(row, commands) for commands in rows.values()]):
            yield from done.result()


def _judged(command: str, own: list[Block]) -> Iterator[Outcome]:
    content, why = printed(command, max(block.cost_s for block in own))
    for block in own:
        if content is None:
            yield Outcome(block=block, verdict=FAILED, why=why)
            continue
        verdict, why = difference(block.content, content, block.tolerance or EXACT)
        yield Outcome(block=block, verdict=verdict, why=why, content=content)


def write(outcome: Outcome) -> None:
    """Puts a new text in the place of the old one; the file is read again, for it may have changed
    meanwhile.
    """
    if outcome.content is None or outcome.verdict == SAME:
        return
    file = outcome.block.file
    text = file.read_text(encoding="utf-8")
    same = [block for block in blocks(file, text) if (block.command, block.content) == (outcome.block.command, outcome.block.content)]
    for block in reversed(same):
        begin, end = block.span
        edge = "\n" if text[begin] == "\n" else ""
        text = text[:begin] + edge + outcome.content + edge + text[end:]
    file.write_text(text, encoding="utf-8")


def cheapest(listed: list[Block], within_s: float) -> list[Block]:
    """The cheapest commands' blocks, as many as their stated costs allow."""
    costs: dict[str, float] = {}
    for block in listed:
        if block.tolerance is not None:
            costs[block.command] = max(block.cost_s, costs.get(block.command, 0))
    chosen, spent = set(), 0.0
    for command, cost_s in sorted(costs.items(), key=lambda item: (item[1], item[0])):
        spent += cost_s
        if spent > within_s:
            break
        chosen.add(command)
    return [block for block in listed if block.command in chosen]


def renew_picture() -> int:
    """Runs the study of the README's first commands, and takes a figure of its report."""
    with tempfile.TemporaryDirectory() as folder:
        for words in PICTURED:
            subprocess.run([Path(sys.executable).with_name("polypath"), *words], cwd=folder, check=True, capture_output=True)
        taken = (Path(folder) / PICTURE).read_bytes()
    if len(taken) > MOST_BYTES:
        print(f"figures: the picture has {len(taken)} bytes, more than {MOST_BYTES}: show less in it", file=sys.stderr)
        return 1
    PICTURES.mkdir(exist_ok=True)
    (PICTURES / "subflows.png").write_bytes(taken)
    print(f"docs/pictures/subflows.png: {len(taken)} bytes")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--check", action="store_true", help="change nothing; status 1 when a block is outside of its tolerance")
    parser.add_argument("--within", type=float, metavar="SECONDS", help="the cheapest blocks alone, by their stated costs")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="commands at once; default: one a core")
    parser.add_argument("--picture", action="store_true", help="renew the picture of README.md, and nothing else")
    given = parser.parse_args()
    if given.picture:
        return renew_picture()
    try:
        listed = [block for file in given.files or markdown_files() for block in blocks(file.resolve())]
    except (BlockError, OSError) as error:
        print(f"figures: {error}", file=sys.stderr)
        return 2
    if given.within is not None:
        listed = cheapest(listed, given.within)
    done, begin = [], time.monotonic()
    for outcome in outcomes(listed, given.workers):
        done.append(outcome)
        if outcome.verdict not in (SAME, RECORD):
            print(f"{outcome.block.place}: {outcome.verdict}: {outcome.why}", flush=True)
        if not given.check:
            write(outcome)
    counts = {verdict: sum(outcome.verdict == verdict for outcome in done) for verdict in (SAME, CHANGED, DIFFERS, FAILED, RECORD)}
    said = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    print(f"figures: {len(done)} blocks: {said or 'none'}; {time.monotonic() - begin:.0f} s")
    return 1 if counts[FAILED] or (given.check and counts[DIFFERS]) else 0


if __name__ == "__main__":
    sys.exit(main())
