//! The integer arithmetic of the algorithms against the papers' formulas in floating point, over
//! random connections.

use polypath_cc as cc;
use proptest::prelude::*;

/// One subflow: window in segments, RTT in microseconds, MSS in bytes, bytes between losses.
#[derive(Clone, Copy, Debug)]
struct Path {
    cwnd: u32,
    rtt_us: u32,
    mss: u32,
    bytes: u64,
}

impl Path {
    fn rate(self) -> f64 {
        f64::from(self.cwnd) * f64::from(self.mss) / f64::from(self.rtt_us)
    }
}

fn paths() -> impl Strategy<Value = Vec<Path>> {
    let path =
        (2_u32..20_000, 200_u32..1_000_000, prop_oneof![Just(1448_u32), Just(1428), Just(536), Just(8948)], 1_000_u64..1_000_000_000);
    prop::collection::vec(path.prop_map(|(cwnd, rtt_us, mss, bytes)| Path { cwnd, rtt_us, mss, bytes }), 1..=cc::MAX_SIBLINGS)
}

/// A connection in congestion avoidance, seen from its first path.
fn connection(paths: &[Path]) -> (cc::Flow, cc::Siblings) {
    let mut flow = cc::Flow::new(paths[0].cwnd, paths[0].mss);
    flow.ssthresh = 2;
    flow.srtt_us = paths[0].rtt_us * 8;
    flow.cwnd_limited = true;
    let mut siblings = cc::Siblings::default();
    for path in paths {
        let sibling = cc::Sibling {
            cwnd: path.cwnd,
            srtt_us: path.rtt_us * 8,
            mss: path.mss,
            usable: true,
            bytes_since_loss: path.bytes,
            ..cc::Sibling::default()
        };
        siblings.push(sibling);
    }
    (flow, siblings)
}

/// Segments that must be acknowledged, one at a time, until the window changes; negative if it then
/// shrinks. Gives up at `limit`.
fn segments_per_step(name: &str, paths: &[Path], limit: u32) -> Option<i64> {
    let (mut flow, siblings) = connection(paths);
    let mut controller = cc::find(name).expect("a known algorithm").start();
    controller.init(&mut flow, Some(&siblings));
    for acked in 1..=limit {
        controller.cong_avoid(&mut flow, Some(&siblings), 0, 1);
        if flow.cwnd != paths[0].cwnd {
            return Some(if flow.cwnd > paths[0].cwnd { i64::from(acked) } else { -i64::from(acked) });
        }
    }
    None
}

/// What LIA's file says of the segments per increase, in its whole numbers, for two subflows of
/// which the first one is asked for.
fn lia_segments(cwnd: u32, srtt_us: u32, other_cwnd: u32, other_srtt_us: u32, mss: u32) -> u32 {
    let rated = |cwnd: u32, srtt_us: u32| {
        let (srtt, mss) = (u64::from(srtt_us | 7), u64::from(mss));
        let rate = ((u64::from(cwnd) * mss) << 20) / srtt;
        ((rate << 16) / srtt * mss, rate, cwnd)
    };
    let (own, other) = (rated(cwnd, srtt_us), rated(other_cwnd, other_srtt_us));
    let (_, rate, best_cwnd) = if other.0 > own.0 { other } else { own };
    let ratio = (((own.1 + other.1) << 10) / rate).min(1 << 20);
    ((ratio * ratio * u64::from(best_cwnd)) >> 20).max(u64::from(cwnd)) as u32
}

const LIMIT: u32 = 2_000_000;

/// Whether `got` is what a continuous count of `want` segments gives, rounded, at a relative
/// precision of 1/1024 a ratio.
fn agrees(got: Option<i64>, want: f64, precision: f64) -> bool {
    match got {
        Some(got) => (got as f64 - want).abs() <= want.abs() * precision + 1.0,
        None => want.abs() > f64::from(LIMIT) * (1.0 - precision),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// RFC 6356 section 4.1.
    #[test]
    fn lia_increases_as_its_rfc_says(paths in paths()) {
        let total: f64 = paths.iter().map(|p| f64::from(p.cwnd)).sum();
        let sum: f64 = paths.iter().map(|p| p.rate()).sum();
        let best = paths.iter().map(|p| p.rate().powi(2) / f64::from(p.cwnd)).fold(0.0, f64::max);
        let alpha = total * best / (sum * sum);
        let want = (total / alpha).max(f64::from(paths[0].cwnd));
        let got = segments_per_step("lia", &paths, LIMIT);
        prop_assert!(agrees(got, want, 0.01), "{got:?} for {want}");
    }

    /// On two subflows most calls are answered by a comparison instead of the formula: they must be
    /// the calls in which nothing happens.
    #[test]
    fn lia_takes_the_short_way_only_where_it_leads_to_the_same(
        own in (2_u32..5_000, 500_u32..400_000),
        other in (0.1_f64..4.0, 0.5_f64..2.0),
        mss in prop_oneof![Just(1428_u32), Just(100)],
        acked in prop::collection::vec(1_u32..40, 1..2_000),
    ) {
        let path = |cwnd, rtt_us| Path { cwnd, rtt_us, mss, bytes: 0 };
        let second = path((f64::from(own.0) * other.0) as u32 + 2, (f64::from(own.1) * other.1) as u32);
        let (mut flow, mut siblings) = connection(&[path(own.0, own.1), second]);
        siblings.push(cc::Sibling { cwnd: 10, mss: 536, ..cc::Sibling::default() });
        let mut controller = cc::find("lia").unwrap().start();
        let (mut cwnd, mut count) = (flow.cwnd, 0);
        for (step, &acked) in acked.iter().enumerate() {
            // The RTT moves as it does where a queue fills.
            flow.srtt_us = own.1 * 8 + (step as u32 % 64) * own.1 / 16;
            controller.cong_avoid(&mut flow, Some(&siblings), 0, acked);
            let per = lia_segments(cwnd, flow.srtt_us, second.cwnd, second.rtt_us * 8, mss);
            if count >= per {
                (count, cwnd) = (0, cwnd + 1);
            }
            count += acked;
            (count, cwnd) = (count % per, cwnd + count / per);
            prop_assert_eq!((flow.cwnd, flow.cwnd_cnt), (cwnd, count), "at call {}", step);
        }
    }

    /// draft-walid-mptcp-congestion-control-04, section 3.
    #[test]
    fn balia_increases_and_decreases_as_its_draft_says(paths in paths()) {
        let (own, sum) = (paths[0].rate(), paths.iter().map(|p| p.rate()).sum::<f64>());
        let alpha = paths.iter().map(|p| p.rate()).fold(0.0, f64::max) / own;
        let cwnd = f64::from(paths[0].cwnd);
        // Ratios beyond 1024 are cut: such a path carries a thousandth.
        prop_assume!(sum / own < 1000.0);
        let increase = own * own / cwnd / (sum * sum) * (1.0 + alpha) / 2.0 * (4.0 + alpha) / 5.0;
        let got = segments_per_step("balia", &paths, LIMIT);
        prop_assert!(agrees(got, 1.0 / increase, 0.01), "{got:?} for {}", 1.0 / increase);

        let (mut flow, siblings) = connection(&paths);
        let mut controller = cc::find("balia").expect("a known algorithm").start();
        let want = (cwnd - cwnd / 2.0 * alpha.min(1.5)).max(2.0);
        let got = f64::from(controller.ssthresh(&mut flow, Some(&siblings)));
        prop_assert!((got - want).abs() <= cwnd * 0.002 + 1.0, "{got} for {want}");
    }

    /// CoNEXT 2012, section IV: without the exchange term, which the vectors pin down, the increase
    /// is Kelly and Voice's.
    #[test]
    fn olia_increases_as_its_paper_says(paths in paths()) {
        let (own, sum) = (paths[0].rate(), paths.iter().map(|p| p.rate()).sum::<f64>());
        let window = |p: &Path| u64::from(p.cwnd) * u64::from(p.mss);
        let quality = |p: &Path| p.bytes as f64 / f64::from(p.rtt_us).powi(2);
        let (largest, best) = (paths.iter().map(window).max().unwrap_or(0), paths.iter().map(quality).fold(0.0, f64::max));
        // Ties are a matter of rounding.
        prop_assume!(paths.iter().filter(|p| quality(p) > best * 0.97).count() == 1);
        let collected = paths.iter().filter(|p| quality(p) == best && window(p) != largest).count();
        let largest_count = paths.iter().filter(|p| window(p) == largest).count();
        let n = paths.len() as f64;
        let alpha = match collected {
            0 => 0.0,
            _ if window(&paths[0]) == largest => -1.0 / (n * largest_count as f64),
            _ if quality(&paths[0]) == best => 1.0 / (n * collected as f64),
            _ => 0.0,
        };
        let increase = (own / sum).powi(2) + alpha;
        // Where both terms nearly cancel, a thousandth of the share decides.
        prop_assume!(increase.abs() > 0.02);
        let want = f64::from(paths[0].cwnd) / increase;
        let got = segments_per_step("olia", &paths, LIMIT);
        prop_assert!(agrees(got, want, 0.15), "{got:?} for {want}");
    }

    /// RFC 9438 section 4.2: in rounds of one window each the window follows the curve, and never
    /// grows faster than by half a round.
    #[test]
    fn cubic_follows_its_curve(w_max in 200_u32..5_000, rtt_ms in 20_u64..200) {
        let mut flow = cc::Flow::new(w_max, 1448);
        flow.cwnd_limited = true;
        flow.now_ns = 1_000_000_000;
        flow.srtt_us = rtt_ms as u32 * 8000;
        let mut controller = cc::find("cubic").expect("a known algorithm").start();
        controller.init(&mut flow, None);
        controller.pkts_acked(&mut flow, None, &cc::Sample { rtt_us: rtt_ms as i64 * 1000, ..cc::Sample::default() });
        flow.ssthresh = controller.ssthresh(&mut flow, None);
        flow.cwnd = flow.ssthresh;
        let start = f64::from(flow.cwnd);
        let (c, k) = (410.0 / 1024.0, ((f64::from(w_max) - start) / (410.0 / 1024.0)).cbrt());
        let begin = flow.now_ns;
        while (flow.now_ns - begin) as f64 * 1e-9 < 1.5 * k {
            let before = flow.cwnd;
            for _ in 0..before {
                flow.now_ns += rtt_ms * 1_000_000 / u64::from(before);
                controller.cong_avoid(&mut flow, None, 0, 1);
            }
            prop_assert!(flow.cwnd <= before + before / 2 + 1);
            let t = (flow.now_ns - begin) as f64 * 1e-9;
            let curve = c * (t - k).powi(3) + f64::from(w_max);
            // Reno's window, where that is larger.
            let reno = start + 8.0 / 15.0 * t / (rtt_ms as f64 * 1e-3);
            let want = curve.max(reno);
            prop_assert!((f64::from(flow.cwnd) - want).abs() < want * 0.03 + 2.0, "{} for {want} at {t} s, K {k}", flow.cwnd);
        }
    }
}
