"""What is kept of live subflows from look to look."""

import io
import json
import socket
import struct

import pytest
from rich.console import Console

from polypath import sockets
from polypath.cli import _watch
from polypath.sockets import History, Subflow

SIZE = sockets.TCP_INFO_SIZE


def info(**fields):
    raw = bytearray(SIZE)
    for name, value in fields.items():
        offset, kind = sockets.TCP_INFO[name]
        struct.pack_into({"u1": "<B", "<u2": "<H", "<u4": "<I", "<u8": "<Q"}[kind], raw, offset, value)
    return bytes(raw)


def subflow(port, *, token=0xABC, joined=False, acked=0, received=0, state=1, flags=None, **fields):
    flags = (0x4C if joined else 0x43) if flags is None else flags
    raw = info(bytes_acked=acked + 1, bytes_received=received, **fields)
    return sockets._look.subflow("10.0.1.1", port, "10.0.9.1", 5201, state, "cubic", flags, token, int(joined), 0, raw)


def numbers(entries):
    return [(entry.number, entry.last.source_port) for entry in entries]


def test_the_kernels_numbers_become_units_or_nothing():
    seen = subflow(1, srtt_us=20_500, ssthresh=0x7FFFFFFF, cwnd=10, min_rtt_us=0xFFFFFFFF, pacing_rate=2**64 - 1, snd_mss=1428, pmtu=1500)
    assert (seen.srtt_ms, seen.ssthresh, seen.min_rtt_ms, seen.pacing_mbps) == (20.5, None, None, None)
    assert (seen.cwnd, seen.mss, seen.pmtu, seen.bytes_acked, seen.state, seen.backup) == (10, 1428, 1500, 0, "established", False)
    assert subflow(1, unacked=9, sacked=2, lost=1, retrans=1).in_flight == 7
    assert subflow(1, flags=0x63).backup
    raw = info(total_rto=3)[: sockets.COUNTS_TIMEOUTS - 4]
    assert sockets._look.subflow("a", 1, "b", 2, 1, "cubic", 0, None, 0, 0, raw).timeouts is None
    assert subflow(1, total_rto=3).timeouts == 3
    assert subflow(1, flags=0x42, state=1).token is None
    # Nobody has answered yet, so it may still become one.
    assert subflow(1, flags=0x2, state=2).token == 0xABC


def test_subflows_are_numbered_and_connections_kept_apart():
    history = History()
    assert numbers(history.see(0.0, [subflow(9, joined=True), subflow(7)])) == [(0, 7), (1, 9)]
    assert numbers(history.see(1.0, [subflow(5, joined=True), subflow(9, joined=True), subflow(7)])) == [(0, 7), (2, 5), (1, 9)]
    assert numbers(history.connections()[0]) == [(0, 7), (1, 9), (2, 5)]
    history = History()
    history.see(0.0, [subflow(7), subflow(8, token=0xDEF), subflow(9, joined=True), subflow(6, token=None, flags=0)])
    assert [[entry.number for entry in entries] for entries in history.connections()] == [[0], [0, 1], [0]]
    history = History()
    (entry,) = history.see(10.0, [subflow(7, acked=1_000_000, received=500_000)])
    assert entry.sent_mbps is None
    history.see(10.5, [subflow(7, acked=2_000_000, received=500_000)])
    assert (entry.sent_mbps, entry.received_mbps, list(entry.rates)) == (16.0, 0.0, [16.0])


def test_a_closed_subflow_keeps_its_last_counters_while_its_connection_lives():
    history = History()
    history.see(0.0, [subflow(7), subflow(9, joined=True, acked=4000, total_retrans=3)])
    (_, gone) = history.see(1.0, [subflow(7)])
    assert (gone.closed, gone.last.bytes_acked, gone.last.retransmissions, gone.sent_mbps) == (True, 4000, 3, 0.0)
    assert numbers(history.connections()[0]) == [(0, 7), (1, 9)]
    # A further one is not taken for it.
    assert numbers(history.see(2.0, [subflow(7), subflow(9, joined=True)])) == [(0, 7), (2, 9)]
    history.see(3.0, [])
    assert history.connections() == []
    assert numbers(history.closed) == [(1, 9), (0, 7), (2, 9)]
    history = History()
    history.see(0.0, [subflow(7, token=None, flags=0, acked=900)])
    entries = history.see(1.0, [subflow(7, token=None, flags=0, acked=20)])
    assert [(entry.closed, entry.last.bytes_acked) for entry in entries] == [(False, 20), (True, 900)]
    history = History()
    (entry,) = history.see(0.0, [subflow(7, acked=10)])
    assert history.see(1.0, [subflow(7, acked=20, flags=0x42)]) == [entry]


def printed(history, width, devices=None):
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(_watch.table(history.connections(), width, devices))
    return console.export_text()


@pytest.mark.parametrize("width", [100, 120, 150, 200])
def test_the_table_has_a_line_for_each_subflow_and_their_sum(width):
    history = History()
    for look in range(3):
        at = 1_000_000 * look
        history.see(
            look, [subflow(7, acked=at, srtt_us=20_000, cwnd=12), subflow(9, joined=True, acked=2 * at, flags=0x6C, total_retrans=4)]
        )
    text = printed(history, width)
    lines = [line for line in text.splitlines() if "10.0.1.1" in line or "MPTCP" in line]
    assert [line.split()[0] for line in lines] == ["MPTCP", "0", "1"]
    assert "24.00" in lines[0]
    assert "8.00" in lines[1]
    assert "20.0" in lines[1]
    assert "16.00" in lines[2]
    assert "backup" in lines[2]
    assert "██" in lines[1]
    assert ("PMTU" in text, "cubic" in text) == (width >= 120, width >= 150)


def test_a_line_has_units_the_event_and_a_sparkline():
    history = History()
    history.see(0.0, [subflow(7), subflow(9, joined=True, acked=80)])
    entries = history.see(1.0, [subflow(7)])
    rows = [json.loads(json.dumps(_watch.line(entry, 5.0))) for entry in entries]
    assert [(row["event"], row["token"], row["subflow"], row["bytes_acked"]) for row in rows] == [
        ("sample", "00000abc", 0, 0),
        ("closed", "00000abc", 1, 80),
    ]
    assert set(rows[0]) >= {"cwnd", "ssthresh", "srtt_ms", "sent_mbps", "retransmissions", "mss", "pmtu", "bytes_received", "time"}
    assert _watch._spark([0.0, 2.0, 4.0], 8) == " ▄█"
    assert _watch._spark([0.0, 0.0], 8) == "  "
    assert _watch._spark([], 8) == ""


def test_sockets_of_this_host_are_seen():
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as client:
        server, peer = listener.accept()
        with server:
            client.sendall(bytes(5000))
            seen = [
                each
                for each in sockets.Sockets().look()
                if (each.source_port, each.destination_port) == (peer[1], listener.getsockname()[1])
            ]
    assert len(seen) == 1
    assert isinstance(seen[0], Subflow)
    assert (seen[0].source, seen[0].state, seen[0].token, seen[0].bytes_acked <= 5000, seen[0].cwnd > 0) == (
        "127.0.0.1",
        "established",
        None,
        True,
        True,
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("watch", "--interval", "2"), "--interval: the bare number 2 has no unit"),
        (("watch", "--interval", "1ms"), "--interval 1ms is too short: take 10ms or more"),
        (("watch", "--once", "--netns", "nowhere"), 'there is no network namespace "nowhere"'),
        (("doctor", "--netns", "/proc/none"), 'there is no network namespace "/proc/none"'),
        (("doctor", "--rate", "5mbit"), "--rate and --rtt go together"),
        (("doctor", "--rate", "5mbit", "--rtt", "5ms", "--rate", "9mbit"), "--rate is given 2 times and --rtt 1 times"),
        (("doctor", "--rate", "5", "--rtt", "5ms"), "--rate: the bare number 5 has no unit"),
    ],
)
def test_mistakes_are_one_sentence(polypath, arguments, sentence):
    code, out, err = polypath(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"polypath: {sentence}")
    assert err.count("\n") == 1


def test_what_watch_says_of_what_is_not_there(monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert str(_watch._picture(_watch.Kept(), "pp phone", tcp=False)).endswith("polypath doctor --netns 'pp phone' what is lacking")
    assert str(_watch._picture(_watch.Kept(), None, tcp=False)).endswith("polypath doctor what is lacking")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    kept = _watch.Kept()
    kept.plain = 2
    text = str(_watch._picture(kept, None, tcp=False))
    assert "2 plain TCP connections are there" in text
    assert "mptcpize run PROGRAM" in text


def test_rates_count_from_when_the_counters_were_read_however_long_it_takes_to_ask_for_devices(monkeypatch):
    clock = [0.0]

    class Grows:
        netns = None

        def look(self):
            return [subflow(7, acked=round(1_000_000 * clock[0]))]

    def slow(netns):
        clock[0] += 0.25
        return {}

    monkeypatch.setattr(_watch.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(_watch, "devices", slow)
    kept = _watch.Kept()
    _watch._look(Grows(), kept, tcp=False)
    clock[0] += 0.5
    (entry,) = _watch._look(Grows(), kept, tcp=False)
    assert entry.sent_mbps == pytest.approx(8.0)


def test_a_narrow_table_shows_the_device_and_what_carries_most_comes_first(monkeypatch):
    history = _watch.Kept()
    history.devices = {"10.0.1.1": "wifi0"}
    for acked in (0, 1_000_000):
        history.see(acked / 1e6, [subflow(5, token=0xDEF, acked=100), subflow(7, acked=acked)])
    console = Console(width=80, record=True, file=io.StringIO())
    monkeypatch.setattr(_watch, "out", console)
    console.print(_watch._picture(history, None, tcp=False))
    text = console.export_text()
    assert text.index("00000abc") < text.index("00000def")
    assert "wifi0 > 10.0.9.1" in text
    assert "10.0.1.1" not in text
    assert "wifi0 10.0.1.1:7 >" in " ".join(printed(history, 200, history.devices).split())
