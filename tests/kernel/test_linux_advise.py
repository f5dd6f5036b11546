"""The advisor asks a real kernel about the best settings."""

import pytest

from polypath.advise import advise, path_in_words
from polypath.study import DEFAULT_KERNEL

pytestmark = pytest.mark.usefixtures("linux_kernel")

PATHS = [path_in_words("6/2mbit 20ms", 1), path_in_words("3/1mbit 60ms", 2)]


def test_the_best_settings_run_on_linux_with_the_uses_that_it_can_have_at_once(tmp_path):
    found = advise(PATHS, "download=2,call,web", folder=tmp_path, budget_text="330runs").confirmation
    # A kernel has one path manager, so the host does not both open connections and wait for one.
    assert found.sentence.startswith(f"Linux {DEFAULT_KERNEL}, 3 networks, without web: ")
    assert len(found.settings) == 3 and found.settings[0].of_first.mean == 1
    for each in found.settings:
        assert each.setting.needs != "other"
        assert set(each.measured) == set(each.simulated) == {"download", "call", "call loss"}
        # Two downloads share 9 Mbit/s with the call; a call over an empty path takes 10 ms.
        assert each.measured["download"] == pytest.approx(each.simulated["download"], rel=0.25)
        assert each.measured["call"] > 10
