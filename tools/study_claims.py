"""What a study's claims come to in the simulator, as Markdown: python tools/study_claims.py studies/NAME. What is missing runs first."""

from __future__ import annotations

import re
import sys

from figure_tables import simulated, table

from polypath.analysis import PLATFORM
from polypath.report import claim_results, material

LONGEST = 400


def main(study: str) -> None:
    """A line a claim that was measured."""
    tables = material(simulated(study))
    platforms = list(dict.fromkeys(tables.runs[PLATFORM]))
    rows = [
        [f"`{claim.id}`", claim.verdict, _short(claim.why)]
        for platform in platforms
        for claim in claim_results(tables, str(platform))
        if claim.verdict != "not measured"
    ]
    print(table(["claim", "simulator", "because"], rows, left=3))


def _short(why: str) -> str:
    """The first parts of a long reason, and how many more there are."""
    parts = why.split("; ")
    kept: list[str] = []
    for part in parts:
        if kept and len("; ".join([*kept, part])) > LONGEST:
            return "; ".join(kept) + f"; and {len(parts) - len(kept)} more"
        kept.append(part)
    return re.sub(r"\s*\|\s*", " / ", "; ".join(kept))


main(*sys.argv[1:])
