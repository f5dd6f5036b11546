"""The simulator: our own endpoints in virtual time, compiled into this package."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from polypath import _native

from ._base import Algorithm, Engine, EngineError, Output


class SimEngine(Engine):
    """Simulates; needs no privileges and no network, and gives the same bytes on every machine."""

    name: ClassVar[str] = "sim"
    summary: ClassVar[str] = "our own endpoints in virtual time (default)"

    @property
    def version(self) -> str:
        return _native.version()

    def algorithms(self) -> list[Algorithm]:
        return [Algorithm(*algorithm) for algorithm in _native.algorithms()]

    def schedulers(self) -> list[str]:
        return _native.schedulers()

    def run(self, scenario: Mapping[str, Any]) -> Output:
        try:
            outcome, subflows, links = _native.simulate(json.dumps(scenario))
        except RuntimeError as error:
            raise EngineError(str(error)) from error
        return Output(outcome=json.loads(outcome), subflow_series=_table(subflows), link_series=_table(links))


def _table(columns: Mapping[str, tuple[str, bytes]]) -> pa.Table:
    return pa.table({name: np.frombuffer(values, dtype=numpy_type) for name, (numpy_type, values) in columns.items()})
