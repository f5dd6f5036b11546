"""What a type checker knows of studies; `tests/python/test_typing.py` lets mypy and pyright read
it, and nobody runs it.

Each line that ends in a comment for the checkers is a mistake that they must find: an unused one
fails.
"""

from collections.abc import Mapping, Sequence
from typing import assert_type

import polypath
from polypath import Bulk, Capture, End, Experiment, Flow, Link, Node, Rate, Results, Shape, Size, Study, Time, Topology, Transfer

topology = Topology(
    nodes={"client": Node(), "server": {"sysctl": {"net.ipv4.tcp_rmem": [4096, 131072, 6_291_456]}}, "router": None},
    links={
        "one": Link(ends=("client", "server"), both={"rate": "50mbit", "delay": "10ms"}),
        "two": Link(ends=["client", End(node="server", mtu="9KB")], both=Shape(rate=Rate("5mbit"), delay=Time("1ms"))),
        "three": {"ends": ["client", "server"]},
    },
)
flow = Flow(client="client", server="server", cc="${cc}", app={"kind": "bulk"}, start="1s", window=("1s", Time("2s")))
study = Study(
    name="typed",
    topology=topology,
    flows={"one": flow, "two": Flow(client="client", server="server", app=Transfer(size=Size("1MB")), path_manager="fullmesh")},
    duration="5s",
    matrix={"cc": ["cubic", "lia"], "count": (1, 2)},
    experiments={"main": Experiment(seeds=3, matrix={"cc": ["cubic"]})},
    measure={"capture": ["client", Capture(node="client")]},
    seeds=5,
)

assert_type(study, Study)
assert_type(study.duration, Time)
assert_type(study.topology, Topology)
assert_type(study.flows, Mapping[str, Flow])
assert_type(study.flows["one"].cc, str)
assert_type(study.flows["one"].start, Time)
assert_type(study.replace(duration="1s"), Study)
assert_type(polypath.load("study.yaml"), Study)
assert_type(polypath.run(study, only={"cc": "lia"}), Results)
_: Sequence[End] = topology.links["one"].ends

Flow(client="client")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
Flow(client="client", server="server", start=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Flow(client="client", server="server", congestion="lia")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
Node(router=Bulk())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
