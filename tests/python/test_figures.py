"""Figures in Markdown files."""

import re
import sys
from types import SimpleNamespace

import pytest
from study_data import module_of


@pytest.fixture(scope="module")
def figures(request):
    return module_of(request.config.rootpath / "tools/figures.py")


def page(tmp_path, content, command="printf '| a | 10.0 |\\n| b | 200 |\\n'", settings="tolerance 5 % | cost 1 s"):
    file = tmp_path / "page.md"
    file.write_text(f"before\n\n<!-- figures: {command} | {settings} -->\n{content}\n<!-- end of figures -->\n\nafter\n")
    return file


@pytest.fixture
def tool(figures, monkeypatch, capsys):
    """The command, in this process."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["figures", *map(str, arguments)])
        status = figures.main()
        said = capsys.readouterr()
        return SimpleNamespace(returncode=status, stdout=said.out, stderr=said.err)

    return call


@pytest.mark.parametrize(
    ("content", "status", "said"),
    [
        ("| a | 10.0 |\n| b | 200 |", 0, "1 same"),
        ("| a | 9.8 |\n| b | 205 |", 0, "1 within tolerance"),
        ("| a | 9.3 |\n| b | 200 |", 1, "differs: 1 of 2 numbers: 9.3 is now 10.0"),
        ("| a | 10.0 |\n| c | 200 |", 1, 'differs: the text: "| c | 200 |" is now "| b | 200 |"'),
        ("| a | 10.0 |", 1, "differs: the text: 1 lines are now 2"),
        ("| a | 10.0, 11.0 |\n| b | 200 |", 1, "differs: the text"),
        ("| a | -10.0 |\n| b | 200 |", 1, "differs: 1 of 2 numbers: -10.0 is now 10.0"),
    ],
)
def test_a_block_is_held_against_what_its_command_prints(tool, tmp_path, content, status, said):
    file = page(tmp_path, content)
    before = file.read_text()
    done = tool("--check", file)
    assert (done.returncode, done.stderr) == (status, "")
    assert said in done.stdout
    assert file.read_text() == before


def test_renewing_replaces_the_block_alone_and_once(tool, tmp_path):
    file = page(tmp_path, "| a | 1.0 |\n| b | 2 |")
    with file.open("a") as more:
        more.write("It is <!-- figures: echo 7 | tolerance 0 % | cost 1 s -->6<!-- end of figures --> here.\n")
    assert tool(file).returncode == 0
    renewed = file.read_text()
    assert "-->\n| a | 10.0 |\n| b | 200 |\n<!-- end of figures -->\n\nafter\n" in renewed
    assert "It is <!-- figures: echo 7 | tolerance 0 % | cost 1 s -->7<!-- end of figures --> here.\n" in renewed
    assert "2 same" in tool(file).stdout
    assert file.read_text() == renewed


@pytest.mark.parametrize("command", ["false", "true", "no-such-command", "echo said why >&2; exit 3"])
def test_a_command_that_fails_or_says_nothing_is_an_error(tool, tmp_path, command):
    file = page(tmp_path, "1", command=command)
    before = file.read_text()
    for arguments in ([file], ["--check", file]):
        done = tool(*arguments)
        assert done.returncode == 1
        assert f"page.md:3: failed: `{command}`" in done.stdout
    assert file.read_text() == before


def test_what_is_recorded_is_not_run(tool, tmp_path):
    file = page(tmp_path, "41", command="false", settings="recorded 2026-05-17, Linux 6.12.117, two cores")
    done = tool(file)
    assert done.returncode == 0
    assert "1 recorded" in done.stdout


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("recorded by hand", '"recorded by hand" is not what a block'),
        ("recorded 2026-05-17", '"recorded 2026-05-17" is not what a block'),
        ("tolerance 5 %", '"tolerance 5 %" is not what a block'),
        ("cost 5 s", '"cost 5 s" is not what a block'),
        ("tolerance 5 | cost 5 s", "is not what a block"),
    ],
)
def test_a_block_says_its_tolerance_and_cost_or_when_and_on_what_it_was_recorded(figures, tmp_path, settings, said):
    file = page(tmp_path, "1", settings=settings)
    with pytest.raises(figures.BlockError, match=f"page.md:3: .*{said}"):
        figures.blocks(file, file.read_text())


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("<!-- figures: true | tolerance 1 % | cost 1 s -->\n1\n", 1),
        ("\n1\n<!-- end of figures -->\n", 3),
        (2 * "<!-- figures: true | tolerance 1 % | cost 1 s -->\n1\n" + "<!-- end of figures -->\n", 1),
    ],
)
def test_marks_come_in_pairs(figures, tmp_path, text, line):
    with pytest.raises(figures.BlockError, match=f"page.md:{line}: "):
        figures.blocks(tmp_path / "page.md", text)


@pytest.mark.parametrize(
    ("old", "new", "tolerance", "verdict"),
    [
        ("1.30", "1.31", (0.001,), "within tolerance"),  # one unit of the last digit
        ("130", "131", (0.001,), "differs"),  # a count has none
        ("130", "132", (0.001, 2), "within tolerance"),
        ("1.30", "1.31", (0,), "differs"),
        ("v1 50mbit 6.12.117", "v2 50mbit 6.12.117", (0.9,), "differs"),
        ("−1.5 ± 0.2", "−1.4 ± 0.2", (0.01,), "within tolerance"),
        ("| a  |  1 |\n| --- | --- |", "| a | 1 |\n| ------ | --- |", (0.01,), "within tolerance"),
        ("1 and 2", "1 and 2 and 3", (0.9,), "differs"),
    ],
)
def test_numbers_may_differ_and_words_may_not(figures, old, new, tolerance, verdict):
    assert figures.difference(old, new, figures.Tolerance(*tolerance))[0] == verdict


def test_every_block_of_the_project_is_whole(figures, tmp_path):
    listed = [block for file in figures.markdown_files() for block in figures.blocks(file)]
    assert listed
    empty = [block.place for block in listed if not block.content.strip()]
    assert not empty, f"blocks without what their command prints: {empty}"
    text = "    <!-- figures: true | tolerance 1 % | cost 1 s -->\n\n```\n<!-- end of figures -->\n```\n"
    assert figures.blocks(tmp_path / "page.md", text) == []
    text = "".join(
        f"<!-- figures: echo {n} | tolerance 0 % | cost {cost} s -->{n}<!-- end of figures -->\n" for n, cost in enumerate((9, 1, 5, 1))
    )
    listed = figures.blocks(tmp_path / "page.md", text)
    assert [block.command for block in figures.cheapest(listed, 7)] == ["echo 1", "echo 2", "echo 3"]


@pytest.mark.parametrize("seconds", ["3", "60"])
def test_figures_are_still_what_their_commands_print(tool, seconds):
    # The rest is renewed by `make figures`.
    done = tool("--check", "--within", seconds)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}run `make figures`, and read what changed"


def test_what_was_recorded_of_kernels_holds_no_figure_of_the_simulator(request, figures):
    """The simulator's figures are renewed, so recorded ones would contradict them one day."""
    for page in sorted((request.config.rootpath / "studies").glob("*/README.md")):
        for block in figures.BLOCK.finditer(page.read_text()):
            if "recorded" in block["head"] and "--engine linux" in block["head"] and not re.search(r"\bsim\b|commit", block["head"]):
                assert "simulator" not in block["content"], f"{page.parent.name}: {block['head']}"
