//! The algorithms that judge delay, against the formulas of their papers in floating point.

use polypath_cc as cc;
use proptest::prelude::*;

/// A flow in congestion avoidance on a path of which the least RTT is known, and whose round ends
/// with the next acknowledged segment.
struct Round {
    flow: cc::Flow,
    controller: cc::Controller,
}

impl Round {
    /// Every ACK of the round has the RTT `rtt_us`; the algorithms count an RTT of r as r + 1.
    fn new(name: &str, cwnd: u32, base_us: u32, rtt_us: u32) -> Self {
        let mut flow = cc::Flow::new(cwnd, 1448);
        flow.ssthresh = 2;
        flow.cwnd_limited = true;
        flow.established = true;
        flow.snd_nxt = 1000;
        let mut round = Self { flow, controller: cc::find(name).expect("a known algorithm").start() };
        round.controller.init(&mut round.flow, None);
        round.sample(base_us, 1);
        // What the first sample began must not count among the samples of the round.
        round.controller.set_state(&mut round.flow, None, cc::CaState::Open);
        round.sample(rtt_us, 4);
        round
    }

    fn sample(&mut self, rtt_us: u32, times: u32) {
        for _ in 0..times {
            let sample = cc::Sample { rtt_us: i64::from(rtt_us) - 1, pkts_acked: 1, ..cc::Sample::default() };
            self.controller.pkts_acked(&mut self.flow, None, &sample);
        }
    }

    /// The ACK that ends the round; the window after it.
    fn end(&mut self) -> u32 {
        self.controller.cong_avoid(&mut self.flow, None, 1001, 0);
        self.flow.cwnd
    }

    fn ssthresh(&mut self) -> u32 {
        self.controller.ssthresh(&mut self.flow, None)
    }
}

/// Window, least RTT, and RTT in units of it.
fn paths() -> impl Strategy<Value = (u32, u32, f64)> {
    (4_u32..20_000, 500_u32..300_000, 1.0_f64..4.0)
}

/// Whether x is so near a whole number that rounding decides.
fn is_near_whole(x: f64) -> bool {
    (x - x.round()).abs() < 1e-9 * x.max(1.0)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Brakmo and Peterson 1995, section III B: within alpha and beta segments beyond what the path
    /// holds the window rests.
    #[test]
    fn vegas_keeps_two_to_four_segments_queued((cwnd, base_us, times) in paths()) {
        let rtt_us = (f64::from(base_us) * times) as u32;
        let diff = f64::from(cwnd) * f64::from(rtt_us - base_us) / f64::from(base_us);
        prop_assume!(!is_near_whole(diff));
        let want = if diff < 2.0 { cwnd + 1 } else if diff < 5.0 { cwnd } else { cwnd - 1 };
        prop_assert_eq!(Round::new("vegas", cwnd, base_us, rtt_us).end(), want, "diff {}", diff);
    }

    /// The same, in slow start: the window that leaves it is what the path holds at its least RTT.
    #[test]
    fn vegas_leaves_slow_start_with_what_the_path_holds((cwnd, base_us, times) in paths()) {
        let rtt_us = (f64::from(base_us) * times) as u32;
        let (diff, held) = (f64::from(cwnd) * (f64::from(rtt_us) / f64::from(base_us) - 1.0), f64::from(cwnd) * f64::from(base_us) / f64::from(rtt_us));
        prop_assume!(!is_near_whole(diff) && !is_near_whole(held));
        let mut round = Round::new("vegas", cwnd, base_us, rtt_us);
        round.flow.ssthresh = cc::SSTHRESH_INFINITE;
        let got = round.end();
        if diff < 2.0 {
            prop_assert_eq!((got, round.flow.ssthresh), (cwnd, cc::SSTHRESH_INFINITE));
        } else {
            prop_assert_eq!((got, round.flow.ssthresh), ((held.ceil() as u32).max(2), (held.ceil() as u32).max(2)));
        }
    }

    /// Fu and Liew 2003, section III: n = cwnd - cwnd base / rtt below 3 is no congestion.
    #[test]
    fn veno_takes_a_fifth_or_half((cwnd, base_us, times) in paths()) {
        let rtt_us = (f64::from(base_us) * times) as u32;
        let queued = f64::from(cwnd) * (1.0 - f64::from(base_us) / f64::from(rtt_us));
        // In half segments, rounded up: from 2.5 on it is 3.
        prop_assume!((queued - 2.5).abs() > 0.01);
        let mut round = Round::new("veno", cwnd, base_us, rtt_us);
        round.end();
        let want = if queued < 2.5 { cwnd * 4 / 5 } else { cwnd / 2 };
        prop_assert_eq!(round.ssthresh(), want.max(2), "{} queued", queued);
    }

    /// Liu, Basar and Srikant 2008, section 3: alpha = k1 / (k2 + da) and beta = k3 + k4 da between
    /// their bounds.
    #[test]
    fn illinois_grows_and_shrinks_by_its_curves(cwnd in 15_u32..5_000, base_us in 500_u32..300_000, dm_us in 1_000_u32..500_000, share in 0.0_f64..1.0) {
        let da_us = (f64::from(dm_us) * share) as u32;
        let mut round = Round::new("illinois", cwnd, base_us, base_us + dm_us);
        // The samples so far made the least and the largest RTT; the next round is judged.
        round.flow.cwnd_limited = false;
        round.end();
        round.flow.cwnd_limited = true;
        round.controller.set_state(&mut round.flow, None, cc::CaState::Open);
        round.flow.snd_nxt = 2000;
        round.controller.cong_avoid(&mut round.flow, None, 1001, 0);
        round.flow.cwnd_cnt = 0;
        round.flow.cwnd = cwnd;
        round.sample(base_us + da_us, 4);
        round.flow.cwnd_limited = false;
        round.controller.cong_avoid(&mut round.flow, None, 2001, 0);
        round.flow.cwnd_limited = true;

        let (da, dm) = (f64::from(da_us), f64::from(dm_us));
        let (low, high, d1, d2, d3) = (38.0 / 128.0, 10.0, dm / 100.0, dm / 10.0, dm * 0.8);
        // At the edges whole microseconds decide.
        prop_assume!((da - d1).abs() > 2.0 && (da - d2).abs() > 2.0 && (da - d3).abs() > 2.0);
        let beta = if da < d2 { 0.125 } else if da > d3 { 0.5 } else { 0.125 + 0.375 * (da - d2) / (d3 - d2) };
        let want = f64::from(cwnd) * (1.0 - beta);
        let got = f64::from(round.ssthresh());
        prop_assert!((got - want).abs() <= f64::from(cwnd) / 64.0 + 1.0, "{got} for {want}, beta {beta}");

        // The first judged round was at the largest delay, so a low one leaves alpha at its least
        // until five of them were seen.
        prop_assume!(da > d1);
        let k1 = (dm - d1) * low * high / (high - low);
        let k2 = (dm - d1) * low / (high - low) - d1;
        let alpha = k1 / (k2 + da);
        let mut acked = 0;
        while round.flow.cwnd == cwnd {
            round.sample(base_us + da_us, 1);
            round.controller.cong_avoid(&mut round.flow, None, 2001, 1);
            acked += 1;
        }
        let want = f64::from(cwnd) / alpha;
        // alpha is cut to whole 1/128.
        let precision = 1.0 / 128.0 / alpha + 0.01;
        prop_assert!((f64::from(acked) - want).abs() <= want * precision * 1.1 + 2.0, "{acked} for {want}, alpha {alpha}");
    }

    /// Baiocchi, Castellani and Vacirca 2007, section 2: Q = cwnd (rtt - base) / rtt is drained
    /// above 80, and a loss takes Q, an eighth at least, half at most.
    #[test]
    fn yeah_drains_its_queue((cwnd, base_us, times) in paths()) {
        let rtt_us = (f64::from(base_us) * times) as u32;
        let queued = f64::from(cwnd) * (1.0 - f64::from(base_us) / f64::from(rtt_us));
        prop_assume!(!is_near_whole(queued));
        let mut round = Round::new("yeah", cwnd, base_us, rtt_us);
        let got = round.end();
        let want = if queued < 81.0 { cwnd } else { cwnd - (queued as u32).min(cwnd / 2) };
        prop_assert_eq!(got, want.max(2), "{} queued", queued);
        let cut = (queued as u32).min((got / 2).max(2)).max(got / 8);
        prop_assert_eq!(round.ssthresh(), (got - cut).max(2));
    }

    /// Brakmo 2010: at a steady RTT the ideal window is what a round trip delivers; beyond it and
    /// ten segments 30 % of the excess go.
    #[test]
    fn nv_shrinks_toward_what_is_delivered(delivered in 2_u32..5_000, excess in 3_u32..20_000, rtt_us in 200_u32..400_000) {
        let mut flow = cc::Flow::new(delivered + 11 + excess, 1448);
        flow.ssthresh = 2;
        flow.snd_nxt = 1000;
        let mut controller = cc::find("nv").expect("a known algorithm").start();
        controller.init(&mut flow, None);
        let before = flow.cwnd;
        let sample = cc::Sample { rtt_us: rtt_us.into(), pkts_acked: 1, ..cc::Sample::default() };
        flow.delivered = delivered;
        for (una, samples) in [(1, 59), (1001, 1)] {
            prop_assert_eq!(flow.cwnd, before, "a decision takes sixty samples");
            flow.snd_una = una;
            for _ in 0..samples {
                controller.pkts_acked(&mut flow, None, &sample);
            }
        }
        let want = f64::from(before) - 0.3 * f64::from(before - delivered - 10);
        prop_assert!((f64::from(flow.cwnd) - want).abs() <= f64::from(excess) * 0.005 + 3.0, "{} for {want}", flow.cwnd);
        prop_assert!(flow.ssthresh.abs_diff(delivered + 10) <= 1, "{}", flow.ssthresh);
    }

    /// What Linux's choices make of LP where the clocks are 2^29 ms or more apart, as those of
    /// seven in eight connections: Reno, whatever the delay.
    #[test]
    fn lp_is_reno_where_clocks_are_far_apart(ahead in (1_u32 << 29) + 100_000..0xf000_0000, delays in prop::collection::vec(1_u32..2_000, 10..200)) {
        let mut flow = cc::Flow::new(10, 1448);
        flow.ssthresh = 5;
        flow.cwnd_limited = true;
        let mut reno_flow = flow.clone();
        let (mut lp, mut reno) = (cc::find("lp").expect("a known algorithm").start(), cc::find("reno").expect("a known algorithm").start());
        lp.init(&mut flow, None);
        for (step, &delay) in delays.iter().enumerate() {
            // The next segment leaves when the slowest before has arrived, so the peer's clock goes
            // no faster than ours.
            let sent_ms = 3_000 * (step as u32 + 1);
            flow.ts_echo = sent_ms;
            flow.ts_peer = ahead + 2_700 * (step as u32 + 1) + delay / 10;
            flow.now_ns = u64::from(sent_ms + delay + 10) * 1_000_000;
            lp.pkts_acked(&mut flow, None, &cc::Sample { rtt_us: i64::from(delay + 10) * 1000, ..cc::Sample::default() });
            lp.cong_avoid(&mut flow, None, 0, 3);
            reno.cong_avoid(&mut reno_flow, None, 0, 3);
            prop_assert_eq!((flow.cwnd, flow.cwnd_cnt), (reno_flow.cwnd, reno_flow.cwnd_cnt), "at sample {}", step);
        }
    }
}
