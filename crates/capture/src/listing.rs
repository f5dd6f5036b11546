//! The segments of captures, one by one, without what each run draws by chance: sequence numbers
//! count from the SYN, data sequence numbers from the connection's first, and keys, tokens, HMACs,
//! numbers of addresses and times of the timestamp option are left out.

use crate::frame::{Frame, Segment, TcpOption, dissect};
use crate::reader::CaptureReader;
use polypath_wire::mptcp::{Keys, Mapping, Number, Repr, Version};
use polypath_wire::{Flags, accecn};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read;
use std::net::IpAddr;

type End = (IpAddr, u16);

/// A segment of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Since the epoch of the file's clock.
    pub time_ns: u64,
    /// The file that has it, by its place among those given.
    pub file: usize,
    /// Address and port of who sent it.
    pub source: End,
    /// And of whom it is for.
    pub destination: End,
    /// What it says, as scripts of packets write it.
    pub text: String,
}

/// The segments in these files in the order of their times; of equal ones that of the file named
/// first. What is no TCP segment is left out.
pub fn segments<R: Read + Send>(files: Vec<R>) -> Vec<Listed> {
    let mut readers: Vec<_> = files.into_iter().map(CaptureReader::new).collect();
    let mut waiting: Vec<bool> = readers.iter_mut().map(CaptureReader::advance).collect();
    let (mut starts, mut listed) = (Starts::default(), Vec::new());
    while let Some(file) = (0..readers.len()).filter(|&file| waiting[file]).min_by_key(|&file| readers[file].packet.time_ns) {
        let packet = &readers[file].packet;
        if let Ok(found) = dissect(packet.link_type, &packet.bytes, packet.len)
            && let Frame::Tcp(segment) = found.frame
        {
            let text = starts.text(&segment);
            listed.push(Listed { time_ns: packet.time_ns, file, source: segment.source, destination: segment.destination, text });
        }
        waiting[file] = readers[file].advance();
    }
    listed
}

/// Where each direction begins to count.
#[derive(Default)]
struct Starts {
    /// Sequence numbers of SYNs, by who sends and who receives.
    seq: BTreeMap<(End, End), u32>,
    /// First data sequence numbers of who sends, in the same way.
    data: BTreeMap<(End, End), u64>,
    /// Of a token: its own end's first data sequence number, and that of the peer.
    tokens: BTreeMap<u32, (u64, u64)>,
}

impl Starts {
    fn text(&mut self, segment: &Segment<'_>) -> String {
        let (there, back) = ((segment.source, segment.destination), (segment.destination, segment.source));
        if segment.flags.has(Flags::SYN) {
            self.seq.insert(there, segment.seq);
        }
        let from =
            |starts: &Self, direction: &(End, End), number: u32| number.wrapping_sub(starts.seq.get(direction).copied().unwrap_or(0));
        let seq = from(self, &there, segment.seq);
        let mut text = String::new();
        for (flag, letter) in [
            (Flags::FIN, 'F'),
            (Flags::SYN, 'S'),
            (Flags::RST, 'R'),
            (Flags::PSH, 'P'),
            (Flags::URG, 'U'),
            (Flags::ECE, 'E'),
            (Flags::CWR, 'W'),
        ] {
            if segment.flags.has(flag) {
                text.push(letter);
            }
        }
        if segment.ae {
            text.push('A');
        }
        if segment.flags.has(Flags::ACK) {
            text.push('.');
        }
        // Writing to a string does not fail.
        let _ = write!(text, " {seq}:{}({})", seq.wrapping_add(segment.len), segment.len);
        if segment.flags.has(Flags::ACK) {
            let _ = write!(text, " ack {}", from(self, &back, segment.ack));
        }
        let _ = write!(text, " win {}", segment.window);
        let mut options = Vec::new();
        let sacked: Vec<String> = segment.sacked().map(|block| block.map(|edge| from(self, &back, edge).to_string()).join(":")).collect();
        if !sacked.is_empty() {
            options.push(format!("sack {}", sacked.join(" ")));
        }
        for option in segment.options() {
            options.push(match option {
                TcpOption::Mss(mss) => format!("mss {mss}"),
                TcpOption::WindowScale(scale) => format!("wscale {scale}"),
                TcpOption::AccEcn(option) => counters(&option),
                TcpOption::Mptcp(option) => self.mptcp(there, &option),
            });
        }
        if !options.is_empty() {
            let _ = write!(text, " <{}>", options.join(", "));
        }
        text
    }

    fn mptcp(&mut self, there: (End, End), option: &Repr) -> String {
        let back = (there.1, there.0);
        match *option {
            Repr::Capable { version, flags, keys } => {
                let hash = if version == 0 { Version::V0 } else { Version::V1 };
                let first = |key| {
                    let (token, data) = hash.token_and_idsn(key);
                    (token, data.get())
                };
                let mut what = "";
                match keys {
                    Keys::None => {}
                    Keys::Sender(key) => {
                        what = " key";
                        self.data.insert(there, first(key).1);
                    }
                    Keys::Both { sender, receiver, .. } => {
                        what = " keys";
                        let (own, peer) = (first(sender), first(receiver));
                        self.data.extend([(there, own.1), (back, peer.1)]);
                        self.tokens.extend([(own.0, (own.1, peer.1)), (peer.0, (peer.1, own.1))]);
                    }
                }
                format!("mpcapable v{version} flags {flags:#x}{what}")
            }
            Repr::JoinSyn { backup, token, .. } => {
                if let Some(&(receiver, sender)) = self.tokens.get(&token) {
                    self.data.extend([(there, sender), (back, receiver)]);
                }
                format!("mp_join_syn backup={}", u8::from(backup))
            }
            Repr::JoinSynAck { backup, .. } => format!("mp_join_syn_ack backup={}", u8::from(backup)),
            Repr::JoinAck { .. } => "mp_join_ack".to_owned(),
            Repr::Dss { ack, mapping, data_fin } => {
                let mut text = "dss".to_owned();
                if let Some(ack) = ack {
                    let _ = write!(text, " dack{}", self.relative(back, ack));
                }
                if let Some(Mapping { dsn, ssn, len, checksum }) = mapping {
                    let csum = if checksum.is_some() { "csum" } else { "nocs" };
                    let _ = write!(text, " dsn{} ssn={ssn} dll={len} {csum}", self.relative(there, dsn));
                }
                if data_fin {
                    text.push_str(" fin");
                }
                text
            }
            Repr::AddAddr { announcement, address, port, .. } => {
                let echo = if announcement == polypath_wire::mptcp::Announcement::Echo { "_echo" } else { "" };
                let port = port.map_or_else(String::new, |port| format!(":{port}"));
                format!("add_address{echo} {address}{port}")
            }
            Repr::RemoveAddr { address_ids } => format!("remove_address of {}", address_ids.len()),
            Repr::Prio { backup, .. } => format!("mp_prio backup={}", u8::from(backup)),
            Repr::Fail { .. } => "mp_fail".to_owned(),
            Repr::FastClose { .. } => "mp_fastclose".to_owned(),
            Repr::TcpRst { flags, reason } => format!("mp_reset flags={flags} reason={reason}"),
            Repr::Unknown { .. } => "mptcp, unknown".to_owned(),
        }
    }

    fn relative(&self, direction: (End, End), number: Number) -> String {
        let first = self.data.get(&direction).copied().unwrap_or(0);
        match number {
            Number::Long(number) => format!("8={}", number.wrapping_sub(first)),
            Number::Short(number) => format!("4={}", number.wrapping_sub(first as u32)),
        }
    }
}

/// An AccECN option.
fn counters(option: &accecn::Repr) -> String {
    option.named().fold("ECN".to_owned(), |text, (name, counter)| format!("{text} {name} {counter}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use polypath_base::Seq;
    use polypath_wire::{Envelope, Segment as Wire, pcapng};
    use std::net::{Ipv4Addr, SocketAddr};

    fn capture(packets: &[Vec<u8>]) -> Vec<u8> {
        let mut file = Vec::new();
        pcapng::section(&mut file, "test");
        pcapng::interface(&mut file, pcapng::LinkType::RawIp, 200, "a");
        for (at, packet) in packets.iter().enumerate() {
            pcapng::packet(&mut file, at as u64 * 1000, packet.len() as u32, packet);
        }
        file
    }

    #[test]
    fn accurate_ecn_is_told_as_in_scripts() {
        let end = |last, port| SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)), port);
        let mut segment = Wire { flags: Flags::ACK, window: 9, window_scale: 255, ..Wire::default() };
        segment.set_ace(5);
        assert!(segment.mp.set_accecn(&accecn::Repr { ect_1_first: true, len: 3, counters: [1, 0, 1449] }));
        let bytes = segment.to_bytes(&Envelope { source: end(1, 4000), destination: end(2, 5000), ident: 0 }, &[]).unwrap();
        let listed = segments(vec![&capture(&[bytes])[..]]);
        assert_eq!(listed[0].text, "EA. 0:0(0) ack 0 win 9 <ECN e1b 1 ceb 0 e0b 1449>");
    }

    #[test]
    fn numbers_count_from_the_syn() {
        let end = |last, port| SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)), port);
        let there = Envelope { source: end(1, 4000), destination: end(2, 5000), ident: 0 };
        let back = Envelope { source: end(2, 5000), destination: end(1, 4000), ident: 0 };
        let (syn, ack) = (Flags::SYN, Flags::ACK);
        let written = |envelope, segment: Wire, len: usize| segment.to_bytes(envelope, &vec![0; len]).expect("it fits");
        let texts = |first: u32, other: u32| {
            let (own, peer) = (Seq::new(first), Seq::new(other));
            let packets = [
                written(&there, Wire { seq: own, flags: syn, mss: 1460, window: 100, window_scale: 255, ..Wire::default() }, 0),
                written(&back, Wire { seq: peer, ack: own + 1, flags: syn.with(ack), mss: 536, window_scale: 7, ..Wire::default() }, 0),
                written(
                    &there,
                    Wire { seq: own + 1, ack: peer + 1, len: 10, flags: ack.with(Flags::PSH), window_scale: 255, ..Wire::default() },
                    10,
                ),
            ];
            segments(vec![&capture(&packets)[..]]).into_iter().map(|one| one.text).collect::<Vec<_>>()
        };
        assert_eq!(
            texts(7, u32::MAX),
            ["S 0:0(0) win 100 <mss 1460>", "S. 0:0(0) ack 1 win 0 <mss 536, wscale 7>", "P. 1:11(10) ack 1 win 0"]
        );
        assert_eq!(texts(7, u32::MAX), texts(123_456, 99));
    }
}
