"""What a stranger wrote into a study reaches the terminal and the report as text alone."""

import io
import re

import pytest
from wrong_inputs import BASE

from polypath import StudyError
from polypath.errors import visible
from polypath.terminal import console

# Clears the screen, sets the clipboard, a bell, text that reads backwards.
STEERS = "a\\e[2J\\e]52;c;cm0gLXJm\\ab\\x9b31mc\\rd\\u202ee\\u2066f"
TEXTS = f"""\
title: "{STEERS} [bold]title[/nothing] :smile:"
question: "{STEERS} [/] why?"
source: "{STEERS}"
conclusion: "{STEERS} ![i](http://203.0.113.1/i.png) [l](http://203.0.113.1/l) <img src=http://203.0.113.1/j.png> <script>alert(1)</script>"
highlights: {{"{STEERS}": "{STEERS}"}}
"""
ALARMING = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u202a-\\u202e\\u2066-\\u2069]")


def test_no_command_lets_a_study_steer_the_terminal(polypath, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.yaml").write_text(BASE.replace("duration: 2s", "duration: 500ms") + TEXTS)
    shown = "results/base"
    for command in (("show", "."), ("run", ".", "--dry-run"), ("run", "."), ("show", shown), ("report", shown)):
        code, out, err = polypath(*command)
        assert code == 0, err
        assert not ALARMING.findall(out + err), command
        assert "Traceback" not in err
    code, out, _ = polypath("run", ".")
    assert r"a\x1b[2J\x1b]52;c;cm0gLXJmb\x9b31mc" in out
    assert "[bold]title[/nothing] :smile:" in polypath("show", ".")[1]
    page = (tmp_path / "results" / "base" / "report.html").read_text()
    assert not ALARMING.findall(page)
    assert "<img" not in page and "<script" not in page and "<link" not in page
    assert 'http-equiv="Content-Security-Policy" content="default-src &#39;none&#39;; img-src data:' in page


def test_a_mistake_does_not_steer_the_terminal_either(polypath, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for wrong in ("duration: '\\e[2J'", "kernel: '\\e]52;c;eA==\\a'", "'\\e[2Jx': 1"):
        (tmp_path / "study.yaml").write_text(BASE + wrong.replace("'", '"') + "\n")
        code, out, err = polypath("run", ".")
        assert (code, out) == (2, "")
        assert err.startswith("polypath: study.yaml:15:"), err
        assert not ALARMING.findall(err)


def test_a_terminal_shows_styles_of_ours_alone_and_what_is_readable():
    from rich.markdown import Markdown
    from rich.table import Table
    from rich.text import Text

    screen = io.StringIO()
    out = console(file=screen, force_terminal=True, width=100)
    table = Table("head\x1b[2J", title="\x9b31m")
    table.add_row("\x1b]0;x\x07", "[/red]")
    words = Markdown("**b** \x1b[2J [l](http://203.0.113.1/) `\x1b]52;c;eA==\x07`", hyperlinks=False)
    for shown in (Text("\x1b[2J", style="bold"), table, words):
        out.print(shown)
    assert "\x1b[1m" in screen.getvalue()
    assert not ALARMING.findall(re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue()))
    for text in ("Müller → 5 µs ± 1 %", "a\nb\tc", "日本語 👩‍💻"):
        assert visible(text) == text


@pytest.mark.parametrize("width", [1280, 390])
def test_the_report_opens_in_a_browser_without_a_word_and_asks_nobody(polypath, tmp_path, monkeypatch, chromium, width):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.yaml").write_text(BASE.replace("duration: 2s", "duration: 500ms") + TEXTS)
    assert polypath("run", ".")[0] == 0
    page = chromium.new_page(viewport={"width": width, "height": 900})
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto((tmp_path / "results" / "base" / "report.html").as_uri(), wait_until="networkidle")
    assert said == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    # Styles count, and nothing that the study brings is run.
    assert page.evaluate("getComputedStyle(document.querySelector('.fact b')).fontSize") > "16px"
    page.close()


def test_published_numbers_are_of_the_studys_folder_alone(tmp_path):
    from polypath import Study

    folder = tmp_path / "study"
    folder.mkdir()
    (tmp_path / "outside.csv").write_text("cc,goodput\ncubic,9\n")
    (folder / "link.csv").symlink_to(tmp_path / "outside.csv")
    for name, sentence in {
        "../outside.csv": '"../outside.csv" leads out of the study\'s folder',
        str(tmp_path / "outside.csv"): f'"{tmp_path}/outside.csv" leads out of the study\'s folder',
        "link.csv": '"link.csv" is a link that leads out of the study\'s folder',
    }.items():
        text = BASE + f"published: {{file: {name}, keys: [cc], compare: {{goodput: goodput_receiver_mbps}}}}\n"
        (folder / "study.yaml").write_text(text)
        with pytest.raises(StudyError, match=rf"study\.yaml:15: published\.file: {re.escape(sentence)}"):
            Study.load(folder)
