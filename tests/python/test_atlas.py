"""A part of the atlas is run again: what its file says is what this simulator gives."""

from pathlib import Path

import pandas as pd
import pytest
from study_data import module_of

from polypath import Study, run

ATLAS = Path(__file__).resolve().parents[2] / "studies/atlas"
KEYS = ["draw", "experiment", "cc", "scheduler"]


@pytest.fixture(scope="module")
def beside(tmp_path_factory):
    """A row a network and setting, as it is now and, with `_file`, as the file has it."""
    map_ = module_of(ATLAS / "map.py")
    results = run(Study.load(ATLAS), out=tmp_path_factory.mktemp("atlas"), only={"draw": ["1..200"]})
    file = pd.read_parquet(ATLAS / "atlas.parquet").query("engine == 'sim' and draw <= 200")
    both = map_.taken(results).merge(file, on=KEYS, how="outer", suffixes=("", "_file"), indicator=True)
    assert len(both) == 200 * 11
    assert (both["_merge"] == "both").all()
    return both


def test_networks_and_medians_are_those_of_the_file(beside):
    for name in ("home_rate", "home_delay", "mobile_rate", "mobile_loss"):
        assert (beside[name] == beside[f"{name}_file"]).all(), name
    # Of each setting, what MPTCP gains over TCP on the better link.
    gain, file = beside["value"] / beside["alone"], beside["value_file"] / beside["alone_file"]
    setting = [beside[name] for name in KEYS[1:]]
    medians = pd.DataFrame({"now": gain.groupby(setting).median(), "file": file.groupby(setting).median()})
    assert len(medians) == 11
    assert ((medians["now"] / medians["file"] - 1).abs() < 0.02).all(), medians.to_string()


@pytest.mark.parametrize("column", ["value", "alone"])
def test_outcomes_are_those_of_the_file(beside, column):
    # A change of the simulator may move single runs; past one in twenty see the README.
    there = beside[column].notna() | beside[f"{column}_file"].notna()
    moved = beside[there & ~((beside[column] / beside[f"{column}_file"] - 1).abs() < 0.01)]
    assert len(moved) <= 0.05 * there.sum(), moved[[*KEYS, column, f"{column}_file"]].to_string()
