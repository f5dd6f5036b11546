"""Which engines there are, and whether a study names only what an engine has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping
from importlib import import_module

from polypath.study import Cell, SetupError, Study, StudyError, located, nearest, same_for_all_seeds, specimens, unknown

from ._base import Engine
from ._measured import MeasuredEngine


class _Engines(MutableMapping[str, type[Engine]]):
    """Engines by name. A class is loaded when it is asked for: the simulator needs nothing of what
    reaches kernels.
    """

    def __init__(self, named: dict[str, str]) -> None:
        self._found: dict[str, str | type[Engine]] = {**named}

    def __getitem__(self, name: str) -> type[Engine]:
        engine = self._found[name]
        if isinstance(engine, str):
            module, name_there = engine.split(":")
            loaded: type[Engine] = getattr(import_module(module, __package__), name_there)
            return loaded
        return engine

    def __setitem__(self, name: str, engine: type[Engine]) -> None:
        self._found[name] = engine

    def __delitem__(self, name: str) -> None:
        del self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


ENGINES = _Engines({"sim": "._sim:SimEngine", "linux": "._linux:LinuxEngine", "host": "._host:HostEngine"})


def find(name: str) -> Engine:
    """The engine of this name."""
    if name == MeasuredEngine.name:
        return MeasuredEngine()
    if name not in ENGINES:
        raise StudyError(unknown("engine", name, ENGINES))
    return ENGINES[name]()


def check(engine: Engine, study: Study, kernel: str | None = None, chosen: Iterable[Cell] | None = None) -> list[str]:
    """Raises `StudyError` if a cell asks for what the engine does not have; returns a line for each
    kind of cells that is left out.

    `kernel` stands in for the study's own, `chosen` for the cells that are looked at: all, unless
    the study is large.
    """
    try:
        return _check(engine, study, kernel, list(specimens(study) if chosen is None else chosen))
    except SetupError as error:
        raise located(study, error) from None


def _check(engine: Engine, study: Study, kernel: str | None, chosen: list[Cell]) -> list[str]:
    left_out: dict[tuple[str, str], int] = {}
    here = []
    for cell in chosen:
        reason = engine.left_out(cell, kernel)
        if reason is None:
            engine.check(cell, kernel)
            here.append(cell)
            continue
        kind = (engine.platform(cell, kernel), reason)
        left_out[kind] = left_out.get(kind, 0) + 1
    lines = [f"left out on {on}: {n} {'cell' if n == 1 else 'cells'} with {reason}" for (on, reason), n in left_out.items()]
    if chosen and sum(left_out.values()) == len(chosen):
        raise StudyError(f"nothing of {study.name} can run here: {'; '.join(lines)}")
    if study.varies_kernel:
        _check_kernels(engine, study, here)
    if study.baselines is not None:
        engine.check_baseline(study.baselines.cc)
    return lines


def _check_kernels(engine: Engine, study: Study, chosen: list[Cell]) -> None:
    """Cells that differ in their kernel alone would be equal rows on an engine that does not take
    its kernel from the study.
    """
    if _takes_kernels(engine):
        return
    seen: dict[tuple[str, str], Cell] = {}
    for cell in chosen:
        kernel = _simulated(engine, cell.setup.kernel)
        setup = cell.setup.with_checked(kernel=kernel)
        other = seen.setdefault((cell.experiment, repr(setup)), cell)
        if other is not cell:
            # The one to choose is the one whose kernel is there.
            kept, same = (other, cell) if other.setup.kernel == kernel else (cell, other)
            names = ", ".join(f"{name}={value}" for name, value in kept.varied.items() if same.varied.get(name) != value)
            runs = f"runs this machine's kernel ({engine.only_kernel}) alone" if engine.only_kernel else "runs no kernel"
            if kernel:
                runs = f"has no kernel {same.setup.kernel}"
            sentence = f"the engine {engine.name} {runs}, so this cell is the same run as {names}: choose one with --only {names}"
            raise same.error(("kernel",), f"{sentence}, or take --engine linux")


def _simulated(engine: Engine, kernel: str) -> str:
    """The kernel that the hosts of a model are modelled on; "" on an engine that models none."""
    modelled = engine.modelled_kernels()
    return nearest(kernel).name if modelled else ""


# Queues that a sentence names.
_NAMED = 4


def notes(engine: Engine, study: Study) -> list[str]:
    """What is no mistake and yet not what somebody may think."""
    sentences = []
    named = "kernel" in study.model_fields_set or any(experiment.kernel is not None for experiment in study.all_experiments.values())
    if named and (modelled := engine.modelled_kernels()):
        if foreign := sorted({cell.setup.kernel for cell in specimens(study)} - {*modelled}):
            have = ", ".join(modelled)
            there = ", ".join(dict.fromkeys(nearest(kernel).name for kernel in foreign))
            sentences.append(f"{engine.name} has no kernel {', '.join(foreign)} (it has {have}); its hosts are those of {there} there")
    elif named and not _takes_kernels(engine):
        runs = f"runs this machine's, {engine.only_kernel}" if engine.only_kernel else "runs none"
        sentences.append(f"`kernel` is for the engine linux; {engine.name} {runs}")
    counted = list(dict.fromkeys(words for cell in specimens(study) for words in engine.otherwise(cell)))
    if counted:
        more = f" and {len(counted) - _NAMED} more" * (len(counted) > _NAMED)
        sentences.append(f"on {engine.name} a queue counts packets, not bytes: {', '.join(counted[:_NAMED])}{more}")
    if not engine.real_time and (same := same_for_all_seeds(study)):
        sentences.append(same)
    return sentences


def _takes_kernels(engine: Engine) -> bool:
    """Whether a study decides which kernel runs it."""
    return engine.only_kernel is None and not isinstance(engine.versions(), str)
