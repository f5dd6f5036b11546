"""MPTCP schedulers of cc/sched in a kernel."""

from pathlib import Path
from typing import Any

import pytest

from polypath import Study, linux, run

# A fast path and a slow one, with losses, jitter and a small receive buffer.
NETWORK: dict[str, Any] = {
    "name": "two",
    "topology": {
        "nodes": {"a": None, "b": {"sysctl": {"net.ipv4.tcp_rmem": "4096 131072 400000"}}},
        "links": {
            "fast": {"ends": ["a", "b"], "both": {"rate": "20mbit", "queue": "70packets", "delay": "10ms", "loss": "0.1%"}},
            "slow": {"ends": ["a", "b"], "both": {"rate": "5mbit", "queue": "70packets", "delay": "100ms", "jitter": "2ms"}},
        },
    },
    "duration": "5s",
    "baselines": None,
    "seeds": 2,
}


def rows(out: Path, scheduler: str, **flow: Any) -> list[dict[str, Any]]:
    study = Study.model_validate({**NETWORK, "flows": {"f": {"client": "a", "server": "b", "scheduler": scheduler, **flow}}})
    table = run(study, engine="linux", out=out).runs.drop(columns=["scheduler", "key"], errors="ignore")
    return [dict(row) for row in table.to_dict("records")]


def test_ours_is_the_kernels_own_default(linux_kernel: linux.Kernel, tmp_path: Path) -> None:
    theirs, ours = rows(tmp_path / "theirs", "default@linux"), rows(tmp_path / "ours", "default")
    for mine, own in zip(ours, theirs, strict=True):
        assert own["goodput_receiver_mbps"] > 1 and own["retransmissions"] > 0
        for name, value in own.items():
            # A host whose scheduler is set begins a system call later, some hundred nanoseconds.
            same = (
                mine[name] == pytest.approx(value, rel=1e-5, nan_ok=True) if isinstance(value, float) else repr(mine[name]) == repr(value)
            )
            assert same, (name, mine[name], value)


@pytest.mark.parametrize("name", ["minrtt", "roundrobin", "backup", "redundant", "blest", "ecf", "sttf", "daps", "payload"])
def test_each_runs_and_delivers(linux_kernel: linux.Kernel, tmp_path: Path, name: str) -> None:
    assert f"pp_{name}" in linux_kernel.schedulers
    found = rows(tmp_path, name)
    assert all(row["goodput_receiver_mbps"] > 1 for row in found), found


def test_one_that_looks_ahead_fills_a_small_receive_buffer_better(linux_kernel: linux.Kernel, tmp_path: Path) -> None:
    rate = {name: sum(row["goodput_receiver_mbps"] for row in rows(tmp_path / name, name)) for name in ("default", "blest")}
    # The slow path's bytes hold up the window: 5.9 and 18.8 Mbit/s without losses.
    assert rate["blest"] > 1.5 * rate["default"], rate
