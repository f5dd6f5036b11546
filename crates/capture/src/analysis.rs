//! Files side by side: packets in the order of their times, streams by addresses and ports, connections by keys and tokens.

use crate::connection::Connection;
use crate::diagnosis;
use crate::frame::{Dissected, Frame, Segment, TcpOption, TooBig, dissect};
use crate::reader::CaptureReader;
use crate::report::{ConnectionReport, DataReport, FileReport, Report};
use crate::stream::{self, Stream};
use polypath_wire::Flags;
use polypath_wire::mptcp::{FirstData, Keys, Mapping, Number, Repr, Version};
use std::collections::BTreeMap;
use std::io::Read;
use std::net::IpAddr;

type End = (IpAddr, u16);

/// Answers that differ are told apart, at most so many a stream.
const ROUTERS: usize = 64;

/// Reads captures, each with the name that it has in the report, and says what they tell.
pub fn analyse<R: Read + Send>(files: Vec<(String, R)>) -> Report {
    let mut names = Vec::new();
    let mut readers = Vec::new();
    for (name, source) in files {
        names.push(name);
        readers.push(CaptureReader::new(source));
    }
    let mut counts = vec![[0_u64; 2]; readers.len()];
    let mut waiting: Vec<bool> = readers.iter_mut().map(CaptureReader::advance).collect();
    let mut analysis = Analysis::default();
    // Of equal times the file that was named first.
    while let Some(file) = (0..readers.len()).filter(|&file| waiting[file]).min_by_key(|&file| readers[file].packet.time_ns) {
        let packet = &readers[file].packet;
        counts[file][0] += 1;
        match dissect(packet.link_type, &packet.bytes) {
            Some(found) => analysis.take(packet.time_ns, file, &found),
            None => counts[file][1] += 1,
        }
        waiting[file] = readers[file].advance();
    }
    let files = (names.iter().zip(readers).zip(counts))
        .map(|((name, reader), [packets, unread])| FileReport {
            name: name.clone(),
            packets,
            unread,
            broken_at_byte: reader.broken.as_ref().map(|broken| broken.byte),
            broken: reader.broken.map(|broken| broken.sentence),
        })
        .collect();
    Report { files, connections: analysis.finish(&names) }
}

#[derive(Debug, Default)]
struct Analysis {
    streams: Vec<Stream>,
    /// The smaller end first.
    by_ends: BTreeMap<[End; 2], usize>,
    connections: Vec<Connection>,
    /// By token of a key.
    by_token: BTreeMap<u32, usize>,
}

impl Analysis {
    fn take(&mut self, now: u64, file: usize, found: &Dissected<'_>) {
        match &found.frame {
            Frame::Tcp(segment) => self.take_segment(now, file, segment, found),
            Frame::TooBig(message) => self.take_too_big(message),
            Frame::Icmp | Frame::Udp | Frame::Other => {}
        }
    }

    fn take_segment(&mut self, now: u64, file: usize, segment: &Segment<'_>, found: &Dissected<'_>) {
        let number = self.stream_of(segment);
        let stream = &mut self.streams[number];
        stream.in_tunnel |= found.in_tunnel;
        let side = stream.side(segment);
        let is_near = stream.take(now, file, segment, found.ip_len);
        let is_near_peer = stream.directions[1 - side].near == Some(file);
        for option in segment.options() {
            if let TcpOption::Mptcp(option) = option {
                self.take_option(now, number, segment, &option, [is_near, is_near_peer]);
            }
        }
    }

    /// The stream of a segment. A SYN with other numbers than before begins a new one.
    fn stream_of(&mut self, segment: &Segment<'_>) -> usize {
        let (from, to) = (segment.source, segment.destination);
        let key = if from <= to { [from, to] } else { [to, from] };
        let is_first = segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::ACK);
        if let Some(&number) = self.by_ends.get(&key) {
            let stream = &self.streams[number];
            let is_over = stream.reset || stream.directions.iter().all(|direction| direction.fin);
            if !(is_first && is_over && stream.established) {
                return number;
            }
        }
        let is_answer = segment.flags.has(Flags::SYN) && segment.flags.has(Flags::ACK);
        let ends = if is_answer { [to, from] } else { [from, to] };
        let number = self.streams.len();
        self.connections.push(Connection { streams: vec![number], ..Connection::default() });
        self.streams.push(Stream::new(ends, self.connections.len() - 1));
        self.by_ends.insert(key, number);
        number
    }

    fn take_option(&mut self, now: u64, number: usize, segment: &Segment<'_>, option: &Repr, near: [bool; 2]) {
        let side = self.streams[number].side(segment);
        let is_syn = segment.flags.has(Flags::SYN);
        let connection = self.streams[number].connection;
        match *option {
            Repr::Capable { version, keys, .. } => {
                let found = &mut self.connections[connection];
                (found.version, found.has_first) = (Some(version), true);
                if is_syn {
                    self.streams[number].capable[side] = true;
                }
                let version = if version == 0 { Version::V0 } else { Version::V1 };
                let (known, data) = match keys {
                    Keys::None => ([None, None], None),
                    Keys::Sender(key) => ([Some(key), None], None),
                    Keys::Both { sender, receiver, data } => ([Some(sender), Some(receiver)], data),
                };
                for key in known.into_iter().flatten() {
                    self.join_token(version.token_and_idsn(key).0, connection);
                }
                if let (Some(FirstData { len, checksum }), [Some(sender), _]) = (data, known) {
                    let dsn = Number::Long((version.token_and_idsn(sender).1 + 1).get());
                    self.take_mapping(now, number, segment, &Mapping { dsn, ssn: 1, len, checksum }, near[0]);
                }
            }
            Repr::JoinSyn { token, backup, .. } => {
                (self.streams[number].is_join, self.streams[number].backup) = (true, backup);
                if near[0] {
                    let to = self.connection_of_token(token, connection);
                    self.move_stream(number, to);
                    self.connections[to].join_syns += 1;
                }
            }
            Repr::Dss { ack, mapping, .. } => {
                if let Some(mapping) = mapping.filter(|mapping| mapping.len > 0 && segment.len > 0) {
                    self.take_mapping(now, number, segment, &mapping, near[0]);
                }
                if let Some(ack) = ack.filter(|_| near[1]) {
                    let window = self.streams[number].window_of(side, segment);
                    let mss = self.streams[number].directions[1 - side].largest_segment();
                    self.connections[connection].data[1 - side].on_ack(now, ack, window, mss);
                }
            }
            Repr::AddAddr { .. } => self.connections[connection].addresses_announced += 1,
            Repr::Fail { .. } => self.connections[connection].fallback = true,
            Repr::FastClose { .. } => self.connections[connection].fast_close = true,
            _ => {}
        }
    }

    fn take_mapping(&mut self, now: u64, number: usize, segment: &Segment<'_>, mapping: &Mapping, is_near: bool) {
        if !is_near || segment.len == 0 {
            return;
        }
        let stream = &mut self.streams[number];
        let side = stream.side(segment);
        // Where in the mapping the segment stands is known if the mapping is not longer than it.
        let bytes = segment.len.min(u32::from(mapping.len).max(1));
        let mss = stream.directions[side].largest_segment();
        let again = self.connections[stream.connection].data[side].on_mapping(now, mapping, bytes, number, mss);
        stream.directions[side].reinjected_bytes += again;
    }

    /// A token of a connection's key. If joins were seen before the key, they belong here.
    fn join_token(&mut self, token: u32, connection: usize) {
        match self.by_token.insert(token, connection) {
            Some(other) if other != connection && !self.connections[other].has_first => {
                for stream in std::mem::take(&mut self.connections[other].streams) {
                    self.streams[stream].connection = connection;
                    self.connections[connection].streams.push(stream);
                }
            }
            _ => {}
        }
    }

    /// The connection that a join names; if its first subflow is not here, the joins with this token make one.
    fn connection_of_token(&mut self, token: u32, own: usize) -> usize {
        *self.by_token.entry(token).or_insert(own)
    }

    fn move_stream(&mut self, number: usize, to: usize) {
        let from = std::mem::replace(&mut self.streams[number].connection, to);
        if from != to {
            self.connections[from].streams.retain(|&stream| stream != number);
            self.connections[to].streams.push(number);
        }
    }

    fn take_too_big(&mut self, message: &TooBig) {
        let (from, to) = (message.source, message.destination);
        let key = if from <= to { [from, to] } else { [to, from] };
        let Some(&number) = self.by_ends.get(&key) else {
            return;
        };
        let known = &mut self.streams[number].too_big;
        let same = known.iter_mut().find(|known| known.router == message.router && known.mtu == message.mtu);
        if let Some(same) = same {
            same.count += 1;
        } else if known.len() < ROUTERS {
            known.push(stream::TooBig { router: message.router, mtu: message.mtu, count: 1, longer_after: 0 });
        }
    }

    fn finish(self, files: &[String]) -> Vec<ConnectionReport> {
        let Self { streams, connections, .. } = self;
        let alive = connections.iter().filter(|connection| !connection.streams.is_empty());
        alive
            .map(|connection| {
                let own: Vec<&Stream> = connection.streams.iter().map(|&stream| &streams[stream]).collect();
                let is_mptcp = connection.version.is_some() || own.iter().any(|stream| stream.is_join);
                let data: [DataReport; 2] =
                    std::array::from_fn(|side| if is_mptcp { connection.data[side].report() } else { plain(own[0], side) });
                ConnectionReport {
                    kind: match (is_mptcp, connection.version) {
                        (false, _) => "tcp",
                        (true, Some(0)) => "mptcp v0",
                        (true, Some(_)) => "mptcp v1",
                        (true, None) => "mptcp",
                    },
                    diagnosis: diagnosis::sentences(connection, &own, &data, is_mptcp),
                    data,
                    in_tunnel: own.iter().any(|stream| stream.in_tunnel),
                    subflows: own.iter().map(|stream| stream.report(files)).collect(),
                }
            })
            .collect()
    }
}

/// The byte stream of a TCP connection.
fn plain(stream: &Stream, side: usize) -> DataReport {
    let direction = &stream.directions[side];
    let acked = direction.acked_bytes();
    DataReport {
        sent_bytes: direction.watch.sent.saturating_sub(1),
        acked_bytes: acked,
        reinjected_bytes: 0,
        goodput_bps: direction.watch.goodput(acked),
        window_limited_share: direction.watch.share(),
    }
}
