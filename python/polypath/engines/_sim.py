"""The simulator: our own endpoints in virtual time, compiled into this package."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING, Any, ClassVar

from polypath import _native
from polypath.study import MODELLED, OURS, THEIRS, Cell, SetupError, Study, check_cell, located, specimens, split_cc

from ._base import Algorithm, Engine, Output
from ._errors import EngineError

if TYPE_CHECKING:
    import pyarrow as pa


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
        return list(self.described_schedulers())

    def described_schedulers(self) -> dict[str, str]:
        """What each scheduler does, by name."""
        return dict(_native.schedulers())

    def modelled_kernels(self) -> Sequence[str]:
        return [*MODELLED]

    def left_out(self, cell: Cell, kernel: str | None = None) -> str | None:
        algorithms = {algorithm.name for algorithm in self.algorithms()}
        for flow in cell.setup.flows.values():
            bare, whose = split_cc(flow.cc)
            if flow.transport == "udp":
                continue
            if flow.transport == "mptcp" and split_cc(flow.scheduler or "")[1] == THEIRS:
                return "the kernel's own scheduler, which --engine linux runs"
            if whose == THEIRS or (not whose and bare not in algorithms and bare in LINUX_ONLY):
                return "congestion controls that only a Linux kernel has, which --engine linux runs"
        return None

    def check(self, cell: Cell, kernel: str | None = None) -> None:
        check_cell(cell, simulated=True)
        super().check(_without_owner(cell), kernel)

    def check_baseline(self, cc: str) -> None:
        super().check_baseline(cc.removesuffix(OURS))

    def run(self, scenario: Mapping[str, Any]) -> Output:
        try:
            outcome, subflows, links, captures = _native.simulate(json.dumps(scenario))
        except RuntimeError as error:
            raise EngineError(str(error)) from error
        files = {name: BytesIO(data) for name, data in captures.items()}
        return Output(outcome=json.loads(outcome), subflow_series=_table(subflows), link_series=_table(links), captures=files)


def check_cc(study: Study) -> None:
    """Raises `StudyError` if a flow has a congestion control that neither the simulator nor a
    kernel has.
    """
    engine = SimEngine()
    try:
        for cell in specimens(study):
            if engine.left_out(cell) is None:
                Engine.check(engine, _without_owner(cell))
    except SetupError as error:
        raise located(study, error) from None


# Congestion controls of Linux kernels, 5.4 to 6.12.
LINUX_ONLY = {"bbr", "bic", "cdg", "dctcp", "highspeed", "htcp", "hybla", "illinois", "lp", "nv", "scalable"}
LINUX_ONLY |= {"vegas", "veno", "westwood", "yeah"}


def _without_owner(cell: Cell) -> Cell:
    """Here all algorithms and schedulers are ours, and their names need not say so."""
    flows = {
        name: flow.with_checked(cc=flow.cc.removesuffix(OURS), scheduler=flow.scheduler and flow.scheduler.replace(OURS, ""))
        for name, flow in cell.setup.flows.items()
    }
    return replace(cell, setup=cell.setup.with_checked(flows=flows))


def _table(columns: Mapping[str, tuple[str, bytes]]) -> pa.Table:
    # They take longer to load than a mistake in a study takes to find.
    import pyarrow as pa

    arrays = []
    for numpy_type, values in columns.values():
        kind = _kind(numpy_type)
        # The bytes themselves: an array of NumPy takes Arrow longer than a short run the simulator.
        arrays.append(pa.Array.from_buffers(kind, 8 * len(values) // kind.bit_width, [None, pa.py_buffer(values)]))
    return pa.table(arrays, names=list(columns))


@cache
def _kind(numpy_type: str) -> pa.DataType:
    import pyarrow as pa

    return pa.from_numpy_dtype(numpy_type)
