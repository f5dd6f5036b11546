"""The kernel's own network tests (tools/testing/selftests/net) in virtual time: a machine for each
test and seed, so that a test that fails now and then is a seed with which it always fails.
"""

from ._errors import SelftestError
from ._events import Events, events
from ._hunt import Found, Nothing, hunt
from ._observed import START_NS, Observation, observation_of, readable
from ._packetdrill import (
    FAMILIES,
    Played,
    Script,
    check_player,
    families_of,
    fault_of,
    play_on_endpoint,
    player_of,
    script_rows,
    scripts_of,
)
from ._pairs import FAILED, Pair, pairs
from ._run import USE, Job, Record, Runner, jobs, missing_of, option_of, record, run_job, seeds_of
from ._suite import Suite, Test, find, names
from ._table import HEADS, Row, as_csv, as_junit, as_tap, outcomes, rows, seeds_text, worst
from ._tap import EXIT, VERDICTS, Subtest, Verdict, parse
from ._watch import DYNDBG, EVENTS, IDLE, Watch, during, subtest_at, window_of

__all__ = [
    "DYNDBG",
    "EVENTS",
    "EXIT",
    "FAILED",
    "FAMILIES",
    "HEADS",
    "IDLE",
    "START_NS",
    "USE",
    "VERDICTS",
    "Events",
    "Found",
    "Job",
    "Nothing",
    "Observation",
    "Pair",
    "Played",
    "Record",
    "Row",
    "Runner",
    "Script",
    "SelftestError",
    "Subtest",
    "Suite",
    "Test",
    "Verdict",
    "Watch",
    "as_csv",
    "as_junit",
    "as_tap",
    "check_player",
    "during",
    "events",
    "families_of",
    "fault_of",
    "find",
    "hunt",
    "jobs",
    "missing_of",
    "names",
    "observation_of",
    "option_of",
    "outcomes",
    "pairs",
    "parse",
    "play_on_endpoint",
    "player_of",
    "readable",
    "record",
    "rows",
    "run_job",
    "script_rows",
    "scripts_of",
    "seeds_of",
    "seeds_text",
    "subtest_at",
    "window_of",
    "worst",
]
