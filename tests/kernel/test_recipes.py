"""The recipes that need root: namespaces, and BPF in this machine's kernel."""

import contextlib
import sys
from pathlib import Path

import pytest
from requirement import lacking

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

from recipe_pages import RECIPES, ROOT_PAGES, follow

from polypath import emu, kernelcc


@pytest.fixture(autouse=True)
def host():
    try:
        emu.require_root()
        kernelcc.status()
    except (emu.EmuError, kernelcc.KernelCcError) as error:
        lacking("host", str(error))
    with contextlib.suppress(emu.EmuError):
        emu.status()
        lacking("host", "a network of polypath emu is up")
    yield
    with contextlib.suppress(emu.EmuError):
        emu.down()


@pytest.mark.parametrize("name", ROOT_PAGES)
def test_a_recipe_does_what_it_says(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    told = follow(RECIPES / f"{name}.md", monkeypatch)
    if name == "missing-subflow":
        (found,) = (text for line, text in told.items() if "doctor" in line)
        assert "endpoint" in found
        assert "ip netns exec pp-phone ip mptcp endpoint add 10.0.2.1" in found
    else:
        (found,) = (text for line, text in told.items() if "status" in line)
        assert "pp_lia" in found
