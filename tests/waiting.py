"""Waiting for what another process, or the kernel, does a moment later."""

import time

PATIENCE_S = 60


def until(true, what, every_s=0.05):
    """Ends once it is so, with what `true` gave; fails where it is not after a minute."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := true()):
        assert time.monotonic() < deadline, f"still not so after {PATIENCE_S} s: {what}"
        time.sleep(every_s)
    return found
