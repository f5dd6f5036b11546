"""`polypath compare`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from polypath.engines import EngineError, find
from polypath.results import DEFAULT_OUT, Results, plan
from polypath.study import FEWEST_STARTS, Study, StudyError, Time

from . import _studies
from ._console import err, give, out, quantity_of
from ._summary import claims
from ._work import AsJson, CcPath, Only, Short, Workers, carry_out, choices, in_form, names_in, use_custom

if TYPE_CHECKING:
    import pandas as pd

    from polypath.analysis import Comparison, Distance
    from polypath.report import Material

# Columns that a narrow terminal can do without: width in characters from which they are shown.
_ROOMY = 120


def compare(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="Folder or file of a study, or the name of one in ./studies.")],
    engines: Annotated[str, typer.Option(help="Engines with commas between, such as sim,linux.")] = "sim,linux",
    kernel: Annotated[
        str | None, typer.Option(help="Kernels of the linux engine with commas between, such as 6.1,6.12; default: the study's own.")
    ] = None,
    out_folder: Annotated[
        Path, typer.Option("--out", help="Where the results go; the study gets a folder of its name in it.")
    ] = DEFAULT_OUT,
    workers: Workers = None,
    only: Only = None,
    short: Short = False,
    starts: Annotated[
        int | None,
        typer.Option(
            min=FEWEST_STARTS, help="So many starts of every cell, the same on every engine, judged as distributions: 12 is a good number."
        ),
    ] = None,
    spread: Annotated[
        str | None, typer.Option(help="With --starts: flows without a `start_spread` of their own begin within this; default: 500ms.")
    ] = None,
    cc_path: CcPath = None,
    as_json: AsJson = False,
    report: Annotated[bool, typer.Option(help="Write the report with its figures.")] = True,
) -> None:
    """Run a study on several engines or kernels and set the results beside one another, row by row.

    The last one is the reference: real kernels stand behind the simulator, newer ones behind older.
    "within 10 %" says whether a mean lies within 10 % of the reference's. Finished runs are never
    run again.

    With --starts, and wherever a row has eight repetitions or more, "over the same starts" says
    whether they differ by more than chance. One start of one run proves little.
    """
    use_custom(cc_path)
    (loaded,), chosen = in_form([_studies.load(study)], short=short), choices(only)
    if starts is not None:
        loaded = loaded.over_starts(starts, quantity_of("--spread", spread or "500ms", Time, StudyError))
    elif spread is not None:
        raise StudyError("--spread says within what time the flows of --starts begin; add --starts 12")
    plans = [
        plan(loaded, engine=find(engine), out=out_folder, only=chosen, kernel=version)
        for engine, version in _platforms(names_in(engines), names_in(kernel))
    ]
    failures = []
    for work in plans:
        for line in (*work.left_out, *work.notes):
            err.print(f"{loaded.name}: {line}", soft_wrap=True)
        try:
            carry_out(work, workers)
        except EngineError as error:
            # What did run can be compared all the same.
            failures.append(str(error))
    results = Results.open(plans[-1].folder, loaded)
    from polypath.report import (
        comparison,
        comparison_sentences,
        material,
        warnings,
        write,
    )  # The drawing library takes longer to load than most commands take to run.

    tables = material(results)
    # The results folder may hold other parts and other engines of the study from before.
    keys = {run.key for work in plans for run in work.runs}
    compared = comparison(tables, runs=keys)
    if compared is None and failures:
        raise EngineError("\n".join(failures))
    if compared is None:
        raise StudyError(f"there is nothing to compare: only one engine ran {loaded.name}; name two, like --engines sim,linux")
    if as_json:
        give({**_json(loaded, compared), "claims": _claims(tables, compared.platforms)})
    else:
        _print(loaded, compared)
        if loaded.claims:
            out.print(claims(tables, compared.platforms))
        for sentence in (*tables.origin, *warnings(tables.runs[tables.runs["key"].isin(keys)], tables.parameters)):
            out.print(Text(sentence, style="yellow"), soft_wrap=True)
        for sentence in comparison_sentences(compared):
            out.print(sentence, soft_wrap=True)
    if report:
        (err if as_json else out).print(f"report: {write(tables, results.folder)}", soft_wrap=True)
    if failures:
        raise EngineError("\n".join(failures))


def _platforms(engines: Sequence[str], kernels: Sequence[str]) -> list[tuple[str, str | None]]:
    """Engine and kernel of each column."""
    if not engines:
        raise StudyError("--engines names none; name two, like --engines sim,linux")
    if kernels and "linux" not in engines:
        raise StudyError("--kernel names kernels of the engine linux; add it, like --engines sim,linux")
    platforms: list[tuple[str, str | None]] = []
    for engine in engines:
        platforms += [(engine, version) for version in kernels] if engine == "linux" and kernels else [(engine, None)]
    return list(dict.fromkeys(platforms))


def _print(study: Study, comparison: Comparison) -> None:
    for name, rows in comparison.rows.groupby("experiment", sort=False):
        out.print(_table(study.all_experiments[str(name)].title or str(name), rows, comparison))


def _table(title: str, rows: pd.DataFrame, comparison: Comparison) -> Table:
    import pandas as pd

    from polypath.analysis import PLATFORM
    from polypath.report import limits_of, mean_and_interval, parameters_apart, within_of

    # Distributions and two platforms take the room; the report has the rest.
    spread = bool(rows["distance"].notna().any())
    names, roomy = parameters_apart(rows, comparison.by), not spread and out.width >= _ROOMY * len(comparison.judged)
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    names = [*names, "flow"] if rows["flow"].nunique() > 1 or not names else names
    for name in names:
        table.add_column(name, vertical="bottom")
    unit = "s" if (rows["metric"] == "completion_s").all() else "Mbit/s"
    for platform in comparison.platforms:
        table.add_column(f"{platform}\n{unit}", justify="right")
    for platform in comparison.judged:
        of = f"{platform}\n" if len(comparison.judged) > 1 else ""
        heads = ["deviation", "within\n10 %", *["over the same starts"] * spread, *["windows\narea", "srtt\ndeviation"] * roomy]
        for head in (of + suffix for suffix in heads):
            table.add_column(head, justify="left" if head.endswith(("10 %", "starts")) else "right", vertical="bottom")
    if roomy:
        table.add_column("retrans-\nmissions", justify="right")
    table.add_column("limited by", vertical="bottom")
    styles = {"yes": "green", "no": "red"}
    for _, cell in rows.groupby(list(comparison.by), sort=False, dropna=False):
        row_of = {str(row[PLATFORM]): row for _, row in cell.iterrows()}
        line: list[str | Text] = ["" if pd.isna(cell[name].iloc[0]) else str(cell[name].iloc[0]) for name in names]
        line += [mean_and_interval(row_of[platform]) for platform in comparison.platforms]
        for platform in comparison.judged:
            row = row_of[platform]
            within = within_of(row)
            line += [_share(row["deviation"], 1), Text(within, style=styles.get(within, "")), *[_over_starts(row["distance"])] * spread]
            line += [f"{row['window_area']:.2f}" if _known(row["window_area"]) else "", _share(row["srtt_deviation"], 0)] if roomy else []
        sent = [row_of[platform]["retransmissions"] for platform in comparison.platforms]
        line += [" / ".join(f"{value:.0f}" if _known(value) else "–" for value in sent)] if roomy else []
        table.add_row(*line, limits_of(row_of, comparison.platforms))
    return table


def _over_starts(distance: Distance | None) -> Text:
    if distance is None:
        return Text("")
    return Text(str(distance), style="red" if distance.standing == "differs" else "green")


def _share(value: float, digits: int) -> str:
    return f"{100 * value:+.{digits}f} %" if _known(value) else ""


def _known(value: Any) -> bool:
    return value is not None and math.isfinite(value)


def _json(study: Study, comparison: Comparison) -> dict[str, Any]:
    """Everything that the tables show, unrounded; what is not known is null."""
    import pandas as pd

    from polypath.analysis import PLATFORM, in_words
    from polypath.report import comparison_sentences

    rows = []
    for _, cell in comparison.rows.groupby(list(comparison.by), sort=False, dropna=False):
        first = cell.iloc[0]
        parameters = {
            name: _plain(first[name]) for name in comparison.by if name not in ("experiment", "flow") and not pd.isna(first[name])
        }
        figures = [column for column in cell.columns if column not in (*comparison.by, PLATFORM, "metric", "distance")]
        rows.append(
            {
                "experiment": first["experiment"],
                "parameters": parameters,
                "flow": first["flow"],
                "metric": first["metric"],
                "platforms": {row[PLATFORM]: _figures(row, figures) for _, row in cell.iterrows()},
            }
        )
    windows = [{name: _plain(row[name]) for name in comparison.windows.columns} for _, row in comparison.windows.iterrows()]
    counts = {platform: dict(zip(("within_10_percent", "of"), comparison.count(platform), strict=True)) for platform in comparison.judged}
    return {
        "study": study.name,
        "platforms": list(comparison.platforms),
        "reference": comparison.reference,
        "counts": counts,
        "over_starts": {
            platform: in_words(comparison.distances(platform)) for platform in comparison.judged if comparison.distances(platform)
        },
        "conclusions": dict(zip(comparison.judged, comparison_sentences(comparison), strict=True)),
        "rows": rows,
        "windows": windows,
    }


def _figures(row: Any, names: Sequence[str]) -> dict[str, Any]:
    """What was found on one platform; `over_starts` where there were starts enough."""
    distance: Distance | None = row["distance"]
    figures = {name: _plain(row[name]) for name in names}
    if distance is not None:
        figures["over_starts"] = {name: _plain(value) for name, value in {"n": distance.n, **distance.figures}.items()}
    return figures


def _claims(material: Material, platforms: Sequence[str]) -> list[dict[str, Any]]:
    from polypath.report import claims_of

    return [
        {
            "id": claim.id,
            "sentence": claim.sentence,
            "platforms": {name: {"verdict": str(claim.on(name).verdict), "why": claim.on(name).why} for name in platforms},
        }
        for claim in claims_of(material)
    ]


def _plain(value: Any) -> Any:
    plain = value.item() if hasattr(value, "item") else value
    return None if plain is None or (isinstance(plain, float) and not math.isfinite(plain)) else plain
