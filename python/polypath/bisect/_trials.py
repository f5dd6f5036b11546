"""What a run of one seed says of a kernel: selftests that fail, or a claim of a study that does not
hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from polypath import linux, selftests
from polypath.analysis import Verdict
from polypath.engines import EngineError, find
from polypath.report import claim_results, material
from polypath.results import execute, plan
from polypath.study import Study

from ._errors import BisectError
from ._judge import Trial

_USAGE = 'what is asked of each commit comes behind --: "selftests TEST... [--subtest NAME]", or "run STUDY --check CLAIM"'
Make = Callable[[linux.Kernel], Trial]


def trial_of(command: Sequence[str], folder: Path, tests: Callable[[], Path], say: Callable[[str], None]) -> tuple[str, Make]:
    """The variant of the kernels that a command needs, and what makes a trial of one. `tests` gives
    the sources' folder of selftests.

    Raises `BisectError` if it is none, before anything runs. A run without a result, as of a
    machine that dies or hangs, has failed.
    """
    match list(command):
        case ["selftests", *rest]:
            names, subtest = _option_of(rest, "--subtest")
            return "selftests", _selftests(selftests.find(tests(), names or ["mptcp"], say), subtest, folder)
        case ["run", *rest]:
            names, claim = _option_of(rest, "--check")
            if len(names) != 1 or claim is None:
                raise BisectError(_USAGE)
            return "", _claim(Study.load(Path(names[0])), claim, folder)
    raise BisectError(_USAGE)


def _option_of(words: Sequence[str], name: str) -> tuple[list[str], str | None]:
    try:
        return selftests.option_of(words, name)
    except selftests.SelftestError as error:
        raise BisectError(f"{error}: {_USAGE}") from None


def _selftests(tests: Sequence[selftests.Test], subtest: str | None, folder: Path) -> Make:
    def make(kernel: linux.Kernel) -> Trial:
        runner = selftests.Runner(kernel, folder / "runs")

        def failed(seed: int) -> bool:
            for test in tests:
                job = selftests.Job(test, seed)
                try:
                    record = runner.kept(job) or runner.run(job)
                except EngineError:
                    return True
                if _fails(record, subtest):
                    return True
            return False

        return failed

    return make


def _fails(record: selftests.Record, subtest: str | None) -> bool:
    outcomes = selftests.outcomes(record)
    if subtest is None:
        return any(outcome.verdict == "fail" for outcome in outcomes)
    # Who names a subtest wants to know even where the test itself ignores it; one that is not
    # reached has not passed.
    of_subtest = [outcome for outcome in outcomes if outcome.name == subtest]
    return not of_subtest or any(outcome.verdict in ("fail", "ignored") for outcome in of_subtest)


def _claim(study: Study, claim: str, folder: Path) -> Make:
    chosen = [candidate for candidate in study.claims if candidate.id == claim]
    if not chosen:
        have = ", ".join(candidate.id for candidate in study.claims) or "none"
        raise BisectError(f'the study {study.name} has no claim "{claim}" to check; it has {have}')

    def make(kernel: linux.Kernel) -> Trial:
        def failed(seed: int) -> bool:
            one = study.everywhere(seeds=[seed]).replace(claims=tuple(chosen), conclusion=None)
            # A folder of its own: a verdict is on all runs of a folder.
            out = folder / "runs" / kernel.key[:16] / str(seed)
            try:
                results = execute(plan(one, engine=find("linux"), out=out, kernel=kernel.name), workers=1)
            except EngineError:
                return True
            (result,) = claim_results(material(results))
            if result.verdict is Verdict.NOT_MEASURED:
                raise BisectError(f"the claim {claim} cannot be decided by one seed: {result.why}")
            return result.verdict is Verdict.FAILS

        return failed

    return make
