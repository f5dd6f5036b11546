"""What is wrong, doubtful or worth knowing about MPTCP, from the facts alone.

Each check has the name of its finding and gives none where all is well. Sentences name what is so and what follows; commands mend it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from polypath.programs import packages

from ._facts import PARTS, Device, Endpoint, Facts, Finding, Question, Severity
from ._load import buffers, congestion_control, live_limits, live_paths, plain_connections

Check = Callable[[Facts, Question], Iterator[Finding]]
# MPTCP_PM_ADDR_MAX of the kernel.
_MOST_ENDPOINTS = 8
_SEVERITIES: tuple[Severity, ...] = ("wrong", "doubt", "note")


def findings(facts: Facts, question: Question) -> list[Finding]:
    """All findings, the worst first."""
    if facts.mptcp != "works":
        # Without MPTCP nothing else matters.
        return list(mptcp(facts, question))
    found = [finding for check in CHECKS for finding in check(facts, question)]
    return sorted(found, key=lambda finding: _SEVERITIES.index(finding.severity))


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
    own = [each for each in facts.endpoints if each.flags & {"subflow", "fullmesh"}]
    needed = max(len(own), 1 if question.role == "server" else 0)
    # The address that the first subflow leaves by is an endpoint too, mostly, and needs no further one.
    spare = len(own) - any(each.address in facts.first for each in own)
    if subflows == 0:
        yield Finding(
            id="no-subflows-allowed",
            severity="wrong",
            sentence="the limit of further subflows is 0: every connection stays on its first path",
            run=(f"ip mptcp limits set subflows {max(needed, 2)}",),
        )
    elif question.role != "server" and spare > subflows:
        yield Finding(
            id="few-subflows-allowed",
            severity="wrong",
            sentence=f"{len(own)} endpoints are for subflows, and a connection may have {subflows} beside its first: some are never used",
            run=(f"ip mptcp limits set subflows {len(own)}",),
        )
    fullmesh = any("fullmesh" in each.flags for each in facts.endpoints)
    if question.role == "client" and accepted == 0 and (fullmesh or not own):
        reason = "a full mesh goes to the first server address alone" if fullmesh else "no further address of the server is ever used"
        yield Finding(
            id="announcements-ignored",
            severity="doubt" if fullmesh else "note",
            sentence=f"addresses that the server announces are ignored (add_addr_accepted 0): {reason}",
            run=(f"ip mptcp limits set subflows {max(subflows, 2)} add_addr_accepted 2",),
        )


def endpoint_roles(facts: Facts, question: Question) -> Iterator[Finding]:
    useful = {"client": "subflow", "server": "signal"}.get(question.role or "")
    other = {"client": "signal", "server": "subflow"}.get(question.role or "")
    for each in facts.endpoints:
        if "implicit" in each.flags:
            continue
        if {"signal", "subflow"} <= each.flags:
            yield Finding(
                id="both-flags",
                severity="doubt",
                sentence=f"the endpoint {each.address} has both signal and subflow: announced and used at once, which makes doubled or "
                "crossed subflows; subflow belongs to the client, signal to the server",
                run=_anew(each, useful or "subflow"),
            )
        elif other is not None and useful is not None and other in each.flags:
            does = "announces its address, and the server will not connect to it" if other == "signal" else "opens nothing"
            yield Finding(
                id="wrong-flag",
                severity="wrong",
                sentence=f"the endpoint {each.address} is a {other} one: on a {question.role} it {does}; {useful} is needed there",
                run=_anew(each, useful),
            )
        if {"signal", "fullmesh"} <= each.flags:
            yield Finding(
                id="fullmesh-signal",
                severity="doubt",
                sentence=f"the endpoint {each.address} has signal and fullmesh, which the kernel takes for signal alone",
                run=_anew(each, useful or "subflow fullmesh"),
            )


def no_endpoints(facts: Facts, question: Question) -> Iterator[Finding]:
    flag = "signal" if question.role == "server" else "subflow"
    if any(flag in each.flags or (flag == "subflow" and "fullmesh" in each.flags) for each in facts.endpoints):
        return
    if question.role is None and facts.endpoints:
        return
    outward = facts.outward
    if len(outward) < 2:
        sentence = "one device leads anywhere" if outward else "no device leads anywhere"
        # The other host's further addresses may do, where it announces them.
        yield Finding(
            id="one-path", severity="note", sentence=f"{sentence} here: further subflows need another path, here or at the other host"
        )
        return
    if question.role and any(flag not in each.flags for each in facts.endpoints):
        return  # Said of each of them already.
    further = [device for device in outward if not facts.first & {own.address for own in device.addresses}] or outward[1:]
    commands = tuple(f"ip mptcp endpoint add {device.addresses[0].address} dev {device.name} {flag}" for device in further)
    does = "announced to clients" if flag == "signal" else "used for subflows"
    yield Finding(
        id="no-endpoints",
        severity="wrong" if question.role else "doubt",
        sentence=f"no endpoint with the flag {flag}: of {len(outward)} devices none but the first is {does}",
        run=commands,
    )


def endpoint_addresses(facts: Facts, question: Question) -> Iterator[Finding]:
    for each in facts.endpoints:
        holder = facts.holder(each.address)
        delete = f"ip mptcp endpoint delete id {each.id}"
        if holder is None and not ("signal" in each.flags and "subflow" not in each.flags):
            yield Finding(
                id="address-missing",
                severity="wrong",
                sentence=f"no device here has the address of the endpoint {each.address}: no subflow can leave from it",
                run=(delete,),
            )
        elif holder is not None and each.device is not None and each.device != holder.name:
            yield Finding(
                id="other-device",
                severity="wrong",
                sentence=f"the endpoint {each.address} is bound to {each.device}, and {holder.name} has that address",
                run=_anew(each, " ".join(sorted(each.flags)), device=holder.name),
            )
        elif holder is not None and not (holder.up and holder.carrier):
            yield Finding(
                id="device-down",
                severity="wrong",
                sentence=f"{holder.name}, which has the endpoint {each.address}, is down",
                run=(f"ip link set {holder.name} up",) if not holder.up else (),
            )
    usable = [each for each in facts.endpoints if "subflow" in each.flags]
    if usable and all("backup" in each.flags for each in usable):
        yield Finding(
            id="all-backup",
            severity="note",
            sentence="every endpoint is a backup: its subflows carry data only while the others cannot",
            run=tuple(f"ip mptcp endpoint change id {each.id} nobackup" for each in usable),
        )
    if len(facts.endpoints) >= _MOST_ENDPOINTS:
        yield Finding(
            id="many-endpoints", severity="note", sentence=f"the kernel takes at most {_MOST_ENDPOINTS} endpoints, and these are all"
        )


def shared_subnet(facts: Facts, question: Question) -> Iterator[Finding]:
    places: dict[str, dict[str, str]] = {}
    for device in facts.outward:
        for own in device.addresses:
            places.setdefault(own.subnet, {})[device.name] = own.address
    for subnet, found in places.items():
        if len(found) < 2:
            continue
        devices = " and ".join(found)
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
    """Packets of a subflow must leave by the device of its address; the kernel's main table alone knows no source address."""
    said: set[str] = set()
    table = next(number for number in range(101, 253) if number not in facts.tables)
    for way in facts.ways:
        holder = facts.holder(way.source)
        if holder is None or holder.loopback or not holder.up or way.device == holder.name or way.source in said:
            continue
        # What a live subflow uses is a way, whatever the tables say: a host may find the other one on a link that no route names.
        if way.device is None and any(
            (live.source, live.destination, live.state) == (way.source, way.destination, "established") for live in facts.subflows
        ):
            continue
        own = [each.destination for each in facts.ways if each.source == way.source and each.device == holder.name]
        if way.device is None and own:
            sentence = (
                f"from {way.source} ({holder.name}) there is no way to {way.destination}, but there is one to {' and '.join(own)}: "
                f"all is well if the other host announces {' and '.join(own)} (an endpoint with the flag `signal` there)"
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
        # Of an address that no endpoint names the first subflow may leave, and no other.
        used = any(each.address == way.source and each.flags & {"subflow", "fullmesh"} for each in facts.endpoints)
        yield Finding(id="routing", severity="wrong" if used else "doubt", sentence=sentence, run=commands)


def reverse_path(facts: Facts, question: Question) -> Iterator[Finding]:
    outward = facts.outward
    if len(outward) < 2:
        return
    overall = int(facts.sysctls.get("net/ipv4/conf/all/rp_filter", "0") or 0)
    for device in outward:
        own = int(facts.sysctls.get(f"net/ipv4/conf/{device.name}/rp_filter", "0") or 0)
        # The kernel takes the larger of the two.
        if max(overall, own) == 1:
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
    sent, answered = count("MPJoinSynTx", 0), count("MPJoinSynAckRx", 0)
    if sent and not answered:
        sentence = f"none of the {sent} SYNs of further subflows was answered: look at the routes, at firewalls and at the server's limits"
        yield Finding(id="joins-unanswered", severity="doubt", sentence=sentence)
    failed = sum(count(f"MPJoinSynTx{why}Err", 0) for why in ("CreatSk", "Bind", "Connect"))
    if failed:
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
    found = [(file, name) for file, name in facts.lines if name.startswith("net.mptcp.mptcp_")]
    if found:
        names = ", ".join(f"{name} ({file})" for file, name in found)
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
    for name, what in (
        ("tcp_sack", "every loss of several packets costs a timeout or many round trips"),
        ("tcp_window_scaling", "no subflow has more than 64 KiB on its way"),
        ("tcp_timestamps", "round-trip times are measured less often"),
    ):
        if facts.sysctls.get(f"net.ipv4.{name}") == "0":
            severity: Severity = "note" if name == "tcp_timestamps" else "doubt"
            run = (f"sysctl -w net.ipv4.{name}=1",)
            yield Finding(id=name.replace("_", "-"), severity=severity, sentence=f"net.ipv4.{name} is 0: {what}", run=run)


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


def _anew(endpoint: Endpoint, flags: str, device: str | None = None) -> tuple[str, ...]:
    """The kernel changes no flag but backup and fullmesh, and no device."""
    dev = device or endpoint.device
    words = ["ip mptcp endpoint add", endpoint.address, *([f"dev {dev}"] if dev else []), flags]
    return (f"ip mptcp endpoint delete id {endpoint.id}", " ".join(words))


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
