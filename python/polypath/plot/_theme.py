"""One look for every figure. The font is bundled with vl-convert, so figures come out alike on a
machine without fonts.
"""

from __future__ import annotations

from typing import Any

FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
INK = "#1f2933"
QUIET = "#66727f"
GRID = "#e3e7eb"
PAPER = "#ffffff"
PALETTE = ["#2767b0", "#e07b28", "#2f9271", "#a5499b", "#c0392f", "#7a6a1e", "#3aa0c9", "#6b6f76"]
"""Told apart with the common colour blindnesses and in grey; a path keeps its colour in every
figure.
"""
MARK = "#c0392f"
"""Published values."""


def colour(index: int) -> str:
    return PALETTE[index % len(PALETTE)]


def config() -> dict[str, Any]:
    """Vega-Lite's config of the look."""
    return {
        "font": FONT,
        "background": PAPER,
        "padding": 8,
        "view": {"stroke": None},
        "axis": {
            "labelColor": QUIET,
            "titleColor": INK,
            "titleFontWeight": "normal",
            "titleFontSize": 12,
            "labelFontSize": 11,
            "gridColor": GRID,
            "domainColor": "#b8c1ca",
            "tickColor": "#b8c1ca",
            "titlePadding": 8,
        },
        "axisY": {"domain": False, "ticks": False, "labelPadding": 6},
        "axisX": {"grid": False},
        "legend": {
            "labelColor": INK,
            "titleColor": QUIET,
            "titleFontWeight": "normal",
            "labelFontSize": 12,
            "titleFontSize": 11,
            "orient": "top",
            "symbolStrokeWidth": 3,
            "symbolSize": 160,
            "labelLimit": 400,
        },
        "header": {"labelFontSize": 12, "labelFontWeight": "bold", "labelColor": INK, "labelAnchor": "start", "title": None},
        "title": {"anchor": "start", "fontSize": 13, "color": INK, "fontWeight": "bold", "subtitleColor": QUIET},
        "range": {"category": PALETTE},
    }
