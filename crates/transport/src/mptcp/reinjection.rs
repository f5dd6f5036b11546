//! What a subflow has goes on another one too: reinjection, and opportunistic retransmission.
//!
//! Linux sends everything unacknowledged again when a subflow closes or goes stale. MPTCP 0.96
//! reinjects what a subflow had when it times out, and, when the peer's window or the send buffer
//! holds the connection up, sends the oldest segment again on a fast subflow and halves the window
//! of the slow one.

use super::sender::Piece;
use super::{Connection, Phase};
use crate::tcp::CaState;
use polypath_base::{DataSeq, Instant, Segments};
use polypath_sched::{Scheduler, SubflowSet};

impl Connection {
    #[inline(never)]
    pub(super) fn schedule_reinjection(&mut self, now: Instant, piece: Piece) -> bool {
        let Some(i) = Scheduler::pick_reinjection(self.work.views(), piece.tried) else { return false };
        self.tx.reinject.pop_front();
        debug_assert!(!piece.end().after(self.tx.next), "only what was sent goes again");
        if !piece.end().after(self.tx.una) {
            // It was acknowledged behind a longer one meanwhile.
            return true;
        }
        let dsn = piece.dsn.max(self.tx.una);
        let len = piece.end().distance(dsn) as u32;
        self.tx.reinjected_bytes += u64::from(len);
        self.mark_tried(dsn, len, i);
        self.enqueue_on_subflow(now, i, dsn, len);
        true
    }

    pub(super) fn mark_tried(&mut self, dsn: DataSeq, len: u32, i: usize) {
        let end = dsn + u64::from(len);
        let first = self.tx.pieces.partition_point(|p| !p.end().after(dsn));
        for piece in self.tx.pieces.iter_mut().skip(first).take_while(|p| p.dsn.before(end)) {
            piece.tried.insert(i);
        }
    }

    /// Nothing waits but the writer does: the oldest data goes again on a fast subflow
    /// (opportunistic retransmission).
    #[inline(never)]
    pub(super) fn opportunistic_retransmit(&mut self, now: Instant) {
        if self.tx.sndbuf.saturating_sub(self.tx.queued()) >= self.tx.queued() >> 1 {
            return;
        }
        self.refresh_view();
        if let Some(i) = Scheduler::pick_reinjection(self.work.views(), SubflowSet::EMPTY) {
            self.retransmit_head(now, i, false);
        }
    }

    /// Raiciu et al. 2012 ("How hard can it be?", section 4.2): the segment that holds up the
    /// window goes again on subflow `fast`, and the slow subflow that has it is penalised.
    /// `by_window`: the peer's window is the reason, not our buffer.
    #[inline(never)]
    pub(super) fn retransmit_head(&mut self, now: Instant, fast: usize, by_window: bool) -> bool {
        let Some(&head) = self.tx.pieces.front() else { return false };
        let carriers = head.tried.without(fast);
        if by_window || self.tx.queued() >= self.tx.sndbuf {
            self.scheduler.on_blocked();
            debug_assert!(!carriers.has(fast), "who takes over is not penalised");
            self.penalise(now, fast, carriers);
        }
        if head.tried.has(fast) {
            return false;
        }
        // As they were before the penalty.
        let views = self.work.last_views();
        let srtt = |i: usize| views[i].srtt.as_duration();
        // Worth it only if the carrier is stuck with a tiny window or more than four times as slow.
        let mut worth = false;
        for i in carriers.iter() {
            if views[i].cwnd <= Segments::new(4) {
                worth = true;
                break;
            }
            worth = srtt(fast) * 4 < srtt(i);
            if !worth {
                break;
            }
        }
        let Some(share) = Scheduler::share(&views[fast]).filter(|_| worth) else { return false };
        debug_assert!(head.end().after(self.tx.una), "a piece that is acknowledged is dropped");
        let dsn = head.dsn.max(self.tx.una);
        let left = head.end().distance(dsn) as u32;
        let len = left.min(share.as_u32());
        // What does not fit stays a piece of its own.
        self.tx.pieces[0] = Piece { dsn, len, tried: head.tried.with(fast) };
        if len < left {
            self.tx.pieces.insert(1, Piece { dsn: dsn + u64::from(len), len: left - len, tried: head.tried });
        }
        self.tx.reinjected_bytes += u64::from(len);
        self.enqueue_on_subflow(now, fast, dsn, len);
        true
    }

    /// The windows of those among `carriers` that are slower than `fast` are halved, at most once
    /// in a round trip of `fast`.
    fn penalise(&mut self, now: Instant, fast: usize, carriers: SubflowSet) {
        let srtt = self.work.views()[fast].srtt.as_duration();
        if self.subflows[fast].penalised_at.is_some_and(|at| now.since(at) < srtt) {
            return;
        }
        for i in carriers.iter() {
            let tx = &mut self.subflows[i].socket.tx;
            if srtt < self.work.last_views()[i].srtt.as_duration() && tx.ca_state() == CaState::Open {
                tx.penalise();
                self.work.touch(i);
                self.subflows[fast].penalised_at = Some(now);
            }
        }
    }

    /// A subflow had a retransmission timeout.
    pub(super) fn on_subflow_timeout(&mut self, i: usize) {
        if self.settings.stack.reinjects_on_timeout && self.subflows[i].confirmed {
            self.reinject_all_of(i);
            self.subflows[i].potentially_failed = true;
        }
    }

    /// All that a subflow has and the peer has not acknowledged goes to the others.
    #[cold]
    pub(super) fn reinject_all_of(&mut self, i: usize) {
        if self.phase != Phase::Established || !self.scheduler.reinjects() {
            return;
        }
        if !self.settings.stack.reinjects_pieces {
            self.tx.send_all_again();
            return;
        }
        for (dsn, len) in self.subflows[i].socket.tx.unacked_mappings() {
            // Once is enough: what another subflow has already is not reinjected again.
            if self.tx.tried(dsn).without(i).is_empty() {
                self.tx.queue_reinjection(dsn, len.as_u32(), SubflowSet::of(i));
            }
        }
    }
}
