"""Names of parameters: they stand in placeholders, and are columns of the tables."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

NUMBER_OF_DRAW = "draw"
"""The parameter that tells draws apart: 1, 2, ..."""

# Columns of the tables that a parameter would hide.
RESERVED = frozenset(
    [
        "key",
        "n",
        "study",
        "experiment",
        "engine",
        "seed",
        "flow",
        "group",
        "subflow",
        "link",
        "time_s",
        "source",
        "destination",
        "a_to_b",
        "baseline_of",
        "client_address",
        "server_address",
        "flow_transport",
        "flow_cc",
        "client_kernel",
        "server_kernel",
        "flow_program",
        "platform",
        "jain",
        "fair_mbps",
        "of_fair",
        "over_others",
        "best_single_mbps",
        "gain",
        "harm_goodput",
        "harm_latency",
        "harm_completion",
        "established_s",
        "subflows",
        "trusted",
        # Of summaries and comparisons.
        "runs",
        "value",
        "spread",
        "metric",
        "label",
        "share",
        "way",
        "copies",
    ]
)


def parameter_name(value: str) -> str:
    """The name, if a parameter may have it."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        raise ValueError(f'"{value}" is no name of a parameter; use letters from a to z, digits and "_", beginning with a letter')
    if value in RESERVED:
        raise ValueError(f'"{value}" is a column of the results; give the parameter another name')
    if value == NUMBER_OF_DRAW:
        raise ValueError(f'"{value}" is the number of a draw of parameters; give the parameter another name')
    return value


ParameterName = Annotated[str, AfterValidator(parameter_name)]
