//! A few cases by hand, and any order of what can happen against a model.

use super::*;
use crate::tcp::sender::queue::SendQueue;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

/// So many segments of 100 bytes from sequence number 1 on.
fn board(segments: u32) -> Scoreboard {
    let mut board = Scoreboard::new(Seq::default());
    board.start(Seq::new(1));
    for number in 0..segments {
        board.sent(Sent { seq: Seq::new(1 + number * 100), len: 100, ..Sent::default() });
    }
    board
}

#[test]
fn three_quarters_of_a_cache_line_hold_a_segment() {
    assert!(size_of::<Sent>() <= 48, "{}", size_of::<Sent>());
}

#[test]
fn counts_what_is_in_the_network() {
    let mut board = board(5);
    board.mark_sacked(2);
    assert!(board.mark_lost(0));
    assert!(!board.mark_lost(0));
    assert_eq!(board.in_flight(), 3);
    board.mark_retransmitted(0, Instant::ZERO);
    assert_eq!(board.in_flight(), 4);
    assert!(board.head_if_acked(Seq::new(100)).is_none());
    assert!(board.head_if_acked(Seq::new(101)).is_some());
    board.pop_head();
    assert_eq!((board.in_flight(), board.lost_out(), board.retrans_out()), (3, 0, 0));
}

#[test]
fn finds_segments_by_sequence_number() {
    let board = board(5);
    assert_eq!(
        (board.index_of(Seq::new(1)), board.index_of(Seq::new(100)), board.index_of(Seq::new(101)), board.index_of(Seq::new(999))),
        (0, 0, 1, 5)
    );
}

#[test]
fn a_split_keeps_the_counts() {
    let mut board = board(2);
    board.mark_lost(0);
    board.split(0, 30);
    assert_eq!((board.packets_out(), board.lost_out()), (5, 4));
    assert_eq!(board.at(3).end(), Seq::new(101));
    assert_eq!(board.at(4).seq, Seq::new(101));
}

/// What a segment of the model is: too simple to be wrong, since everything is counted anew each
/// time.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Model {
    seq: Seq,
    len: u32,
    dsn: DataSeq,
    sacked: bool,
    lost: bool,
    retrans: bool,
    gso_first: bool,
    /// When it was retransmitted last.
    again_at: Option<Instant>,
    /// Where its mapping begins.
    mapping: u64,
}

impl Model {
    fn end(&self) -> Seq {
        self.seq + self.len
    }
}

/// A thing that happens to them; numbers choose segments and lengths, reduced to what there is.
#[derive(Copy, Clone, Debug)]
enum Step {
    /// So many bytes are accepted, contiguous in the data or after a gap.
    Accept(u32, bool),
    /// A segment leaves, and begins a burst or not.
    Send(bool),
    Sack(usize),
    Lose(usize),
    /// The first lost segment that waits leaves again.
    Retransmit,
    Split(usize, u32),
    /// Everything before a byte of this segment is acknowledged.
    Ack(usize, u32),
    FalseAlarm,
    ForgetSacks,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (1_u32..400, any::<bool>()).prop_map(|(len, gap)| Step::Accept(len, gap)),
        6 => any::<bool>().prop_map(Step::Send),
        3 => (0_usize..40).prop_map(Step::Sack),
        4 => (0_usize..40).prop_map(Step::Lose),
        4 => Just(Step::Retransmit),
        1 => (0_usize..40, 1_u32..100).prop_map(|(index, mss)| Step::Split(index, mss)),
        3 => (0_usize..8, 0_u32..100).prop_map(|(index, into)| Step::Ack(index, into)),
        1 => Just(Step::FalseAlarm),
        1 => Just(Step::ForgetSacks),
    ]
}

/// A queue and a scoreboard, the model of what was sent, and what waits as (data sequence number,
/// length).
struct Pair {
    queue: SendQueue,
    board: Scoreboard,
    sent: Vec<Model>,
    waiting: Vec<(u64, u32)>,
    next_dsn: u64,
    una: Seq,
    next_seq: Seq,
    now: Instant,
}

impl Pair {
    /// Sequence numbers wrap after `before_wrap` bytes.
    fn new(before_wrap: u32, keeps_buffers: bool) -> Self {
        let seq = Seq::new(0_u32.wrapping_sub(before_wrap));
        let mut queue = SendQueue::new(seq);
        queue.start(seq);
        queue.set_keeps_buffers(keeps_buffers);
        let mut board = Scoreboard::new(seq);
        board.start(seq);
        Self { queue, board, sent: Vec::new(), waiting: Vec::new(), next_dsn: 1000, una: seq, next_seq: seq, now: Instant::ZERO }
    }

    fn take(&mut self, step: Step) -> Result<(), TestCaseError> {
        self.now += polypath_base::Duration::from_millis(1);
        match step {
            Step::Accept(len, gap) => {
                self.next_dsn += u64::from(gap) * 5000;
                self.queue.push_mapping(DataSeq::new(self.next_dsn), len, u32::MAX);
                self.waiting.push((self.next_dsn, len));
                self.next_dsn += u64::from(len);
            }
            Step::Send(gso_first) => self.send(gso_first)?,
            Step::Sack(index) => {
                if let Some(index) = self.one(index, |m| !m.sacked) {
                    let was = self.board.mark_sacked(index);
                    prop_assert_eq!((was.is_lost(), was.is_retrans()), (self.sent[index].lost, self.sent[index].retrans));
                    self.sent[index] = Model { sacked: true, lost: false, retrans: was.is_retrans() && !was.is_lost(), ..self.sent[index] };
                    self.bound(index);
                }
            }
            Step::Lose(index) => {
                if let Some(index) = self.one(index, |_| true) {
                    let m = &mut self.sent[index];
                    let is_news = !m.sacked && (!m.lost || m.retrans);
                    prop_assert_eq!(self.board.mark_lost(index), is_news);
                    if is_news {
                        (m.lost, m.retrans) = (true, m.retrans && !m.lost);
                    }
                }
            }
            Step::Retransmit => {
                let first = self.sent.iter().position(|m| m.lost && !m.retrans);
                prop_assert_eq!(self.board.next_lost(), first, "the hint hides nothing");
                if let Some(index) = first {
                    self.board.mark_retransmitted(index, self.now);
                    (self.sent[index].retrans, self.sent[index].again_at) = (true, Some(self.now));
                }
            }
            Step::Split(index, mss) => {
                if let Some(index) = self.one(index, |_| true) {
                    self.board.split(index, mss);
                    let whole = self.sent.remove(index);
                    let pieces = (0..whole.len).step_by(mss as usize).map(|at| Model {
                        seq: whole.seq + at,
                        len: mss.min(whole.len - at),
                        dsn: whole.dsn + u64::from(at),
                        gso_first: whole.gso_first && at == 0,
                        ..whole
                    });
                    self.sent.splice(index..index, pieces.collect::<Vec<_>>());
                }
            }
            Step::Ack(index, into) => self.ack(index, into)?,
            Step::FalseAlarm => {
                let in_probe = self.sent.get(1).map(|m| (m.seq, m.seq + m.len));
                self.board.unmark_lost_but(in_probe.as_slice());
                self.sent.iter_mut().enumerate().for_each(|(index, m)| m.lost &= index == 1);
            }
            Step::ForgetSacks => {
                self.board.forget_sacks();
                self.sent.iter_mut().for_each(|m| m.sacked = false);
            }
        }
        self.check()
    }

    /// What is sacked goes into the buffer of what is sacked before it, if that is of one mapping and length, and
    /// ends it otherwise.
    fn bound(&mut self, index: usize) {
        let joins =
            |before: &Model, after: &Model| before.sacked && !before.retrans && before.len == after.len && before.mapping == after.mapping;
        let joins_before = index > 0 && joins(&self.sent[index - 1], &self.sent[index]);
        if index > 0 {
            self.sent[index].gso_first = !joins_before;
        }
        if index + 1 < self.sent.len() {
            let joins_after = joins_before && self.sent[index + 1].sacked && joins(&self.sent[index], &self.sent[index + 1]);
            self.sent[index + 1].gso_first = !joins_after;
        }
    }

    fn one(&self, index: usize, fits: impl Fn(&Model) -> bool) -> Option<usize> {
        (!self.sent.is_empty()).then(|| index % self.sent.len()).filter(|&index| fits(&self.sent[index]))
    }

    /// A segment has at most 100 bytes, and of one mapping alone; where buffers are kept, of one
    /// buffer alone.
    fn send(&mut self, gso_first: bool) -> Result<(), TestCaseError> {
        let len = self.queue.next_new_len(100);
        prop_assert_eq!(len > 0, !self.waiting.is_empty());
        let Some(&(dsn, most)) = self.waiting.first() else { return Ok(()) };
        let whole = self
            .waiting
            .iter()
            .scan(dsn, |next, &(dsn, len)| (dsn == *next).then(|| (*next += u64::from(len), u64::from(len)).1))
            .sum::<u64>();
        let buffer = if self.queue.keeps_buffers() { u64::from(most) } else { whole };
        prop_assert_eq!(u64::from(len), buffer.min(100));
        let mut segment = self.queue.next_new(len);
        prop_assert_eq!((segment.seq, segment.len, segment.dsn.get()), (self.next_seq, len, dsn));
        segment.set_gso_first(gso_first);
        segment.at = self.now;
        self.board.sent(segment);
        self.sent.push(Model {
            seq: segment.seq,
            len,
            dsn: segment.dsn,
            sacked: false,
            lost: false,
            retrans: false,
            gso_first,
            again_at: None,
            mapping: segment.dsn.get(),
        });
        self.next_seq = segment.end();
        let mut left = len;
        while left > 0 {
            let first = &mut self.waiting[0];
            let taken = first.1.min(left);
            *first = (first.0 + u64::from(taken), first.1 - taken);
            left -= taken;
            if first.1 == 0 {
                self.waiting.remove(0);
            }
        }
        Ok(())
    }

    fn ack(&mut self, index: usize, into: u32) -> Result<(), TestCaseError> {
        let Some(index) = self.one(index, |_| true) else { return Ok(()) };
        let ack = self.sent[index].seq + into.min(self.sent[index].len);
        if let Some((first, last, counts)) = self.board.plain_acked(ack) {
            prop_assert_eq!(first.seq, self.sent[0].seq);
            let (end, count) = (last.end(), counts[0] as usize);
            prop_assert_eq!(end, self.sent[count - 1].end());
            self.board.pop_plain(counts, end);
            self.sent.drain(..count);
            self.una = end;
        }
        while self.board.head_if_acked(ack).is_some() {
            self.una = self.sent.remove(0).end();
            self.board.pop_head();
        }
        prop_assert!(self.sent.first().is_none_or(|m| m.end().after(ack)));
        self.board.trim_head(ack);
        if let Some(first) = self.sent.first_mut().filter(|m| ack.after(m.seq)) {
            let (by, whole) = (ack.distance(first.seq), first.len);
            (first.seq, first.len, first.dsn) = (ack, first.len - by, first.dsn + u64::from(by));
            self.una = ack;
            self.regroup(whole);
        }
        Ok(())
    }

    /// What is left of the first segment's buffer is segments of one length from there on.
    fn regroup(&mut self, whole: u32) {
        let is_one = |a: &Model, b: &Model| {
            let marks = |m: &Model| (m.sacked, m.lost, m.retrans, m.mapping);
            !b.gso_first && a.again_at == b.again_at && marks(a) == marks(b)
        };
        let run = 1 + self.sent.windows(2).take_while(|pair| is_one(&pair[0], &pair[1])).count();
        let mss = self.sent[1..run].iter().fold(whole, |most, m| most.max(m.len));
        let (first, len) = (self.sent[0], self.sent[..run].iter().map(|m| m.len).sum::<u32>());
        let pieces = (0..len).step_by(mss as usize).map(|at| Model {
            seq: first.seq + at,
            len: mss.min(len - at),
            dsn: first.dsn + u64::from(at),
            gso_first: first.gso_first && at == 0,
            ..first
        });
        self.sent.splice(..run, pieces.collect::<Vec<_>>());
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let (queue, board, sent) = (&self.queue, &self.board, &self.sent);
        let count = |is: fn(&Model) -> bool| sent.iter().filter(|m| is(m)).count() as u32;
        let (sacked, lost, retrans) = (count(|m| m.sacked), count(|m| m.lost), count(|m| m.retrans));
        prop_assert_eq!((board.packets_out(), board.sacked_out(), board.lost_out()), (sent.len() as u32, sacked, lost));
        prop_assert_eq!((board.retrans_out(), board.in_flight()), (retrans, sent.len() as u32 + retrans - sacked - lost));
        let begun_before = sent.first().is_some_and(|m| !m.gso_first);
        prop_assert_eq!(board.bursts_out(), count(|m| m.gso_first) + u32::from(begun_before));
        let waiting = self.waiting.iter().map(|(_, len)| len).sum::<u32>();
        prop_assert_eq!((queue.unsent(), queue.write_seq().distance(board.una())), (waiting, self.next_seq.distance(self.una) + waiting));
        for (index, m) in sent.iter().enumerate() {
            let is = board.at(index);
            prop_assert_eq!((is.seq, is.len, is.dsn), (m.seq, m.len, m.dsn));
            prop_assert_eq!((is.is_sacked(), is.is_lost(), is.is_retrans()), (m.sacked, m.lost, m.retrans));
            prop_assert_eq!((board.index_of(m.seq), board.index_of(m.end() - 1)), (index, index));
        }
        prop_assert_eq!(board.index_of(self.next_seq), sent.len());
        // Every byte that is not acknowledged stands in the mappings once, in order.
        let bytes =
            |ranges: &mut dyn Iterator<Item = (u64, u32)>| ranges.flat_map(|(dsn, len)| dsn..dsn + u64::from(len)).collect::<Vec<_>>();
        let expected = bytes(&mut sent.iter().map(|m| (m.dsn.get(), m.len)).chain(self.waiting.iter().copied()));
        prop_assert_eq!(bytes(&mut board.mappings().chain(queue.mappings()).map(|(dsn, len)| (dsn.get(), len))), expected);
        Ok(())
    }
}

proptest! {
    #[test]
    fn counts_hints_and_places_are_those_of_a_plain_list(
        before_wrap in 0_u32..2000,
        keeps_buffers in any::<bool>(),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut pair = Pair::new(before_wrap, keeps_buffers);
        for step in steps {
            pair.take(step)?;
        }
    }
}
