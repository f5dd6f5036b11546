//! Captures: the packets that a node sends to a link and gets from it, as bytes in a pcapng file.
//!
//! A tap stands on the routes between a node and a link (`routes`), so that a run without captures
//! has nothing to ask. What is sent is seen before the link does anything to it, what is received
//! when the link is done with it. Bytes are made here alone: real addresses, right checksums, all
//! options, zeros for payload. Datagrams carry their number and the time of their sending, as those
//! of the kernel engines.

use crate::fragments;
use crate::network::Network;
use crate::outcome::CaptureFile;
use crate::packet::{Body, Encapsulated, Packet, PacketStore, TunnelHeader};
use crate::routes::Routes;
use crate::scenario;
use polypath_base::{Bytes, Instant, PathId, Seq};
use polypath_transport::udp::Datagram;
use polypath_wire::checksum::Addresses;
use polypath_wire::pcapng::{self, LinkType};
use polypath_wire::{Envelope, Error, Flags, Segment, gre, icmpv4, icmpv6, ipv4, ipv6, mpt, probe, udp};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// What the taps of a run have seen.
#[derive(Debug, Default)]
pub(crate) struct Captures {
    taps: Vec<Tap>,
    /// By sending endpoint and its path.
    envelopes: BTreeMap<(u32, PathId), Envelope>,
    zeros: Vec<u8>,
}

struct Tap {
    name: String,
    snaplen: Bytes,
    most: u64,
    seen: u64,
    /// Packets of which there are no bytes: those in packets, and what the formats have no room
    /// for.
    unwritten: u64,
    file: Vec<u8>,
    /// Bytes of the file before its first packet.
    head: usize,
}

impl std::fmt::Debug for Tap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tap").field("name", &self.name).field("seen", &self.seen).finish_non_exhaustive()
    }
}

impl Captures {
    /// Each capture with the name of its place.
    pub(crate) fn new<'a>(captures: impl Iterator<Item = (&'a scenario::Capture, String)>) -> Self {
        let taps = captures.map(|(capture, name)| {
            let mut file = Vec::new();
            pcapng::section(&mut file, concat!("polypath ", env!("CARGO_PKG_VERSION")));
            pcapng::interface(&mut file, LinkType::RawIp, capture.snaplen.as_u32(), &name);
            Tap { name, snaplen: capture.snaplen, most: capture.packets, seen: 0, unwritten: 0, head: file.len(), file }
        });
        Self { taps: taps.collect(), envelopes: BTreeMap::new(), zeros: Vec::new() }
    }

    /// A packet passes a tap.
    #[cold]
    pub(crate) fn record(&mut self, now: Instant, tap: usize, packet: &Packet, store: &PacketStore, routes: &Routes, network: &Network) {
        let Some(Tap { seen, most, .. }) = self.taps.get_mut(tap) else { return };
        *seen += 1;
        if *seen > *most {
            return;
        }
        let bytes = self.bytes(packet, store, routes, network);
        let tap = &mut self.taps[tap];
        match bytes {
            Ok(bytes) => {
                let kept = bytes.len().min(tap.snaplen.get() as usize);
                pcapng::packet(&mut tap.file, now.as_nanos(), bytes.len() as u32, &bytes[..kept]);
            }
            Err(_) => tap.unwritten += 1,
        }
    }

    /// Forgets all packets; their numbers count from here.
    pub(crate) fn discard(&mut self) {
        for Tap { seen, unwritten, file, head, .. } in &mut self.taps {
            (*seen, *unwritten) = (0, 0);
            file.truncate(*head);
        }
    }

    /// The files.
    pub(crate) fn finish(self, end: Instant) -> Vec<CaptureFile> {
        let files = self.taps.into_iter().map(|Tap { name, most, seen, unwritten, file: mut bytes, .. }| {
            let comment = (seen > most).then(|| format!("only the first {most} packets are here"));
            pcapng::statistics(&mut bytes, end.as_nanos(), seen, seen.saturating_sub(most) + unwritten, comment.as_deref());
            CaptureFile { name, bytes }
        });
        files.collect()
    }

    fn bytes(&mut self, packet: &Packet, store: &PacketStore, routes: &Routes, network: &Network) -> Result<Vec<u8>, Error> {
        match packet.body {
            Body::Tcp => {
                let mut segment = Segment::default();
                packet.unpack(store, &mut segment);
                let envelope = self.envelope(routes, routes.peer_of(packet.to), packet.path)?;
                part(segment.to_bytes(&envelope, zeros(&mut self.zeros, segment.len))?, packet)
            }
            Body::Datagram => {
                let envelope = self.envelope(routes, routes.peer_of(packet.to), packet.path)?;
                let datagram = store.datagram(packet);
                let ident = if packet.fragment == 0 { datagram.number } else { fragments::id(packet.fragment) } as u16;
                part(datagram_bytes(&Envelope { ident, ..envelope }, &datagram, packet)?, packet)
            }
            Body::Icmp { mtu, from } => {
                // It goes back to who sent the packet, on the path of that one.
                let envelope = self.envelope(routes, packet.to, packet.path)?;
                let mut segment = Segment::default();
                packet.unpack(store, &mut segment);
                // No segment is without flags.
                let quoted = if packet.flags == Flags::default() {
                    datagram_bytes(&envelope, &Datagram { len: Bytes::from_u32(packet.len), ..Datagram::default() }, packet)?
                } else {
                    segment.to_bytes(&envelope, zeros(&mut self.zeros, segment.len))?
                };
                let answer = match routes.address_at(network, from) {
                    Some(IpAddr::V4(router)) => icmpv4::fragmentation_needed(&quoted, router, u32::from(mtu)),
                    Some(IpAddr::V6(router)) => icmpv6::packet_too_big(&quoted, router, u32::from(mtu)),
                    None => None,
                };
                answer.ok_or(Error::Malformed("icmp"))
            }
            Body::Encapsulated => {
                let envelope = self.envelope(routes, routes.peer_of(packet.to), packet.path)?;
                let Encapsulated { inner, header } = *store.inside(packet);
                let inside = if inner.body == Body::Report {
                    let report = store.report(&inner);
                    let mut bytes = vec![0; report.buffer_len()];
                    report.emit(&mut bytes)?;
                    bytes
                } else if let Body::Probe { is_answer, size, id } = inner.body {
                    let mut bytes = vec![0; inner.ip_len as usize];
                    probe::Repr { is_answer, size, id }.emit(&mut bytes)?;
                    bytes
                } else if let Body::Parity { index } = inner.body {
                    // What it is made of are zeros, as payloads are.
                    let mut bytes = vec![0; inner.ip_len as usize];
                    store.parity(&inner, index).emit(&mut bytes)?;
                    bytes
                } else if header.keepalive {
                    let [source, destination] = routes.device_addresses(packet.to).ok_or(Error::Malformed("addresses"))?;
                    let keepalive = mpt::Repr { source, destination };
                    let mut bytes = vec![0; keepalive.buffer_len()];
                    keepalive.emit(&mut bytes)?;
                    bytes
                } else {
                    self.bytes(&inner, store, routes, network)?
                };
                let key = if header.keepalive { None } else { routes.tunnel_key(packet.to) };
                part(tunnel_bytes(&envelope, &header, key, &inside)?, packet)
            }
            // Only ever inside of a tunnel's packet.
            Body::Report | Body::Probe { .. } | Body::Parity { .. } => Err(Error::Malformed("report")),
        }
    }

    fn envelope(&mut self, routes: &Routes, sender: u32, path: PathId) -> Result<Envelope, Error> {
        if let Some(known) = self.envelopes.get(&(sender, path)) {
            return Ok(*known);
        }
        let found = routes.envelope(sender, path).ok_or(Error::Malformed("addresses"))?;
        self.envelopes.insert((sender, path), found);
        Ok(found)
    }
}

fn zeros(zeros: &mut Vec<u8>, len: u32) -> &[u8] {
    if zeros.len() < len as usize {
        zeros.resize(len as usize, 0);
    }
    &zeros[..len as usize]
}

/// The whole packet, or the part of it that this one is (RFC 791 section 3.2).
fn part(whole: Vec<u8>, packet: &Packet) -> Result<Vec<u8>, Error> {
    if packet.fragment == 0 {
        return Ok(whole);
    }
    let view = ipv4::Packet::new_checked(&whole)?;
    let (header, offset) = (ipv4::Repr::parse(&view)?, fragments::offset(packet.fragment) as usize);
    let len = (packet.ip_len as usize).saturating_sub(view.header_len());
    let piece = view.payload().get(offset..offset + len).ok_or(Error::Truncated)?;
    let header = ipv4::Repr {
        ident: fragments::id(packet.fragment) as u16,
        more_fragments: offset + len < view.payload().len(),
        fragment_offset: (offset / 8) as u16,
        payload_len: len,
        ..header
    };
    let mut bytes = vec![0; header.header_len()];
    bytes.extend_from_slice(piece);
    header.emit(&mut bytes)?;
    Ok(bytes)
}

/// A packet of a tunnel: IP, UDP, GRE, and what is inside. DF is set, as MPT's sockets do.
fn tunnel_bytes(envelope: &Envelope, header: &TunnelHeader, key: Option<u32>, inside: &[u8]) -> Result<Vec<u8>, Error> {
    let protocol = if inside.first().is_some_and(|first| first >> 4 == 6) { gre::IPV6 } else { gre::IPV4 };
    let sequence = header.seq.map(Seq::get);
    let gre = gre::Repr { protocol, key, sequence, payload_len: inside.len(), ..gre::Repr::default() };
    let mut payload = vec![0; gre.header_len()];
    payload.extend_from_slice(inside);
    gre.emit(&mut payload)?;
    // The kernel counts the identification on by socket; the tunnel's number serves as well.
    let ident = sequence.unwrap_or(0) as u16;
    udp_bytes(&Envelope { ident, ..*envelope }, &payload, 0, true)
}

fn datagram_bytes(envelope: &Envelope, datagram: &Datagram, packet: &Packet) -> Result<Vec<u8>, Error> {
    let mut payload = vec![0; datagram.len.get() as usize];
    let (number, sent_at) = (u64::from(datagram.number).to_le_bytes(), datagram.sent_at.as_nanos().to_le_bytes());
    for (place, byte) in payload.iter_mut().zip(number.into_iter().chain(sent_at)) {
        *place = byte;
    }
    udp_bytes(envelope, &payload, packet.ecn, packet.df)
}

fn udp_bytes(envelope: &Envelope, payload: &[u8], ecn: u8, dont_fragment: bool) -> Result<Vec<u8>, Error> {
    let (addresses, ip_header) = match (envelope.source.ip(), envelope.destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => (Addresses::V4 { source, destination }, ipv4::HEADER),
        (IpAddr::V6(source), IpAddr::V6(destination)) => (Addresses::V6 { source, destination }, ipv6::HEADER),
        _ => return Err(Error::Malformed("address family")),
    };
    let header = udp::Repr {
        source_port: envelope.source.port(),
        destination_port: envelope.destination.port(),
        checksum: true,
        payload_len: payload.len(),
    };
    let mut bytes = vec![0; ip_header + udp::HEADER];
    bytes.extend_from_slice(payload);
    header.emit(&mut bytes[ip_header..], &addresses)?;
    let (protocol, payload_len) = (udp::PROTOCOL, header.buffer_len());
    match addresses {
        Addresses::V4 { source, destination } => {
            let ident = envelope.ident;
            ipv4::Repr { source, destination, protocol, ecn, ident, dont_fragment, payload_len, ..ipv4::Repr::default() }
                .emit(&mut bytes)?;
        }
        Addresses::V6 { source, destination } => {
            ipv6::Repr { source, destination, next_header: protocol, ecn, payload_len, ..ipv6::Repr::default() }.emit(&mut bytes)?;
        }
    }
    Ok(bytes)
}
