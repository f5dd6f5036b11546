"""Results: the store of finished runs, the runner that fills it, and the tables made from it."""

from ._results import TABLES, Results
from ._runner import DEFAULT_OUT, Plan, assemble, execute, plan, run
from ._store import Store
from ._tables import columns

__all__ = ["DEFAULT_OUT", "TABLES", "Plan", "Results", "Store", "assemble", "columns", "execute", "plan", "run"]
