//! Files side by side: packets in the order of their times, streams by addresses and ports,
//! connections by keys and tokens.

use crate::connection::Connection;
use crate::diagnosis;
use crate::fragments::{Fragments, parts};
use crate::frame::{Dissected, Frame, Icmp, PIECE, Segment, TcpOption, dissect};
use crate::icmp::{Event, Message};
use crate::kind::Kind;
use crate::point::Point;
use crate::reader::CaptureReader;
use crate::report::{ConnectionReport, DataReport, FileReport, IcmpCount, KindCount, Report};
use crate::stream::Stream;
use polypath_wire::Flags;
use polypath_wire::mptcp::{FirstData, Keys, Mapping, Number, Repr, Version};
use std::collections::BTreeMap;
use std::io::Read;
use std::net::IpAddr;

type End = (IpAddr, u16);

/// Errors that differ are told apart, at most so many a stream.
const ERRORS: usize = 64;

/// Kinds of packets that are told apart, at most so many a file.
const KINDS: usize = 64;

/// Reads captures, each with the name that it has in the report, and says what they tell.
pub fn analyse<R: Read + Send>(files: Vec<(String, R)>) -> Report {
    analyse_places(files, false)
}

/// As [`analyse`], of files that were made at one end, on the paths of a tunnel or of one host:
/// what one file shows of a stream and what another one does belongs together, in the order of
/// time. They are named together in the report.
pub fn analyse_one_end<R: Read + Send>(files: Vec<(String, R)>) -> Report {
    analyse_places(files, true)
}

fn analyse_places<R: Read + Send>(files: Vec<(String, R)>, is_one_place: bool) -> Report {
    let mut names = Vec::new();
    let mut readers = Vec::new();
    for (name, source) in files {
        names.push(name);
        readers.push(CaptureReader::new(source));
    }
    let mut counts = vec![Counts::default(); readers.len()];
    let mut fragments = Fragments::default();
    let mut waiting: Vec<bool> = readers.iter_mut().map(CaptureReader::advance).collect();
    let mut analysis = Analysis { icmp: vec![BTreeMap::new(); readers.len()], ..Analysis::default() };
    // Of equal times the file that was named first.
    while let Some(file) = (0..readers.len()).filter(|&file| waiting[file]).min_by_key(|&file| readers[file].packet.time_ns) {
        let packet = &readers[file].packet;
        let mut found = dissect(packet.link_type, &packet.bytes, packet.len);
        counts[file].add(&found);
        if let Ok(found) = &mut found {
            (found.point.port.file, found.point.port.interface) = (file, packet.interface);
            let place = if is_one_place { 0 } else { file };
            if let Some((piece, head)) = parts(found) {
                if let Some((head, ip_len)) = fragments.add(file, piece, head, |file, count| counts[file].give_up(count)) {
                    let frame = Frame::Tcp(head.segment());
                    analysis.take(packet.time_ns, file, place, &Dissected { frame, ip_len, ..*found });
                }
            } else {
                analysis.take(packet.time_ns, file, place, found);
            }
        }
        analysis.start.get_or_insert(packet.time_ns);
        waiting[file] = readers[file].advance();
    }
    fragments.left().for_each(|(file, count)| counts[file].give_up(count));
    let is_whole = readers.iter().all(|reader| reader.broken.is_none() && reader.missing() == 0);
    let files: Vec<_> = (names.iter().zip(readers).zip(counts).zip(&analysis.icmp))
        .map(|(((name, reader), counts), icmp)| FileReport {
            name: name.clone(),
            packets: counts.packets(),
            missing: reader.missing(),
            clock_back_s: reader.back_ns as f64 / 1e9,
            unread: counts.unread.values().sum(),
            unread_kinds: by_count(&counts.unread),
            kinds: by_count(&counts.read),
            broken_at_byte: reader.broken.as_ref().map(|broken| broken.byte),
            broken: reader.broken.map(|broken| broken.sentence),
            icmp: icmp.iter().map(|(message, &count)| counted(*message, count)).collect(),
        })
        .collect();
    let places = if is_one_place { vec![names.join(", ")] } else { names };
    Report { start_ns: analysis.start, files, connections: analysis.finish(&places, is_whole) }
}

/// Packets of a file by kind: those whose content is known, and those that are not read.
#[derive(Clone, Debug, Default)]
struct Counts {
    read: BTreeMap<Kind, u64>,
    unread: BTreeMap<Kind, u64>,
}

impl Counts {
    fn add(&mut self, found: &Result<Dissected<'_>, Kind>) {
        let (map, kind) = match found {
            Ok(found) => (&mut self.read, found.frame.kind()),
            Err(kind) => (&mut self.unread, *kind),
        };
        let kind = if map.len() < KINDS || map.contains_key(&kind) { kind } else { Kind::Named("of yet another kind") };
        *map.entry(kind).or_default() += 1;
    }

    /// So many fragments of TCP segments have not become whole.
    fn give_up(&mut self, count: u64) {
        let known = self.read.entry(PIECE).or_default();
        *known = known.saturating_sub(count);
        if *known == 0 {
            self.read.remove(&PIECE);
        }
        *self.unread.entry(Kind::Named("fragment of a TCP segment, without the others")).or_default() += count;
    }

    fn packets(&self) -> u64 {
        self.read.values().chain(self.unread.values()).sum()
    }
}

/// The most frequent first.
fn by_count(kinds: &BTreeMap<Kind, u64>) -> Vec<KindCount> {
    let mut counted: Vec<_> = kinds.iter().map(|(kind, &packets)| KindCount { name: kind.to_string(), packets }).collect();
    counted.sort_by_key(|kind| std::cmp::Reverse(kind.packets));
    counted
}

fn counted(message: Message, count: u64) -> IcmpCount {
    IcmpCount { protocol: message.protocol(), kind: message.kind, code: message.code, name: message.name(), count }
}

#[derive(Debug, Default)]
struct Analysis {
    /// When the first packet was seen.
    start: Option<u64>,
    /// Of each file.
    icmp: Vec<BTreeMap<Message, u64>>,
    streams: Vec<Stream>,
    /// The smaller end first.
    by_ends: BTreeMap<[End; 2], usize>,
    connections: Vec<Connection>,
    /// By token of a key.
    by_token: BTreeMap<u32, usize>,
}

impl Analysis {
    /// A packet of a file, made at a place.
    fn take(&mut self, now: u64, file: usize, place: usize, found: &Dissected<'_>) {
        match &found.frame {
            Frame::Tcp(segment) => self.take_segment(now, place, segment, found),
            Frame::Icmp(message) => {
                *self.icmp[file].entry(message.message).or_default() += 1;
                self.take_icmp(now, place, message, found.point);
            }
            Frame::Piece(..) | Frame::Udp | Frame::Other(_) => {}
        }
    }

    fn take_segment(&mut self, now: u64, file: usize, segment: &Segment<'_>, found: &Dissected<'_>) {
        let number = self.stream_of(now, segment);
        let stream = &mut self.streams[number];
        stream.tunnel = stream.tunnel.or(found.tunnel);
        let side = stream.side(segment);
        let is_near = stream.take(now, file, segment, found.ip_len, found.point);
        let is_near_peer = stream.directions[1 - side].near == Some(file);
        for option in segment.options() {
            if let TcpOption::Mptcp(option) = option {
                self.take_option(now, number, segment, &option, [is_near, is_near_peer]);
            }
        }
        if is_near && !segment.flags.has(Flags::SYN) {
            self.place(now, number, side, segment);
        }
    }

    /// The stream of a segment. A SYN with other numbers than before begins a new one.
    fn stream_of(&mut self, now: u64, segment: &Segment<'_>) -> usize {
        let (from, to) = (segment.source, segment.destination);
        let key = if from <= to { [from, to] } else { [to, from] };
        let is_first = segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::ACK);
        if let Some(&number) = self.by_ends.get(&key) {
            let stream = &self.streams[number];
            let is_over = stream.reset.is_some() || stream.directions.iter().all(|direction| direction.fin.is_some());
            let is_new = is_over || stream.directions[stream.side(segment)].is_other_syn(segment.seq);
            if !(is_first && is_new && stream.established) {
                return number;
            }
        }
        let is_answer = segment.flags.has(Flags::SYN) && segment.flags.has(Flags::ACK);
        let ends = if is_answer { [to, from] } else { [from, to] };
        let number = self.streams.len();
        self.connections.push(Connection { streams: vec![number], ..Connection::default() });
        self.streams.push(Stream::new(ends, self.connections.len() - 1, now));
        self.by_ends.insert(key, number);
        number
    }

    fn take_option(&mut self, now: u64, number: usize, segment: &Segment<'_>, option: &Repr, near: [bool; 2]) {
        let side = self.streams[number].side(segment);
        let is_syn = segment.flags.has(Flags::SYN);
        let connection = self.streams[number].connection;
        // On the SYN of a client alone it is a wish.
        self.streams[number].has_mptcp |= !is_syn;
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
                for (sender, key) in [side, 1 - side].into_iter().zip(known).filter_map(|(sender, key)| Some((sender, key?))) {
                    let (token, initial) = version.token_and_idsn(key);
                    self.connections[connection].data[sender].initial = Some(initial.get().wrapping_add(1));
                    self.join_token(token, connection);
                }
                if let (Some(FirstData { len, checksum }), [Some(sender), _]) = (data, known) {
                    let dsn = Number::Long((version.token_and_idsn(sender).1 + 1).get());
                    self.take_mapping(number, segment, &Mapping { dsn, ssn: 1, len, checksum }, u64::from(len), near[0]);
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
            Repr::Dss { ack, mapping, data_fin } => {
                // A DATA_FIN alone has no place in the subflow; behind data it has the mapping's
                // last number (RFC 8684 section 3.3.3).
                if let Some(mapping) = mapping.filter(|mapping| mapping.ssn > 0 || mapping.len == 0) {
                    let len = u64::from(mapping.len).saturating_sub(u64::from(data_fin));
                    self.take_mapping(number, segment, &mapping, len, near[0]);
                }
                if let Some(ack) = ack.filter(|_| near[1]) {
                    let window = self.streams[number].window_of(side, segment);
                    let mss = self.streams[number].directions[1 - side].largest_segment();
                    self.connections[connection].data[1 - side].on_ack(now, ack, window, mss);
                }
            }
            Repr::AddAddr { .. } => self.connections[connection].addresses_announced += 1,
            Repr::Fail { .. } => self.connections[connection].fallback = true,
            Repr::FastClose { .. } => {
                self.connections[connection].fast_close.get_or_insert((side, now));
            }
            _ => {}
        }
    }

    fn take_mapping(&mut self, number: usize, segment: &Segment<'_>, mapping: &Mapping, len: u64, is_near: bool) {
        if is_near {
            let stream = &mut self.streams[number];
            let side = stream.side(segment);
            let dsn = self.connections[stream.connection].data[side].dsn(mapping.dsn);
            stream.directions[side].map(segment, mapping, len, dsn);
        }
    }

    /// Tells the connection's data what a segment carries, and what earlier ones did whose mapping
    /// has just come.
    fn place(&mut self, now: u64, number: usize, side: usize, segment: &Segment<'_>) {
        let stream = &mut self.streams[number];
        let connection = &mut self.connections[stream.connection];
        let direction = &mut stream.directions[side];
        if connection.version.is_none() && !stream.is_join && direction.mapped.is_empty() {
            return;
        }
        if segment.len > 0 {
            let bytes = direction.range(segment);
            direction.mapped.carry(bytes);
        }
        let mss = direction.largest_segment();
        for sent in direction.mapped.resolve() {
            direction.on_placed(now, &connection.data[side].on_sent(now, sent, number, mss));
        }
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

    /// The connection that a join names; if its first subflow is not here, the joins with this
    /// token make one.
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

    fn take_icmp(&mut self, now: u64, file: usize, found: &Icmp, point: Point) {
        let Some([from, to]) = found.about else { return };
        let key = if from <= to { [from, to] } else { [to, from] };
        let Some(&number) = self.by_ends.get(&key) else { return };
        let stream = &mut self.streams[number];
        let side = usize::from(from != stream.ends[0]);
        let is_same =
            |known: &&mut Event| (known.from, known.message, known.mtu, known.side) == (found.from, found.message, found.mtu, side);
        if let Some(same) = stream.icmp.iter_mut().find(is_same) {
            // Another point of one file shows a message that passes.
            let is_passing = same.point != point && same.point.port.file == point.port.file;
            same.count += u64::from(same.file == file && !is_passing);
        } else if stream.icmp.len() < ERRORS {
            let (from, message, mtu) = (found.from, found.message, found.mtu);
            stream.icmp.push(Event { from, message, mtu, side, file, point, first: now, count: 1, longer_after: 0, longest_after: 0 });
        }
    }

    fn finish(self, files: &[String], is_whole: bool) -> Vec<ConnectionReport> {
        let (streams, connections, start) = (self.streams, self.connections, self.start.unwrap_or(0));
        let alive = connections.iter().filter(|connection| !connection.streams.is_empty());
        alive
            .map(|connection| {
                let own: Vec<&Stream> = connection.streams.iter().map(|&stream| &streams[stream]).collect();
                let is_mptcp = connection.version.is_some() || own.iter().any(|stream| stream.is_join || stream.has_mptcp);
                let data: [DataReport; 2] = std::array::from_fn(|side| {
                    let is_alone = own.iter().all(|stream| stream.is_unseen(1 - side));
                    if is_mptcp { connection.data[side].report(start, is_alone) } else { plain(own[0], side, start) }
                });
                ConnectionReport {
                    kind: match (is_mptcp, connection.version) {
                        (false, _) => "tcp",
                        (true, Some(0)) => "mptcp v0",
                        (true, Some(_)) => "mptcp v1",
                        (true, None) => "mptcp",
                    },
                    began_s: own.iter().map(|stream| stream.began.saturating_sub(start)).min().unwrap_or(0) as f64 / 1e9,
                    diagnosis: diagnosis::Findings { connection, streams: &own, data: &data, is_mptcp, is_whole, start }.sentences(),
                    ended: diagnosis::ended(&own, start),
                    joined: diagnosis::joined(&own),
                    data,
                    in_tunnel: own.iter().any(|stream| stream.tunnel.is_some()),
                    tunnel: own.iter().find_map(|stream| stream.tunnel),
                    subflows: own.iter().map(|stream| stream.report(files, start)).collect(),
                }
            })
            .collect()
    }
}

/// The byte stream of a TCP connection.
fn plain(stream: &Stream, side: usize, start: u64) -> DataReport {
    let direction = &stream.directions[side];
    DataReport {
        sent_bytes: direction.watch.sent.saturating_sub(1),
        acked_bytes: direction.acked_bytes(),
        reinjected_bytes: 0,
        mptcp_retransmitted_bytes: 0,
        lasted_s: direction.watch.lasted() as f64 / 1e9,
        goodput_bps: direction.goodput(stream.is_unseen(1 - side)),
        window_limited_share: direction.watch.share(),
        series: direction.watch.series.report(start, 1),
    }
}
