"""What tests do where the machine lacks something: they call `lacking`, never a skip of pytest's
own.
"""

import os
from pathlib import Path

import pytest


def lacking(engine, reason):
    """Skips with the reason, or fails where POLYPATH_REQUIRE says that nothing may be missing for
    this engine.

    "linux", "packetdrill" for that program, "host", "slurm" for a cluster of one machine, "web" for
    the playground, or "s3" for storage of objects.
    """
    if engine in os.environ.get("POLYPATH_REQUIRE", "").split(","):
        pytest.fail(reason)
    pytest.skip(reason)


def planned_on_host(study, out="/nonexistent", *, needs=()):
    """The plan of a study on this machine's own kernel, where that can carry it out and has these
    programs.
    """
    from polypath import EngineError, StudyError, emu, kernelcc, programs
    from polypath.engines import HostEngine
    from polypath.results import plan

    for program in needs:
        if programs.find(program) is None:
            lacking("host", programs.lacks(program))
    try:
        return plan(study, engine=HostEngine(), out=Path(out))
    except (StudyError, EngineError, emu.EmuError, kernelcc.KernelCcError) as error:
        lacking("host", str(error))
