"""`polypath pcap`, judged by tshark."""

import gzip
import json
import shutil
import struct
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
from requirement import lacking

from polypath.pcap import PcapError, analyse

CAPTURES = Path(__file__).parents[1] / "data/captures"
READ = (
    "arp.pcap",
    "gre.pcap",
    "mp-tcprst.pcap",
    "mptcp.pcapng.gz",
    "one-mapping.pcap",
    "ppp.pcap",
    "pppoe.pcap",
    "tso.pcap",
    "tso.pcap.gz",
    "vxlan.pcap",
)
FIELDS = (
    "frame.protocols",
    "tcp.stream",
    "ip.src",
    "ipv6.src",
    "tcp.srcport",
    "ip.dst",
    "ipv6.dst",
    "tcp.dstport",
    "tcp.seq_raw",
    "tcp.len",
)


@pytest.fixture
def _tshark():
    if shutil.which("tshark") is None:
        lacking("host", "tshark is not installed")


def by_tshark(file):
    """Connections; and by ends the packets with payload, and the payload of them, each byte once."""
    words = [word for field in FIELDS for word in ("-e", field)]
    # Of several IP headers the innermost is the one behind which TCP stands.
    told = subprocess.run(
        ["tshark", "-n", "-r", str(file), "-Y", "tcp", "-T", "fields", "-E", "occurrence=l", *words],
        capture_output=True,
        text=True,
        check=True,
    )
    streams, packets, ranges = set(), defaultdict(int), defaultdict(set)
    for line in told.stdout.splitlines():
        protocols, stream, v4, v6, port, to_v4, to_v6, to_port, seq, length = line.split("\t")
        streams.add(stream)
        if int(length):
            is_v6 = protocols.rindex(":ip") == protocols.rindex(":ipv6") if ":ipv6" in protocols else False
            ends = (ended(v6, port), ended(to_v6, to_port)) if is_v6 else (ended(v4, port), ended(to_v4, to_port))
            packets[ends] += 1
            ranges[ends].update(range(int(seq), int(seq) + int(length)))
    return len(streams), dict(packets), {ends: len(seen) for ends, seen in ranges.items()}


def ended(address, port):
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def by_us(report):
    packets, sizes, streams = {}, {}, 0
    for connection in report["connections"]:
        for subflow in connection["subflows"]:
            streams += 1
            pair = subflow["client"], subflow["server"]
            for ends, sent in zip((pair, pair[::-1]), subflow["directions"], strict=True):
                if sent["segments"]:
                    packets[ends], sizes[ends] = sent["segments"], sent["bytes"]
    return streams, packets, sizes


@pytest.mark.usefixtures("_tshark")
@pytest.mark.parametrize("name", READ)
def test_tshark_counts_the_same_in_every_capture(name):
    streams, packets, sizes = by_us(analyse([CAPTURES / name]))
    wanted, frames, payload = by_tshark(CAPTURES / name)
    assert (streams, sizes) == (wanted, payload)
    if name.startswith("tso"):
        # One frame is the two segments that the card makes of it.
        frames = {ends: 2 * count for ends, count in frames.items()}
    assert packets == frames


def test_captures_are_judged_or_refused_and_counted_as_on_the_wire(polypath):
    refused = {"hugelen.pcap", "linktype-147.pcap"}
    assert {file.name for file in CAPTURES.iterdir()} == {*READ, *refused}
    (connection,) = analyse([CAPTURES / "tso.pcap"])["connections"]
    sent = connection["subflows"][0]["directions"][0]
    assert (sent["bytes"], sent["super_frames"], sent["segments"]) == (5 * 1976, 5, 10)
    (connection,) = analyse([CAPTURES / "one-mapping.pcap"])["connections"]
    assert [subflow["directions"][0]["reinjected_bytes"] for subflow in connection["subflows"]] == [0, 14000]
    assert connection["data"][0]["reinjected_bytes"] == connection["data"][0]["sent_bytes"] == 14000
    code, out, _ = polypath("pcap", CAPTURES / "one-mapping.pcap")
    assert code == 0 and "100 % of the data of the client were sent again on another subflow" in out


def pcap(link_type, frames, lengths=None, keep=None):
    """A capture of these frames: bytes that are kept, and lengths on the wire."""
    out = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, link_type)
    for number, frame in enumerate(frames):
        kept = frame[:keep]
        out += struct.pack("<IIII", 1000, number * 1000, len(kept), lengths[number] if lengths else len(frame)) + kept
    return out


def packets():
    """The IP packets of ppp.pcap, which has two bytes of PPP before each."""
    data, at, found = (CAPTURES / "ppp.pcap").read_bytes(), 24, []
    while at < len(data):
        (kept,) = struct.unpack_from("<I", data, at + 8)
        found.append(data[at + 18 : at + 16 + kept])
        at += 16 + kept
    return found


def checksum(header):
    total = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def in_ip(protocol, body):
    header = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(body), 0, 0, 64, protocol, 0, bytes([192, 0, 2, 9]), bytes([192, 0, 2, 10]))
    return header[:10] + struct.pack(">H", checksum(header)) + header[12:] + body


def in_udp(port, body):
    return in_ip(17, struct.pack(">HHHH", 50000, port, 8 + len(body), 0) + body)


def in_ipv6(next_header, body):
    return struct.pack(">IHBB", 6 << 28, len(body), next_header, 64) + bytes(15) + b"\1" + bytes(15) + b"\2" + body


def ethernet(kind, body):
    return bytes(6) + b"\2" * 6 + struct.pack(">H", kind) + body


def wireless(qos, body):
    # From the access point to the station, with LLC and SNAP.
    return bytes([0x88 if qos else 0x08, 2]) + bytes(20) + bytes(2) + (bytes(2) if qos else b"") + b"\xaa\xaa\3\0\0\0\x08\0" + body


def nflog(body):
    return (
        bytes([2, 0, 0, 0]) + struct.pack("<HH", 8, 1) + b"\x08\0\1\0" + struct.pack("<HH", 4 + len(body), 9) + body + bytes(-len(body) % 4)
    )


def sixes(packet):
    """The TCP segment of an IPv4 packet in IPv6, with hop-by-hop and destination options before it."""
    options = bytes([60, 0, 1, 4, 0, 0, 0, 0]) + bytes([6, 1, 1, 12]) + bytes(12)
    return in_ipv6(0, options + packet[20:])


WRAPPINGS = {
    "hdlc-ppp": (9, lambda p: b"\xff\3\0\x21" + p),
    "ppp-hdlc": (50, lambda p: b"\xff\3\0\x21" + p),
    "c-hdlc": (104, lambda p: b"\x0f\0\x08\0" + p),
    "null": (0, lambda p: b"\2\0\0\0" + p),
    "loop": (108, lambda p: b"\0\0\0\2" + p),
    "raw": (101, lambda p: p),
    "ipv4": (228, lambda p: p),
    "ipv6-options": (229, sixes),
    "cooked": (113, lambda p: struct.pack(">HHH8sH", 0, 1, 6, bytes(8), 0x800) + p),
    "cooked-2": (276, lambda p: struct.pack(">HHIHBB8s", 0x800, 0, 2, 1, 0, 6, bytes(8)) + p),
    "wireless": (105, lambda p: wireless(False, p)),
    "radiotap": (127, lambda p: struct.pack("<BBHI", 0, 0, 9, 2) + b"\x10" + wireless(True, p) + bytes(4)),
    "nflog": (239, nflog),
    "qinq": (1, lambda p: ethernet(0x88A8, b"\0\1\x81\0\0\2\x08\0" + p)),
    "snap": (1, lambda p: ethernet(len(p) + 8, b"\xaa\xaa\3\0\0\0\x08\0" + p) if len(p) < 1480 else ethernet(0x800, p)),
    "mpls": (1, lambda p: ethernet(0x8847, b"\0\1\0\x40\0\2\1\x40" + p)),
    "gre-key-sequence": (101, lambda p: in_ip(47, b"\x30\0\x08\0\0\0\0\1\0\0\0\2" + p)),
    "gre-bridge": (101, lambda p: in_ip(47, b"\0\0\x65\x58" + ethernet(0x800, p))),
    "ipip": (101, lambda p: in_ip(4, p)),
    "6in4": (101, lambda p: in_ip(41, in_ipv6(6, p[20:]))),
    "4in6": (101, lambda p: in_ipv6(4, p)),
    "geneve": (101, lambda p: in_udp(6081, b"\1\0\x65\x58\0\0\1\0\0\0\1\0" + ethernet(0x800, p))),
    "gtp": (101, lambda p: in_udp(2152, struct.pack(">BBHI", 0x32, 255, len(p) + 4, 7) + bytes(4) + p)),
    "vxlan-vlan": (101, lambda p: in_udp(4789, b"\x08\0\0\0\0\0\1\0" + ethernet(0x8100, b"\0\1\x08\0" + p))),
    "mpls-in-ip": (101, lambda p: in_ip(137, b"\0\1\1\x40" + p)),
    "ah": (101, lambda p: in_ip(51, b"\4\4\0\0\0\0\0\1\0\0\0\1" + bytes(12) + p)),
}


@pytest.mark.usefixtures("_tshark")
# tshark does not look into an attribute of NFLOG that is cut off; crates/capture does.
@pytest.mark.parametrize(("name", "keep"), [(name, keep) for name in WRAPPINGS for keep in (None, 160) if (name, keep) != ("nflog", 160)])
def test_tshark_counts_the_same_in_every_wrapping(name, keep, tmp_path):
    link_type, wrap = WRAPPINGS[name]
    (tmp_path / "a.pcap").write_bytes(pcap(link_type, [wrap(packet) for packet in packets()], keep=keep))
    report = analyse([tmp_path / "a.pcap"])
    assert report["files"][0]["unread"] == 0
    found = by_us(report)
    assert found == by_tshark(tmp_path / "a.pcap")
    assert sum(found[2].values()) == 5 * 1448


@pytest.mark.usefixtures("_tshark")
@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("keep", [None, 80, 400])
def test_tshark_counts_the_same_where_the_card_sets_the_length(version, keep, tmp_path):
    """BIG TCP: a length of 0 in the header, with IPv6 also a jumbogram's option."""
    payload, frames = 100_000, []
    for number in range(3):
        segment = struct.pack(">HHIIBBHHH", 4000, 443, 1 + number * payload, 1, 0x50, 0x10, 1000, 0, 0) + bytes(payload)
        if version == 4:
            frames.append(ethernet(0x800, in_ip(6, b"")[:2] + b"\0\0" + in_ip(6, b"")[4:] + segment))
        else:
            option = b"\6\0\xc2\4" + struct.pack(">I", 8 + len(segment))
            frames.append(ethernet(0x86DD, struct.pack(">IHBB", 6 << 28, 0, 0, 64) + bytes(31) + b"\1" + option + segment))
    (tmp_path / "a.pcap").write_bytes(pcap(1, frames, keep=keep))
    found = by_us(analyse([tmp_path / "a.pcap"]))
    assert found == by_tshark(tmp_path / "a.pcap")
    assert list(found[2].values()) == [3 * payload]


def test_what_is_not_read_is_named_with_its_count(tmp_path, polypath):
    (tmp_path / "usb.pcap").write_bytes(pcap(189, packets()))
    code, out, err = polypath("pcap", "--json", tmp_path / "usb.pcap")
    (file,) = json.loads(out)["files"]
    assert (code, file["unread"], file["unread_kinds"]) == (2, 13, [{"name": "USB, link type 189", "packets": 13}])
    assert "13 of 13 packets are of a kind that is not read (USB, link type 189)" in err
    for name, sentence in {
        "linktype-147": "1 of 1 packets are of a kind that is not read (USER0 to USER15, whose meaning only their user knows, link type",
        "hugelen": "cut off in the middle of a packet",
    }.items():
        code, _, err = polypath("pcap", CAPTURES / f"{name}.pcap")
        assert code == 2 and sentence in err
    # Beside what is read it is named as well.
    own = [ethernet(0x800, packet) for packet in packets()] + [ethernet(0x4305, bytes(40))] * 2
    (tmp_path / "some.pcap").write_bytes(pcap(1, own))
    code, _, err = polypath("pcap", tmp_path / "some.pcap")
    assert code == 0 and "2 of 15 packets are of a kind that is not read (EtherType 0x4305)" in err
    # Read, and without TCP.
    code, out, err = polypath("pcap", CAPTURES / "arp.pcap")
    assert (code, err) == (0, "") and "no TCP connection: 5 packets, all ARP" in out


def test_what_is_packed_is_read_and_what_is_damaged_told(tmp_path, polypath):
    whole = (CAPTURES / "vxlan.pcap").read_bytes()
    packed = {"gz": gzip.compress(whole)}
    if shutil.which("zstd"):
        packed["zst"] = subprocess.run(["zstd", "-q", "-c"], input=whole, capture_output=True, check=True).stdout
    plain = analyse([CAPTURES / "vxlan.pcap"])
    for kind, data in packed.items():
        file = tmp_path / f"a.pcap.{kind}"
        file.write_bytes(data)
        assert analyse([file])["connections"] == json.loads(
            json.dumps(plain["connections"]).replace(str(CAPTURES / "vxlan.pcap"), str(file))
        )
        file.write_bytes(data[: len(data) // 2])
        code, _, err = polypath("pcap", file)
        assert code in (1, 2) and "its compressed data are cut off" in err
        file.write_bytes(data[:40] + bytes(20) + data[60:])
        code, _, err = polypath("pcap", file)
        assert code in (1, 2) and err.startswith("polypath: ")
    (tmp_path / "notes.gz").write_bytes(gzip.compress(b"no packets here, and so on\n"))
    with pytest.raises(PcapError, match="what is packed in it is no capture"):
        analyse([tmp_path / "notes.gz"])
    (tmp_path / "a.xz").write_bytes(b"\xfd7zXZ\0\0\4")
    with pytest.raises(PcapError, match="unpack it first"):
        analyse([tmp_path / "a.xz"])


def test_who_reset_a_subflow_and_why_is_told(polypath, tmp_path):
    file = CAPTURES / "mp-tcprst.pcap"
    code, out, _ = polypath("pcap", "--html", tmp_path / "page.html", "--parquet", tmp_path / "p.parquet", file)
    # RFC 8684 section 3.6: 3 is "administratively prohibited", as tshark has it.
    sentence = "the server reset it at 0.630 s, with MP_TCPRST: administratively prohibited (reason 3)"
    assert code == 0 and sentence in " ".join(out.split())
    assert sentence in (tmp_path / "page.html").read_text()
    end = analyse([file])["connections"][0]["subflows"][0]["end"]
    assert (end["how"], end["by"], end["reason"], end["reason_number"]) == ("RST", "server", "administratively prohibited", 3)


def test_a_file_that_is_cut_is_not_said_to_lack_what_it_cannot_show(polypath, tmp_path):
    whole = gzip.decompress((CAPTURES / "mptcp.pcapng.gz").read_bytes())
    (tmp_path / "cut.pcapng").write_bytes(whole[: len(whole) // 3 - 1])
    code, out, err = polypath("pcap", tmp_path / "cut.pcapng")
    assert code == 1 and "mptcp" in out and "no MP_JOIN" not in out
    assert "cut off in the middle of a packet" in err
