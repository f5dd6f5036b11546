"""A client `c`, a router `r` and a server `s`: the network of most tests of a link."""

from polypath import Study


def one_flow(transport="tcp", **more):
    """A flow from the client to the server, and what else is said of it."""
    return {"client": "c", "server": "s", "transport": transport, **more}


def over_router(name, links, flows=None, *, host=None, **more):
    """A study of two links by name, the client's and the server's; `host` is what both hosts are."""
    ends = (["c", "r"], ["r", "s"])
    joined = {link: {"ends": each, **of} for each, (link, of) in zip(ends, links.items(), strict=True)}
    topology = {"nodes": {"c": host, "r": {"router": True}, "s": host}, "links": joined}
    return Study.model_validate({"name": name, "topology": topology, "flows": flows or {"f": one_flow()}, **more})
