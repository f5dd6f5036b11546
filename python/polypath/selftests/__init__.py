"""The kernel's own network tests (tools/testing/selftests/net) in virtual time: a machine for each
test and seed, so that a test that fails now and then is a seed with which it always fails.
"""

from ._errors import SelftestError
from ._events import Events, events
from ._hunt import PARTS, Found, Nothing, hunt
from ._observed import Observation, counters, observation_of, readable
from ._run import FORMAT, PATIENCE_S, USE, Job, Record, Runner, jobs, missing_of, record, run_job, seeds_of, tools_hash
from ._statistics import wilson
from ._suite import Suite, Test, find, tests_of
from ._table import HEADS, Row, as_csv, as_junit, as_tap, outcomes, rows, seeds_text
from ._tap import EXIT, VERDICTS, Subtest, Verdict, parse
from ._watch import DYNDBG, EVENTS, IDLE, Watch, during, window_of

__all__ = [
    "DYNDBG",
    "EVENTS",
    "EXIT",
    "FORMAT",
    "HEADS",
    "IDLE",
    "PARTS",
    "PATIENCE_S",
    "USE",
    "VERDICTS",
    "Events",
    "Found",
    "Job",
    "Nothing",
    "Observation",
    "Record",
    "Row",
    "Runner",
    "SelftestError",
    "Subtest",
    "Suite",
    "Test",
    "Verdict",
    "Watch",
    "as_csv",
    "as_junit",
    "as_tap",
    "counters",
    "during",
    "events",
    "find",
    "hunt",
    "jobs",
    "missing_of",
    "observation_of",
    "outcomes",
    "parse",
    "readable",
    "record",
    "rows",
    "run_job",
    "seeds_of",
    "seeds_text",
    "tests_of",
    "tools_hash",
    "wilson",
    "window_of",
]
