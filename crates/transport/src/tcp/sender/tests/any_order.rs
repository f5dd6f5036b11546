//! Any order of what can happen.

use super::*;
use crate::harness::any_kernel;
use proptest::prelude::*;

/// Numbers choose segments, reduced to those that there are.
#[derive(Copy, Clone, Debug)]
enum Step {
    Send(u32),
    /// The first that is missing arrives.
    Fill,
    /// So many places above the first that is missing one arrives.
    Arrive(u32),
    /// A duplicate of one that arrived is reported.
    Duplicate(u32),
    /// Milliseconds pass.
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1..20_u32).prop_map(Step::Send),
        Just(Step::Fill),
        (0..30_u32).prop_map(Step::Arrive),
        (0..30_u32).prop_map(Step::Duplicate),
        (1..400_u64).prop_map(Step::Wait),
    ]
}

/// What the peer has: too simple to be wrong.
#[derive(Default)]
struct Peer {
    arrived: Vec<bool>,
}

impl Peer {
    fn next(&self) -> u32 {
        self.arrived.iter().take_while(|&&here| here).count() as u32
    }

    fn take(&mut self, number: u32, sent: u32) {
        self.arrived.resize(sent as usize, false);
        if let Some(here) = self.arrived.get_mut(number as usize) {
            *here = true;
        }
    }

    /// Up to `most` ranges that arrived beyond the first that is missing.
    fn ranges(&self, most: usize) -> Vec<(u32, u32)> {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for number in (self.next()..self.arrived.len() as u32).filter(|&number| self.arrived[number as usize]) {
            match ranges.last_mut() {
                Some(last) if last.1 == number => last.1 += 1,
                _ => ranges.push((number, number + 1)),
            }
        }
        ranges.truncate(most);
        ranges
    }
}

fn sent(test: &TestSender) -> u32 {
    test.tx.snd_nxt().distance(begins(0)) / MSS
}

fn check(test: &TestSender) {
    let board = &test.tx.scoreboard;
    let count = |is: fn(&scoreboard::Sent) -> bool| (0..board.len()).filter(|&index| is(board.at(index))).count() as u32;
    assert_eq!([board.sacked_out(), board.lost_out()], [count(scoreboard::Sent::is_sacked), count(scoreboard::Sent::is_lost)]);
    // What a timeout sends again may be in the network twice.
    assert!(board.retrans_out() >= count(scoreboard::Sent::is_retrans) && (board.len() > 0 || board.retrans_out() == 0));
    assert!(test.tx.flow.cwnd >= 1 && test.tx.flow.ssthresh >= 2);
    assert_eq!(test.tx.scoreboard.packets_out() == 0, test.tx.snd_una() == test.tx.snd_nxt());
    let waits = test.tx.scoreboard.packets_out() > 0;
    assert!(!waits || test.tx.timers.is_armed(Timer::Retransmission), "nothing in the network is forgotten");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// Whatever is lost, late or reported twice: counters are right, a timer runs, and all arrives
    /// in the end.
    #[test]
    fn all_arrives_in_the_end(steps in proptest::collection::vec(step(), 1..60), probes: bool, kernel in any_kernel()) {
        let mut test = TestSender::with(|settings| {
            settings.tail_loss_probe = probes;
            settings.stack = kernel.0;
        });
        let mut peer = Peer::default();
        let mut ms = 0;
        for step in steps {
            match step {
                Step::Send(segments) => drop(test.send(segments)),
                Step::Fill => peer.take(peer.next(), sent(&test)),
                Step::Arrive(above) => peer.take(peer.next() + above, sent(&test)),
                Step::Duplicate(number) if number < peer.next() => {
                    let mut ranges = vec![(number, number + 1)];
                    ranges.extend(peer.ranges(2));
                    test.sack(peer.next(), &ranges);
                }
                Step::Duplicate(_) => {}
                Step::Wait(wait) => {
                    ms += wait;
                    test.at(ms);
                }
            }
            test.sack(peer.next(), &peer.ranges(3));
            check(&test);
        }
        // Now the network loses nothing more.
        for _ in 0..400 {
            if test.tx.everything_acked() {
                break;
            }
            (0..sent(&test)).for_each(|number| peer.take(number, sent(&test)));
            test.sack(peer.next(), &[]);
            check(&test);
            ms += 100;
            test.at(ms);
        }
        prop_assert!(test.tx.everything_acked(), "{:?}", test.tx);
    }
}
