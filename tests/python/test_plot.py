"""Figures: what stands in them, that they render without a font of the system."""

import itertools
import re
import struct
import zlib
from html import unescape

import pandas as pd
import pytest
from analysis_data import flow, link, rate, three_nodes, two_paths

from polypath.plot import _drawers, goodput_bars, harm_matrix, inline, over_time, topology
from polypath.plot._drawers import DrawError, drawing
from polypath.plot._letters import width_of


def texts(svg):
    return re.findall(r"<text[^>]*>([^<]+)</text>", svg)


def png_size(data):
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", data[16:24])


@pytest.fixture
def cells():
    return pd.DataFrame(
        {"label": ["lia", "wvegas"], "goodput": [9.41, 8.2], "ci": [0.1, float("nan")], "published": [9.76, 6.06], "bound": [9.43, 9.43]}
    )


@pytest.fixture
def series():
    rows = [("lia", f"path {k}", t / 10, 10.0 + k * t) for k in (1, 2) for t in range(1000)]
    return pd.DataFrame(rows, columns=["label", "line", "time_s", "cwnd"])


def test_a_topology_says_what_links_do():
    svg = topology(three_nodes()).svg
    words = texts(svg)
    assert "Liberation Sans" in svg
    assert {"h1", "h2", "h3", "client", "router", "server", "path1", "path2", "last"} <= set(words)
    assert "5 ms, 50 Mbit/s, queue 1000 packets" in words
    assert {"10.0.0.1", "192.168.0.2", "10.0.1.2"} <= set(words)
    assert "path2: 192.168.0.1 → 10.0.1.2" in words
    strokes = re.findall(r'<path d="M[^"]+C[^"]+" fill="none" stroke="(#\w+)"', svg)
    assert len(strokes) == 3
    assert strokes[0] != strokes[1]
    assert strokes[2] == "#1f2933"
    scenario = two_paths(first_mtu=9000)
    scenario["links"][0]["b_to_a"] = []
    words = " ".join(texts(topology(scenario).svg))
    assert "h1 → r: 100 Mbit/s, queue 1000 packets, MTU 9000" in words
    assert "r → h1: no limits" in words
    scenario = two_paths()
    element = next(each for each in scenario["links"][0]["a_to_b"] if each["kind"] == "rate")
    element |= {"aqm": {"kind": "fq_codel"}, "bits_per_s": 9_721_860.0}
    words = " ".join(texts(topology(scenario).svg))
    assert "9.72 Mbit/s, fq_codel," in words and "queue 1000 packets" in words


def network(nodes, pairs, tunnels=()):
    """A graph: nodes (routers begin with r), and the pairs that links join."""
    links = []
    for number, (a, b) in enumerate(pairs):
        elements = [{"kind": "delay", "delay_ns": 5_000_000, "jitter_ns": 0}, rate(50_000_000 + number)]
        links.append(link(f"{a}-{b}-{number}", (a, f"10.{number}.0.1"), (b, f"10.{number}.0.2"), elements))
        if number % 3 == 0:
            links[-1]["b_to_a"] = []
    return {
        **two_paths(),
        "nodes": [{"name": name, "router": name.startswith("r")} for name in nodes],
        "links": links,
        "tunnels": [
            {
                "name": f"tunnel{n}",
                "a": {"node": a, "address": f"10.9.{n}.1"},
                "b": {"node": b, "address": f"10.9.{n}.2"},
                "paths": [{"a": f"10.9.{n}.1", "b": f"10.9.{n}.2"}] * 2,
                **{"key": None, "mtu": None, "reorder": {"kind": "progress"}},
            }
            for n, (a, b) in enumerate(tunnels)
        ],
        "flows": [flow("f", client=nodes[0], server=nodes[-1], transport="tcp")],
    }


def networks():
    """Of 2 to 12 nodes: lines, parallel links, stars, rings, ladders, meshes."""
    yield "2 nodes, 4 links", network(["a", "b"], [("a", "b")] * 4, [("a", "b")])
    for size in (3, 5, 8, 12):
        names = ["a", *(f"r{n}" for n in range(size - 2)), "z"]
        yield f"line of {size}", network(names, list(itertools.pairwise(names)), [("a", "z")])
        yield f"ring of {size}", network(names, list(zip(names, [*names[1:], names[0]], strict=True)))
    for size in (4, 7, 12):
        names = [f"a{n}" for n in range(size - 2)] + ["router", "z"]
        yield f"star of {size}", network(names, [(name, "router") for name in names if name != "router"])
    for rungs in (2, 3, 5):
        names = ["a", *(f"r{side}{n}" for n in range(rungs) for side in "ul"), "z"]
        pairs = [(f"ru{n}", f"rl{n}") for n in range(rungs)]
        pairs += [(f"r{side}{n}", f"r{side}{n + 1}") for n in range(rungs - 1) for side in "ul"]
        pairs += [("a", "ru0"), ("a", "rl0"), (f"ru{rungs - 1}", "z"), (f"rl{rungs - 1}", "z")]
        yield f"ladder of {len(names)}", network(names, pairs, [("a", "z")])
    for size in (4, 6, 12):
        names = ["a", *(f"r{n}" for n in range(size - 2)), "z"]
        pairs = [(one, other) for place, one in enumerate(names) for other in names[place + 1 :]]
        yield f"mesh of {size}", network(names, pairs)
    for size in (4, 5, 6):
        names = [f"r{n}" for n in range(size)]
        pairs = [*itertools.combinations(names, 2), ("a", names[0]), (names[-1], "z")]
        yield f"mesh of {size} routers", network(["a", *names, "z"], pairs)
    hosts, routers = ["h1", "h2"], ["r1", "r2"]
    crossing = [(host, router) for host in hosts for router in routers] + [("r1", "r3"), ("r2", "r3"), ("r3", "s")]
    yield "crossing", network([*hosts, *routers, "r3", "s"], crossing, [("h1", "s"), ("h2", "s")])
    column = {**two_paths(), "tunnels": []}
    column["nodes"].append({"name": "h4"})
    column["links"].append(link("side", ("h4", "10.9.0.1"), ("r", "10.9.0.2"), [rate(1_000_000, queue={"bytes": 64_000})]))
    column["flows"].append(flow("d", client="h4", transport="tcp"))
    yield "two of a column", column
    long = ["a-client-with-a-long-name", "router-of-the-first-floor", "z"]
    yield "long names", network(long, [(long[0], long[1]), (long[1], long[2]), (long[0], long[2])])


def drawn_boxes(svg):
    """Every text with its extent, and every node."""
    nodes = re.findall(r'class="node" x="([-\d.]+)" y="([-\d.]+)" width="([\d.]+)" height="([\d.]+)"', svg)
    nodes = [(float(x), float(y), float(x) + float(width), float(y) + float(height)) for x, y, width, height in nodes]
    texts = []
    pattern = (
        r'<text class="(?:ink|quiet) halo" x="([-\d.]+)" y="([-\d.]+)" font-size="([\d.]+)" font-weight="(\w+)" '
        r'text-anchor="(\w+)"[^>]*>([^<]+)'
    )
    for x, y, size, weight, anchor, words in re.findall(pattern, svg):
        width = width_of(unescape(words), float(size), bold=weight == "bold")
        left = float(x) - {"start": 0, "middle": width / 2, "end": width}[anchor]
        texts.append((left, float(y) - 0.75 * float(size), left + width, float(y) + 0.22 * float(size), words))
    return nodes, texts


def drawn_curves(svg, steps):
    """Of each line of a drawing its points."""
    for numbers in re.findall(r'<path d="M([-\d.]+),([-\d.]+) C([-\d.]+),([-\d.]+) ([-\d.]+),([-\d.]+) ([-\d.]+),([-\d.]+)"', svg):
        ends = list(map(float, numbers))
        weights = [((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3) for t in (step / steps for step in range(steps + 1))]
        yield [tuple(sum(w * p for w, p in zip(each, ends[axis::2], strict=True)) for axis in (0, 1)) for each in weights]


@pytest.mark.parametrize("name, scenario", networks(), ids=[name for name, _ in networks()])
def test_nothing_in_a_topology_lies_over_anything_else(name, scenario):
    svg = topology(scenario).svg
    nodes, texts = drawn_boxes(svg)
    assert len(nodes) == len(scenario["nodes"])
    left, top, width, height = map(float, re.search(r'viewBox="([-\d. ]+)"', svg)[1].split())
    boxes = [*((*node, "a node") for node in nodes), *texts]
    for index, one in enumerate(boxes):
        assert left <= one[0] < one[2] <= left + width, (one, "is cut off")
        assert top <= one[1] < one[3] <= top + height, (one, "is cut off")
        for other in boxes[index + 1 :]:
            apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
            assert apart, (one, other)
    # What has no room beside its line stands below the drawing.
    said = "".join(re.findall(r"<text[^>]*>([^<]+)</text>", svg))
    for each in (*scenario["links"], *scenario["tunnels"]):
        assert each["name"] in said
    curves = list(drawn_curves(svg, 200))
    assert len(curves) == len(scenario["links"]) + len(scenario["tunnels"]) < len(texts)
    if name == "mesh of 12":
        return
    for x, y in itertools.chain(*curves):
        assert not any(a < x < c and b < y < d for a, b, c, d, _ in texts), (x, y, texts)
        assert not any(a + 1 < x < c - 1 and b + 1 < y < d - 1 for a, b, c, d in nodes), (x, y)


@pytest.mark.parametrize(("text", "bold"), [("queue 1000 packets, 5 ms", False), ("WwMm → iIlj", True), ("10.0.255.1", False)])
def test_the_width_of_a_text_is_what_the_renderer_draws(text, bold):
    # Its ink ends where its width says, up to the side bearings of the outer letters.
    weight = "bold" if bold else "normal"
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" width="600" height="40"><rect width="600" height="40" fill="#fff"/>'
        f'<text x="10" y="28" font-size="20" font-weight="{weight}" font-family="Liberation Sans" fill="#000">{text}</text></svg>'
    )
    inked = ink_columns(drawing({"svg": svg, "scale": 1.0, "kinds": ["png"]}).result().png)
    assert 10 + width_of(text, 20, bold=bold) * (0.86 if bold else 0.97) - 3 <= max(inked) <= 10 + width_of(text, 20, bold=bold) + 1


def ink_columns(data):
    """The columns of an RGBA picture that hold dark pixels."""
    width, height = png_size(data)
    chunks, at = b"", 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        if data[at + 4 : at + 8] == b"IDAT":
            chunks += data[at + 8 : at + 8 + length]
        at += 12 + length
    raw, row, found = zlib.decompress(chunks), bytearray(4 * width), set()
    for y in range(height):
        kind, line = raw[y * (4 * width + 1)], raw[y * (4 * width + 1) + 1 : (y + 1) * (4 * width + 1)]
        before, row = row, bytearray(4 * width)
        for i, value in enumerate(line):
            a, b, c = row[i - 4] if i > 3 else 0, before[i], before[i - 4] if i > 3 else 0
            nearest = min((abs(b - c), 0, a), (abs(a - c), 1, b), (abs(a + b - 2 * c), 2, c))[2]
            row[i] = (value + (0, a, b, (a + b) // 2, nearest)[kind]) & 255
        found |= {x for x in range(width) if row[4 * x] < 128}
    return found


def test_bars_show_goodput_published_and_bound(cells):
    made = goodput_bars("bars", "t", "c", cells)
    words = texts(made.svg)
    assert "Liberation Sans" in made.svg
    assert {"lia", "wvegas", "9.41", "8.20", "published", "what the links allow"} <= set(words)
    assert "plain TCP, best path alone" not in words
    assert png_size(made.png())[0] > 800
    assert float(re.search(r'width="(\d+)', made.narrow)[1]) <= 345
    assert {"lia", "wvegas", "9.41", "8.20", "published"} <= set(texts(made.narrow))
    assert "published" not in texts(goodput_bars("bars", "t", "c", cells[["label", "goodput"]]).svg)
    svg = goodput_bars("goodput", "Goodput", "", cells.assign(label=["fq_codel · call-down-the-line", *cells["label"][1:]])).svg
    frame = float(re.search(r"translate\(([\d.]+),", svg)[1])
    assert frame >= 1.2 * width_of("fq_codel · call-down-the-line", 12)
    near = goodput_bars("bars", "t", "c", cells.assign(goodput=[71.4, 69.3], ci=[0.9, 3.1], published=float("nan"), bound=84.0))
    far = goodput_bars("bars", "t", "c", cells.assign(goodput=[71.4, 9.3], ci=[0.9, 3.1], published=float("nan"), bound=84.0))
    assert "does not begin at zero" in near.caption and "does not" not in far.caption
    ticks = [float(word) for word in texts(near.svg) if re.fullmatch(r"\d+", word)]
    assert min(ticks) >= 60


def test_lines_are_thinned_and_every_subflow_and_cell_is_named(series):
    svg = over_time("cwnd", "t", "c", series, "cwnd", "packets").svg
    assert {"path 1", "path 2", "time, s", "packets"} <= set(texts(svg))
    # 1000 points a line become at most 400.
    longest = max(len(re.findall("[ML]", path)) for path in re.findall(r' d="(M[^"]+)"', svg))
    assert 100 < longest <= 400
    both = pd.concat([series, series.assign(label="olia")])
    words = texts(over_time("cwnd", "t", "c", both, "cwnd", "packets").svg)
    assert {"lia", "olia"} <= set(words)


def test_same_table_same_bytes_whatever_was_drawn_before(cells, series):
    harm = pd.DataFrame({"own": ["lia", "olia"], "other": ["reno", "reno"], "harm": [0.1, 0.4]})

    def drawings():
        made = [
            goodput_bars("bars", "t", "c", cells),
            over_time("cwnd", "t", "c", pd.concat([series, series.assign(label="olia")]), "cwnd", "packets"),
            harm_matrix("harm", "t", "c", harm, "m", "t"),
        ]
        return [(figure.svg, figure.png()) for figure in made]

    first = drawings()
    # Clips and the gradient of a legend are what the renderer counts through its life.
    assert "clip0" in first[1][0]
    assert "gradient_0" in first[2][0]
    assert drawings() == first


def test_what_draws_may_fail_or_die_and_the_next_one_draws(cells):
    broken = drawing({"svg": "<svg", "scale": 1.0, "kinds": ["png"]})
    with pytest.raises(DrawError, match="cannot be drawn: the document"):
        broken.result()
    assert "<svg" in goodput_bars("bars", "t", "c", cells).svg
    own = _drawers._Drawers(1)
    try:
        with pytest.raises(DrawError, match="ended"):
            own.submit({"scale": 1.0, "kinds": ["png"]}).result()
        assert (
            own.submit({"svg": '<svg xmlns="http://www.w3.org/2000/svg" width="4" height="4"/>', "scale": 1.0, "kinds": ["png"]})
            .result()
            .png
        )
    finally:
        own.close()


def test_inlined_figures_share_no_ids(series):
    one = inline(over_time("cwnd", "t", "c", series, "cwnd", "packets").svg, "one")
    ids = re.findall(r'\bid="([^"]+)"', one)
    assert all(name.startswith("one-") for name in ids)
    assert all(name.startswith("one-") for name in re.findall(r"url\(#([^)]+)\)", one))
    assert "<?xml" not in one
    assert "--own:" in one
