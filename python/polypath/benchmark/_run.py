"""One command of the benchmark: which algorithms are meant, and each one's JSON and page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from polypath import customcc, linux
from polypath.engines import find
from polypath.results import replace_file
from polypath.study import DEFAULT_KERNEL, Run, Study, unknown

from ._errors import BenchmarkError
from ._measure import measure
from ._page import page
from ._rank import Worst
from ._record import Linux, Record, as_json, built_in
from ._set import WORDS, Half, Kind, in_words

ALL = "all"


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What is measured."""

    kind: Kind
    name: str
    source: str | None = None
    file: Path | None = None

    @property
    def label(self) -> str:
        return f"{self.kind}-{self.name}"

    @property
    def command(self) -> str:
        return f"polypath benchmark {self.file or f'{self.kind} {self.name}'}"


def subject(words: Sequence[str]) -> list[Subject]:
    """What the words of the command name: "cc NAME...", "scheduler NAME...", or a file of one's
    own. Raises `BenchmarkError`, and `CustomCcError` where the file does not compile.
    """
    if not words:
        raise BenchmarkError("there is nothing to measure: write `cc NAME`, `scheduler NAME`, or a file of your own, like my-cc/mine.c")
    kind, *names = words
    if kind.endswith(".c"):
        if names:
            raise BenchmarkError(f"{kind} is measured by itself: leave {' '.join(names)} out")
        return [_own(Path(kind))]
    engine = find("sim")
    algorithms = {algorithm.name: algorithm.aliases.split() for algorithm in engine.algorithms()}
    there = {"cc": [*algorithms], "scheduler": engine.schedulers()}
    if kind not in there:
        raise BenchmarkError(f'"{kind}" is neither cc nor scheduler nor a file NAME.c: write `cc NAME`, `scheduler NAME` or the file')
    if not names:
        raise BenchmarkError(f"which {WORDS[kind]}? `{kind} {ALL}` measures all; there are {', '.join(there[kind])}")
    chosen = there[kind] if names == [ALL] else list(dict.fromkeys(names))
    for name in chosen:
        if name not in there[kind]:
            meant = next((there for there, others in algorithms.items() if kind == "cc" and name.lower() in others), None)
            raise BenchmarkError(unknown(WORDS[kind], name, there[kind], meant=meant))
    return [Subject(kind="cc" if kind == "cc" else "scheduler", name=name) for name in chosen]


def _own(file: Path) -> Subject:
    algorithm = customcc.use_file(file)
    return Subject(kind="scheduler" if algorithm.kind == "sched" else "cc", name=algorithm.name, source=algorithm.hash, file=file)


def check_linux() -> None:
    """Raises `BenchmarkError` where the kernel is not here, before hours of simulation."""
    if DEFAULT_KERNEL not in (kernel.name for kernel in linux.installed()):
        sentence = f"the kernel {DEFAULT_KERNEL} is not here, which --linux asks"
        raise BenchmarkError(f"{sentence}: build it with `polypath linux build {DEFAULT_KERNEL}`, or leave --linux out")


def run(
    what: Subject,
    draws: int,
    folder: str | Path,
    *,
    only: Half | None = None,
    on_linux: bool = False,
    workers: int | None = None,
    progress: Callable[[Run], None] | None = None,
) -> Record:
    """Measures it, and writes LABEL.json, LABEL.md and the study that was run; what was run before
    is kept.
    """
    out = Path(folder)
    place = out / what.label

    def measured(engine: str) -> dict[str, dict[int, float]]:
        return measure(what.kind, what.name, draws, place, only=only, engine=engine, workers=workers, progress=progress)

    figures = measured("sim")
    on_kernel = Linux(kernel=DEFAULT_KERNEL, figures=measured("linux")) if on_linux else None
    record = Record(
        kind=what.kind,
        name=what.name,
        source=what.source,
        polypath=str(find("sim").version),
        draws=draws,
        only=only,
        figures=figures,
        linux=on_kernel,
    )
    replace_file(out / f"{what.label}.json", as_json(record).encode())
    study = Study.load(place)

    def network(one: Worst) -> str:
        return in_words(study, one.experiment, one.draw)

    half = "" if only is None else f" --half {only}"
    again = f"{what.command} --budget {draws}draws{half}"
    own = "" if what.file is None else f" --cc-path {what.file.parent}"
    alone = f"polypath run {place} --only experiment=NAME --only draw=N{own}"
    (out / f"{what.label}.md").write_text(page(record, built_in(what.kind), network, again, alone), encoding="utf-8")
    return record
