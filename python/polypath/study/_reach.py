"""Which of a server's addresses a route leads to.

The simulator's rule: over routers, leaving by the link that owns the source and arriving by the one
that owns the destination.
"""

from __future__ import annotations

from ._flows import Endpoints, Flow, Ndiffports
from ._topology import Topology, addresses, joined, node_addresses


def leads(topology: Topology, client: str, source: str, server: str, destination: str) -> bool:
    """Whether a route leads from an address of one node to an address of another."""
    edges, owners = joined(topology), _owners(topology)
    leaves, arrives = owners.get(source), owners.get(destination)
    reached, ahead = {client}, [client]
    while ahead:
        node = ahead.pop()
        for name, ends in edges.items():
            if node not in ends or (node == client and leaves not in (None, name)):
                continue
            other = ends[1] if ends[0] == node else ends[0]
            if other == server and arrives in (None, name):
                return True
            if other not in (client, server) and other not in reached and topology.nodes[other].router:
                reached.add(other)
                ahead.append(other)
    return False


def reachable_server(topology: Topology, flow: Flow) -> str | None:
    """The address at which a flow reaches its server, where that is not the server's first one.

    Nothing where the first one will do, where none will, and where the flow says it itself.
    """
    if flow.server_address is not None or flow.routes:
        return None
    source = flow.client_address or node_addresses(topology, flow.client)[0]
    first, *others = node_addresses(topology, flow.server)
    if leads(topology, flow.client, source, flow.server, first):
        return None
    return next((each for each in others if leads(topology, flow.client, source, flow.server, each)), None)


def address_pairs(topology: Topology, flow: Flow) -> dict[tuple[str, str], None]:
    """The addresses of client and server between which packets of a flow can go, whether a route
    joins them or not.
    """
    clients, servers = (node_addresses(topology, node) for node in (flow.client, flow.server))
    # The simulator's first address of a node is the node's own.
    firsts = [[*topology.nodes[node].addresses, *known][0] for node, known in ((flow.client, clients), (flow.server, servers))]
    here = flow.client_address or firsts[0]
    there = flow.server_address or reachable_server(topology, flow) or firsts[1]
    sources, destinations = [here], [there]
    if flow.transport == "mptcp":
        match flow.path_manager:
            case Ndiffports():
                pass
            case Endpoints(addresses=endpoints):
                sources += [endpoint.address for endpoint in endpoints]
                destinations += servers if any(endpoint.laminar for endpoint in endpoints) else []
            case _:
                sources += clients
                # A server's address that belongs to no link is reached over every path, and no
                # other is announced.
                destinations += [] if there in topology.nodes[flow.server].addresses else servers
    return dict.fromkeys((source, destination) for source in sources for destination in destinations)


def _owners(topology: Topology) -> dict[str, str]:
    """The link or tunnel of each address that belongs to one."""
    links = {address: name for name, pair in addresses(topology).items() for address in pair}
    return links | {str(end.address): name for name, tunnel in topology.tunnels.items() for end in tunnel.ends}
