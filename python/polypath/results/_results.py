"""The results of a study: tables read from its folder when they are asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from polypath.errors import PolypathError
from polypath.study import MOST_KEPT, Study, StudyError

from ._manifest import MANIFEST, STUDY_COPY
from ._store import Store

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

TABLES = (
    "runs",
    "baselines",
    "alone",
    "subflows",
    "links",
    "tunnels",
    "tunnel_paths",
    "progress",
    "counters",
    "events",
    "series",
    "link_series",
)


class Results:
    """The tables of a study. Attributes are pandas frames; `to_polars` and `table` give the same in other forms."""

    def __init__(self, folder: Path, study: Study | None = None) -> None:
        self.folder = folder
        self._study = study

    @classmethod
    def open(cls, folder: str | Path, study: Study | None = None) -> Results:
        """Opens a results folder. `study` is needed only for a study that has no file."""
        folder = Path(folder)
        if not (folder / "runs.parquet").is_file():
            raise StudyError(f"{folder} holds no results: there is no runs.parquet in it; `polypath run STUDY` makes them")
        return cls(folder, study)

    def table(self, name: str) -> pa.Table:
        """A table as Arrow; names are in `polypath.results.TABLES`."""
        if name not in TABLES:
            raise ValueError(f'there is no table "{name}"; there are {", ".join(TABLES)}')
        try:
            return pq.read_table(self.folder / f"{name}.parquet")
        except FileNotFoundError:
            raise StudyError(f"{self.folder} is no whole results folder: it lacks {name}.parquet; run the study again") from None

    def to_pandas(self, name: str = "runs") -> pd.DataFrame:
        """A table as a pandas frame."""
        frame: pd.DataFrame = self.table(name).to_pandas()
        return frame

    def to_polars(self, name: str = "runs") -> pl.DataFrame:
        """A table as a polars frame."""
        try:
            import polars as pl  # It takes a while to load, and most sessions use pandas alone.
        except ModuleNotFoundError:
            raise PolypathError("polars frames need the package polars: pip install 'polypath[polars]'") from None

        frame = pl.from_arrow(self.table(name))
        assert isinstance(frame, pl.DataFrame), "a table becomes a frame"
        return frame

    @cached_property
    def runs(self) -> pd.DataFrame:
        """A row a run and flow."""
        return self.to_pandas("runs")

    @cached_property
    def baselines(self) -> pd.DataFrame:
        """Plain TCP alone on each path: columns of `runs`, and which path of which flow."""
        return self.to_pandas("baselines")

    @cached_property
    def alone(self) -> pd.DataFrame:
        """Each flow without the others of its cell, where the study asks for it: columns of `runs`, and which flow."""
        there = (self.folder / "alone.parquet").is_file()
        # Results from before there was such a table.
        return self.to_pandas("alone") if there else _nothing()

    @cached_property
    def subflows(self) -> pd.DataFrame:
        """A row a run and subflow."""
        return self.to_pandas("subflows")

    @cached_property
    def links(self) -> pd.DataFrame:
        """A row a run and direction of a link."""
        return self.to_pandas("links")

    @cached_property
    def tunnels(self) -> pd.DataFrame:
        """A row a run and direction of a tunnel; of results from before there were tunnels none."""
        return self.to_pandas("tunnels") if (self.folder / "tunnels.parquet").is_file() else _nothing()

    @cached_property
    def tunnel_paths(self) -> pd.DataFrame:
        """A row a run, direction of a tunnel and path of it."""
        return self.to_pandas("tunnel_paths") if (self.folder / "tunnel_paths.parquet").is_file() else _nothing()

    @cached_property
    def progress(self) -> pd.DataFrame:
        """A row a run, flow and tenth of a second: bytes received and accepted so far."""
        return self.to_pandas("progress")

    @cached_property
    def counters(self) -> pd.DataFrame:
        """A row a run, node and counter of a kernel's /proc/net/netstat and /proc/net/snmp; empty where no kernel ran."""
        return self.to_pandas("counters")

    @cached_property
    def events(self) -> pd.DataFrame:
        """A row an outage or handover of a link and flow: stall time, and time to recover."""
        return self.to_pandas("events")

    @cached_property
    def series(self) -> pd.DataFrame:
        """A row a run, subflow and sample: cwnd, srtt and so on."""
        return self.to_pandas("series")

    @cached_property
    def link_series(self) -> pd.DataFrame:
        """A row a run, direction of a link and sample: its queue."""
        return self.to_pandas("link_series")

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """Study, engines with versions, seeds and counts."""
        manifest: dict[str, Any] = json.loads((self.folder / MANIFEST).read_bytes())
        return manifest

    @cached_property
    def study(self) -> Study | None:
        """The study as it was run; None if it was built in Python and is not at hand."""
        if self._study is not None:
            return self._study
        return Study.load(self.folder / STUDY_COPY) if (self.folder / STUDY_COPY).is_file() else None

    def summary(self) -> pd.DataFrame:
        """What `polypath run` prints: a row a cell and flow with the metrics of the flow's application, means over the repetitions.

        Columns: experiment, application, engine and kernel, the study's parameters, flow, n (runs); for each metric of an application
        (docs/concepts/metrics.md has them with units) its mean and half the width of its 95 % interval as `<metric>_ci`, null where the
        application has none such; what nothing can better: possible_mbps, least_delay_ms, least_response_ms, least_completion_s;
        of_possible from 0 to 1, limited_by and why.
        """
        import pandas as pd

        from polypath.analysis import answers, applications_in, with_limits
        from polypath.study import parameter_names

        if self.runs.empty:
            return _nothing()
        runs = with_limits(self.runs, self.subflows, self.scenarios, self.link_series)
        parameters = [] if self.study is None else [name for name in parameter_names(self.study) if name not in self.study.repeated]
        by = list(dict.fromkeys(["experiment", "application", "engine", "kernel", *parameters, "flow"]))
        return pd.concat([answers(runs, by, kind) for kind in applications_in(runs)], ignore_index=True)

    def scenario(self, key: str) -> dict[str, Any]:
        """What the run of this key simulated: plain data with every default written out."""
        scenario: dict[str, Any] = self._store.record(key)["scenario"]
        return scenario

    @cached_property
    def _store(self) -> Store:
        return Store(self.folder / "runs")

    @cached_property
    def scenarios(self) -> Mapping[str, dict[str, Any]]:
        """What each run in the table of runs simulated, by key; those of many runs are read anew each time they are asked for."""
        keys = dict.fromkeys(map(str, self.runs["key"]))
        return {key: self.scenario(key) for key in keys} if len(keys) <= MOST_KEPT else _Scenarios(self, keys)

    def __repr__(self) -> str:
        return f"Results({str(self.folder)!r})"


class _Scenarios(Mapping[str, dict[str, Any]]):
    """Scenarios of too many runs to keep."""

    def __init__(self, results: Results, keys: Mapping[str, None]) -> None:
        self._results, self._keys = results, keys

    def __getitem__(self, key: str) -> dict[str, Any]:
        if key not in self._keys:
            raise KeyError(key)
        return self._results.scenario(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


def _nothing() -> pd.DataFrame:
    import pandas as pd  # It takes a while to load, and a mistake in a study needs none.

    return pd.DataFrame()
