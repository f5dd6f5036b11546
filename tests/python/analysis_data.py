"""Scenarios and tables for the tests of analysis, plots and report: small enough to check by hand."""


def rate(bits_per_s, packets=1000, **more):
    return {"kind": "rate", "bits_per_s": bits_per_s, "queue": {"packets": packets}, "framing_bytes": 14, **more}


def delay(delay_ns):
    return {"kind": "delay", "delay_ns": delay_ns}


def link(name, a, b, elements, mtu=1500):
    return {
        "name": name,
        "a": {"node": a[0], "address": a[1], "mtu": mtu},
        "b": {"node": b[0], "address": b[1], "mtu": mtu},
        "a_to_b": elements,
        "b_to_a": elements,
    }


def flow(name="c", **more):
    return {
        "name": name,
        "transport": "mptcp",
        "cc": "lia",
        "client": "h1",
        "server": "h3",
        "start_ns": 0,
        "app": {"kind": "bulk", "duration_ns": 20_000_000_000},
        "mptcp": {"path_manager": {"kind": "fullmesh"}},
        "window_ns": [0, 20_000_000_000],
        **more,
    }


def three_nodes(**more):
    """h1 = h2 - h3: two links of 50 Mbit/s, 5 and 10 ms, into one of 10 Mbit/s, 2 ms."""
    return {
        "seed": 1,
        "duration_ns": 20_000_000_000,
        "nodes": [{"name": "h1", "kernel": "5.4-mptcp"}, {"name": "h2", "router": True}, {"name": "h3", "kernel": "5.4-mptcp"}],
        "links": [
            link("path1", ("h1", "10.0.0.1"), ("h2", "10.0.0.2"), [delay(5_000_000), rate(50_000_000)]),
            link("path2", ("h1", "192.168.0.1"), ("h2", "192.168.0.2"), [delay(10_000_000), rate(50_000_000)]),
            link("last", ("h2", "10.0.1.1"), ("h3", "10.0.1.2"), [delay(2_000_000), rate(10_000_000)]),
        ],
        "flows": [flow()],
        **more,
    }


def two_paths(first_mtu=1500, **more):
    """h1 = r = h3 by two disjoint paths of 100 and 20 Mbit/s; each hop is its own link."""
    return {
        "seed": 1,
        "duration_ns": 20_000_000_000,
        "nodes": [{"name": "h1"}, {"name": "r", "router": True}, {"name": "h3"}],
        "links": [
            link("one", ("h1", "10.1.0.1"), ("r", "10.1.0.2"), [rate(100_000_000)], first_mtu),
            link("two", ("h1", "10.2.0.1"), ("r", "10.2.0.2"), [rate(20_000_000)]),
            link("last", ("r", "10.3.0.1"), ("h3", "10.3.0.2"), [], first_mtu),
        ],
        "flows": [flow(mptcp={"path_manager": {"kind": "fullmesh"}})],
        **more,
    }
