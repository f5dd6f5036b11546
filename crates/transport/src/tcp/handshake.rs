//! The SYN or SYN/ACK: when it was sent, how often, and whether one is due.

use polypath_base::{Duration, Instant};

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
}

impl Handshake {
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
