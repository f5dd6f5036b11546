"""However a run on the engine host ends, nothing of it stays, and what was finished is kept."""

import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from requirement import lacking, planned_on_host
from waiting import PATIENCE_S, until

from polypath.study import Study

NOBODY = 65534
CALL = "from polypath.cli import main; main()"
STUDY = """\
name: ends
topology:
  nodes: {c: , s: }
  links: {only: {ends: [c, s], both: {rate: 10mbit, delay: 5ms}}}
flows: {f: {client: c, server: s, transport: tcp, cc: pp}}
duration: DURATION
seeds: 3
baselines: null
"""


@pytest.fixture
def folder(tmp_path):
    """With a study of three runs."""
    (tmp_path / "study.yaml").write_text(STUDY.replace("cc: pp", "cc: lia").replace("DURATION", "3s"))
    planned_on_host(Study.load(tmp_path), tmp_path)
    return tmp_path


def start(folder, *more):
    """Begins the study in a session of its own, as a terminal does."""
    command = [sys.executable, "-c", CALL, "run", str(folder), "--engine", "host", "--no-report", "--out", str(folder / "out"), *more]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True)


def children(process):
    """Processes that this one has started, and those that they have."""
    parents = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents.setdefault(int(place.read_text().rpartition(")")[2].split()[1]), []).append(int(place.parent.name))
        except OSError:
            continue
    found, next_ones = [], [process]
    while next_ones:
        own = parents.get(next_ones.pop(), [])
        found += own
        next_ones += own
    return found


def emulators(processes):
    """Those of them that carry out a run."""
    return [process for process in processes if b"run_emulated" in command_of(process)]


def command_of(process):
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def lives(process):
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def in_a_second_run(folder, process):
    """Waits until one run is finished and another one goes on; the processes that do it."""
    until(lambda: kept(folder) or process.poll() is not None, "one run finished")
    until(lambda: emulators(children(process.pid)) or process.poll() is not None, "another one began")
    assert process.poll() is None, process.communicate()
    return children(process.pid)


def kept(folder):
    return len([place for place in (folder / "out" / "ends" / "runs").glob("*") if not place.name.startswith(".")])


@pytest.fixture(autouse=True)
def no_remains():
    """No device, no folder and no named namespace is new afterwards."""

    def there():
        places = [Path("/sys/class/net"), Path("/run/netns")]
        return {str(each) for place in places if place.is_dir() for each in place.iterdir()}

    before = there()
    yield
    assert there() - before == set()


def test_kill_9_leaves_nothing_and_the_next_run_goes_on(folder):
    process = start(folder)
    try:
        started = in_a_second_run(folder, process)
    finally:
        process.kill()
        process.communicate()
    until(lambda: not any(map(lives, started)), "the run's processes ended")
    assert kept(folder) == 1
    again = start(folder)
    _, said = again.communicate(timeout=PATIENCE_S)
    assert (again.returncode, kept(folder)) == (0, 3), said
    assert "1 of them finished earlier" in said
    assert not list(Path("/dev/shm").glob(f"polypath-machine.{process.pid}.*"))


def test_an_interrupt_ends_everything_at_once_and_keeps_what_is_finished(folder):
    process = start(folder)
    try:
        started = in_a_second_run(folder, process)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    assert process.returncode == 130, said
    # It does not wait for the run that goes on, which would be kept, too.
    assert "what is finished is kept" in said
    until(lambda: not any(map(lives, started)), "the run's processes ended")
    assert kept(folder) == 1


def test_a_run_whose_process_is_killed_is_named_and_the_others_go_on(folder):
    process = start(folder)
    try:
        in_a_second_run(folder, process)
        for each in emulators(children(process.pid)):
            os.kill(each, signal.SIGKILL)
        _, said = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    assert process.returncode == 1, said
    assert re.search(r"the run could not be carried out: .*\(in the run main, seed \d\)", said), said
    assert kept(folder) == 2


def test_without_root_one_sentence_says_what_is_needed():
    if os.geteuid() != 0:
        lacking("host", "only root can become another user")
    # The package is imported before the user changes, who may not be allowed to read it.
    loaded = "from polypath import *; from polypath.analysis import *; from polypath.engines import *; from polypath.results import *"
    other = f"import os; {loaded}; from polypath.cli._app import build, main; build(); os.setgid({NOBODY}); os.setuid({NOBODY}); main()"
    with tempfile.TemporaryDirectory(prefix="polypath-other-user-") as text:
        study = Path(text) / "study.yaml"
        study.write_text(STUDY.replace("cc: pp", "cc: cubic").replace("DURATION", "1s"))
        study.parent.chmod(0o755)
        command = [sys.executable, "-c", other, "run", str(study), "--engine", "host", "--out", "/nonexistent"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"polypath: .*need root.*sudo\n", done.stderr), done.stderr
