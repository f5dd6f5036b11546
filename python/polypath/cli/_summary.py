"""What is printed after a run: each cell beside what was possible, published numbers beside
measured ones, and the claims.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from polypath.analysis import (
    APPLICATIONS,
    FAIRNESS,
    HEADS,
    PLATFORM,
    POSSIBLE,
    Application,
    Metric,
    answers,
    applications_in,
    groups,
    meant,
    platforms_in_order,
    summarise,
)
from polypath.results import Results
from polypath.study import StudyError

from ._against import against
from ._console import out

if TYPE_CHECKING:
    from polypath.report import Material

MISSING = "–"
GOODPUT = "goodput_receiver_mbps"
# Columns that a narrow terminal can do without: width in characters from which they are shown.
_ROOMY = 120
_AT_BEST, _OF_POSSIBLE = "at best", "of\npossible"
# What a table without room goes without at last, in this order.
_SPARED = (_AT_BEST, _OF_POSSIBLE)
# What a roomy one shows of those that send as fast as they can.
_MORE = (("goodput_sender_mbps", "sender\nMbit/s", 2), ("retransmissions", "retrans-\nmissions", 0), ("srtt_ms", "srtt\nms", 1))


def summary(results: Results, tables: Material | None = None, columns: Sequence[str] = ()) -> RenderableType:
    """A table for each experiment and kind of application, then published numbers and claims where
    the study has them.

    `tables`: their material where it is there; `columns`: those of the runs to show in place of the
    application's own.
    """
    from polypath.report import (
        material,
        notes,
        warnings,
        with_limits,
    )  # The drawing library takes longer to load than most commands take to run.

    if results.runs.empty:
        raise StudyError(f"{results.folder} holds no finished run: run its study again")
    tables = tables or material(results)
    runs = with_limits(tables)
    parts: list[RenderableType] = []
    for name, rows in runs.groupby("experiment", sort=False):
        parts += _chosen(str(name), rows, tables, columns) if columns else _experiment(str(name), rows, tables)
    beware, harmless = notes(tables)
    parts += [Text(sentence, style="yellow") for sentence in (*tables.origin, *warnings(runs, tables.parameters), *beware)]
    parts += [Text(sentence) for sentence in harmless]
    if tables.published is not None and not columns:
        parts.append(_published(tables))
    if tables.study.claims and not columns:
        parts.append(claims(tables))
    return Group(*parts, *against(tables))


def known_columns(results: Results, names: Sequence[str]) -> list[str]:
    """The columns of the runs that a person means; a word of the tables' heads will do."""
    return list(dict.fromkeys(_check_column(results, HEADS.get(name.lower().replace("_", " "), name)) for name in names))


def _check_column(results: Results, name: str) -> str:
    from polypath.results import columns

    there = [*columns("runs"), *FAIRNESS, *POSSIBLE]
    if name not in there:
        # A word of the tables' heads will do.
        words = difflib.get_close_matches(name, HEADS, n=1, cutoff=0.8)
        hint = f'; did you mean "{words[0]}"?' if words else meant(name, there) or ";"
        raise StudyError(f'there is no column "{name}" of the runs{hint} `polypath list columns` shows all of them')
    if not pd.api.types.is_numeric_dtype(results.runs.get(name, pd.Series(dtype=float))):
        raise StudyError(f'the column "{name}" holds no numbers, so it has no mean; choose another')
    return name


def ranking(results: Results, asked: str) -> RenderableType:
    """For each experiment and kind of application its cells by one metric, the best first, and how
    far each is from the best.

    `asked` is a column of the runs, or a word of the tables' heads: of "delay" each application has
    its own.
    """
    from polypath.report import material, with_limits

    word = asked.lower().replace("_", " ")
    column = None if word in HEADS else _check_column(results, asked)
    tables = material(results)
    parts: list[RenderableType] = []
    for (name, application), rows in with_limits(tables).groupby(["experiment", "application"], sort=False):
        declared = _declared(str(application), word if column is None else column)
        metric = column or (declared.column if declared else "")
        rows = rows[rows[metric].notna()] if metric else rows.iloc[:0]
        if len(rows):
            parts.append(_ranked(_title(str(name), rows, tables), str(application), rows, metric, declared, tables))
    return Group(*parts) if parts else Text(f"no run has a value of {asked}")


def _ranked(title: str, application: str, rows: pd.DataFrame, metric: str, declared: Metric | None, material: Material) -> Table:
    by = _by(material, rows)
    lower = declared is not None and declared.better == "lower"
    cells = summarise(rows, by, [metric]).sort_values(metric, ascending=lower, kind="stable")
    table = _table(f"{title}, {application}: {'least' if lower else 'most'} first", by)
    head = metric if declared is None else f"{declared.head}\n{declared.unit}"
    for column in ("runs", head, "of the\nfirst"):
        table.add_column(column, justify="right")
    scale, digits = (1.0, 2) if declared is None else (declared.scale, declared.digits)
    first = float(cells[metric].iloc[0])
    for _, row in cells.iterrows():
        ratio = f"{100 * row[metric] / first:.1f} %" if first else ""
        table.add_row(*(str(row[column]) for column in by), str(row["n"]), _figure(row, metric, digits, spread=True, scale=scale), ratio)
    return table


def _declared(application: str, asked: str) -> Metric | None:
    """The application's metric of this column or head; of several with one word the one that its
    cells are compared by.
    """
    application_kind = next(kind for kind in APPLICATIONS if kind.name == application)
    ordered = sorted(application_kind.metrics, key=lambda metric: metric.column != application_kind.compared_by)
    return next((metric for metric in ordered if asked in (metric.column, metric.head, metric.head.split()[0])), None)


def _title(name: str, rows: pd.DataFrame, material: Material) -> str:
    """The experiment's, and what ran it where all rows have that in common: otherwise each row says
    it.
    """
    title = material.study.all_experiments[name].title or name
    return title if material.runs[PLATFORM].nunique() > 1 else f"{title}, on {rows[PLATFORM].iloc[0]}"


def _by(material: Material, rows: pd.DataFrame) -> list[str]:
    """What tells the cells of these rows apart."""
    from polypath.report import varied

    by = varied(material, rows)
    return [*by, "flow"] if rows["flow"].nunique() > 1 or not by else by


def _experiment(name: str, rows: pd.DataFrame, material: Material) -> list[RenderableType]:
    """A table for each kind of application, and what limited its cells."""
    kinds = applications_in(rows)
    title = _title(name, rows, material)
    several = rows["flow"].nunique() > 1
    tables: list[RenderableType] = []
    for kind in kinds:
        own_rows = rows[rows["application"] == kind.name]
        by = _by(material, own_rows)
        # A flow is named wherever there are several, though not of one kind.
        by = [*by, "flow"] if several and "flow" not in by else by
        tables += _application(f"{title}: {kind.name}" if len(kinds) > 1 else title, own_rows, by, kind, material)
    return tables


def _application(title: str, rows: pd.DataFrame, by: list[str], kind: Application, material: Material) -> list[RenderableType]:
    from polypath.report import SEGMENT, UNTRUSTED_MARK, mtu_searches, segments, share_of_paths

    roomy = out.width >= _ROOMY
    more = [metric for metric in _MORE if roomy and kind.name == "bulk"]
    searches = mtu_searches(material, rows)
    if searches:
        rows, more = rows.assign(**{SEGMENT: segments(material, rows)}), [*more, (SEGMENT, "segment\nbytes", 0)]
    cells = answers(rows, by, kind, [column for column, _, _ in more])
    # What an engine does not tell (a kernel: the delay of bytes) takes no room.
    metrics = [metric for metric in kind.metrics if cells[metric.column].notna().any()] or list(kind.metrics)
    main = kind.main if kind.main in metrics else metrics[0]
    experiment = str(rows["experiment"].iloc[0])
    alone = _alone(experiment, by, material.baselines, main, material.paths_of(rows))
    single = [alone(values, rows["group"].iloc[where]) if kind.name == "bulk" or roomy else "" for values, where in groups(rows, by)]
    table = _table(title, by)
    table.add_column("runs", justify="right")
    for metric in metrics:
        table.add_column(f"{metric.head}\n{metric.unit}", justify="right")
        if metric.best and metric.better == "lower":
            table.add_column(f"{_AT_BEST}\n{metric.unit}", justify="right")
    for head in [*(head for _, head, _ in more), _OF_POSSIBLE, *[f"TCP alone\n{_brief(main)}"] * any(single)]:
        table.add_column(head, justify="right")
    table.add_column("limited by")
    late = rows["trusted"].eq(False).to_numpy(dtype=bool)
    together = _together(rows, by) if kind.name == "bulk" else {}
    # `answers` has a row a group, in their order.
    for (_, row), (_, where), beside in zip(cells.iterrows(), groups(rows, by), single, strict=True):
        texts = [f"{row['n']} {UNTRUSTED_MARK}" if late[where].any() else str(row["n"])]
        for metric in metrics:
            texts.append(_figure(row, metric.column, metric.digits, spread=True, scale=metric.scale))
            if metric.best and metric.better == "lower":
                texts.append(_figure(row, metric.best, metric.digits, scale=metric.scale))
        texts += [
            *(_figure(row, column, digits) for column, _, digits in more),
            share_of_paths(_percent(row["of_possible"]), row["of_paths"]),
            *[beside or MISSING] * any(single),
        ]
        table.add_row(*(str(row[column]) for column in by), *texts, str(row["limited_by"]))
        if (sums := together.get(int(where[-1]))) is not None:
            words = [f"{sums['way']} x {sums['copies']:.0f}" if column == "flow" else str(row[column]) for column in by]
            shown = {metrics[0].column: _figure(sums, metrics[0].column, metrics[0].digits, spread=True)}
            blank = [shown.get(metric.column, MISSING) for metric in metrics] + [MISSING] * len(more)
            share = share_of_paths(_percent(sums["share"]), row["of_paths"])
            table.add_row(*words, str(sums["n"]), *blank, share, *[MISSING] * any(single), "all together", style="bold")
    return [
        _fitted(_aligned(table), len(by), [head for _, head, _ in more]),
        *_why(cells, by),
        *(Text(f"mtu_search {name}: {about}") for name, about in searches.items()),
    ]


def _together(rows: pd.DataFrame, by: Sequence[str]) -> dict[int, pd.Series[Any]]:
    """The goodput of all connections of a flow with a `count`, by the position of the cell's last
    one: one of them says little.
    """
    if "flow" not in by or (rows["flow"] == rows["group"]).all():
        return {}
    # Of a flow both ways each way has a sum of its own.
    ways = [group + _NUMBER.sub("", flow.removeprefix(group)) for group, flow in zip(rows["group"], rows["flow"], strict=True)]
    rows = rows.assign(way=ways)
    cell = [*(column for column in by if column != "flow"), "way"]
    summed = {GOODPUT: (GOODPUT, "sum"), "bound_mbps": ("bound_mbps", "max"), "copies": ("flow", "nunique")}
    sums = rows.groupby([*cell, "key"], sort=False, dropna=False).agg(**summed).reset_index()
    places = {tuple(values): int(max(where)) for values, where in groups(rows, cell)}
    table = summarise(sums, cell, [GOODPUT, "bound_mbps", "copies"])
    table["share"] = (table[GOODPUT] / table["bound_mbps"]).where(table["bound_mbps"].between(0, math.inf, inclusive="neither"))
    return {places[tuple(row[column] for column in cell)]: row for _, row in table.iterrows() if row["copies"] > 1}


# Which copy of a flow it is.
_NUMBER = re.compile(r"^-\d+")


# Names of limits that say all by themselves.
_PLAIN = ("links", "links, shared", "application", "application's rate", "not connected")


# So many sentences of one limit are printed; of more, the one of the cell that it held most.
_MOST_WHY = 4


def _why(cells: pd.DataFrame, by: Sequence[str]) -> list[Text]:
    """What limited the cells, where its name does not say all."""
    sentences = []
    for name, affected in cells[~cells["limited_by"].isin(_PLAIN)].groupby("limited_by", sort=False):
        said: dict[str, list[str]] = {}
        for _, row in affected.sort_values("of_possible", kind="stable").iterrows():
            said.setdefault(str(row["why"]), []).append(" ".join(str(row[column]) for column in by))
        for why, where in list(said.items())[: len(said) if len(said) <= _MOST_WHY else 1]:
            others = len(affected) - 1 if len(said) > _MOST_WHY else len(where) - 1
            which = f" ({where[0]}{f' and {others} more' if others else ''})" if len(cells) > 1 else ""
            sentences.append(Text(f"{name}{which}: {why}"))
    return sentences


def _aligned(table: Table) -> Table:
    """With all cells of a row on one line, whichever wraps."""
    for column in table.columns:
        column.vertical = "bottom"
    return table


def _fitted(table: Table, names: int, spare: Sequence[str]) -> Table:
    """With no word cut off: where it has no room it goes without the columns `spare`, then the first
    ones, so many `names`, become one whose words wrap, and then it goes without `_SPARED`.
    """
    texts = zip(*(map(str, column.cells) for column in table.columns), strict=True)
    rows: _Rows = [(cells, row.style) for cells, row in zip(texts, table.rows, strict=True)]
    heads = [str(column.header) for column in table.columns]
    if _narrowest(heads, rows) <= out.width:
        return table
    heads, rows = _without(spare, heads, rows)
    together = names > 1 and _narrowest(heads, rows) > out.width
    if together:
        heads = [" ".join(heads[:names]), *heads[names:]]
        rows = [((" ".join(cells[:names]), *cells[names:]), style) for cells, style in rows]
        names = 1
    for word in _SPARED:
        if _narrowest(heads, rows, together) > out.width:
            heads, rows = _without([head for head in heads if head.startswith(word)], heads, rows)
    fitted = _table(str(table.title), [])
    for number, head in enumerate(heads):
        fitted.add_column(head, justify="right" if names <= number < len(heads) - 1 else "left", vertical="bottom", overflow="fold")
    for cells, style in rows:
        fitted.add_row(*cells, style=style)
    if together:
        fitted.columns[0].width = _width_of_names(heads, rows)
    return fitted


_Rows = list[tuple[tuple[str, ...], Any]]


def _without(gone: Sequence[str], heads: Sequence[str], rows: _Rows) -> tuple[list[str], _Rows]:
    kept = [number for number, head in enumerate(heads) if head not in gone]
    return [heads[number] for number in kept], [(tuple(cells[number] for number in kept), style) for cells, style in rows]


def _narrowest(heads: Sequence[str], rows: _Rows, together: bool = False) -> int:
    """Columns of a terminal that a table takes at the least: what limited it may wrap, and what stands
    behind a comma, and the names where they stand `together`.
    """
    *columns, last = zip(heads, *(cells for cells, _ in rows), strict=True)
    widths = [max(len(line) for text in column for line in re.split("\n|, ", text)) for column in columns]
    if together:
        widths[0] = _longest_word(columns[0])
    widths.append(_longest_word(last))
    return sum(widths) + 3 * len(widths) - 1


def _longest_word(texts: Sequence[str]) -> int:
    return max((len(word) for text in texts for word in text.split()), default=0)


def _width_of_names(heads: Sequence[str], rows: _Rows) -> int:
    """Of names in one column: half of what is to spare, or more where what limited it takes less."""
    names, *_, last = zip(heads, *(cells for cells, _ in rows), strict=True)
    spare = max(out.width - _narrowest(heads, rows, together=True), 0)
    taken = min(spare // 2, max(map(len, last)) - _longest_word(last))
    return min(_longest_word(names) + spare - taken, max(map(len, names)))


def _brief(metric: Metric) -> str:
    """A metric's unit, and which percentile it is."""
    percentile = metric.head.split()[-1]
    return f"{percentile} {metric.unit}" if percentile[1:].isdigit() else metric.unit


def _chosen(name: str, rows: pd.DataFrame, material: Material, columns: Sequence[str]) -> list[Table]:
    """The cells with the columns that were asked for."""
    by = _by(material, rows)
    cells = summarise(rows, by, columns)
    table = _table(_title(name, rows, material), by)
    for head in ("runs", *columns):
        table.add_column(head, justify="right", overflow="fold")
    for _, row in cells.iterrows():
        table.add_row(*(str(row[column]) for column in by), str(row["n"]), *(_figure(row, column, 3, spread=True) for column in columns))
    return [_aligned(table)]


def _alone(
    experiment: str, by: Sequence[str], baselines: pd.DataFrame, metric: Metric, named: Mapping[tuple[str, str], str]
) -> Callable[[Sequence[Any], Iterable[str]], str]:
    """For a cell (its values of `by`) and the flows in it: plain TCP's mean on each of their paths,
    by name where there are several.
    """
    alone_rows = baselines[baselines["experiment"] == experiment]
    has_column = [name != "flow" and name in alone_rows for name in by]
    shared = [name for name, there in zip(by, has_column, strict=True) if there]
    places = dict(groups(alone_rows, ["baseline_of", *shared]))
    ways = list(zip(alone_rows["client_address"], alone_rows["server_address"], strict=True))
    figures = (alone_rows[metric.column] * metric.scale).tolist() if metric.column in alone_rows else [math.nan] * len(alone_rows)

    def alone(values: Sequence[Any], flows: Iterable[str]) -> str:
        cell = [value for value, there in zip(values, has_column, strict=True) if there]
        rates: dict[tuple[str, str], list[float]] = {}
        for path in sorted(path for flow in dict.fromkeys(flows) for path in places.get((flow, *cell), ())):
            rates.setdefault(ways[path], []).append(figures[path])
        # Nothing where plain TCP was not measured, or does not know of it.
        means = {way: sum(values) / len(values) for way, values in rates.items()}
        if all(math.isnan(mean) for mean in means.values()):
            return ""
        names = {way: f"{named.get(way, way[0])} " if len(means) > 1 else "" for way in means}
        return ", ".join(names[way] + ("-" if math.isnan(mean) else f"{mean:.{metric.digits}f}") for way, mean in means.items())

    return alone


def _published(material: Material) -> Table:
    from polypath.report import published_beside

    said = material.study.published
    rows = published_beside(material)
    # What is the same in every line goes into the title.
    parts = {"column": "published as", "metric": "compared with", PLATFORM: "on"}
    shown = [part for part in parts if rows[part].nunique() > 1]
    title = [
        "published beside measured",
        *(str(rows[part].iloc[0]) for part in ("metric", PLATFORM) if part not in shown and len(rows) and rows[part].iloc[0]),
    ]
    table = _table(", ".join(title), ["cell", *(parts[part] for part in shown)])
    for head in ("published", "measured", "deviation"):
        table.add_column(head, justify="right")
    for _, row in rows.iterrows():
        measured = "not measured" if _missing(row["measured"]) else f"{row['measured']:.2f}"
        deviation = "" if _missing(row["deviation"]) else f"{100 * row['deviation']:+.1f} %"
        cell = " ".join(str(row[key]) for key in said.keys if row[key])
        table.add_row(cell, *(row[part] for part in shown), f"{row['published']:.2f}", measured, deviation)
    return table


def claims(material: Material, platforms: Sequence[str] | None = None) -> RenderableType:
    """Every claim: on one platform its verdict and why; on several the verdicts side by side, and
    why where they differ.
    """
    from polypath.report import claims_of

    platforms = platforms or platforms_in_order(material.runs[PLATFORM])
    results = claims_of(material)
    if len(platforms) < 2:
        table = _table("claims", ["claim", "on", "verdict", "why"])
        for claim in results:
            decided = claim.on(platforms[0])
            table.add_row(claim.id, decided.platform, Text(str(decided.verdict), style=_VERDICTS.get(decided.css, "")), decided.why)
        return table
    table = _table("claims", ["claim", *platforms])
    reasons: list[Text] = []
    for claim in results:
        said = [claim.on(platform) for platform in platforms]
        table.add_row(claim.id, *(Text(str(verdict.verdict), style=_VERDICTS.get(verdict.css, "")) for verdict in said))
        if not claim.agreed:
            reasons += [Text(f"{claim.id} on {verdict.platform}: {verdict.why}") for verdict in said]
    return Group(table, *reasons)


_VERDICTS = {"holds": "green", "fails": "red"}


def _table(title: str, words: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for word in words:
        table.add_column(word, vertical="bottom")
    return table


def _figure(row: pd.Series[Any], metric: str, digits: int, *, spread: bool = False, scale: float = 1.0) -> str:
    if _missing(row[metric]):
        return MISSING
    interval = scale * row[f"{metric}_ci"] if spread else None
    # An interval that rounds to nothing says nothing.
    has_interval = interval is not None and not _missing(interval) and interval >= 0.5 * 10**-digits
    return f"{scale * row[metric]:.{digits}f}" + (f" ± {interval:.{digits}f}" if has_interval else "")


def _percent(share: float) -> str:
    return MISSING if _missing(share) else f"{100 * share:.1f} %"


def _missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and not math.isfinite(value))
