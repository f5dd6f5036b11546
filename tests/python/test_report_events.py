"""What the report shows of outages."""

import dataclasses

import pytest
from report_data import PlausibleEngine
from study_data import written

from polypath.report import material, page, render
from polypath.results import execute, plan

TEXT = """\
name: outages
topology:
  nodes: {c: , s: }
  links:
    wifi:
      ends: [c, s]
      both:
        rate: 10mbit
        queue: 50packets
        changes: [{at: 5s, up: false}, {at: 6s, up: true}, {at: 15s, up: false}, {at: 15.2s, up: true}]
    lte: {ends: [c, s], both: {rate: 10mbit, queue: 50packets, delay: 10ms}}
flows:
  f: {client: c, server: s, cc: "${cc}"}
matrix: {cc: [lia, olia]}
seeds: 2
duration: 20s
measure: {series: 100ms}
baselines: null
"""


class StallingEngine(PlausibleEngine):
    """Nothing is read for 1.5 s from 5 s on, and nothing any more from 15 s on."""

    def run(self, scenario):
        output = super().run(scenario)
        for flow in output.outcome["flows"]:
            step = flow["received_100ms"][1]
            read = [0]
            for tick in range(200):
                read.append(read[-1] + (0 if 50 <= tick < 65 or tick >= 150 else step))
            flow["received_100ms"] = read
        return output


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("outages")
    return material(execute(plan(written(folder, TEXT), engine=StallingEngine(), out=folder / "results")))


def test_outages_are_told_in_a_table_and_grey_or_not_at_all(made):
    table = page(made).experiments[0].outages
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["lia", "wifi", "2.0", "0.60", "9.40", "3.25", "5.0", "1.40", "2 of 4"],
        ["olia", "wifi", "2.0", "0.60", "9.41", "3.25", "5.0", "1.40", "2 of 4"],
    ]
    assert "Outages and handovers" in render(page(made))
    figures = {figure.name: figure for figure in page(made).experiments[0].over_time}
    goodput, cwnd = figures["time-goodput-main"], figures["time-cwnd-main"]
    # Two spans in each of two pictures, and of each the one after which the flow was back.
    for figure in (goodput, cwnd):
        assert (figure.svg.count("mark-rect"), figure.svg.count('aria-roledescription="rect mark"')) == (2, 4)
    triangles = [figure.svg.count('aria-roledescription="point"') for figure in (goodput, cwnd)]
    assert triangles == [2, 0]
    assert goodput.caption.endswith("Grey: outages of wifi. Triangles: a flow is back at nine tenths of its rate before.")
    assert cwnd.caption.endswith("Grey: outages of wifi.")
    quiet = dataclasses.replace(made, events=made.events.iloc[:0])
    view = page(quiet).experiments[0]
    assert view.outages is None
    assert not any("mark-rect" in figure.svg or "Grey" in figure.caption for figure in view.over_time)
    assert "Outages and handovers" not in render(page(quiet))
