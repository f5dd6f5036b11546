"""What a study's claims come to, as Markdown: in the simulator, or on Linux kernels in virtual time. What is missing runs first.

python tools/study_claims.py studies/NAME [KERNEL...]
"""

from __future__ import annotations

import re
import sys

from figure_tables import on_linux, simulated, table

from polypath.analysis import PLATFORM
from polypath.report import claim_results, material

LONGEST = 400


def main(study: str, *kernels: str) -> None:
    """A line a claim that was measured."""
    tables = [material(on_linux(study, kernel)) for kernel in kernels][-1:] or [material(simulated(study))]
    platforms = [str(name) for name in dict.fromkeys(tables[0].runs[PLATFORM])]
    if kernels:
        platforms = [name for kernel in kernels for name in platforms if name.split()[-1] == kernel]
    decided = {name: claim_results(tables[0], name) for name in platforms}
    found = {name: {claim.id: claim for claim in claims if claim.verdict != "not measured"} for name, claims in decided.items()}
    rows = []
    for claim in dict.fromkeys(claim for claims in found.values() for claim in claims):
        each = {name: claims[claim] for name, claims in found.items() if claim in claims}
        verdicts = [each[name].verdict if name in each else "not measured" for name in platforms]
        why = [(f"{name.split()[-1]}: " if len(platforms) > 1 else "") + _short(result.why) for name, result in each.items()]
        rows.append([f"`{claim}`", *verdicts, "<br>".join(why)])
    heads = ["Linux " + name.split()[-1] for name in platforms] if kernels else ["simulator"]
    print(table(["claim", *heads, "because"], rows, left=2 + len(heads)))


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
