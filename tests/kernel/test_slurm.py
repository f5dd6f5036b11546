"""Runs as jobs of a real Slurm."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # Dask brings it.
import pytest
import sweep_data
from requirement import lacking
from sweep_data import content
from waiting import until

from polypath.results import execute, plan
from polypath.sweep import find_backend

NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "scancel", "sinfo", "squeue", "srun")
STUDY = sweep_data.STUDY.replace("duration: 2s", "duration: 4s").replace("[lia, cubic]", "[lia]").replace("seeds: 3", "seeds: 6")
CONFIGURATION = """
ClusterName=polypath
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MinJobAge=10
SlurmdTimeout=10
NodeName=second NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2 Weight=20 State=UNKNOWN
NodeName=first NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2 Weight=10 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Cluster:
    """Two nodes with two processors each; as long as it can, Slurm takes `first`."""

    def __init__(self, folder):
        self.folder = folder
        self.configuration = folder / "slurm.conf"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        for name in ("state", "spool-first", "spool-second"):
            (folder / name).mkdir()
        folder.chmod(0o700)
        key = folder / "key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o400)
        ports = [_free_port() for _ in range(3)]
        self.configuration.write_text(CONFIGURATION.format(host=socket.gethostname().partition(".")[0], ports=ports, folder=folder))

    def start(self):
        files = {name: str(self.folder / f"munge.{name}") for name in ("socket", "pid", "log", "seed")}
        own = [f"--socket={files['socket']}", f"--pid-file={files['pid']}", f"--log-file={files['log']}", f"--seed-file={files['seed']}"]
        self.run("munged", "--foreground", "--force", f"--key-file={self.folder / 'key'}", *own)
        self.controller()
        for node in ("first", "second"):
            self.node(node)
        self.wait_for_nodes()

    def wait_for_nodes(self):
        deadline = time.monotonic() + 60
        while (said := self.said("sinfo", "--noheader", "--Node", "--format=%t").split()) != ["idle", "idle"]:
            assert time.monotonic() < deadline, f"Slurm does not come up: {said} {self.logs()}"
            time.sleep(0.2)

    def node(self, name, inside=()):
        self.run("slurmd", "-D", "-f", str(self.configuration), "-N", name, name=name, inside=inside)

    def of_node(self, name):
        """Slurm's daemon of a node, and all that it started."""
        daemon = psutil.Process(self.processes[name].pid)
        jobs = [each for each in psutil.process_iter() if self._is_of_job(each, name)]
        return [daemon, *daemon.children(recursive=True), *jobs]

    def _is_of_job(self, process, node):
        with suppress(psutil.Error):
            environment = process.environ()
            ours = environment.get("SLURM_CONF") == str(self.configuration)
            return ours and ("slurmstepd" in " ".join(process.cmdline()) or environment.get("SLURMD_NODENAME") == node)
        return False

    def controller(self):
        self.run("slurmctld", "-D", "-f", str(self.configuration))

    def run(self, program, *options, name="", inside=()):
        log = (self.folder / f"{name or program}.out").open("ab")
        command = [*inside, _found(program), *options]
        self.processes[name or program] = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def said(self, *command):
        done = subprocess.run([_found(command[0]), *command[1:]], capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    def kill(self, program, number=signal.SIGKILL):
        os.killpg(self.processes[program].pid, number)
        self.processes.pop(program).wait()

    def stop(self):
        self.said("scancel", "--full", "--user=root")
        for program in list(self.processes):
            self.kill(program)

    def logs(self):
        return "\n".join(file.read_text(errors="replace")[-500:] for file in [*self.folder.glob("*.out"), *self.folder.glob("*.log")])


def _free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def _found(program):
    return shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin") or program


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    missing = [program for program in NEEDED if not Path(_found(program)).is_file()]
    if missing:
        lacking("slurm", f"no {', '.join(missing)} on this machine (Debian packages slurmctld, slurmd, slurm-client, munge)")
    if os.getuid() != 0:
        lacking("slurm", "a cluster of one machine needs root")
    made = Cluster(tmp_path_factory.mktemp("slurm"))
    before = os.environ.get("SLURM_CONF")
    os.environ["SLURM_CONF"] = str(made.configuration)
    try:
        made.start()
        yield made
    finally:
        made.stop()
        os.environ.pop("SLURM_CONF")
        if before is not None:
            os.environ["SLURM_CONF"] = before


def study():
    return sweep_data.study(STUDY)


def place(folder, more=""):
    file = folder / "slurm.toml"
    file.write_text(f'folder = "{folder / "shared"}"\npartition = "main"\njobs = 2\n{more}', encoding="utf-8")
    (folder / "shared").mkdir(exist_ok=True)
    found = find_backend(f"slurm:{file}")
    assert found is not None
    return found


def test_jobs_that_are_cancelled_and_a_controller_that_starts_anew_change_no_byte(cluster, tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    execute(plan(study(), out=here))
    ended = []
    seen = []

    def disturb(run):
        ended.append(run.key)
        if len(ended) == 2:
            cluster.said("scancel", "--full", "--user=root")
        if len(ended) == 4:
            # It writes down what it knows; what a killed one forgets is Slurm's affair.
            cluster.kill("slurmctld", signal.SIGTERM)
            cluster.controller()

    execute(plan(study(), out=there), on=place(tmp_path), progress=disturb, tell=seen.append)
    assert sorted(ended) == sorted({run.key for run in plan(study(), out=there).runs}), "each run counted once"
    assert content(there) == content(here)
    assert max(state.machines for state in seen) >= 1
    assert list((tmp_path / "shared" / "handover").iterdir()) == []
    # A job that has given its result still ends: its program exits, and the controller hears of it.
    until(lambda: not cluster.said("squeue", "--noheader"), "no job is left behind", every_s=0.2)


def test_a_job_that_slurm_refuses_is_one_sentence_and_what_is_finished_is_kept(cluster, tmp_path):
    from polypath.study import StudyError

    work = plan(study(), out=tmp_path / "there")
    with pytest.raises(StudyError, match=r"Slurm takes no job: sbatch: error: .*[Pp]artition"):
        execute(work, on=place(tmp_path, 'sbatch = { partition = "nowhere" }\n'))
    assert plan(study(), out=tmp_path / "there").pending == work.pending


def _suspended(process):
    """Stops a process; False where it has ended meanwhile."""
    with suppress(psutil.NoSuchProcess):
        process.suspend()
        return True
    return False


def _are_at_work(stopped, logs):
    """Whether a job is among them, and none that has given its result and only exits."""
    numbers = set()
    for process in stopped:
        with suppress(psutil.Error, KeyError):
            numbers.add(process.environ()["SLURM_JOB_ID"])
    said = [log.read_text() for number in numbers if (log := logs / f"{number}_0_log.out").exists()]
    return bool(numbers) and not any("completed successfully" in text for text in said)


def test_a_node_that_hangs_is_left_to_slurm_and_its_runs_end_elsewhere(cluster, tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    execute(plan(study(), out=here))
    ended = []
    hanging = []

    def disturb(run):
        ended.append(run.key)
        # Where the node's job has just ended, its next one.
        deadline = time.monotonic() + 10
        while not hanging and time.monotonic() < deadline:
            stopped = [process for process in cluster.of_node("first") if _suspended(process)]
            if _are_at_work(stopped, tmp_path / "shared" / "jobs"):
                hanging.extend(stopped)
            else:
                # The job ended meanwhile, or none was there: the daemon goes on.
                for process in stopped:
                    process.resume()
                time.sleep(0.01)

    try:
        execute(plan(study(), out=there), on=place(tmp_path), progress=disturb)
        # A job of it was stopped, and not only its daemon.
        assert len(hanging) > 1
        # Its state is no witness: of a node that is down and has one of its processors allocated sinfo says that it is mixed.
        assert "Not responding" in cluster.said("sinfo", "--noheader", "--nodes=first", "--list-reasons")
    finally:
        for process in hanging:
            with suppress(psutil.Error):
                process.resume()
        cluster.said("scancel", "--full", "--user=root")
        cluster.wait_for_nodes()
    assert sorted(ended) == sorted({run.key for run in plan(study(), out=there).runs}), "each run counted once"
    assert content(there) == content(here)


def test_a_node_whose_disk_is_full_leaves_its_runs_to_others(cluster, tmp_path):
    here, there, handover = tmp_path / "here", tmp_path / "there", tmp_path / "shared" / "handover"
    execute(plan(study(), out=here))
    handover.mkdir(parents=True)
    # For this node the handover is a disk that holds 4 kB.
    inside = ["unshare", "--mount", "sh", "-c", f'mount -t tmpfs -o size=4k none {handover} && exec "$@"', "sh"]
    cluster.kill("first")
    cluster.node("first", inside)
    cluster.wait_for_nodes()
    began = tmp_path / "nodes"
    try:
        execute(plan(study(), out=there), on=place(tmp_path, f'setup = ["echo $SLURMD_NODENAME >> {began}"]\n'))
    finally:
        cluster.kill("first")
        cluster.node("first")
        cluster.wait_for_nodes()
    assert content(there) == content(here)
    nodes = began.read_text().split()
    assert {"first", "second"} == set(nodes)
    # The first job describes its node; what failed at this one goes to the other.
    assert nodes[-1] == "second"
