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
        ({"what": "goodput", "only": {"engine": ["sim"]}}, "they have experiment, flow, platform (sim), "),
        ({"what": "goodput", "labels": {"renoo": "New Reno"}}, 'that a label could be for "renoo"; did you mean "reno"?'),
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
    for option, value in ("--kind", "box"), ("--width", "6in"), ("--font-size", "9"):
        code, _, err = polypath("report", results.folder, option, value)
        assert code == 2 and f"{option} is about one figure: say which, like --figure goodput" in err
    code, _, err = polypath("report", results.folder, "--figure", "goodput", "--figures", "png", "--out", file)
    assert code == 2 and "is no file of --figures png: leave --figures out, or end the name in .png" in err


def test_what_a_figure_leaves_out_is_said(tmp_path):
    app = '{kind: transfer, size: "${size}"}'
    text = LOSSY_LINK.replace('cc: "${cc}"}', f'cc: "${{cc}}", app: {app}}}, more: {{client: client, server: server, app: {{kind: bulk}}}}')
    (tmp_path / "study.yaml").write_text(text + "matrix: {cc: [reno], loss: [0%], size: [100KB, 1GB]}\nseeds: 1\n")
    figure = paper_figure(run(tmp_path, out=tmp_path / "results"), "completion")
    assert figure.caption == (
        "beware, left out: 1 of 2 runs have no completion, such as those that never finished; the flows more have another metric"
    )
