"""The report: one self-contained page from a study and its tables."""

from ._material import Material, published_rows, varied, with_limits
from ._open import material, write_report
from ._page import Page, claim_results, other_views, page
from ._write import FIGURES, PAGE, render, write

__all__ = [
    "FIGURES",
    "PAGE",
    "Material",
    "Page",
    "claim_results",
    "material",
    "other_views",
    "page",
    "published_rows",
    "render",
    "varied",
    "with_limits",
    "write",
    "write_report",
]
