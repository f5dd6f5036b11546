"""A figure for a paper: its width, its fonts, its cells and their names and order; and what is refused."""

import re

import pytest
from study_data import LOSSY_LINK

from polypath import StudyError, run
from polypath.report import as_printed, paper_figure

STUDY = f"""{LOSSY_LINK}matrix: {{cc: [reno, cubic, bbr], loss: [0%, 1%, 3%]}}
seeds: 3
measure: {{series: 100ms}}
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("many")
    (folder / "study.yaml").write_text(STUDY)
    return run(folder, out=folder / "results")


def words(figure):
    return re.findall(r"<text[^>]*>([^<]+)</text>", figure.svg)


@pytest.mark.parametrize("kind", ["box", "cdf", "bar", "line"])
@pytest.mark.parametrize("width", ["85mm", "6in"])
def test_it_is_as_wide_as_it_is_asked_for_and_its_letters_too(results, kind, width):
    figure = paper_figure(results, "goodput", kind=kind, width=width, font_size=9)
    points = {"85mm": 240.94, "6in": 432.0}[width]
    box = re.search(rb"/MediaBox ?\[0 0 ([\d.]+) ", as_printed(figure, "pdf"))
    assert float(box[1]) == pytest.approx(points, abs=0.5)
    printed = re.search(r'width="([\d.]+)mm"', as_printed(figure, "svg").decode())
    assert float(printed[1]) == pytest.approx(points * 25.4 / 72, abs=0.2)
    assert set(re.findall(r'font-size="(\d+)px"', figure.svg)) == {"9"}


def test_cells_lines_and_values_have_their_names_and_order(results):
    for only, there in (({}, ["reno", "cubic", "bbr"]), ({"cc": ["bbr", "reno"]}, ["bbr", "reno"])):
        shown = [word for word in words(paper_figure(results, "goodput", kind="bar", only=only)) if word in ("reno", "cubic", "bbr")]
        assert shown == there
    shown = words(paper_figure(results, "goodput", kind="cdf", only={"loss": ["1%"]}, labels={"reno": "New Reno", "1%": "one"}))
    assert "New Reno" in shown and "reno" not in shown
    shown = words(paper_figure(results, "goodput", kind="cdf"))
    assert {f"{cc}, loss {loss}" for cc in ("reno", "cubic", "bbr") for loss in ("0%", "1%", "3%")} <= set(shown)
    assert "loss, %" in words(paper_figure(results, "goodput", kind="line"))
    assert "time, s" in words(paper_figure(results, "cwnd", only={"loss": ["1%"]}))
    assert "time, s" in words(paper_figure(results, "goodput", kind="line", only={"loss": ["1%"]}))
    assert b"/FontFile" in as_printed(paper_figure(results, "goodput"), "pdf")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"what": "goodputt"}, 'there is no figure "goodputt"; did you mean "goodput"?'),
        ({"what": "delay"}, "no run of many has a figure of delay"),
        ({"what": "goodput", "kind": "pie"}, 'there is no kind of figure "pie"'),
        ({"what": "goodput", "width": "85"}, "write 85mm"),
        ({"what": "goodput", "width": "9m"}, "write 85mm"),
        ({"what": "goodput", "width": "900mm"}, "no figure is 900mm wide"),
        ({"what": "goodput", "font_size": 0.0}, "write 4 to 30"),
        ({"what": "goodput", "only": {"cc": ["renoo"]}}, 'there is no cc in the runs of many "renoo"; did you mean "reno"?'),
        ({"what": "goodput", "only": {"queue": ["1"]}}, 'have no parameter "queue"'),
        ({"what": "retransmissions", "kind": "line", "only": {"loss": ["1%"]}}, "a line goes over a number"),
    ],
)
def test_what_cannot_be_drawn_is_one_sentence(results, asked, said):
    with pytest.raises(StudyError, match=re.escape(said)):
        paper_figure(results, asked.pop("what"), **asked)


def test_the_command_line_writes_the_file(polypath, results, tmp_path):
    file = tmp_path / "figures" / "mine.svg"
    code, out, _ = polypath("report", results.folder, "--figure", "goodput", "--kind", "box", "--only", "cc=bbr,reno", "--out", file)
    assert code == 0 and str(file) in out.replace("\n", "")
    assert file.read_text().startswith("<svg")
    code, _, err = polypath("report", results.folder, "--kind", "box")
    assert code == 2 and "--kind is about one figure: say which, like --figure goodput" in err


def test_from_python_it_is_the_same_figure(results):
    figure = results.plot("goodput", kind="box", only={"cc": ["bbr", "reno"], "loss": "1%"}, labels={"bbr": "BBR"})
    assert "BBR" in words(figure) and "cubic" not in words(figure)
    with pytest.raises(ValueError, match="name a kind or a width"):
        results.plot("goodput", only={"cc": "bbr"})
    with pytest.raises(ValueError, match="there are topology, goodput, cwnd, srtt") as error:
        results.plot("nothing")
    assert "-main" not in str(error.value)
