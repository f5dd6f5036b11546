"""The benchmark: one algorithm in a fixed set of networks, and its score among others.

    from polypath.benchmark import run, subject

    record = run(subject(["cc", "cubic"])[0], draws=200, folder="benchmark")

docs/concepts/benchmark.md defines the set and the score. `_set` has the networks, `_measure` runs
them, `_score` is arithmetic, `_record` the JSON, `_rank` and `_page` what is told.
"""

from ._errors import BenchmarkError
from ._page import as_plain, page, table
from ._rank import Rank, Ranking, Worst, ranking, worst
from ._record import Linux, Record, as_json, built_in, read, read_folder, scores
from ._run import Subject, check_linux, run, subject
from ._score import Ratio, Score, figure, overall, ratio, score
from ._set import FAMILIES, KINDS, QUICK, WHOLE, WORDS, Family, draws_of, families, half, set_hash, tenth, write_study

__all__ = [
    "FAMILIES",
    "KINDS",
    "QUICK",
    "WHOLE",
    "WORDS",
    "BenchmarkError",
    "Family",
    "Linux",
    "Rank",
    "Ranking",
    "Ratio",
    "Record",
    "Score",
    "Subject",
    "Worst",
    "as_json",
    "as_plain",
    "built_in",
    "check_linux",
    "draws_of",
    "families",
    "figure",
    "half",
    "overall",
    "page",
    "ranking",
    "ratio",
    "read",
    "read_folder",
    "run",
    "score",
    "scores",
    "set_hash",
    "subject",
    "table",
    "tenth",
    "worst",
    "write_study",
]
