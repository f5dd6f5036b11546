"""The report: what stands in it, without a network, in the same bytes again."""

import json
import re
from html.parser import HTMLParser

import pandas as pd
import pytest
from report_data import PlausibleEngine

from polypath.plot import _export
from polypath.plot._drawers import drawing
from polypath.report import FIGURES, claim_results, concluded, material, page, render, write_report
from polypath.report._figures import speeds, subflow_lines
from polypath.report._headlines import headlines
from polypath.report._material import GOODPUT
from polypath.report._write import DRAWN
from polypath.results import execute, plan
from polypath.results._checked import check_claims
from polypath.study import Endpoints, Ndiffports, Study, StudyError, conclusion_blanks

STUDY = "studies/nitk"


@pytest.fixture(scope="module")
def results(tmp_path_factory, request):
    study = Study.load(request.config.rootpath / STUDY)
    return execute(plan(study, engine=PlausibleEngine(), out=tmp_path_factory.mktemp("results")))


@pytest.fixture(scope="module")
def made(results):
    return page(material(results))


@pytest.fixture(scope="module")
def html(made):
    return render(made)


class _Balanced(HTMLParser):
    """Open tags, to see that each is closed."""

    VOID = frozenset({"meta", "br", "img", "link", "hr", "input"})

    def __init__(self):
        super().__init__()
        self.open: list[str] = []
        self.problems: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.problems.append(tag)


def test_the_page_is_well_formed_and_needs_no_network(html, results):
    parser = _Balanced()
    parser.feed(html)
    assert parser.problems == []
    assert parser.open == []
    addresses = set(re.findall(r"https?://[^\s\"'<>)]+", html))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert not re.search(r"<(script|link|img|iframe)\b", html)
    assert "@import" not in html
    for anchor in ("conclusion", "claims", "setup", "experiment-v0", "experiment-v1", "published", "baselines", "repeat"):
        assert f'id="{anchor}"' in html
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert str(results.folder.parent) not in html
    assert html.count('<details class="experiment" open>') == 1
    assert html.count('<details class="experiment">') == 2
    contents = html[html.index('<nav class="toc"') : html.index("</nav>")]
    for anchor in re.findall(r'href="#([^"]+)"', contents):
        assert f'id="{anchor}"' in html
    assert render(page(material(results))) == html


def test_texts_of_the_tables_are_kept_once_and_are_those_of_the_results(results):
    runs = material(results).runs
    assert len({id(text) for text in runs["experiment"]}) == runs["experiment"].nunique()
    shared = [name for name in results.runs if name in runs]
    pd.testing.assert_frame_equal(runs[shared], results.runs[shared], check_dtype=False)


def test_each_claim_has_its_verdict_and_numbers(results, made):
    verdicts = {claim.id: str(claim.on("plausible").verdict) for claim in made.claims}
    paper = {"nitk-table", "nitk-order", "nitk-olia-beats-lia", "nitk-wvegas-low", "nitk-cwnd"}
    assert set(verdicts) == paper | {"nitk-order-v1", "nitk-wvegas-low-v1"}
    # The made-up figures: wvegas is 14 % below the rest, which lie within a fifth of a percent.
    assert verdicts["nitk-wvegas-low"] == "holds"
    assert verdicts["nitk-order"] == "does not hold"
    assert verdicts["nitk-cwnd"] == "holds"
    assert all(claim.decisions[0].numbers is not None for claim in made.claims)
    assert [result.id for result in claim_results(material(results))] == list(verdicts)
    others = {claim.id: claim.decisions[0].other for claim in made.claims}
    assert others["nitk-olia-beats-lia"].startswith("By the receiver’s view it does not hold: olia 9.425 ≈ lia 9.410")
    assert others["nitk-wvegas-low"].startswith("By the receiver’s view it holds")
    assert others["nitk-table"] == others["nitk-cwnd"] == ""


def test_tables_have_goodput_bound_share_and_limit_of_each_cell(made, html):
    table = made.experiments[0].results
    rows = {row[0].text: [cell.text for cell in row] for row in table.rows}
    assert list(rows) == ["lia", "olia", "balia", "wvegas", "cubic"]
    assert rows["cubic"][1:5] == ["9.43 ± 0.02", "9.81 ± 0.02", "9.43", "100.0 %"]
    # A word in the cell, the sentence below.
    assert rows["cubic"][5] == "links"
    assert rows["wvegas"][4:6] == ["85.9 %", "congestion window"]
    reasons = dict(table.reasons)
    assert reasons["lia, olia, balia, cubic"] == "the links themselves"
    assert "congestion window was full 90 % of the time (24 retransmissions)" in reasons["wvegas"]
    table = made.experiments[0].order
    assert [column.title for column in table.columns][:4] == ["Cell", "Delay p50", "p95", "p99"]
    assert [cell.text for cell in table.rows[0]][1:] == ["30.0", "71.5", "90.0", "25.0 %", "64", "2.5", "4.12", "3.25"]
    assert "Delay and order" in html
    helped = [column for each in made.experiments for column in each.results.columns if column.help]
    assert len(helped) >= 6
    for column in helped:
        assert f"<dt>{column.title}</dt><dd>{column.help}</dd>" in html
    rows = [[cell.text for cell in row] for row in made.experiments[0].paths.rows]
    assert [row[1] for row in rows[:2]] == ["path1", "path2"]
    assert rows[0][2] == "10.0.0.1 → 10.0.1.2"
    cwnd = next(figure for figure in made.figures if figure.name == "time-cwnd-v0")
    assert {"path1", "path2"} <= set(re.findall(r">([^<>]+)</text>", cwnd.svg))
    assert "10.0.0.1" not in cwnd.svg
    rows = [[cell.text for cell in row] for row in made.published.rows]
    # lia: 9.76 published for the sender, 9.41 * 1.04 measured.
    assert rows[0] == ["lia", "table, Mbit/s", "goodput, sender’s view", "9.76", "9.79 ± 0.02", "+0.3 %"]
    assert [row[1] for row in rows[:3]] == ["table, Mbit/s", "text, Mbit/s", "kernel v0, Mbit/s"]
    assert len(rows) == 15
    first = made.experiments[0].headlines[0]
    assert "MPTCP v0, as in the paper: the best is cubic with 9.43 ± 0.02 Mbit/s, the worst wvegas with 8.10" in first
    assert "lia, olia and balia are not told apart from cubic (95 %, or within 0.5 %)." in first
    assert made.experiments[0].headlines[1].startswith("What limited: links (4 of 5); congestion window (wvegas).")


def test_cells_are_told_apart_by_pairs_of_seeds():
    """The seeds move both alike, so separate intervals overlap; each pair differs by one."""
    moves = {1: 0.0, 2: 5.0, 3: -4.0, 4: 2.0}
    cells = {"cubic": (50.0, 6.1, 0.0), "lia": (49.0, 6.1, 1.0), "olia": (50.0, 6.1, 0.0)}
    rows = [
        {"flow": "m", "label": cc, GOODPUT: mean, f"{GOODPUT}_ci": half, "share": 0.8, "share_all": 0.8, "limited_by": "links"}
        | {"by_seed": {seed: 50.0 + move - less + 0.1 * (cc == "olia") * (-1) ** seed for seed, move in moves.items()}}
        for cc, (mean, half, less) in cells.items()
    ]
    told = " ".join(headlines("", pd.DataFrame(rows), pd.DataFrame(rows), ["cc"]))
    assert "olia is not told apart from cubic (95 %, or within 0.5 %)." in told


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (
            {"cubic": (71.4, 0.9), "bbr": (69.3, 3.1)},
            "The other is not told apart from the highest, so neither is clearly the best.",
        ),
        (
            {"cubic": (71.4, 0.9), "bbr": (69.3, 3.1), "lia": (70.0, 2.0)},
            "All others are not told apart from the highest, so none is clearly the best.",
        ),
        ({"cubic": (71.4, 0.9), "bbr": (50.0, 3.1)}, "The best is cubic with 71.40 ± 0.90 Mbit/s, the worst bbr with 50.00 ± 3.10"),
    ],
)
def test_no_cell_is_called_the_best_where_the_intervals_do_not_tell_them_apart(cells, said):
    rows = [
        {"flow": "m", "label": cc, GOODPUT: mean, f"{GOODPUT}_ci": half, "share": 0.8, "share_all": 0.8, "limited_by": "links"}
        for cc, (mean, half) in cells.items()
    ]
    table = pd.DataFrame(rows)
    told = " ".join(headlines("", table, table, ["cc"]))
    assert said in told
    assert ("not told apart" in told) != ("best is" in told)


def test_a_conclusion_stands_first_and_takes_its_figures_from_the_results(results, monkeypatch):
    text = """
        **CUBIC** reaches {{ goodput_receiver_mbps where cc=cubic, experiment=v0 }} Mbit/s, all {{ goodput_receiver_mbps where
        experiment=v0 }}; the last is {{ name of lowest goodput_receiver_mbps where experiment=v0 }} with
        {{ lowest goodput_receiver_mbps where experiment=v0 }}. wVegas being low {{ verdict nitk-wvegas-low }}. <b>not HTML</b>
    """
    monkeypatch.setattr(results, "study", results.study.replace(conclusion=text.replace("        ", "")))
    html = render(page(material(results)))
    assert "<strong>CUBIC</strong> reaches 9.43 ± 0.02 Mbit/s, all 8.10 to 9.43" in html
    assert "the last is wvegas with\n8.10" in html
    assert "wVegas being low holds. &lt;b&gt;not HTML&lt;/b&gt;" in html
    # It stands in place of the report's own sentences; those of an experiment stay with it.
    assert html.index('id="conclusion"') < html.index('id="claims"') and 'id="headline"' not in html
    assert 'href="#conclusion"' in html and "The best is cubic with 9.43" in html


def test_a_conclusion_orders_cells_and_leaves_out_what_was_not_measured(results, monkeypatch):
    def concludes(text):
        monkeypatch.setattr(results, "study", results.study.replace(conclusion=text))
        return concluded(material(results))

    order = "{{ names of %s goodput_receiver_mbps where experiment=v0 }}"
    best, worst = concludes(order % "highest"), concludes(order % "lowest")
    assert best.endswith(", wvegas") and worst.startswith("wvegas, ")
    assert set(re.split(", | = ", best)) == {"lia", "olia", "balia", "wvegas", "cubic"}
    unknown = "Responses take {{ response_p95_ms }} ms."
    assert concludes(f"First:\n\n- {order % 'lowest'}\n- {unknown}\n- Last") == f"First:\n\n- {worst}\n\n- Last"
    assert concludes(unknown) == ""
    # The report's own sentences stand there then.
    html = render(page(material(results)))
    assert 'id="headline"' in html and 'id="conclusion"' not in html


def test_a_study_says_which_figures_are_large(results, monkeypatch):
    words = "Mbit/s with cubic; all: {{ goodput_receiver_mbps where experiment=v0 }}"
    told = {words: "{{ goodput_receiver_mbps where cc=cubic, experiment=v0 }}"}
    monkeypatch.setattr(results, "study", results.study.replace(highlights=told))
    made = page(material(results))
    assert (made.facts[0].value, made.facts[0].words) == ("9.43 ± 0.02", "Mbit/s with cubic; all: 8.10 to 9.43")
    assert not any("the highest goodput" in fact.words for fact in made.facts)
    html = render(made)
    assert html.index('class="facts"') < html.index('id="conclusion"')


@pytest.mark.parametrize("name", ["nitk", "poster", "linux-6.8", "mtu", "mpt-gre"])
def test_every_study_after_a_paper_concludes_and_asks_for_what_its_results_have(request, name):
    study = Study.load(request.config.rootpath / "studies" / name)
    asked = conclusion_blanks(study.conclusion)
    assert any(place.claim for place in asked)
    check_claims(study)


@pytest.mark.parametrize(
    ("conclusion", "sentence"),
    [
        ("{{ goodput where cc=lia }}", 'there is no column "goodput" of the runs; did you mean "goodput_receiver_mbps"?'),
        ("{{ goodput_receiver_mbps where cc=liar }}", 'no cell has this: there is no cc "liar"; did you mean "lia"?'),
        ("{{ goodput_receiver_mbps where ccc=lia }}", 'there is no parameter or column "ccc"; did you mean "cc"?'),
        ("{{ verdict nitk-tabel }}", 'there is no claim "nitk-tabel"; did you mean "nitk-table"?'),
        ("{{ what is this }}", 'conclusion: "{{ what is this }}" asks for nothing that the results have'),
        ("{{ jain where cc }}", '"cc" in "{{ jain where cc }}" is no condition'),
    ],
)
def test_a_conclusion_that_asks_for_what_there_is_not_is_one_sentence(request, tmp_path, conclusion, sentence):
    whole = re.sub(r"(?m)^conclusion: \|\n(?:  .*\n|\n(?=  ))+", "", (request.config.rootpath / STUDY / "study.yaml").read_text())
    asks_for_what_is_not(request, tmp_path, f'{whole}\nconclusion: "{conclusion}"\n', sentence)


def test_published_numbers_beside_no_column_are_one_sentence(request, tmp_path):
    text = (request.config.rootpath / STUDY / "study.yaml").read_text().replace("text_mbps: goodput_receiver", "text_mbps: goodput")
    asks_for_what_is_not(request, tmp_path, text, 'published.compare.text_mbps: there is no column "goodput_mbps" of the runs')


def asks_for_what_is_not(request, folder, text, sentence):
    (folder / "study.yaml").write_text(text)
    (folder / "published.csv").write_bytes((request.config.rootpath / STUDY / "published.csv").read_bytes())
    with pytest.raises(StudyError) as error:
        check_claims(Study.load(folder / "study.yaml"))
    assert sentence in str(error.value)
    assert "study.yaml:" in str(error.value)


def test_figures_lie_beside_the_page_and_are_drawn_again_where_they_were_changed(results, tmp_path, monkeypatch):
    target = write_report(results, tmp_path)
    assert target.is_file()
    svgs = {path.stem for path in (tmp_path / FIGURES).glob("*.svg")}
    pngs = {path.stem for path in (tmp_path / FIGURES).glob("*.png")}
    assert svgs == pngs
    assert {"topology", "goodput-v0", "time-cwnd-v0", "time-srtt-v1", "time-goodput-v0-16mib"} <= svgs
    write_report(results, tmp_path)
    before = {path.name: path.read_bytes() for path in (tmp_path / FIGURES).iterdir()}
    page_before = (tmp_path / "report.html").read_bytes()
    (tmp_path / FIGURES / "topology.png").write_bytes(b"scribbled over")
    (tmp_path / FIGURES / "goodput-v0.svg").unlink()
    drawn = []
    monkeypatch.setattr(_export, "drawing", lambda request: drawn.append(request) or drawing(request))
    write_report(results, tmp_path)
    assert len(drawn) == 2
    assert {path.name: path.read_bytes() for path in (tmp_path / FIGURES).iterdir()} == before
    assert (tmp_path / "report.html").read_bytes() == page_before


def test_figures_are_files_of_the_kinds_that_are_asked_for(results, tmp_path):
    write_report(results, tmp_path, figures=("pdf",))
    files = {path.name: path.read_bytes() for path in (tmp_path / FIGURES).iterdir() if not path.name.startswith(".")}
    assert {"topology.pdf", "time-cwnd-v0.pdf"} <= set(files)
    assert {name.rpartition(".")[2] for name in files} == {"pdf"}
    assert all(data.startswith(b"%PDF-") and data.rstrip().endswith(b"%%EOF") for data in files.values())
    # Letters stay letters, which can be searched and copied.
    assert b"LiberationSans" in files["topology.pdf"]


def test_no_file_of_another_kind_shows_what_the_report_no_longer_does(results, tmp_path):
    write_report(results, tmp_path, figures=("svg", "png"))
    there = _export.KINDS
    index = json.loads((tmp_path / FIGURES / DRAWN).read_bytes())
    index["topology"]["shows"] = "something else"
    (tmp_path / FIGURES / DRAWN).write_text(json.dumps(index))
    write_report(results, tmp_path, figures=("pdf",))
    files = {path.name for path in (tmp_path / FIGURES).iterdir()}
    assert [f"topology.{kind}" in files for kind in there] == [False, False, True]
    assert [f"time-cwnd-v0.{kind}" in files for kind in there] == [True, True, True]
    index = json.loads((tmp_path / FIGURES / DRAWN).read_bytes())
    assert set(there) <= set(index["time-cwnd-v0"]) and set(there) & set(index["topology"]) == {"pdf"}


def test_subflows_that_share_a_path_or_its_addresses_are_lines_of_their_own(tmp_path):
    # Two hosts, two links: four pairs of addresses.
    study = Study.model_validate(
        {
            "name": "pairs",
            "topology": {
                "nodes": {"a": {}, "b": {}},
                "links": {
                    "lte": {"ends": ["a", "b"], "both": {"rate": "10mbit", "delay": "20ms", "queue": "50packets"}},
                    "wifi": {"ends": ["a", "b"], "both": {"rate": "20mbit", "delay": "5ms", "queue": "50packets"}},
                },
            },
            "flows": {"f": {"client": "a", "server": "b", "transport": "mptcp", "cc": "lia"}},
            "duration": "3s",
            "measure": {"series": "100ms"},
            "experiments": {"one": {}, "again": {}},
        }
    )
    tables = material(execute(plan(study, out=tmp_path)))
    series = subflow_lines(tables.runs[tables.runs["experiment"] == "one"], [], tables)[0]
    assert sorted(series["line"].unique()) == [
        "lte, 10.0.1.1 → 10.0.1.2",
        "lte, 10.0.1.1 → 10.0.2.2",
        "wifi, 10.0.2.1 → 10.0.1.2",
        "wifi, 10.0.2.1 → 10.0.2.2",
    ]
    speed, _ = speeds(series)
    assert (speed["goodput"] >= 0).all()
    last = series.groupby(["flow", "subflow"])["bytes_received"].last().sum()
    # The lines' sum is the connection's: each has a value for every half a second.
    took = speed.groupby("line")["time_s"].diff().fillna(speed["time_s"])
    assert (speed["goodput"] * took).sum() == pytest.approx(8e-6 * last)
    for manager, called in (
        (Endpoints(addresses=({"address": "10.0.1.1"}, {"address": "10.0.2.1"})), ["lte", "wifi"]),
        (Ndiffports(subflows=2), ["lte, subflow 0", "lte, subflow 1"]),
    ):
        other = study.replace(flows={"f": study.flows["f"].model_copy(update={"path_manager": manager})})
        tables = material(execute(plan(other, out=tmp_path / manager.kind)))
        assert list(subflow_lines(tables.runs, [], tables)[0]["line"].unique()) == called


def test_results_without_a_finished_run_are_one_clear_sentence(results, monkeypatch):
    monkeypatch.setattr(results, "runs", results.runs.iloc[0:0])
    with pytest.raises(StudyError, match="no finished run"):
        material(results)


def test_applications_at_a_rate_are_no_rows_of_goodput_and_no_party_to_fairness(tmp_path, request):
    study = Study.load(request.config.rootpath / "python/polypath/templates/home-line.yaml").replace(seeds=1, claims=())
    first = page(material(execute(plan(study, out=tmp_path)))).experiments[0]
    assert [row[0].text for row in first.results.rows] == ["aqm none · download", "fq_codel · download"]
    assert "Jain" not in [column.title for column in first.results.columns]
    assert first.fairness is None
    # A call up is not compared with a call down.
    calls = next(line for line in first.headlines if line.startswith("Datagrams"))
    assert "of call-down from 10." in calls and "(fq_codel) to 2" in calls and "; of call-up 10." in calls, calls


def test_a_study_with_one_cell_and_nothing_published(tmp_path, request):
    full = Study.load(request.config.rootpath / STUDY)
    small = Study(
        name="small",
        topology=full.topology,
        flows={"c": full.flows["c"].model_copy(update={"cc": "lia"})},
        duration=full.duration,
        baselines=None,
        measure={"series": None},
    )
    results = execute(plan(small, engine=PlausibleEngine(), out=tmp_path))
    html = render(page(material(results)))
    assert 'id="claims"' not in html
    assert 'id="published"' not in html
    assert 'id="baselines"' not in html
    assert "One run a cell, so no confidence intervals" in html
