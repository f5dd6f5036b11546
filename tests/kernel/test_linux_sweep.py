"""The linux engine on the workers of a Dask scheduler."""

import pytest
import yaml
from dask_cluster import cluster_in
from sweep_data import content

from polypath.results import execute, plan
from polypath.study import Study, StudyError
from polypath.sweep import DaskBackend

STUDY = """
name: away
topology:
  nodes: {a: {}, b: {}}
  links:
    one: {ends: [a, b], both: {rate: 5mbit, delay: 5ms, queue: 50packets}}
    two: {ends: [a, b], both: {rate: 20mbit, delay: 15ms, queue: 50packets}}
flows: {m: {client: a, server: b, transport: mptcp, cc: "${cc}"}}
duration: 1s
measure: {series: null}
matrix: {cc: [cubic, reno]}
"""

# A worker loads this: it takes over the kernel that was built before.
BUILDS = """
from pathlib import Path
from polypath import linux

def build(name, *, prove, say):
    linux.folder().mkdir(parents=True, exist_ok=True)
    say("taking over")
    (linux.folder() / "{name}").symlink_to("{place}")
    prove(linux.find(name))

linux.build = build
"""


def test_a_worker_without_the_kernel_says_so_or_builds_it_and_its_runs_are_the_same_bytes(linux_kernel, tmp_path):
    study = Study.model_validate(yaml.safe_load(STUDY))
    execute(plan(study, engine="linux", out=tmp_path / "here"))
    place = linux_kernel.file.parent
    (tmp_path / "builds.py").write_text(BUILDS.format(name=place.name, place=place), encoding="utf-8")
    work = plan(study, engine="linux", out=tmp_path / "there")
    with cluster_in(tmp_path, workers=0) as cluster:
        cluster.worker("bare", XDG_CACHE_HOME=str(tmp_path / "cache"), DASK_DISTRIBUTED__WORKER__PRELOAD=str(tmp_path / "builds.py"))
        cluster.wait_for(1)
        with pytest.raises(
            StudyError, match=r'the machine \S+ \(tcp://\S+\): there is no kernel "6\.12"; there are none yet; build it with'
        ):
            execute(work, on=DaskBackend(cluster.address))
        assert len(work.store) == 0
        notes = []
        on = DaskBackend(cluster.address, build_kernels=True)
        execute(work, on=on, tell=lambda state: notes.append(state.note))
    assert "1 of 1 workers build kernel 6.12" in notes
    assert "polypath: kernel 6.12: taking over" in (tmp_path / "bare.log").read_text(encoding="utf-8")
    assert content(tmp_path / "there") == content(tmp_path / "here")
