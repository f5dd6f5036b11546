"""The patches of docs/findings apply to the sources that they are for."""

import re
from pathlib import Path

import pytest
from requirement import lacking

from polypath import linux
from polypath.bisect import git
from polypath.engines import run_script
from polypath.linux._commands import run

FINDINGS = Path(__file__).parents[2] / "docs" / "findings"
PATCHES = sorted(FINDINGS.glob("*.patch"))


@pytest.fixture(scope="module", params=["6.12", "7.3"])
def sources(request, tmp_path_factory):
    """Of a release the files that the patches change."""
    places = [folder / f"linux-source-{request.param}.tar.xz" for folder in (Path("/usr/src"), linux.folder() / "sources")]
    tarball = next((place for place in places if place.exists()), None)
    if tarball is None:
        needs = "linux" if request.param == "6.12" else f"linux {request.param}"
        lacking(needs, f"no sources of Linux {request.param}: polypath linux build {request.param} gets them")
    wanted = {f"*/{name}" for patch in PATCHES for name in re.findall(r"^--- a/(\S+)$", patch.read_text(), re.MULTILINE)}
    tree = tmp_path_factory.mktemp("linux")
    words = ["tar", "-C", str(tree), "--strip-components=1", "--wildcards", "-xf", str(tarball), *sorted(wanted)]
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
