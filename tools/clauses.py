"""Checks the marks of clauses in the code, and specs/exceptions against them.

    tools/clauses.py            form of each mark; every exception names a mark and a test that exist
    tools/clauses.py --table    which clause is obeyed where, and where not on purpose, as Markdown

A mark is `RFC 9293 section 3.10.7.4`, also `sections 3.1 and 3.2`, `appendix A.3`, `figure 9`; an
RFC without a section is a mention.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FIELDS = {"clause", "words", "departure", "reason", "code", "test"}
NUMBER = r"[0-9A-Z]+(?:\.[0-9]+)*"
MARK = re.compile(rf"RFC (\d+) (?:sections?|appendix|figure) ({NUMBER}(?:(?:, | and | to ){NUMBER})*)")
# What is meant as a mark and would not be found as one.
MALFORMED = re.compile(r"RFC\d|RFC-\d|RFC \d+(?:,? (?:§|sec\b|sect\b|Section|\d+\.\d)|, section)|[Ss]ection [\d.]+ of RFC")


def sources(root: Path) -> Iterator[Path]:
    """The files that may have marks."""
    for folder, endings in (("crates", ("rs",)), ("cc", ("c", "h"))):
        for ending in endings:
            yield from sorted((root / folder).rglob(f"*.{ending}"))


def marks(root: Path) -> tuple[dict[str, list[str]], list[str]]:
    """Clause -> the places "file:line" that have it, and a sentence for each mark that is
    malformed.
    """
    found: dict[str, list[str]] = {}
    faults = []
    for file in sources(root):
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            place = f"{file.relative_to(root)}:{number}"
            if MALFORMED.search(line):
                faults.append(f'{place}: write a clause as "RFC 9293 section 3.10.7.4".')
            for rfc, clauses in MARK.findall(line):
                for clause in re.findall(NUMBER, clauses):
                    found.setdefault(f"RFC {rfc} section {clause}", []).append(place)
    return found, faults


def exceptions(root: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Each entry of specs/exceptions, with the place to name it by."""
    for file in sorted((root / "specs/exceptions").glob("*.toml")):
        for number, entry in enumerate(tomllib.loads(file.read_text(encoding="utf-8"))["exception"], 1):
            yield f"{file.relative_to(root)}, entry {number}", entry


def check(root: Path) -> list[str]:
    """A sentence for each fault."""
    found, faults = marks(root)
    for place, entry in exceptions(root):
        if set(entry) != FIELDS or not all(entry.values()):
            faults.append(f"{place}: an exception has the fields {', '.join(sorted(FIELDS))}, and none of them is empty.")
            continue
        if not any(where.startswith(entry["code"] + ":") for where in found.get(entry["clause"], ())):
            faults.append(f"{place}: {entry['code']} has no mark {entry['clause']}.")
        file, _, test = entry["test"].partition("::")
        if not (root / file).is_file() or f"fn {test}()" not in (root / file).read_text(encoding="utf-8"):
            faults.append(f"{place}: there is no test {entry['test']}.")
    return faults


def table(root: Path) -> str:
    """Clauses with the files that obey them, and the departures."""
    departures: dict[str, list[str]] = {}
    for _, entry in exceptions(root):
        departures.setdefault(entry["clause"], []).append(entry["departure"])
    rows = ["| clause | marked in | departures |", "|---|---|---|"]
    found = marks(root)[0]
    for clause in sorted(found, key=lambda c: [(not p.isdigit(), p.zfill(6)) for p in re.findall(r"[A-Z]+|\d+", c[4:])]):
        files = dict.fromkeys(place.rpartition(":")[0] for place in found[clause])
        rows.append(f"| {clause} | {', '.join(f'`{file}`' for file in files)} | {' '.join(departures.get(clause, ()))} |")
    return "\n".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--table", action="store_true")
    if parser.parse_args().table:
        print(table(ROOT))
    faults = check(ROOT)
    for fault in faults:
        print(f"clauses: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
