//! How fast captures are read and judged: bytes of the file a second, with whole packets, with a
//! snap length of 128 bytes, and of small packets alone.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use polypath_base::Seq;
use polypath_capture::analyse;
use polypath_wire::pcapng::{self, LinkType};
use polypath_wire::{Envelope, Flags, Segment};
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

const MSS: u32 = 1448;
/// A key stroke of `ssh`, encrypted.
const SMALL: u32 = 36;

/// Eight connections that send segments of so many bytes in turn, with an acknowledgement for every
/// second one.
fn file(mss: u32, snaplen: usize) -> Vec<u8> {
    let end = |last, port| SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)), port);
    let mut file = vec![];
    pcapng::section(&mut file, "bench");
    pcapng::interface(&mut file, LinkType::RawIp, snaplen as u32, "a");
    let payload = vec![0; mss as usize];
    for number in 0..40_000_u32 {
        let (client, server) = (end(1, 4000 + (number % 8) as u16), end(2, 80));
        let plain = Segment { flags: Flags::ACK, has_ts: true, ts_val: number, window: 60_000, window_scale: 255, ..Segment::default() };
        let data = Segment { seq: Seq::new(1 + number / 8 * mss), len: mss, ..plain };
        let mut write = |at: u64, segment: &Segment, source, destination, payload: &[u8]| {
            let bytes = segment.to_bytes(&Envelope { source, destination, ident: 0 }, payload).expect("it has room");
            pcapng::packet(&mut file, at, bytes.len() as u32, &bytes[..bytes.len().min(snaplen)]);
        };
        let now = u64::from(number) * 10_000;
        write(now, &data, client, server, &payload);
        if number / 8 % 2 == 1 {
            write(now + 5000, &Segment { ack: data.seq + mss, ..plain }, server, client, &[]);
        }
    }
    file
}

fn read(c: &mut Criterion) {
    let mut group = c.benchmark_group("capture");
    for (name, mss, snaplen) in [("whole", MSS, 65_535), ("snaplen-128", MSS, 128), ("small", SMALL, 65_535)] {
        let file = file(mss, snaplen);
        group.throughput(Throughput::Bytes(file.len() as u64)).sample_size(10);
        group.bench_function(name, |b| b.iter(|| analyse(vec![("a".to_owned(), black_box(&file[..]))])));
    }
    group.finish();
}

criterion_group!(benches, read);
criterion_main!(benches);
