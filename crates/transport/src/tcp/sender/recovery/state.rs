//! What recovery remembers between ACKs: where it ends, whether F-RTO goes on, how often the timer
//! backed off, and how far the last losses lie apart.

use polypath_base::Seq;

/// The congestion states' memory; the state itself is the algorithms' (`ca_state`).
#[derive(Debug, Default)]
pub(in crate::tcp) struct LossState {
    /// `snd_nxt` at the last change of state.
    high_seq: Seq,
    frto: bool,
    new_data_first: bool,
    backoffs: u32,
    retransmit: bool,
    /// Bytes acknowledged at the last loss and at the one before: OLIA's counts for the siblings'
    /// view.
    bytes_at_last_loss: u64,
    bytes_at_previous_loss: u64,
}

impl LossState {
    /// The state ends when this is acknowledged (Linux: `high_seq`).
    #[inline]
    pub(in crate::tcp) fn high_seq(&self) -> Seq {
        self.high_seq
    }

    /// A state begins, with data up to `snd_nxt` in the network.
    #[inline]
    pub(in crate::tcp) fn set_high_seq(&mut self, snd_nxt: Seq) {
        self.high_seq = snd_nxt;
    }

    /// F-RTO (RFC 5682) still asks whether the timeout was spurious.
    #[inline]
    pub(in crate::tcp) fn frto_goes_on(&self) -> bool {
        self.frto
    }

    pub(in crate::tcp) fn set_frto(&mut self, goes_on: bool) {
        self.frto = goes_on;
    }

    /// F-RTO asks by new data, however little waits, before anything goes again
    /// (RFC 5682 section 3.1 step 2.b).
    #[inline]
    pub(in crate::tcp) fn new_data_first(&self) -> bool {
        self.new_data_first
    }

    pub(in crate::tcp) fn set_new_data_first(&mut self, yes: bool) {
        self.new_data_first = yes;
    }

    /// Timeouts in a row without progress.
    #[inline]
    pub(in crate::tcp) fn backoffs(&self) -> u32 {
        self.backoffs
    }

    pub(in crate::tcp) fn on_timeout(&mut self) {
        self.backoffs += 1;
        self.retransmit = true;
    }

    /// Data was acknowledged, or the timeout was spurious.
    #[inline]
    pub(in crate::tcp) fn on_progress(&mut self) {
        self.backoffs = 0;
    }

    /// Something marked lost is to be sent again.
    #[inline]
    pub(in crate::tcp) fn retransmits(&self) -> bool {
        self.retransmit
    }

    /// Set by loss marking, taken back when nothing is left.
    #[inline]
    pub(in crate::tcp) fn set_retransmits(&mut self, yes: bool) {
        self.retransmit = yes;
    }

    /// The window shrinks for a loss after so many bytes were acknowledged in all.
    pub(in crate::tcp) fn on_loss(&mut self, bytes_acked: u64) {
        debug_assert!(bytes_acked >= self.bytes_at_last_loss, "what is acknowledged stays so");
        self.bytes_at_previous_loss = self.bytes_at_last_loss;
        self.bytes_at_last_loss = bytes_acked;
    }

    #[inline]
    pub(in crate::tcp) fn bytes_since_loss(&self, bytes_acked: u64) -> u64 {
        bytes_acked - self.bytes_at_last_loss
    }

    #[inline]
    pub(in crate::tcp) fn bytes_between_losses(&self) -> u64 {
        self.bytes_at_last_loss - self.bytes_at_previous_loss
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_between_losses_is_that_of_the_last_two() {
        let mut loss = LossState::default();
        for bytes in [1000, 5000, 12_000] {
            loss.on_loss(bytes);
        }
        assert_eq!((loss.bytes_since_loss(12_500), loss.bytes_between_losses()), (500, 7000));
    }

    #[test]
    fn a_timeout_asks_for_retransmission_and_progress_ends_the_backoff_alone() {
        let mut loss = LossState::default();
        loss.on_timeout();
        loss.on_timeout();
        assert_eq!((loss.backoffs(), loss.retransmits()), (2, true));
        loss.on_progress();
        assert_eq!((loss.backoffs(), loss.retransmits()), (0, true));
    }
}
