"""Figures: what stands in them, that they render without a font of the system, and that the same table gives the same bytes."""

import re
import struct

import pandas as pd
import pytest
from analysis_data import flow, link, rate, three_nodes, two_paths

from polypath.plot import _drawers, goodput_bars, harm_matrix, inline, over_time, topology
from polypath.plot._drawers import DrawError, drawing


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


def test_topology_names_nodes_links_addresses_and_what_links_do():
    words = texts(topology(three_nodes()).svg)
    assert {"h1", "h2", "h3", "client", "router", "server", "path1", "path2", "last"} <= set(words)
    assert "5 ms, 50 Mbit/s, queue 1000 packets" in words
    assert {"10.0.0.1", "192.168.0.2", "10.0.1.2"} <= set(words)
    assert "path 2: 192.168.0.1 → 10.0.1.2" in words


def test_a_path_has_its_colour_and_a_shared_link_is_dark():
    svg = topology(three_nodes()).svg
    strokes = re.findall(r'<path d="M[^"]+C[^"]+" fill="none" stroke="(#\w+)"', svg)
    assert len(strokes) == 3
    assert strokes[0] != strokes[1]
    assert strokes[2] == "#1f2933"


def test_directions_that_differ_are_told_apart_and_mtus_named():
    scenario = two_paths(first_mtu=9000)
    scenario["links"][0]["b_to_a"] = []
    words = " ".join(texts(topology(scenario).svg))
    assert "h1 → r: 100 Mbit/s, queue 1000 packets, MTU 9000" in words
    assert "r → h1: no limits" in words


def test_words_of_links_that_cross_do_not_overlap():
    nodes = [{"name": name, "router": name in ("r1", "r2", "r3")} for name in ("h1", "h2", "r1", "r2", "r3", "s")]
    links = [
        link(f"{host}-{router}", (host, f"10.{host[1]}.{router[1]}.1"), (router, f"10.{host[1]}.{router[1]}.2"), [rate(50_000_000)])
        for host in ("h1", "h2")
        for router in ("r1", "r2")
    ]
    links += [link(f"{end}-r3", (end, f"10.7.{i}.1"), ("r3", f"10.7.{i}.2"), [rate(9_000_000)]) for i, end in enumerate(("r1", "r2", "s"))]
    scenario = {**two_paths(), "nodes": nodes, "links": links, "flows": [flow("f", client="h1", server="s", transport="tcp")]}
    boxes = []
    pattern = r'<text class="ink halo" x="([-\d.]+)" y="([-\d.]+)" font-size="([\d.]+)" [^>]*text-anchor="(\w+)"[^>]*>([^<]+)'
    for x, y, size, anchor, words in re.findall(pattern, topology(scenario).svg):
        # Letters are about half as wide as they are high.
        width = 0.5 * float(size) * len(words)
        left = float(x) - {"start": 0, "middle": width / 2, "end": width}[anchor]
        boxes.append((left, float(y) - float(size), left + width, float(y), words))
    assert len(boxes) >= 14
    for index, (left, top, right, bottom, words) in enumerate(boxes):
        for left2, top2, right2, bottom2, other in boxes[index + 1 :]:
            assert right <= left2 or right2 <= left or bottom <= top2 or bottom2 <= top, (words, other)


def test_nodes_of_one_column_and_a_link_past_a_router_do_not_overlap():
    scenario = two_paths()
    scenario["nodes"].append({"name": "h4"})
    scenario["links"].append(link("side", ("h4", "10.9.0.1"), ("r", "10.9.0.2"), [rate(1_000_000, queue={"bytes": 64_000})]))
    scenario["flows"].append(flow("d", client="h4", transport="tcp"))
    svg = topology(scenario).svg
    pattern = r'class="node" x="([-\d.]+)" y="([-\d.]+)" width="([\d.]+)" height="([\d.]+)"'
    boxes = [tuple(map(float, box)) for box in re.findall(pattern, svg)]
    assert len(boxes) == 4
    for index, (x, y, width, height) in enumerate(boxes):
        for x2, y2, width2, height2 in boxes[index + 1 :]:
            assert x + width <= x2 or x2 + width2 <= x or y + height <= y2 or y2 + height2 <= y
    assert "1 Mbit/s, queue 64 kB" in texts(svg)


def test_bars_show_goodput_published_and_bound(cells):
    made = goodput_bars("bars", "t", "c", cells)
    words = texts(made.svg)
    assert {"lia", "wvegas", "9.41", "8.20", "published", "what the links allow"} <= set(words)
    assert "plain TCP, best path alone" not in words
    assert png_size(made.png())[0] > 800


def test_bars_without_anything_beside_them(cells):
    assert "published" not in texts(goodput_bars("bars", "t", "c", cells[["label", "goodput"]]).svg)


def test_lines_are_thinned_and_every_subflow_is_named(series):
    svg = over_time("cwnd", "t", "c", series, "cwnd", "packets").svg
    assert {"path 1", "path 2", "time, s", "packets"} <= set(texts(svg))
    # 1000 points a line become at most 400.
    longest = max(len(re.findall("[ML]", path)) for path in re.findall(r' d="(M[^"]+)"', svg))
    assert 100 < longest <= 400


def test_cells_have_a_picture_each(series):
    both = pd.concat([series, series.assign(label="olia")])
    words = texts(over_time("cwnd", "t", "c", both, "cwnd", "packets").svg)
    assert {"lia", "olia"} <= set(words)


def test_figures_name_the_font_that_vl_convert_carries(cells):
    assert "Liberation Sans" in goodput_bars("bars", "t", "c", cells).svg
    assert "Liberation Sans" in topology(three_nodes()).svg


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


def test_a_drawing_that_cannot_be_drawn_says_so_and_the_next_one_is_drawn(cells):
    broken = drawing({"svg": "<svg", "scale": 1.0})
    with pytest.raises(DrawError, match="cannot be drawn: the document"):
        broken.result()
    assert "<svg" in goodput_bars("bars", "t", "c", cells).svg


def test_a_process_that_draws_and_dies_is_one_sentence_and_another_takes_its_place():
    own = _drawers._Drawers(1)
    try:
        with pytest.raises(DrawError, match="ended"):
            own.submit({"scale": 1.0}).result()
        assert own.submit({"svg": '<svg xmlns="http://www.w3.org/2000/svg" width="4" height="4"/>', "scale": 1.0}).result().png
    finally:
        own.close()


def test_inlined_figures_share_no_ids(series):
    one = inline(over_time("cwnd", "t", "c", series, "cwnd", "packets").svg, "one")
    ids = re.findall(r'\bid="([^"]+)"', one)
    assert all(name.startswith("one-") for name in ids)
    assert all(name.startswith("one-") for name in re.findall(r"url\(#([^)]+)\)", one))
    assert "<?xml" not in one
    assert "max-width:100%" in one
