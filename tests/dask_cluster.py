"""A Dask scheduler and workers, as processes of this machine."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

from polypath.sweep._dask import Tls


class Cluster:
    """A Dask scheduler and workers, each a process."""

    def __init__(self, folder, tls=None):
        # A folder with ca.pem, cert.pem and key.pem: who comes without them is not heard.
        self.tls = tls
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.folder = folder
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    @property
    def certificates(self):
        if self.tls is None:
            return []
        return [
            word
            for option, name in (("ca-file", "ca"), ("cert", "cert"), ("key", "key"))
            for word in (f"--tls-{option}", f"{self.tls}/{name}.pem")
        ]

    def start(self, name, *command, inside=(), **environment):
        log = (self.folder / f"{name}.log").open("ab")
        self.processes[name] = subprocess.Popen(
            [
                *inside,
                sys.executable,
                "-m",
                "distributed.cli.dask_scheduler" if name == "scheduler" else "distributed.cli.dask_worker",
                *command,
            ],
            stdout=log,
            stderr=log,
            cwd=self.folder,
            env={**os.environ, **environment},
            start_new_session=True,
        )

    @property
    def _protocol(self):
        return [] if self.tls is None else ["--protocol", "tls", *self.certificates]

    def scheduler(self):
        self.start(
            "scheduler",
            "--host",
            "127.0.0.1",
            "--port",
            str(self.port),
            "--no-dashboard",
            "--dashboard-address",
            "127.0.0.1:0",
            *self._protocol,
        )

    def worker(self, name, *, inside=(), **environment):
        local = str(self.folder / name)
        what = ("--nthreads", "1", "--no-dashboard", "--local-directory", local, "--name", name, "--death-timeout", "60")
        address = self.address if self.tls is None else f"tls://{self.address}"
        self.start(name, address, *what, *self._protocol, inside=inside, **environment)

    def signal(self, name, number):
        os.killpg(self.processes[name].pid, number)

    def kill(self, name):
        self.signal(name, signal.SIGKILL)
        self.processes.pop(name).wait()

    def wait_for(self, workers):
        from distributed import Client

        for _ in range(100):
            try:
                security = None if self.tls is None else Tls.of(self.tls).security()
                kind = "tcp" if self.tls is None else "tls"
                with Client(f"{kind}://{self.address}", timeout=5, set_as_default=False, security=security) as client:
                    if workers:
                        client.wait_for_workers(workers, timeout=60)
                    return
            except OSError:
                time.sleep(0.2)
        raise AssertionError("the scheduler does not answer")


@contextmanager
def cluster_in(folder, workers=2, tls=None):
    cluster = Cluster(folder, tls)
    try:
        cluster.scheduler()
        for number in range(workers):
            cluster.worker(f"worker{number}")
        cluster.wait_for(workers)
        yield cluster
    finally:
        for name in list(cluster.processes):
            cluster.kill(name)
