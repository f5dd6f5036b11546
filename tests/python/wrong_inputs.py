"""Inputs that no engine can use."""

from pathlib import Path

import yaml

BASE = """\
name: base
topology:
  nodes:
    a:
    r: {router: true}
    b:
  links:
    l1: {ends: [a, r], both: {delay: 5ms}}
    l2: {ends: [r, b], both: {rate: 10mbit, queue: 50packets, delay: 5ms}}
flows:
  f: {client: a, server: b, transport: tcp, cc: "${cc}"}
duration: 2s
matrix: {cc: [cubic, reno]}
seeds: 1
"""

SHAPE = "{rate: 10mbit, queue: 50packets, delay: 5ms}"
FLOW = 'f: {client: a, server: b, transport: tcp, cc: "${cc}"}'


def instead(old, new, told):
    """BASE with another text in place of one, and the sentence about it."""
    return ((old, new),), told


def elements(text, told):
    """The bottleneck of other elements; its sentence begins behind its place, as those below do."""
    return instead(SHAPE, text, f"9: topology.links.l2.both{told}")


def shape(text, told):
    """The bottleneck with other figures."""
    return elements("{" + text + "}", told)


def flow(text, told):
    """The flow with more fields."""
    return instead("transport: tcp", text, f"11: flows.f{told}")


def host(text, told):
    """The client with settings."""
    return instead("    a:\n", f"    a: {{sysctl: {{{text}}}}}\n", f"4: topology.nodes.a.sysctl{told}")


def router(text, told):
    """The router with settings."""
    return instead("{router: true}", f"{{router: true, sysctl: {{{text}}}}}", f"5: topology.nodes.r.sysctl{told}")


# What a person did -> the changes to BASE, and "line: field: part of the sentence".
WRONG = {
    # Settings that were accepted and ignored.
    "schedulers for cells of plain TCP": (
        (
            ("transport: tcp", 'transport: "${t}", scheduler: "${s}"'),
            ("{cc: [cubic, reno]}", "{cc: [cubic], t: [tcp, mptcp], s: [default, roundrobin]}"),
        ),
        "11: flows.f.scheduler: a tcp flow has one path and no scheduler, so this cell is the same run as s=default: "
        "leave one of them out with `exclude` (in the cell cc=cubic, t=tcp, s=roundrobin)",
    ),
    "more weights than subflows": flow(
        "transport: mptcp, scheduler: 'weighted 3:2:1'",
        ".scheduler: there are 3 weights, and this flow opens 1 subflow: give one weight a subflow at most",
    ),
    "an address that goes away after the end": flow(
        "transport: mptcp, path_manager: {kind: endpoints, addresses: [{address: 10.0.1.1, remove_at: 9s}]}",
        ".path_manager.addresses[0].remove_at: the address goes away 9s after the connection begins, and the run ends 2s",
    ),
    "a setting of a router": router(
        "net.ipv4.tcp_rmem: [4096, 131072, 6291456]",
        ".net.ipv4.tcp_rmem: `r` only forwards, so `net.ipv4.tcp_rmem` changes nothing there: take it out",
    ),
    "a setting of a router that is no sysctl": router("initcwnd: 10", ".initcwnd: `r` only forwards, so `initcwnd` changes nothing there"),
    "a setting of a router that there is not": router("net.ipv4.tcp_nonsense: 1", ".net.ipv4.tcp_nonsense: `r` only forwards"),
    "a kernel of a router": instead(
        "{router: true}",
        '{router: true, kernel: "6.1"}',
        "5: topology.nodes.r.kernel: `r` only forwards, so its `kernel` changes nothing: take it out",
    ),
    "an unknown search for a path's MTU": instead(
        "    a:\n",
        "    a: {mtu_search: quin}\n",
        '4: topology.nodes.a.mtu_search: there is no search for a path\'s MTU "quin"; did you mean "quinn"?',
    ),
    "a search for a path's MTU by a router": instead(
        "{router: true}",
        "{router: true, mtu_search: quinn}",
        "5: topology.nodes.r.mtu_search: `r` only forwards, so its `mtu_search` changes nothing: take it out",
    ),
    "a kernel of a host without TCP": instead(
        "    b:\n",
        '    b:\n    idle: {kernel: "6.1"}\n',
        "7: topology.nodes.idle.kernel: no TCP flow begins or ends at `idle`, so its `kernel` changes nothing: take it out",
    ),
    "a setting of a host without flows": instead(
        "    b:\n",
        "    b:\n    idle: {sysctl: {net.ipv4.tcp_sack: 0}}\n",
        "7: topology.nodes.idle.sysctl.net.ipv4.tcp_sack: no TCP flow begins or ends at `idle`, so `net.ipv4.tcp_sack` changes nothing",
    ),
    "a setting of MPTCP beside plain TCP": host(
        "net.mptcp.checksum_enabled: 1", ".net.mptcp.checksum_enabled: no MPTCP flow begins or ends at `a`"
    ),
    "a setting that nothing has": host("initcwmd: 10", ".initcwmd: the setting `initcwmd` is not modelled; did you mean `initcwnd`?"),
    "a link that is joined twice": shape(
        "rate: 10mbit, changes: [{at: 1s, up: true}]", ": `up: true` at 1s changes nothing: the link is up already; take it out"
    ),
    "a change of an element after the end": elements(
        "[{kind: rate, rate: 10mbit}, {kind: delay, delay: 5ms, changes: [{at: 3s, to: 9ms}]}]",
        "[1].changes[0].at: the change comes at 3s, and the run ends at 2s",
    ),
    "an outage after the end": elements(
        "[{kind: rate, rate: 10mbit}, {kind: down, spans: [[3s, 4s]]}]", "[1].spans[0]: the outage begins at 3s, and the run ends at 2s"
    ),
    "an application that goes on after the end": flow(
        "transport: tcp, app: {kind: bulk, duration: 9s}",
        ".app.duration: the application begins at 0s and lasts 9s, and the run ends at 2s",
    ),
    # Figures that nobody can mean.
    "a later rate at which no packet passes": shape(
        "rate: 10mbit, changes: [{at: 1s, rate: 1bit}]",
        ".changes[0].rate: at 1bit a packet of 1514 bytes takes 12112s, longer than the run",
    ),
    "more jitter than a radio's delay": elements(
        "[{kind: wireless, radio: 5g, peak: 10mbit, delay: 1ms}]", "[0].jitter: a jitter of 2ms around a delay of 1ms"
    ),
    "a policer's bucket below a full packet": elements(
        "[{kind: policer, rate: 10mbit, burst: 1500B}]",
        "[0].burst: no full packet finds tokens in a bucket of 1500B: with its framing it has 1514 bytes, which is the least",
    ),
    "a policer that lets no packet pass": elements(
        "[{kind: policer, rate: 1bit, burst: 2KB}]", "[0].rate: at 1bit a packet of 1514 bytes takes 12112s, longer than the run"
    ),
    "a delay longer than the run": shape(
        "rate: 10mbit, delay: 2000s", ".delay: a packet takes 2000s, and the run lasts 2s: nothing would arrive"
    ),
    # What the engines would say when they run it.
    "an MTU of an interface": instead(
        "ends: [r, b]", "ends: [r, {node: b, mtu: 20B}]", "9: topology.links.l2.ends[1].mtu: an MTU of 20 bytes at `b`"
    ),
    "an MTU on the way": shape("rate: 10mbit, mtu: 20B", ": an MTU of 20 bytes is below IPv4's smallest, 68 bytes"),
    "an address that cannot be reached": (
        (
            ("flows:", "    l3: {ends: [a, b], both: {rate: 1mbit}}\nflows:"),
            ("transport: tcp", "transport: tcp, client_address: 10.0.3.1, server_address: 10.0.2.2"),
        ),
        "12: flows.f.server: no route leads from 10.0.3.1 at `a` to 10.0.2.2 at `b`: give the flow `server_address: 10.0.3.2`",
    ),
    "a route over a host": flow(
        "transport: tcp, routes: [{source: 10.0.1.1, destination: 10.0.2.2, via: [l2]}]",
        ".routes[0]: the route from 10.0.1.1 to 10.0.2.2 uses link `l2` at `a`, which it does not join",
    ),
    # Units and numbers as people write them elsewhere.
    "an exponent in a queue": shape(
        "rate: 10mbit, queue: 1e3packets", '.queue: "1e3packets" is no queue length: a number has no exponents'
    ),
    "several algorithms where one stands": (
        ((FLOW, "f: {client: a, server: b, transport: tcp, cc: [lia, olia]}"), ("matrix: {cc: [cubic, reno]}\n", "")),
        "11: flows.f.cc: [lia, olia] stands where a text is expected; several values go into `matrix: {cc: [lia, olia]}`, "
        'with `cc: "${cc}"` here',
    ),
    "several rates where one stands": shape(
        "rate: [1mbit, 2mbit]", ".rate: [1mbit, 2mbit] is no rate; several values go into `matrix: {rate: [1mbit, 2mbit]}`"
    ),
    "several numbers where one stands": flow(
        "transport: tcp, count: [1, 2]",
        ".count: [1, 2] stands where one value is expected; several values go into `matrix: {count: [1, 2]}`",
    ),
    "a name of three hundred letters": (
        (("name: base", f"name: {'x' * 300}"),),
        '1: name: "xxxxxxxxxxxxxxxxxxxx..." has 300 letters; a name has at most 64',
    ),
    "a flow's long name": (
        (("  f: {", f"  {'f' * 65}: {{"),),
        f'11: flows.{"f" * 65}: "ffffffffffffffffffff..." has 65 letters; a name has at most 64',
    ),
    "a queue in a time of a rate that changes": shape(
        "rate: 10mbit, queue: 50ms, changes: [{at: 1s, rate: 5mbit}]",
        ": a queue of 50ms needs a fixed rate, and this one changes: write packets or bytes",
    ),
    "a queue in a time of a radio": elements(
        "[{kind: wireless, radio: 5g, peak: 10mbit, queue: 50ms}]",
        "[0].queue: a queue of 50ms needs a fixed rate, which this link has not: write packets or bytes",
    ),
    "a queue in a time too short": shape(
        "rate: 10mbit, queue: 1ms", ".queue: no full packet fits into a queue of 1ms: with its framing it has 1514 bytes"
    ),
    "a queue in bytes with an algorithm of packets": shape(
        "rate: 10mbit, queue: 64KiB, aqm: codel", ": codel counts packets: give its queue in packets"
    ),
    "dualpi2 with a queue in bytes": shape(
        "rate: 10mbit, queue: 64KiB, aqm: dualpi2", ": dualpi2 counts packets: give its queue in packets"
    ),
    "a round trip of one direction": (
        (("both: " + SHAPE, "forward: {rate: 10mbit, rtt: 10ms}, backward: {rate: 10mbit}"),),
        "9: topology.links.l2: a round trip takes both directions: `rtt` stands in `both`, and `forward` has a `delay`",
    ),
    "a delay and a round trip": shape(
        "rate: 10mbit, delay: 5ms, rtt: 10ms", ": `delay` and `rtt` say the same: a round trip of 60ms is a delay of 30ms; take one of them"
    ),
    "an outage without a distance": shape(
        "rate: 10mbit, outage: 300ms", ": outages have a length and a distance: write both, like `outage: 300ms, every: 15s`"
    ),
    "an outage without an end": shape(
        "rate: 10mbit, outage: 15s, every: 15s", ": an outage of 15s every 15s is none, or has no end: it must be shorter than `every`"
    ),
    "a repetition of nothing": shape(
        "rate: 10mbit, repeat: 1s", ": nothing changes here that could `repeat`: give it `changes`, or take it out"
    ),
    "a repetition before the last change": shape(
        "rate: 10mbit, changes: [{at: 100ms, rate: 1mbit}], repeat: 99ms",
        ": `repeat: 99ms` begins anew before the last change, at 100ms; write a longer time",
    ),
    "a repetition at the last change": shape(
        "rate: 10mbit, changes: [{at: 99ms, up: false}, {at: 100ms, up: true}], repeat: 100ms",
        ": `repeat: 100ms` begins anew at the last change, and all is then as at 0s: take that change out, or write a longer time",
    ),
    "a repetition of no time": shape(
        "rate: 10mbit, changes: [{at: 0s, rate: 1mbit}], repeat: 0s",
        ": `repeat: 0s` begins anew at the last change, and all is then as at 0s: take that change out, or write a longer time",
    ),
    "more changes than anybody needs": shape("rate: 10mbit, changes: [{at: 1ns, rate: 1mbit}], repeat: 2ns", ".repeat: every 2ns in"),
}

# What newcomers did, and this is said of in the same words (tests/data/newcomers.yaml).
NEWCOMERS = """
scheduler on tcp; path manager on tcp; cc on udp; unknown scheduler; change with nothing; changes unordered; change after end; duration
1ns; huge rate; tiny rate 1bit; link without rate anywhere; jitter > delay; queue 100 B tiny; series 0; mtu 0; sysctl rmem one; sysctl
rmem reversed; transfer 0; server is router; unclosed placeholder; count 100000; count 0; series 1ns
"""
_CASES = {case["did"]: case for case in yaml.safe_load((Path(__file__).parents[1] / "data" / "newcomers.yaml").read_text(encoding="utf-8"))}
WRONG |= {name: (_CASES[name]["replace"], _CASES[name]["says"]) for name in " ".join(NEWCOMERS.split()).split("; ")}


def changed(changes):
    """BASE with each first text of a pair replaced by the second."""
    text = BASE
    for old, new in changes:
        assert old in text, f"{old!r} does not stand in the study"
        text = text.replace(old, new)
    return text
