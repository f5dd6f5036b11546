"""The command `polypath` and its sub-commands."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Container, Sequence
from importlib import import_module
from importlib import util as import_util
from typing import Annotated, Any, NoReturn

import typer

from polypath.errors import PolypathError
from polypath.terminal import hush

from ._console import complain
from ._help import Group, help_in_source, in_words

FAILURE, USAGE_ERROR, INTERRUPTED = 1, 2, 130

# The module of each command and what it is called there, in the order of `polypath --help`. A
# module is loaded when its command is asked for: the libraries of tables and figures take a second,
# `--version` and most mistakes a fraction of it.
COMMANDS = {
    "init": ("._init", "init"),
    "run": ("._run", "run"),
    "show": ("._show", "show"),
    "compare": ("._compare", "compare"),
    "diverge": ("._diverge", "diverge"),
    "report": ("._report", "report"),
    "import": ("._import", "import_"),
    "benchmark": ("._benchmark", "benchmark"),
    "trace": ("._trace", "trace"),
    "status": ("._status", "status"),
    "list": ("._list", "list_"),
    "advise": ("._advise", "advise"),
    "doctor": ("._doctor", "doctor"),
    "watch": ("._watch", "watch"),
    "pcap": ("._pcap", "pcap"),
    "play": ("._play", "play"),
    "emu": ("._emu", "app"),
    "tunnel": ("._tunnel", "app"),
    "cc": ("._cc", "app"),
    "sched": ("._sched", "app"),
    "linux": ("._linux", "app"),
    "validate": ("polypath.validate._command", "validate"),
    "bench": ("._bench", "bench"),
    "schema": ("._list", "schema"),
    "script": ("._script", "script"),
}
# Where `--help` has them: each panel up to this command. Those that have another name now are not
# there.
_PANELS = {"Studies": "list", "This machine": "cc", "Kernels": "linux", "Project": "bench"}
_HIDDEN = ("schema", "script")


def _panel(name: str) -> str:
    order = list(COMMANDS)
    return next((panel for panel, last in _PANELS.items() if order.index(name) <= order.index(last)), "")


def _version(wanted: bool) -> None:
    if wanted:
        from polypath import _native

        print(_native.version())
        raise typer.Exit


def _root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")] = False,
) -> None:
    pass


class _Root(Group):
    def list_commands(self, ctx: Any) -> list[str]:
        return [name for name in COMMANDS if name in self.commands]


def _named(module: str, function: str) -> Callable[[], None]:
    def command() -> None:
        raise AssertionError("a command that was not named is never run")

    command.__doc__ = help_in_source(import_util.resolve_name(module, __package__), function)
    return command


def build(names: Container[str] = COMMANDS) -> typer.Typer:
    """The command line with the sub-commands of these names. Where there is none of them it knows of
    all the help alone, which is read from their sources.
    """
    app = typer.Typer(
        name="polypath",
        help="A laboratory for multipath transport: describe paths, flows and a question in one file, and get tables and plots that can be "
        "trusted and repeated.\n\nBegin with [bold]polypath init mine --template two-paths[/bold], then [bold]polypath run mine[/bold].",
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        callback=_root,
    )
    named = [name for name in COMMANDS if name in names]
    for name in named or COMMANDS:
        module, function = COMMANDS[name]
        command = getattr(import_module(module, __package__), function) if named else _named(module, function)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name, rich_help_panel=_panel(name))
        else:
            app.command(name, rich_help_panel=_panel(name), hidden=name in _HIDDEN)(command)
    in_words(app)
    app.info.cls = _Root
    return app


def _named_commands(words: Sequence[str]) -> Container[str]:
    """The sub-command that a person typed first; all of them where a shell asks for completions."""
    completes = any(name.startswith("_") and name.endswith("_COMPLETE") for name in os.environ)
    return COMMANDS if completes else words[:1]


# What a file or folder that a person named can be to blame for; anything else the system refuses is
# no mistake of theirs.
PLACES = {
    errno.EACCES,
    errno.EEXIST,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EPERM,
    errno.EROFS,
}
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def main() -> None:
    """Runs the command line; the entry point of the package."""
    try:
        sys.exit(build(_named_commands(sys.argv[1:]))(prog_name="polypath", standalone_mode=False) or 0)
    except _WRONG_WORDS as error:
        if said := _in_one_sentence(error):
            complain(said)
        sys.exit(USAGE_ERROR)
    except PolypathError as error:
        complain(str(error))
        sys.exit(error.exit_status)
    except BrokenPipeError:
        # The reader of our output (`| head`) has ended: drop what is still buffered.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILURE)
    except OSError as error:
        # The system names a file that cannot be opened, and none that is full.
        if error.errno in FULL:
            file = f"{error.filename}: " if error.filename else ""
            complain(f"{file}{os.strerror(error.errno).lower()}: make room, or choose another folder; what is finished is kept")
        elif error.errno in PLACES and error.filename is not None:
            complain(f"{error.filename}: {os.strerror(error.errno).lower()}; choose another file or folder, or mend this one")
        else:
            raise
        sys.exit(USAGE_ERROR)
    except (KeyboardInterrupt, typer.Abort):
        _interrupted()
    except SystemExit as end:
        # Newer versions of typer make this of an interrupt.
        if end.code == INTERRUPTED:
            _interrupted()
        raise
    finally:
        # The next command of this process prints again.
        hush(quiet=False)


# What typer raises for the words of a command; it brings a copy of click along, or takes click's own.
_WRONG_WORDS: type[Exception] = typer.BadParameter.__mro__[1]


def _in_one_sentence(error: Any) -> str:
    """What is wrong with the words of a command, as everything else is told; nothing where a group
    was asked for nothing, whose help was printed.
    """
    said = error.format_message().strip().rstrip(".")
    if not said:
        return ""
    command = error.ctx.command_path if error.ctx else "polypath"
    return f"{said[:1].lower()}{said[1:]}; `{command} --help` shows what it takes"


def _interrupted() -> NoReturn:
    keeps = sys.argv[1:2] in (["run"], ["compare"], ["benchmark"]) or sys.argv[1:3] == ["linux", "selftests"]
    kept = "; what is finished is kept, and the same command goes on from there" if keeps else ""
    complain(f"interrupted{kept}")
    # The runs in flight cannot be stopped, and nothing of them would be kept: leave without
    # waiting.
    os._exit(INTERRUPTED)
