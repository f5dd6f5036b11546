"""From the question to the answer: search, comparison in other networks, what it costs others, a kernel's word, commands."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path as File
from typing import Any

from polypath.engines import find
from polypath.results import Results, execute, plan
from polypath.study import Study

from ._budget import Budget, budget
from ._commands import commands, script
from ._confirm import Confirmation, confirm
from ._errors import AdviceError
from ._final import RESULTS, final_study, run_final
from ._paths import Path, checked
from ._ranking import Place, Ranking, ranking
from ._search import NEIGHBOURS, Schedule, compared_in, schedule, search
from ._settings import NEEDS, Setting, candidates, linux_default
from ._study import Question, check_names
from ._trials import Trials
from ._untried import untried
from ._uses import use, weighted

STUDY_FILE, ANSWER_FILE = "study.yaml", "answer.json"


@dataclass(frozen=True, kw_only=True)
class Advice:
    """The answer, and what it rests on."""

    question: Question
    ranking: Ranking
    yardstick: Sequence[float]
    """Harm that one plain TCP connection, cubic, does on each path."""
    confirmation: Confirmation
    untried: Sequence[str]
    settings: int
    runs: int
    networks: int
    notes: Sequence[str]
    folder: File
    results: Results


def advise(
    paths: Sequence[Path],
    uses: str = "download",
    *,
    folder: str | File,
    budget_text: str = "2min",
    notes: Sequence[str] = (),
    on_linux: bool = True,
    workers: int | None = None,
    stage: Callable[[str, int], None] = lambda what, runs: None,
    progress: Callable[[int], None] = lambda runs: None,
) -> Advice:
    """Which settings suit these paths and uses. Writes study, answer and commands into `folder`.

    The same arguments give the same answer on any machine, with any number of `workers`. `stage` hears what begins and how many runs it
    has at the most, `progress` how many have ended.

    Raises `AdviceError` with one sentence.
    """
    question = Question(paths=checked(tuple(paths)), weights=weighted(uses))
    check_names(question.paths)
    if set(question.weights) == {"call"}:
        raise AdviceError('a call by itself asks for no setting: say what goes on beside it, like --for "call=2,download"')
    allowed = budget(budget_text, question)
    settings, planned = _affordable(question, allowed)
    if len(settings) < (every := len(candidates(question.paths))):
        notes = [*notes, f"a budget of {budget_text} allows {len(settings)} of {every} settings: give more, and all are tried"]
    # Before minutes are spent on what cannot be kept.
    (File(folder) / RESULTS).mkdir(parents=True, exist_ok=True)
    trials = Trials(question, workers=workers, progress=progress)
    stage(f"searching among {len(settings)} settings", planned.searching)
    finalists = search(trials, settings, planned)

    networks = compared_in(trials, finalists, planned, allowed.runs - trials.runs)
    neighbours = min(NEIGHBOURS, len(networks))
    words = {"title": _title(question), "question": _asked(question)}
    made = final_study(question, finalists, networks, neighbours, words)
    stage(f"comparing {len(finalists)} of them in other networks", len(plan(made, out=File(folder) / RESULTS).pending))
    final = run_final(question, finalists, networks, made, File(folder), workers=workers, progress=lambda run: progress(1))
    ranked = ranking(finalists, linux_default(question.paths), final.figures, question.weights, final.harm)

    made = made.replace(conclusion=_conclusion(question, ranked, len(networks)))
    confirmation = Confirmation(settings=(), sentence="not confirmed on Linux: nobody asked for it")
    if on_linux:
        stage("confirming on Linux", 0)
        order = [place.setting for place in ranked.places]
        confirmation = confirm(question, order, networks, File(folder), workers=workers)
    advice = Advice(
        question=question,
        ranking=ranked,
        yardstick=final.yardstick,
        confirmation=confirmation,
        untried=untried(question, settings, [each.name for each in find("sim").algorithms()], find("sim").schedulers()),
        settings=len(settings),
        runs=trials.runs + final.runs,
        networks=len(networks),
        notes=tuple(notes),
        folder=File(folder),
        # Once more for its conclusion; all runs are there.
        results=execute(plan(made, out=File(folder) / RESULTS), workers=workers),
    )
    _write(advice, made)
    return advice


def as_json(advice: Advice) -> dict[str, Any]:
    """The answer as plain values; the names are those of the table."""
    found = advice.ranking
    return {
        "paths": {path.name: path.told() for path in advice.question.paths},
        "for": dict(advice.question.weights),
        "advice": found.advice.setting.name,
        "advice_stock": found.stock.setting.name,
        "linux_default": found.default.setting.name,
        "ranking": [_place(advice.question, place) for place in found.places],
        "harm_of_one_tcp": dict(zip((path.name for path in advice.question.paths), advice.yardstick, strict=True)),
        "commands": {
            name: [asdict(each) for each in commands(advice.question, place.setting)]
            for name, place in (("advice", found.advice), ("stock", found.stock))
        },
        "confirmed": {
            "sentence": advice.confirmation.sentence,
            "settings": [
                {
                    "setting": each.setting.name,
                    "simulated": dict(each.simulated),
                    "measured": dict(each.measured),
                    "of_first": asdict(each.of_first),
                }
                for each in advice.confirmation.settings
            ],
        },
        "not_tried": list(advice.untried),
        "notes": list(advice.notes),
        "settings": advice.settings,
        "runs": advice.runs,
        "networks": advice.networks,
    }


def _affordable(question: Question, allowed: Budget) -> tuple[list[Setting], Schedule]:
    """The settings that the budget allows to try, and how."""
    settings = candidates(question.paths)
    try:
        return settings, schedule(allowed, len(settings), question)
    except AdviceError:
        settings = candidates(question.paths, few=True)
        return settings, schedule(allowed, len(settings), question)


def _place(question: Question, place: Place) -> dict[str, Any]:
    setting = place.setting
    return {
        "setting": setting.name,
        "paths": setting.paths,
        "cc": setting.cc,
        "scheduler": setting.scheduler,
        "queue": setting.queue,
        "buffers": setting.buffer,
        "needs": setting.needs,
        "figures": {name: {"value": value, "figure": use(name).figure, "unit": use(name).unit} for name, value in place.figures.items()},
        "of_best": asdict(place.of_best),
        "of_default": asdict(place.of_default),
        "ties_with_best": place.ties,
        "harm": dict(zip((path.name for path in question.paths), place.harm.by_path, strict=True)),
    }


def _write(advice: Advice, made: Study) -> None:
    (advice.folder / STUDY_FILE).write_text(made.to_yaml(), encoding="utf-8")
    (advice.folder / ANSWER_FILE).write_text(json.dumps(as_json(advice), indent=1) + "\n", encoding="utf-8")
    for where in ("host", "server"):
        text = script(advice.question, advice.ranking.advice.setting, where)
        file = advice.folder / f"{where}.sh"
        if text:
            file.write_text(text, encoding="utf-8")
        else:
            # One of an earlier answer.
            file.unlink(missing_ok=True)


def _title(question: Question) -> str:
    return f"Settings for {', '.join(path.name for path in question.paths)}"


def _asked(question: Question) -> str:
    wanted = ", ".join(f"{name} ({100 * weight:.0f} %)" for name, weight in question.weights.items())
    return f"Which congestion control, scheduler, queue and buffers are best for {wanted}?"


_COLUMNS = {
    "download": ("goodput_receiver_mbps", "download"),
    "upload": ("goodput_receiver_mbps", "upload"),
    "call": ("delay_p95_ms", "call-down"),
    "stream": ("byte_delay_p95_ms", "stream"),
    "web": ("response_p50_ms", "web"),
}


def _conclusion(question: Question, ranked: Ranking, networks: int) -> str:
    """What the report begins with; its figures are those of the results, whenever they are made again."""
    lines = [f"**{ranked.advice.setting.name}** is the advice, among settings compared in {networks} networks.", ""]
    for setting in dict.fromkeys(place.setting for place in (ranked.advice, ranked.stock, ranked.default)):
        told = []
        for name in question.weights:
            column, flow = _COLUMNS[name]
            value = f"{{{{ {column} where setting={setting.name}, flow={flow}, experiment=settings }}}}"
            told.append(f"{name} {value} {use(name).unit} ({use(name).figure})")
        who = "Linux by itself" if setting == ranked.default.setting else NEEDS[setting.needs]
        lines.append(f"- {setting.name} ({who}): {', '.join(told)}.")
    return "\n".join(lines)
