"""From the question to the answer: search, comparison in other networks, what it costs others, a
kernel's word, commands.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path as File
from typing import Any

from polypath.engines import find
from polypath.results import Results, execute, plan, replace_file
from polypath.study import Study

from ._answer import Left, answer, left
from ._budget import Budget, budget
from ._commands import commands, script
from ._conclusion import ASKED, Summary, command, conclusion, highlights
from ._confirm import Confirmation, confirm
from ._errors import AdviceError
from ._final import RESULTS, final_study, run_final
from ._omissions import omissions
from ._paths import Path, checked
from ._ranking import Rank, Ranking, ranking
from ._score import Figures
from ._search import COMPARED, NEIGHBOURS, Schedule, compared_in, schedule, search
from ._settings import Setting, candidates, linux_default
from ._shared import contenders, shared
from ._study import BESIDE, Question, check_names
from ._trials import Trials
from ._uses import is_lost, lost, use, weighted

STUDY_FILE, ANSWER_FILE = "study.yaml", "answer.json"


@dataclass(frozen=True, kw_only=True)
class Advice:
    """The answer, and what it rests on."""

    question: Question
    answer: Sequence[str]
    """In sentences."""
    ranking: Ranking
    shared: Left | None
    """What to take where others use the paths, too; nothing where it is the advice."""
    left: Sequence[Left]
    """Of congestion controls that were not compared."""
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

    @property
    def advised(self) -> dict[str, Setting]:
        """What commands are told for: the advice, what to take beside others, and with a stock kernel."""
        beside = {} if self.shared is None else {"shared": self.shared.setting}
        return {"advice": self.ranking.advice.setting, **beside, "stock": self.ranking.stock.setting}


def advise(
    paths: Sequence[Path],
    uses: str = "download",
    *,
    folder: str | File,
    budget_text: str | None = None,
    notes: Sequence[str] = (),
    on_linux: bool = True,
    workers: int | None = None,
    clock: Callable[[], float] = time.monotonic,
    stage: Callable[[str, int], None] = lambda title, runs: None,
    progress: Callable[[int], None] = lambda runs: None,
) -> Advice:
    """Which settings suit these paths and uses. Writes study, answer and commands into `folder`.

    `budget_text` is a number of runs ("500runs"), with which the same arguments give the same answer
    on any machine, or a time ("2min"), which this machine's speed makes a number of runs. `stage`
    hears what begins and how many runs it has at the most, `progress` how many have ended.

    Raises `AdviceError` with one sentence.
    """
    question = Question(paths=checked(tuple(paths)), weights=weighted(uses))
    check_names(question.paths)
    _check_calls(question)
    begin = clock()
    trials = Trials(question, workers=workers, progress=progress, clock=clock)
    every = candidates(question.paths)
    few = candidates(question.paths, few=True)
    allowed = budget(budget_text, lambda: trials.runs_per_s(few))
    settings, planned = _affordable(allowed, every, few, len(question.paths))
    if len(settings) < len(every):
        notes = [*notes, f"a budget of {allowed.written} allows {len(settings)} of {len(every)} settings: give more, and all are tried"]
    # Before minutes are spent on what cannot be kept.
    (File(folder) / RESULTS).mkdir(parents=True, exist_ok=True)
    if allowed.seconds is not None:
        trials.ends = begin + allowed.seconds / 2
    stage(f"searching among {len(settings)} settings", planned.searching)
    finalists, searched = search(trials, settings, planned)
    left_over = allowed.left(trials.runs, clock() - begin)
    least = planned.final if left_over == allowed.runs - trials.runs else COMPARED[0]
    if len(searched) < planned.searched:
        notes = [*notes, f"half of the budget's time was over after {trials.runs} runs of a search of {planned.searching}"]
        least, left_over = COMPARED[0], 0
    # What the comparison takes at the least, neighbours included.
    fixed = len(finalists) * (least + NEIGHBOURS) + (len(question.paths) + 1) * NEIGHBOURS
    more = contenders(settings, finalists, trials, left_over - fixed)
    networks = compared_in(trials, finalists, searched, least, left_over - len(more) * NEIGHBOURS)
    neighbours = min(NEIGHBOURS, len(networks))
    words = {"title": _title(question), "question": _question_text(question)}
    compared_study = final_study(question, finalists, networks, neighbours, words, more)
    stage(f"comparing {len(finalists)} of them in other networks", len(plan(compared_study, out=File(folder) / RESULTS).pending))
    final = run_final(
        question, finalists, networks, compared_study, File(folder), more=more, workers=workers, progress=lambda run: progress(1)
    )
    ranked = ranking(finalists, linux_default(question.paths), final.figures, question.weights, final.harm, final.beside)

    others = left(settings, finalists, ranked.advice.setting, trials)
    shared_by = shared(ranked, final.figures, others, final.beside, question.weights)
    summary = Summary(
        question=question,
        ranked=ranked,
        shared=shared_by,
        beside=final.beside,
        left=others,
        uses=uses,
        budget=f"{allowed.runs}runs",
        networks=len(networks),
    )
    compared_study = compared_study.replace(conclusion=conclusion(summary), highlights=highlights(summary))
    (File(folder) / STUDY_FILE).write_text(f"{ASKED}{command(summary)}\n{compared_study.to_yaml()}", encoding="utf-8")
    confirmation = Confirmation(settings=(), sentence="not confirmed on Linux: nobody asked for it")
    if on_linux and allowed.seconds is not None and clock() - begin > allowed.seconds:
        confirmation = Confirmation(settings=(), sentence="not confirmed on Linux: the time of the budget was over")
    elif on_linux:
        stage("confirming on Linux", 0)
        order = [rank.setting for rank in ranked.ranks]
        confirmation = confirm(question, order, networks, File(folder), workers=workers)
    advice = Advice(
        question=question,
        answer=answer(
            question,
            ranked,
            final.beside,
            len(networks),
            partial(_plain, ranked, final.beside),
            shared_by,
        ),
        ranking=ranked,
        shared=shared_by,
        left=others,
        yardstick=final.yardstick,
        confirmation=confirmation,
        untried=omissions(question, settings, [algorithm.name for algorithm in find("sim").algorithms()], find("sim").schedulers()),
        settings=len(settings),
        runs=trials.runs + final.runs,
        networks=len(networks),
        notes=tuple(notes),
        folder=File(folder),
        # Once more for its conclusion, as everybody who has the file runs it; all runs are there.
        results=execute(plan(Study.load(folder), out=File(folder) / RESULTS), workers=workers),
    )
    _write(advice)
    return advice


def as_json(advice: Advice) -> dict[str, Any]:
    """The answer as plain values; the names are those of the table."""
    ranked = advice.ranking
    return {
        "paths": {path.name: path.text() for path in advice.question.paths},
        "for": dict(advice.question.weights),
        "answer": list(advice.answer),
        "advice": ranked.advice.setting.name,
        "advice_shared": None if advice.shared is None else advice.shared.setting.name,
        "advice_stock": ranked.stock.setting.name,
        "linux_default": ranked.default.setting.name,
        "ranking": [_rank(advice.question, rank) for rank in ranked.ranks],
        "left_the_search": [
            {"setting": setting_left.setting.name, "of_advice": asdict(setting_left.of_advice), "networks": setting_left.networks}
            for setting_left in advice.left
        ],
        "harm_of_one_tcp": dict(zip((path.name for path in advice.question.paths), advice.yardstick, strict=True)),
        "commands": {name: [asdict(command) for command in commands(advice.question, setting)] for name, setting in advice.advised.items()},
        "confirmed": {
            "sentence": advice.confirmation.sentence,
            "settings": [
                {
                    "setting": confirmed.setting.name,
                    "simulated": dict(confirmed.simulated),
                    "measured": dict(confirmed.measured),
                    "of_first": asdict(confirmed.of_first),
                }
                for confirmed in advice.confirmation.settings
            ],
        },
        "not_tried": list(advice.untried),
        "notes": list(advice.notes),
        "settings": advice.settings,
        "runs": advice.runs,
        "networks": advice.networks,
    }


def _affordable(allowed: Budget, every: list[Setting], few: list[Setting], paths: int) -> tuple[list[Setting], Schedule]:
    """The settings that the budget allows to try, and how."""
    try:
        return every, schedule(allowed, len(every), paths)
    except AdviceError:
        return few, schedule(allowed, len(few), paths)


def _rank(question: Question, rank: Rank) -> dict[str, Any]:
    setting = rank.setting
    return {
        "setting": setting.name,
        "paths": setting.paths,
        "cc": setting.cc,
        "scheduler": setting.scheduler,
        "tunnel": setting.tunnel,
        "queue": setting.queue,
        "buffers": setting.buffer,
        "needs": setting.needs,
        "figures": {
            name: {
                "value": rank.figures[name],
                "figure": use(name).figure,
                "unit": use(name).unit,
                **({"lost": rank.figures[lost(name)]} if use(name).datagrams else {}),
            }
            for name in question.weights
        },
        "of_best": asdict(rank.of_best),
        "of_default": asdict(rank.of_default),
        "ties_with_best": rank.ties,
        "harm": dict(zip((path.name for path in question.paths), rank.harm.by_path, strict=True)),
    }


def _write(advice: Advice) -> None:
    replace_file(advice.folder / ANSWER_FILE, (json.dumps(as_json(advice), indent=1) + "\n").encode())
    for where in ("host", "server"):
        text = script(advice.question, advice.ranking.advice.setting, where)
        file = advice.folder / f"{where}.sh"
        if text:
            replace_file(file, text.encode())
        else:
            # One of an earlier answer.
            file.unlink(missing_ok=True)


def _title(question: Question) -> str:
    return f"Settings for {', '.join(path.name for path in question.paths)}"


def _question_text(question: Question) -> str:
    wanted = ", ".join(f"{name} ({100 * weight:.0f} %)" for name, weight in question.weights.items())
    return f"Which congestion control, scheduler, queue and buffers are best for {wanted}?"


def _plain(ranked: Ranking, beside: Mapping[str, Figures], setting: Setting, name: str, experiment: str) -> str:
    figures = beside[setting.name] if experiment == BESIDE else next(rank.figures for rank in ranked.ranks if rank.setting == setting)
    return f"{100 * figures[name]:.1f} %" if is_lost(name) else f"{figures[name]:.1f}"


def _check_calls(question: Question) -> None:
    """Raises `AdviceError` where calls are all there is, or one that the first path cannot carry."""
    if all(name == "call" for name in question.weights):
        raise AdviceError('a call by itself asks for no setting: say what goes on beside it, like --for "call=2,download"')
    first = question.paths[0]
    for name in question.weights:
        least = min(first.usual("up").low, first.usual("down").low)
        if least < use(name).least_bps:
            raise AdviceError(
                f"--for {name}: it takes {use(name).least_bps / 1e6:g} Mbit/s both ways, and {first.name}, the first path, may carry "
                f"{least / 1e6:g} one way; put a faster path first, or take `call`"
            )
