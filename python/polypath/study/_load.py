"""Studies and set-ups from files, for those who have a path and no class."""

from __future__ import annotations

from pathlib import Path

from ._cells import cells
from ._file import StudyFile, read, validated
from ._placeholder import is_placeholder
from ._setup import Setup
from ._study import NETWORK_ONLY, Study


def load(path: str | Path) -> Study:
    """Reads a study file, or the study.yaml in a folder.

    Args:
        path: The file, whose name ends in .yaml, or the folder.

    Returns:
        The study, each cell of which can be run.

    Raises:
        StudyError: There is no such study, or it is wrong: a line for each mistake, with file, line
            and field.
    """
    return Study.load(path)


_LASTS = "1h"


def load_setup(path: str | Path) -> Setup:
    """The set-up of a study's first cell, for whoever asks for its network only: the file may hold
    a `topology:` and nothing else.

    Such a network goes on for as long as somebody wants it, so nothing in it is too late for a run;
    what repeats or is drawn does so for an hour.
    """
    source = read(path)
    tree = source.document.value
    if "flows" not in tree:
        # A study has a flow; this one joins the two hosts, or leads over the first link where there
        # are more. What is wrong with the topology is told first.
        client, server = _ends(source)
        tree = {"name": "topology", "duration": _LASTS, **tree, "flows": {"none": {"client": client, "server": server}}}
    if not is_placeholder(tree.get("duration")):
        tree = {**tree, "duration": _LASTS}
    return cells(validated(Study, source, tree, {NETWORK_ONLY: True}))[0].setup


def _ends(source: StudyFile) -> list[str]:
    topology = source.document.value.get("topology")
    links = topology.get("links") if isinstance(topology, dict) else None
    if not isinstance(links, dict) or not links:
        raise source.error(("topology",), "there is nothing to build: the file needs a `topology:` with `nodes:` and `links:`")
    nodes = topology.get("nodes")
    known = nodes if isinstance(nodes, dict) else {}
    hosts = [name for name, node in known.items() if not (isinstance(node, dict) and node.get("router"))]
    if len(hosts) == 2:
        return [*map(str, hosts)]
    first = next(iter(links.values()))
    ends = first.get("ends") if isinstance(first, dict) else None
    names = [end.get("node") if isinstance(end, dict) else end for end in ends] if isinstance(ends, list) else []
    return [*map(str, names), "", ""][:2]
