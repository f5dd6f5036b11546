//! BBR's model against its draft's formulas in floating point, on made-up paths.

use polypath_cc as cc;
use proptest::prelude::*;

const MSS: u32 = 1448;
/// Bandwidths are in segments per microsecond times this.
const UNIT: f64 = (1_u32 << 24) as f64;

/// A flow that sees one ACK a round.
struct Rounds {
    flow: cc::Flow,
    controller: cc::Controller,
    rtt_us: u32,
    losses: u32,
}

impl Rounds {
    fn new(name: &str, rtt_us: u32) -> Self {
        let mut flow = cc::Flow::new(10, MSS);
        (flow.srtt_us, flow.min_rtt_us) = (rtt_us * 8, rtt_us);
        (flow.now_ns, flow.delivered_ns, flow.delivered) = (1_000_000_000, 1_000_000_000, 1);
        flow.established = true;
        let mut controller = cc::find(name).expect("a known algorithm").start();
        controller.init(&mut flow, None);
        Self { flow, controller, rtt_us, losses: 0 }
    }

    /// A round in which `delivered` segments arrive at an even rate; the ACK acknowledges the last
    /// few of them.
    fn round(&mut self, delivered: u32) {
        let flow = &mut self.flow;
        let prior_delivered = flow.delivered;
        flow.now_ns += u64::from(self.rtt_us) * 1001;
        flow.delivered_ns = flow.now_ns;
        flow.delivered += delivered;
        flow.in_flight = delivered.min(flow.cwnd);
        let sample = cc::Sample {
            prior_delivered,
            delivered: delivered as i32,
            interval_us: self.rtt_us.into(),
            rtt_us: self.rtt_us.into(),
            acked_sacked: 1,
            prior_in_flight: delivered,
            losses: std::mem::take(&mut self.losses) as i32,
            ..cc::Sample::default()
        };
        self.controller.cong_control(&mut self.flow, None, 0, 0, &sample);
    }

    /// So many segments are found lost by the next ACK.
    fn lose(&mut self, lost: u32) {
        self.losses = lost;
        self.flow.lost += lost;
    }

    /// The bandwidth in segments a second.
    fn bandwidth(&self) -> f64 {
        let word = self.controller.private_word();
        // Version 3 keeps the rates of two cycles.
        let bw = if self.controller.name() == "bbr3" { (word & 0xffff_ffff).max(word >> 32) } else { word & 0xffff_ffff };
        bw as f64 / UNIT * 1e6
    }

    /// The pacing rate in segments a second, as a multiple of the bandwidth.
    fn gain(&self) -> f64 {
        self.flow.pacing_rate as f64 / f64::from(MSS) / self.bandwidth()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Section 4.1.1.3: never more than the largest rate of the last ten rounds, never less than
    /// the last one; an old maximum is forgotten.
    #[test]
    fn the_bandwidth_is_the_largest_of_ten_rounds(rounds in prop::collection::vec(20_u32..2000, 15..120), rtt_us in 2_000_u32..300_000) {
        let mut path = Rounds::new("bbr", rtt_us);
        for (at, &delivered) in rounds.iter().enumerate() {
            path.round(delivered);
            let rate = |segments: u32| f64::from(segments) / f64::from(rtt_us) * 1e6;
            let most = rounds[at.saturating_sub(10)..=at].iter().copied().max().map(rate).expect("not empty");
            prop_assert!(path.bandwidth() <= most * 1.001, "{} of {most} after round {at}", path.bandwidth());
            prop_assert!(path.bandwidth() >= rate(delivered) * 0.999, "{} below the last rate after round {at}", path.bandwidth());
        }
    }

    /// Sections 4.2.1, 4.2.3 and 4.3.4: on a steady path the gains are those of the cycle, in their
    /// order, and the window is two BDPs and the bursts.
    #[test]
    fn a_steady_path_is_probed_in_cycles(delivered in 100_u32..20_000, rtt_us in 2_000_u32..300_000, random: u32) {
        let mut path = Rounds::new("bbr", rtt_us);
        path.flow.random = random;
        for _ in 0..6 {
            path.round(delivered);
        }
        let bdp = f64::from(delivered);
        let mut gains = Vec::new();
        // The window grows by one segment an ACK here: begin beyond its target.
        path.flow.cwnd = 10 * delivered;
        for _ in 0..20 {
            // While it probes more than a BDP is in flight.
            path.round(delivered);
            // Bursts follow the rate of the phase, and the window follows by one segment an ACK.
            let burst = |gain: f64| (path.bandwidth() * gain / 1024.0).floor().clamp(1.0, 45.0);
            let (least, most) = (2.0 * bdp + 3.0 * burst(0.74), 2.0 * bdp + 3.0 * burst(1.25).max(2.0));
            let got = f64::from(path.flow.cwnd);
            prop_assert!(got >= least - 4.0 && got <= most + 8.0, "window {got}, not {least} to {most}");
            gains.push((path.gain() * 100.0).round() / 100.0 / 0.99);
        }
        let named = |gain: f64| [0.75, 1.0, 1.25].into_iter().find(|want| (gain - want).abs() < 0.02);
        let gains: Vec<_> = gains.into_iter().map(|gain| named(gain).unwrap_or(gain)).collect();
        prop_assert!(gains.iter().all(|&gain| named(gain).is_some()), "{gains:?}");
        for pair in gains.windows(2) {
            // What is probed for is then given back; more than a round of probing is possible,
            // since the flight must grow first.
            prop_assert!(pair[0] != 1.25 || pair[1] != 1.0, "{gains:?}");
            prop_assert!(pair[0] != 1.0 || pair[1] != 0.75, "{gains:?}");
        }
    }

    /// draft-ietf-ccwg-bbr-06, 5.5.10: a path that loses a part of what is probed with gets a bound
    /// that its flow keeps to; a path that loses nothing gets none.
    #[test]
    fn version_3_keeps_to_what_a_path_holds(delivered in 100_u32..5_000, rtt_us in 2_000_u32..30_000, random: u32) {
        // All of it takes less than the five seconds after which the path's bare RTT is looked for.
        let mut path = Rounds::new("bbr3", rtt_us);
        path.flow.random = random;
        for _ in 0..8 {
            path.round(delivered);
        }
        let probes = |path: &mut Rounds, lose: bool| {
            let mut seen = false;
            for _ in 0..64 {
                path.round(delivered);
                if path.gain() > 1.2 {
                    seen = true;
                    if lose {
                        path.lose(delivered / 10);
                        path.round(delivered);
                        break;
                    }
                }
            }
            seen
        };
        prop_assert!(probes(&mut path, false), "no probing in 64 rounds");
        path.flow.cwnd = 3 * delivered;
        path.round(delivered);
        prop_assert!(path.flow.cwnd > 2 * delivered - 2, "{} before any loss", path.flow.cwnd);
        prop_assert!(probes(&mut path, true), "no second probing in 64 rounds");
        // What was in flight without the losses; less than a segment is rounding.
        prop_assert!(path.flow.cwnd <= delivered + delivered / 10 + 1, "{} of {delivered}", path.flow.cwnd);
        prop_assert!(path.flow.cwnd >= delivered * 7 / 10 - 1, "{} of {delivered}", path.flow.cwnd);
    }

    /// Section 4.3.2: each round of Startup may send twice what the last one delivered, and it ends
    /// only when the rate no longer grows.
    #[test]
    fn startup_doubles_until_the_rate_no_longer_grows(name in prop_oneof![Just("bbr"), Just("bbr3"), Just("cmpbbr")], doublings in 1_u32..8, rtt_us in 2_000_u32..300_000) {
        let mut path = Rounds::new(name, rtt_us);
        let mut delivered = 10;
        for _ in 0..doublings {
            path.round(delivered);
            prop_assert!(path.gain() >= 2.7, "{}", path.gain());
            prop_assert_eq!(path.flow.ssthresh, cc::SSTHRESH_INFINITE);
            delivered *= 2;
        }
        for _ in 0..3 {
            path.round(delivered / 2);
        }
        prop_assert!(path.gain() < 1.3 && path.flow.ssthresh < cc::SSTHRESH_INFINITE);
    }
}

/// The largest values: nothing overflows into a small rate or window.
#[test]
fn the_fastest_path_still_fits() {
    let mut path = Rounds::new("bbr", 1_000);
    // 100 segments a microsecond: more than a Tbit/s.
    for _ in 0..8 {
        path.round(100_000);
    }
    assert!((path.bandwidth() - 1e8).abs() < 1e5, "{}", path.bandwidth());
    assert!(path.gain() > 0.3 && path.gain() < 3.0, "{}", path.gain());
}
