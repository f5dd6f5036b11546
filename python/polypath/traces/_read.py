"""Measurements of others as a path over time: iperf3's JSON and text, ping, captures, CSV, and the
files that studies read.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from polypath.errors import visible
from polypath.pcap import analyse, series_table
from polypath.study import Time

from ._csv import measured as of_csv
from ._errors import TraceError
from ._samples import Measurement, Sample, lasting, measurement

MOST_BYTES = 64_000_000
"""Of a measurement, unpacked."""
# A full segment: payload with timestamps, and the IP packet with the Ethernet header that a rate of
# a link counts.
_PAYLOAD, _ON_LINK = 1448, 1514
_HEADERS = f"it is of the payload: times {_ON_LINK}/{_PAYLOAD} for what a link carries, with headers"
# Of a datagram: IPv4, UDP and the Ethernet header.
_BESIDE = 42
_SENT = "it is what was sent, of which more or less may have arrived: the {} of the other end tells that"
# What mahimahi lets pass at each chance.
_CHANCE_BYTES = 1504
_CAPTURES = (b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\xc3\xd4", b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d", b"\x0a\x0d\x0d\x0a")
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_PACKED = (_GZIP, _ZSTD)
# Of a trace of chances, seconds: over so long a rate is the mean.
_STEP = 0.1


def read(file: Path, columns: Mapping[str, tuple[str, str]], direction: str | None = None) -> Measurement:
    """What a file tells of a path. `columns` says which column of a CSV file is the time, rate, delay,
    rtt or loss, and in which unit; `direction` which way of a capture.

    Raises `TraceError` with file and line.
    """
    capture, own = (start := _start(file))[:4] in _CAPTURES, start.lstrip()[:1] == b"{"
    if columns and (capture or own):
        raise TraceError(f"{file}: --column is of a table, and this is {'a capture' if capture else 'JSON of iperf3'}: leave it out")
    if capture:
        return _capture(file, direction)
    if direction is not None:
        raise TraceError(f"{file}: --direction is of a capture, and this is none: leave it out")
    text = text_of(file)
    if own:
        return _iperf3_json(file, text)
    if not columns:
        for form in (_chances, _iperf3_text, _ping):
            if (measured := form(file, text)) is not None:
                return measured
    return of_csv(file, text, columns)


def _start(file: Path) -> bytes:
    if not file.is_file():
        raise TraceError(f"there is no file {file}")
    with file.open("rb") as raw:
        start = raw.read(64)
    return _unpacked(file, start, 64) if start.startswith(_PACKED) else start


def _unpacked(file: Path, start: bytes, most: int) -> bytes:
    """So many bytes of a file that begins thus, as they were before gzip or zstd."""
    try:
        if start.startswith(_ZSTD):
            with pa.input_stream(str(file), compression="zstd") as stream:
                content: bytes = stream.read(most)
                return content
        with gzip.open(file) if start.startswith(_GZIP) else file.open("rb") as raw:
            return raw.read(most)
    except (OSError, EOFError, zlib.error) as error:
        raise TraceError(f"{file}: it is compressed, and damaged: {error}") from None


def text_of(file: Path) -> str:
    """The text of a file, unpacked where it is compressed by gzip or zstd. Raises `TraceError` where
    it is none, or too large.
    """
    with file.open("rb") as raw:
        content = _unpacked(file, raw.read(4), MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise TraceError(f"{file}: it has more than {MOST_BYTES:,} bytes; cut it")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise TraceError(f"{file}:{line}: this is no text in UTF-8, and no capture: the byte {content[error.start]:#04x}") from None


def objects(file: Path, text: str) -> Iterator[Any]:
    """The JSON values of a file, one after the other. Raises `TraceError` for what is none."""
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            line = getattr(error, "lineno", None) or text.count("\n", 0, at) + 1
            raise TraceError(f"{file}:{line}: this is no JSON: {getattr(error, 'msg', 'it is nested too deep')}") from None
        yield value
        at += len(text[at:]) - len(text[at:].lstrip())


def intervals(file: Path, text: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What iperf3 says at its start, and its intervals: of `--json`, or of `--json-stream`, a line
    each.

    Raises `TraceError` where it measured nothing.
    """
    start: dict[str, Any] = {}
    parts: list[dict[str, Any]] = []
    for value in objects(file, text):
        if not isinstance(value, dict):
            raise TraceError(f"{file}:1: this JSON is no output of iperf3, which is an object with `start` and `intervals`")
        if isinstance(value.get("error"), str):
            raise TraceError(f"{file}: iperf3 itself failed: {visible(value['error'])}")
        match value:
            case {"event": "start", "data": dict(data)} if not parts:
                start = data
            case {"start": _, "intervals": _} | {"event": "start"} if parts:
                raise TraceError(f"{file}: it holds several runs of iperf3: give each a file")
            case {"event": "interval", "data": dict(data)}:
                parts.append(data)
            case {"event": str()}:
                continue
            case {"start": dict(data), "intervals": list(each)}:
                start, parts = data, [part for part in each if isinstance(part, dict)]
            case _:
                raise TraceError(f"{file}:1: this JSON is no output of iperf3: it has no `intervals`")
    if not parts:
        raise TraceError(f"{file}: iperf3 measured no interval; run it for longer, or with a shorter -i")
    return start, parts


def number(file: Path, part: Mapping[str, Any], name: str) -> float:
    """A number of a part of some JSON, zero or more."""
    value = part.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1e15:
        raise TraceError(f"{file}: `{name}` should be a number, and is {value!r}")
    return float(value)


def _iperf3_json(file: Path, text: str) -> Measurement:
    start, parts = intervals(file, text)
    samples, last = [], 1.0
    share, headers = _share(start)
    for each in parts:
        total = each.get("sum")
        if not isinstance(total, dict):
            raise TraceError(f"{file}: an interval has no `sum`")
        if total.get("omitted"):
            continue
        begins, last = number(file, total, "start"), number(file, total, "seconds")
        samples.append(Sample(at=begins, rate=number(file, total, "bits_per_second") * share))
    test = start.get("test_start", {})
    what = f"{test.get('num_streams', 1)} stream(s) of {test.get('protocol', 'TCP')}" if isinstance(test, dict) else "iperf3"
    words = [f"iperf3: the rate of {what} in each interval", headers]
    if isinstance(test, dict) and test.get("protocol") == "UDP" and not any("lost_packets" in each["sum"] for each in parts):
        words.append(_SENT.format("JSON"))
    if any("sum_bidir_reverse" in each for each in parts):
        words.append("of both directions it is what this end sent")
    return measurement(str(file), samples, words, last=last)


def _share(start: Mapping[str, Any]) -> tuple[float, str]:
    """What a link carries for each byte of payload, and that in words."""
    test = start.get("test_start")
    length = test.get("blksize") if isinstance(test, dict) and test.get("protocol") == "UDP" else None
    if not isinstance(length, int) or not 0 < length < 65536:
        return _ON_LINK / _PAYLOAD, _HEADERS
    return (length + _BESIDE) / length, f"it is of the datagrams: times {length + _BESIDE}/{length} for what a link carries, with headers"


_INTERVAL = re.compile(
    r"^\[\s*(?P<id>SUM|\d+)\](?:\[(?P<role>[A-Z-]+)\])?\s+(?P<from>\d+\.\d+)-\s*(?P<to>\d+\.\d+)\s+sec\s+[\d.]+\s+\w+\s+(?P<rate>[\d.]+)"
    r"\s+(?P<unit>[KMGT]?)(?P<of>bits|Bytes)/sec(?P<rest>.*)$"
)
_TIMES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
# Of bytes iperf counts in powers of 1024 (-f M).
_BINARY = {"": 1.0, "K": 2.0**10, "M": 2.0**20, "G": 2.0**30, "T": 2.0**40}


# At the end of a line of UDP: how many datagrams, and of those that arrive how many were lost.
_DATAGRAMS = re.compile(r"(?:(?P<lost>-?\d+)/\s*)?(?P<all>\d+)(?:\s+\(.*\))?$")


def _iperf3_text(file: Path, text: str) -> Measurement | None:
    rows = [match for line in text.splitlines() if (match := _INTERVAL.match(line.strip()))]
    if not rows:
        return None
    ids = {row["id"] for row in rows}
    kept = [row for row in rows if row["id"] == "SUM"] if "SUM" in ids else rows
    if len({row["role"] for row in kept}) > 1:
        raise TraceError(f"{file}: it has both directions (--bidir): keep the lines of one, [TX-C] or [RX-C]")
    is_udp, arrived = "Total Datagrams" in text, False
    samples, last, reached = [], 1.0, -1.0
    for row in kept:
        begins, ends = float(row["from"]), float(row["to"])
        # Those at the end are of the whole run, sent and received.
        if row["rest"].strip().endswith(("sender", "receiver")) or "omitted" in row["rest"]:
            continue
        if begins <= reached:
            # iperf2 marks no end.
            if begins == 0 and row is kept[-1]:
                continue
            raise TraceError(f"{file}: it holds several runs of iperf3: give each a file")
        rate = float(row["rate"]) * (_TIMES[row["unit"]] if row["of"] == "bits" else 8 * _BINARY[row["unit"]])
        if not is_udp:
            rate *= _ON_LINK / _PAYLOAD
        elif (counted := _DATAGRAMS.search(row["rest"].strip())) and ends > begins:
            rate += 8 * _BESIDE * (int(counted["all"]) - int(counted["lost"] or 0)) / (ends - begins)
            arrived |= counted["lost"] is not None
        else:
            raise TraceError(f"{file}: its lines of UDP do not end with their datagrams: take the whole text, or the JSON")
        samples.append(Sample(at=begins, rate=rate))
        reached, last = begins, ends - begins
    headers = f"it is of the datagrams: with {_BESIDE} bytes of headers each, for what a link carries" if is_udp else _HEADERS
    words = ["iperf3: the rate in each interval", headers, *([_SENT.format("text")] if is_udp and not arrived else [])]
    return measurement(str(file), samples, words, last=last)


_REPLY = re.compile(r"^(?:\[(?P<at>\d+\.\d+)\] )?.*\b(?:icmp_)?seq=(?P<seq>\d+).*\btime=(?P<ms>[\d.]+) ?ms")


def _ping(file: Path, text: str) -> Measurement | None:
    replies = [match for line in text.splitlines() if (match := _REPLY.match(line))]
    if not replies:
        return None
    stamped = all(reply["at"] for reply in replies)
    samples: list[Sample] = []
    for reply in replies:
        at = float(reply["at"]) if stamped else float(reply["seq"])
        samples.append(Sample(at=at, delay=float(reply["ms"]) / 2000))
    lost = int(replies[-1]["seq"]) - int(replies[0]["seq"]) + 1 - len(replies)
    words = ["ping: half of each round trip is the delay of one way"]
    words += [] if stamped else ["it has no times (`ping -D` writes them), so one reply counts for each second"]
    words += [f"{lost} replies are missing: give the study a `loss` of its own"] if lost > 0 else []
    # A reply that was overtaken stands later.
    return measurement(str(file), sorted(samples, key=lambda each: each.at), words)


def _capture(file: Path, direction: str | None) -> Measurement:
    report = analyse([file])
    table = series_table(report).to_pandas()
    if table.empty:
        raise TraceError(f"{file}: there is no TCP connection in this capture, so no rate; `polypath pcap` tells what is there")
    table = table[table["subflow"].notna()]
    table["bytes"] = table["new_bytes"].astype(float) + table["retransmitted_bytes"].astype(float)
    totals = table.groupby("sender")["bytes"].sum()
    sender = {"upload": "client", "download": "server", None: str(totals.idxmax())}[direction]
    own = table[(table["sender"] == sender) & (table["bytes"] > 0)]
    if own.empty:
        raise TraceError(
            f"{file}: nobody sent anything in this direction; take --direction {'download' if sender == 'client' else 'upload'}"
        )
    step = max(_STEP, float(own["bin_s"].max()))
    words = [f"a capture: what the {sender}s of {len(report['connections'])} connection(s) sent, in spans of {Time.about(step)}", _HEADERS]
    bins: dict[int, float] = {}
    for at, sent in zip(own["time_s"], own["bytes"], strict=True):
        bins[int(at / step)] = bins.get(int(at / step), 0.0) + float(sent)
    scale = 8 / step * _ON_LINK / _PAYLOAD
    samples = (Sample(at=number * step, rate=bins.get(number, 0.0) * scale) for number in range(min(bins), max(bins) + 1))
    return measurement(str(file), samples, words, last=step)


def _chances(file: Path, text: str) -> Measurement | None:
    """A mahimahi trace."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) < 2 or not all(line.isdigit() and len(line) <= 12 for line in lines):
        return None
    times = [int(line) for line in lines]
    step = int(_STEP * 1000)
    bins: dict[int, int] = {}
    for earlier, later in zip([0, *times], times, strict=False):
        if later < earlier:
            raise TraceError(f"{file}: the time {later} stands after a later one; the times of a trace ascend")
        bins[max(later - 1, 0) // step] = bins.get(max(later - 1, 0) // step, 0) + 1
    rate = 8 * _CHANCE_BYTES / _STEP
    count = -(-times[-1] // step)
    samples = (Sample(at=number * _STEP, rate=bins.get(number, 0) * rate) for number in range(count))
    length = times[-1] / 1000
    measured = measurement(str(file), samples, [f"a mahimahi trace: {len(times):,} chances to send {_CHANCE_BYTES} bytes"])
    return lasting(measured, length)
