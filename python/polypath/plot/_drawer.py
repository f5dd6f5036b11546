"""A process that draws: charts and drawings in, SVG, PNG and PDF out, one after another until its
input ends. Started by `_drawers`.

It loads the renderer and nothing else: the renderer keeps the interpreter to itself while it works,
so several need several processes. A request is a line of JSON with `chart` (Vega-Lite; `narrow` is
the same for a narrow screen) or `svg`, and with `kinds` of files beside the SVG; an answer is a
line of JSON with the lengths of `svg` and of each kind, and the bytes behind it in that order, or
with `error`.
"""

from __future__ import annotations

import json
import re
import signal
import sys
from typing import Any

import vl_convert as vlc


def main() -> None:
    # Ctrl-C is for the process that asks; this one ends with its input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for line in sys.stdin.buffer:
        try:
            files = draw(json.loads(line))
            answer = json.dumps({kind: len(data) for kind, data in files.items()}).encode() + b"\n" + b"".join(files.values())
        except (RuntimeError, ValueError) as error:
            # Behind the first line stands where in the renderer that was.
            answer = json.dumps({"error": f"a figure cannot be drawn: {str(error).partition(chr(10))[0]}"}).encode() + b"\n"
        sys.stdout.buffer.write(answer)
        sys.stdout.buffer.flush()


def draw(asked: dict[str, Any]) -> dict[str, bytes]:
    """The drawing as SVG, and as the other kinds of file that are asked for."""
    svg = _renumbered(vlc.vegalite_to_svg(asked["chart"], vl_version=asked["version"])) if "chart" in asked else asked["svg"]
    files = {"svg": svg.encode()}
    if "narrow" in asked:
        files["narrow"] = _renumbered(vlc.vegalite_to_svg(asked["narrow"], vl_version=asked["version"])).encode()
    if "png" in asked["kinds"]:
        files["png"] = bytes(vlc.svg_to_png(svg, scale=asked["scale"]))
    if "pdf" in asked["kinds"]:
        # Of two fonts either may come first: the same drawing, and not always the same bytes.
        files["pdf"] = bytes(vlc.svg_to_pdf(svg))
    return files


def _renumbered(svg: str) -> str:
    """Vega counts clips and gradients through the life of the process; counted from 0 in each
    figure, the same chart has the same bytes.
    """
    kinds: dict[str, int] = {}
    names = {}
    for name, kind in dict.fromkeys(_NUMBERED.findall(svg)):
        names[name] = f"{kind}{kinds.setdefault(kind, 0)}"
        kinds[kind] += 1
    return _COUNTED.sub(lambda match: names.get(match[0], match[0]), svg)


_NUMBERED = re.compile(r'\bid="((clip|gradient_)\d+)"')
_COUNTED = re.compile(r"\b(?:clip|gradient_)\d+\b")


if __name__ == "__main__":
    main()
