"""Names of parameters: they stand in placeholders, and are columns of the tables."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

from polypath import _native

NUMBER_OF_DRAW = "draw"
"""The parameter that tells draws apart: 1, 2, ..."""

# Columns of the tables, which a parameter of the same name would hide or spoil.
_COLUMNS = """
a_to_b accepted_bytes acked_mbps at_s baseline_of best_single_mbps byte_delay_max_ms byte_delay_mean_ms byte_delay_p50_ms
byte_delay_p95_ms byte_delay_p99_ms bytes_accepted captured_segments client_address client_kernel completion_s copies counter
datagram_loss datagrams_received datagrams_reordered datagrams_sent delay_max_ms delay_mean_ms delay_p50_ms delay_p95_ms
delay_p99_ms destination engine established_s experiment fair_mbps fallback first_share flags flow flow_cc flow_program
flow_transport gain goodput_receiver_mbps goodput_sender_mbps group harm_completion harm_goodput harm_latency hol_blocked_s
hol_delay_ms icmp_too_big jain jitter_ms key label late_max_ms late_median_ms late_p99_ms lifetime_s link lost max_cwnd mean_cwnd
mean_srtt_ms metric missed n node of_fair out_of_order_bytes out_of_order_max_bytes out_of_order_mean_bytes out_of_order_share
over_others packet_max_acked_bytes path platform pmtu rate_before_mbps received_bytes recover_s reinjected_bytes
reordering_max_bytes reordering_mean_bytes response_max_ms response_mean_ms response_p50_ms response_p95_ms response_p99_ms
responses runs seed segment_max_bytes segment_mean_bytes segment_usual_bytes server_address server_kernel share source spread
stall_s start_s study subflow subflows time_s total_receiver_mbps transient_s trusted tunnel until_s value way
"""
RESERVED = frozenset([*_COLUMNS.split(), *(name for _, _, name, *_ in _native.columns())])


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
