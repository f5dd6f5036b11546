//! Memory is bounded by the connections, not by the file. This test has a process of its own, since
//! it looks at the most that this took.

use polypath_base::Seq;
use polypath_capture::analyse;
use polypath_wire::mptcp::{Keys, Repr, Version};
use polypath_wire::pcapng::{self, LinkType};
use polypath_wire::{Dss, Envelope, Flags, Segment};
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

const MSS: u32 = 1400;

/// A transfer of MPTCP at one segment a millisecond, made while it is read: every tenth segment is
/// lost and sent again.
#[derive(Default)]
struct Long {
    packets: u32,
    made: u32,
    bytes: u64,
    waiting: Vec<u8>,
}

impl Long {
    fn add(&mut self, us: u64, from_client: bool, segment: &Segment) {
        let end = |last, port| SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)), port);
        let (source, destination) = if from_client { (end(1, 4000), end(2, 80)) } else { (end(2, 80), end(1, 4000)) };
        let bytes =
            segment.to_bytes(&Envelope { source, destination, ident: 0 }, &[0; MSS as usize][..segment.len as usize]).expect("it has room");
        pcapng::packet(&mut self.waiting, us * 1000, bytes.len() as u32, &bytes[..bytes.len().min(128)]);
    }

    fn begin(&mut self) {
        pcapng::section(&mut self.waiting, "test");
        pcapng::interface(&mut self.waiting, LinkType::RawIp, 128, "a");
        let keys = Keys::Both { sender: 7, receiver: 8, data: None };
        let capable = Repr::Capable { version: 1, flags: Repr::HASH, keys };
        self.add(0, true, &Segment { flags: Flags::ACK, seq: Seq::new(1), mp: capable.into(), ..Segment::default() });
    }

    fn more(&mut self) {
        let (number, us) = (self.made, u64::from(self.made) * 1000);
        let dss = Dss {
            dsn: Version::V1.token_and_idsn(7).1 + 1 + u64::from(number) * u64::from(MSS),
            dsn64: true,
            ssn: 1,
            map_len: MSS as u16,
            ..Dss::default()
        };
        let data = |number: u32| Segment {
            flags: Flags::ACK,
            seq: Seq::new(1 + number.wrapping_mul(MSS)),
            len: MSS,
            window: 60_000,
            window_scale: 255,
            ..Segment::default()
        };
        self.add(us, true, &Segment { has_dss: true, dss, ..data(number) });
        if number % 10 == 9 {
            self.add(us + 200, true, &data(number - 3));
        }
        if number % 2 == 1 {
            let acked = 1 + (number + 1).wrapping_mul(MSS);
            self.add(us + 400, false, &Segment { ack: Seq::new(acked), seq: Seq::new(1), len: 0, ..data(0) });
        }
        self.made += 1;
    }
}

impl Read for Long {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.bytes == 0 {
            self.begin();
        }
        while self.waiting.is_empty() && self.made < self.packets {
            self.more();
        }
        let len = buffer.len().min(self.waiting.len());
        buffer[..len].copy_from_slice(&self.waiting[..len]);
        self.waiting.drain(..len);
        self.bytes += len as u64;
        Ok(len)
    }
}

/// The most memory that this process ever had, bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux has it");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

#[test]
fn a_file_of_a_quarter_of_a_gigabyte_takes_no_more_memory_than_a_short_one() {
    let of = |packets: u32| {
        let mut source = Long { packets, ..Long::default() };
        let report = analyse(vec![("a".to_owned(), &mut source)]);
        let sent = &report.connections[0].subflows[0].directions[0];
        assert_eq!((sent.segments, sent.retransmissions), (u64::from(packets) * 11 / 10, u64::from(packets) / 10));
        assert!(
            (256..=512).contains(&sent.series.time_s.len()) && (256..=512).contains(&report.connections[0].data[0].series.time_s.len())
        );
        assert_eq!(sent.series.new_bytes.iter().sum::<u64>(), u64::from(packets) * u64::from(MSS));
        source.bytes
    };
    // Until all that is bounded by itself is full.
    of(100_000);
    let before = peak();
    let read = of(1_200_000);
    let grown = peak() - before;
    assert!(read > 250_000_000, "{read}");
    assert!(grown < 4_000_000, "{grown} bytes more for a file of {read}");
}
