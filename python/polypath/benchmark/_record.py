"""The JSON of a result: what was measured, as figures; scores are made from them by whoever reads
it.

A file comes from anybody, so all of it is looked at, and what it may hold is bounded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from ._errors import BenchmarkError
from ._score import LEAST, Figures, overall, score
from ._set import FEWEST, HALVES, KINDS, NUMBER, UNTOLD_ON_LINUX, WHOLE, Half, Kind, families, half, set_hash, tenth

MOST_FILES = 1000
MOST_BYTES = 4_000_000
_NAME = re.compile(r"[a-z][a-z0-9_@:.-]{0,31}")
_VERSION = re.compile(r"[\w.+ -]{1,64}")
_HASH = re.compile(r"[0-9a-f]{16}")
_LIST = re.compile(r"\[[^\[\]]*\]")
_FIELDS = {"benchmark", "set", "kind", "name", "source", "polypath", "draws", "half", "scores", "figures", "linux"}
BUILT_IN = Path(__file__).with_name("baselines")


@dataclass(frozen=True, kw_only=True)
class Linux:
    """What a kernel said of a tenth of the draws."""

    kernel: str
    figures: Figures


@dataclass(frozen=True, kw_only=True)
class Record:
    """One algorithm in the set."""

    kind: Kind
    name: str
    source: str | None
    """Hash of a file of one's own; None of what is built in."""
    polypath: str
    """The version that measured it."""
    draws: int
    """All up to this one, or those of the open half among them."""
    only: Half | None
    figures: Figures
    linux: Linux | None = None

    def of_half(self, which: Half, most: int | None = None) -> list[int]:
        """The draws of a half, up to one of them."""
        if self.only not in (None, which):
            return []
        return [draw for draw in range(1, (most or self.draws) + 1) if half(draw) == which]

    @property
    def title(self) -> str:
        return self.name if self.source is None else f"{self.name} ({self.source[:6]})"


def scores(record: Record) -> dict[str, dict[str, list[float]]]:
    """By half and family, `score` being of all: mean, low and high."""
    values: dict[str, dict[str, list[float]]] = {}
    for which in HALVES:
        if draws := record.of_half(which):
            each = {"score": overall(record.figures, draws)}
            each |= {name: score([by_draw[draw] for draw in draws]) for name, by_draw in record.figures.items()}
            values[which] = {name: [round(value, 2) for value in (of.mean, of.low, of.high)] for name, of in each.items()}
    return values


def as_json(record: Record) -> str:
    """A line a family."""
    plain: dict[str, Any] = {
        "benchmark": NUMBER,
        "set": set_hash(),
        "kind": record.kind,
        "name": record.name,
        "source": record.source,
        "polypath": record.polypath,
        "draws": record.draws,
        "half": record.only or "both",
        "scores": scores(record),
        "figures": _lists(record.figures),
        "linux": None if record.linux is None else {"kernel": record.linux.kernel, "figures": _lists(record.linux.figures)},
    }
    return _LIST.sub(lambda match: " ".join(match[0].split()), json.dumps(plain, indent=1)) + "\n"


def read(file: Path) -> Record:
    """The result in a file. Raises `BenchmarkError` with one sentence where it is none."""
    try:
        with file.open("rb") as opened:
            content = opened.read(MOST_BYTES + 1)
    except OSError as error:
        raise BenchmarkError(f"{file} cannot be read: {(error.strerror or str(error)).lower()}") from None
    if len(content) > MOST_BYTES:
        raise BenchmarkError(f"{file} is longer than the {MOST_BYTES / 1e6:g} MB that a result may have: take it out of the folder")
    try:
        return _record(json.loads(content, parse_constant=_no_number))
    except json.JSONDecodeError as error:
        raise BenchmarkError(f"{file}:{error.lineno}: it is no JSON ({error.msg}): ask for the file again") from None
    except (ValueError, RecursionError, OverflowError) as error:
        raise BenchmarkError(f"{file} is no result of this benchmark: {error}") from None


def read_folder(folder: Path) -> list[tuple[Path, Record]]:
    """All results of a folder, in the order of their names."""
    if not folder.is_dir():
        raise BenchmarkError(f"{folder} is no folder; `polypath benchmark --rank FOLDER` reads the JSON files of one")
    files = list(islice(folder.glob("*.json"), MOST_FILES + 1))
    if len(files) > MOST_FILES:
        raise BenchmarkError(f"{folder} has more than {MOST_FILES} JSON files: rank some of them")
    if not files:
        raise BenchmarkError(f"{folder} holds no result, that is no JSON file; `polypath benchmark cc NAME --out {folder}` makes one")
    return [(file, read(file)) for file in sorted(files)]


def built_in(kind: Kind) -> list[Record]:
    """Of the algorithms of this package."""
    return [record for record in (read(file) for file in sorted(BUILT_IN.glob("*.json"))) if record.kind == kind]


def _lists(figures: Figures) -> dict[str, list[float]]:
    return {name: [by_draw[draw] for draw in sorted(by_draw)] for name, by_draw in figures.items()}


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no figure")


def _record(plain: Any) -> Record:
    if not isinstance(plain, dict) or {*plain} != _FIELDS:
        raise ValueError(f"its fields are not {', '.join(sorted(_FIELDS))}")
    if plain["benchmark"] != NUMBER or plain["set"] != set_hash():
        raise ValueError(f"it is of the set {plain['benchmark']!r:.20} {plain['set']!r:.24}, and this is {NUMBER} {set_hash()}")
    kind = _one_of(plain, "kind", KINDS)
    only = _one_of(plain, "half", ("both", "open"))
    draws = plain["draws"]
    if isinstance(draws, bool) or not isinstance(draws, int) or not FEWEST <= draws <= WHOLE:
        raise ValueError(f"`draws` is {draws!r:.20}, and a result has {FEWEST} to {WHOLE}")
    expected = [draw for draw in range(1, draws + 1) if only in ("both", half(draw))]
    names = [family.name for family in families(kind)]
    record = Record(
        kind=kind,
        name=_text(plain, "name", _NAME),
        source=None if plain["source"] is None else _text(plain, "source", _HASH),
        polypath=_text(plain, "polypath", _VERSION),
        draws=draws,
        only=None if only == "both" else only,
        figures=_figures(plain["figures"], names, expected),
        linux=_linux(plain["linux"], names, tenth(expected)),
    )
    if not _alike(plain["scores"], scores(record)):
        raise ValueError("its scores are not those of its figures")
    return record


def _alike(plain: Any, ours: Any) -> bool:
    """Whether the scores are these; another machine may round the last digit otherwise."""
    if isinstance(ours, dict):
        return isinstance(plain, dict) and {*plain} == {*ours} and all(_alike(plain[name], ours[name]) for name in ours)
    if isinstance(ours, list):
        return isinstance(plain, list) and len(plain) == len(ours) and all(map(_alike, plain, ours))
    return isinstance(plain, int | float) and abs(plain - ours) < 0.02


def _linux(plain: Any, names: list[str], draws: list[int]) -> Linux | None:
    if plain is None:
        return None
    if not isinstance(plain, dict) or {*plain} != {"kernel", "figures"}:
        raise ValueError("`linux` has other fields than kernel and figures")
    shown = [name for name in names if name not in UNTOLD_ON_LINUX]
    return Linux(kernel=_text(plain, "kernel", _VERSION), figures=_figures(plain["figures"], shown, draws))


def _figures(plain: Any, names: list[str], draws: list[int]) -> dict[str, dict[int, float]]:
    if not isinstance(plain, dict) or {*plain} != {*names}:
        raise ValueError(f"its families are not {', '.join(names)}")
    figures = {}
    for name in names:
        values = plain[name]
        if not isinstance(values, list) or len(values) != len(draws):
            raise ValueError(f"the family {name} does not have the {len(draws)} figures of its draws")
        wrong = [value for value in values if isinstance(value, bool) or not isinstance(value, int | float) or not _is_figure(value)]
        if wrong:
            raise ValueError(f"the family {name} has the figure {wrong[0]!r:.20}, and a figure is a number from {LEAST} to 1")
        figures[name] = dict(zip(draws, map(float, values), strict=True))
    return figures


def _is_figure(value: float) -> bool:
    return LEAST <= value <= 1


def _one_of(plain: Mapping[str, Any], field: str, allowed: tuple[Any, ...]) -> Any:
    if plain[field] not in allowed:
        raise ValueError(f"`{field}` is {plain[field]!r:.40}, and there are {', '.join(allowed)}")
    return plain[field]


def _text(plain: Mapping[str, Any], field: str, form: re.Pattern[str]) -> str:
    value = plain[field]
    if not isinstance(value, str) or not form.fullmatch(value):
        raise ValueError(f"`{field}` is {value!r:.60}, which is none")
    return value
