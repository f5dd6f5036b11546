"""What a person does with studies and results in Python: change a copy, look at it, plot, report."""

import pytest

import polypath
from polypath import Bulk, Constant, Flow, Link, Study, StudyError, run
from polypath.report import plot

METRIC, CHECK = "goodput_receiver_mbps", {"kind": "between", "low": 8, "high": 10}
BASE = {
    "name": "base",
    "topology": {
        "nodes": {"a": None, "b": {"sysctl": {"net.ipv4.tcp_rmem": [4096, 131072, 6291456]}}},
        "links": {"l": {"ends": ["a", "b"], "both": {"rate": "10mbit", "queue": "50packets", "delay": "5ms"}}},
    },
    "flows": {"f": {"client": "a", "server": "b", "transport": "tcp", "cc": "${cc}"}},
    "matrix": {"cc": ["cubic", "reno"]},
    "duration": "1s",
    "claims": [{"id": "fills", "sentence": "It fills the link.", "metric": METRIC, "where": {"cc": "reno"}, "check": CHECK}],
}


def sysctl(study, node, name):
    (found,) = study.topology.nodes[node].sysctl.items()
    assert found[0] == name
    return found[1]


@pytest.fixture
def study():
    return Study.model_validate(BASE)


@pytest.mark.parametrize(
    ("place", "value", "seen"),
    [
        ("duration", "3s", lambda study: str(study.duration) == "3s"),
        ("flows.f.start", "10ms", lambda study: str(study.flows["f"].start) == "10ms"),
        ("flows.g", Flow(client="b", server="a"), lambda study: list(study.flows) == ["f", "g"]),
        ("topology.links.l.both.rate", "30mbit", lambda study: study.topology.links["l"].both.rate == 30_000_000),
        ("topology.links.l.ends.1.mtu", "9000B", lambda study: study.topology.links["l"].ends[1].mtu == 9000),
        (
            "topology.nodes.b.sysctl.net.ipv4.tcp_rmem",
            [4096, 9000, 9000],
            lambda study: sysctl(study, "b", "net.ipv4.tcp_rmem") == (4096, 9000, 9000),
        ),
        ("topology.nodes.a.sysctl.net.ipv4.tcp_sack", 0, lambda study: sysctl(study, "a", "net.ipv4.tcp_sack") == 0),
        ("matrix.cc.1", "lia", lambda study: study.matrix == {"cc": ("cubic", "lia")}),
        ("claims.0.where.cc", "cubic", lambda study: study.claims[0].where == {"cc": "cubic"}),
        ("baselines.alone", True, lambda study: study.baselines.alone is True),
    ],
)
def test_one_value_is_changed_however_deep_it_stands(study, place, value, seen):
    before = repr(study)
    changed = study.set(place, value)
    assert seen(changed)
    assert repr(study) == before and changed != study
    assert eval(repr(changed), {name: getattr(polypath, name) for name in polypath.__all__}) == changed


@pytest.mark.parametrize(
    ("place", "value", "sentence"),
    [
        ("durration", "3s", r"^durration: there is no field `durration` here; did you mean `duration`\?$"),
        (
            "flows.x.cc",
            "lia",
            r'^flows\.x: there is no entry "x"; there are f$',
        ),
        ("flows.f.strat", "1s", r"^flows\.f\.strat: there is no field `strat` here; did you mean `start`\?$"),
        ("topology.links.l.both.rate", "30", r"^topology\.links\.l\.both\.rate: the bare number 30 has no unit"),
        ("topology.links.l.ends.2.mtu", "1400B", r"^topology\.links\.l\.ends: there is no number 2 here: 2 values stand here"),
        ("duration.unit", "s", r"^duration: 1s stands here, and nothing is in it, so no `unit`$"),
        ("flows.f.server", "c", r'^flows\.f\.server: there is no node "c"'),
        ("matrix.cc", ["lia", "lia"], r"^matrix\.cc: a value stands here twice"),
        ("matrix", {}, r"cc"),
    ],
)
def test_a_wrong_change_is_a_sentence_with_its_place(study, place, value, sentence):
    with pytest.raises(StudyError, match=sentence):
        study.set(place, value)


def test_copies_are_checked_and_keep_what_a_parameter_decides(study):
    link = study.topology.links["l"]
    with pytest.raises(StudyError, match=r'^both: "rubbish" stands where fields with names are expected$'):
        link.model_copy(update={"both": "rubbish"})
    with pytest.raises(StudyError, match="there is no field `rat` here; did you mean `rate`"):
        link.both.model_copy(update={"rat": "1mbit"})
    assert link.model_copy(update={"mtu": "9000B"}).mtu == 9000
    assert link.model_copy() == link and link.model_copy(deep=True) == link
    with pytest.raises(StudyError, match="duration"):
        study.model_copy(update={"duration": "3"})
    app = Flow(client="a", server="b", app={"kind": "${app}", "rate": "1mbit"}).app
    assert app.model_copy(update={"rate": "2mbit"}).model_extra == {"rate": "2mbit"}
    assert Constant(rate="1mbit").model_copy(update={"duration": "2s"}) == Constant(rate="1mbit", duration="2s")
    assert Bulk().model_copy(update={"duration": None}) == Bulk(duration=None)
    assert isinstance(Link(ends=("a", "b")).model_copy(update={"ends": ("b", "a")}), Link)
    shown = study.replace(question="Is it < 10?", seeds=3)._repr_html_()
    assert "<b>base</b><br>Is it &lt; 10?<br>2 cells, 3 seeds, 1s each" in shown
    assert "<pre>name: base" in shown


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return run(Study.model_validate(BASE), out=tmp_path_factory.mktemp("out"))


@pytest.mark.parametrize(
    ("what", "name"),
    [("topology", "topology"), ("goodput", "goodput-main"), ("cwnd", "time-cwnd-main"), ("time-srtt-main", "time-srtt-main")],
)
def test_one_figure_of_the_report_is_plotted(results, what, name):
    figure = results.plot(what)
    assert figure.name == name
    assert figure._repr_svg_().startswith("<svg")
    assert figure.file("pdf").startswith(b"%PDF")
    assert not (results.folder / "figures").exists(), "nothing is written"


def test_a_figure_that_is_not_there_is_told_with_those_that_are(results, tmp_path):
    with pytest.raises(ValueError, match=r'there is no figure "cwn"; there are topology, goodput, cwnd, srtt, order, queue'):
        results.plot("cwn")
    with pytest.raises(ValueError, match='there is no figure "cwnd"'):
        results.plot("cwnd", experiment="other")
    more = {**BASE, "matrix": {}, "claims": (), "experiments": {"one": {"matrix": {"cc": ["cubic"]}}, "two": {"matrix": {"cc": ["reno"]}}}}
    made = run(Study.model_validate(more), out=tmp_path)
    with pytest.raises(ValueError, match="is a figure of several experiments; say which with `experiment`: one, two"):
        made.plot("cwnd")
    assert plot(made, "cwnd", experiment="two").name == "time-cwnd-two"


def test_the_report_is_written_where_it_is_asked_for(results, tmp_path):
    page = results.report(tmp_path, figures=["svg", "pdf"])
    assert page == tmp_path / "report.html" and page.read_text().startswith("<!doctype html>")
    assert {file.suffix for file in (tmp_path / "figures").glob("goodput-main.*")} == {".svg", ".pdf"}
