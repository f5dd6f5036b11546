//! HyStart of cubic: where slow start ends when ACKs come as trains.

use polypath_cc as cc;

const MS: u64 = 1_000_000;

/// Slow start over 20 Mbit/s and 40 ms: each window's ACKs, one for two segments, come as a train
/// of 1.2 ms an ACK. The window at which the train of a round is found too long.
fn leaves_at(compat: u32) -> u32 {
    let mut flow = cc::Flow::new(10, 1448);
    (flow.cwnd_limited, flow.established, flow.compat) = (true, true, compat);
    (flow.srtt_us, flow.now_ns) = (40_000 * 8, 1000 * MS);
    let mut controller = cc::find("cubic").expect("a known algorithm").start();
    controller.init(&mut flow, None);
    flow.snd_nxt = flow.snd_una.wrapping_add(10 * flow.mss);
    for round in 1..8 {
        let acks = flow.cwnd / 2;
        for ack in 0..acks {
            flow.now_ns = 1000 * MS + round * 40 * MS + u64::from(ack) * 1_200_000;
            flow.snd_una = flow.snd_una.wrapping_add(2 * flow.mss);
            flow.delivered += 2;
            let sample = cc::Sample { rtt_us: 40_000, pkts_acked: 2, ..cc::Sample::default() };
            controller.pkts_acked(&mut flow, None, &sample);
            controller.cong_avoid(&mut flow, None, 0, 2);
            flow.snd_nxt = flow.snd_una.wrapping_add(flow.cwnd * flow.mss);
            if flow.ssthresh < cc::SSTHRESH_INFINITE {
                return flow.cwnd;
            }
        }
    }
    u32::MAX
}

#[test]
fn rounds_that_begin_in_the_middle_of_a_train_end_slow_start_later() {
    // Half an RTT is a train of 17 ACKs. Counted from the first ACK, the round of 40 segments has
    // it.
    let now = leaves_at(0);
    assert!((70..80).contains(&now), "left at {now}");
    // Linux 5.4 counts from the ACK that brought the window to 16 segments: the same train falls
    // into two rounds.
    let old = leaves_at(cc::compat::HYSTART_LATE_ROUNDS);
    assert!(old > 80, "left at {old}");
}
