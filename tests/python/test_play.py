"""The playground: the page in Chromium."""

import csv
import json
import re
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import yaml
from requirement import lacking

from polypath.play import SITE, PlayError, declared, other_build, serve
from polypath.results import Results
from polypath.study import MODELLED, Study, cells, scenario

ROOT = Path(__file__).resolve().parents[2]
KNOWN = ROOT / "crates/sim/tests/known_bytes"
# A machine that is busy with other tests.
PATIENCE_MS = 120_000
BUILT = (SITE / "polypath.wasm").is_file()


@pytest.fixture(scope="module")
def address():
    """The playground, served."""
    if not BUILT:
        lacking("web", "the playground is not built: make playground")
    found, is_up = [], threading.Event()

    def ready(address):
        found.append(address)
        is_up.set()

    threading.Thread(target=serve, args=(0,), kwargs={"ready": ready}, daemon=True).start()
    assert is_up.wait(60)
    yield found[0]


@pytest.fixture
def page(chromium, address):
    """The page with its first run; its mistakes and foreign requests fail the test."""
    context = chromium.new_context(viewport={"width": 1400, "height": 1000}, accept_downloads=True)
    context.set_default_timeout(PATIENCE_MS)
    page, mistakes = context.new_page(), []
    page.on("pageerror", lambda error: mistakes.append(str(error)))
    page.on("console", lambda message: mistakes.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: None if request.url.startswith((address, "blob:", "data:")) else mistakes.append(request.url))
    page.goto(address)
    page.wait_for_selector("#side-a[data-digest]")
    yield page
    context.close()
    assert mistakes == []


def digest(page, side="a"):
    return page.get_attribute(f"#side-{side}", "data-digest")


def goodput(page, side="a"):
    return float(page.get_attribute(f"#side-{side}", "data-goodput"))


def wait_for_another(page, old, side="a"):
    page.wait_for_function("([side, old]) => document.querySelector(`#side-${side}`).dataset.digest !== old", arg=[side, old])


MODULES = """
    const load = (name) => import(new URL(`${name}.js`, location.href));
    const [{ Engine }, { studyOf, studyText }, { scenarioOf }, { settingsOf }, { DEFAULTS, FIELDS, checked }, { PRESETS }, address] =
        await Promise.all(["engine", "study", "scenario", "open", "fields", "presets", "address"].map(load));
    const { fromHash, toHash } = address;
    const declared = await (await fetch("declared.json")).json();
"""


def test_fifty_scenarios_and_more_have_the_digests_of_the_native_build(page):
    lines = [json.loads(line) for line in (KNOWN / "scenarios.jsonl").read_text().splitlines()]
    with (KNOWN / "digests.tsv").open() as file:
        known = {row["scenario"]: row["digest"] for row in csv.DictReader(file, delimiter="\t")}
    found = page.evaluate(
        f"""async (lines) => {{
            {MODULES}
            const engine = await Engine.load(await (await fetch("polypath.wasm")).arrayBuffer());
            return lines.map(({{ name, scenario }}) => {{
                engine.begin(scenario);
                engine.advance(scenario.duration_ns);
                return [name, engine.finish().digest];
            }});
        }}""",
        lines,
    )
    assert len(found) >= 50
    assert dict(found) == known


# What each setting can be, a few at a time: every choice, and numbers away from their defaults.
SETTINGS = [
    {},
    # More jitter than delay; cuts that begin or end behind the run's end.
    {"path1.jitter": 30, "path2.cut_at": 9, "path2.cut_for": 5, "path1.cut_at": 12, "path1.cut_for": 1, "path2.loss": 0.01},
    {"layout": "shared-bottleneck", "rival": "tcp", "direction": "upload", "cc": "olia", "rival_cc": "reno", "bottleneck.aqm": "fq_codel"},
    {"rival": "call", "path1.aqm": "codel", "path2.aqm": "pie", "path1.back": 10, "path2.jitter": 5.5, "kernel": "6.1"},
    {"path1.radio": "wifi6", "path1.cut_at": 4, "path1.cut_for": 2.5, "path1.loss": 0.07, "path2.radio": "5g", "seed": 3, "duration": 7},
    {"transport": "tcp", "app": "transfer", "size": 2500, "path1.loss": 1.25, "path1.delay": 0.3, "path1.rate": 0.7, "duration": 20},
    {"app": "requests", "size": 50, "pause": 0, "path1.cut_at": 1, "path1.cut_for": 1, "path2.aqm": "dualpi2"},
    {"app": "requests", "kernel": "5.4-mptcp", "scheduler": "redundant", "cc": "balia", "path1.cut_at": 1, "path1.cut_for": 1},
    {"app": "constant", "stream": 12.5, "direction": "upload", "transport": "tcp", "rival": "call"},
    {"app": "on_off", "direction": "upload", "scheduler": "ecf", "rival": "call", "path2.queue": 7, "layout": "shared-bottleneck"},
]


# By chance: choices and numbers, a third of them away from their defaults.
BY_CHANCE = """
    let state = 7;
    const draw = () => (state = (state * 1103515245 + 12345) % 2147483648) / 2147483648;
    const value = (field) => field.kind === "choice" ? field.choices[Math.floor(draw() * field.choices.length)].name
        : checked(field, field.min + (field.max - field.min) * draw() ** 4);
    const all = [...given];
    while (all.length < 60) all.push(Object.fromEntries(FIELDS.filter(() => draw() < 1 / 3).map((field) => [field.key, value(field)])));
"""


def plain(made):
    """As JavaScript counts: it has no whole numbers above 2**53."""
    return json.loads(json.dumps(made), parse_int=float)


def test_python_makes_the_same_scenario_of_a_study_that_is_saved_and_the_page_opens_it(page):
    made = page.evaluate(
        f"""async (given) => {{
            {MODULES}
            {BY_CHANCE}
            const scenario = (settings) => scenarioOf(studyOf(settings), declared);
            return all.map((each) => {{
                const settings = {{ ...DEFAULTS, ...each }};
                const {{ settings: opened, notes }} = settingsOf(studyText(settings));
                const back = fromHash(toHash({{ a: settings, b: null, moment: 2 }}));
                return {{ text: studyText(settings), scenario: scenario(settings), opened: scenario(opened), notes, settings, back }};
            }});
        }}""",
        SETTINGS,
    )
    assert len(made) == 60
    for each in made:
        (cell,) = cells(Study.model_validate(yaml.safe_load(each["text"])))
        assert plain(scenario(cell.setup, cell.seeds[0])) == plain(each["scenario"]), each["text"]
        assert (each["opened"], each["notes"]) == (each["scenario"], []), each["text"]
        assert (each["back"]["state"]["a"], each["back"]["faults"]) == (each["settings"], [])


def test_a_dragged_slider_changes_the_charts_and_the_address(page):
    before, old = digest(page), goodput(page)
    slider = page.locator('input[data-field="path1.rate"]')
    box = slider.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    for step in range(5):
        page.mouse.move(box["x"] + box["width"] * (0.5 - 0.08 * step), box["y"] + box["height"] / 2)
    page.mouse.up()
    wait_for_another(page, before)
    page.wait_for_function("() => location.hash.includes('path1.rate=')")
    rate = float(page.input_value('input[name="path1.rate"]'))
    assert rate < 25
    page.wait_for_function("(most) => Number(document.querySelector('#side-a').dataset.goodput) < most", arg=(rate + 20) * 1e6)
    assert goodput(page) < old
    assert page.locator("figure.chart canvas").count() == 5
    assert re.search(r"path 1 \d", page.get_attribute("figure.goodput", "aria-label"))


def test_it_works_by_keyboard_and_a_wrong_number_changes_nothing(page):
    before = digest(page)
    page.focus('input[data-field="path1.rate"]')
    page.keyboard.press("ArrowLeft")
    assert page.input_value('input[name="path1.rate"]') == "49"
    wait_for_another(page, before)
    page.focus("#play")
    page.keyboard.press("Enter")
    page.wait_for_function("() => Number(document.querySelector('#moment').value) > 2.2")
    page.keyboard.press("Enter")
    assert page.text_content("#play") == "Play"
    before = digest(page)
    page.fill('input[name="path1.rate"]', "5000")
    assert "from 0.1 to 1000" in page.evaluate("() => document.querySelector('input[name=\"path1.rate\"]').validationMessage")
    # The next one that is right is the next that is drawn.
    page.fill('input[name="path1.rate"]', "48")
    wait_for_another(page, before)
    assert goodput(page) < 48e6 + 20e6


def test_two_settings_stand_side_by_side_and_the_address_brings_them_back(page, address):
    page.check("#compare")
    page.wait_for_selector("#side-b[data-digest]")
    assert digest(page, "b") == digest(page)
    assert page.text_content("#side-b .apart") == "the same settings so far"
    page.select_option('select[name="cc"]', "lia")
    wait_for_another(page, digest(page), "b")
    # Each is headed by what the other one has not.
    heads = [page.text_content(f"#side-{side} .apart") for side in "ab"]
    assert heads == ["congestion control cubic", "congestion control lia"]
    page.wait_for_function("() => location.hash.includes('b.cc=lia') && location.hash.includes('compare=1')")
    both, link = (digest(page), digest(page, "b")), page.evaluate("() => location.href")
    other = page.context.new_page()
    other.goto(link)
    other.wait_for_selector("#side-a[data-digest]")
    other.wait_for_selector("#side-b[data-digest]")
    assert (digest(other), digest(other, "b")) == both


def test_a_word_of_the_address_that_means_nothing_is_said(page, address):
    page.goto(f"{address}#cc=cubik&path1.rat=5")
    page.wait_for_function("() => document.querySelector('#said').textContent.includes('path1.rat, which is no setting')")
    assert 'cc cannot be "cubik"; there are' in page.text_content("#said")


def test_the_packets_of_a_moment_are_shown(page):
    page.click("#packets > summary")
    page.wait_for_function("() => document.querySelectorAll('#packets tbody tr').length > 50")
    before = page.text_content("#packets .summary")
    # So few that each can be seen.
    assert page.eval_on_selector("#span", "(choice) => choice.value") == "0.005"
    page.select_option("#span", "0.05")
    page.wait_for_function("(before) => document.querySelector('#packets .summary').textContent !== before", arg=before)
    summary = page.text_content("#packets .summary")
    first, second = re.findall(r"path (\d): (\d+) packets, (\d+) with data", summary)
    # 50 ms of 50 and 20 Mbit/s in packets of 1514 bytes, and what waits at its beginning.
    assert (first[0], second[0]) == ("1", "2")
    assert 206 < int(first[2]) < 206 + 200
    assert 82 < int(second[2]) < 82 + 200
    # More than a hundred are on their way at once on either path: each has some room of its own.
    assert page.eval_on_selector("#packets canvas", "(canvas) => canvas.clientHeight") > 2 * 300
    with page.expect_download() as saved:
        page.click("#pcap")
    assert saved.value.path().read_bytes()[:4] == b"\x0a\x0d\x0d\x0a"


def compared(page, setting, value):
    """Set-up B beside A, with another value of one setting."""
    page.check("#compare")
    page.wait_for_selector("#side-b[data-digest]")
    old = digest(page, "b")
    page.select_option(f"[id='field-{setting}']", value)
    wait_for_another(page, old, "b")


def runs_of_saved(page, polypath, folder):
    """What `polypath run` makes of the study that the page saves."""
    with page.expect_download() as saved:
        page.click("#save")
    assert saved.value.suggested_filename == "study.yaml"
    shutil.copy(saved.value.path(), folder / "study.yaml")
    code, _, err = polypath("run", folder / "study.yaml", "--out", folder / "out", "--no-report")
    assert code == 0, err
    # Named by what the study holds, so that the next one does not write over these results.
    (results,) = (folder / "out").glob("playground-*")
    return Results.open(results).runs


def test_two_set_ups_are_saved_as_one_study_of_two_cells(page, polypath, tmp_path):
    compared(page, "cc", "bbr")
    runs = runs_of_saved(page, polypath, tmp_path)
    assert "both set-ups" in page.inner_text("#said")
    found = dict(zip(runs["setup"], runs["goodput_receiver_mbps"] * 1e6, strict=True))
    assert found == pytest.approx({"a": goodput(page), "b": goodput(page, "b")}, rel=1e-12)


def test_two_set_ups_that_differ_in_more_than_values_are_a_study_each(page):
    compared(page, "layout", "shared-bottleneck")
    files = []
    page.on("download", lambda download: files.append(download.suggested_filename))
    page.click("#save")
    page.wait_for_function("() => document.querySelector('#said').textContent.includes('study-b.yaml')")
    page.wait_for_timeout(500)
    assert sorted(files) == ["study-a.yaml", "study-b.yaml"]


# Choices whose words are longer than their box, less its arrow.
CUT_CHOICES = """() => {
    const pen = document.createElement("canvas").getContext("2d");
    const shown = [...document.querySelectorAll("select")].filter((select) => select.offsetWidth);
    return shown.flatMap((select) => {
        const style = getComputedStyle(select);
        const room = select.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight) - 18;
        pen.font = style.font;
        return [...select.options].map((option) => option.text).filter((text) => pen.measureText(text).width > room);
    });
}"""


def test_nothing_of_two_set_ups_is_cut_at_a_desk_and_on_a_phone_their_charts_alternate(page):
    page.set_viewport_size({"width": 1280, "height": 900})
    compared(page, "cc", "bbr")
    tables = page.eval_on_selector_all(".side .tables", "found => found.map((each) => [each.scrollWidth, each.clientWidth])")
    assert len(tables) == 2 and all(wide <= room for wide, room in tables)
    assert page.evaluate(CUT_CHOICES) == []
    page.set_viewport_size({"width": 390, "height": 844})
    tops = page.eval_on_selector_all(".chart", "found => found.map((each) => [each.closest('.side').id, each.getBoundingClientRect().top])")
    order = [side for side, _ in sorted(tops, key=lambda each: each[1])]
    assert order[:4] == ["side-a", "side-b", "side-a", "side-b"]


def test_figures_say_what_the_links_carry_and_what_a_delay_counts(page):
    rows = dict(
        page.eval_on_selector_all(
            "#side-a .figures tbody tr", "found => found.map((each) => [each.cells[0].textContent, each.cells[1].textContent])"
        )
    )
    assert float(rows["The links' rate"]) == 70
    # Bulk data wait in the send buffer, which is no delay that anybody asks for.
    assert "Round trip, mean" in rows and not any(label.startswith("Delay") for label in rows)
    parts = [float(rows[f"Over path {path}"]) for path in (1, 2)]
    assert sum(parts) == pytest.approx(100, abs=0.2) and parts[0] > parts[1] > 10
    assert "Delay, one way" in page.inner_text("#controls")
    assert re.search(r"; possible 65\.8$", page.get_attribute("figure.goodput", "aria-label"))
    page.select_option('select[name="app"]', "constant")
    page.wait_for_function("() => document.querySelector('#side-a .figures').textContent.includes('Delay, median')")


# What the page says of a set-up below its tables, and what is possible at 3, 5 and 8 s.
SAID_OF = f"""async (given) => {{
    {MODULES}
    const {{ chartsOf, figuresOf, missing, possibleOf, possibleOver }} = await import(new URL("results.js", location.href));
    const engine = await Engine.load(await (await fetch("polypath.wasm")).arrayBuffer());
    const preset = PRESETS.find(({{ name }}) => name === given.preset)?.settings;
    const scenario = scenarioOf(studyOf({{ ...DEFAULTS, ...preset, ...given }}), declared);
    engine.begin(scenario);
    engine.advance(Infinity);
    const result = engine.finish();
    const {{ times }} = chartsOf(scenario, result);
    const over = possibleOver(scenario, times);
    const [{{ label }}] = figuresOf(scenario, result);
    const said = missing(scenario, result, possibleOf(scenario), given.best);
    return [said, over && [3, 5, 8].map((at) => over[times.indexOf(at)]), label];
}}"""


def test_what_is_said_of_the_rest_is_of_what_was_sent(page):
    for app in ("transfer", "requests", "on_off", "constant"):
        said, over, label = page.evaluate(SAID_OF, {"app": app})
        assert (said, over) == ("", None), app
        assert label == ("Goodput of the requests" if app == "requests" else "Goodput")
    # While the Wi-Fi is cut, only LTE's 25 Mbit/s are possible.
    said, (before, cut, after), _ = page.evaluate(SAID_OF, {"preset": "wifi-lte", "best": 105})
    mean = re.match(r"The links change over time: of 105 Mbit/s they carry ([\d.]+) in the mean\. Of \1 Mbit/s headers take ", said)
    assert cut == pytest.approx(25 * 1424 / 1514) and min(before, after) > cut
    assert cut < float(mean[1]) < 105
    # Two flows fit into what the bottleneck carries.
    said, over, _ = page.evaluate(SAID_OF, {"preset": "shared-bottleneck", "best": 20})
    assert re.fullmatch(r"Of 20 Mbit/s headers take 1\.[0-2](; the start, losses and waiting take 0\.\d+)?, both flows together\.", said)
    assert over is None


def test_the_values_of_a_moment_after_the_end_are_headed_by_the_end(page):
    caption = "#side-a table.moment caption"
    assert page.inner_text(caption) == "At 2.00 s, the line in the charts"
    page.select_option('select[name="app"]', "transfer")
    page.wait_for_function(
        "(which) => /^At 0\\.\\d\\d s, when the run ended$/.test(document.querySelector(which).textContent)", arg=caption
    )


def test_a_page_with_another_simulator_says_so_here_and_there(chromium, tmp_path, address):
    assert other_build() == ""
    site = shutil.copytree(SITE, tmp_path / "site")
    (site / "version.txt").write_text("0.0.1+abc\n")
    assert other_build(site).startswith("the page has another simulator (0.0.1+abc) than `polypath run` (0.")
    found, is_up = [], threading.Event()
    ready = {"ready": lambda at: (found.append(at), is_up.set())}
    threading.Thread(target=serve, args=(0,), kwargs={"site": site, **ready}, daemon=True).start()
    assert is_up.wait(60)
    context = chromium.new_context()
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    for at, is_another in ((found[0], True), (address, False)):
        page.goto(at)
        page.wait_for_selector("#side-a[data-digest]")
        assert page.is_visible("#other-build") is is_another
    context.close()
    (site / "version.txt").unlink()
    assert "(of no known version)" in other_build(site)


def test_the_page_says_that_it_is_loading(chromium, address):
    context = chromium.new_context()
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.route("**/polypath.wasm", lambda route: None)
    page.goto(address)
    assert page.inner_text("#loading") == "Loading the simulator: a few seconds."
    context.close()


def test_a_figure_is_saved_for_a_slide(page):
    with page.expect_download() as saved:
        page.click("figure.goodput button")
    assert saved.value.suggested_filename == "goodput.png"
    size, colours = page.evaluate(
        """async (bytes) => {
            const image = await createImageBitmap(new Blob([Uint8Array.from(bytes)], { type: "image/png" }));
            const ctx = new OffscreenCanvas(image.width, image.height).getContext("2d");
            ctx.drawImage(image, 0, 0);
            const all = new Uint32Array(ctx.getImageData(0, 0, image.width, image.height).data.buffer);
            return [[image.width, image.height], [...new Set(all)].map((each) => each & 0xffffff)];
        }""",
        list(saved.value.path().read_bytes()),
    )
    assert size == [1920, 1068]
    # Its title and both paths' lines are in it; blue, green, red.
    assert {0x33291F, 0xB06727, 0x0C41C2} <= set(colours)


def test_on_a_phone_a_handle_closes_opens_and_sizes_the_settings(chromium, address):
    context = chromium.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector("#side-a[data-digest]")
    height = "() => document.querySelector('aside').offsetHeight"
    opened = page.evaluate(height)
    page.tap("#handle")
    assert page.evaluate(height) < 50 < 300 < opened
    assert page.get_attribute("#handle", "aria-expanded") == "false"
    page.tap("#handle")
    assert page.evaluate(height) == pytest.approx(opened, abs=2)
    box = page.locator("#handle").bounding_box()
    page.mouse.move(200, box["y"] + 10)
    page.mouse.down()
    page.mouse.move(200, 300, steps=4)
    page.mouse.up()
    assert page.evaluate(height) == pytest.approx(844 - 300 + 20, abs=4)
    # What stands last can still be scrolled above the drawer.
    page.evaluate("() => window.scrollTo(0, document.body.scrollHeight)")
    last, drawer = (page.locator(which).bounding_box() for which in ("#packets", "aside"))
    assert last["y"] + last["height"] <= drawer["y"]
    context.close()


@pytest.mark.parametrize("preset", ["two-paths", "shared-bottleneck", "home-line", "wifi-5g"])
def test_what_is_possible_is_what_python_finds(page, preset, tmp_path, polypath):
    made = page.evaluate(
        f"""async () => {{
            {MODULES}
            const {{ possibleOf }} = await import(new URL("results.js", location.href));
            const settings = {{ ...DEFAULTS, ...PRESETS.find(({{ name }}) => name === "{preset}").settings }};
            const scenario = scenarioOf(studyOf(settings), declared);
            return [scenario, possibleOf(scenario).possible];
        }}"""
    )
    from polypath.analysis import possible

    found = possible(made[0]).set_index("flow")["possible_mbps"]["connection"]
    assert made[1] == pytest.approx(found, rel=1e-3)


def test_the_network_and_the_lists_are_drawn_and_follow_the_settings(page):
    said = re.fullmatch(
        r"Of 70 Mbit/s headers take ([\d.]+); the start, losses and waiting take ([\d.]+)\.", page.inner_text("#side-a .why")
    )
    # Headers are counted of what was sent, so nothing is left over.
    assert goodput(page) / 1e6 + sum(map(float, said.groups())) == pytest.approx(70, abs=0.1)
    assert page.locator("#loading").count() == 0
    # In a process of its own: this one may have algorithms of other tests.
    ask = "import json; from polypath import _native as n; "
    ask += "print(json.dumps([[row[0] for row in rows] for rows in (n.algorithms(), n.schedulers())]))"
    algorithms, schedulers = json.loads(subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True).stdout)
    for field, native in (("cc", algorithms), ("kernel", [*MODELLED])):
        assert page.eval_on_selector_all(f'select[name="{field}"] option', "(all) => all.map((each) => each.value)") == native
    offered = page.eval_on_selector_all('select[name="scheduler"] option', "(all) => all.map((each) => each.value)")
    assert offered == ["", *schedulers]
    drawn = page.locator("#side-a .network svg")
    assert drawn.get_attribute("aria-label") == "path 1: 50 Mbit/s, 10 ms; path 2: 20 Mbit/s, 25 ms"
    assert page.locator("#side-a .network path").count() == 2
    page.select_option("#preset", "shared-bottleneck")
    page.wait_for_selector("#side-a .network path.bottleneck", state="attached")
    assert page.locator("#side-a .network path.rival").count() == 1
    assert "bottleneck: " in drawn.get_attribute("aria-label")


def test_a_call_is_called_so_in_both_tables_and_the_legend(page, address):
    # The page of before would write its own settings into the address.
    page.goto("about:blank")
    page.goto(f"{address}#rival=call")
    page.wait_for_selector("#side-a[data-digest]")
    heads = page.eval_on_selector_all(
        "#side-a .figures thead th, #side-a .figures thead td, #side-a .moment tbody th", "(all) => all.map((each) => each.textContent)"
    )
    shown = page.eval_on_selector_all("#legend li:not([hidden])", "(all) => all.map((each) => each.textContent)")
    assert heads.count("call") == 2
    assert "call" in shown
    assert "rival" not in [*heads, *shown]


def test_a_saved_study_gives_the_same_figures_with_polypath_run(page, polypath, tmp_path):
    page.select_option("#preset", "home-line")
    page.wait_for_function("() => document.querySelectorAll('#side-a .figures thead th').length === 4")
    wanted = page.evaluate(
        f"""async () => {{
            {MODULES}
            const engine = await Engine.load(await (await fetch("polypath.wasm")).arrayBuffer());
            const settings = {{ ...DEFAULTS, ...PRESETS.find(({{ name }}) => name === "home-line").settings }};
            engine.begin(scenarioOf(studyOf(settings), declared));
            engine.advance(Infinity);
            return Object.fromEntries(engine.finish().outcome.flows.map((flow) => [flow.name, flow.goodput_receiver_bps]));
        }}"""
    )
    assert goodput(page) == wanted["connection"]
    runs = runs_of_saved(page, polypath, tmp_path)
    assert dict(zip(runs["flow"], runs["goodput_receiver_mbps"] * 1e6, strict=True)) == pytest.approx(wanted, rel=1e-12)


def opened(page, text):
    page.set_input_files("#file", {"name": "study.yaml", "mimeType": "text/yaml", "buffer": text.encode()})
    page.wait_for_function("() => document.querySelector('#said').textContent")
    return page.text_content("#said")


def test_the_template_of_two_paths_is_opened(page):
    text = (ROOT / "python/polypath/templates/two-paths.yaml").read_text().replace("NAME", "mine", 1)
    said = opened(page, text)
    assert said.startswith("study.yaml is open.")
    assert "the first values are taken: cc cubic" in said
    assert (page.input_value('input[name="path2.delay"]'), page.input_value('input[name="duration"]')) == ("25", "20")


TEMPLATES = {
    "mptcp-vs-tcp": (
        ("experiments: the first one is taken: mptcp", "matrix: the first values are taken: size 100KB"),
        {"transport": "mptcp", "app": "transfer", "size": "100", "path1.rate": "50", "path2.delay": "30"},
    ),
    "video-call": (("matrix: the first values are taken: scheduler default",), {"app": "constant", "stream": "2.5", "path2.jitter": "10"}),
    "web-page": (("path 2: the study has no second path",), {"app": "requests", "transport": "tcp", "size": "30", "pause": "200"}),
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_templates_are_opened(page, name):
    said = opened(page, (ROOT / f"python/polypath/templates/{name}.yaml").read_text().replace("NAME", "mine", 1))
    notes, fields = TEMPLATES[name]
    assert said.startswith("study.yaml is open.") and all(note in said for note in notes), said
    assert {field: page.input_value(f'[name="{field}"]') for field in fields} == fields


def test_the_path_of_a_connection_and_what_bundles_bring_are_taken(page):
    study = yaml.safe_load((ROOT / "python/polypath/templates/mptcp-vs-tcp.yaml").read_text())
    study["experiments"] = {"tcp-slow": study["experiments"]["tcp-slow"]}
    study["experiments"]["tcp-slow"]["matrix"]["how"] = ["small", "large"]
    study["bundles"] = {"how": {"small": {"cc": "reno"}, "large": {"cc": "lia"}}}
    study["flows"]["file"]["cc"] = "${cc}"
    assert opened(page, yaml.safe_dump(study)).startswith("study.yaml is open.")
    values = [page.input_value(f'[name="{field}"]') for field in ("transport", "cc", "path1.rate", "path1.delay", "path2.rate")]
    assert values == ["tcp", "reno", "20", "30", "50"]


REFUSED = [
    ("a: [", "this is no study file"),
    ("topology: {}", "it has no topology and flows"),
    ("sysctl", "topology.nodes.client.sysctl: the playground has no such setting"),
    ("tunnels", "topology.tunnels: the playground has no such setting"),
    ("parameter", 'flows.connection.cc: "${cc}" stands for a parameter that has no value'),
    ("third", "topology.links: the playground has two paths, and `client` has 3 links"),
    ("cc", 'flows.connection.cc: cc cannot be "cubik"; there are balia,'),
    ("rate", 'topology.links.path1.rate: "50" is no rate'),
]


@pytest.mark.parametrize(("what", "sentence"), REFUSED, ids=lambda value: value[:12])
def test_a_study_that_the_page_has_no_setting_for_is_refused_in_a_sentence(page, what, sentence):
    study = yaml.safe_load(page.evaluate(f"async () => {{ {MODULES} return studyText(DEFAULTS); }}"))
    match what:
        case "sysctl":
            study["topology"]["nodes"]["client"]["sysctl"] = {"net.ipv4.tcp_sack": 0}
        case "tunnels":
            study["topology"]["tunnels"] = {"t": {}}
        case "parameter":
            study["flows"]["connection"]["cc"] = "${cc}"
            study["experiments"] = {"one": {"parameters": {"scheduler": "default"}}}
        case "third":
            study["topology"]["links"]["third"] = {"ends": ["client", "server"], "both": {"rate": "1mbit"}}
        case "cc":
            study["flows"]["connection"]["cc"] = "cubik"
        case "rate":
            study["topology"]["links"]["path1"]["forward"]["rate"] = study["topology"]["links"]["path1"]["backward"]["rate"] = "50"
        case _:
            study = None
    before = digest(page)
    said = opened(page, what if study is None else yaml.safe_dump(study))
    assert said.startswith("study.yaml cannot be opened here.")
    assert sentence in said
    assert digest(page) == before


def test_on_a_phone_nothing_is_wider_than_the_screen(chromium, address):
    context = chromium.new_context(viewport={"width": 360, "height": 740}, color_scheme="dark")
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.goto(f"{address}#compare=1&b.cc=lia&rival=tcp")
    page.wait_for_selector("#side-b[data-digest]")
    assert page.evaluate("() => document.documentElement.scrollWidth") == 360
    slider = page.locator('input[data-field="path1.rate"]')
    assert slider.is_visible()
    # What moves with the slider is in sight beside it.
    chart, controls = (page.locator(which).first.bounding_box() for which in ("figure.goodput canvas", "aside"))
    assert chart["y"] + chart["height"] / 2 < controls["y"]
    # Every control has a name that a screen reader says.
    named = "(all) => all.every((each) => each.labels?.length || each.ariaLabel || each.textContent)"
    assert page.eval_on_selector_all("input:not([type=file]), select, button", named)
    context.close()


def test_the_site_is_what_is_built_and_small(address, tmp_path):
    packed = shutil.make_archive(str(tmp_path / "site"), "gztar", SITE)
    assert Path(packed).stat().st_size < 1_500_000
    assert json.loads((SITE / "declared.json").read_text()) == json.loads(json.dumps(declared()))


def test_what_serves_the_page_is_listed_and_says_what_lacks(polypath, tmp_path, monkeypatch):
    code, out, _ = polypath("play", "--help")
    assert code == 0
    assert "--port" in out
    with pytest.raises(PlayError, match=r"^the playground is not built: run `make playground` in Polypath's folder$"):
        serve(0, site=tmp_path, ready=print)
    (tmp_path / "polypath.wasm").touch()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(PlayError, match=rf"^port {port} is taken by another program: name another one, like"):
            serve(port, site=tmp_path, ready=print)


def test_what_the_build_lacks_is_said_in_one_sentence(tmp_path):
    # What takes minutes is announced before any of it.
    first = (ROOT / "tools/build").read_text(encoding="utf-8").partition("\nplayground() {\n")[2].splitlines()[0]
    assert first.strip() == 'echo "Building the playground: some two minutes of a processor."'
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("bash", "dirname", "awk", "sort", "sh"):
        (folder / name).symlink_to(shutil.which(name))
    done = subprocess.run([ROOT / "tools/build", "playground"], env={"PATH": str(folder)}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(
        r"polypath: the playground is not built, since this machine lacks the Debian packages .*lld.*: "
        r"install them and run make playground again\.\n",
        done.stderr,
    )
