//! The algorithms for long fast paths, and those that measure rates, against the formulas of their
//! papers in floating point.

use polypath_cc as cc;
use proptest::prelude::*;

/// A tick of Linux with HZ=250, in which some of these algorithms tell time.
const TICK_S: f64 = 0.004;

/// A flow in congestion avoidance on a path of which one RTT was seen; its ACKs come evenly spaced.
struct Run {
    flow: cc::Flow,
    controller: cc::Controller,
    rtt_us: u32,
}

impl Run {
    fn new(name: &str, cwnd: u32, rtt_us: u32) -> Self {
        let mut flow = cc::Flow::new(cwnd, 1448);
        flow.cwnd_limited = true;
        flow.established = true;
        flow.now_ns = 1_000_000_000;
        flow.srtt_us = rtt_us * 8;
        let mut run = Self { flow, controller: cc::find(name).expect("a known algorithm").start(), rtt_us };
        run.controller.init(&mut run.flow, None);
        (run.flow.cwnd, run.flow.ssthresh) = (cwnd, 2);
        run
    }

    fn sample(&mut self, segments: u32) {
        let sample = cc::Sample { rtt_us: self.rtt_us.into(), pkts_acked: segments, ..cc::Sample::default() };
        self.controller.pkts_acked(&mut self.flow, None, &sample);
    }

    fn acknowledge(&mut self, segments: u32, after_ns: u64) {
        self.flow.now_ns += after_ns;
        self.flow.snd_una = self.flow.snd_una.wrapping_add(segments * self.flow.mss);
        self.sample(segments);
        self.controller.in_ack_event(&mut self.flow, None, 0);
        self.controller.cong_avoid(&mut self.flow, None, 0, segments);
    }

    /// Every segment of a window is acknowledged by itself; what the window gained.
    fn round(&mut self) -> u32 {
        let before = self.flow.cwnd;
        for _ in 0..before {
            self.acknowledge(1, u64::from(self.rtt_us) * 1000 / u64::from(before));
        }
        self.flow.cwnd - before
    }

    /// What a loss leaves.
    fn lose(&mut self) -> u32 {
        self.flow.ssthresh = self.controller.ssthresh(&mut self.flow, None);
        self.controller.set_state(&mut self.flow, None, cc::CaState::Recovery);
        self.flow.ca_state = cc::CaState::Recovery;
        (self.flow.cwnd, self.flow.cwnd_cnt) = (self.flow.ssthresh, 0);
        self.controller.set_state(&mut self.flow, None, cc::CaState::Open);
        self.flow.ca_state = cc::CaState::Open;
        self.flow.ssthresh
    }
}

/// RFC 3649 section 5.
fn highspeed_b(w: f64) -> f64 {
    (0.1 - 0.5) * (w.ln() - 38_f64.ln()) / (83_000_f64.ln() - 38_f64.ln()) + 0.5
}

fn highspeed_a(w: f64) -> f64 {
    let b = highspeed_b(w);
    w * w * 0.078 / w.powf(1.2) * 2.0 * b / (2.0 - b)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Kelly 2003: from one loss to the next it takes log(1 - b) / log(1 - a) round trips, 13.4, at
    /// every window.
    #[test]
    fn scalable_recovers_in_as_many_round_trips_at_every_window(cwnd in 1_000_u32..100_000) {
        let mut run = Run::new("scalable", cwnd, 50_000);
        prop_assert_eq!(run.lose(), cwnd - cwnd / 8);
        let rounds = (0..100).take_while(|_| { run.round(); run.flow.cwnd < cwnd }).count();
        prop_assert!((12..=14).contains(&rounds), "{rounds} round trips");
    }

    /// RFC 3649: a(w) is the formula's, rounded up to a whole segment, and b(w) the formula's where
    /// a(w) is that.
    #[test]
    fn highspeed_follows_its_response_function(cwnd in 39_u32..89_000) {
        let mut run = Run::new("highspeed", cwnd, 50_000);
        run.acknowledge(2, 0);
        let a = run.flow.cwnd_cnt;
        let exact = highspeed_a(f64::from(cwnd));
        prop_assert!((f64::from(a) - 1.1..=f64::from(a) + 0.1).contains(&exact), "{a} for {exact}");
        let left = f64::from(run.lose()) / f64::from(cwnd);
        // The RFC's table is off the formula by up to 0.05 segments.
        let row_end = (cwnd..).find(|w| highspeed_a(f64::from(*w)) > f64::from(a) - 0.05).expect("a(w) rises without end");
        let want = 1.0 - highspeed_b(f64::from(row_end));
        let rounding = 1.0 / 256.0 + 1.0 / f64::from(cwnd) + 0.002;
        prop_assert!((left - want).abs() <= rounding, "{left} for {want} at {row_end}");
    }

    /// Caini and Firrincieli 2004: in the same time the window grows as that of a Reno flow with an
    /// RTT of 25 ms, by rho^2 segments a round trip.
    #[test]
    fn hybla_grows_by_the_square_of_rho(rtt_us in 150_000_u32..800_000, share in 1.0..1.28) {
        let rho = f64::from(rtt_us / (25_000 / 8)) / 8.0;
        // Of larger windows an ACK is less than a hundred parts of 128 of a segment, too coarse to
        // compare.
        let cwnd = (rho * rho * share) as u32;
        let mut run = Run::new("hybla", cwnd, rtt_us);
        let gained = f64::from(run.round());
        // The window that divides grows meanwhile: rho^2 ln(1 + x) / x at least.
        let x = rho * rho / f64::from(cwnd);
        prop_assert!(gained <= rho * rho + 1.0, "{gained} for {}", rho * rho);
        prop_assert!(gained >= rho * rho * x.ln_1p() / x * 0.98 - 1.0, "{gained} for {}", rho * rho);
    }

    /// Xu, Harfoush and Rhee 2004 with Linux's factors: a quarter of the way to the last window a
    /// round trip, at most 16 segments; twice that, since ACKs are taken for delayed ones.
    #[test]
    fn bic_searches_the_window_of_the_last_loss(cwnd in 100_u32..5_000) {
        let mut run = Run::new("bic", cwnd, 50_000);
        let mut window = f64::from(run.lose());
        prop_assert_eq!(window as u32, cwnd * 819 / 1024);
        for _ in 0..40 {
            let (before, way) = (f64::from(run.flow.cwnd), f64::from(cwnd) - f64::from(run.flow.cwnd));
            if way < 8.0 {
                break;
            }
            window = before + f64::from(run.round());
            let most = 2.0 * (way / 4.0).min(16.0);
            // Whole segments per increase: cwnd / step loses up to a part of step / cwnd, the mean
            // per ACK a sixteenth; the way shortens meanwhile.
            prop_assert!(window - before <= most * (1.0 + 2.0 * most / before) + 2.0, "{} of {most}", window - before);
            prop_assert!(window - before >= most * 0.55 - 2.0, "{} of {most}", window - before);
        }
        prop_assert!(window > f64::from(cwnd) - 8.0);
    }

    /// Grieco and Mascolo 2004: after a loss the window is what the rate of the ACKs fills at the
    /// least RTT.
    #[test]
    fn westwood_takes_the_window_that_its_rate_fills(rtt_us in 10_000_u32..300_000, segments_per_s in 500_u64..50_000) {
        let mut run = Run::new("westwood", 10, rtt_us);
        run.flow.cwnd_limited = false;
        for _ in 0..segments_per_s * 3 {
            run.acknowledge(1, 1_000_000_000 / segments_per_s);
        }
        run.controller.cwnd_event(&mut run.flow, None, cc::Event::CompleteCwr);
        let want = segments_per_s as f64 * (f64::from(rtt_us) * 1e-6 / TICK_S).ceil() * TICK_S;
        let got = f64::from(run.flow.cwnd);
        // A sample of 13 ticks may miss an ACK's worth of time at each end.
        prop_assert!((got - want).abs() <= want * 0.03 + 2.0, "{got} for {want}");
        prop_assert_eq!(run.flow.cwnd, run.flow.ssthresh);
    }

    /// draft-leith-tcp-htcp-06: alpha = 1 + 10 (D - 1) + ((D - 1) / 2)^2 at D seconds since the
    /// last loss, as beta is 1/2, times the RTT over 100 ms.
    #[test]
    fn htcp_grows_by_the_time_since_the_last_loss(since_ms in 1_500_u64..20_000, rtt_us in 40_000_u32..300_000) {
        let mut run = Run::new("htcp", 2_000, rtt_us);
        run.sample(1);
        run.flow.now_ns += since_ms * 1_000_000;
        // alpha follows at the next increase.
        let before = run.flow.cwnd;
        while run.flow.cwnd == before {
            run.acknowledge(1, 0);
        }
        // A window of 2001 segments takes 2001 / alpha ACKs for the next one, and one that adds it.
        let mut acks = 0_u32;
        while run.flow.cwnd == before + 1 {
            run.acknowledge(1, 0);
            acks += 1;
        }
        let t = since_ms as f64 * 1e-3 - 1.0;
        let ticks = (f64::from(rtt_us) * 1e-6 / TICK_S).ceil();
        let scale = (200.0 / ticks).floor().clamp(4.0, 80.0) / 8.0;
        let want = (1.0 + 10.0 * t + t * t / 4.0) / scale;
        // The factor is a whole number before and after it is divided.
        let (fewest, most) = (2_001.0 / want, 2_001.0 / (want - 1.0 - 1.0 / scale).max(1.0));
        prop_assert!((fewest - 1.0..=most + 2.0).contains(&f64::from(acks - 1)), "{acks} ACKs, {fewest} to {most}");
    }
}

/// The least random number at which CDG backs off after the RTT rose in the first of its rounds by
/// `slope_us`, out of 2^32.
fn cdg_threshold(slope_us: u32) -> u64 {
    let backs_off = |random: u64| {
        let mut run = Run::new("cdg", 100, 20_000);
        for (round, rtt_us) in [20_000, 20_000 + slope_us].into_iter().enumerate() {
            run.rtt_us = rtt_us;
            run.sample(1);
            run.flow.random = random as u32;
            run.flow.snd_nxt = 2_000 * (round as u32 + 1);
            run.controller.cong_avoid(&mut run.flow, None, 1_000 * (2 * round as u32 + 1), 1);
        }
        run.flow.reduce != 0
    };
    let (mut below, mut from) = (0, 1 << 32);
    while from - below > 1 {
        let middle = u64::midpoint(below, from);
        if backs_off(middle) { from = middle } else { below = middle }
    }
    from
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// Hayes and Armitage 2011: the probability to back off is 1 - exp(-g / G), here of eight times
    /// the slope and with 42 per second.
    #[test]
    fn cdg_backs_off_with_its_probability(slope_us in 1_u32..60_000) {
        let stays = cdg_threshold(slope_us) as f64 / 4_294_967_296.0;
        let want = (-8.0 * f64::from(slope_us) * 1e-6 * 42.0).exp();
        prop_assert!((stays - want).abs() < 2e-5, "{stays} for {want}");
    }
}
