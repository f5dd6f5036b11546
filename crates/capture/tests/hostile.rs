//! Files that somebody cut or damaged: what can be read is told, where they break is said, and
//! nothing panics.

use polypath_base::{DataSeq, Seq};
use polypath_capture::{Report, analyse};
use polypath_wire::mptcp::{Keys, Repr};
use polypath_wire::pcapng::{self, LinkType};
use polypath_wire::{Dss, Envelope, Flags, Segment};
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

const MS: u64 = 1_000_000;

fn envelope(from_client: bool) -> Envelope {
    let end = |last, port| SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)), port);
    let (source, destination) = if from_client { (end(1, 4000), end(2, 80)) } else { (end(2, 80), end(1, 4000)) };
    Envelope { source, destination, ident: 0 }
}

/// Time in ms, from the client, segment.
fn packets() -> Vec<(u64, bool, Segment)> {
    let syn = Segment { flags: Flags::SYN, seq: Seq::new(100), mss: 1460, window_scale: 2, window: 1000, ..Segment::default() };
    let ack = Segment {
        flags: Flags::ACK,
        seq: Seq::new(101),
        ack: Seq::new(901),
        window: 1000,
        window_scale: 255,
        df: true,
        ..Segment::default()
    };
    let capable = |keys| Repr::Capable { version: 1, flags: Repr::HASH, keys }.into();
    let idsn = |key| polypath_wire::mptcp::Version::V1.token_and_idsn(key).1 + 1;
    let dss = |offset: u64, len: u16| Dss {
        dsn: DataSeq::new(idsn(7).get() + offset),
        dsn64: true,
        ssn: 1 + offset as u32,
        map_len: len,
        ..Dss::default()
    };
    let data =
        |offset: u32, len: u32| Segment { seq: Seq::new(101 + offset), len, has_dss: true, dss: dss(u64::from(offset), len as u16), ..ack };
    let answer = |offset: u32| Segment {
        seq: Seq::new(901),
        ack: Seq::new(101 + offset),
        has_dss: true,
        dss: Dss { has_ack: true, ack64: true, data_ack: DataSeq::new(idsn(7).get() + u64::from(offset)), ..Dss::default() },
        ..ack
    };
    vec![
        (0, true, Segment { mp: capable(Keys::None), ..syn }),
        (
            20,
            false,
            Segment {
                flags: Flags::SYN.with(Flags::ACK),
                seq: Seq::new(900),
                ack: Seq::new(101),
                mp: capable(Keys::Sender(8)),
                mss: 1400,
                ..syn
            },
        ),
        (20, true, Segment { mp: capable(Keys::Both { sender: 7, receiver: 8, data: None }), ..ack }),
        (21, true, data(0, 1000)),
        (22, true, data(1000, 1000)),
        (23, true, data(2000, 500)),
        (41, false, answer(1000)),
        (60, true, data(1000, 1000)),
        (80, false, answer(2500)),
    ]
}

fn pcapng_file() -> Vec<u8> {
    let mut file = vec![];
    pcapng::section(&mut file, "test");
    pcapng::interface(&mut file, LinkType::RawIp, 100, "a");
    for (ms, from_client, segment) in packets() {
        let bytes = segment.to_bytes(&envelope(from_client), &vec![0; segment.len as usize]).unwrap();
        pcapng::packet(&mut file, ms * MS, bytes.len() as u32, &bytes[..bytes.len().min(100)]);
    }
    file
}

/// A pcap in either byte order, with micro- or nanoseconds.
fn pcap_file(big: bool, nanoseconds: bool) -> Vec<u8> {
    let word = |value: u32| {
        if big { value.to_be_bytes() } else { value.to_le_bytes() }
    };
    let half = |value: u16| {
        if big { value.to_be_bytes() } else { value.to_le_bytes() }
    };
    let mut file = word(if nanoseconds { 0xa1b2_3c4d } else { 0xa1b2_c3d4 }).to_vec();
    file.extend([half(2), half(4)].concat());
    file.extend([0, 0, 65_535, 101].map(word).concat());
    for (ms, from_client, segment) in packets() {
        let bytes = segment.to_bytes(&envelope(from_client), &vec![0; segment.len as usize]).unwrap();
        let fraction = ms as u32 * if nanoseconds { 1_000_000 } else { 1000 };
        file.extend([1, fraction, bytes.len() as u32, bytes.len() as u32].map(word).concat());
        file.extend(bytes);
    }
    file
}

fn of_file(file: &[u8]) -> Report {
    analyse(vec![("a".to_owned(), file)])
}

#[test]
fn every_format_tells_the_same() {
    for file in [pcapng_file(), pcap_file(false, false), pcap_file(false, true), pcap_file(true, false), pcap_file(true, true)] {
        let report = of_file(&file);
        assert_eq!((report.files[0].packets, report.files[0].unread, &report.files[0].broken), (9, 0, &None));
        let [connection] = &report.connections[..] else { panic!("{report:?}") };
        assert_eq!((connection.kind, connection.subflows.len()), ("mptcp v1", 1));
        let sent = &connection.subflows[0].directions[0];
        assert_eq!((sent.segments, sent.bytes, sent.acked_bytes, sent.retransmissions, sent.retransmitted_bytes), (4, 2500, 2500, 1, 1000));
        assert_eq!((sent.mss_announced, sent.mss_used, &sent.sizes[..]), (Some(1460), 1000, &[(1000, 3), (500, 1)][..]));
        assert_eq!((connection.data[0].sent_bytes, connection.data[0].acked_bytes), (2500, 2500));
        // Only what was sent once is measured: 20 ms, and 57 of the segment that waited for the one
        // before it.
        let rtt = sent.rtt.unwrap();
        assert_eq!((rtt.count, rtt.min_ms, rtt.max_ms), (2, 20.0, 57.0));
        assert_eq!(connection.diagnosis, ["only one subflow carried data until the capture ends: no MP_JOIN was sent"]);
    }
}

#[test]
fn two_places_tell_the_delay_between_them() {
    let (near, mut far) = (pcapng_file(), vec![]);
    pcapng::section(&mut far, "test");
    pcapng::interface(&mut far, LinkType::RawIp, 100, "b");
    for (ms, from_client, segment) in packets() {
        let bytes = segment.to_bytes(&envelope(from_client), &vec![0; segment.len as usize]).unwrap();
        let at = if from_client { ms + 10 } else { ms - 10 };
        pcapng::packet(&mut far, at * MS, bytes.len() as u32, &bytes[..bytes.len().min(100)]);
    }
    let report = analyse(vec![("near".to_owned(), &near[..]), ("far".to_owned(), &far[..])]);
    let [there, back] = &report.connections[0].subflows[0].directions;
    assert_eq!((there.file.as_deref(), back.file.as_deref()), (Some("near"), Some("far")));
    let delay = there.one_way_delay.unwrap();
    assert_eq!((delay.count, delay.min_ms, delay.max_ms, there.reordered), (3, 10.0, 10.0, 0));
}

#[test]
fn what_was_sent_again_in_smaller_pieces_does_not_tell_that_the_first_size_passed() {
    let mut file = vec![];
    pcapng::section(&mut file, "test");
    pcapng::interface(&mut file, LinkType::RawIp, 100, "a");
    let plain = Segment { flags: Flags::ACK, window: 60_000, window_scale: 255, ack: Seq::new(900), ..Segment::default() };
    let data = |seq, len| Segment { seq: Seq::new(seq), len, ..plain };
    let answer = Segment { seq: Seq::new(900), ack: Seq::new(2001), ..plain };
    for (ms, from_client, segment) in [
        (1, true, data(1, 1000)),
        (2, true, data(1001, 1000)),
        (3, true, data(1, 600)),
        (4, true, data(601, 400)),
        (5, true, data(1001, 600)),
        (6, true, data(1601, 400)),
        (9, false, answer),
        (10, true, data(2001, 600)),
        (20, false, Segment { ack: Seq::new(2601), ..answer }),
    ] {
        let bytes = segment.to_bytes(&envelope(from_client), &vec![0; segment.len as usize]).unwrap();
        pcapng::packet(&mut file, ms * MS, bytes.len() as u32, &bytes[..bytes.len().min(100)]);
    }
    let report = of_file(&file);
    let sent = &report.connections[0].subflows[0].directions[0];
    assert_eq!((sent.pmtu_seen, sent.retransmissions, sent.acked_bytes, sent.rtt.unwrap().count), (640, 4, 2600, 1));
}

#[test]
fn a_file_that_is_cut_tells_what_it_has() {
    for file in [pcapng_file(), pcap_file(true, false)] {
        let report = of_file(&file[..file.len() - 5]);
        assert_eq!(report.files[0].packets, 8);
        assert!(report.files[0].broken.as_ref().unwrap().contains("cut off"), "{report:?}");
        assert!(report.files[0].broken_at_byte.unwrap() > 100);
    }
    assert!(of_file(b"").files[0].broken.as_ref().unwrap().contains("empty"));
    assert!(of_file(b"name: not a capture\n").files[0].broken.as_ref().unwrap().contains("no capture"));
}

proptest! {
    #[test]
    fn damaged_files_are_read_as_far_as_they_go(kind in 0..3_u8, changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..30), cut in any::<prop::sample::Index>()) {
        let mut file = match kind { 0 => pcapng_file(), 1 => pcap_file(false, true), _ => pcap_file(true, false) };
        for (place, byte) in changes {
            let at = place.index(file.len());
            file[at] = byte;
        }
        file.truncate(cut.index(file.len()) + 1);
        let report = of_file(&file);
        prop_assert_eq!(report.files.len(), 1);
    }

    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let report = of_file(&bytes);
        prop_assert!(report.connections.len() as u64 <= report.files[0].packets);
    }

    /// Whole files with packets of any content.
    #[test]
    fn any_packets_are_read(all in prop::collection::vec((any::<u64>(), prop::collection::vec(any::<u8>(), 0..200)), 0..20), link in 0..3_u8) {
        let mut file = vec![];
        pcapng::section(&mut file, "test");
        pcapng::interface(&mut file, if link == 0 { LinkType::Ethernet } else { LinkType::RawIp }, 0, "x");
        for (time, mut bytes) in all.clone() {
            if link == 2 && bytes.len() > 10 {
                (bytes[0], bytes[9]) = (0x45, 6);
            }
            pcapng::packet(&mut file, time, bytes.len() as u32, &bytes);
        }
        prop_assert_eq!(of_file(&file).files[0].packets, all.len() as u64);
    }
}
