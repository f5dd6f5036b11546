//! A capture that a test writes, packet by packet.

use polypath_base::Seq;
use polypath_capture::{ConnectionReport, Report, analyse};
use polypath_wire::mptcp::Repr;
use polypath_wire::pcapng::{self, LinkType};
use polypath_wire::{Envelope, Flags, Segment};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const MS: u64 = 1_000_000;

/// A capture at the client: packets with their times, of IPv4 or IPv6.
pub(crate) struct Capture {
    pub(crate) file: Vec<u8>,
    pub(crate) v6: bool,
}

impl Capture {
    pub(crate) fn new(v6: bool) -> Self {
        let mut file = vec![];
        pcapng::section(&mut file, "test");
        pcapng::interface(&mut file, LinkType::RawIp, 128, "a");
        Self { file, v6 }
    }

    pub(crate) fn end(&self, host: u8, port: u16) -> SocketAddr {
        let address = if self.v6 {
            IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, u16::from(host)))
        } else {
            IpAddr::V4(Ipv4Addr::new(10, 0, 0, host))
        };
        SocketAddr::new(address, port)
    }

    /// A packet between the client's address `host` and the server, 99.
    pub(crate) fn bytes(&self, host: u8, from_client: bool, segment: &Segment) -> Vec<u8> {
        let (client, server) = (self.end(host, 4000), self.end(99, 80));
        let (source, destination) = if from_client { (client, server) } else { (server, client) };
        segment.to_bytes(&Envelope { source, destination, ident: 0 }, &vec![0; segment.len as usize]).expect("it has room")
    }

    pub(crate) fn add(&mut self, ms: u64, host: u8, from_client: bool, segment: &Segment) {
        let bytes = self.bytes(host, from_client, segment);
        self.raw(ms, &bytes);
    }

    pub(crate) fn raw(&mut self, ms: u64, bytes: &[u8]) {
        pcapng::packet(&mut self.file, ms * MS, bytes.len() as u32, &bytes[..bytes.len().min(128)]);
    }

    /// SYN, answer and ACK, a round-trip time of 20 ms, each with an option of MPTCP. Numbers begin
    /// at 100 and 900.
    pub(crate) fn handshake(&mut self, ms: u64, host: u8, options: [Option<Repr>; 3]) {
        let [first, second, third] = options.map(|option| option.map(Into::into).unwrap_or_default());
        let syn = Segment { flags: Flags::SYN, seq: Seq::new(100), mss: 1460, window_scale: 2, window: 10_000, ..Segment::default() };
        let answer = Segment { flags: Flags::SYN.with(Flags::ACK), seq: Seq::new(900), ack: Seq::new(101), mp: second, ..syn };
        self.add(ms, host, true, &Segment { mp: first, ..syn });
        self.add(ms + 20, host, false, &answer);
        self.add(ms + 20, host, true, &Segment { mp: third, ..plain(0, 0) });
    }

    pub(crate) fn report(&self) -> Report {
        analyse(vec![("a".to_owned(), &self.file[..])])
    }

    pub(crate) fn connection(&self) -> ConnectionReport {
        let mut report = self.report();
        assert_eq!((report.connections.len(), report.files[0].unread), (1, 0), "{report:?}");
        report.connections.remove(0)
    }
}

/// A segment of the client that begins so far in its stream.
pub(crate) fn plain(offset: u32, len: u32) -> Segment {
    Segment {
        flags: Flags::ACK,
        seq: Seq::new(101u32.wrapping_add(offset)),
        ack: Seq::new(901),
        window: 10_000,
        window_scale: 255,
        df: true,
        len,
        ..Segment::default()
    }
}

/// The server's acknowledgement up to there, with a window of 4 times this.
pub(crate) fn answer(offset: u32, window: u16) -> Segment {
    Segment { seq: Seq::new(901), ack: Seq::new(101 + offset), window, ..plain(0, 0) }
}
