"""The plan of a run on a kernel."""

import tomllib
from types import SimpleNamespace

import pytest

from polypath.planner import PlanError, build
from polypath.study import Study, cells, runs

KERNEL = ("cubic", "pp_cubic", "pp_lia", "reno")
BASE = {
    "name": "planned",
    "topology": {
        "nodes": {"c": None, "r": {"router": True}, "s": None},
        "links": {
            "first": {"ends": ["c", "r"], "both": {"delay": "5ms"}},
            "last": {"ends": ["r", "s"], "both": {"rate": "10mbit"}},
        },
    },
    "flows": {"f": {"client": "c", "server": "s", "transport": "tcp"}},
    "duration": "5s",
    "baselines": None,
}


def planned(*, links=None, nodes=None, flows=None, algorithms=KERNEL, release="", out_of_tree=False, **more):
    """The plan of a study that differs from the base in these parts."""
    topology = {"nodes": nodes or BASE["topology"]["nodes"], "links": {**BASE["topology"]["links"], **(links or {})}}
    # What can be built is planned, also what nobody would run.
    every = {**BASE, "topology": topology, "flows": flows or BASE["flows"], **more}
    study = Study.model_validate(every, context={"network_only": True})
    (run,) = runs(study, engine="linux", version=lambda kernel: kernel)
    return SimpleNamespace(**build(run.scenario, algorithms, release=release, out_of_tree=out_of_tree).plan)


def on(plan, namespace, device):
    """The netem of a device; none if there is none."""
    found = [each["netem"] for each in plan.disciplines if (each["namespace"], each["device"]) == (namespace, device)]
    return found[0] if found else None


@pytest.mark.parametrize(
    ("ends", "prefix"),
    [(("10.7.0.1", "10.7.0.2"), 30), (("10.7.0.2", "10.7.0.3"), 29), (("10.7.0.4", "10.7.0.5"), 29), (("10.7.0.1", "10.7.1.254"), 23)],
)
def test_no_end_of_a_link_is_the_address_of_its_network_or_of_broadcasts(ends, prefix):
    nodes = [{"node": node, "address": f"{address}/16"} for node, address in zip("cr", ends, strict=True)]
    plan = planned(links={"first": {"ends": nodes, "both": {"delay": "5ms"}}})
    assert {tuple(cable[end]["address"]) for cable in plan.cables for end in "ab" if cable[end].get("address")} >= {
        (address, prefix) for address in ends
    }


def test_a_delay_stands_on_a_hosts_device_and_a_queue_on_a_routers_or_inside_the_link():
    plan = planned()
    assert on(plan, "c", "l0")["delay_ns"] == 5_000_000
    assert on(plan, "r", "l0")["delay_ns"] == 5_000_000
    assert (on(plan, "r", "l1")["rate"], on(plan, "r", "l1")["limit"]) == (10_000_000, 1000)
    assert on(plan, "s", "l1") is None, "there the discipline would see aggregates of segments"
    assert on(plan, ".wire", "w1a1")["rate"] == 10_000_000
    assert {"namespace": ".wire", "from": "w1b1", "to": "w1a1"} in plan.redirects
    assert [namespace["name"] for namespace in plan.namespaces] == ["c", "r", "s", ".wire"]
    plan = planned(links={"first": {"ends": ["c", "r"], "both": {"rate": "20mbit", "delay": "5ms", "loss": "1%"}}})
    assert on(plan, "c", "l0") == {"limit": 1_000_000, "loss": {"model": "none"}, "delay_ns": 5_000_000, "jitter_ns": 0, "rate": 0}
    inside = on(plan, ".wire", "w0b1")
    assert (inside["rate"], inside["loss"]) == (20_000_000, {"model": "random", "probability": 0.01})
    # The other way the queue stands on the router's device and the delay takes the place inside.
    assert on(plan, "r", "l0")["rate"] == 20_000_000
    assert on(plan, ".wire", "w0a1")["delay_ns"] == 5_000_000
    assert len([cable for cable in plan.cables if cable["a"]["namespace"] == ".wire"]) == 2, "one place inside each link is enough"
    element = {"kind": "rate", "rate": "10mbit", "hold": "5ms", "queue": "50packets", "framing": "38B"}
    plan = planned(links={"last": {"ends": ["r", "s"], "both": [element]}})
    netem = on(plan, "r", "l1")
    assert (netem["delay_ns"], netem["rate"], netem["limit"], netem["overhead"]) == (5_000_000, 10_000_000, 50, 24)


@pytest.mark.parametrize(("reorder", "rate"), [(True, 0), (False, 8 * 10**15)])
def test_jitter_keeps_the_order_unless_it_may_not(reorder, rate):
    plan = planned(links={"last": {"ends": ["r", "s"], "forward": {"delay": "9ms", "jitter": "3ms", "reorder": reorder}}})
    assert (on(plan, "r", "l1")["jitter_ns"], on(plan, "r", "l1")["rate"]) == (3_000_000, rate)


def test_what_a_host_delays_stands_inside_the_link_where_its_device_cannot():
    plan = planned(links={"first": {"ends": ["c", "r"], "forward": {"delay": "9ms", "jitter": "3ms"}}})
    assert on(plan, "c", "l0") is None
    assert on(plan, ".wire", "w0b1")["jitter_ns"] == 3_000_000
    plan = planned(measure={"capture": ["c:first", "r:last"]})
    assert on(plan, "c", "l0") is None
    assert on(plan, ".wire", "w0b1")["delay_ns"] == 5_000_000
    assert plan.captures == [
        {"namespace": "c", "device": "l0", "file": "c-first.pcapng", "snaplen": 128, "packets": 1_000_000},
        {"namespace": "r", "device": "l1", "file": "r-last.pcapng", "snaplen": 128, "packets": 1_000_000},
    ]


def test_changes_and_outages_become_changes_of_the_netem():
    changes = [{"at": "1s", "rate": "5mbit"}, {"at": "2s", "up": False}, {"at": "3s", "up": True}, {"at": "4s", "up": False}]
    plan = planned(links={"last": {"ends": ["r", "s"], "forward": {"rate": "10mbit", "changes": changes}}})
    found = [(change["at_ns"] // 10**9, change["netem"]["rate"], change["netem"]["loss"]) for change in plan.changes]
    everything, none = {"model": "random", "probability": 1.0}, {"model": "none"}
    # What would end after the run does not end.
    assert found == [(1, 5_000_000, none), (2, 5_000_000, everything), (3, 5_000_000, none), (4, 5_000_000, everything)]
    forward = {"rate": "10mbit", "delay": "40ms", "changes": [{"at": "1s", "rate": "5mbit"}]}
    plan = planned(links={"first": {"ends": ["c", "r"], "forward": forward}})
    assert on(plan, "c", "l0")["delay_ns"] == 40_000_000
    assert [change["at_ns"] for change in plan.changes] == [1_040_000_000]


def test_an_mtu_is_that_of_the_routers_device_or_of_a_port_inside_the_link():
    plan = planned(links={"last": {"ends": ["r", "s"], "forward": {"rate": "10mbit", "mtu": "1400B"}}})
    ports = {(port["namespace"], port["device"]): port["mtu"] for cable in plan.cables for port in (cable["a"], cable["b"])}
    assert (ports["r", "l1"], ports["s", "l1"]) == (1400, 1500)
    chain = [{"kind": "mtu", "size": "1400B", "oversize": "silent"}, {"kind": "rate", "rate": "10mbit"}]
    plan = planned(links={"last": {"ends": ["r", "s"], "forward": chain}})
    entered = next(cable["b"] for cable in plan.cables if cable["a"]["device"] == "l1" and cable["a"]["namespace"] == "r")
    # veth takes in four bytes more than its MTU: room for a VLAN tag.
    assert (entered["namespace"], entered["mtu"]) == (".wire", 1396)
    assert on(plan, ".wire", "w1b1")["rate"] == 10_000_000


TWO_PATHS = {
    "nodes": {"c": None, "r": {"router": True}, "s": None},
    "links": {
        "one": {"ends": ["c", "r"], "both": {"delay": "5ms"}},
        "two": {"ends": ["c", "r"], "both": {"delay": "9ms"}},
        "last": {"ends": ["r", "s"], "both": {"delay": "1ms"}},
    },
}


def two_paths(*, nodes=None, links=None, release="", out_of_tree=False, **flow):
    topology = {"nodes": {**TWO_PATHS["nodes"], **(nodes or {})}, "links": {**TWO_PATHS["links"], **(links or {})}}
    return planned(
        release=release,
        out_of_tree=out_of_tree,
        nodes=topology["nodes"],
        links={"first": topology["links"].pop("one"), **topology["links"]},
        flows={"f": {**FLOW, **flow}},
    )


FLOW = {"client": "c", "server": "s", "transport": "mptcp", "cc": "lia"}


def test_fullmesh_opens_a_subflow_from_each_further_address_by_its_link():
    plan = two_paths()
    ways = {(route["namespace"], route.get("source")): route["device"] for route in plan.routes if route["to"] == "10.0.2.2"}
    assert ways == {("c", None): "l0", ("c", "10.0.1.1"): "l0", ("c", "10.0.3.1"): "l2", ("r", None): "l1"}
    back = {(route["namespace"], route["to"]): route["device"] for route in plan.routes if route["to"] != "10.0.2.2"}
    assert back == {("s", "10.0.1.1"): "l1", ("r", "10.0.1.1"): "l0", ("s", "10.0.3.1"): "l1", ("r", "10.0.3.1"): "l2"}
    assert plan.endpoints == [{"namespace": "c", "address": "10.0.3.1", "device": "l2", "subflow": True}]
    limits = {namespace["name"]: namespace.get("limits") for namespace in plan.namespaces}
    assert limits["c"] == {"subflows": 1, "add_addr_accepted": 0} == limits["s"]
    (flow,) = plan.flows
    assert (flow["cc"], flow["client_address"], flow["server_address"]) == ("pp_lia", "10.0.1.1", "10.0.2.2")


def test_a_server_with_two_links_announces_the_second_address():
    plan = two_paths(links={"lower": {"ends": ["r", "s"], "both": {"delay": "2ms"}}})
    kinds = {(each["namespace"], each["address"]): set(each) - {"namespace", "address", "device"} for each in plan.endpoints}
    assert kinds[("s", "10.0.4.2")] == {"signal"}
    assert kinds[("c", "10.0.1.1")] == kinds[("c", "10.0.3.1")] == {"subflow", "fullmesh"}
    limits = {namespace["name"]: namespace.get("limits") for namespace in plan.namespaces}
    assert limits["c"] == {"subflows": 3, "add_addr_accepted": 1}


def test_laminar_endpoints_wait_for_what_the_server_announces():
    laminar = {"kind": "endpoints", "addresses": [{"address": "10.0.3.1", "laminar": True, "backup": True}, {"address": "10.0.1.1"}]}
    lower = {"lower": {"ends": ["r", "s"], "both": {"delay": "2ms"}}}
    plan = two_paths(links=lower, path_manager=laminar, release="6.18-rc1")
    flags = {
        (each["namespace"], each["address"]): set(each) - {"namespace", "address", "device", "remove_at_ns"} for each in plan.endpoints
    }
    assert flags == {("c", "10.0.3.1"): {"laminar", "backup"}, ("c", "10.0.1.1"): {"subflow"}, ("s", "10.0.4.2"): {"signal"}}
    limits = {namespace["name"]: namespace.get("limits") for namespace in plan.namespaces}
    assert (limits["c"], limits["s"]) == ({"subflows": 1, "add_addr_accepted": 1}, {"subflows": 1, "add_addr_accepted": 0})
    assert {route["to"] for route in plan.routes if route["namespace"] == "c"} == {"10.0.2.2", "10.0.4.2"}
    alone = {each["name"]: each.get("limits") for each in two_paths(path_manager=laminar, release="7.3.4").namespaces}
    assert alone["c"] == {"subflows": 0, "add_addr_accepted": 0}, "nothing is announced"
    for release in ("6.17.13", "6.1.0-41-amd64"):
        with pytest.raises(PlanError, match=rf"Linux {release} would take laminar endpoints for ones without a flag: run .* from 6.18 on"):
            two_paths(links=lower, path_manager=laminar, release=release)


def test_endpoints_and_routes_by_hand_are_followed():
    manager = {"kind": "endpoints", "addresses": [{"address": "10.0.3.1", "backup": True, "remove_at": "2s"}]}
    plan = two_paths(path_manager=manager)
    (endpoint,) = plan.endpoints
    assert endpoint == {
        "namespace": "c",
        "address": "10.0.3.1",
        "device": "l2",
        "subflow": True,
        "backup": True,
        "remove_at_ns": 2_000_000_000,
    }
    nodes = {"x": {"router": True}}
    links = {"up": {"ends": ["r", "x"], "both": {"delay": "1ms"}}, "down": {"ends": ["x", "s"], "both": {"delay": "1ms"}}}
    route = {"source": "10.0.3.1", "destination": "10.0.2.2", "via": ["two", "up", "down"]}
    plan = two_paths(nodes=nodes, links=links, routes=[route], server_address="10.0.2.2", path_manager="fullmesh")
    ways = {(each["namespace"], each.get("source")): each["device"] for each in plan.routes if each["to"] == "10.0.2.2"}
    assert (ways["r", "10.0.1.1"], ways["r", "10.0.3.1"]) == ("l1", "l3")
    route = {"source": "10.0.1.1", "destination": "10.0.2.2", "via": ["first", "up", "down"]}
    flows = {"a": BASE["flows"]["f"], "b": {**BASE["flows"]["f"], "routes": [route]}}
    with pytest.raises(PlanError, match="the flow a and the flow b take different ways at r"):
        planned(nodes={**BASE["topology"]["nodes"], **nodes}, links=links, flows=flows)


def test_flows_and_samples():
    plan = planned(flows={"f": {**BASE["flows"]["f"], "count": 3}})
    assert [flow["name"] for flow in plan.flows] == ["f-1", "f-2", "f-3"]
    assert len({flow["port"] for flow in plan.flows}) == 3
    assert planned(measure={"series": "250ms"}).sample_ns == 50_000_000
    assert planned(measure={"series": "1ms"}).sample_ns == 1_000_000
    assert planned(measure={"series": None}).sample_ns == 100_000_000


@pytest.mark.parametrize(
    ("asked", "known", "taken"),
    [
        ("cubic", KERNEL, "cubic"),
        ("cubic@linux", KERNEL, "cubic"),
        ("cubic@kernel", KERNEL, "cubic"),
        ("cubic@polypath", KERNEL, "pp_cubic"),
        ("lia", KERNEL, "pp_lia"),
        ("lia", (*KERNEL, "lia"), "lia"),
    ],
)
def test_a_congestion_control_is_the_kernels_own_unless_it_has_none(asked, known, taken):
    plan = planned(flows={"f": {**BASE["flows"]["f"], "cc": asked}}, algorithms=known)
    assert plan.flows[0]["cc"] == taken
    client = next(namespace for namespace in plan.namespaces if namespace["name"] == "c")
    assert ["net.ipv4.tcp_congestion_control", taken] in client["sysctl"]


def test_settings_of_a_host_are_written_as_sysctls_and_readers_settings_go_to_the_flow():
    sysctl = {"net.ipv4.tcp_rmem": [4096, 131072, 999999], "tcp_sack": False, "receive_low_water": 32768, "read_period_us": 2020}
    nodes = {"c": None, "r": {"router": True}, "s": {"sysctl": sysctl}}
    plan = planned(nodes=nodes)
    server = dict(next(namespace["sysctl"] for namespace in plan.namespaces if namespace["name"] == "s"))
    assert (server["net.ipv4.tcp_rmem"], server["net.ipv4.tcp_sack"]) == ("4096 131072 999999", "0")
    assert not any("receive" in name for name in server)
    assert plan.flows[0]["reading"] == {"low_water": 32768}
    plan = planned(nodes=nodes, flows={"f": {**BASE["flows"]["f"], "transport": "mptcp"}})
    assert plan.flows[0]["reading"] == {"sleep_ns": 2_000_000}, "the timer's slack is added by the kernel"


LAST, MPTCP = ["r", "s"], {"client": "c", "server": "s", "transport": "mptcp"}
REFUSED = {
    "packets by number": (
        {"links": {"last": {"ends": LAST, "backward": [{"kind": "drop_packets", "numbers": [3]}]}}},
        ("links", "last", "b_to_a", 0),
    ),
    "icmp from a host": (
        {"links": {"first": {"ends": ["c", "r"], "both": {"rate": "1mbit", "mtu": "1400B"}}}},
        ("links", "first", "a_to_b", 0),
    ),
    "icmp in the middle": (
        {"links": {"last": {"ends": LAST, "forward": [{"kind": "delay", "delay": "1ms"}, {"kind": "mtu", "size": "1400B"}]}}},
        ("links", "last", "a_to_b", 1),
    ),
    "a scheduler": ({"flows": {"f": {**MPTCP, "scheduler": "roundrobin"}}}, ("flows", "f", "scheduler")),
    "a setting of the simulator": (
        {"nodes": {"c": {"sysctl": {"initcwnd": 4}}, "r": {"router": True}, "s": None}},
        ("nodes", "c", "initcwnd"),
    ),
    "a search for a path's MTU": (
        {"nodes": {"c": {"mtu_search": "parallel"}, "r": {"router": True}, "s": None}},
        ("nodes", "c", "mtu_search"),
    ),
    "IPv6": (
        {"links": {"last": {"ends": [{"node": "r", "address": "fd00::1"}, {"node": "s", "address": "fd00::2"}], "both": {"delay": "1ms"}}}},
        ("links", "last", "a"),
    ),
    "an unknown algorithm": ({"flows": {"f": {**MPTCP, "cc": "wvegas"}}}, ("flows", "f", "cc")),
    "samples too close": ({"measure": {"series": "30us"}}, ("measure", "series")),
}


@pytest.mark.parametrize(("parts", "place"), REFUSED.values(), ids=REFUSED.keys())
def test_what_a_kernel_cannot_do_is_refused_with_its_place(parts, place):
    with pytest.raises(PlanError) as error:
        planned(**parts)
    assert error.value.place == place


def test_ndiffports_is_the_servers_address_announced_at_other_ports():
    plan = two_paths(path_manager={"kind": "ndiffports", "subflows": 3})
    assert [(each["namespace"], each["address"], each["port"], each["signal"]) for each in plan.endpoints] == [
        ("s", plan.flows[0]["server_address"], 6001, True),
        ("s", plan.flows[0]["server_address"], 6002, True),
    ]
    limits = {each["name"]: each.get("limits") for each in plan.namespaces}
    assert limits["c"] == {"subflows": 2, "add_addr_accepted": 2}
    assert limits["s"] == {"subflows": 2, "add_addr_accepted": 0}
    assert two_paths(path_manager={"kind": "ndiffports", "subflows": 1}).endpoints == []


def test_the_cells_of_nitk_can_be_planned(pytestconfig):
    study = Study.load(pytestconfig.rootpath / "studies/nitk")
    found = runs(study, engine="linux", version=lambda kernel: kernel, leave_out=lambda cell: cell.experiment != "v1")
    plans = [build(run.scenario, [*KERNEL, "pp_olia", "pp_balia", "pp_wvegas"]).plan for run in found]
    assert len(plans) == len([cell for cell in cells(study) if cell.experiment == "v1"]) * 5 * 3
    assert all(len(plan["cables"]) == 6 for plan in plans), "one place inside each link: a host's netem stands there"


def test_out_of_tree_mptcp_is_told_by_options_of_its_sockets():
    plan = two_paths(out_of_tree=True, scheduler="roundrobin")
    assert (plan.endpoints, plan.flows[0]["path_manager"], plan.flows[0]["scheduler"]) == ([], "fullmesh", "roundrobin")
    assert {route.get("source") for route in plan.routes if route["namespace"] == "c"} == {None, "10.0.1.1", "10.0.3.1"}
    # The server announces nothing where it has no other address to reach.
    assert plan.flows[0]["server_path_manager"] == "default"
    other = {"four": {"ends": ["r", "s"], "both": {"delay": "1ms"}}}
    assert two_paths(out_of_tree=True, links=other).flows[0]["server_path_manager"] == "fullmesh"
    assert two_paths(out_of_tree=True, links=other, transport="tcp").flows[0].keys() == two_paths(transport="tcp").flows[0].keys()
    assert two_paths(out_of_tree=True, scheduler="blest").flows[0]["scheduler"] == "blest"
    with pytest.raises(PlanError, match="out-of-tree MPTCP has the schedulers minrtt, blest, ecf, redundant, roundrobin"):
        two_paths(out_of_tree=True, scheduler="sttf")
    with pytest.raises(PlanError, match=r"; default is upstream's, and what an out-of-tree kernel calls so is minrtt$"):
        two_paths(out_of_tree=True, scheduler="default")
    plan = two_paths(out_of_tree=True, path_manager="ndiffports")
    assert (plan.flows[0]["path_manager"], plan.flows[0]["scheduler"]) == ("ndiffports", "default")
    with pytest.raises(PlanError, match="no endpoints of their own"):
        two_paths(out_of_tree=True, path_manager={"kind": "endpoints", "addresses": [{"address": "10.0.3.1"}]})


MPTCP = "proc/sys/net/mptcp/"


def test_out_of_tree_mptcp_is_set_for_the_machine_and_not_for_namespaces():
    plan = two_paths(out_of_tree=True)
    # Plain TCP stays TCP, and checksums are off as everywhere else.
    assert plan.machine == [[f"{MPTCP}mptcp_enabled", "2"], [f"{MPTCP}mptcp_checksum", "0"]]
    assert not hasattr(two_paths(), "machine")
    for name in ("checksum_enabled", "mptcp_checksum", "net.mptcp.mptcp_checksum", "net.mptcp.checksum_enabled"):
        plan = two_paths(out_of_tree=True, nodes={"c": {"sysctl": {name: 1}}})
        assert [f"{MPTCP}mptcp_checksum", "1"] in plan.machine
        assert not any("mptcp" in key for namespace in plan.namespaces for key, _ in namespace["sysctl"])
    plan = two_paths(out_of_tree=True, nodes={"s": {"sysctl": {"net.mptcp.mptcp_syn_retries": 5}}})
    assert plan.machine[-1] == [f"{MPTCP}mptcp_syn_retries", "5"]
    with pytest.raises(PlanError, match=r"one net\.mptcp\.mptcp_checksum for the whole machine, and c says 1"):
        two_paths(out_of_tree=True, nodes={"c": {"sysctl": {"mptcp_checksum": 1}}, "s": {"sysctl": {"mptcp_checksum": 0}}})
    with pytest.raises(PlanError, match=r"mptcp_enabled is 2 in every run"):
        two_paths(out_of_tree=True, nodes={"c": {"sysctl": {"net.mptcp.mptcp_enabled": 1}}})


def test_ndiffports_of_out_of_tree_mptcp_opens_as_many_subflows_as_wanted():
    ports = lambda number: {"kind": "ndiffports", "subflows": number}  # noqa: E731
    plan = two_paths(out_of_tree=True, path_manager=ports(5))
    assert (plan.flows[0]["path_manager"], plan.machine[-1]) == (
        "ndiffports",
        ["sys/module/mptcp_ndiffports/parameters/num_subflows", "5"],
    )
    plan = two_paths(out_of_tree=True, path_manager=ports(1))
    assert (plan.flows[0]["path_manager"], len(plan.machine)) == ("default", 2)
    flows = {name: {**FLOW, "path_manager": ports(number)} for name, number in (("f", 2), ("g", 3))}
    with pytest.raises(PlanError, match="one number of subflows for all of its ndiffports, and another flow has 2"):
        planned(out_of_tree=True, nodes=TWO_PATHS["nodes"], links=TWO_PATHS["links"], flows=flows)


BOND = {
    "ends": [{"node": "c", "address": "10.9.0.1"}, {"node": "s", "address": "10.9.0.2"}],
    "paths": [{"ends": ["10.1.0.1", "10.1.1.2"], "weight": 3}, {"ends": ["10.2.0.1", "10.2.1.2"]}],
}


def bonded(*, first=None, flow=None, **tunnel):
    """A tunnel over two routers; `first`: the first link's direction from the client."""

    def link(a, b, net, forward):
        ends = [{"node": a, "address": f"10.{net}.1"}, {"node": b, "address": f"10.{net}.2"}]
        return {"ends": ends, "forward": forward, "backward": [{"kind": "delay", "delay": "1ms"}]}

    rate = {"kind": "rate", "rate": "10mbit", "framing": "38B", "queue": "50packets"}
    links = {
        "c-r1": link("c", "r1", "1.0", first or [rate]),
        "r1-s": link("r1", "s", "1.1", [rate]),
        "c-r2": link("c", "r2", "2.0", [rate]),
        "r2-s": link("r2", "s", "2.1", [{"kind": "delay", "delay": "1ms"}]),
    }
    nodes = {"c": None, "s": None, "r1": {"router": True}, "r2": {"router": True}}
    addresses = {"client_address": "10.9.0.1", "server_address": "10.9.0.2"}
    flows = {"f": {"client": "c", "server": "s", "transport": "tcp", **addresses, **(flow or {})}}
    every = {**BASE, "topology": {"nodes": nodes, "links": links, "tunnels": {"bond": {**BOND, **tunnel}}}, "flows": flows}
    (run,) = runs(Study.model_validate(every), engine="linux", version=lambda kernel: kernel)
    return run.scenario


def planned_bond(**more):
    return SimpleNamespace(**build(bonded(**more), KERNEL).plan)


def file_of(plan, end):
    return tomllib.loads(plan.tunnels[0]["ends"][end]["file"])


def test_a_tunnel_is_a_daemon_at_each_end_with_routes_over_its_device():
    plan = planned_bond(reorder={"kind": "adaptive", "offset": "7ms"}, packets_before=3, queue="700packets", distribution="flows")
    assert [(end["namespace"], end["device"]) for end in plan.tunnels[0]["ends"]] == [("c", "t0"), ("s", "t0")]
    here, there = file_of(plan, 0), file_of(plan, 1)
    assert (here["tunnel"]["addresses"], here["tunnel"]["peer"], there["tunnel"]["peer"]) == (["10.9.0.1/32"], "10.9.0.2", "10.9.0.1")
    assert (here["tunnel"]["mtu"], here["tunnel"]["queue"], here["tunnel"]["packets_before"]) == (1464, 700, 3)
    assert (here["tunnel"]["offload"], here["tunnel"]["distribution"], "send_buffer" in here["tunnel"]) == (False, "flows", False)
    assert here["reorder"] == {"rule": "adaptive", "packets": 4096, "max_delay": "100000us", "offset": "7000us"}
    assert here["keepalive"] == {"interval": "5000000us", "dead_time": "11000000us", "data_count": False, "progress": False}
    assert here["path"][0] == {"local": "10.1.0.1", "remote": "10.1.1.2", "port": 23456, "weight": 3}
    assert (there["path"][0]["local"], there["path"][0]["remote"]) == ("10.1.1.2", "10.1.0.1")
    over = [(route["namespace"], route["to"]) for route in plan.routes if route["device"] == "t0"]
    assert sorted(over) == [("c", "10.9.0.2"), ("s", "10.9.0.1")]
    assert all(("via" in route) == (route["device"] != "t0") for route in plan.routes)
    outside = {(route["namespace"], route["to"], route["via"]) for route in plan.routes if "via" in route}
    assert outside == {
        ("c", "10.1.1.2", "10.1.0.2"),
        ("r1", "10.1.1.2", "10.1.1.2"),
        ("s", "10.1.0.1", "10.1.1.1"),
        ("r1", "10.1.0.1", "10.1.0.1"),
        ("c", "10.2.1.2", "10.2.0.2"),
        ("r2", "10.2.1.2", "10.2.1.2"),
        ("s", "10.2.0.1", "10.2.1.1"),
        ("r2", "10.2.0.1", "10.2.0.1"),
    }


@pytest.mark.parametrize(
    ("tunnel", "mtu", "framing"),
    [
        ({"reorder": "off"}, 1468, None),
        ({"key": 7}, 1460, "rfc8086"),
        ({"key": 7, "reorder": "off"}, 1464, "rfc8086"),
        ({"mtu": "1300B"}, 1300, None),
        ({"fec": "10+2"}, 1457, None),
    ],
)
def test_a_tunnels_mtu_is_what_the_headers_leave(tunnel, mtu, framing):
    found = file_of(planned_bond(**tunnel), 0)["tunnel"]
    assert (found["mtu"], found.get("encapsulation"), found.get("key")) == (mtu, framing, tunnel.get("key"))


def test_error_correction_is_a_section_of_the_daemons_file():
    found = file_of(planned_bond(fec={"data": 10, "parity": 2, "timeout": "20ms"}), 1)
    assert found["fec"] == {"data": 10, "parity": 2, "timeout": "20000us"}
    assert "fec" not in file_of(planned_bond(), 0)
    with pytest.raises(ValueError, match="43 of headers make more than the 1500 of an interface: 1457 is the most"):
        planned_bond(fec="10+2", mtu="1464B")


def test_a_socket_buffer_has_the_interfaces_rate_in_a_token_bucket_at_the_host():
    plan = planned_bond(send_buffer="212992B")
    assert file_of(plan, 0)["tunnel"]["send_buffer"] == 212_992
    shapers = {(each["namespace"], each["device"]): each["shaper"] for each in plan.disciplines if "shaper" in each}
    assert list(shapers) == [("c", "l0"), ("c", "l2")]
    bucket = {"rate": 10_000_000, "overhead": 24, "burst": 1514, "aqm": {"kind": "fifo", "limit": 50}}
    assert list(shapers.values()) == [bucket, bucket]
    # Without one, netem carries it out as ever.
    assert not [each for each in planned_bond().disciplines if "shaper" in each]
    with pytest.raises(PlanError, match="the engines sim and linux have it"):
        build(bonded(send_buffer="212992B"), KERNEL, send_buffers=False)


RATE = {"kind": "rate", "rate": "10mbit", "framing": "38B", "queue": "50packets"}


@pytest.mark.parametrize(
    ("tunnel", "place", "sentence"),
    [
        ({"queue": "2000000packets"}, "queue", "the tunnel daemon's device holds 1 to 1000000 packets; the engine sim"),
        ({"keepalive": "10ns"}, "keepalive", "times are whole microseconds"),
        ({"mtu": "500B"}, "mtu", "an MTU of 576 to 65000 bytes, and this is 500"),
        ({"fec": {"data": 2, "parity": 1, "timeout": "10ns"}}, "fec", "times are whole microseconds"),
        ({"send_buffer": "1000B"}, "send_buffer", "a socket's buffer has 4608 to"),
        (
            {"send_buffer": "9999B", "first": [{**RATE, "hold": "1ms"}]},
            "send_buffer",
            "its socket waits for c-r1 only if that begins with a rate",
        ),
        ({"send_buffer": "9999B", "first": [{"kind": "loss", "share": "1%"}, RATE]}, "send_buffer", "its socket waits for c-r1 only if"),
    ],
)
def test_what_the_daemon_does_not_do_is_refused(tunnel, place, sentence):
    with pytest.raises(PlanError, match=sentence) as error:
        planned_bond(**tunnel)
    assert error.value.place == ("tunnels", "bond", place)
