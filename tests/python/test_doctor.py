"""What the doctor finds in given facts."""

from dataclasses import replace

import pytest

from polypath.doctor import Address, Device, Endpoint, Facts, Question, Way, findings
from polypath.sockets import Subflow

CLIENT, SERVER = Question(role="client"), Question(role="server")


def device(name, address, **more):
    return Device(name=name, up=True, mtu=1500, addresses=(Address(address=address, prefix=24),), gateways=(address[:-1] + "254",), **more)


WIFI, LTE = device("wlan0", "10.0.1.1"), device("wwan0", "10.0.2.1")
LOOPBACK = Device(name="lo", up=True, mtu=65536, loopback=True, addresses=(Address(address="127.0.0.1", prefix=8),))
ENDPOINTS = (
    Endpoint(address="10.0.1.1", id=1, flags=frozenset({"subflow"}), device="wlan0"),
    Endpoint(address="10.0.2.1", id=2, flags=frozenset({"subflow"}), device="wwan0"),
)
WAYS = (
    Way(source="10.0.1.1", destination="10.9.0.1", device="wlan0"),
    Way(source="10.0.2.1", destination="10.9.0.1", device="wwan0"),
)
SYSCTLS = {
    "net.mptcp.blackhole_timeout": "3600",
    "net.mptcp.checksum_enabled": "0",
    "net.mptcp.path_manager": "kernel",
    "net.ipv4.tcp_congestion_control": "pp_lia",
    "net.ipv4.tcp_mtu_probing": "0",
    "net.ipv4.tcp_no_metrics_save": "1",
    "net.ipv4.tcp_rmem": "4096\t131072\t6291456",
    "net.ipv4.tcp_wmem": "4096\t16384\t4194304",
    "net.ipv4.tcp_sack": "1",
    "net.ipv4.tcp_timestamps": "1",
    "net.ipv4.tcp_window_scaling": "1",
    "net/ipv4/conf/all/rp_filter": "0",
    "net/ipv4/conf/all/arp_ignore": "0",
}
WELL = Facts(
    release="6.12.1",
    mptcp="works",
    sysctls=SYSCTLS,
    config={"CONFIG_MPTCP": "y", "CONFIG_MPTCP_IPV6": "y", "CONFIG_INET_MPTCP_DIAG": "y", "CONFIG_BPF_JIT": "y"},
    limits=(2, 2),
    endpoints=ENDPOINTS,
    devices=(LOOPBACK, WIFI, LTE),
    ways=WAYS,
    first=frozenset({"10.0.1.1"}),
    tables=frozenset({254, 255, 101}),
)


def changed(**sysctls):
    return replace(WELL, sysctls={**SYSCTLS, **{f"net.{name.replace('__', '.')}": value for name, value in sysctls.items()}})


def found(facts, question=CLIENT):
    return {finding.id: finding for finding in findings(facts, question)}


def only(facts, question=CLIENT):
    (finding,) = findings(facts, question)
    return finding


def flagged(*flags):
    return replace(WELL, endpoints=tuple(replace(each, flags=frozenset(own)) for each, own in zip(ENDPOINTS, flags, strict=True)))


def test_nothing_is_found_where_all_is_well_and_the_worst_comes_first():
    assert findings(WELL, CLIENT) == []
    assert findings(WELL, Question()) == []
    assert findings(flagged({"signal"}, {"signal"}), SERVER) == []
    facts = replace(changed(mptcp__checksum_enabled="1"), limits=(0, 2), counters={"Blackhole": 1})
    assert [finding.severity for finding in findings(facts, CLIENT)] == ["wrong", "doubt", "note"]


@pytest.mark.parametrize(
    ("ability", "config", "words"),
    [
        ("off", "y", "switched off"),
        ("absent", "n", "built without CONFIG_MPTCP"),
        ("absent", "y", "has no MPTCP: boot"),
        ("out-of-tree", "n", "net.mptcp.mptcp_*"),
    ],
)
def test_without_mptcp_nothing_else_is_said(ability, config, words):
    finding = only(replace(WELL, mptcp=ability, config={**WELL.config, "CONFIG_MPTCP": config}, limits=(0, 0)))
    assert (finding.severity, words in finding.sentence) == ("wrong", True)
    assert finding.run == (("sysctl -w net.mptcp.enabled=1",) if ability == "off" else ())


def test_limits_keep_connections_on_one_path():
    finding = only(replace(WELL, limits=(0, 2)))
    assert (finding.id, finding.severity, finding.run) == ("no-subflows-allowed", "wrong", ("ip mptcp limits set subflows 2",))
    assert findings(replace(WELL, limits=(1, 2)), CLIENT) == []
    assert only(replace(WELL, limits=(1, 2), first=frozenset())).run == ("ip mptcp limits set subflows 2",)


@pytest.mark.parametrize(("question", "flag", "right"), [(CLIENT, "signal", "subflow"), (SERVER, "subflow", "signal")])
def test_a_flag_of_the_other_role_is_wrong(question, flag, right):
    facts = flagged({flag}, {right})
    finding = only(facts, question)
    assert (finding.id, finding.severity) == ("wrong-flag", "wrong")
    assert finding.run == ("ip mptcp endpoint delete id 1", f"ip mptcp endpoint add 10.0.1.1 dev wlan0 {right}")


@pytest.mark.parametrize("flags", [set(), {"backup"}, {"fullmesh"}, {"fullmesh", "backup"}, {"laminar"}])
def test_an_endpoint_with_neither_flag(flags):
    facts = replace(flagged({"subflow"}, flags), limits=(2, 0))
    finding = findings(facts, CLIENT)[0]
    assert (finding.id, finding.severity) == ("idle-endpoint", "wrong")
    assert finding.sentence.startswith("the endpoint 10.0.2.1 has neither subflow nor signal: ")
    assert finding.run[1] == " ".join(["ip mptcp endpoint add 10.0.2.1 dev wwan0 subflow", *sorted(flags)])
    assert found(facts, SERVER)["idle-endpoint"].run[1].endswith(" ".join(["signal", *sorted(flags - {"fullmesh"})]))
    # It takes up what is announced, where that is let in; what is live proves it.
    takes = {"fullmesh", "laminar"} & flags
    heard = replace(facts, limits=(2, 2), counters={"AddAddr": 1})
    assert found(heard)["idle-endpoint"].severity == ("doubt" if takes else "wrong")
    if takes:
        assert "idle-endpoint" not in found(replace(heard, subflows=(live(source="10.0.2.1", joined=True),)))


def test_announcements_that_came_and_were_not_taken_up():
    facts = replace(WELL, endpoints=(), limits=(2, 0), counters={"AddAddr": 3})
    first, second = findings(facts, CLIENT)
    assert (first.id, first.severity, second.id, second.severity) == ("announcements-ignored", "wrong", "no-endpoints", "doubt")
    assert first.sentence.startswith("the other host announced an address 3 times, and none is taken up")
    assert first.run == ("ip mptcp limits set subflows 2 add_addr_accepted 2",)
    # Where each device has an endpoint that may be well, and where a connection is on each it is.
    assert found(replace(facts, endpoints=ENDPOINTS))["announcements-ignored"].severity == "doubt"
    every = (live(), live(source="10.0.2.1", joined=True))
    assert found(replace(facts, endpoints=ENDPOINTS, subflows=every))["announcements-ignored"].severity == "note"
    assert "announcements-ignored" not in found(facts, SERVER)


def test_endpoints_that_the_kernel_adds_or_a_server_does_not_have():
    implicit = replace(ENDPOINTS[1], flags=frozenset({"implicit"}))
    assert found(replace(WELL, endpoints=(implicit,)))["no-endpoints"].severity == "wrong"
    joined = live(source="10.0.2.1", joined=True)
    assert found(replace(WELL, endpoints=(implicit,), subflows=(joined,)))["no-endpoints"].severity == "note"
    # Behind an address translator.
    outside = Endpoint(address="192.0.2.7", id=3, flags=frozenset({"signal"}))
    assert findings(replace(flagged({"signal"}, {"signal"}), endpoints=(outside,)), SERVER) == []


def test_of_several_endpoints_with_both_flags_a_server_announces_the_first():
    both = frozenset({"signal", "subflow"})
    third = device("eth0", "10.0.3.1")
    more = Endpoint(address="10.0.3.1", id=3, flags=both, device="eth0")
    facts = replace(flagged(both, both), devices=(LOOPBACK, WIFI, LTE, third))
    facts = replace(facts, endpoints=(*facts.endpoints, more))
    wrong, doubt = (each for each in findings(facts, SERVER) if each.id == "both-flags")
    # That of the first subflow is not announced, and is in nobody's place.
    assert (wrong.severity, doubt.severity) == ("wrong", "doubt")
    assert wrong.sentence.startswith("the endpoints 10.0.2.1 and 10.0.3.1 have both signal and subflow: the kernel announces one")
    assert wrong.run[1::2] == tuple(f"ip mptcp endpoint add {own} signal" for own in ("10.0.2.1 dev wwan0", "10.0.3.1 dev eth0"))
    assert doubt.sentence.startswith("the endpoint 10.0.1.1 has")
    (twins,) = (each for each in findings(facts, Question(role="both")) if each.id == "both-flags")
    assert twins.run[1:3] == tuple(f"ip mptcp endpoint add 10.0.2.1 dev wwan0 {flags}" for flags in ("subflow", "signal port PORT"))


def test_a_host_that_is_client_and_server():
    both = Question(role="both")
    assert findings(flagged({"subflow"}, {"subflow", "signal"}), both) == []
    finding = only(flagged({"subflow"}, {"subflow"}), both)
    assert (finding.id, finding.run[1]) == ("wrong-flag", "ip mptcp endpoint add 10.0.2.1 dev wwan0 signal subflow")
    assert "as a client it opens nothing" in only(flagged({"subflow"}, {"signal"}), both).sentence
    assert only(replace(WELL, endpoints=()), both).run == ("ip mptcp endpoint add 10.0.2.1 dev wwan0 subflow signal",)
    twins = (
        Endpoint(address="10.0.2.1", id=2, flags=frozenset({"subflow"}), device="wwan0"),
        Endpoint(address="10.0.2.1", id=3, flags=frozenset({"signal"}), device="wwan0", port=5400),
    )
    assert findings(replace(WELL, endpoints=twins), both) == []


def test_endpoints_whose_port_address_or_device_is_elsewhere():
    port = replace(ENDPOINTS[1], flags=frozenset({"signal"}), port=5400)
    finding = only(replace(WELL, endpoints=(ENDPOINTS[0], port)))
    assert (finding.id, finding.severity, finding.run[1]) == (
        "wrong-flag",
        "doubt",
        "ip mptcp endpoint add 10.0.2.1 dev wwan0 subflow",
    )
    other = replace(WELL, endpoints=(replace(port, device="wlan0"),))
    assert found(other, SERVER)["other-device"].run[1] == "ip mptcp endpoint add 10.0.2.1 dev wwan0 signal port 5400"
    gone = replace(WELL, devices=(LOOPBACK, WIFI, device("eth0", "10.0.3.1")))
    assert only(gone).id == "address-missing"
    assert only(gone).run == ("ip mptcp endpoint delete id 2",)
    other = replace(WELL, endpoints=(ENDPOINTS[0], replace(ENDPOINTS[1], device="wlan0")))
    assert only(other).run[1] == "ip mptcp endpoint add 10.0.2.1 dev wwan0 subflow"
    down = replace(WELL, devices=(LOOPBACK, WIFI, replace(LTE, up=False)))
    assert found(down)["device-down"].run == ("ip link set wwan0 up",)


@pytest.mark.parametrize(
    ("question", "severity", "flag"), [(CLIENT, "wrong", "subflow"), (SERVER, "wrong", "signal"), (Question(), "doubt", "subflow")]
)
def test_without_endpoints_the_second_device_is_not_used(question, severity, flag):
    finding = found(replace(WELL, endpoints=()), question)["no-endpoints"]
    assert (finding.severity, finding.run) == (severity, (f"ip mptcp endpoint add 10.0.2.1 dev wwan0 {flag}",))


def test_devices_and_settings_that_are_seldom_wrong():
    assert only(replace(WELL, endpoints=(), devices=(LOOPBACK, WIFI), ways=WAYS[:1])).id == "one-path"
    facts = replace(
        WELL, devices=(LOOPBACK, WIFI, replace(LTE, addresses=(Address(address="10.0.1.7", prefix=24),))), endpoints=ENDPOINTS[:1]
    )
    assert {"one-subnet", "arp"} <= set(found(facts))
    facts = replace(WELL, sysctls={**SYSCTLS, "net/ipv4/conf/wwan0/rp_filter": "1"})
    assert only(facts).run == ("sysctl -w net/ipv4/conf/wwan0/rp_filter=2",)
    # The larger of the two counts.
    assert findings(replace(WELL, sysctls={**facts.sysctls, "net/ipv4/conf/all/rp_filter": "2"}), CLIENT) == []
    facts = replace(WELL, counters={"Blackhole": 2})
    assert (only(facts).id, only(facts).severity) == ("blackhole", "doubt")
    assert findings(replace(facts, sysctls={**SYSCTLS, "net.mptcp.blackhole_timeout": "0"}), CLIENT) == []
    facts = replace(WELL, lines=(("/etc/sysctl.d/9.conf", "net.mptcp.mptcp_path_manager"), ("/etc/sysctl.conf", "net.mptcp.enabled")))
    assert "net.mptcp.mptcp_path_manager (/etc/sysctl.d/9.conf)" in only(facts).sentence
    facts = replace(WELL, devices=(LOOPBACK, WIFI, replace(LTE, mtu=9000)))
    assert only(facts).id == "mtus-differ"
    assert only(replace(WELL, devices=(LOOPBACK, WIFI, replace(LTE, shaper="netem")))).id == "shaped-here"
    facts = replace(WELL, btf=False, config={**WELL.config, "CONFIG_INET_MPTCP_DIAG": "n"})
    assert [finding.severity for finding in findings(facts, CLIENT)] == ["note", "note"]
    finding = only(flagged({"signal", "subflow"}, {"subflow"}))
    assert (finding.id, finding.severity) == ("both-flags", "doubt")


def test_a_subflow_that_would_leave_by_another_device():
    facts = replace(WELL, ways=(WAYS[0], replace(WAYS[1], device="wlan0")))
    finding = only(facts)
    assert (finding.id, finding.severity) == ("routing", "wrong")
    # Table 101 is in use.
    assert finding.run == ("ip rule add from 10.0.2.1 table 102", "ip route add default via 10.0.2.254 dev wwan0 table 102")
    nowhere = only(replace(WELL, ways=(WAYS[0], replace(WAYS[1], device=None))))
    assert "no way to 10.9.0.1" in nowhere.sentence
    facts = replace(flagged({"signal"}, {"signal"}), ways=(WAYS[0], replace(WAYS[1], device="wlan0")))
    assert found(facts, SERVER)["routing"].severity == "doubt"


def test_links_that_join_two_hosts_directly_have_one_address_each():
    both = [Way(source=f"10.0.{a}.1", destination=f"10.0.{b}.2", device=d if a == b else None) for a, b, d in
            ((1, 1, "wlan0"), (1, 2, None), (2, 2, "wwan0"), (2, 1, None))]  # fmt: skip
    seen = findings(replace(WELL, ways=tuple(both)), CLIENT)
    assert [(each.id, each.severity, each.run) for each in seen] == [("routing", "note", ())] * 2
    assert "no way to 10.0.2.2, but there is one to 10.0.1.2: all is well if the other host announces 10.0.1.2 (" in seen[0].sentence
    # A subflow that is there proves its way; one that only tries does not.
    one = live(source="10.0.1.1", destination="10.0.2.2")
    named = {
        each.sentence.split(" (")[0] for each in findings(replace(WELL, ways=tuple(both), subflows=(one,)), CLIENT) if each.id == "routing"
    }
    assert named == {"from 10.0.2.1"}
    tries = replace(WELL, ways=tuple(both), subflows=(replace(one, state="syn-sent"),))
    assert sum(each.id == "routing" for each in findings(tries, CLIENT)) == 2
    alone = only(replace(WELL, ways=(both[0], both[3])))
    assert alone.severity == "wrong" and "from 10.0.2.1 (wwan0) there is no way to 10.0.1.2" in alone.sentence


@pytest.mark.parametrize(
    ("counters", "name"),
    [
        ({"MPCapableSYNTX": 5, "MPCapableFallbackSYNACK": 5}, "no-answer"),
        ({"MPCapableSYNRX": 5, "MPCapableFallbackACK": 1}, "stripped"),
        ({"MPJoinSynTx": 4}, "joins-unanswered"),
        ({"MPJoinSynTxConnectErr": 1}, "joins-failed"),
        ({"MPJoinNoTokenFound": 1}, "joins-elsewhere"),
    ],
)
def test_counters_tell_where_subflows_were_lost(counters, name):
    assert only(replace(WELL, counters=counters)).id == name
    assert findings(replace(WELL, counters={"MPCapableSYNTX": 5, "MPJoinSynTx": 4, "MPJoinSynAckRx": 4}), CLIENT) == []


@pytest.mark.parametrize(
    ("sysctls", "name"),
    [
        ({"mptcp__path_manager": "userspace"}, "userspace-path-manager"),
        ({"mptcp__checksum_enabled": "1"}, "checksum"),
        ({"ipv4__tcp_congestion_control": "cubic"}, "uncoupled"),
        ({"ipv4__tcp_no_metrics_save": "0"}, "tcp-metrics"),
        ({"ipv4__tcp_sack": "0"}, "tcp-sack"),
        ({"ipv4__tcp_window_scaling": "0"}, "tcp-window-scaling"),
    ],
)
def test_settings(sysctls, name):
    finding = only(changed(**sysctls))
    assert finding.id == name
    assert finding.run


def test_buffers_below_what_the_paths_hold():
    # 2.5 MB under way: 5 MB of buffer, which the receiver has and the sender has not.
    question = Question(role="client", rates_bps=(50_000_000, 50_000_000), rtts_ns=(20_000_000, 200_000_000))
    finding, enough = findings(WELL, question)
    assert (finding.id, finding.severity, finding.run) == ("send-buffer", "doubt", ('sysctl -w net.ipv4.tcp_wmem="4096 16384 8388608"',))
    assert "4.8 MiB on the host that sends: 2.4 MiB are under way" in finding.sentence
    # Whoever asks is answered where all is well, too.
    assert (enough.id, enough.severity, enough.run) == ("receive-buffer-enough", "note", ())
    both = findings(WELL, replace(question, rtts_ns=(100_000_000,)))
    assert [each.id for each in both] == ["receive-buffer-enough", "send-buffer-enough"]


def live(**fields):
    nothing = dict.fromkeys(Subflow.__dataclass_fields__, 0)
    named = {"source": "10.0.1.1", "destination": "10.9.0.1", "token": 7, "joined": False, "backup": False, "state": "established"}
    return Subflow(**{**nothing, **named, "cc": "pp_lia", "srtt_ms": 20.0, **fields})


def test_live_subflows_say_what_held_their_connection_back():
    two = (live(delivery_mbps=900.0), live(delivery_mbps=900.0, joined=True))
    assert set(found(replace(WELL, subflows=two))) == {"receive-buffer", "send-buffer"}
    apart = (two[0], replace(two[1], token=8))
    assert set(found(replace(WELL, subflows=apart))) == {"send-buffer"}
    facts = replace(WELL, subflows=(live(busy_s=10.0, rwnd_limited_s=4.0, sndbuf_limited_s=0.5),))
    assert "the receiver's window for 40% of the time" in only(facts).sentence
    waits = live(busy_s=10.0, sndbuf_limited_s=9.0)
    assert "this host's send buffer for 90% of the time" in only(replace(WELL, subflows=(waits,))).sentence
    # Beside a sibling that is what a subflow says that the connection gives nothing.
    assert findings(replace(WELL, subflows=(waits, live(joined=True))), CLIENT) == []
    assert findings(replace(WELL, subflows=(live(busy_s=0.5, rwnd_limited_s=0.5),)), CLIENT) == []


def test_connections_that_did_not_ask_for_mptcp():
    finding = only(replace(WELL, plain={"10.9.0.1": 2}))
    assert (finding.id, finding.severity) == ("plain-tcp", "doubt")
    assert finding.sentence.startswith("2 TCP connections to 10.9.0.1 do not use MPTCP: its program here did not ask for it")
    fell = only(replace(WELL, fell_back={"10.9.0.1": 1}))
    assert fell.sentence.startswith("a TCP connection to 10.9.0.1 does not use MPTCP: its program here asked for it")
    # Programs of Go listen with MPTCP unasked, so which end is to blame is asked of the listener.
    came = replace(WELL, came_plain={("10.9.0.1", 8080, True): 1, ("10.9.0.1", 80, False): 1})
    speaks, mute = (each.sentence for each in findings(came, CLIENT))
    assert "from 10.9.0.1 to port 8080 does not use MPTCP: the program here that listens speaks it" in speaks
    assert "to port 80 does not use MPTCP: the program here that listens does not speak it" in mute


def test_which_paths_a_live_connection_uses():
    first, second = live(bytes_acked=30_000_000), live(source="10.0.2.1", bytes_received=10_000_000, joined=True)
    finding = only(replace(WELL, subflows=(first, second)))
    assert (finding.id, finding.severity) == ("paths-used", "note")
    assert "uses wlan0 (75%) and wwan0 (25%)" in finding.sentence
    finding = only(replace(WELL, subflows=(first, replace(second, bytes_received=0))))
    assert (finding.id, finding.severity) == ("one-path-used", "doubt")
    assert finding.sentence.endswith("uses wlan0 alone, and not wwan0")
    third = replace(WELL, devices=(LOOPBACK, WIFI, LTE, device("eth0", "10.0.3.1")), subflows=(first, second))
    assert (only(third).id, only(third).severity) == ("path-unused", "doubt")
    assert only(third).sentence.endswith("uses wlan0 (75%) and wwan0 (25%), and not eth0")
    limited = only(replace(third, limits=(1, 2)))
    assert limited.sentence.endswith("and not eth0: it has 1 further subflows, and no more are allowed")
    assert limited.run == ("ip mptcp limits set subflows 2",)
    # A backup waits, and is meant to.
    waits = replace(third.subflows[1], source="10.0.3.1", backup=True, bytes_received=0)
    assert only(replace(third, subflows=(first, second, waits))).id == "paths-used"
    # A control connection has had no occasion.
    assert findings(replace(WELL, subflows=(replace(first, bytes_acked=3000), second)), Question()) != []
    assert findings(replace(WELL, subflows=(replace(first, bytes_acked=3000),)), CLIENT) == []


@pytest.mark.parametrize(
    ("more", "hop", "words"),
    [
        ({}, "10.0.2.254", "no subflow comes up there"),
        ({"gateways": (), "met": ("10.0.2.9",)}, "10.0.2.9", "10.0.2.9, the only host met on that link"),
        ({"gateways": ()}, "GATEWAY", "GATEWAY stands for the next hop on that link"),
    ],
)
def test_the_next_hop_of_a_missing_route(more, hop, words):
    ways = (WAYS[0], replace(WAYS[1], device=None))
    finding = only(replace(WELL, ways=ways, devices=(LOOPBACK, WIFI, replace(LTE, **more))))
    assert finding.run == ("ip rule add from 10.0.2.1 table 102", f"ip route add default via {hop} dev wwan0 table 102")
    assert words in finding.sentence
