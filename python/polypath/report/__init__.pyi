from ._against import against_view
from ._claims import ClaimView, claim_results, claims_of, other_views
from ._compare import comparison, comparison_sentences, limits_of, mean_and_interval, parameters_apart, within_of
from ._conclusion import concluded
from ._format import share_of_paths
from ._material import Material, published_beside, varied, with_limits
from ._notes import notes
from ._open import material, write_report
from ._page import Page, page
from ._paper import as_printed, paper_figure
from ._pcap import Part, Replayed, capture_page, write_captures
from ._plot import plot
from ._segments import SEGMENT, mtu_searches, segments
from ._timing import UNTRUSTED_MARK, warnings
from ._write import FIGURES, markdown_page, render, replace, write

__all__ = [
    "FIGURES",
    "SEGMENT",
    "UNTRUSTED_MARK",
    "ClaimView",
    "Material",
    "Page",
    "Part",
    "Replayed",
    "against_view",
    "as_printed",
    "capture_page",
    "claim_results",
    "claims_of",
    "comparison",
    "comparison_sentences",
    "concluded",
    "limits_of",
    "markdown_page",
    "material",
    "mean_and_interval",
    "mtu_searches",
    "notes",
    "other_views",
    "page",
    "paper_figure",
    "parameters_apart",
    "plot",
    "published_beside",
    "render",
    "replace",
    "segments",
    "share_of_paths",
    "varied",
    "warnings",
    "with_limits",
    "within_of",
    "write",
    "write_captures",
    "write_report",
]
