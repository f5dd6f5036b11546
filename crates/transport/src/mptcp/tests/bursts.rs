//! How MPTCP 0.96 fills a window, sampled as Linux 5.4 was.

use super::*;

/// Share of samples, one every 10 ms, in which one segment less than the window was in flight.
fn held_back(stack: &'static Stack) -> f64 {
    let paths = vec![[Direction::new(20, 20, 67), Direction::new(20, 0, 10_000)]];
    let mut net = connect(&settings(stack), PathManager::default(), paths);
    net.client.open(net.now);
    net.client.offer(net.now, Bytes::MAX);
    let mut samples = [0_u32; 2];
    for tick in 500..3000 {
        net.run_until(Instant::ZERO + Duration::from_millis(tick * 10));
        let probe = net.client.subflow(0);
        if probe.ca_state == cc::CaState::Open {
            samples[usize::from(probe.in_flight < probe.cwnd)] += 1;
        }
    }
    f64::from(samples[1]) / f64::from(samples[0] + samples[1])
}

/// A buffer ends with an odd segment after 45: from then on the window lacks one segment of whole
/// bursts of two, and the last one waits until the window has grown by one or the next buffer ends
/// (Linux 5.4: 31 to 42 % of samples).
#[test]
fn an_odd_segment_is_held_back_for_a_burst() {
    let share = held_back(&MPTCP_0_96_LINUX_5_4_188);
    assert!((0.31..0.42).contains(&share), "{share:.2} of the samples");
    let share = held_back(&LINUX_6_12_117);
    assert!(share < 0.1, "Linux sends it: {share:.2} of the samples");
}

/// A probe of the path's MTU would span mappings of data sequence numbers, so subflows of MPTCP
/// 0.96 send none and keep the size with which probing begins.
#[test]
fn the_out_of_tree_stack_never_probes_for_a_larger_mtu() {
    let size = |stack| {
        let settings = Settings { mtu_probing: 2, ..settings(stack) };
        let mut net = connect(&settings, PathManager::default(), vec![[Direction::new(5, 20, 100), Direction::new(5, 0, 10_000)]]);
        net.client.open(net.now);
        net.client.offer(net.now, Bytes::MAX);
        net.keep_log = true;
        net.run_until(Instant::ZERO + Duration::from_secs(3));
        net.log.iter().filter(|l| l.end == CLIENT).map(|l| l.segment.len).max()
    };
    assert_eq!(size(&MPTCP_0_96_LINUX_5_4_188), Some(1024));
    assert!(size(&LINUX_6_12_117) > Some(1400));
}

/// Linux gives a subflow whole page fragments, whatever a scheduler asks for
/// (`__subflow_push_pending`).
#[test]
fn linux_changes_the_subflow_between_fragments() {
    const FRAGMENT: u64 = 32_728;
    let inside = |stack, scheduler| {
        // A window that holds nothing up: what it cuts is shared out anew.
        let settings = Settings { rmem: [4096, 6_291_456, 16_777_216].map(Bytes::new), ..settings(stack) };
        let new = |end, addresses| Config {
            scheduler: Scheduler::find(scheduler).expect("known"),
            ..config(&settings, PathManager::default(), addresses, end)
        };
        let mut net = join(Connection::client(new("client", 2)), Connection::server(new("server", 1)), two_paths([5, 5], 50));
        net.transfer(2_000_000, 5);
        let sent = net.log.iter().filter(|l| l.end == CLIENT && l.segment.len > 0);
        let mut first: Vec<_> = sent.map(|l| (l.segment.dss.dsn.get(), l.path)).collect();
        first.sort_by_key(|&(dsn, _)| dsn);
        first.dedup_by_key(|&mut (dsn, _)| dsn);
        let begin = first[0].0;
        first.windows(2).filter(|pair| pair[0].1 != pair[1].1 && (pair[1].0 - begin) % FRAGMENT > 0).count()
    };
    for scheduler in ["minrtt", "roundrobin", "weighted", "sttf"] {
        assert_eq!(inside(&LINUX_6_12_117, scheduler), 0, "{scheduler}");
    }
    assert!(inside(&MPTCP_0_96_LINUX_5_4_188, "minrtt") > 0);
}

/// Data that waits for a new subflow leaves behind the fourth ACK, not in its place (Linux 6.12:
/// `check_fully_established` sends it, the writer pushes after it).
#[test]
fn the_fourth_ack_leaves_before_data() {
    let settings = settings(&LINUX_6_12_117);
    let new = |end, addresses| Config {
        scheduler: Scheduler::find("roundrobin").expect("known"),
        ..config(&settings, PathManager::default(), addresses, end)
    };
    let mut net = join(Connection::client(new("client", 2)), Connection::server(new("server", 1)), two_paths([5, 5], 20));
    net.keep_log = true;
    net.client.open(net.now);
    net.server.offer(net.now, Bytes::MAX);
    net.run_until(Instant::ZERO + Duration::from_millis(200));
    let joined = net.log.iter().filter(|l| l.end == SERVER && l.path == PathId(1) && !l.segment.flags.has(polypath_wire::Flags::SYN));
    let lengths: Vec<u32> = joined.take(2).map(|l| l.segment.len).collect();
    assert!(lengths.len() == 2 && lengths[0] == 0 && lengths[1] > 0, "{lengths:?}");
}
