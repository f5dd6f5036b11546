"""A regression that was planted in the sources of a kernel is found.

The sources are Debian's, of which a small repository is made; the first build compiles a whole
kernel, the others one file each.
"""

import re
from pathlib import Path

import pytest
from requirement import lacking
from typer.testing import CliRunner

from polypath import linux
from polypath.bisect import git
from polypath.cli._app import build
from polypath.linux import _source

STUDY = """
name: reno
topology:
  nodes: {client: , server: }
  links:
    path: {ends: [client, server], both: {rate: 10mbit, queue: 50packets, delay: 10ms, loss: 0.3%}}
flows:
  f: {client: client, server: server, transport: tcp, cc: reno@linux}
duration: 5s
seeds: 1
claims:
  - id: fast
    sentence: A connection has most of its link.
    metric: goodput_receiver_mbps
    check: {kind: between, low: 6.0}
"""
# What each commit does to a file; the third lets a window grow sixteen times slower.
COMMITS = (
    ("tcp_vegas.c", "$", "\n/* one */\n"),
    ("tcp_timer.c", "$", "\n/* two */\n"),
    ("tcp_cong.c", re.escape("tcp_cong_avoid_ai(tp, tcp_snd_cwnd(tp), acked);"), "tcp_cong_avoid_ai(tp, tcp_snd_cwnd(tp) << 4, acked);"),
    ("tcp_input.c", "$", "\n/* four */\n"),
    ("tcp_output.c", "$", "\n/* five */\n"),
)
CULPRIT = 3


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """Linux 6.12 and the commits above on it."""
    tarball = Path("/usr/src/linux-source-6.12.tar.xz")
    if not tarball.exists():
        lacking("linux", "no sources of Linux 6.12: install the Debian package linux-source-6.12")
    tree = tmp_path_factory.mktemp("sources") / "linux"
    _source.unpack(_source.Source("", tarball, "6.12"), tree)
    git(tree, "init", "--quiet")
    for name, value in (("core.compression", "0"), ("gc.auto", "0"), ("user.name", "a"), ("user.email", "a@b")):
        git(tree, "config", name, value)
    git(tree, "add", "--all", "--force")
    git(tree, "commit", "--quiet", "--message", "base")
    found = [git(tree, "rev-parse", "HEAD").strip()]
    for number, (name, pattern, replacement) in enumerate(COMMITS, 1):
        file = tree / "net/ipv4" / name
        text, times = re.subn(pattern + r"\Z" * (pattern == "$"), replacement, file.read_text(encoding="utf-8"), count=1)
        assert times == 1
        file.write_text(text, encoding="utf-8")
        git(tree, "commit", "--quiet", "--all", "--message", f"commit {number}")
        found.append(git(tree, "rev-parse", "HEAD").strip())
    return tree, found


def test_a_planted_regression_is_found(repository, tmp_path, own_cache, linux_kernel):
    tree, commits = repository
    (tmp_path / "study.yaml").write_text(STUDY)
    ends = ["--tree", str(tree), "--good", commits[0], "--bad", commits[-1], "--seeds", "1..6", "--out", str(tmp_path / "bisect")]
    command = ["linux", "bisect", *ends, "--", "run", str(tmp_path / "study.yaml"), "--check", "fast"]
    done = CliRunner().invoke(build(["linux"]), command)
    print(done.output)
    assert done.exit_code == 0, done.output
    report = (tmp_path / "bisect" / "report.md").read_text()
    assert f"First bad commit: **{git(tree, 'log', '-1', '--format=%h %s', commits[CULPRIT]).strip()}**" in report
    assert "At the good end 0 of 6 seeds fail, at the bad end 6 of 6" in report
    # Nothing of it stays, and the checkout is where it was.
    assert linux.installed() == []
    assert git(tree, "worktree", "list").count("\n") == 1
    assert git(tree, "rev-parse", "HEAD").strip() == commits[-1]
