//! Forward error correction: so many packets in a row are a block, and behind it go parities, each
//! of which stands for any one packet of the block that is lost.
//!
//! Here is which packets are a block, when it ends, and which lost ones can be had back. What a
//! parity is made of is the driver's business: the daemon computes it of bytes, the simulator keeps
//! copies of packets. So [`crate::Endpoint::poll_block`] says that a block has ended, and the
//! driver answers with [`crate::Endpoint::handle_parity`] for each of its parities, before it hands
//! over the next packet; [`crate::Endpoint::poll_recovery`] says which packets the parities that
//! came stand for, and the driver answers with [`crate::Endpoint::handle_recovered`].
//!
//! A parity takes the path that the distribution would give the next packet, so a path that fails
//! takes no more of a block with it than of packets. Parities carry no numbers of their own: an end
//! that knows none drops them, and misses nothing.
//!
//! What is remembered of a hostile peer is bounded: the last [`REMEMBERED`] numbers, and
//! [`MOST_PARITIES`] parities.

use polypath_base::{Duration, Instant, Seq, counters};
pub use polypath_wire::parity::{MOST_PACKETS, Repr as Parity};
use std::collections::VecDeque;

/// The numbers of so many packets that came are remembered, and by who makes packets of parities
/// the packets: number n in the place n modulo this.
pub const REMEMBERED: usize = 4096;
/// So many parities wait for packets of their blocks at most.
const MOST_PARITIES: usize = 512;
/// A block whose packets do not come for so long is given up; and what came longer ago may be of a
/// peer that has started anew since, so that parities of its numbers bring nothing back.
const EXPIRY: Duration = Duration::from_secs(1);

/// How many packets are a block, and what protects it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct FecConfig {
    /// Packets of a block, 1 to [`MOST_PACKETS`].
    pub packets: u8,
    /// Parities of a block, 1 to `packets`: so many lost packets of it can be had back.
    pub parities: u8,
    /// A block ends so long after its first packet, however many it has: above zero, and at most
    /// [`FecConfig::LONGEST`].
    pub timeout: Duration,
}

impl FecConfig {
    /// The longest that a block may last.
    pub const LONGEST: Duration = Duration::from_millis(500);

    /// What blocks can be.
    pub fn is_sound(&self) -> bool {
        (1..=MOST_PACKETS).contains(&self.packets)
            && (1..=self.packets).contains(&self.parities)
            && self.timeout > Duration::ZERO
            && self.timeout <= Self::LONGEST
    }
}

counters! {
    /// What forward error correction did at an end.
    pub struct FecCounters {
        parities_sent: Packets, "parity packets sent";
        parities_received: Packets, "parity packets that came";
        recovered: Packets, "missing packets that parities brought back";
        recovered_late: Packets, "packets dropped because parities had brought them back before they came";
        unrecovered_blocks: Times, "blocks of which more packets were missing than parities came";
    }
}

/// What the parities of a block can do: the missing packets are as many as they or fewer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery<P> {
    /// One of its parities.
    pub block: Parity,
    /// Numbers of the packets that they stand for; all others of the block have come. None: the
    /// parities are of no use any more.
    pub missing: Vec<Seq>,
    /// Those that came, each with its number in the block.
    pub parities: Vec<(u8, P)>,
}

/// The sender's half.
#[derive(Debug)]
pub(crate) struct Blocks {
    config: FecConfig,
    /// The first number of the block that has not ended, its packets, and when it began.
    open: Option<(Seq, u8, Instant)>,
    ended: Option<Parity>,
}

impl Blocks {
    /// None if the configuration is not sound.
    pub(crate) fn new(config: FecConfig) -> Option<Self> {
        config.is_sound().then_some(Self { config, open: None, ended: None })
    }

    /// A packet has got its number.
    pub(crate) fn on_packet(&mut self, now: Instant, seq: Seq) {
        debug_assert!(self.ended.is_none(), "a block's parities are made before the next packet is handed over");
        let (first, packets, since) = self.open.unwrap_or((seq, 0, now));
        debug_assert_eq!(seq, first + u32::from(packets), "the numbers of a block follow one another");
        self.open = Some((first, packets + 1, since));
        if packets + 1 == self.config.packets {
            self.end();
        }
    }

    /// Ends a block that has lasted long enough.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.due() <= now {
            self.end();
        }
    }

    fn end(&mut self) {
        if let Some((first, packets, _)) = self.open.take() {
            self.ended = Some(Parity { index: 0, packets, parities: self.config.parities, first: first.get() });
        }
    }

    /// When the block ends whose packets are not all there; never: [`Instant::NEVER`].
    pub(crate) fn due(&self) -> Instant {
        self.open.map_or(Instant::NEVER, |(.., since)| since + self.config.timeout)
    }

    /// A block that has ended, as its first parity.
    pub(crate) fn poll_block(&mut self) -> Option<Parity> {
        self.ended.take()
    }
}

#[derive(Copy, Clone, Debug)]
struct Came {
    seq: Seq,
    at: Instant,
    recovered: bool,
}

#[derive(Debug)]
struct Waiting<P> {
    block: Parity,
    since: Instant,
    parities: Vec<(u8, P)>,
}

/// The receiver's half.
#[derive(Debug)]
pub(crate) struct Recoverer<P> {
    /// Packets that came of late, by number.
    came: Vec<Option<Came>>,
    /// Blocks of which packets are missing and parities have come, the one that has waited for
    /// longest first.
    waiting: VecDeque<Waiting<P>>,
    /// Parities of those.
    parities: usize,
    ready: VecDeque<Recovery<P>>,
    pub(crate) counters: FecCounters,
}

impl<P> Recoverer<P> {
    pub(crate) fn new() -> Self {
        Self {
            came: vec![None; REMEMBERED],
            waiting: VecDeque::new(),
            parities: 0,
            ready: VecDeque::new(),
            counters: FecCounters::default(),
        }
    }

    fn find(&self, seq: Seq) -> Option<Came> {
        self.came[seq.get() as usize % REMEMBERED].filter(|came| came.seq == seq)
    }

    fn note(&mut self, now: Instant, seq: Seq, recovered: bool) {
        self.came[seq.get() as usize % REMEMBERED] = Some(Came { seq, at: now, recovered });
    }

    /// A packet has come; false if its parities have brought it already.
    pub(crate) fn on_packet(&mut self, now: Instant, seq: Seq) -> bool {
        if self.find(seq).is_some_and(|came| came.recovered && now.since(came.at) < EXPIRY) {
            self.counters.recovered_late += 1;
            return false;
        }
        self.note(now, seq, false);
        self.expire(now);
        if let Some(place) = self.waiting.iter().position(|waiting| waiting.block.covers(seq.get())) {
            self.try_at(now, place);
        }
        true
    }

    /// A parity has come.
    pub(crate) fn on_parity(&mut self, now: Instant, parity: Parity, payload: P) {
        self.counters.parities_received += 1;
        self.expire(now);
        let of = |waiting: &Waiting<P>| Parity { index: parity.index, ..waiting.block } == parity;
        let place = match self.waiting.iter().position(of) {
            // One that came before says nothing new.
            Some(place) if self.waiting[place].parities.iter().any(|(index, _)| *index == parity.index) => {
                self.ready.push_back(Recovery { block: parity, missing: Vec::new(), parities: vec![(parity.index, payload)] });
                return;
            }
            Some(place) => place,
            None => {
                self.waiting.push_back(Waiting { block: parity, since: now, parities: Vec::new() });
                self.waiting.len() - 1
            }
        };
        self.waiting[place].parities.push((parity.index, payload));
        self.parities += 1;
        self.try_at(now, place);
        while self.parities > MOST_PARITIES {
            self.give_up_first();
        }
    }

    /// Uses the parities of a block, if they do.
    fn try_at(&mut self, now: Instant, place: usize) {
        let Waiting { block, parities, .. } = &self.waiting[place];
        let numbers = (0..block.packets).map(|n| Seq::new(block.first) + u32::from(n));
        let mut missing: Vec<Seq> = numbers.clone().filter(|&seq| self.find(seq).is_none()).collect();
        if missing.len() > parities.len() {
            return;
        }
        if numbers.filter_map(|seq| self.find(seq)).any(|came| now.since(came.at) >= EXPIRY) {
            missing.clear();
        }
        let Some(Waiting { block, parities, .. }) = self.waiting.remove(place) else { return };
        for &seq in &missing {
            self.note(now, seq, true);
        }
        self.parities -= parities.len();
        self.ready.push_back(Recovery { block, missing, parities });
    }

    fn expire(&mut self, now: Instant) {
        while self.waiting.front().is_some_and(|first| now.since(first.since) >= EXPIRY) {
            self.give_up_first();
        }
    }

    fn give_up_first(&mut self) {
        let Some(Waiting { block, parities, .. }) = self.waiting.pop_front() else { return };
        self.parities -= parities.len();
        self.counters.unrecovered_blocks += 1;
        self.ready.push_back(Recovery { block, missing: Vec::new(), parities });
    }

    pub(crate) fn poll_recovery(&mut self) -> Option<Recovery<P>> {
        self.ready.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(n: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(n)
    }

    const TIMEOUT: Duration = Duration::from_millis(10);

    #[test]
    fn a_block_ends_with_its_last_packet_or_in_time() {
        let mut blocks = Blocks::new(FecConfig { packets: 3, parities: 2, timeout: TIMEOUT }).unwrap();
        assert_eq!(blocks.due(), Instant::NEVER);
        for n in [u32::MAX, 0, 1] {
            assert_eq!(blocks.poll_block(), None);
            blocks.on_packet(ms(1), Seq::new(n));
        }
        assert_eq!(blocks.poll_block(), Some(Parity { index: 0, packets: 3, parities: 2, first: u32::MAX }), "numbers may wrap");
        blocks.on_packet(ms(5), Seq::new(2));
        blocks.on_packet(ms(9), Seq::new(3));
        assert_eq!(blocks.due(), ms(15));
        blocks.handle_timeout(ms(14));
        assert_eq!(blocks.poll_block(), None);
        blocks.handle_timeout(ms(15));
        assert_eq!((blocks.poll_block(), blocks.due()), (Some(Parity { index: 0, packets: 2, parities: 2, first: 2 }), Instant::NEVER));
    }

    #[test]
    fn senseless_blocks_are_refused() {
        let sound = FecConfig { packets: 10, parities: 2, timeout: TIMEOUT };
        assert!(sound.is_sound());
        for wrong in [
            FecConfig { packets: 0, ..sound },
            FecConfig { packets: 65, ..sound },
            FecConfig { parities: 0, ..sound },
            FecConfig { parities: 11, ..sound },
            FecConfig { timeout: Duration::ZERO, ..sound },
            FecConfig { timeout: Duration::from_secs(1), ..sound },
        ] {
            assert!(Blocks::new(wrong).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn nothing_is_made_of_what_came_long_ago() {
        let mut end = Recoverer::new();
        for n in [0, 1] {
            assert!(end.on_packet(ms(0), Seq::new(n)));
        }
        // The peer has started anew, or the parity is late.
        end.on_packet(ms(2000), Seq::new(0));
        end.on_parity(ms(2001), Parity { index: 0, packets: 3, parities: 1, first: 0 }, ());
        assert_eq!(end.poll_recovery().map(|recovery| (recovery.missing, recovery.parities.len())), Some((vec![], 1)));
    }

    #[test]
    fn a_block_that_lacks_too_much_is_given_up_and_counted() {
        let mut end = Recoverer::new();
        end.on_packet(ms(0), Seq::new(0));
        end.on_parity(ms(0), Parity { index: 0, packets: 3, parities: 1, first: 0 }, 'a');
        assert_eq!(end.poll_recovery(), None);
        end.on_packet(ms(1000), Seq::new(7));
        let given_up = end.poll_recovery().expect("its time is over");
        assert_eq!((given_up.missing, given_up.parities, end.counters.unrecovered_blocks), (vec![], vec![(0, 'a')], 1));
    }

    proptest! {
        /// Whatever is lost of a block and its parities, and in whatever order the rest comes: as
        /// soon as as many have come as it has packets, all are there, each once; before that, none
        /// but those that came.
        #[test]
        fn any_of_a_block_and_its_parities_bring_back_the_rest(
            packets in 1..=MOST_PACKETS, parities in 1..6_u8, first: u32, order in any::<prop::sample::Index>(), seed: u64, lost in 0..8_usize,
        ) {
            let mut come: Vec<u8> = (0..packets + parities).collect();
            // A shuffle that is the same for the same numbers.
            let mut random = seed | 1;
            for n in (1..come.len()).rev() {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(order.index(97) as u64);
                come.swap(n, (random >> 33) as usize % (n + 1));
            }
            come.truncate(come.len().saturating_sub(lost));
            let mut end = Recoverer::new();
            let (mut there, mut back) = (std::collections::BTreeSet::new(), 0);
            for (number, piece) in come.iter().enumerate() {
                if *piece < packets {
                    let fresh = end.on_packet(ms(1), Seq::new(first) + u32::from(*piece));
                    prop_assert_eq!(fresh, there.insert(*piece), "one that was brought back is known");
                } else {
                    end.on_parity(ms(1), Parity { index: *piece - packets, packets, parities, first }, *piece);
                }
                while let Some(recovery) = end.poll_recovery() {
                    prop_assert!(recovery.missing.len() <= recovery.parities.len());
                    back += recovery.missing.len();
                    for seq in recovery.missing {
                        prop_assert!(recovery.block.covers(seq.get()) && there.insert((seq.get().wrapping_sub(first)) as u8), "none twice");
                    }
                }
                let enough = number + 1 >= usize::from(packets);
                prop_assert!(there.len() == usize::from(packets) || !enough, "{} of {}", there.len(), packets);
                prop_assert!(back == 0 || enough, "no fewer than the packets of a block bring any back");
            }
        }

        /// Whatever parities a hostile peer sends, few are kept, and each is given back.
        #[test]
        fn parities_of_a_hostile_peer_do_no_harm(events in prop::collection::vec((0..2000_u64, 0..5_u32, any::<u32>(), 0..=64_u8, 0..=64_u8, any::<u8>()), 1..900)) {
            let mut end = Recoverer::new();
            let (mut now, mut kept) = (0, 0_usize);
            for (wait, near, number, packets, parities, index) in events {
                now += wait / 1900;
                let first = if near == 0 { number } else { near * 3 };
                let parity = Parity { index, packets, parities, first };
                if parity.is_sound() {
                    end.on_parity(ms(now), parity, ());
                    kept += 1;
                } else {
                    end.on_packet(ms(now), Seq::new(first));
                }
                while let Some(recovery) = end.poll_recovery() {
                    kept -= recovery.parities.len();
                }
                prop_assert_eq!(kept, end.parities);
                prop_assert!(kept <= MOST_PARITIES && end.came.len() == REMEMBERED);
            }
        }
    }
}
