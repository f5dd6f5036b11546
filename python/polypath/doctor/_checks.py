"""What is wrong, doubtful or worth knowing about MPTCP, from the facts alone.

Each check has the name of its finding and gives none where all is well. Sentences name what is so
and what follows; commands mend it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from polypath.programs import packages

from ._facts import PARTS, Device, Endpoint, Facts, Finding, Question, Role, Severity
from ._load import buffers, congestion_control, live_limits, live_paths, plain_connections

Check = Callable[[Facts, Question], Iterator[Finding]]
# MPTCP_PM_ADDR_MAX of the kernel.
_MOST_ENDPOINTS = 8
_SEVERITIES: tuple[Severity, ...] = ("wrong", "doubt", "note")
# What an endpoint of such a host needs; who has not said what this host is has a client, mostly.
_FLAGS: Mapping[Role | None, tuple[str, ...]] = {
    "client": ("subflow",),
    "server": ("signal",),
    "both": ("subflow", "signal"),
    None: ("subflow",),
}


def findings(facts: Facts, question: Question) -> list[Finding]:
    """All findings, the worst first."""
    if facts.mptcp != "works":
        # Without MPTCP nothing else matters.
        return list(mptcp(facts, question))
    problems = [finding for check in CHECKS for finding in check(facts, question)]
    return sorted(problems, key=lambda finding: _SEVERITIES.index(finding.severity))


def mptcp(facts: Facts, question: Question) -> Iterator[Finding]:
    if facts.mptcp == "off":
        yield Finding(
            id="mptcp-off",
            severity="wrong",
            sentence="MPTCP is switched off here: programs that ask for it are refused",
            run=("sysctl -w net.mptcp.enabled=1",),
        )
    elif facts.mptcp == "absent":
        how = " (it was built without CONFIG_MPTCP)" if facts.config and facts.config.get("CONFIG_MPTCP") == "n" else ""
        sentence = f"the kernel {facts.release} has no MPTCP{how}: boot one of Linux 5.6 or later with CONFIG_MPTCP; distributions' have it"
        yield Finding(id="mptcp-absent", severity="wrong", sentence=sentence)
    elif facts.mptcp == "out-of-tree":
        sentence = (
            f"the kernel {facts.release} has the out-of-tree MPTCP (v0), which is set up by net.mptcp.mptcp_*; this checks upstream MPTCP"
        )
        yield Finding(id="mptcp-out-of-tree", severity="wrong", sentence=sentence)


def path_manager(facts: Facts, question: Question) -> Iterator[Finding]:
    chosen = facts.sysctls.get("net.mptcp.path_manager")
    if chosen == "userspace" or (chosen is None and facts.number("net.mptcp.pm_type") == 1):
        yield Finding(
            id="userspace-path-manager",
            severity="doubt",
            sentence="subflows are left to a daemon (userspace path manager): endpoints and limits set here do nothing for new connections",
            run=("sysctl -w net.mptcp.pm_type=0",),
        )


def limits(facts: Facts, question: Question) -> Iterator[Finding]:
    if facts.limits is None:
        return
    subflows, accepted = facts.limits
    flags = _FLAGS[question.role]
    addresses = {endpoint.address for endpoint in facts.named if endpoint.flags & set(flags)}
    # The address that the first subflow leaves by is an endpoint too, mostly, and needs no further
    # one.
    spare = len(addresses - facts.first)
    if subflows == 0:
        yield Finding(
            id="no-subflows-allowed",
            severity="wrong",
            sentence="the limit of further subflows is 0: every connection stays on its first path",
            run=(f"ip mptcp limits set subflows {max(len(addresses), 2)}",),
        )
    elif spare > subflows:
        uses = "announced" if flags == ("signal",) else "for subflows"
        yield Finding(
            id="few-subflows-allowed",
            severity="wrong",
            sentence=f"{len(addresses)} endpoints are {uses}, and a connection may have {subflows} beside its first: some are never used",
            run=(f"ip mptcp limits set subflows {len(addresses)}",),
        )
    if accepted or question.role == "server":
        return
    cure = (f"ip mptcp limits set subflows {max(subflows, 2)} add_addr_accepted {max(len(facts.outward) - 1, 2)}",)
    if facts.announced:
        # An endpoint on each device may do without; whether it does a live connection tells.
        covered = all(any(address.address in addresses | facts.first for address in device.addresses) for device in facts.outward)
        severity: Severity = "note" if facts.all_used else "doubt" if covered or question.role is None else "wrong"
        yield Finding(
            id="announcements-ignored",
            severity=severity,
            sentence=f"the other host announced an address {_times(facts.announced)}, and none is taken up (add_addr_accepted 0): "
            "no subflow goes there",
            run=cure,
        )
        return
    fullmesh = any({"subflow", "fullmesh"} <= endpoint.flags for endpoint in facts.named)
    if question.role == "client" and (fullmesh or not addresses):
        reason = "a full mesh goes to the first server address alone" if fullmesh else "no further address of the server is ever used"
        yield Finding(
            id="announcements-ignored",
            severity="doubt" if fullmesh else "note",
            sentence=f"addresses that the server announces are ignored (add_addr_accepted 0): {reason}",
            run=cure,
        )


def endpoint_roles(facts: Facts, question: Question) -> Iterator[Finding]:
    """What the kernel does with an endpoint of these flags, at a client and at a server (asked of
    Linux 6.12 and 6.18).
    """
    role = question.role
    yield from _both_flags(facts, question)
    for endpoint in facts.named:
        if {"signal", "fullmesh"} <= endpoint.flags:
            yield Finding(
                id="fullmesh-signal",
                severity="doubt",
                sentence=f"the endpoint {endpoint.address} has signal and fullmesh, which the kernel takes for signal alone",
                run=_anew(endpoint, "signal" if role == "server" else "subflow fullmesh"),
            )
        if not endpoint.flags & {"signal", "subflow"}:
            yield from _idle(facts, question, endpoint)
        elif {"signal", "subflow"} <= endpoint.flags:
            continue
        elif role == "both":
            yield from _half(facts, endpoint)
        elif role == "client" and "signal" in endpoint.flags and not (endpoint.flags & {"laminar"} or facts.joined_from(endpoint.address)):
            does = "announces its address"
            if endpoint.port is None:
                severity: Severity = "wrong"
                does += ", and the server knows no port to connect to"
            else:
                severity = "doubt"
                does += (
                    f" with port {endpoint.port}, and a subflow comes only if the server takes announcements up (add_addr_accepted there)"
                )
            yield Finding(
                id="wrong-flag",
                severity=severity,
                sentence=f"the endpoint {endpoint.address} is a signal one: on a client it {does}; subflow is needed there",
                run=_anew(endpoint, _with("subflow", endpoint)),
            )
        elif role == "server" and "subflow" in endpoint.flags:
            yield Finding(
                id="wrong-flag",
                severity="wrong",
                sentence=f"the endpoint {endpoint.address} is a subflow one: on a server it announces nothing, and what the server itself "
                "opens nobody answers; signal is needed there",
                run=_anew(endpoint, _with("signal", endpoint)),
            )


def _idle(facts: Facts, question: Question, endpoint: Endpoint) -> Iterator[Finding]:
    """Without subflow and signal: of use only for addresses that the server announces, and with
    fullmesh or laminar alone.
    """
    only = endpoint.flags & {"fullmesh", "laminar"}
    severity: Severity = "wrong"
    sentence = f"the endpoint {endpoint.address} has neither subflow nor signal"
    if only and question.role != "server":
        if facts.joined_from(endpoint.address):
            return
        flag = " and ".join(sorted(only))
        sentence += f": with {flag} alone it takes up what the server announces"
        if facts.limits is not None and facts.limits[1] == 0:
            sentence += ", and that is ignored here (add_addr_accepted 0)"
        elif not facts.announced:
            sentence += ", and nothing was announced so far"
            severity = "wrong" if "fullmesh" in only else "doubt"
        else:
            severity = "doubt"
    else:
        sentence += ": no subflow leaves from it, and it is not announced"
    yield Finding(
        id="idle-endpoint", severity=severity, sentence=sentence, run=_anew(endpoint, _with(" ".join(_FLAGS[question.role]), endpoint))
    )


def _both_flags(facts: Facts, question: Question) -> Iterator[Finding]:
    both = [endpoint for endpoint in facts.named if {"signal", "subflow"} <= endpoint.flags]
    announced = [endpoint for endpoint in facts.named if "signal" in endpoint.flags and endpoint.address not in facts.first]
    if question.role in ("server", "both") and len(announced) > 1:
        # Of the others it has made a subflow by the time that it would announce them; those with a
        # port come first.
        spoilt = [endpoint for endpoint in both if endpoint in announced]
        server = question.role == "server"
        if spoilt:
            yield Finding(
                id="both-flags",
                severity="wrong",
                sentence=f"{_endpoints(spoilt)} both signal and subflow: the kernel announces one such address at the most, and of the "
                f"others it makes subflows to the client's port, in vain{_port(question)}",
                run=tuple(
                    line for endpoint in spoilt for line in (_anew(endpoint, _with("signal", endpoint)) if server else _twins(endpoint))
                ),
            )
        both = [endpoint for endpoint in both if endpoint not in spoilt]
    for endpoint in both:
        sentence = f"{_endpoints([endpoint])} both signal and subflow: "
        if question.role == "client":
            sentence += "on a client its announcement helps nobody, since the server knows no port to connect to"
        else:
            sentence += (
                "a server with it also opens a subflow to the client's port, in vain; subflow belongs to the client, signal to the server"
            )
        if question.role != "both":
            run = _anew(endpoint, _with(_FLAGS[question.role][0], endpoint))
            yield Finding(id="both-flags", severity="doubt", sentence=sentence, run=run)


def _endpoints(some: list[Endpoint]) -> str:
    addresses = " and ".join(endpoint.address for endpoint in some)
    return f"the endpoint {addresses} has" if len(some) == 1 else f"the endpoints {addresses} have"


def _half(facts: Facts, endpoint: Endpoint) -> Iterator[Finding]:
    """Of a host that is client and server: an address needs both flags, be it at two endpoints."""
    flags = frozenset[str]().union(*(other.flags for other in facts.named if other.address == endpoint.address))
    if {"signal", "subflow"} <= flags or "laminar" in flags or endpoint.address in facts.first:
        return
    lacks, does = ("signal", "as a server it announces nothing") if "subflow" in flags else ("subflow", "as a client it opens nothing")
    alone = not any("signal" in other.flags and other != endpoint and other.address not in facts.first for other in facts.named)
    sentence = f"the endpoint {endpoint.address} is without {lacks}: {does}"
    run = _anew(endpoint, _with("signal subflow", endpoint)) if alone else _twins(endpoint)
    yield Finding(id="wrong-flag", severity="wrong", sentence=sentence if alone else f"{sentence}; {_PORT}", run=run)


def no_endpoints(facts: Facts, question: Question) -> Iterator[Finding]:
    if facts.named and (question.role is not None or any("subflow" in endpoint.flags for endpoint in facts.named)):
        return  # Said of each of them already.
    outward = facts.outward
    if len(outward) < 2:
        sentence = "one device leads anywhere" if outward else "no device leads anywhere"
        # The other host's further addresses may do, where it announces them.
        yield Finding(
            id="one-path", severity="note", sentence=f"{sentence} here: further subflows need another path, here or at the other host"
        )
        return
    if facts.named:
        return
    flags = _FLAGS[question.role]
    further = [device for device in outward if not facts.first & {entry.address for entry in device.addresses}] or outward[1:]
    commands: tuple[str, ...] = ()
    for device in further:
        address = device.addresses[0].address
        twins = len(flags) > 1 and len(further) > 1
        commands += _twin(address, device.name) if twins else (_add(address, device.name, " ".join(flags)),)
    does = {"server": "announced to clients", "both": "used for subflows or announced"}.get(question.role or "", "used for subflows")
    sentence = f"no endpoint with the flag {' and '.join(flags)}: of {len(outward)} devices none but the first is {does}"
    severity: Severity = "wrong" if question.role else "doubt"
    if question.role == "client" and facts.announced:
        sentence = "no endpoint with the flag subflow: devices other than the first carry subflows to announced addresses alone"
        severity = "doubt"
    if facts.joined:
        sentence += "; live connections have further subflows all the same"
        severity = "note"
    yield Finding(id="no-endpoints", severity=severity, sentence=f"{sentence}{_port(question) if len(further) > 1 else ''}", run=commands)


def endpoint_addresses(facts: Facts, question: Question) -> Iterator[Finding]:
    for endpoint in facts.named:
        holder = facts.holder(endpoint.address)
        if holder is None and "signal" in endpoint.flags and "subflow" not in endpoint.flags:
            near = next(
                (device.name for device in facts.outward if any(address.near(endpoint.address) for address in device.addresses)), None
            )
            if near is not None and not facts.joined_from(endpoint.address):
                yield Finding(
                    id="address-missing",
                    severity="doubt",
                    sentence=f"the endpoint {endpoint.address} is announced, and no device here has that address, though {near} is in its "
                    "net: all is well only behind an address translator",
                    run=(_delete(endpoint),),
                )
        elif holder is None:
            yield Finding(
                id="address-missing",
                severity="wrong",
                sentence=f"no device here has the address of the endpoint {endpoint.address}: no subflow can leave from it",
                run=(_delete(endpoint),),
            )
        elif endpoint.device is not None and endpoint.device != holder.name:
            bound = endpoint.device if any(device.name == endpoint.device for device in facts.devices) else "a device that is gone"
            yield Finding(
                id="other-device",
                severity="wrong",
                sentence=f"the endpoint {endpoint.address} is bound to {bound}, and {holder.name} has that address",
                run=_anew(endpoint, " ".join(sorted(endpoint.flags)), device=holder.name),
            )
        elif not (holder.up and holder.carrier):
            why = "is down" if not holder.up else "has no carrier: its link is down at the other end, or unplugged"
            yield Finding(
                id="device-down",
                severity="wrong",
                sentence=f"{holder.name}, which has the endpoint {endpoint.address}, {why}",
                run=(f"ip link set {holder.name} up",) if not holder.up else (),
            )
    usable = [endpoint for endpoint in facts.named if "subflow" in endpoint.flags]
    if usable and all("backup" in endpoint.flags for endpoint in usable):
        yield Finding(
            id="all-backup",
            severity="note",
            sentence="every endpoint is a backup: its subflows carry data only while the others cannot",
            run=tuple(f"ip mptcp endpoint change id {endpoint.id} nobackup" for endpoint in usable),
        )
    if len(facts.endpoints) >= _MOST_ENDPOINTS:
        yield Finding(
            id="many-endpoints", severity="note", sentence=f"the kernel takes at most {_MOST_ENDPOINTS} endpoints, and these are all"
        )


def shared_subnet(facts: Facts, question: Question) -> Iterator[Finding]:
    places: dict[str, dict[str, str]] = {}
    for device in facts.outward:
        for address in device.addresses:
            places.setdefault(address.subnet, {})[device.name] = address.address
    for subnet, by_device in places.items():
        if len(by_device) < 2:
            continue
        devices = " and ".join(by_device)
        yield Finding(
            id="one-subnet",
            severity="note",
            sentence=f"{devices} are both in {subnet}: if one switch joins them, their subflows share it and are no two paths",
        )
        if facts.sysctls.get("net/ipv4/conf/all/arp_ignore", "0") == "0" and "." in subnet:
            yield Finding(
                id="arp",
                severity="doubt",
                sentence=f"{devices} answer ARP for one another's addresses: what is for one path may come by the other",
                run=("sysctl -w net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2",),
            )


def routing(facts: Facts, question: Question) -> Iterator[Finding]:
    """Packets of a subflow must leave by the device of its address; the kernel's main table alone
    knows no source address.
    """
    said: set[str] = set()
    noted: set[str] = set()
    table = next(number for number in range(101, 253) if number not in facts.tables)
    live = {(subflow.source, subflow.destination) for subflow in facts.subflows if subflow.state == "established"}
    leads = {(way.source, way.destination) for way in facts.ways if way.device is not None and way.device == facts.holds(way.source)}
    for way in facts.ways:
        holder = facts.holder(way.source)
        if holder is None or holder.loopback or not (holder.up and holder.carrier) or way.device == holder.name or way.source in said:
            continue
        # What a live subflow uses is a way, whatever the tables say: a host may find the other one
        # on a link that no route names.
        if way.device is None and (way.source, way.destination) in live:
            continue
        flags = frozenset[str]().union(*(endpoint.flags for endpoint in facts.named if endpoint.address == way.source))
        # A live subflow that takes its own path proves it, unless another one from there, which is
        # live too, does not.
        if (way.source, way.destination) not in live and any(pair[0] == way.source for pair in live & leads):
            continue
        destinations = sorted(destination for source, destination in leads if source == way.source)
        # The first subflow goes where its address leads, and no other leaves from there.
        if destinations and way.source in facts.first and not flags:
            continue
        opens = question.role != "server" and "subflow" in flags
        if destinations and (way.device is None or not opens):
            if way.source in noted:
                continue
            noted.add(way.source)
            elsewhere = "there is no way to" if way.device is None else f"packets leave by {way.device} to"
            sentence = (
                f"from {way.source} ({holder.name}) {elsewhere} {way.destination}, but there is one to {' and '.join(destinations)}: "
                f"all is well if the other host announces {' and '.join(destinations)} (an endpoint with the flag `signal` there)"
            )
            yield Finding(id="routing", severity="note", sentence=sentence)
            continue
        said.add(way.source)
        commands = _policy_route(way.source, holder, table)
        hop = _next_hop(way.source, holder.gateways)
        met = _next_hop(way.source, holder.met)
        if hop is None and met is not None:
            where = f"; {met}, the only host met on that link, is taken for the next hop"
        elif hop is None:
            where = "; GATEWAY stands for the next hop on that link: its router, or the other host at a direct link"
        else:
            where = ""
        table += 1
        if way.device is None:
            sentence = f"from {way.source} ({holder.name}) there is no way to {way.destination}: no subflow comes up there"
        else:
            sentence = (
                f"packets from {way.source} to {way.destination} leave by {way.device}, and {holder.name} has that address: "
                "the subflow does not take its own path (nobody makes policy routes in a namespace)"
            )
        sentence += where
        # From other addresses goes the first subflow, or one that answers an announcement, to a
        # destination that is not known here.
        yield Finding(id="routing", severity="wrong" if opens else "doubt", sentence=sentence, run=commands)


def reverse_path(facts: Facts, question: Question) -> Iterator[Finding]:
    outward = facts.outward
    if len(outward) < 2:
        return
    overall = int(facts.sysctls.get("net/ipv4/conf/all/rp_filter", "0") or 0)
    for device in outward:
        of_device = int(facts.sysctls.get(f"net/ipv4/conf/{device.name}/rp_filter", "0") or 0)
        # The kernel takes the larger of the two.
        if max(overall, of_device) == 1:
            yield Finding(
                id="rp-filter",
                severity="doubt",
                sentence=f"{device.name} drops packets whose answer would leave by another device (rp_filter 1)",
                run=(f"sysctl -w net/ipv4/conf/{device.name}/rp_filter=2",),
            )


def blackhole(facts: Facts, question: Question) -> Iterator[Finding]:
    timeout = facts.number("net.mptcp.blackhole_timeout") or 0
    times = facts.counters.get("Blackhole", 0)
    if timeout and times:
        yield Finding(
            id="blackhole",
            severity="doubt",
            sentence=f"{times} times SYNs with MPTCP were lost and the kernel made plain TCP of new connections for {timeout} s or longer "
            "(net.mptcp.blackhole_timeout); it may be doing so now, and writing the setting ends it",
            run=(f"sysctl -w net.mptcp.blackhole_timeout={timeout}", "# or, where losses are part of the experiment:",
                 "sysctl -w net.mptcp.blackhole_timeout=0"),
        )  # fmt: skip


def fallbacks(facts: Facts, question: Question) -> Iterator[Finding]:
    count = facts.counters.get
    asked, refused = count("MPCapableSYNTX", 0), count("MPCapableFallbackSYNACK", 0) + count("MPCapableSYNTXDrop", 0)
    if refused:
        sentence = (
            f"{refused} of {asked} connections became plain TCP, since the answer to their SYN had no MPTCP: the server does not use it "
            "(mptcpize run PROGRAM makes it), or a box between takes the option out"
        )
        yield Finding(id="no-answer", severity="doubt", sentence=sentence)
    broken = sum(count(name, 0) for name in ("MPCapableFallbackACK", "MPCapableDataFallback", "DSSCorruptionFallback", "DssFallback"))
    if broken:
        sentence = f"{broken} connections became plain TCP after their handshake: a box between strips MPTCP's options or rewrites the data"
        yield Finding(id="stripped", severity="doubt", sentence=sentence)
    # A subflow that a server opens gets no answer; that its endpoints make it open subflows is said
    # of them.
    opens = question.role != "server" or not any("subflow" in endpoint.flags for endpoint in facts.named)
    sent, answered = count("MPJoinSynTx", 0), count("MPJoinSynAckRx", 0)
    if sent and not answered and opens:
        sentence = f"none of the {sent} SYNs of further subflows was answered: look at the routes, at firewalls and at the server's limits"
        yield Finding(id="joins-unanswered", severity="doubt", sentence=sentence)
    failed = sum(count(f"MPJoinSynTx{why}Err", 0) for why in ("CreatSk", "Bind", "Connect"))
    if failed and opens:
        sentence = (
            f"{failed} further subflows could not even be sent: their endpoint's address or device cannot be used, or there is no route"
        )
        yield Finding(id="joins-failed", severity="doubt", sentence=sentence)
    hmac = count("MPJoinSynAckHMacFailure", 0) + count("MPJoinAckHMacFailure", 0) + count("MPJoinNoTokenFound", 0)
    if hmac:
        sentence = (
            f"{hmac} further subflows reached a host that does not know their connection: an address translator or a balancer parts them"
        )
        yield Finding(id="joins-elsewhere", severity="doubt", sentence=sentence)


def old_settings(facts: Facts, question: Question) -> Iterator[Finding]:
    lines = [(file, name) for file, name in facts.lines if name.startswith("net.mptcp.mptcp_")]
    if lines:
        names = ", ".join(f"{name} ({file})" for file, name in lines)
        sentence = f"settings of the out-of-tree MPTCP do nothing on this kernel: {names}"
        yield Finding(id="v0-settings", severity="doubt", sentence=sentence)


def checksums(facts: Facts, question: Question) -> Iterator[Finding]:
    if facts.number("net.mptcp.checksum_enabled") == 1:
        yield Finding(
            id="checksum",
            severity="note",
            sentence="MPTCP's checksums are on: the processor adds up all data, which halved the throughput at 1 Gbit/s elsewhere",
            run=("sysctl -w net.mptcp.checksum_enabled=0",),
        )


def tcp_options(facts: Facts, question: Question) -> Iterator[Finding]:
    for name, option in (
        ("tcp_sack", "every loss of several packets costs a timeout or many round trips"),
        ("tcp_window_scaling", "no subflow has more than 64 KiB on its way"),
        ("tcp_timestamps", "round-trip times are measured less often"),
    ):
        if facts.sysctls.get(f"net.ipv4.{name}") == "0":
            severity: Severity = "note" if name == "tcp_timestamps" else "doubt"
            run = (f"sysctl -w net.ipv4.{name}=1",)
            yield Finding(id=name.replace("_", "-"), severity=severity, sentence=f"net.ipv4.{name} is 0: {option}", run=run)


def sizes(facts: Facts, question: Question) -> Iterator[Finding]:
    mtus = {device.name: device.mtu for device in facts.outward}
    if len(set(mtus.values())) > 1 and facts.sysctls.get("net.ipv4.tcp_mtu_probing", "0") == "0":
        which = ", ".join(f"{name} {mtu}" for name, mtu in mtus.items())
        yield Finding(
            id="mtus-differ",
            severity="note",
            sentence=f"paths of different MTU ({which}) and no probing: one that gets narrower and sends no ICMP stalls its subflow",
            run=("sysctl -w net.ipv4.tcp_mtu_probing=1",),
        )


def measuring(facts: Facts, question: Question) -> Iterator[Finding]:
    if facts.sysctls.get("net.ipv4.tcp_no_metrics_save") == "0":
        yield Finding(
            id="tcp-metrics",
            severity="note",
            sentence="connections begin with the ssthresh and round-trip time that earlier ones to the same host left (tcp_metrics): "
            "repeated measurements are not independent",
            run=("sysctl -w net.ipv4.tcp_no_metrics_save=1", "ip tcp_metrics flush all"),
        )
    for device in facts.outward:
        if device.shaper is not None:
            sentence = (
                f"{device.name} itself is shaped ({device.shaper}): that keeps delay low in use; a measurement is not one of a network, "
                "because a sender feels its own queue at once; to emulate a network, shape on a router between"
            )
            yield Finding(id="shaped-here", severity="note", sentence=sentence)


def features(facts: Facts, question: Question) -> Iterator[Finding]:
    if not facts.root:
        sentence = "without root the kernel does not say which sockets are subflows: live ones were not looked at (sudo polypath doctor)"
        yield Finding(id="not-root", severity="note", sentence=sentence)
    lacking = []
    if facts.config is not None:
        if facts.config["CONFIG_INET_MPTCP_DIAG"] == "n":
            lacking.append(("CONFIG_INET_MPTCP_DIAG", "ss -M shows no connection"))
        if facts.config["CONFIG_MPTCP_IPV6"] == "n":
            lacking.append(("CONFIG_MPTCP_IPV6", "there is no MPTCP over IPv6"))
        if facts.config["CONFIG_BPF_JIT"] == "n":
            lacking.append(("CONFIG_BPF_JIT", "polypath cc load cannot load congestion control"))
    if not facts.btf:
        lacking.append(("CONFIG_DEBUG_INFO_BTF", "polypath cc load cannot load congestion control"))
    for name, without in lacking:
        yield Finding(id="kernel-lacks", severity="note", sentence=f"the kernel was built without {name}: {without}")


def software(facts: Facts, question: Question) -> Iterator[Finding]:
    for use, without in PARTS.items():
        gone = [thing for thing in facts.missing if use in thing.uses]
        if gone:
            names = ", ".join(f"{thing.name} ({thing.what_for})" for thing in gone)
            yield Finding(
                id="software",
                severity="note",
                sentence=f"{without} without {names}",
                run=(f"apt-get install {' '.join(packages(gone))}",),
            )


def _delete(endpoint: Endpoint) -> str:
    return f"ip mptcp endpoint delete id {endpoint.id}"


def _add(address: str, device: str | None, flags: str) -> str:
    return " ".join(["ip mptcp endpoint add", address, *([f"dev {device}"] if device else []), flags])


def _anew(endpoint: Endpoint, flags: str, device: str | None = None) -> tuple[str, ...]:
    """The kernel changes no flag but backup and fullmesh, and no device; a port goes with signal
    alone.
    """
    port = f" port {endpoint.port}" if endpoint.port and not {"subflow", "fullmesh"} & set(flags.split()) else ""
    return (_delete(endpoint), f"{_add(endpoint.address, device or endpoint.device, flags)}{port}")


def _with(flags: str, endpoint: Endpoint) -> str:
    """These flags, and those of the endpoint that go with them."""
    kept = sorted(endpoint.flags & {"backup", "laminar", *(() if "signal" in flags else ("fullmesh",))})
    return " ".join([flags, *kept])


_PORT = "PORT stands for one that is free here and that clients reach"


def _port(question: Question) -> str:
    return f"; {_PORT}" if question.role == "both" else ""


def _twin(address: str, device: str | None) -> tuple[str, str]:
    """One address for subflows and for announcements: with a port the second is another endpoint to
    the kernel.
    """
    return (_add(address, device, "subflow"), _add(address, device, "signal port PORT"))


def _twins(endpoint: Endpoint) -> tuple[str, ...]:
    return (_delete(endpoint), *_twin(endpoint.address, endpoint.device))


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _policy_route(source: str, holder: Device, table: int) -> tuple[str, ...]:
    six = "-6 " if ":" in source else ""
    hop = _next_hop(source, (*holder.gateways, *holder.met)) or "GATEWAY"
    return (f"ip {six}rule add from {source} table {table}", f"ip {six}route add default via {hop} dev {holder.name} table {table}")


def _next_hop(source: str, hops: Iterable[str]) -> str | None:
    """The first of the address's own family."""
    return next((hop for hop in hops if (":" in hop) == (":" in source)), None)


CHECKS: tuple[Check, ...] = (
    path_manager, limits, endpoint_roles, no_endpoints, endpoint_addresses, shared_subnet, routing, reverse_path, blackhole, fallbacks,
    old_settings, congestion_control, buffers, live_limits, plain_connections, live_paths, checksums, tcp_options, sizes, measuring,
    features, software,
)  # fmt: skip
