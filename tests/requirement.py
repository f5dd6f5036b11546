"""What tests do where the machine lacks something: they call `lacking`, never a skip of pytest's
own.
"""

import os

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
