"""The patches of docs/findings apply to the sources that they are for."""

import re
from pathlib import Path

import pytest
from requirement import lacking

from polypath.bisect import git
from polypath.engines import run_script
from polypath.linux._commands import run

FINDINGS = Path(__file__).parents[2] / "docs" / "findings"
PATCHES = sorted(FINDINGS.glob("*.patch"))
TARBALL = Path("/usr/src/linux-source-6.12.tar.xz")


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Of Linux 6.12 the files that the patches change."""
    if not TARBALL.exists():
        lacking("linux", "no sources of Linux 6.12: install the Debian package linux-source-6.12")
    wanted = {f"*/{name}" for patch in PATCHES for name in re.findall(r"^--- a/(\S+)$", patch.read_text(), re.MULTILINE)}
    tree = tmp_path_factory.mktemp("linux")
    words = ["tar", "-C", str(tree), "--strip-components=1", "--wildcards", "-xf", str(TARBALL), *sorted(wanted)]
    run(*words, cwd=tree, purpose="unpacking what the patches change")
    git(tree, "init", "--quiet")
    return tree


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.stem)
def test_a_patch_applies_and_its_finding_names_it(patch, sources):
    git(sources, "apply", "--check", str(patch))
    pages = [page for page in FINDINGS.glob("*.md") if page.name != "README.md" and f"({patch.name})" in page.read_text()]
    assert len(pages) == 1
    assert f"({patch.name})" in (FINDINGS / "README.md").read_text()


def test_an_address_announced_right_behind_another_is_dropped(linux_kernel):
    script = FINDINGS.parents[1] / "specs" / "notes" / "add-addr-dropped" / "two-addresses.sh"
    status, said = run_script(script, kernel=linux_kernel.file, seed=1, out=None, timeout_s=120)
    assert status == 0, said
    assert said.strip().count("\n") == 5
    assert said.strip() in (FINDINGS / "add-addr-dropped.md").read_text()
