"""Names of what stands beside the columns of a run's own table."""

from __future__ import annotations

FAIRNESS = ("fair_mbps", "of_fair", "over_others", "best_single_mbps", "gain", "harm_goodput", "harm_latency", "harm_completion")
POSSIBLE = ("possible_mbps", "least_delay_ms", "least_response_ms", "least_completion_s")
SUBFLOW = "subflow"
"""The key of published numbers that are about one subflow."""
