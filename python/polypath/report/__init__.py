"""The report: one self-contained page from a study and its tables."""

from ._claims import ClaimView, claim_results, claims_of, other_views
from ._compare import comparison, limits_of, names_of, sentences, title_of, value, verdict_of
from ._conclusion import concluded
from ._material import Material, published_beside, published_rows, varied, with_limits
from ._open import material, write_report
from ._page import Page, page
from ._pcap import capture_page, write_captures
from ._timing import MARK, warnings
from ._write import FIGURES, PAGE, render, write

__all__ = [
    "FIGURES",
    "MARK",
    "PAGE",
    "ClaimView",
    "Material",
    "Page",
    "capture_page",
    "claim_results",
    "claims_of",
    "comparison",
    "concluded",
    "limits_of",
    "material",
    "names_of",
    "other_views",
    "page",
    "published_beside",
    "published_rows",
    "render",
    "sentences",
    "title_of",
    "value",
    "varied",
    "verdict_of",
    "warnings",
    "with_limits",
    "write",
    "write_captures",
    "write_report",
]
