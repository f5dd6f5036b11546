"""Results: the store of finished runs, the runner that fills it, and the tables made from it."""

from ._results import TABLES, Results
from ._runner import DEFAULT_OUT, Plan, assemble, execute, plan, run
from ._store import Store

__all__ = ["DEFAULT_OUT", "TABLES", "Plan", "Results", "Store", "assemble", "execute", "plan", "run"]
