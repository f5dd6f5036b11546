"""The queues of tools/sweep_scale.py: whoever limits, limits by arithmetic."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest

from polypath.engines import ENGINES

FREE = {"plan": 0.0, "keep": 0.0, "client_chunk": 0.0, "scheduler_chunk": 0.0, "heartbeat": 0.0, "worker_chunk": 0.0}


@pytest.fixture
def scale(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(request.config.rootpath / "tools")
    before = dict(ENGINES)
    module = importlib.import_module("sweep_scale")
    # It brings engines of its own.
    for name in ENGINES.keys() - before.keys():
        del ENGINES[name]
    return module


@pytest.mark.parametrize(
    ("limits", "workers", "share"),
    [
        ({}, 40, 1.0),
        # 100 runs of 0.2 s a second keep 20 workers busy.
        ({"keep": 10.0}, 40, 0.5),
        ({"plan": 5.0, "keep": 5.0}, 40, 0.5),
        # A chunk has ten runs, 2 s: 10 chunks a second keep 20 workers busy.
        ({"client_chunk": 100.0}, 40, 0.5),
        ({"scheduler_chunk": 100.0}, 40, 0.5),
        # Two heartbeats a second for each of eight workers take half of the scheduler.
        ({"scheduler_chunk": 250.0, "heartbeat": 31.25}, 8, 0.5),
        # A worker itself is kept from runs for a fifth of its time.
        ({"worker_chunk": 500.0}, 40, 0.8),
    ],
)
def test_who_limits_keeps_so_many_workers_busy(scale: ModuleType, limits: dict[str, float], workers: int, share: float) -> None:
    costs = scale.Costs(**{**FREE, **limits})
    assert scale.simulated(costs, workers=workers, run_s=0.2, chunk=2.0, until=600.0) == pytest.approx(share, rel=0.03)


def test_where_a_limit_is_far_exceeded_the_share_is_the_quotient(scale: ModuleType) -> None:
    costs = scale.Costs(**{**FREE, "keep": 10.0})
    assert scale._busy(costs, 400, 0.2, 2.0) == pytest.approx(0.05)
