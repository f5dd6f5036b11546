"""The report on a phone, on a desk and on paper, in Chromium."""

import re
from itertools import pairwise

import pytest
from report_data import PlausibleEngine

from polypath.report import write_report
from polypath.results import execute, plan
from polypath.study import Study

PATIENCE_MS = 120_000
PAPER_PX = 688
"""The width of A4 within the margins of the page's style, at 96 dpi."""

# What reaches beyond the page, and every text of a figure with the size that it has on the screen.
CUT = """() => {
    const within = (box, frame) => box.right <= frame + 1 && box.left >= -1;
    const hints = (each) => getComputedStyle(each).backgroundImage.includes("gradient");
    const found = [];
    for (const each of document.querySelectorAll("main *, .toc *")) {
        const box = each.getBoundingClientRect();
        if (!box.width || !box.height || each.closest(".records thead, figure .wide, svg")) continue;
        const scroller = each.parentElement.closest(".scroll, .prose table, .toc");
        if (scroller ? scroller.scrollWidth > scroller.clientWidth + 1 && !hints(scroller) : !within(box, innerWidth))
            found.push(`${each.tagName} ${each.className} ${Math.round(box.left)}..${Math.round(box.right)}`);
    }
    return found;
}"""
BEYOND = """() => [...document.querySelectorAll("main table, main svg, main pre")]
    .filter((each) => each.getBoundingClientRect().right > innerWidth + 1).map((each) => each.outerHTML.slice(0, 200))"""
LETTERS = """() => [...document.querySelectorAll("figure svg text")].flatMap((text) => {
    const box = text.getBoundingClientRect(), svg = text.ownerSVGElement;
    const hidden = text.closest(".wide") && getComputedStyle(text.closest(".wide")).position === "absolute";
    const shown = !hidden && box.width && getComputedStyle(text.closest("figure")).display !== "none";
    return shown ? [parseFloat(getComputedStyle(text).fontSize) * Math.hypot(text.getScreenCTM().a, text.getScreenCTM().b)] : [];
})"""


@pytest.fixture(scope="module")
def report(tmp_path_factory, request):
    """Of a study with pictures of several cells, claims, published numbers and a conclusion."""
    study = Study.load(request.config.rootpath / "studies/nitk")
    folder = tmp_path_factory.mktemp("screen")
    return write_report(execute(plan(study, engine=PlausibleEngine(), out=folder)), folder, figures=("svg",))


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    """Of a network that is wider than upright paper."""
    names = ["a", "r1", "r2", "r3", "z"]
    links = {f"l{n}": {"ends": pair, "both": {"rate": "10mbit", "delay": "1ms"}} for n, pair in enumerate(pairwise(names))}
    nodes = {name: {"router": True} if name.startswith("r") else {} for name in names}
    tree = {"name": "chain", "topology": {"nodes": nodes, "links": links}, "flows": {"f": {"client": "a", "server": "z"}}, "duration": "2s"}
    folder = tmp_path_factory.mktemp("chain")
    return write_report(execute(plan(Study.model_validate(tree), out=folder)), folder, figures=("svg",))


@pytest.fixture(scope="module")
def home(tmp_path_factory, request):
    """Of several kinds of applications beside one another, with one cell's pictures alone."""
    study = Study.load(request.config.rootpath / "python/polypath/templates/home-line.yaml").replace(seeds=1, claims=())
    folder = tmp_path_factory.mktemp("home")
    return write_report(execute(plan(study, out=folder)), folder, figures=("svg",))


def opened(chromium, report, width, media="screen"):
    page = chromium.new_page(viewport={"width": width, "height": 900})
    page.set_default_timeout(PATIENCE_MS)
    page.emulate_media(media=media)
    page.goto(report.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    return page


@pytest.mark.parametrize("width", [390, 768, 1280])
@pytest.mark.parametrize("name", ["report", "home"])
def test_nothing_is_cut_but_by_a_scroller_that_shows_it(chromium, request, name, width):
    page = opened(chromium, request.getfixturevalue(name), width)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate(CUT) == []
    page.close()


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["report", "home"])
def test_letters_of_figures_can_be_read(chromium, request, name, width):
    page = opened(chromium, request.getfixturevalue(name), width)
    sizes = page.evaluate(LETTERS)
    assert len(sizes) > 50
    # Addresses are the smallest, drawn at 10.5 px and shrunk to three quarters.
    assert min(sizes) >= 7.5
    page.close()


def test_on_a_phone_rows_and_pictures_stand_beneath_one_another(chromium, report):
    page = opened(chromium, report, 390)
    table = page.locator("#experiment-v0 table.records").first
    lines = table.locator("tbody tr").last.locator("td")
    assert lines.count() >= 6
    assert lines.nth(1).evaluate("each => getComputedStyle(each, '::before').content") == '"Goodput, Mbit/s"'
    boxes = [lines.nth(index).bounding_box() for index in range(4)]
    assert all(below["y"] >= above["y"] + above["height"] - 1 for above, below in pairwise(boxes))
    figure = page.locator("figure:has(h4:text-is('Congestion window'))").first
    pictures = figure.locator(".narrow > svg")
    assert pictures.count() == 5
    boxes = [pictures.nth(index).bounding_box() for index in range(5)]
    assert all(below["y"] > above["y"] + 100 for above, below in pairwise(boxes))
    assert {"path1", "path2"} <= set(figure.locator(".legend span").all_inner_texts())
    # They show parts of the wide drawing, and so need it: its lines are there.
    ink = pictures.first.screenshot()
    pictures.first.evaluate("each => each.replaceChildren()")
    assert pictures.first.screenshot() != ink
    page.close()


@pytest.mark.parametrize("name", ["report", "home"])
def test_nothing_is_cut_on_paper(chromium, request, name):
    page = opened(chromium, request.getfixturevalue(name), PAPER_PX, media="print")
    assert page.evaluate("document.documentElement.scrollWidth") == PAPER_PX
    assert page.evaluate(BEYOND) == []
    page.close()


@pytest.mark.parametrize("name", ["home", "chain"])
def test_a_wide_network_is_printed_across(chromium, request, name):
    page = opened(chromium, request.getfixturevalue(name), PAPER_PX, media="print")
    boxes = re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", page.pdf(format="A4", prefer_css_page_size=True))
    across = [float(width) > float(height) for width, height in boxes]
    assert across.count(True) == (name == "chain")
    assert not across[0] and len(across) > 1
    page.close()
