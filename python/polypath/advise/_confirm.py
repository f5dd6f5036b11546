"""The best settings on a real kernel: whether it agrees with the simulator on their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from polypath import linux
from polypath.errors import PolypathError
from polypath.results import Store, execute, plan
from polypath.study import DEFAULT_KERNEL

from ._final import RESULTS, Outcomes, outcomes
from ._score import Figures, Ratio, means, ratio, score
from ._settings import SHOWN, Setting
from ._study import Question, study
from ._uses import figures, use

MOST = 3
NETWORKS = 3
# What a kernel does not tell: when each byte was read.
_UNTOLD = "stream"
_MAIN = "main"


@dataclass(frozen=True, kw_only=True)
class Confirmed:
    """One setting on both engines, in the same networks."""

    setting: Setting
    simulated: Mapping[str, float]
    measured: Mapping[str, float]
    """Means, by use."""
    of_first: Ratio
    """Its score on the kernel over that of the first one."""


@dataclass(frozen=True, kw_only=True)
class Confirmation:
    settings: tuple[Confirmed, ...]
    sentence: str
    """What the kernel says, or why it did not run."""


def confirm(
    question: Question, ranked: Sequence[Setting], networks: Sequence[int], folder: Path, *, workers: int | None = None
) -> Confirmation:
    """Runs the best of what the kernel has on both engines, with those of the uses that the kernel
    can have at once.
    """
    able = [setting for setting in ranked if setting.needs not in SHOWN][:MOST]
    few = networks[:NETWORKS]
    asked = _measurable(question)
    if asked is None:
        return _not(f"a kernel does not tell when each byte was read, which {_UNTOLD} is judged by")
    if DEFAULT_KERNEL not in (kernel.name for kernel in linux.installed()):
        return _not(f"the kernel {DEFAULT_KERNEL} is not here; build it with polypath linux build {DEFAULT_KERNEL}, and ask again")
    confirmation = study(asked, able, few, {"name": "confirmed"})
    outcomes_of: dict[str, Outcomes] = {}
    try:
        for engine in ("sim", "linux"):
            work = plan(confirmation, engine=engine, out=folder / RESULTS)
            execute(work, workers=workers)
            outcomes_of[engine] = outcomes(work.runs, Store(work.folder / "runs"))
    except PolypathError as error:
        return _not(str(error))
    by_engine = {engine: {setting: _figures(asked, outcomes_of[engine], setting, few) for setting in able} for engine in outcomes_of}
    scores = {setting: [score(network_figures, asked.weights) for network_figures in by_engine["linux"][setting]] for setting in able}
    settings = tuple(
        Confirmed(
            setting=setting,
            simulated=means(by_engine["sim"][setting]),
            measured=means(by_engine["linux"][setting]),
            of_first=ratio(scores[setting], scores[able[0]]),
        )
        for setting in able
    )
    left_out = [name for name in question.weights if name not in asked.weights]
    return Confirmation(settings=settings, sentence=_sentence(settings, len(few), left_out))


def _not(why: str) -> Confirmation:
    return Confirmation(settings=(), sentence=f"not confirmed on Linux: {why}")


def _measurable(question: Question) -> Question | None:
    """The question with the uses that a kernel tells of and can have at once; None where there are
    none.

    A kernel has one path manager for all connections, so a host either opens them or waits for
    them.
    """
    weights = {name: weight for name, weight in question.weights.items() if name != _UNTOLD}
    if len(question.paths) > 1:
        openers = {name: str(use(name).flow["client"]) for name in weights if use(name).sender != "both"}
        heaviest = max(openers, key=lambda name: weights[name], default=None)
        weights = {name: weight for name, weight in weights.items() if heaviest is None or openers.get(name) in (None, openers[heaviest])}
    total = sum(weights.values())
    return Question(paths=question.paths, weights={name: weight / total for name, weight in weights.items()}) if weights else None


def _sentence(settings: Sequence[Confirmed], networks: int, left_out: Sequence[str]) -> str:
    first, *others = settings
    without = f", without {' and '.join(left_out)}" if left_out else ""
    where = f"Linux {DEFAULT_KERNEL}, {networks} networks{without}"
    better = [other for other in others if other.of_first.low > 1]
    if better:
        best = max(better, key=lambda other: other.of_first.mean)
        return (
            f"{where}: not confirmed, {best.setting.name} is {100 * (best.of_first.mean - 1):.0f} % better there than {first.setting.name}"
        )
    if not others:
        return f"{where}: {first.setting.name} ran there, too"
    return f"{where}: confirmed, none of the best {len(settings)} is better there than {first.setting.name}"


def _figures(question: Question, runs: Outcomes, setting: Setting, networks: Sequence[int]) -> list[Figures]:
    return [figures(question.weights, runs[_MAIN, setting.name, f"n{network}"], question.seconds[1]) for network in networks]
