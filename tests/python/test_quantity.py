"""Quantities: what people write, what is refused, and that writing and reading agree."""

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polypath import Packets, Rate, Share, Size, Time


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Rate, "50mbit", 50_000_000),
        (Rate, "1.5 Gbit/s", 1_500_000_000),
        (Rate, "8kbit", 8_000),
        (Rate, "10MBIT", 10_000_000),
        (Rate, "10 mBit/S", 10_000_000),
        (Time, "5ms", 5_000_000),
        (Time, "0.5ms", 500_000),
        (Time, "2min", 120_000_000_000),
        (Time, "7µs", 7_000),
        (Size, "64KiB", 65_536),
        (Size, "10MB", 10_000_000),
        (Size, "14B", 14),
        (Packets, "1packet", 1),
        (Packets, "100 packets", 100),
        (Share, "0.1%", 0.001),
    ],
)
def test_reads_what_people_write(kind, text, value):
    assert kind(text) == value


@pytest.mark.parametrize(
    ("kind", "text", "sentence"),
    [
        (Rate, 50, 'the bare number 50 has no unit; write rate like "50mbit"'),
        (Rate, "50", 'the bare number 50 has no unit; write rate like "50mbit"'),
        (
            Rate,
            "50mbps",
            '"50mbps": rate has no unit "mbps"; allowed are bit, kbit, mbit, gbit; write 50mbit if these are bits, and 400mbit if bytes',
        ),
        (
            Rate,
            "1.5kb",
            '"1.5kb": rate has no unit "kb"; allowed are bit, kbit, mbit, gbit; write 1.5kbit if these are bits, and 12kbit if bytes',
        ),
        (Rate, "50Mbps", '"50Mbps": rate has no unit "Mbps"; allowed are bit, kbit, mbit, gbit; write 50mbit'),
        (Rate, "5MB/s", '"5MB/s": rate has no unit "MB/s"; allowed are bit, kbit, mbit, gbit; this is in bytes: that is 40mbit'),
        (Rate, "1KiB/s", '"1KiB/s": rate has no unit "KiB/s"; allowed are bit, kbit, mbit, gbit; this is in bytes: that is 8192bit'),
        (Rate, "1,000mbit", '"1,000mbit" is no rate: write a point: 1.000mbit, or 1000mbit without it'),
        (Rate, "1e308mbit", '"1e308mbit" is no rate: a number has no exponents here; write all its digits'),
        (Rate, "fast", '"fast" is no rate; write one like "50mbit"'),
        (Time, "20MS", '"20MS": time has no unit "MS"; allowed are ns, us, ms, s, min, h; write 20ms'),
        (Time, "5 msec", '"5 msec": time has no unit "msec"; allowed are ns, us, ms, s, min, h; write 5ms'),
        (Time, "7,5ms", '"7,5ms" is no time: write a point: 7.5ms'),
        (Share, "0,5%", '"0,5%" is no share: write a point: 0.5%'),
        (Time, "-5ms", '"-5ms" is no time; write one like "25ms"'),
        (Time, "5", 'the bare number 5 has no unit; write time like "25ms"'),
        (Time, "0.1ns", '"0.1ns" is finer than one ns'),
        (Time, "9999999999h", '"9999999999h" is larger than this program can count'),
        (Time, True, 'true is no time; write one like "25ms"'),
        (Size, "64Kib", '"64Kib": size has no unit "Kib"; allowed are B, KiB, KB, MiB, MB, GiB, GB, TiB, TB'),
        (Share, 0.01, '0.01 is no share; write per cent, like "1%"'),
        (Share, "101%", '"101%" is more than 100%'),
    ],
)
def test_refuses_with_a_sentence(kind, text, sentence):
    with pytest.raises(ValueError) as error:
        kind(text)
    assert str(error.value) == sentence


@given(st.sampled_from([Rate, Time, Size, Packets]), st.integers(0, 2**62))
def test_what_is_written_reads_the_same(kind, value):
    quantity = kind.base(value)
    assert kind(str(quantity)) == quantity == value
    assert eval(repr(quantity)) == quantity
    assert copy.deepcopy(quantity) == pickle.loads(pickle.dumps(quantity)) == quantity


@given(st.integers(0, 10_000))
def test_a_share_is_written_exactly(hundredths):
    share = Share(f"{hundredths // 100}.{hundredths % 100:02}%")
    assert Share(str(share)) == share == pytest.approx(hundredths / 10_000)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        *(("7500us", "7.5ms"), ("59700ms", "59.7s"), ("1s", "1s"), ("0ns", "0s"), ("1234567ns", "1234.567us")),
        *(("60s", "60s"), ("90s", "90s"), ("120s", "2min"), ("7200s", "2h")),
    ],
)
def test_a_time_in_words_has_the_largest_unit(text, words):
    assert Time(text).in_words() == f"{Time(text)}" == words


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0s"), (1e-9, "1ns"), (75e-6, "75us"), (0.0123456, "12.346ms"), (1234.5678, "1234.568s"), (600, "10min")]
)
def test_a_measured_time_is_told_to_a_thousandth_of_its_unit(seconds, words):
    assert f"{Time.about(seconds)}" == words
