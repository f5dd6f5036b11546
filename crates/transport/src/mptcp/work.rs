//! What a connection has yet to do for its subflows, and what it keeps of them from one event to
//! the next.
//!
//! Code that changes a subflow says so here: [`PendingWork::mark`] if it may have something to
//! send, [`PendingWork::touch`] if only a scheduler would notice. Each thing that is kept has one
//! rule for when it is brought up to date:
//!
//! - who may have something to send: a subflow leaves the set once it was asked and has nothing
//!   ([`PendingWork::on_quiet`]);
//! - the schedulers' views: before a scheduler is asked ([`PendingWork::refresh_views`]);
//! - when a subflow's timers are due: when it has nothing to send. The floor lies at or below all
//!   of them, and moves up only in ([`PendingWork::due_before`]);
//! - the siblings of coupled congestion control: when a subflow has nothing to send, timed out or
//!   closed, as long as the connection is a sender.

use crate::tcp::Context;
use polypath_base::{Bytes, Instant};
use polypath_cc as cc;
use polypath_sched::{PathView, SubflowSet};

#[derive(Debug)]
pub(super) struct PendingWork {
    /// May have something to send.
    ready: SubflowSet,
    /// The one that sends first: on which a segment came last, if that is so.
    answers: u8,
    is_answer: bool,
    /// Their views are out of date.
    touched: SubflowSet,
    /// As many as there are subflows, as in `due`.
    views: Vec<PathView>,
    /// When something is due on each, as of when it last had nothing to send.
    due: Vec<Instant>,
    /// No entry of `due` is earlier.
    due_floor: Instant,
    /// The congestion control is coupled.
    is_coupled: bool,
    /// None before the connection is a sender.
    siblings: Option<Box<cc::Siblings>>,
    /// Once all have sent, the connection pushes again.
    push_again: bool,
    /// Once all have sent, the DATA_FIN leaves.
    fin_waits: bool,
    /// The first write is on its way, and the connection has yet to take over its subflow's send
    /// buffer ([`crate::stack::Stack::first_write_in_first_buffer`]).
    first_write_leaves: bool,
    /// The subflow that got the last burst, and what is left of it
    /// ([`crate::stack::Stack::burst_goes_on`]).
    burst: Option<(usize, Bytes)>,
    /// They got data before the scheduler was last asked, and their timers run once that has left:
    /// then they count for [`super::sender::Tx::rtx_interval`].
    sends_first: SubflowSet,
}

impl PendingWork {
    pub(super) fn new(coupled: bool) -> Self {
        Self {
            ready: SubflowSet::EMPTY,
            answers: 0,
            is_answer: false,
            touched: SubflowSet::EMPTY,
            views: Vec::new(),
            due: Vec::new(),
            due_floor: Instant::NEVER,
            is_coupled: coupled,
            siblings: None,
            push_again: false,
            fin_waits: false,
            first_write_leaves: false,
            burst: None,
            sends_first: SubflowSet::EMPTY,
        }
    }

    /// The connection has one more subflow. `wins_ties`: see [`PathView::wins_ties`].
    pub(super) fn add(&mut self, wins_ties: bool) {
        self.views.push(PathView { wins_ties, ..PathView::default() });
        self.due.push(Instant::NEVER);
        if let Some(siblings) = &mut self.siblings {
            siblings.push(cc::Sibling::default());
        }
    }

    // Who may send.

    /// Something happened on a subflow: it may have something to send, and its view is out of date.
    #[inline]
    pub(super) fn mark(&mut self, i: usize) {
        self.set_ready(i);
        self.touch(i);
    }

    /// A subflow may have something to send, and nothing that a scheduler sees has changed.
    #[inline]
    pub(super) fn set_ready(&mut self, i: usize) {
        debug_assert!(i < self.views.len(), "subflow {i} of {}", self.views.len());
        self.ready.insert(i);
    }

    /// A segment comes on a subflow: it sends before the others, which another softirq serves (Linux:
    /// `mptcp_subflow_delegate`).
    #[inline]
    pub(super) fn comes_first(&mut self, i: usize) {
        (self.answers, self.is_answer) = (i as u8, true);
    }

    /// What follows is no answer: the lower number sends first.
    #[inline]
    pub(super) fn none_comes_first(&mut self) {
        (self.answers, self.is_answer) = (0, false);
    }

    /// The first that got data sends before another one gets any (Linux: `mptcp_push_release`).
    #[cold]
    pub(super) fn got_data_first(&mut self, i: usize) {
        if !self.is_answer {
            self.answers = i as u8;
        }
    }

    /// The next one that may have something to send.
    #[inline]
    pub(super) fn ready(&self) -> Option<usize> {
        if self.ready.has(usize::from(self.answers)) { Some(usize::from(self.answers)) } else { self.ready.first() }
    }

    /// A subflow has nothing more to send for now, and this is when something is due on it.
    #[inline]
    pub(super) fn on_quiet(&mut self, i: usize, due: Instant) {
        self.ready.remove(i);
        self.set_due(i, due);
    }

    /// Once all have sent, the connection pushes again.
    #[inline]
    pub(super) fn push_again(&mut self) {
        self.push_again = true;
    }

    /// All have sent: does the connection push again?
    #[inline]
    pub(super) fn take_push(&mut self) -> bool {
        std::mem::take(&mut self.push_again)
    }

    /// Once all have sent, there is something to do for the connection.
    #[inline]
    pub(super) fn goes_on(&self) -> bool {
        self.push_again | self.fin_waits | self.first_write_leaves
    }

    /// Once all have sent, the DATA_FIN leaves.
    #[cold]
    pub(super) fn await_fin(&mut self) {
        self.fin_waits = true;
    }

    /// The DATA_FIN waits for the others.
    #[inline]
    pub(super) fn fin_waits(&self) -> bool {
        self.fin_waits
    }

    /// All have sent: does the DATA_FIN leave?
    #[inline]
    pub(super) fn take_fin(&mut self) -> bool {
        std::mem::take(&mut self.fin_waits)
    }

    /// The first write leaves before the connection takes over its subflow's send buffer.
    pub(super) fn await_first_write(&mut self) {
        self.first_write_leaves = true;
    }

    /// All have sent, the first write among it if there was one: true if that has just made it.
    /// Then the connection pushes again.
    #[inline]
    pub(super) fn take_first_write(&mut self, has_written: bool) -> bool {
        let has_left = self.first_write_leaves & has_written;
        self.first_write_leaves &= !has_left;
        self.push_again |= has_left;
        has_left
    }

    // What schedulers see.

    /// The view of a subflow is out of date.
    #[inline]
    pub(super) fn touch(&mut self, i: usize) {
        debug_assert!(i < self.views.len(), "subflow {i} of {}", self.views.len());
        self.touched.insert(i);
    }

    /// Those whose views are out of date.
    #[inline]
    pub(super) fn touched(&self) -> SubflowSet {
        self.touched
    }

    /// Brings every view that is out of date up to date.
    #[inline(always)]
    pub(super) fn refresh_views(&mut self, mut refresh: impl FnMut(usize, &mut PathView)) {
        for i in std::mem::take(&mut self.touched).iter() {
            refresh(i, &mut self.views[i]);
        }
    }

    /// What schedulers see.
    #[inline]
    pub(super) fn views(&self) -> &[PathView] {
        debug_assert!(self.touched.is_empty(), "the views are brought up to date before a scheduler is asked: {:?}", self.touched);
        &self.views
    }

    /// The views as of when a scheduler was last asked; those of [`PendingWork::touched`] have
    /// changed since.
    #[inline]
    pub(super) fn last_views(&self) -> &[PathView] {
        &self.views
    }

    /// The subflow that has the last burst and what is left of it, where that goes on with the next
    /// data and the subflow may send.
    #[inline]
    pub(super) fn rest_of_burst(&self) -> Option<(usize, Bytes)> {
        self.burst.filter(|&(i, rest)| rest > Bytes::ZERO && self.views()[i].usable && self.views()[i].room)
    }

    /// So much is left of a subflow's burst.
    #[inline]
    pub(super) fn keep_burst(&mut self, i: usize, rest: Bytes) {
        self.burst = Some((i, rest));
    }

    /// What is left of a burst is forgotten.
    pub(super) fn end_burst(&mut self) {
        self.burst = None;
    }

    /// These have got data, and what they have leaves before the scheduler is asked again.
    #[inline]
    pub(super) fn set_sends_first(&mut self, subflows: SubflowSet) {
        self.sends_first = subflows;
    }

    /// Those that were to send first.
    #[inline]
    pub(super) fn sends_first(&self) -> SubflowSet {
        self.sends_first
    }

    /// They have sent, and their timers are counted.
    pub(super) fn take_sends_first(&mut self) -> SubflowSet {
        std::mem::take(&mut self.sends_first)
    }

    // When it is due.

    /// When something is due on a subflow.
    #[inline]
    pub(super) fn set_due(&mut self, i: usize, due: Instant) {
        self.due[i] = due;
        self.due_floor = self.due_floor.min(due);
    }

    /// The first time at which something is due on a subflow.
    pub(super) fn due(&self) -> Instant {
        self.due.iter().copied().fold(Instant::NEVER, Instant::min)
    }

    /// The first time at which something is due on a subflow or, by `other`, elsewhere, if that is
    /// before `limit`: most timeouts move later and later, and the next one is not looked for.
    #[inline]
    pub(super) fn due_before(&mut self, limit: Instant, other: Instant) -> Option<Instant> {
        debug_assert!(self.due_floor <= self.due(), "the floor lies below every subflow's timeout");
        if self.due_floor.min(other) >= limit {
            return None;
        }
        self.due_floor = self.due();
        Some(self.due_floor.min(other)).filter(|&due| due < limit)
    }

    // What coupled congestion control sees.

    /// What a subflow is told; the others only if its algorithm looks at them.
    #[inline(always)]
    pub(super) fn context(&mut self, now: Instant, own: usize) -> Context<'_> {
        let Some(siblings) = &mut self.siblings else { return Context::at(now) };
        siblings.set_own(own);
        Context { now, siblings: Some(siblings) }
    }

    /// The siblings' view of a subflow is brought up to date.
    #[inline]
    pub(super) fn set_sibling(&mut self, i: usize, sibling: impl FnOnce() -> cc::Sibling) {
        if self.is_coupled {
            let siblings = self.siblings.get_or_insert_with(|| some_siblings(self.views.len()));
            siblings.as_mut_slice()[i] = sibling();
        }
    }
}

/// So many of which nothing is known.
#[cold]
fn some_siblings(count: usize) -> Box<cc::Siblings> {
    let mut siblings = Box::<cc::Siblings>::default();
    (0..count).for_each(|_| _ = siblings.push(cc::Sibling::default()));
    siblings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(subflows: usize) -> PendingWork {
        let mut work = PendingWork::new(true);
        (0..subflows).for_each(|_| work.add(false));
        work
    }

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn a_subflow_is_asked_until_it_has_nothing() {
        let mut work = work(3);
        assert_eq!(work.ready(), None);
        work.mark(2);
        work.set_ready(0);
        assert_eq!(work.ready(), Some(0), "the lowest first");
        work.on_quiet(0, Instant::NEVER);
        assert_eq!(work.ready(), Some(2));
        work.on_quiet(2, Instant::NEVER);
        assert_eq!(work.ready(), None);
    }

    #[test]
    fn a_view_is_refreshed_once_after_what_changed_it() {
        let mut work = work(3);
        let refreshed = |work: &mut PendingWork| {
            let mut order = Vec::new();
            work.refresh_views(|i, view| {
                view.usable = true;
                order.push(i);
            });
            order
        };
        work.mark(2);
        work.touch(1);
        work.touch(2);
        work.set_ready(0);
        assert_eq!(refreshed(&mut work), [1, 2], "to be ready changes nothing that a scheduler sees");
        assert!(refreshed(&mut work).is_empty());
        assert_eq!([0, 1, 2].map(|i| work.views()[i].usable), [false, true, true]);
    }

    #[test]
    #[should_panic(expected = "brought up to date before a scheduler is asked")]
    fn a_scheduler_sees_no_view_that_is_out_of_date() {
        let mut work = work(2);
        work.touch(1);
        work.views();
    }

    #[test]
    fn the_floor_of_timeouts_moves_up_only_when_it_is_reached() {
        let mut work = work(2);
        work.set_due(0, at(10));
        work.set_due(1, at(20));
        work.set_due(0, at(30));
        assert_eq!((work.due(), work.due_floor), (at(20), at(10)));
        assert_eq!(work.due_before(at(5), Instant::NEVER), None);
        assert_eq!(work.due_floor, at(10), "it was not reached");
        assert_eq!(work.due_before(at(15), Instant::NEVER), None);
        assert_eq!(work.due_floor, at(20));
        assert_eq!(work.due_before(at(25), Instant::NEVER), Some(at(20)));
        assert_eq!(work.due_before(at(15), at(12)), Some(at(12)), "what is no subflow's counts too");
        work.set_due(0, Instant::NEVER);
        work.set_due(1, Instant::NEVER);
        assert_eq!(work.due_before(Instant::NEVER, Instant::NEVER), None);
    }

    #[test]
    fn a_push_that_is_asked_for_happens_once() {
        let mut work = work(1);
        assert!(!work.take_push());
        work.push_again();
        assert!(work.take_push());
        assert!(!work.take_push());
    }

    #[test]
    fn the_first_write_is_waited_for_and_then_the_connection_pushes_again() {
        let mut work = work(1);
        assert!(!work.take_first_write(true), "none is waited for");
        work.await_first_write();
        assert!(!work.take_first_write(false) && !work.take_push());
        assert!(work.take_first_write(true) && work.take_push());
        assert!(!work.take_first_write(true) && !work.take_push(), "once");
    }

    #[test]
    fn a_burst_goes_on_while_something_is_left_of_it_and_its_subflow_has_room() {
        let mut work = work(2);
        let rest = |work: &mut PendingWork, usable, room| {
            work.touch(1);
            work.refresh_views(|_, view| (view.usable, view.room) = (usable, room));
            work.rest_of_burst()
        };
        work.keep_burst(1, Bytes::new(100));
        assert_eq!(rest(&mut work, true, true), Some((1, Bytes::new(100))));
        assert_eq!((rest(&mut work, false, true), rest(&mut work, true, false)), (None, None));
        work.keep_burst(1, Bytes::ZERO);
        assert_eq!(rest(&mut work, true, true), None);
        work.keep_burst(1, Bytes::new(100));
        work.end_burst();
        assert_eq!(rest(&mut work, true, true), None);
    }

    #[test]
    fn siblings_are_told_only_where_congestion_control_is_coupled() {
        let mut coupled = work(2);
        coupled.set_sibling(1, || cc::Sibling { cwnd: 7, ..cc::Sibling::default() });
        let siblings = coupled.context(at(0), 1).siblings.expect("it is coupled");
        assert_eq!((siblings.own(), siblings.as_slice().len(), siblings.as_slice()[1].cwnd), (1, 2, 7));
        let mut alone = PendingWork::new(false);
        alone.add(false);
        alone.set_sibling(0, || unreachable!("it is not coupled"));
        assert!(alone.context(at(0), 0).siblings.is_none());
    }
}
