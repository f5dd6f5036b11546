"""The set: its families, its draws, and the study that runs one algorithm in it.

Nothing here changes what `set-1.yaml` says but the algorithm, the experiments and the number of
draws.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import yaml

from polypath.study import Study, Time
from polypath.traces import packaged

from ._errors import BenchmarkError

Kind = Literal["cc", "scheduler"]
KINDS: tuple[Kind, ...] = ("cc", "scheduler")
WORDS = {"cc": "congestion control", "scheduler": "scheduler"}
Half = Literal["open", "test"]
HALVES: tuple[Half, ...] = ("test", "open")

NUMBER = 1
_FILE = Path(__file__).with_name(f"set-{NUMBER}.yaml")
STUDY_FILE = "study.yaml"


@dataclass(frozen=True, kw_only=True)
class Family:
    """Networks of one kind, and the figure that is taken in them."""

    name: str
    experiment: str
    kinds: tuple[Kind, ...]
    figure: Literal["goodput", "response", "stream", "call", "fair"]


def _family(name: str, figure: Literal["goodput", "response", "stream", "call", "fair"] = "goodput", *, cc_alone: bool = False) -> Family:
    experiment = "one-path" if name == "queue" else name
    return Family(name=name, experiment=experiment, kinds=("cc",) if cc_alone else KINDS, figure=figure)


FAMILIES = (
    _family("bulk"),
    _family("bursts", "response"),
    _family("requests", "response"),
    _family("video", "stream"),
    _family("loss"),
    _family("reordering"),
    _family("outages"),
    _family("small-buffers"),
    _family("traces"),
    _family("one-path", cc_alone=True),
    _family("queue", "call", cc_alone=True),
    _family("fair-cubic", "fair", cc_alone=True),
    _family("fair-reno", "fair", cc_alone=True),
    _family("fair-shared", "fair", cc_alone=True),
    _family("tunnel", cc_alone=True),
)
UNTOLD_ON_LINUX = ("video",)
"""A kernel does not tell when each byte was read."""

QUICK, WHOLE = 200, 6000
FEWEST = 4
"""Draws: an interval needs two in each half."""
# Of two cores of 2026, for a draw of all families, tables and figures included.
_DRAW_S = 0.4


def families(kind: Kind) -> tuple[Family, ...]:
    return tuple(family for family in FAMILIES if kind in family.kinds)


def half(draw: int) -> Half:
    return "open" if draw % 2 else "test"


def tenth(draws: Iterable[int]) -> list[int]:
    """Those that a kernel runs too: of each twenty one of each half."""
    return [draw for draw in draws if draw % 20 in (1, 10)]


def draws_of(text: str) -> int:
    """How many draws `--budget TEXT` allows: "10min", or "40draws". Raises `BenchmarkError`."""
    number = text.strip().removesuffix("draws").removesuffix("draw").strip()
    if number != text.strip() and number.isdecimal() and len(number) < 10:
        draws = int(number)
    else:
        try:
            draws = math.floor(Time(text).seconds / _DRAW_S)
        except ValueError as error:
            raise BenchmarkError(f'--budget: {error}, or a number of draws like "40draws"') from None
    if draws < FEWEST:
        least = f"{math.ceil(FEWEST * _DRAW_S)}s"
        raise BenchmarkError(f"--budget {text} allows {draws} draws, and an interval needs two in each half: give {least} or more")
    return min(draws, WHOLE)


@cache
def set_hash() -> str:
    """Of the study and the traces: what has another one is another benchmark."""
    digest = hashlib.sha256()
    for file in (_FILE, *_traces()):
        content = file.read_bytes()
        digest.update(f"{file.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]


def write_study(kind: Kind, name: str, draws: int, folder: Path) -> Study:
    """The study of one algorithm, with its traces in a folder, as anybody may run it."""
    tree = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    wanted = dict.fromkeys(family.experiment for family in families(kind))
    tree["name"] = study_name(kind, name)
    tree["title"] = f"{tree['title']}: {name}"
    tree["parameters"][kind] = name
    tree["draw"]["number"] = draws
    tree["experiments"] = {each: tree["experiments"][each] for each in wanted}
    if kind == "scheduler":
        # No tunnel is asked about, and a parameter without a use is a mistake.
        for parameter in ("distribution", "rule"):
            tree["draw"]["parameters"].pop(parameter)
    folder.mkdir(parents=True, exist_ok=True)
    for file in _traces():
        (folder / file.name).write_bytes(file.read_bytes())
    (folder / STUDY_FILE).write_text(yaml.safe_dump(tree, sort_keys=False, width=1000), encoding="utf-8")
    return Study.load(folder)


def study_name(kind: Kind, name: str) -> str:
    return f"benchmark-{NUMBER}-{kind}-{name}"


def in_words(study: Study, experiment: str, draw: int) -> str:
    """What is drawn of a network, as far as its family has it."""
    assert study.draw is not None, "the set has draws"
    topology = study.all_experiments[experiment].topology or study.topology
    used = str(topology.model_dump(mode="json"))
    return ", ".join(f"{name} {value}" for name, value in study.draw.values(draw).items() if f"${{{name}}}" in used)


def _traces() -> list[Path]:
    return [trace.file for _, trace in sorted(packaged().items())]
