//! One TCP connection, or one subflow, as the captures show it.

use crate::direction::Direction;
use crate::frame::{Segment, TcpOption};
use crate::icmp::Event;
use crate::point::Point;
use crate::report::{EndReport, IcmpReport};
use polypath_wire::{Flags, mptcp};
use std::net::IpAddr;

/// A TCP connection or a subflow.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    /// Client and server.
    pub(crate) ends: [(IpAddr, u16); 2],
    pub(crate) directions: [Direction; 2],
    pub(crate) connection: usize,
    /// When its first packet was seen.
    pub(crate) began: u64,
    pub(crate) is_join: bool,
    pub(crate) backup: bool,
    pub(crate) syns: u64,
    pub(crate) syn_ack: bool,
    pub(crate) established: bool,
    pub(crate) reset: Option<Reset>,
    /// Segments whose options the capture has cut off.
    pub(crate) options_cut: u64,
    /// An option of MPTCP was seen.
    pub(crate) has_mptcp: bool,
    pub(crate) tunnel: Option<&'static str>,
    /// An MP_CAPABLE stood in the SYN, and in the answer.
    pub(crate) capable: [bool; 2],
    syn_at: [Option<u64>; 3],
    /// Errors about its packets.
    pub(crate) icmp: Vec<Event>,
}

/// The first RST of a stream.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Reset {
    pub(crate) side: usize,
    pub(crate) at: u64,
    /// Its MP_TCPRST: whether the condition is transient, and the reason.
    pub(crate) why: Option<(bool, u8)>,
    /// Both ends had sent a FIN before.
    pub(crate) is_after_end: bool,
}

impl Reset {
    /// By the names of RFC 8684 section 3.6.
    pub(crate) fn reason(&self) -> Option<&'static str> {
        Some(match self.why?.1 {
            0 => "unspecified error",
            1 => "MPTCP-specific error",
            2 => "lack of resources",
            3 => "administratively prohibited",
            4 => "too much outstanding data",
            5 => "unacceptable performance",
            6 => "middlebox interference",
            _ => "none that RFC 8684 names",
        })
    }
}

impl Stream {
    pub(crate) fn new(ends: [(IpAddr, u16); 2], connection: usize, began: u64) -> Self {
        Self {
            ends,
            directions: [Direction::default(), Direction::default()],
            connection,
            began,
            is_join: false,
            backup: false,
            syns: 0,
            syn_ack: false,
            established: false,
            reset: None,
            options_cut: 0,
            has_mptcp: false,
            tunnel: None,
            capable: [false; 2],
            syn_at: [None; 3],
            icmp: Vec::new(),
        }
    }

    /// The end that sends a segment: 0 is the client.
    pub(crate) fn side(&self, segment: &Segment<'_>) -> usize {
        usize::from(segment.source != self.ends[0])
    }

    /// Whether the files show the end near which they were made: the answer to a SYN takes longer
    /// than the answer to that.
    fn is_near_sender(&self, side: usize) -> bool {
        let [Some(syn), Some(syn_ack), Some(ack)] = self.syn_at else {
            return false;
        };
        let client_is_near = syn_ack.saturating_sub(syn) >= ack.saturating_sub(syn_ack);
        (side == 0) == client_is_near
    }

    /// Bytes that a segment's window offers. None: its scale is not in the captures.
    pub(crate) fn window_of(&self, side: usize, segment: &Segment<'_>) -> Option<u64> {
        // A SYN's own window has no scale (RFC 7323 section 2.2).
        let shift = if segment.flags.has(Flags::SYN) { Some(0) } else { self.shift(side) };
        Some(u64::from(segment.window) << shift?)
    }

    /// By how many bits an end's windows are shifted. Both must have said it, and a SYN/ACK says
    /// it only to a SYN that did (RFC 7323 section 2.2).
    fn shift(&self, side: usize) -> Option<u8> {
        let [own, peer] = [side, 1 - side].map(|side| self.directions[side].scale);
        match (own, peer) {
            (Some(None), _) | (_, Some(None)) => Some(0),
            (Some(shift), peer) if peer.is_some() || side == 1 => shift,
            _ => None,
        }
    }

    /// Takes in a segment that a file shows. True if it is the first sight of this end's data
    /// there, so that MPTCP may count it.
    pub(crate) fn take(&mut self, now: u64, file: usize, segment: &Segment<'_>, ip_len: u32, point: Point) -> bool {
        let side = self.side(segment);
        let is_near = self.directions[side].is_near(now, file, point);
        self.options_cut += u64::from(is_near && segment.options_cut);
        // Whoever else sends a RST in an end's name is not seen where that end is.
        if segment.flags.has(Flags::RST) && self.reset.is_none() {
            self.on_reset(now, side, segment);
        }
        let (is_syn, is_ack) = (segment.flags.has(Flags::SYN), segment.flags.has(Flags::ACK));
        // A SYN at another point than before is the one that was there.
        let mut is_first = is_near && (!is_syn || self.directions[side].is_own_syn(point));
        if is_first {
            self.on_flags(now, side, segment);
        }
        let near_rtt = self.directions[0].near != self.directions[1].near || self.is_near_sender(side);
        let near_peer = self.directions[1 - side].near;
        let (peer_mss, window) = (self.directions[1 - side].mss, self.window_of(side, segment));
        let direction = &mut self.directions[side];
        if let Some(window) = window.filter(|_| is_near && !is_syn && !segment.flags.has(Flags::RST)) {
            direction.window = Some(direction.window.map_or((window, window), |(low, high)| (low.min(window), high.max(window))));
        }
        if is_first && is_syn {
            direction.begin(segment.seq, point);
        }
        if segment.len > 0 && !is_syn {
            if is_near {
                // A tunnel spreads packets over paths with queues of their own, so that they pass
                // even its own end in another order.
                is_first = direction.on_data(now, segment, ip_len, point, peer_mss, near_rtt && self.tunnel.is_none());
                for event in
                    self.icmp.iter_mut().filter(|event| is_first && event.side == side && event.mtu.is_some_and(|mtu| ip_len > mtu))
                {
                    event.longer_after += 1;
                    event.longest_after = event.longest_after.max(ip_len);
                }
            } else if direction.is_far(file, near_peer) {
                direction.on_far_data(now, segment, point);
            }
        }
        let other = &mut self.directions[1 - side];
        if is_ack && other.near == Some(file) {
            other.on_ack(now, segment, window, &point.port);
        }
        is_first
    }

    /// The captures show packets of the other end alone.
    pub(crate) fn is_unseen(&self, side: usize) -> bool {
        self.directions[side].near.is_none()
    }

    fn on_reset(&mut self, at: u64, side: usize, segment: &Segment<'_>) {
        let why = segment.options().find_map(|option| match option {
            TcpOption::Mptcp(mptcp::Repr::TcpRst { flags, reason }) => Some((flags & 1 != 0, reason)),
            _ => None,
        });
        let is_after_end = self.directions.iter().all(|direction| direction.fin.is_some());
        self.reset = Some(Reset { side, at, why, is_after_end });
    }

    /// The first FIN: who sent it, and when.
    pub(crate) fn first_fin(&self) -> Option<(usize, u64)> {
        (0..2).filter_map(|side| Some((side, self.directions[side].fin?))).min_by_key(|&(_, at)| at)
    }

    fn end(&self, start: u64) -> Option<EndReport> {
        let told = |how, side: usize, at: u64| EndReport {
            how,
            by: ["client", "server"][side],
            at_s: at.saturating_sub(start) as f64 / 1e9,
            reason_number: None,
            reason: None,
            is_transient: None,
        };
        match (self.reset.filter(|reset| !reset.is_after_end), self.first_fin()) {
            (Some(reset), _) => Some(EndReport {
                reason_number: reset.why.map(|why| why.1),
                reason: reset.reason(),
                is_transient: reset.why.map(|why| why.0),
                ..told("RST", reset.side, reset.at)
            }),
            (None, Some((side, at))) => Some(told("FIN", side, at)),
            (None, None) => None,
        }
    }

    fn on_flags(&mut self, now: u64, side: usize, segment: &Segment<'_>) {
        let direction = &mut self.directions[side];
        if segment.flags.has(Flags::FIN) {
            direction.fin.get_or_insert(now);
        }
        if segment.flags.has(Flags::SYN) {
            if !segment.options_cut {
                direction.scale = Some(None);
            }
            for option in segment.options() {
                match option {
                    TcpOption::Mss(mss) => direction.mss = Some(mss),
                    TcpOption::WindowScale(scale) => direction.scale = Some(Some(scale)),
                    _ => {}
                }
            }
            let place = usize::from(segment.flags.has(Flags::ACK));
            self.syn_at[place].get_or_insert(now);
            self.syns += u64::from(place == 0);
            self.syn_ack |= place == 1;
        } else if side == 0 && self.syn_ack && segment.flags.has(Flags::ACK) {
            self.syn_at[2].get_or_insert(now);
            self.established = true;
        }
        self.established |= segment.len > 0 && !segment.flags.has(Flags::SYN);
    }

    /// `start` is when the first packet of all files was seen.
    pub(crate) fn report(&self, files: &[String], start: u64) -> crate::SubflowReport {
        let name = |(address, port): (IpAddr, u16)| std::net::SocketAddr::new(address, port).to_string();
        crate::SubflowReport {
            client: name(self.ends[0]),
            server: name(self.ends[1]),
            is_join: self.is_join,
            backup: self.backup,
            established: self.established,
            reset: self.reset.is_some(),
            end: self.end(start),
            directions: std::array::from_fn(|side| self.directions[side].report(files, start, self.is_unseen(1 - side))),
            icmp: self.icmp.iter().map(|event| reported(event, start)).collect(),
        }
    }
}

fn reported(event: &Event, start: u64) -> IcmpReport {
    IcmpReport {
        from: event.from.to_string(),
        about: ["client", "server"][event.side],
        protocol: event.message.protocol(),
        kind: event.message.kind,
        code: event.message.code,
        name: event.message.name(),
        mtu: event.mtu,
        count: event.count,
        first_s: event.first.saturating_sub(start) as f64 / 1e9,
        longer_after: event.longer_after,
        longest_after: event.longest_after,
    }
}
