"""The study one-tcp-many-paths: its halves share nothing with the paper, and its algorithm is what
its page says.
"""

from pathlib import Path

import pytest
import yaml

import polypath
from polypath import Study
from polypath.study import cells

HERE = Path(__file__).parents[2] / "studies" / "one-tcp-many-paths"


def test_no_drawn_network_is_one_of_the_papers():
    drawn = {cell.parameters["draw"]: cell.parameters for cell in cells(Study.load(HERE / "drawn.yaml"))}
    assert len(drawn) == 80
    for network in drawn.values():
        assert "100" not in (str(network["rate_a"]), str(network["rate_b"]))
        assert float(network["loss"]) not in (1, 2, 3, 4, 5)
        assert float(network["added"]) not in (10, 20, 30, 40, 50, 100)


def test_ebb_is_one_file_of_at_most_250_lines():
    assert len((HERE.parents[1] / "cc/algs/ebb.c").read_text(encoding="utf-8").splitlines()) <= 250


@pytest.mark.parametrize(
    "experiment, parameter, value", [("ours-delay", "delay", "50ms"), ("mpt-delay", "delay", "50ms"), ("ours-loss", "loss", "3%")]
)
def test_ebb_fills_both_paths_with_a_delay_and_with_losses(tmp_path, experiment, parameter, value):
    asked = yaml.safe_load((HERE / "study.yaml").read_text(encoding="utf-8"))
    one = asked["experiments"][experiment] | {"matrix": {"cc": ["ebb"], parameter: [value]}}
    asked |= {"experiments": {experiment: one}, "duration": "8s", "measure": {"window": ["4s", "8s"]}, "seeds": 1}
    asked.pop("short")
    results = polypath.run(Study.model_validate(asked), out=tmp_path)
    (goodput,) = results.runs.loc[results.runs["flow"] == "f", "goodput_receiver_mbps"]
    # Two paths carry 183.6 Mbit/s of payload, and with 3 % of losses on one of them 180.9.
    assert goodput > 0.9 * 180.9
