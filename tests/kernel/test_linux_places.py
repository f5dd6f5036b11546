"""The linux engine where Polypath, its kernel and a person's files lie."""

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

from polypath import linux
from polypath.linux._kernel import folder

ROOT = Path(__file__).resolve().parents[2]
AS_ROOT = os.geteuid() == 0
# Where a clone may lie; whoever is not root may write to few of them.
PLACES = ["/tmp", "/dev/shm", "/var/tmp", *(["/run"] if AS_ROOT else [])]
NAME = "clone with spaces, =signs and Prüfungen"
NOBODY = 65534

STUDY = """
name: places
topology:
  nodes: {a: , b: , r1: {router: true}, r2: {router: true}}
  links:
    a-r1: {ends: [{node: a, address: 10.1.0.1}, {node: r1, address: 10.1.0.2}], both: {rate: 10mbit, delay: 5ms}}
    r1-b: {ends: [{node: r1, address: 10.1.1.1}, {node: b, address: 10.1.1.2}], both: {delay: 1ms}}
    a-r2: {ends: [{node: a, address: 10.2.0.1}, {node: r2, address: 10.2.0.2}], both: {rate: 10mbit, delay: 25ms}}
    r2-b: {ends: [{node: r2, address: 10.2.1.1}, {node: b, address: 10.2.1.2}], both: {delay: 1ms}}
  tunnels:
    bond:
      ends: [{node: a, address: 10.9.0.1}, {node: b, address: 10.9.0.2}]
      paths: [{ends: [10.1.0.1, 10.1.1.2]}, {ends: [10.2.0.1, 10.2.1.2]}]
flows:
  f: {client: a, server: b, client_address: 10.9.0.1, server_address: 10.9.0.2, transport: tcp, cc: mine}
duration: 2s
baselines: null
seeds: 1
"""


@dataclass
class Clone:
    """What of a clone runs studies and scripts, with a person's home and files beside it."""

    root: Path

    def python(self, *words):
        (self.root / "work").mkdir(exist_ok=True)
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.root / "python"),
            "HOME": str(self.root),
            "XDG_CACHE_HOME": str(self.root / "cache"),
            "TMPDIR": str(self.root / "work"),
        }
        command = [sys.executable, *map(str, words)]
        return subprocess.run(command, cwd=self.root / "work", env=environment, capture_output=True, text=True, check=False, timeout=300)

    def polypath(self, *words):
        done = self.python("-c", "from polypath.cli import main; main()", *words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(params=[*PLACES, *(["another user's"] if AS_ROOT else [])], scope="module")
def clone(request, linux_kernel, tunnel_daemon):
    assert tunnel_daemon.is_file()
    tests = linux.selftests("6.12")
    with tempfile.TemporaryDirectory(prefix="polypath-places.", dir=request.param if request.param in PLACES else "/tmp") as name:
        made = Clone(Path(name) / NAME)
        unneeded = shutil.ignore_patterns("site", "__pycache__", "cc")
        shutil.copytree(ROOT / "python" / "polypath", made.root / "python" / "polypath", ignore=unneeded)
        shutil.copytree(ROOT / "cc", made.root / "cc")
        for each in (linux_kernel.file.parent, tests):
            shutil.copytree(each, made.root / "cache" / folder().relative_to(folder().parents[1]) / each.name, symlinks=True)
        if request.param not in PLACES:
            Path(name).chmod(0o755)
            for each in (Path(name), *Path(name).rglob("*")):
                os.chown(each, NOBODY, NOBODY, follow_symlinks=False)
        assert made.python("-c", "import polypath; print(polypath.__file__)").stdout.startswith(f"{made.root}/python/")
        yield made


def test_a_tunnel_and_ones_own_c(clone):
    work = clone.root / "work"
    # Linking takes half a minute.
    own = clone.root.is_relative_to("/tmp")
    if own:
        clone.polypath("cc", "new", "mine")
    (work / "study.yaml").write_text(STUDY if own else STUDY.replace("mine", "cubic"), encoding="utf-8")
    clone.polypath("run", "study.yaml", *(["--cc-path", "."] if own else []), "--engine", "linux", "--no-report")
    (run,) = pd.read_parquet(work / "results" / "places" / "runs.parquet").itertuples()
    assert run.engine == "linux"


def test_a_script_of_packets(clone):
    script = shutil.copy(ROOT / "tests" / "scripts" / "tcp-handshake-active.pkt", clone.root)
    assert clone.polypath("script", "--engine", "linux", script) == "tcp-handshake-active.pkt: passed\n"


def test_the_daemon_and_the_files_beside_a_script_are_seen_and_the_machines_own_are_empty(clone):
    jobs = clone.root / "jobs"
    jobs.mkdir(exist_ok=True)
    (jobs / "data").write_text("beside the script\n", encoding="utf-8")
    lines = (
        f'cat "{jobs}/data"',
        f'"{clone.root}/python/polypath/tunnel/bin/polypath-tunnel" >/dev/null 2>&1; echo "started: $(($? < 126))"',
        f'touch "{jobs}/data" 2>/dev/null || echo "read-only"',
        "find /tmp -mindepth 1 -maxdepth 1 | grep -v polypath-places",
        "touch /tmp/mine && echo writable",
    )
    (jobs / "job.sh").write_text("\n".join(lines), encoding="utf-8")
    said = clone.polypath("linux", "exec", jobs / "job.sh")
    assert said.splitlines() == ["beside the script", "started: 1", "read-only", "writable"]


def test_the_kernels_own_tests_are_listed(clone):
    assert "mptcp/pm_netlink" in clone.polypath("linux", "selftests", "--list").split()
