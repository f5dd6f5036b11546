"""Checks a host or a network namespace for MPTCP: `collect` asks the machine for facts, `findings`
judges them without it.
"""

from ._checks import findings
from ._collect import collect
from ._facts import Ability, Address, Device, Endpoint, Facts, Finding, Question, Role, Severity, Way

__all__ = [
    "Ability",
    "Address",
    "Device",
    "Endpoint",
    "Facts",
    "Finding",
    "Question",
    "Role",
    "Severity",
    "Way",
    "collect",
    "findings",
]
