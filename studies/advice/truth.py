"""The advice for pairs of links drawn from a prior, beside an exhaustive search of the same
settings.

    python studies/advice/truth.py                  all pairs: a table, and whether each claim holds
    python studies/advice/truth.py --pair 8 --budget 2min
                                                    one pair, or several, with another budget
    python studies/advice/truth.py --fresh          twenty other pairs, 21 to 40, which nobody looked at while the search was made

The advisor searches within 900 runs by default. The truth is every setting in twelve networks that
the advisor saw neither in its search nor in its comparison, and those that are close to the best in
36 more. Nothing of it is drawn from a clock or a generator: the same table comes out on every
machine.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import sys
import tempfile
from dataclasses import dataclass

from polypath.advise import Advice, Path, Question, Ratio, Setting, Span, Trials, advise, candidates, linux_default, ratio, weighted

PAIRS, FRESH = range(1, 21), range(21, 41)
BUDGET = "900runs"
# Far beyond those of any search. All settings run in the first; in the rest only those that the
# first do not tell from the best, and the advice.
NETWORKS, MORE = range(1001, 1013), range(1013, 1049)
USES = ("download", "download,call", "download,call,web", "web", "upload,call")
# The claims: of what the advice may be (any kernel with MPTCP, and what polypath cc loads) it is no
# more than this below the best; and it is better than Linux's defaults (the 95 % interval lies
# above them) wherever the best is.
TOLERANCE = 0.03


def uniform(pair: int, what: str) -> float:
    digest = hashlib.sha256(f"pair {pair} {what}".encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


def between(pair: int, what: str, low: float, high: float) -> float:
    """Uniform in the logarithm."""
    return math.exp(math.log(low) + math.log(high / low) * uniform(pair, what))


def link(pair: int, number: int) -> Path:
    """Access lines as people have them: rates known to a fifth, round-trip times to a tenth, queues
    to their order of magnitude.
    """

    def own(what: str) -> str:
        return f"{number} {what}"

    down = between(pair, own("down"), 4e6, 60e6)
    up = down * between(pair, own("up"), 0.1, 1)
    rtt = between(pair, own("rtt"), 10e6, 120e6)
    jitter = 0.2 * rtt * uniform(pair, own("jitter")) if uniform(pair, own("jitters")) < 0.5 else 0.0
    loss = between(pair, own("loss"), 1e-4, 1e-2) if uniform(pair, own("loses")) < 0.5 else 0.0
    return Path(
        name=f"path{number}",
        down=Span(low=0.8 * down, high=1.2 * down),
        up=Span(low=0.8 * up, high=1.2 * up),
        rtt=Span(low=0.9 * rtt, high=1.1 * rtt),
        jitter=Span(low=jitter, high=jitter),
        loss=Span(low=loss, high=loss),
    )


@dataclass(frozen=True, kw_only=True)
class Judged:
    """The advice for one pair, and what there was to have."""

    uses: str
    paths: tuple[Path, ...]
    found: Advice
    best: Setting
    """Of all settings but those that need another kernel."""
    of_best: Ratio
    best_of_default: Ratio
    of_default: Ratio

    @property
    def near(self) -> bool:
        return self.of_best.mean >= 1 - TOLERANCE

    @property
    def can_be_beaten(self) -> bool:
        return self.best_of_default.low > 1

    @property
    def beats(self) -> bool:
        return self.of_default.low > 1


def judged(pair: int, budget: str = BUDGET) -> Judged:
    """The pair of this number, from 0 on."""
    uses = USES[pair % len(USES)]
    paths = (link(pair, 1), link(pair, 2))
    with tempfile.TemporaryDirectory() as folder:
        found = advise(paths, uses, folder=folder, budget_text=budget, on_linux=False)
    question = Question(paths=paths, weights=weighted(uses))
    settings = [each for each in candidates(paths) if each.needs in ("stock", "ours")]
    trials = Trials(question)
    trials.run(settings, NETWORKS)
    few = {each: trials.scores(each, NETWORKS) for each in settings}
    first = max(settings, key=lambda each: sum(few[each]))
    advised, linux = found.ranking.advice.setting, linux_default(paths)
    close = [each for each in settings if each in (advised, linux) or ratio(few[each], few[first]).high >= 1]
    every = range(NETWORKS.start, MORE.stop)
    trials.run(close, every)
    scores = {each: trials.scores(each, every) for each in close}
    best = max(close, key=lambda each: sum(scores[each]))
    advice, default = scores[advised], scores[linux]
    return Judged(
        uses=uses,
        paths=paths,
        found=found,
        best=best,
        of_best=ratio(advice, scores[best]),
        best_of_default=ratio(scores[best], default),
        of_default=ratio(advice, default),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pair", type=int, action="append", choices=range(1, FRESH.stop), metavar="1..40")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--budget", default=BUDGET)
    asked = parser.parse_args()
    numbers = asked.pair or (FRESH if asked.fresh else PAIRS)
    print("| pair | links: down/up Mbit/s, ms, loss % | for | advice | of the best | the best | over Linux by itself | the best over it |")
    print("| ---: | --- | --- | --- | ---: | --- | ---: | ---: |", flush=True)
    rows = []
    for number in numbers:
        rows.append(row := judged(number - 1, asked.budget))
        links = "; ".join(
            f"{path.down.middle / 1e6:.0f}/{path.up.middle / 1e6:.0f}, {path.rtt.middle / 1e6:.0f}, {100 * path.loss.middle:.2f}"
            for path in row.paths
        )
        advice = row.found.ranking.advice.setting.name
        figures = f"{row.of_best.mean:.3f} | `{row.best.name}` | {row.of_default.mean:.2f} | {row.best_of_default.mean:.2f}"
        print(f"| {number} | {links} | {row.uses} | `{advice}` | {figures} |", flush=True)
    beatable = [row for row in rows if row.can_be_beaten]
    near, beats = sum(row.near for row in rows), sum(row.beats for row in beatable)
    print()
    verdict = "holds" if near == len(rows) else "does not hold"
    print(f"- Within {100 * TOLERANCE:.0f} % of the best: {near} of {len(rows)} pairs; the claim {verdict}.")
    verdict = "holds" if beats == len(beatable) else "does not hold"
    print(f"- Better than Linux by itself where that can be beaten: {beats} of {len(beatable)} pairs; the claim {verdict}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
