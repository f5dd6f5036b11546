"""The wheel in an environment of its own, away from the project.

It packs what `make setup-all` and `make playground` built. The environment has the packages that
the wheel asks for, as links to those of this one, and no others.
"""

import json
import os
import re
import subprocess
import sys
import urllib.request
import venv
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pandas as pd
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from requirement import lacking

from polypath import Study, StudyError, emu, kernelcc, plan

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "polypath"
MOST_BYTES = 15_000_000

STUDY = """
name: wheel
topology:
  nodes: {client: , server: }
  links:
    fast: {ends: [client, server], both: {rate: 20mbit, queue: 100packets, delay: 10ms}}
    slow: {ends: [client, server], both: {rate: 10mbit, queue: 100packets, delay: 20ms}}
flows:
  upload: {client: client, server: server, cc: "${cc}"}
duration: 3s
matrix: {cc: [lia, mine]}
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    if not (Path(sys.executable).with_name("maturin")).is_file():
        lacking("web", "the program maturin is not in this environment")
    done = subprocess.run(
        [ROOT / "tools/build", "wheel", folder],
        env=_environment() | {"PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    if "a wheel needs" in done.stderr:
        lacking("web", done.stderr)
    assert done.returncode == 0, done.stderr
    assert not (PACKAGE / "cc").exists()
    (found,) = folder.glob("*.whl")
    return found


def _environment():
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "POLYPATH_CC")}
    return kept | {"PYTHONUNBUFFERED": "1"}


def asked_for(wanted):
    """What these requirements bring, by name."""
    found = {}
    while wanted:
        requirement = Requirement(wanted.pop())
        name = canonicalize_name(requirement.name)
        extras = ["", *requirement.extras]
        if name not in found and (requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in extras)):
            found[name] = distribution(name)
            wanted.extend(
                each
                for each in found[name].requires or ()
                if (marker := Requirement(each).marker) is None or any(marker.evaluate({"extra": extra}) for extra in extras)
            )
    return found


@pytest.fixture(scope="module")
def place(wheel, tmp_path_factory):
    """A folder whose `env` has the wheel."""
    place = tmp_path_factory.mktemp("away")
    venv.create(place / "env", with_pip=False)
    (packages,) = (place / "env" / "lib").glob("python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read(next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))).decode()
    for found in asked_for(re.findall(r"^Requires-Dist: (.*)$", metadata.split("\n\n", 1)[0], re.M)).values():
        for top in {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "__pycache__")}:
            (packages / top).symlink_to(Path(str(found.locate_file(top))))
    pip = [sys.executable, "-m", "pip", "--python", place / "env", "install", "--quiet", "--no-deps", "--no-index", wheel]
    subprocess.run(pip, check=True, env=_environment())
    (place / "study.yaml").write_text(STUDY)
    polypath(place, "cc", "new", "mine")
    return place


def python(place, program):
    command = [place / "env" / "bin" / "python", "-c", program]
    return subprocess.run(command, cwd=place, env=_environment(), capture_output=True, text=True, check=False, timeout=600)


def polypath(place, *arguments):
    command = [place / "env" / "bin" / "polypath", *arguments]
    done = subprocess.run(command, cwd=place, env=_environment(), capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_is_small_has_what_belongs_to_it_and_names_no_folder(wheel):
    assert wheel.stat().st_size < MOST_BYTES
    with zipfile.ZipFile(wheel) as archive:
        there = {name.removeprefix("polypath/") for name in archive.namelist()}
    ours = {str(file.relative_to(ROOT)) for folder in ("algs", "bpf", "include", "kernel") for file in (ROOT / "cc" / folder).iterdir()}
    kinds = ("*.py", "*.pyi", "*.j2", "*.css", "*.yaml", "*.tsv", "*.config", "*.c")
    sources = [file for kind in kinds for file in PACKAGE.rglob(kind)]
    built = [file for folder in ("engines/bin", "kernelcc/bin", "tunnel/bin", "play/site") for file in (PACKAGE / folder).rglob("*")]
    inside = {str(file.relative_to(PACKAGE)) for file in (*sources, *built) if file.is_file()}
    assert (ours | inside | {"py.typed"}) - there == set()
    assert [name for name in there if name.startswith(("tests/", "cc/vectors"))] == []
    with zipfile.ZipFile(wheel) as archive:
        (notices,) = [archive.read(name).decode() for name in archive.namelist() if name.endswith("dist-info/licenses/THIRD-PARTY.txt")]
        bills = [json.loads(archive.read(name)) for name in archive.namelist() if "dist-info/sboms/" in name]
    listed = {(each["name"], each["version"]) for bill in bills for each in bill["components"]}
    for name in ("pyo3", "serde", "ring", "curve25519-dalek", "subtle"):
        (version,) = {found for crate, found in listed if crate == name}
        assert f"\n{name} {version}: " in notices
    assert not (ROOT / "THIRD-PARTY.txt").exists()
    cargo = os.environ.get("CARGO_HOME") or str(Path.home() / ".cargo")
    with zipfile.ZipFile(wheel) as archive:
        told = [(name, folder) for name in archive.namelist() for folder in (str(ROOT), cargo) if folder.encode() in archive.read(name)]
    assert told == []


def test_it_runs_ones_own_c_advises_and_makes_keys(place):
    program = "import importlib.util as u; print([n for n in ('polars', 'pytest', 'sphinx', 'mypy') if u.find_spec(n)])"
    assert python(place, program).stdout == "[]\n"
    done = python(place, "import polypath; polypath.run('study.yaml', only={'cc': ['lia']}, out='lone').to_polars()")
    assert done.stderr.splitlines()[-1].endswith("polars frames need the package polars: pip install polars")
    polypath(place, "run", "study.yaml", "--cc-path", ".", "--out", "sim")
    runs = pd.read_parquet(place / "sim" / "wheel" / "runs.parquet")
    assert dict(runs.groupby("cc").size()) == {"lia": 1, "mine": 1}
    assert "<svg" in (place / "sim" / "wheel" / "report.html").read_text(encoding="utf-8")
    words = ["--path", "20mbit 10ms", "--path", "10mbit 20ms", "--for", "download", "--budget", "240runs", "--no-linux", "--no-report"]
    assert "net.mptcp" in polypath(place, "advise", *words)
    public = polypath(place, "tunnel", "keygen", "key")
    assert polypath(place, "tunnel", "pubkey", "key") == public


@pytest.mark.usefixtures("linux_kernel")
def test_the_linux_engine_takes_the_kernel_that_is_there(place):
    polypath(place, "run", "study.yaml", "--cc-path", ".", "--engine", "linux", "--out", "linux", "--no-report")
    runs = pd.read_parquet(place / "linux" / "wheel" / "runs.parquet")
    assert set(runs["cc"]) == {"lia", "mine"}
    assert set(runs["engine"]) == {"linux"}


def test_the_host_engine_loads_what_the_wheel_has(place):
    try:
        (place / "lia.yaml").write_text(STUDY.replace("lia, mine", "lia"))
        plan(Study.load(place / "lia.yaml"), engine="host", out=place / "nowhere")
    except (StudyError, emu.EmuError, kernelcc.KernelCcError) as error:
        lacking("host", str(error))
    polypath(place, "run", "study.yaml", "--cc-path", ".", "--engine", "host", "--out", "host", "--no-report")
    runs = pd.read_parquet(place / "host" / "wheel" / "runs.parquet")
    assert set(runs["cc"]) == {"lia", "mine"}


def test_it_serves_the_playground(place):
    command = [place / "env" / "bin" / "polypath", "play", "--port", "0"]
    with subprocess.Popen(command, cwd=place, env=_environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            address = next(found for line in process.stdout if (found := re.search(r"http://127\.0\.0\.1:\d+/", line)))[0]
            with urllib.request.urlopen(f"{address}polypath.wasm", timeout=60) as answer:
                assert answer.read(4) == b"\0asm"
        finally:
            process.terminate()
