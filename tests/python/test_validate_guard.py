"""The simulator agrees with the measured kernels at least as often as it did."""

import csv
from pathlib import Path

import pytest

from polypath.validate import run, to_json

REFERENCE = Path(__file__).parent.parent / "data" / "reference"
with (REFERENCE / "agreement.csv").open(newline="", encoding="utf-8") as _stream:
    HELD = list(csv.DictReader(_stream))
COUNTS = ("agree", "of", "srtt_agree", "srtt_of")


def fallen(table, counted):
    """A sentence for each count of agreeing or simulated cells below the one held."""
    sentences = []
    for row in (row for row in HELD if row["table"] == table):
        now = counted.get(row["group"], dict.fromkeys(COUNTS, 0))
        less = [name for name in COUNTS if now[name] < int(row[name])]
        sentences += [f"{table}, group {row['group']}: {name} {now[name]}, held {row[name]}" for name in less]
    return sentences


@pytest.mark.parametrize("table", sorted({row["table"] for row in HELD}))
def test_agreement_with_a_measured_kernel_does_not_fall(table):
    found = to_json(run(REFERENCE / f"{table}.csv"))
    assert fallen(table, found["groups"]) == []
    # A group that agreement.csv does not name would be held by nobody.
    assert set(found["groups"]) == {row["group"] for row in HELD if row["table"] == table}


def test_a_count_that_falls_is_named():
    groups = {row["group"]: {name: int(row[name]) for name in COUNTS} for row in HELD if row["table"] == "linux-6.12"}
    assert fallen("linux-6.12", groups) == []
    groups["b"]["agree"] -= 1
    del groups["e"]
    sentences = fallen("linux-6.12", groups)
    assert any(sentence.startswith("linux-6.12, group b: agree ") for sentence in sentences)
    assert any("group e: of 0, held " in sentence for sentence in sentences)
