"""The command `polypath` and its sub-commands."""

from __future__ import annotations

import errno
import os
import sys
from typing import Annotated, NoReturn

import typer

from polypath.emu import EmuError
from polypath.engines import EngineError, SimEngine
from polypath.kernelcc import KernelCcError
from polypath.linux import KernelError
from polypath.owncc import OwnCcError
from polypath.pcap import PcapError
from polypath.programs import ProgramError
from polypath.sockets import SocketsError
from polypath.study import StudyError
from polypath.validate import validate

from . import _bench, _cc, _compare, _doctor, _emu, _init, _linux, _list, _pcap, _report, _run, _schema, _script, _show, _watch
from ._console import complain, out

USAGE_ERROR, FAILURE, INTERRUPTED = 2, 1, 130

app = typer.Typer(
    name="polypath",
    help="A laboratory for multipath transport: describe paths, flows and a question in one file, and get tables and plots that can be "
    "trusted and repeated.\n\nBegin with [bold]polypath init mine --template two-paths[/bold], then [bold]polypath run mine[/bold].",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command("run")(_run.run)
app.command("compare")(_compare.compare)
app.command("report")(_report.report)
app.command("show")(_show.show)
app.command("list")(_list.list_)
app.command("init")(_init.init)
app.command("validate")(validate)
app.command("watch")(_watch.watch)
app.command("doctor")(_doctor.doctor)
app.command("pcap")(_pcap.pcap)
app.command("bench")(_bench.bench)
app.command("schema")(_schema.schema)
app.command("script")(_script.script)
app.add_typer(_linux.app, name="linux")
app.add_typer(_cc.app, name="cc")
app.add_typer(_emu.app, name="emu")


# What a file or folder that a person named can be to blame for; anything else the system refuses is no mistake of theirs.
PLACES = {
    errno.EACCES,
    errno.EEXIST,
    errno.EISDIR,
    errno.ENAMETOOLONG,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EPERM,
    errno.EROFS,
}
FULL = {errno.ENOSPC, errno.EDQUOT}


def _version(wanted: bool) -> None:
    if wanted:
        out.print(SimEngine().version, highlight=False)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")] = False,
) -> None:
    pass


def main() -> None:
    """Runs the command line; the entry point of the package."""
    try:
        app()
    except (StudyError, KernelError, KernelCcError, EmuError, SocketsError, OwnCcError, PcapError, ProgramError) as error:
        complain(str(error))
        sys.exit(USAGE_ERROR)
    except EngineError as error:
        complain(str(error))
        sys.exit(FAILURE)
    except BrokenPipeError:
        # Whoever read our output (`| head`) has seen enough; what is still buffered has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILURE)
    except OSError as error:
        # The system names a file that cannot be opened, and none that is full.
        if error.errno in FULL:
            what = f"{error.filename}: " if error.filename else ""
            complain(f"{what}{os.strerror(error.errno).lower()}: make room, or choose another folder; what is finished is kept")
        elif error.errno in PLACES and error.filename is not None:
            complain(f"{error.filename}: {os.strerror(error.errno).lower()}; choose another file or folder, or mend this one")
        else:
            raise
        sys.exit(USAGE_ERROR)
    except KeyboardInterrupt:
        _interrupted()
    except SystemExit as end:
        # Newer versions of typer make this of an interrupt.
        if end.code == INTERRUPTED:
            _interrupted()
        raise


def _interrupted() -> NoReturn:
    kept = "; what is finished is kept, and the same command goes on from there" if sys.argv[1:2] in (["run"], ["compare"]) else ""
    complain(f"interrupted{kept}")
    # The runs in flight cannot be stopped, and nothing of them would be kept: leave without waiting.
    os._exit(INTERRUPTED)
