//! The SYN or SYN/ACK: who began, when it was sent, how often, whether one is due, and what data it
//! carries (TCP Fast Open, RFC 7413).

use polypath_base::{Duration, Instant};

/// How often a SYN/ACK goes again (Linux: `tcp_synack_retries`).
const SYN_ACK_RETRIES: u32 = 5;

/// The options that a SYN has offered.
#[derive(Copy, Clone, Debug)]
pub(in crate::tcp) struct Offer {
    pub(in crate::tcp) window_scale: Option<u8>,
    pub(in crate::tcp) timestamps: bool,
    pub(in crate::tcp) sack: bool,
}

#[derive(Debug, Default)]
pub(in crate::tcp) struct Handshake {
    /// What the own SYN has offered that crossed the peer's.
    offer: Option<Offer>,
    due: bool,
    sent_at: Instant,
    /// When the first one left.
    began_at: Option<Instant>,
    timeouts: u32,
    measures_nothing: bool,
    /// This end began the handshake.
    is_active: bool,
    /// Data goes both ways before the SYN/ACK is answered (RFC 7413 section 4.2).
    fast_open: bool,
    /// Bytes of data that the SYN carries (RFC 7413 section 4.2.1), the first one alone.
    syn_data: u32,
    /// Of those, what the SYN/ACK has acknowledged.
    syn_data_acked: u32,
}

impl Handshake {
    /// This end begins it.
    pub(in crate::tcp) fn begin(&mut self) {
        debug_assert!(!self.fast_open, "who waits for a SYN does not begin");
        self.is_active = true;
        self.request();
    }

    /// This end began it.
    pub(in crate::tcp) fn is_active(&self) -> bool {
        self.is_active
    }

    /// A program has the connection before it is established: not where this end answers a SYN (Linux:
    /// a request socket), but with Fast Open it has.
    pub(in crate::tcp) fn has_program(&self) -> bool {
        self.is_active || self.fast_open
    }

    // TCP Fast Open.

    /// The SYN that comes next has a valid cookie.
    pub(in crate::tcp) fn accept_fast_open(&mut self) {
        debug_assert!(!self.is_active, "the cookie is for who waits for a SYN");
        self.fast_open = true;
    }

    /// Data goes both ways before the SYN/ACK is answered.
    #[inline]
    pub(in crate::tcp) fn is_fast_open(&self) -> bool {
        self.fast_open
    }

    /// The SYN/ACK is answered.
    pub(in crate::tcp) fn finish_fast_open(&mut self) {
        self.fast_open = false;
    }

    /// The SYN carries so many bytes of data.
    pub(in crate::tcp) fn carry_data(&mut self, len: u32) {
        debug_assert!(!self.is_active, "the SYN has not been asked for");
        self.syn_data = len;
    }

    /// Bytes that the SYN has carried at first.
    pub(in crate::tcp) fn syn_data(&self) -> u32 {
        self.syn_data
    }

    /// Bytes that it carries now: one that goes again goes without (RFC 7413 section 4.1.3.1).
    pub(in crate::tcp) fn carried_data(&self) -> u32 {
        if self.timeouts == 0 { self.syn_data } else { 0 }
    }

    /// The SYN is acknowledged, and so many bytes after it; how many of them it has carried.
    pub(in crate::tcp) fn on_syn_acked(&mut self, beyond: u32) -> u32 {
        self.syn_data_acked = if self.syn_data > 0 { beyond } else { 0 };
        debug_assert!(self.syn_data_acked <= self.syn_data, "no more is acknowledged than was carried");
        self.syn_data_acked
    }

    /// Bytes of the SYN that its answer has not acknowledged.
    pub(in crate::tcp) fn unacked_syn_data(&self) -> u32 {
        self.syn_data - self.syn_data_acked
    }

    /// The SYN/ACK has acknowledged data of the SYN.
    pub(in crate::tcp) fn has_syn_data_acked(&self) -> bool {
        self.syn_data_acked > 0
    }

    // The SYN and its answer.

    /// A segment of the handshake is to be sent.
    pub(in crate::tcp) fn request(&mut self) {
        self.due = true;
    }

    /// The own SYN has crossed the peer's. The SYN/ACK offers the same again, whatever the peer
    /// offers (Linux: `tcp_send_synack`).
    pub(in crate::tcp) fn keep_offer(&mut self, offer: Offer) {
        self.offer = Some(offer);
    }

    /// What the SYN/ACK offers, if the SYNs have crossed.
    pub(in crate::tcp) fn offer(&self) -> Option<Offer> {
        self.offer
    }

    /// A segment of the handshake is to be sent.
    #[inline]
    pub(in crate::tcp) fn is_due(&self) -> bool {
        self.due
    }

    /// It leaves.
    pub(in crate::tcp) fn on_sent(&mut self) {
        self.due = false;
    }

    /// It leaves, and is a SYN or SYN/ACK.
    pub(in crate::tcp) fn on_syn_sent(&mut self, now: Instant) {
        debug_assert!(self.due && now >= self.sent_at, "a SYN leaves when it is asked for");
        self.due = false;
        self.sent_at = now;
        self.began_at.get_or_insert(now);
    }

    /// No answer came: it goes again.
    pub(in crate::tcp) fn on_timeout(&mut self) {
        self.due = true;
        self.timeouts += 1;
    }

    /// When the first SYN or SYN/ACK left.
    pub(in crate::tcp) fn began_at(&self) -> Instant {
        self.began_at.unwrap_or(self.sent_at)
    }

    /// How often it has been sent again for want of an answer.
    #[inline]
    pub(in crate::tcp) fn timeouts(&self) -> u32 {
        self.timeouts
    }

    /// How often it goes again at most; `syn_retries`: a SYN (`tcp_syn_retries`).
    pub(in crate::tcp) fn retries(&self, syn_retries: u32) -> u32 {
        if self.is_active { syn_retries } else { SYN_ACK_RETRIES }
    }

    /// The round trip it measured; none after a repetition (Karn's algorithm, RFC 6298 section 3).
    pub(in crate::tcp) fn rtt(&self, now: Instant) -> Option<Duration> {
        (self.timeouts == 0 && !self.measures_nothing).then(|| now.since(self.sent_at))
    }

    /// Its time is not taken.
    pub(in crate::tcp) fn measure_nothing(&mut self) {
        self.measures_nothing = true;
    }

    /// A lost SYN costs the initial window (RFC 5681 section 3.1, RFC 6928 section 2); Linux
    /// excuses the first one.
    pub(in crate::tcp) fn costs_initial_window(&self) -> bool {
        self.timeouts > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_syn_measures_nothing() {
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let mut handshake = Handshake::default();
        handshake.request();
        assert!(handshake.is_due());
        handshake.on_syn_sent(at(5));
        assert_eq!((handshake.is_due(), handshake.rtt(at(12))), (false, Some(Duration::from_millis(7))));
        handshake.on_timeout();
        handshake.on_syn_sent(at(1005));
        assert_eq!((handshake.rtt(at(1012)), handshake.timeouts(), handshake.costs_initial_window()), (None, 1, false));
        handshake.on_timeout();
        assert!(handshake.costs_initial_window());
    }
}
