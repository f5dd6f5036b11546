from ._against import check_against, chosen
from ._assemble import assemble
from ._checked import check_claims
from ._computed import ledgers, note
from ._cost import Cost, cost
from ._folder import DEFAULT_OUT
from ._manifest import changed_files, check_owner, claim_folder
from ._plan import Plan, plan
from ._progress import Progress, progress_of
from ._results import TABLES, Results
from ._runner import execute, run
from ._store import Store, replace_file
from ._tables import columns
from ._verify import Checked, verify

__all__ = [
    "DEFAULT_OUT",
    "TABLES",
    "Checked",
    "Cost",
    "Plan",
    "Progress",
    "Results",
    "Store",
    "assemble",
    "changed_files",
    "check_against",
    "check_claims",
    "check_owner",
    "chosen",
    "claim_folder",
    "columns",
    "cost",
    "execute",
    "ledgers",
    "note",
    "plan",
    "progress_of",
    "replace_file",
    "run",
    "verify",
]
