"""One figure of the report by itself, for a notebook or a paper."""

from __future__ import annotations

from polypath.plot import KINDS, Drawing, Figure, drawn_as
from polypath.results import Results

from ._open import material
from ._page import page

_OVER_TIME = "time-"
_NOTHING = Drawing(svg="", files={})


def plot(results: Results, what: str, experiment: str | None = None) -> Figure:
    """A figure of the report of these results; nothing else is drawn. `Results.plot` says what
    there is.
    """
    experiments = [str(name) for name in results.runs["experiment"].unique()] if experiment is None else [experiment]
    # As a figure is called; else the one of each experiment; else the one over time.
    meant = [[what], *([f"{before}{what}-{name}" for name in experiments] for before in ("", _OVER_TIME))]
    with drawn_as(KINDS, lambda name, _: None if any(name in names for names in meant) else _NOTHING):
        there = {figure.name: figure for figure in page(material(results)).figures}
    for names in meant:
        figures = [there[name] for name in names if name in there]
        if len(figures) == 1:
            return figures[0]
        if figures:
            raise ValueError(f'"{what}" is a figure of several experiments; say which with `experiment`: {", ".join(experiments)}')
    short = dict.fromkeys(_short(name, experiments) for name in there)
    raise ValueError(f'there is no figure "{what}"; there are {", ".join(short)}')


def _short(name: str, experiments: list[str]) -> str:
    """As a person asks for a figure: without its experiment, which says itself where there is one."""
    over = next((each for each in experiments if name.endswith(f"-{each}")), None)
    return name if over is None else name.removesuffix(f"-{over}").removeprefix(_OVER_TIME)
