//! The arithmetic of the types against that of numbers wide enough for every result.

use polypath_base::{Bytes, DataSeq, Duration, Instant, Rate, Segments, Seq, SmoothedRtt};
use proptest::prelude::*;

/// What a span of this many nanoseconds is where spans end at 2^64 ns.
fn saturated(ns: u128) -> Duration {
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

proptest! {
    #[test]
    fn a_sequence_number_comes_back_from_wherever_it_was_moved(start: u32, by: u32) {
        let from = Seq::new(start);
        prop_assert_eq!((from + by).distance(from), by);
        prop_assert_eq!((from + by) - by, from);
    }

    #[test]
    fn order_of_sequence_numbers_holds_less_than_half_of_the_space_away(start: u32, by in 1..1_u32 << 31) {
        let (first, last) = (Seq::new(start), Seq::new(start) + by);
        prop_assert!(first.before(last) && last.after(first) && !last.before(first));
        prop_assert_eq!((first.max(last), last.max(first), first.min(last), last.min(first)), (last, last, first, first));
    }

    #[test]
    fn data_sequence_numbers_do_the_same_in_64_bits(start: u64, by in 1..1_u64 << 63) {
        let (first, last) = (DataSeq::new(start), DataSeq::new(start) + by);
        prop_assert!(first.before(last) && last.after(first) && !last.before(first));
        prop_assert_eq!((last.distance(first), last - by), (by, first));
    }

    #[test]
    fn spans_saturate_at_both_ends(a: u64, b: u64) {
        let (one, other) = (Duration::from_nanos(a), Duration::from_nanos(b));
        prop_assert_eq!(one + other, saturated(u128::from(a) + u128::from(b)));
        prop_assert_eq!(one - other, Duration::from_nanos(a.saturating_sub(b)));
        prop_assert_eq!(one * b, saturated(u128::from(a) * u128::from(b)));
    }

    #[test]
    fn a_part_of_a_span_is_rounded_down(ns: u64, parts in 1_u64..) {
        let part = (Duration::from_nanos(ns) / parts).as_nanos();
        prop_assert!(part * parts <= ns && u128::from(ns) < (u128::from(part) + 1) * u128::from(parts));
    }

    #[test]
    fn an_instant_moves_on_and_never_back(at: u64, ns: u64) {
        let (before, span) = (Instant::from_nanos(at), Duration::from_nanos(ns));
        let after = before + span;
        prop_assert_eq!(after, at.checked_add(ns).map_or(Instant::NEVER, Instant::from_nanos));
        prop_assert_eq!(after.since(before), span.min(Instant::NEVER.since(before)));
        prop_assert_eq!((before.since(after), Instant::NEVER + span), (Duration::ZERO, Instant::NEVER));
    }

    #[test]
    fn amounts_are_those_of_numbers(a: u32, b in 1..=u32::MAX) {
        let (one, other) = (Bytes::from_u32(a), Bytes::from_u32(b));
        prop_assert_eq!((one + other).get(), u64::from(a) + u64::from(b));
        prop_assert_eq!(((one + other) - other, one.saturating_sub(other).get()), (one, u64::from(a.saturating_sub(b))));
        prop_assert_eq!((one / other, one.as_u32()), (u64::from(a / b), a));
        prop_assert_eq!((one + Bytes::new(1 << 32)).as_u32(), u32::MAX);
    }

    #[test]
    fn segments_of_any_packets_length_fit(count: u32, each: u16) {
        prop_assert_eq!((Segments::new(count) * Bytes::new(u64::from(each))).get(), u64::from(count) * u64::from(each));
    }

    #[test]
    fn a_packet_takes_the_whole_nanoseconds_of_its_bits(bits in 1_u64.., len in 0_u64..2 << 30) {
        let (rate, work) = (u128::from(bits), u128::from(len) * 8_000_000_000);
        let time = u128::from(Rate::from_bits_per_sec(bits).time_for(Bytes::new(len)).as_nanos());
        prop_assert!(time * rate <= work && work < (time + 1) * rate);
    }

    #[test]
    fn a_rate_in_bytes_saturates(bytes: u64) {
        let rate = Rate::from_bytes_per_sec(bytes);
        prop_assert_eq!(u128::from(rate.as_bits_per_sec()), (u128::from(bytes) * 8).min(u128::from(u64::MAX)));
        prop_assert_eq!(rate.as_bytes_per_sec(), bytes.min(u64::MAX / 8));
    }

    #[test]
    fn a_smoothed_round_trip_is_exact_as_a_duration(eighths: u32, other: u32) {
        let srtt = SmoothedRtt::from_eighths(eighths);
        prop_assert_eq!(srtt.as_duration().as_nanos(), u64::from(eighths) * 125);
        prop_assert_eq!((u64::from(srtt.as_micros()), srtt.as_eighths()), (srtt.as_duration().as_micros(), eighths));
        let second = SmoothedRtt::from_eighths(other);
        prop_assert_eq!(srtt.cmp(&second), srtt.as_duration().cmp(&second.as_duration()));
    }
}

/// Amounts do not saturate: a sum that no 64 bits hold is a fault, which a build with checks of
/// overflow finds.
#[test]
#[cfg_attr(not(debug_assertions), ignore = "this build has no checks of overflow")]
#[should_panic(expected = "overflow")]
fn an_amount_that_becomes_negative_is_a_fault() {
    let taken = [Bytes::new(1), Bytes::new(2)];
    let _ = taken[0] - taken[1];
}
