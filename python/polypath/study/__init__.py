"""The study: what a person asks, as a frozen value, and the runs that answer it.

Knows no engine, no table and no disk but the study file itself.
"""

from ._aqm import Codel, DualPi2, FqCodel, Pie, Red
from ._buildable import check_cell
from ._cells import (
    MOST_KEPT,
    Cells,
    cells,
    draw_numbers,
    has_many_runs,
    is_large,
    keeps_packs,
    number_of_cells,
    parameter_names,
    recorded_files,
    specimens,
)
from ._chance import drawing_algorithms, same_for_all_seeds
from ._claims import Above, Below, Between, Check, Claim, Decides, Order, Published, Varies, Within
from ._conclusion import Blank, filled
from ._conclusion import blanks as conclusion_blanks
from ._draw import Draw, Drawn, numbers_in, spans_of
from ._elements import (
    BurstLoss,
    Delay,
    Down,
    DropPackets,
    Element,
    Loss,
    Mtu,
    Policer,
    RateChange,
    RateLimit,
    Retry,
    Shape,
    ShapeChange,
    ShareChange,
    Table,
    TimeChange,
    Trace,
    Wireless,
    chain,
)
from ._errors import SetupError, StudyError, Where, unknown
from ._file import FILE_NAME, read_yaml
from ._file import find as find_file
from ._flows import PATH_MANAGERS, Bulk, Constant, Endpoint, Endpoints, Flow, Fullmesh, Ndiffports, OnOff, Requests, Route, Transfer
from ._kernel import DEFAULT_KERNEL, MODELLED, OURS, OUT_OF_TREE, THEIRS, ModelledKernel, bare_of_ours, nearest, scheduler_of_ours, split_cc
from ._load import load, load_setup
from ._measure import Capture, Measure
from ._parameters import NUMBER_OF_DRAW
from ._placeholder import Scalar
from ._quantity import Packets, Rate, Share, Size, Time
from ._question import Baselines, Experiment, located
from ._runs import Run, key_of, runs
from ._scenario import copies, kernel_of, links_of, scenario, start_offset
from ._scenario_fields import field_of
from ._schema import SCHEMA_FILE, json_schema
from ._setup import Cell, Setup
from ._short import Short
from ._study import FEWEST_STARTS, NETWORK_ONLY, Study
from ._topology import End, Link, Node, Topology, addresses, node_addresses
from ._traces import files_read, inside
from ._tunnels import DISTRIBUTIONS, REORDER_RULES, Adaptive, Equalised, Fec, Fixed, Mpt, Off, Progress, Tunnel, TunnelEnd, TunnelPath
from ._wireless import RADIOS

__all__ = [
    "DEFAULT_KERNEL",
    "DISTRIBUTIONS",
    "FEWEST_STARTS",
    "FILE_NAME",
    "MODELLED",
    "MOST_KEPT",
    "NETWORK_ONLY",
    "NUMBER_OF_DRAW",
    "OURS",
    "OUT_OF_TREE",
    "PATH_MANAGERS",
    "RADIOS",
    "REORDER_RULES",
    "SCHEMA_FILE",
    "THEIRS",
    "Above",
    "Adaptive",
    "Baselines",
    "Below",
    "Between",
    "Blank",
    "Bulk",
    "BurstLoss",
    "Capture",
    "Cell",
    "Cells",
    "Check",
    "Claim",
    "Codel",
    "Constant",
    "Decides",
    "Delay",
    "Down",
    "Draw",
    "Drawn",
    "DropPackets",
    "DualPi2",
    "Element",
    "End",
    "Endpoint",
    "Endpoints",
    "Equalised",
    "Experiment",
    "Fec",
    "Fixed",
    "Flow",
    "FqCodel",
    "Fullmesh",
    "Link",
    "Loss",
    "Measure",
    "ModelledKernel",
    "Mpt",
    "Mtu",
    "Ndiffports",
    "Node",
    "Off",
    "OnOff",
    "Order",
    "Packets",
    "Pie",
    "Policer",
    "Progress",
    "Published",
    "Rate",
    "RateChange",
    "RateLimit",
    "Red",
    "Requests",
    "Retry",
    "Route",
    "Run",
    "Scalar",
    "Setup",
    "SetupError",
    "Shape",
    "ShapeChange",
    "Share",
    "ShareChange",
    "Short",
    "Size",
    "Study",
    "StudyError",
    "Table",
    "Time",
    "TimeChange",
    "Topology",
    "Trace",
    "Transfer",
    "Tunnel",
    "TunnelEnd",
    "TunnelPath",
    "Varies",
    "Where",
    "Wireless",
    "Within",
    "addresses",
    "bare_of_ours",
    "cells",
    "chain",
    "check_cell",
    "conclusion_blanks",
    "copies",
    "draw_numbers",
    "drawing_algorithms",
    "field_of",
    "files_read",
    "filled",
    "find_file",
    "has_many_runs",
    "inside",
    "is_large",
    "json_schema",
    "keeps_packs",
    "kernel_of",
    "key_of",
    "links_of",
    "load",
    "load_setup",
    "located",
    "nearest",
    "node_addresses",
    "number_of_cells",
    "numbers_in",
    "parameter_names",
    "read_yaml",
    "recorded_files",
    "runs",
    "same_for_all_seeds",
    "scenario",
    "scheduler_of_ours",
    "spans_of",
    "specimens",
    "split_cc",
    "start_offset",
    "unknown",
]
