"""How Sphinx makes the site; tools/site.py lays out what it reads, and starts it."""

import re
from pathlib import Path

from pygments.lexers.shell import BashSessionLexer
from sphinx.application import Sphinx

project = "Polypath"
author = "The authors of Polypath"
copyright = author
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
# What the person reads is English whatever the machine speaks.
language = "en"
html_title = "Polypath"
html_theme = "furo"
html_copy_source = False
# What they list, the search finds.
html_use_index = False
html_domain_indices = False
# Summaries would have to be fetched, which no browser allows of files.
html_show_search_summary = False
html_show_sphinx = False
html_last_updated_fmt = None
html_theme_options = {"navigation_with_keys": True}
html_css_files = ["site.css"]
html_static_path = [str(Path(__file__).parent / "_static")]

myst_enable_extensions = ["deflist"]
myst_heading_anchors = 4

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_class_signature = "separated"
python_use_unqualified_type_names = True
add_module_names = False


# Two models may have fields of one name; the nearest is meant.
suppress_warnings = ["ref.python"]

_CODE = re.compile(r"(`+[^`]+`+)")


def plain(app: Sphinx, what: str, name: str, found: object, options: object, lines: list[str]) -> None:
    """Docstrings are plain text with `code` in it, and a dataclass that has none gets its signature
    for one.
    """
    if lines and lines[0].startswith(f"{name.rsplit('.', 1)[-1]}("):
        lines.clear()
    for index, line in enumerate(lines):
        parts = _CODE.split(line)
        parts[::2] = [re.sub(r"([*|\\])", r"\\\1", part).replace("`", r"\`") for part in parts[::2]]
        parts[1::2] = [f"\\ ``{part.strip('`')}``\\ " for part in parts[1::2]]
        lines[index] = "".join(parts)


def setup(app: Sphinx) -> None:
    """Tells Sphinx of the shell sessions, and how docstrings are written."""
    app.add_lexer("console", BashSessionLexer)
    app.connect("autodoc-process-docstring", plain)
