"""`--help` of every command: arguments and values are called as a person writes them."""

import re

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from polypath.cli._app import build

APP = build()
COMMAND = get_command(APP)


def commands(command, words=()):
    yield words
    for name, each in getattr(command, "commands", {}).items():
        yield from commands(each, (*words, name))


def told(*words):
    done = CliRunner().invoke(APP, [*words, "--help"], env={"COLUMNS": "200", "TERM": "dumb"})
    assert done.exit_code == 0
    return done.stdout


@pytest.mark.parametrize("words", list(commands(COMMAND)), ids=" ".join)
def test_no_type_of_python_and_no_brace_is_in_it(words):
    said = told(*words)
    usage = re.search(r"Usage: .*", said)[0]
    assert "{" not in usage and "......" not in usage
    assert re.findall(r"<(?:bool|str|int|float|path|file|list|directory)\b[^>]*>", said) == []


def test_a_command_is_loaded_alone_and_the_help_that_is_read_without_loading_one_is_the_same():
    assert [*get_command(build(["run"])).commands] == ["run"]
    of_all = get_command(build([]))
    assert {name: each.help for name, each in of_all.commands.items()} == {name: each.help for name, each in COMMAND.commands.items()}


def test_every_command_can_be_quiet():
    for words in commands(COMMAND):
        command = COMMAND
        for word in words:
            command = command.commands[word]
        if not getattr(command, "commands", None):
            (option,) = [param for param in command.params if "--quiet" in param.opts]
            assert option.opts == ["--quiet", "-q"], words


def test_a_flag_takes_no_value_and_an_option_says_which():
    said = told("run")
    assert "Usage: polypath run [OPTIONS] STUDY..." in said
    assert re.search(r"--short +The short form", said)
    assert re.search(r"--out +PATH +Where the results go", said)
    assert re.search(r"--workers +N \[x>=1\] +Runs at once", said)
    assert re.search(r"--help +-h +Show this message", said)
    assert "Usage: polypath list [OPTIONS] [WHAT]" in told("list")


def test_what_few_runs_ask_for_stands_in_panels_of_its_own():
    panels = re.split(r"╭─ ", told("run"))[1:]
    options = {panel.split(" ─")[0]: re.findall(r"^│ (--[a-z-]+)", panel, re.MULTILINE) for panel in panels}
    assert list(options) == ["Arguments", "Options", "Other machines", "Kernels"]
    assert options["Other machines"] == ["--on", "--certificates", "--handover", "--build-kernels"]
    assert options["Kernels"] == ["--kernel", "--vary", "--again"]
    # An example is not cut.
    assert "such as srtt_ms,timeouts." in told("run")
