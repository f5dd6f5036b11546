"""Measurements of others as links of a study: what is understood, what is written, what is refused."""

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pytest
from study_data import one_link

from polypath import Study
from polypath.study import cells, scenario
from polypath.traces import TraceError, as_chances, as_table, packaged, read

HEADERS = 1514 / 1448
STUDY = one_link("s", "[%s]", "transport: mptcp", duration="10s")


def measured(tmp_path, text, **columns):
    file = tmp_path / "measured"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read(file, {kind: tuple(value.split(":")) for kind, value in columns.items()})


def link(tmp_path, element):
    (tmp_path / "s.yaml").write_text(STUDY % element)
    return scenario(cells(Study.load(tmp_path / "s.yaml"))[0].setup, 1)["links"][0]["a_to_b"]


def interval(start, rate, **more):
    return {"sum": {"start": start, "end": start + 1, "seconds": 1.0, "bits_per_second": rate, **more}}


IPERF3 = {"start": {"test_start": {"protocol": "TCP", "num_streams": 1}}, "intervals": [interval(0, 1e7), interval(1, 2e7)]}
STREAMED = [{"event": "start", "data": IPERF3["start"]}, *({"event": "interval", "data": each} for each in IPERF3["intervals"])]
TEXT = """\
[ ID] Interval           Transfer     Bitrate         Retr  Cwnd
[  5]   0.00-1.00   sec  1.25 MBytes  5.00 Mbits/sec    0   1.12 MBytes (omitted)
[  5]   0.00-1.00   sec  1.25 MBytes  5.00 Mbits/sec    0   1.12 MBytes
[  7]   0.00-1.00   sec  1.25 MBytes  5.00 Mbits/sec    0   1.12 MBytes
[SUM]   0.00-1.00   sec  2.50 MBytes  10.0 Mbits/sec    0
[  5]   1.00-2.00   sec  1.25 MBytes  10000 Kbits/sec    0   1.12 MBytes
[SUM]   1.00-2.00   sec  2.50 MBytes  20.0 Mbits/sec    0
[SUM]   0.00-2.00   sec  5.00 MBytes  15.0 Mbits/sec    0             sender
"""


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(IPERF3),
        "\n".join(map(json.dumps, STREAMED)),
        TEXT,
        gzip.compress(json.dumps(IPERF3).encode()),
        pa.compress(TEXT.encode(), "zstd", asbytes=True),
    ],
    ids=["json", "json-stream", "text", "gzip", "zstd"],
)
def test_iperf3_measures_payload_and_a_link_carries_headers(tmp_path, text):
    found = measured(tmp_path, text)
    assert [(each.at, each.rate) for each in found.samples] == [(0, pytest.approx(1e7 * HEADERS)), (1, pytest.approx(2e7 * HEADERS))]
    assert found.length == 2
    assert "1514/1448" in " ".join(found.said)


def test_each_line_of_iperf2_counts_and_bytes_are_of_1024(tmp_path):
    lines = [f"[  3] {second:4.1f}-{second + 1:4.1f} sec  0.5 MBytes  {second + 1}.00 Mbits/sec" for second in range(12)]
    found = measured(tmp_path, "\n".join([*lines, "[  3]  0.0-12.0 sec  9 MBytes  6.50 Mbits/sec"]))
    assert [round(rate * 1448 / 1514 / 1e6) for rate in found.values("rate")] == list(range(1, 13))
    found = measured(tmp_path, "[  5]   0.00-1.00   sec   120 KBytes   1.00 MBytes/sec\n")
    assert found.values("rate") == [pytest.approx(8 * 1024**2 * 1514 / 1448)]


def test_replies_that_were_overtaken_are_sorted_and_a_day_ends_at_midnight(tmp_path):
    found = measured(tmp_path, "\n".join(f"64 bytes from 1.1.1.1: icmp_seq={seq} ttl=57 time={seq} ms" for seq in (1, 3, 2)))
    assert found.values("delay") == [0.0005, 0.001, 0.0015]
    found = measured(tmp_path, "time,rate_mbps\n23:59:58,1\n23:59:59,2\n00:00:00,3\n00:00:01,4\n")
    assert [sample.at for sample in found.samples] == [0, 1, 2, 3]


def test_a_campaign_says_which_column_is_what(tmp_path):
    table = (
        "Timestamp,DL_bitrate,UL_bitrate,PINGAVG,PINGLOSS\n"
        "2020.01.01_10.00.00,18211,310,-,-\n2020.01.01_10.00.01,20000,341,38,0.0\n"
        "2020.01.01_10.00.01,40000,1022,-,-\n2020.01.01_10.00.04,70312,1100,34,50.0\n"
    )
    with pytest.raises(TraceError, match=r":1: several columns may be the rate: write --column rate=DL_bitrate:mbit or --column rate=UL_"):
        measured(tmp_path, table)
    found = measured(tmp_path, table, rate="DL_bitrate:kbit", loss="PINGLOSS:%")
    assert [(each.at, each.rate, each.delay, each.loss) for each in found.samples] == [
        (0, 18_211_000, 0.019, 0),
        (1, 30_000_000, 0.019, 0),
        (4, 70_312_000, 0.017, 0.5),
    ]
    assert "1 of 4 samples have the time of another one: they count as their mean" in found.said


@pytest.mark.parametrize(
    "text, rates",
    [
        ("time,Mbit/s\n0,10\n1,20\n", [1e7, 2e7]),
        ("0,10\n1,20\n", [1e7, 2e7]),
        ("t;rate_kbps\n0;10000\n1;20000\n", [1e7, 2e7]),
        ("time\tMB/s\n0\t1\n1\t2.5\n", [8e6, 2e7]),
        ("time,rate\n0s,10mbit\n1s,20mbit\n", [1e7, 2e7]),
        ("ts,throughput_mbps\n1700000000000,10\n1700000001000,20\n", [1e7, 2e7]),
        ("ts,throughput_mbps\n1700000000000000,10\n1700000001000000,20\n", [1e7, 2e7]),
        ("time,bandwidth (Mbps)\n2024-01-01T00:00:00Z,10\n2024-01-01T00:00:01Z,20\n", [1e7, 2e7]),
    ],
)
def test_heads_and_cells_say_their_units(tmp_path, text, rates):
    found = measured(tmp_path, text)
    assert ([each.at for each in found.samples], [each.rate for each in found.samples]) == ([0, 1], rates)


def test_a_table_is_read_by_a_study_as_it_was_measured(tmp_path):
    found = measured(tmp_path, "time,Mbit/s\n0,10\n1,0\n2,20\n")
    (tmp_path / "link.csv").write_text(as_table(found))
    loss, rate = link(tmp_path, "{kind: table, file: link.csv, repeat: 3s}")
    assert [(change["at_ns"] / 1e9, change["to"]) for change in loss["changes"]][:4] == [(1, 1.0), (2, 0.0), (4, 1.0), (5, 0.0)]
    assert (rate["bits_per_s"], [(change["at_ns"] / 1e9, change["to"]) for change in rate["changes"]][:2]) == (
        10_000_000,
        [(1, 10_000_000), (2, 20_000_000)],
    )


def test_chances_have_the_rate_and_the_length_that_were_measured(tmp_path):
    found = measured(tmp_path, "time,Mbit/s\n0,10\n1,0\n2,20\n")
    (tmp_path / "link.trace").write_text(as_chances(found))
    (trace,) = link(tmp_path, "{kind: trace, file: link.trace}")
    chances = trace["chances_ms"]
    assert chances[-1] == 3000
    assert len(chances) == 30_000_000 // (8 * 1504)
    assert not [time for time in chances if 1000 < time <= 2000]
    again = measured(tmp_path, as_chances(found))
    assert again.length == 3
    assert again.mean("rate") == pytest.approx(1e7, rel=1e-3)


@pytest.mark.parametrize("name", list(packaged()))
def test_traces_of_the_package_are_tables(tmp_path, name):
    each = packaged()[name]
    (tmp_path / "link.csv").write_bytes(each.file.read_bytes())
    assert link(tmp_path, f"{{kind: table, file: link.csv, repeat: {each.length:g}s}}")
    assert read(each.file, {}).samples[-1].at < each.length


WRONG = {
    "nothing": ("", "this is no measurement that is read"),
    "noise": (b"\x9d\x80\xff", ":1: this is no text in UTF-8, and no capture: the byte 0x9d"),
    "half of a file": (json.dumps(IPERF3, indent=1)[:120], "this is no JSON"),
    "other JSON": ('{"a": 1}', ":1: this JSON is no output of iperf3: it has no `intervals`"),
    "deep JSON": ('{"a":' * 100_000, "this is no JSON"),
    "an error of iperf3": ('{"start": {}, "intervals": [], "error": "unable to connect"}', "iperf3 itself failed: unable to connect"),
    "two runs": (json.dumps(IPERF3) * 2, "several runs of iperf3"),
    "a rate that is none": (json.dumps({**IPERF3, "intervals": [interval(0, -1)]}), "`bits_per_second` should be a number, and is -1"),
    "a rate without end": (json.dumps({**IPERF3, "intervals": [interval(0, 1e300)]}), "`bits_per_second` should be a number"),
    "damaged": (gzip.compress(b"0,1\n" * 9)[:-9], "it is compressed, and damaged"),
    "no time": ("a,Mbit/s\n1,2\n", ":1: no column is called as a time; say which is: --column time=NAME; there are a, Mbit/s"),
    "no unit": ("time,rate\n1,2\n", ":1: nothing says the unit of rate: write --column rate=rate:mbit"),
    "two units": ("time,bit_rate_mbps\n1,2\n", ":1: nothing says the unit of bit_rate_mbps: write --column rate=bit_rate_mbps:mbit"),
    "bytes or bits": ("time,rate B (Mbit/s)\n1,2\n", "write --column 'rate=rate B (Mbit/s):mbit'"),
    "commas in numbers": ("time,Mbit/s\n0,1,234.5\n", ":2: 3 cells stand here, and 2 in the first line: write numbers like 1234.5"),
    "two runs in text": (TEXT + TEXT, "several runs of iperf3"),
    "both directions": (TEXT.replace("[SUM]", "[SUM][TX-C]", 1), "it has both directions (--bidir): keep the lines of one"),
    "no number": ("time,Mbit/s\n0,1\n1,x\n", ':3: Mbit/s: "x" is no rate'),
    "less than nothing": ("time,Mbit/s\n0,1\n1,-5\n", ':3: Mbit/s: "-5" is no rate that can be'),
    "back in time": ("time,Mbit/s\n1,1\n0,5\n", "sort the file by its time"),
    "no such time": ("time,Mbit/s\nyesterday,1\n", ':2: time: "yesterday" is no time'),
    "nothing measured": ("time,Mbit/s\n0,-\n1,-\n", "neither a rate nor a delay or loss was measured"),
}


@pytest.mark.parametrize("text, sentence", WRONG.values(), ids=WRONG)
def test_what_is_no_measurement_is_refused_with_its_file(tmp_path, text, sentence):
    with pytest.raises(TraceError) as error:
        measured(tmp_path, text)
    assert str(error.value).startswith(str(tmp_path / "measured"))
    assert sentence in str(error.value)


def test_what_is_measured_of_a_path_least_is_no_minute_and_what_was_sent_did_not_arrive(tmp_path):
    assert measured(tmp_path, "time,Mbit/s,min_rtt_ms\n0,10,20\n1,20,20\n").samples[0].delay == 0.01
    test = {"start": {"test_start": {"protocol": "UDP", "blksize": 1448}}, "intervals": [interval(0, 1e7)]}
    assert "it is what was sent" in " ".join(measured(tmp_path, json.dumps(test)).said)


@pytest.mark.parametrize(
    "text, doubt",
    [
        ("time,Mbit/s\n0,8e6\n1,16e6\n", "no link carries 16 Tbit/s; if the figures of Mbit/s are bit/s, write --column rate=Mbit/s:bit"),
        ("time,rate_kbps\n0,8\n1,16\n", "all rates are below 100 kbit/s; if the figures of rate_kbps are Mbit/s, write"),
        ("time,Mbit/s\n0,8\n1000,16\n", "it lasts 0.556 hours, with a sample each 1000 s; if the times of time are ms, write"),
        ("time,Mbit/s\n0,8\n1,16\n", ""),
    ],
)
def test_figures_that_suggest_another_unit_get_a_remark(tmp_path, text, doubt):
    last = measured(tmp_path, text).said[-1]
    assert doubt in last if doubt else last.startswith("rate = column")


def test_a_head_in_bit_per_second_is_a_rate(tmp_path):
    for head in ("bit/s", "bits/s", "DL bps"):
        assert measured(tmp_path, f"time,{head}\n0,8000000\n1,9000000\n").values("rate") == [8e6, 9e6]


def test_the_command_says_what_it_understood_and_what_to_write(polypath, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "up.csv").write_text("time,Mbit/s\n0,10\n1,20\n")
    code, out, err = polypath("trace", "up.csv", "--out", "link.csv")
    assert (code, err) == (0, "")
    assert "rate = column Mbit/s (Mbit)" in out
    assert "10 to 20 Mbit/s, on average 15" in out
    line = "forward: [{kind: table, file: link.csv, repeat: 2s, queue: 124packets}, {kind: delay, delay: 20ms}]"
    assert f"wrote link.csv; in a study, on a link (all engines): {line}\n" in out
    assert "fill in the queue (here 100 ms at the mean rate) and the delay, and `backward`, the other one." in out
    (tmp_path / "s.yaml").write_text(STUDY.replace("both: [%s]", f"{line}, backward: {{rate: 9mbit}}"))
    assert Study.load(tmp_path / "s.yaml")
    assert polypath("trace", "up.csv", "--direction", "upload")[2].endswith(": leave it out\n")
    (tmp_path / "path.csv").write_text("time,Mbit/s,delay_ms\n0,10,5\n1,20,5\n")
    assert "A trace has no delay: what was measured of it is lost." in polypath("trace", "path.csv", "--out", "link.trace")[1]
    assert (
        "forward: [{kind: table, file: link2.csv, repeat: 2s, queue: 124packets}]" in polypath("trace", "path.csv", "--out", "link2.csv")[1]
    )
    assert polypath("trace", "starlink", "--json")[0] == 0
    assert polypath("trace", "nowhere") == (
        2,
        "",
        "polypath: there is no file nowhere, and no trace of this name: there are starlink, lte-drive\n",
    )
    assert Path("link.csv").read_text() == "time,rate\n0ns,10mbit\n1s,20mbit\n"


SENT = "it is what was sent, of which more or less may have arrived: the text of the other end tells that"


@pytest.mark.parametrize(
    "head, rest, rate, said",
    [("", "100", 1_033_600, [SENT]), ("Jitter    Lost/", "0.016 ms  50/100 (50%)", 1_016_800, [])],
    ids=["sent", "arrived"],
)
def test_datagrams_of_iperf3_text_have_their_own_headers(tmp_path, head, rest, rate, said):
    text = f"[ ID] Interval           Transfer     Bitrate         {head}Total Datagrams\n" + "".join(
        f"[  5]   {at}.00-{at + 1}.00   sec   122 KBytes  1.00 Mbits/sec  {rest}\n" for at in range(2)
    )
    path = measured(tmp_path, text)
    assert [sample.rate for sample in path.samples] == [rate, rate]
    assert list(path.said[2:]) == said


def test_a_damaged_file_of_zstd_is_one_sentence(tmp_path):
    with pytest.raises(TraceError, match="it is compressed, and damaged: Truncated compressed stream"):
        measured(tmp_path, pa.compress(TEXT.encode(), "zstd", asbytes=True)[:-3])
