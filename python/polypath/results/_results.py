"""The results of a study: tables read from its folder when they are asked for."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from polypath.errors import PolypathError
from polypath.study import MOST_KEPT, Scalar, Study, StudyError

from ._against import against
from ._manifest import MANIFEST, kept_study
from ._shown import shown
from ._store import Store, table_files
from ._tables import columns
from ._units import KEYS, in_order, units_of

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import xarray as xr

    from polypath.plot import Figure

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
    """The tables of a study. Attributes are pandas frames; `to_polars` and `table` give the same in
    other forms.
    """

    def __init__(self, folder: Path, study: Study | None = None, store: Store | None = None) -> None:
        self.folder = folder
        self._study = study
        self._store = store or Store(folder / "runs")
        # All runs were looked at when the tables were made.
        self._looked = store is not None

    @classmethod
    def open(cls, folder: str | Path, study: Study | None = None, store: Store | None = None) -> Results:
        """Opens a results folder.

        Args:
            folder: One that a run has written: it holds `runs.parquet` and the other tables.
            study: What was run, where it was built in Python; that of a file lies in the folder.
            store: Its finished runs, where the caller has looked at them.

        Raises:
            StudyError: There are no results in the folder.
        """
        folder = Path(folder)
        if not table_files(folder, "runs"):
            raise StudyError(f"{folder} holds no results: there is no runs.parquet in it; `polypath run STUDY` makes them")
        return cls(folder, study, store)

    def table(self, name: str) -> pa.Table:
        """A table as Arrow.

        Args:
            name: One of `polypath.results.TABLES`; docs/reference/results.md has the columns of
                each, with units.

        Raises:
            ValueError: There is no table of this name.
            StudyError: The folder lacks this table.
        """
        if name not in TABLES:
            raise ValueError(f'there is no table "{name}"; there are {", ".join(TABLES)}')
        files = table_files(self.folder, name)
        if not files:
            raise StudyError(f"{self.folder} is no whole results folder: it lacks {name}.parquet; run the study again")
        try:
            table = pq.read_table(files, partitioning=None)
        except (pa.ArrowException, OSError) as error:
            raise StudyError(f"{files[0]} cannot be read ({error}): run the study again, which makes it anew from its runs") from None
        if lacks := [column for column in columns(name) if column not in table.column_names] if name == "runs" else []:
            raise StudyError(
                f"{files[0]} lacks the columns {', '.join(lacks)}, so it is of another version or was changed: run the study again"
            )
        return table

    def to_pandas(self, name: str = "runs", ordered: bool = False) -> pd.DataFrame:
        """A table as a pandas frame, with the units of its columns in `attrs["units"]`.

        Args:
            name: One of `polypath.results.TABLES`.
            ordered: Parameters of the matrix become ordered categories, so that `groupby` and plots
                keep the study's order.

        Raises:
            ValueError: There is no table of this name.
            StudyError: The folder lacks this table.
        """
        frame: pd.DataFrame = self.table(name).to_pandas()
        if ordered and self.study is not None:
            frame = in_order(frame, self.study)
        frame.attrs["units"] = units_of(frame.columns)
        return frame

    def to_xarray(self, name: str = "runs") -> xr.Dataset:
        """A table as an xarray dataset: a dimension for each parameter of the matrix, the seed and
        what tells the rows of a run apart (flow, subflow, time_s, ...); columns are its variables,
        with their units.

        Args:
            name: One of `polypath.results.TABLES` but baselines, counters and events, which have no
                such form.

        Raises:
            PolypathError: The package xarray is not installed.
            ValueError: There is no such table, or it has no such form.
            StudyError: The folder lacks this table.
        """
        if find_spec("xarray") is None:
            raise PolypathError("xarray datasets need the package xarray: pip install xarray")
        keys = _keys_of(name)
        import pandas as pd

        frame = self.to_pandas(name)
        varied = [column for column in self._dimensions if column in frame and frame[column].nunique(dropna=False) > 1]
        index = [*varied, *(key for key in keys if key not in varied)]
        rest = [str(column) for column in frame if column not in index and pd.api.types.is_numeric_dtype(frame[column])]
        # An axis has no missing values; cells of other experiments lack a parameter.
        frame = frame.assign(**{column: frame[column].astype(str) for column in varied if frame[column].isna().any()})
        dataset: xr.Dataset = frame.drop_duplicates(index).set_index(index)[rest].to_xarray()
        # In the order of the rows, as the study has it: pandas sorts them.
        dataset = dataset.reindex({column: list(dict.fromkeys(frame[column])) for column in varied})
        for column, unit in units_of([*index, *rest]).items():
            dataset[column].attrs["units"] = unit
        return dataset

    def tidy(self, name: str = "runs") -> pd.DataFrame:
        """A table in long form, a row a measured number, as plots with facets take it. Its index is
        a plain range.

        Args:
            name: As for `to_xarray`.

        Returns:
            Columns: experiment, engine, kernel, the study's parameters in its order, seed and what
            tells the rows of a run apart; then metric (the column of the table), value, and unit,
            empty for a count. What is missing has no row.

        Raises:
            ValueError: There is no such table, or it has no such form.
            StudyError: The folder lacks this table.
        """
        keys = _keys_of(name)
        frame = self.to_pandas(name, ordered=True)
        names = [column for column in dict.fromkeys((*self._dimensions, *keys)) if column in frame]
        numbers = [str(column) for column in frame.select_dtypes("number") if column not in names]
        long = frame.melt(names, numbers, "metric", "value").dropna(subset="value", ignore_index=True)
        units = units_of(numbers)
        return long.assign(unit=long["metric"].map(lambda metric: units.get(metric, "")))

    @property
    def _dimensions(self) -> list[str]:
        from polypath.study import parameter_names

        return ["experiment", "engine", "kernel", *([] if self.study is None else parameter_names(self.study))]

    def to_polars(self, name: str = "runs") -> pl.DataFrame:
        """A table as a polars frame.

        Args:
            name: One of `polypath.results.TABLES`.

        Raises:
            PolypathError: The package polars is not installed.
            ValueError: There is no table of this name.
            StudyError: The folder lacks this table.
        """
        try:
            import polars as pl  # It takes a while to load, and most sessions use pandas alone.
        except ModuleNotFoundError:
            raise PolypathError("polars frames need the package polars: pip install polars") from None

        frame = pl.from_arrow(self.table(name))
        assert isinstance(frame, pl.DataFrame), "a table becomes a frame"
        return frame

    @cached_property
    def runs(self) -> pd.DataFrame:
        """A row a run and flow: goodput_receiver_mbps, retransmissions, byte_delay_p95_ms and so
        on.

        First stand key, study, experiment, engine, kernel and seed, then the study's parameters.
        Times end in `_s` or `_ms`, rates in `_mbps` (10^6 bit/s of payload), sizes in `_bytes`;
        what an engine does not know is missing. docs/reference/results.md names the columns of
        every table.
        """
        return self.to_pandas("runs")

    @cached_property
    def baselines(self) -> pd.DataFrame:
        """Plain TCP alone on each path: columns of `runs`, and which path of which flow."""
        return self.to_pandas("baselines")

    @cached_property
    def alone(self) -> pd.DataFrame:
        """Each flow without the others of its cell, where the study asks for it: columns of `runs`,
        and which flow.
        """
        # Results from before there was such a table.
        return self.to_pandas("alone") if table_files(self.folder, "alone") else _nothing()

    @cached_property
    def subflows(self) -> pd.DataFrame:
        """A row a run and subflow: addresses, established_s, acked_mbps, mean_cwnd (segments),
        mean_srtt_ms, counters of TCP.
        """
        return self.to_pandas("subflows")

    @cached_property
    def links(self) -> pd.DataFrame:
        """A row a run and direction of a link: packets and bytes that were sent, delivered and
        dropped, by cause.
        """
        return self.to_pandas("links")

    @cached_property
    def tunnels(self) -> pd.DataFrame:
        """A row a run and direction of a tunnel; of results from before there were tunnels none."""
        return self.to_pandas("tunnels") if table_files(self.folder, "tunnels") else _nothing()

    @cached_property
    def tunnel_paths(self) -> pd.DataFrame:
        """A row a run, direction of a tunnel and path of it."""
        return self.to_pandas("tunnel_paths") if table_files(self.folder, "tunnel_paths") else _nothing()

    @cached_property
    def progress(self) -> pd.DataFrame:
        """A row a run, flow and tenth of a second (time_s): received_bytes, accepted_bytes and
        out_of_order_bytes so far.
        """
        return self.to_pandas("progress")

    @cached_property
    def counters(self) -> pd.DataFrame:
        """A row a run, node and counter of a kernel's /proc/net/netstat and /proc/net/snmp; empty
        where no kernel ran.
        """
        return self.to_pandas("counters")

    @cached_property
    def events(self) -> pd.DataFrame:
        """A row an outage or handover of a link and flow: how long the flow stood still, and how
        long it took to be back at its rate.
        """
        return self.to_pandas("events")

    @cached_property
    def series(self) -> pd.DataFrame:
        """A row a run, subflow and sample (time_s): cwnd (segments), srtt_ms, in_flight,
        pacing_mbps and so on.
        """
        return self.to_pandas("series")

    @cached_property
    def link_series(self) -> pd.DataFrame:
        """A row a run, direction of a link and sample (time_s): queue_packets, queue_bytes and
        drops so far.
        """
        return self.to_pandas("link_series")

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """Study, engines with versions, seeds and counts."""
        file = self.folder / MANIFEST
        try:
            manifest = json.loads(file.read_bytes())
        except ValueError:
            manifest = None
        if not isinstance(manifest, dict) or not isinstance(manifest.get("engines"), dict):
            raise StudyError(f"{file} cannot be read: run the study again, which makes it anew")
        return manifest

    @cached_property
    def study(self) -> Study | None:
        """The study as it was run; None if it was built in Python and is not at hand."""
        if self._study is not None:
            return self._study
        return kept_study(self.folder, lambda: map(self.scenario, dict.fromkeys(self.table("runs")["key"].to_pylist())))

    def summary(self) -> pd.DataFrame:
        """What `polypath run` prints: a row a cell and flow with the metrics of the flow's
        application, means over the repetitions.

        Returns:
            Columns: experiment, application, engine and kernel, the study's parameters, flow, n
            (runs); for each metric of an application (docs/concepts/metrics.md has them with
            units) its mean and half the width of its 95 % interval as `<metric>_ci`, null where the
            application has none such; what nothing can better: possible_mbps, least_delay_ms,
            least_response_ms, least_completion_s; of_possible from 0 to 1, of_paths ("1 path of 2"
            where no route joins the others), limited_by and why. No rows where nothing has run.
        """
        import pandas as pd

        from polypath.analysis import answers, applications_in, with_limits
        from polypath.study import parameter_names

        if self.runs.empty:
            return _nothing()
        tables = (self.runs, self.subflows, self.link_series, self.links, self.tunnel_paths)
        runs, subflows, series, links, tunnel_paths = (self.readable(table) for table in tables)
        if runs.empty:
            return _nothing()
        runs = with_limits(runs, subflows, self.scenarios, series, links, tunnel_paths)
        parameters = [] if self.study is None else [name for name in parameter_names(self.study) if name not in self.study.repeated]
        by = list(dict.fromkeys(["experiment", "application", "engine", "kernel", *parameters, "flow"]))
        table = pd.concat([answers(runs, by, kind) for kind in applications_in(runs)], ignore_index=True)
        table.attrs["units"] = units_of(table.columns)
        return table

    def against(self, metric: str | None = None, **value: Scalar) -> pd.DataFrame:
        """One value of a parameter against each other one: `results.against(cc="lia")`.

        Differences are paired over the seeds that both had; the intervals of one table hold
        together with 95 % (Bonferroni).

        Args:
            metric: A column of `runs`; by default what each application is compared by, such as
                goodput_receiver_mbps.
            value: A parameter of the matrix and one of its values; `experiment` works too.

        Returns:
            A row for each flow, other value and cell of the other parameters. Columns: the
            parameter, against, experiment, engine, kernel, the other parameters, flow, application,
            metric, n (pairs), equal (those with the same figure), unfinished and
            against_unfinished, mean, against_mean, difference, ci (half the width of its interval),
            relative (to against_mean), p (adjusted), standing ("better", "worse", "not told
            apart", ...).

        Raises:
            ValueError: No parameter was named, or several.
            StudyError: There is no such parameter or value, or nothing that can be paired.
        """
        if len(value) != 1:
            raise ValueError('name one parameter and one of its values, like against(cc="lia")')
        if self.study is None:
            raise StudyError(f"{self.folder} has no study.yaml; give the study that it answers: Results.open(folder, study)")
        ((parameter, text),) = value.items()
        return against(self.study, self.readable(self.runs), self.scenarios, parameter, text, metric)

    def report(
        self, folder: str | Path | None = None, figures: Sequence[str] = ("svg", "png"), against: Mapping[str, Scalar] | None = None
    ) -> Path:
        """Writes the report: one page that opens without a network, and its figures beside it, as
        `polypath report` does.

        Args:
            folder: Where it goes; by default the folder of the results.
            figures: Kinds of files for each figure: svg, png, pdf.
            against: A parameter and the value that the page compares all others with, as
                `{"cc": "lia"}`.

        Returns:
            The path of the page, `report.html`.

        Raises:
            StudyError: Nothing has run, or the study is not at hand.
        """
        from polypath.report import material, write_report

        if against is not None and len(against) != 1:
            raise ValueError('against has one parameter and one of its values, like {"cc": "lia"}')
        pair = next(((name, str(value)) for name, value in (against or {}).items()), None)
        return write_report(self, None if folder is None else Path(folder), material(self, against=pair), figures=figures)

    def plot(
        self,
        what: str,
        experiment: str | None = None,
        *,
        kind: str | None = None,
        width: str | None = None,
        font_size: float = 8.0,
        only: Mapping[str, Scalar | Sequence[Scalar]] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Figure:
        """One figure of the report; with a `kind` or a `width` one for a paper, as
        `polypath report --figure` draws it. A notebook shows it; `svg` is the drawing,
        `file("pdf")` or `file("png")` the bytes of a file.

        Args:
            what: topology, goodput (of each cell), cwnd, srtt, queue or order (over time), or the
                name that a figure has in the report's folder `figures`, such as
                "time-goodput-main".
            experiment: Which one's, where the study has several.
            kind: For a paper: box, cdf, bar, or line (over a number that the matrix varies, or over
                time). Then `what` is a metric (goodput, delay, completion, ...), a column of the
                runs, or cwnd or srtt.
            width: How wide it is on paper, such as "85mm".
            font_size: Of all its letters, in points.
            only: The cells and their order, as `{"cc": ["lia", "olia"]}`.
            labels: What values are called, as `{"dlia": "D-LIA"}`.

        Raises:
            ValueError: There is no such figure; the sentence lists those there are.
            StudyError: Nothing has run, or the study is not at hand.
        """
        from polypath.report import paper_figure, plot

        if kind is None and width is None:
            if only or labels:
                raise ValueError('only and labels are for figures of a paper: name a kind or a width, too, like width="85mm"')
            return plot(self, what, experiment)
        asked = {name: [values] if isinstance(values, str | int | float) else list(values) for name, values in (only or {}).items()}
        chosen = {name: [str(value) for value in values] for name, values in asked.items()}
        chosen |= {"experiment": [experiment]} if experiment is not None else {}
        return paper_figure(self, what, kind=kind, only=chosen, width=width or "85mm", font_size=font_size, labels=labels)

    def scenario(self, key: str) -> dict[str, Any]:
        """What a run simulated: plain data with every default written out, times in ns, rates in
        bit/s, sizes in bytes.

        Args:
            key: The run's, from the column `key` of any table.
        """
        if key in self._store.scenarios and key not in self._store.damaged:
            return self._store.scenarios[key]
        kept = self._store.look(key)
        try:
            if kept is not None:
                return kept.scenario
        except (ValueError, TypeError, KeyError) as error:
            self._store.damaged[key] = f"{type(error).__name__}: {error}"
        why = self._store.damaged.get(key, "it is not there")
        raise StudyError(f"the run {self._store.folder / key} cannot be read ({why}): run the study again")

    @cached_property
    def scenarios(self) -> Mapping[str, dict[str, Any]]:
        """What each run in the table of runs simulated, by key; those of many runs are read anew
        each time they are asked for.

        A run that cannot be read is not among them.
        """
        keys = dict.fromkeys(map(str, self.runs["key"]))
        if len(keys) > MOST_KEPT:
            return _Scenarios(self, keys)
        scenarios = {}
        for key in keys:
            with contextlib.suppress(StudyError):
                scenarios[key] = self.scenario(key)
        return scenarios

    def readable(self, table: pd.DataFrame) -> pd.DataFrame:
        """The rows of a table whose runs can be read: others are as if they had not run."""
        scenarios = self.scenarios
        if "key" not in table or isinstance(scenarios, _Scenarios) or not self._store.damaged:
            return table
        return table[~table["key"].isin(list(self._store.damaged))]

    @cached_property
    def notes(self) -> list[str]:
        """What to know before one believes them, a sentence each: runs that cannot be read, were
        changed, or were not computed here.
        """
        if not self._looked and len(self.scenarios) <= MOST_KEPT:
            for key in dict.fromkeys(map(str, self.baselines.get("key", ()))):
                self._store.look(key)
        return [*self._store.unreadable(), *self._store.cautions()]

    def __repr__(self) -> str:
        return f"Results({str(self.folder)!r})"

    def _repr_html_(self) -> str:
        """What a notebook shows: for each kind of application what tells the cells apart, and its
        metrics with their units and intervals.
        """
        study = self.study
        return shown(self.folder.name if study is None else study.title or study.name, self.summary())


def _keys_of(name: str) -> tuple[str, ...]:
    """What tells the rows of a table apart, beside parameters."""
    if name not in KEYS:
        raise ValueError(f'the table "{name}" has no dimensions; there are {", ".join(KEYS)}')
    return ("seed", *KEYS[name])


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
