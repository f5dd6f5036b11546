"""Tunnels on the engine linux.

Datagrams at a rate leave nothing to the endpoints, so the figures of both engines are equal to the
packet.
"""

import pytest

from polypath import Study, StudyError, run
from polypath.pcap import analyse

pytestmark = pytest.mark.usefixtures("linux_kernel", "tunnel_daemon")

# What the daemon does not count: its queues, and which path's packet was late or lost.
NOT_MEASURED = {"tunnels": ["max_queue_packets", "max_held_packets"], "tunnel_paths": ["packets_lost", "packets_late"]}
RATE = {"kind": "rate", "rate": "10mbit", "framing": "38B", "queue": "100packets"}


def study(*, behind=None, flow=None, duration="2s", **tunnel):
    """A tunnel over two paths; `behind`: elements of a path behind its rate, there."""
    forward = {"1": [{"kind": "delay", "delay": "5ms"}], "2": [{"kind": "delay", "delay": "15ms"}], **(behind or {})}
    links = {}
    for path, elements in forward.items():
        ends = ([("a", f"10.{path}.0.1"), (f"r{path}", f"10.{path}.0.2")], [(f"r{path}", f"10.{path}.1.1"), ("b", f"10.{path}.1.2")])
        for name, pair, there in zip((f"near{path}", f"far{path}"), ends, ([RATE], elements), strict=True):
            both = [{"node": node, "address": address} for node, address in pair]
            links[name] = {"ends": both, "forward": there, "backward": [{"kind": "delay", "delay": "1ms"}]}
    bond = {
        "ends": [{"node": "a", "address": "10.9.0.1"}, {"node": "b", "address": "10.9.0.2"}],
        "paths": [{"ends": ["10.1.0.1", "10.1.1.2"]}, {"ends": ["10.2.0.1", "10.2.1.2"]}],
        **tunnel,
    }
    datagrams = {"transport": "udp", "datagram": "1000B", "app": {"kind": "constant", "rate": "8mbit"}}
    ends = {"client": "a", "server": "b", "client_address": "10.9.0.1", "server_address": "10.9.0.2"}
    nodes = {"a": None, "b": None, "r1": {"router": True}, "r2": {"router": True}}
    return Study.model_validate(
        {
            "name": "bonded",
            "topology": {"nodes": nodes, "links": links, "tunnels": {"bond": bond}},
            "flows": {"f": {**ends, **(flow or datagrams)}},
            "duration": duration,
            "seeds": 1,
            "baselines": None,
        }
    )


def both(study, tmp_path):
    """The results of the simulator and of Linux."""
    there, here = (run(study, engine=engine, out=tmp_path / engine) for engine in ("sim", "linux"))
    return there, here


def counted(results, table):
    """What both engines measure, without what says who measured it."""
    found = getattr(results, table).drop(columns=["key", "engine", "kernel", *NOT_MEASURED[table]])
    # What a tunnel without error correction does not count.
    found = found.dropna(axis=1, how="all")
    return {name: list(found[name]) for name in found}


@pytest.mark.parametrize(
    "tunnel",
    [
        {},
        {"reorder": "off"},
        {"reorder": {"kind": "mpt", "window": 4, "max_delay": "300ms"}},
        {"reorder": {"kind": "fixed", "timeout": "3ms"}},
        {"packets_before": 1, "paths": [{"ends": ["10.1.0.1", "10.1.1.2"], "weight": 3}, {"ends": ["10.2.0.1", "10.2.1.2"]}]},
        {"key": 7, "keepalive": "200ms", "dead_time": "500ms", "batch": 4, "clamp_mss": True},
        {"fec": "5+2"},
    ],
    ids=["progress", "off", "mpt", "fixed", "weights", "key-and-batch", "fec"],
)
def test_the_daemon_counts_what_the_simulator_counts(tunnel, tmp_path):
    made = study(**tunnel)
    there, here = both(made, tmp_path)
    # The daemon is up a second before the run begins, and keepalives keep time with its start.
    earlier = 1 + 1.2 / (made.topology.tunnels["bond"].keepalive / 1e9)
    for table in ("tunnels", "tunnel_paths"):
        simulated, real = counted(there, table), counted(here, table)
        for name in ("keepalives_sent", "keepalives_received"):
            assert all(-1 <= other - one <= earlier for one, other in zip(simulated.pop(name, []), real.pop(name, []), strict=True))
        assert real.pop("hold_time_s", []) == pytest.approx(simulated.pop("hold_time_s", []), rel=1e-3)
        assert real == simulated
        assert here.to_pandas(table)[NOT_MEASURED[table]].isna().all(axis=None)
    sent, came = (counted(here, "tunnel_paths")[f"packets_{what}"][:2] for what in ("sent", "received"))
    assert sum(sent) == 2000
    assert min(came) > 400


def test_what_a_path_loses_comes_back_through_the_daemon(tmp_path):
    lossy = {"2": [{"kind": "loss", "share": "5%"}, {"kind": "delay", "delay": "5ms"}]}
    there, here = both(study(behind=lossy, fec={"data": 5, "parity": 2, "timeout": "20ms"}), tmp_path)
    for results in (there, here):
        forth = results.tunnels[results.tunnels["a_to_b"]].iloc[0]
        lost = results.links["loss_drops"].sum()
        assert lost > 20 and forth["recovered"] - forth["recovered_late"] > 0.6 * lost, forth
        assert results.runs["datagram_loss"].iloc[0] < 0.004
        assert (forth["mtu"], forth["parities_sent"]) == (1500 - 36 - 7, pytest.approx(2 * 2000 / 5, rel=0.01))
    plain = run(study(behind=lossy), engine="sim", out=tmp_path / "plain")
    assert plain.runs["datagram_loss"].iloc[0] > 0.015


def test_what_fits_the_earliest_path_stays_there_and_what_does_not_takes_both(tmp_path):
    # 8 of 10 Mbit/s take the shorter path, once keepalives have told which it is.
    flow = {"transport": "udp", "datagram": "1000B", "start": "1s", "app": {"kind": "constant", "rate": "8mbit"}}
    there, here = both(study(distribution="earliest", flow=flow, duration="3s", keepalive="200ms", dead_time="1s"), tmp_path)
    # Until the first reports, a path's window is 10 packets; what exceeds it takes the other path.
    sent = [counted(results, "tunnel_paths")["packets_sent"] for results in (there, here)]
    assert all(sum(one) == 2000 and one[0] >= 1990 for one in sent), sent
    # Reports keep time with the daemons' start, a second before the run's.
    signs = [counted(results, "tunnel_paths")["keepalives_sent"] for results in (there, here)]
    assert all(0 < one <= other <= 1.5 * one + 20 for one, other in zip(*signs, strict=True)), signs
    flow = {"transport": "udp", "datagram": "1400B", "app": {"kind": "constant", "rate": "30mbit"}}
    there, here = both(study(distribution="earliest", flow=flow, duration="4s", queue="50packets"), tmp_path)
    for results in (there, here):
        assert results.links["drops"].sum() == 0
        assert results.tunnels["delivered"].iloc[0] > 5500
    goodput = [results.runs["goodput_receiver_mbps"].iloc[0] for results in (there, here)]
    assert goodput[1] == pytest.approx(goodput[0], rel=0.03) and goodput[1] > 16
    counts = [counted(results, "tunnel_paths")["packets_sent"][:2] for results in (there, here)]
    assert counts[1] == pytest.approx(counts[0], rel=0.05)


def test_equal_runs_are_equal_to_the_byte(tmp_path):
    made = study(flow={"transport": "tcp", "app": {"kind": "transfer", "size": "500kB"}})
    folders = [run(made, engine="linux", out=tmp_path / name).folder for name in ("one", "two")]
    for name in ("runs", "series", "tunnels", "tunnel_paths"):
        first, second = ((folder / f"{name}.parquet").read_bytes() for folder in folders)
        assert first == second, name


def test_a_full_socket_holds_up_the_daemon_and_nothing_is_lost(tmp_path):
    # 20 Mbit/s for two interfaces of 10: the device's queue has to drop, they never.
    flow = {"transport": "udp", "datagram": "1400B", "app": {"kind": "constant", "rate": "30mbit"}}
    there, here = both(study(flow=flow, send_buffer="212992B", queue="50packets"), tmp_path)
    forth = [results.tunnels[results.tunnels["a_to_b"]].iloc[0] for results in (there, here)]
    # The daemon sends each path's of up to 32 packets together, the simulator one by one.
    assert forth[1]["blocked_s"] == pytest.approx(forth[0]["blocked_s"], rel=0.1) and forth[1]["blocked_s"] > 0.5
    assert forth[1]["queue_drops"] == pytest.approx(forth[0]["queue_drops"], rel=0.05) and forth[1]["queue_drops"] > 1000
    assert here.links["drops"].sum() == 0
    goodput = [results.runs["goodput_receiver_mbps"].iloc[0] for results in (there, here)]
    assert goodput[1] == pytest.approx(goodput[0], rel=0.01)


def test_tcp_over_it_is_as_fast_as_in_the_simulator(tmp_path):
    there, here = both(study(flow={"transport": "tcp", "cc": "reno"}, duration="5s", send_buffer="212992B"), tmp_path)
    goodput = [results.runs["goodput_receiver_mbps"].iloc[0] for results in (there, here)]
    assert goodput[1] == pytest.approx(goodput[0], rel=0.02)
    assert goodput[1] > 15


def test_a_dead_path_is_left_within_the_dead_time(tmp_path):
    down = [{"kind": "delay", "delay": "15ms"}, {"kind": "down", "spans": [["500ms", "1500ms"]]}]
    there, here = both(study(behind={"2": down}, keepalive="100ms", dead_time="250ms"), tmp_path)
    # Only the end that hears nothing leaves the path: packets back to it still arrive.
    for results in (there, here):
        found = results.tunnel_paths.set_index(["a_to_b", "path"])["went_down"]
        assert found.to_dict() == {(True, 1): 0, (True, 2): 0, (False, 1): 0, (False, 2): 1}


@pytest.mark.parametrize(
    "flow", [{"transport": "udp", "datagram": "1400B", "app": {"kind": "constant", "rate": "30mbit"}}, {"transport": "tcp"}]
)
def test_a_path_that_dies_under_load_loses_no_more_than_was_in_flight_on_it(flow, tmp_path):
    """The shorter path dies, and nobody waits for the dead time of 11 s."""
    gone = [{"kind": "delay", "delay": "5ms"}, {"kind": "down", "spans": [["12s", "100s"]]}]
    made = study(behind={"1": gone}, distribution="earliest", flow=flow, duration="15s", queue="50packets")
    for results in both(made, tmp_path):
        found = results.tunnel_paths[results.tunnel_paths["a_to_b"]].set_index("path")
        lost = (found["packets_sent"] - found["packets_received"]).loc[1]
        # 0.85 packets a millisecond: 6 ms there and back, 5 queued, 10 to a report, 8 to spare.
        assert 0 < lost <= 0.85 * 21 + 8 + 1 + 2, lost
        # What one path alone carries is less than all that came.
        assert results.runs["goodput_receiver_mbps"].iloc[0] > 15.5


def test_a_capture_at_the_device_shows_what_is_inside(tmp_path):
    flow = {"transport": "tcp", "app": {"kind": "transfer", "size": "100kB"}}
    made = study(flow=flow).replace(measure={"capture": [{"node": "a", "link": "bond"}]})
    folder = run(made, engine="linux", out=tmp_path).folder
    (file,) = folder.glob("captures/**/*.pcapng")
    (connection,) = analyse([file])["connections"]
    assert connection["kind"] == "tcp" and not connection["in_tunnel"]
    assert connection["subflows"][0]["client"].startswith("10.9.0.1")


def test_what_the_daemon_cannot_do_is_refused_at_its_place(tmp_path):
    with pytest.raises(StudyError, match=r"topology\.tunnels\.bond\.queue: the tunnel daemon's device holds 1 to 1000000 packets"):
        run(study(queue="2000000packets"), engine="linux", out=tmp_path)
