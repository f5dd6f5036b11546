"""The kernel's own network tests (tools/testing/selftests/net) in virtual time: a machine for each test and seed, so that a test that fails
now and then is a seed with which it always fails.
"""

from ._errors import SelftestError
from ._replay import counters, readable
from ._run import FORMAT, PATIENCE_S, USE, Job, Record, Runner, jobs, missing_of, run_job, seeds_of, tools_hash
from ._statistics import wilson
from ._suite import Suite, Test, find, tests_of
from ._table import HEADS, Row, as_csv, as_junit, as_tap, rows, seeds_text, told
from ._tap import EXIT, VERDICTS, Subtest, Verdict, parse

__all__ = [
    "EXIT",
    "FORMAT",
    "HEADS",
    "PATIENCE_S",
    "USE",
    "VERDICTS",
    "Job",
    "Record",
    "Row",
    "Runner",
    "SelftestError",
    "Subtest",
    "Suite",
    "Test",
    "Verdict",
    "as_csv",
    "as_junit",
    "as_tap",
    "counters",
    "find",
    "jobs",
    "missing_of",
    "parse",
    "readable",
    "rows",
    "run_job",
    "seeds_of",
    "seeds_text",
    "tests_of",
    "told",
    "tools_hash",
    "wilson",
]
