"""From a results folder to the material of a report."""

from __future__ import annotations

import platform
import re
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import numpy as np
import pandas as pd

from polypath.analysis import PLATFORM, platform_names, with_fairness
from polypath.results import Results
from polypath.study import Study, StudyError, inside, parameter_names

from ._material import Material


def material(results: Results, against: tuple[str, str] | None = None) -> Material:
    """Reads the tables of a study's results; raises `StudyError` where there is nothing to report.

    `against`: a parameter, and the value with which all others are compared.
    """
    study = results.study
    if study is None:
        raise StudyError(f"{results.folder} has no study.yaml; give the study that it answers to report on it")
    if results.runs.empty:
        raise StudyError(f"{results.folder} holds no finished run of the study {study.name} yet; run it first")
    parameters = parameter_names(study)
    scenarios = results.scenarios
    runs, baselines, alone = (_named(results.readable(table)) for table in (results.runs, results.baselines, results.alone))
    if runs.empty:
        raise StudyError(f"{results.folder} holds no run that can be read: run the study {study.name} again")
    by = ["experiment", PLATFORM, "seed", *(name for name in parameters if name in runs)]
    return Material(
        study=study,
        parameters=parameters,
        runs=with_fairness(runs, alone, baselines, scenarios, by),
        baselines=baselines,
        alone=alone,
        subflows=_named(results.readable(results.subflows)),
        series=_named(results.readable(results.series)),
        link_series=_named(results.readable(results.link_series)),
        progress=_named(results.readable(results.progress)),
        events=_named(results.readable(results.events)),
        links=_named(results.readable(results.links)),
        tunnel_paths=_named(results.readable(results.tunnel_paths)),
        scenarios=scenarios,
        published=_published(results, study),
        repeat=_repeat(results, study),
        versions=_versions(results),
        against=pd.DataFrame() if against is None else results.against(**{against[0]: against[1]}),
        origin=results.notes,
    )


def _named(table: pd.DataFrame) -> pd.DataFrame:
    """The table with what ran each row, and its texts as objects, each once: over texts as Arrow has
    them a report takes half as long again.
    """
    if "engine" not in table:
        return table
    named = table.assign(**{PLATFORM: platform_names(table)})
    # Before pandas 3 they are objects already.
    for name in (name for name, kind in named.dtypes.items() if isinstance(kind, pd.StringDtype)):
        # What is missing has the code -1, the last place.
        codes, texts = pd.factorize(named[name])
        named[name] = pd.array(np.array([*texts, np.nan], dtype=object)[codes], dtype=pd.StringDtype("python", na_value=np.nan))
    return named


def write_report(
    results: Results, folder: Path | None = None, tables: Material | None = None, figures: Sequence[str] = ("svg", "png")
) -> Path:
    """Writes report.html and figures/ (files of these kinds: svg, png, pdf) into the results
    folder, or another one; gives the page's path.

    `tables` are the material of these results where the caller has it already.
    """
    from ._write import write  # The drawing library takes longer to load than the tables.

    return write(tables or material(results), results.folder if folder is None else folder, figures)


def _published(results: Results, study: Study) -> pd.DataFrame | None:
    if study.published is None:
        return None
    for folder in (results.folder, study.folder):
        if folder is not None:
            try:
                file = inside(folder, study.published.file)
            except ValueError:
                continue
            return pd.read_csv(file, dtype=dict.fromkeys(study.published.keys, str))
    raise StudyError(
        f"the published numbers {study.published.file} of the study {study.name} lie neither in {results.folder} nor beside the study"
    )


_MADE_BY = re.compile(r"# Made by: (.+)")
"""The first line of a study file that a command wrote."""


def _repeat(results: Results, study: Study) -> list[str]:
    engines = list(results.manifest["engines"])
    file = results.folder / "study.yaml"
    asked = _MADE_BY.match(file.read_text(encoding="utf-8")) if file.is_file() else None
    if asked is not None:
        return [asked[1], f"polypath run {study.name}   # its runs alone, where the command above wrote them"]
    if study.folder is None:
        return [f"# The study {study.name} was built in Python; run the program that built it again."]
    # The host's kernel is the one that runs; it cannot be chosen.
    named = [engine.partition(" ")[0] if engine.startswith("host ") else engine.replace(" ", " --kernel ") for engine in engines]
    left_out = [f"# {line}" for line in results.manifest.get("left_out", [])]
    return left_out + [f"polypath run study.yaml --engine {engine} --out again   # study.yaml lies beside this page" for engine in named]


def _versions(results: Results) -> dict[str, str]:
    engines = {f"engine {name}": str(version) for name, version in results.manifest["engines"].items()}
    try:
        versions = {"polypath": metadata.version("polypath")}
    except metadata.PackageNotFoundError:
        versions = {}
    return {**versions, **engines, "page made with": f"Python {platform.python_version()}, Altair {metadata.version('altair')}"}
