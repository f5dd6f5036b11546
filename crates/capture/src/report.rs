//! What an analysis says, as plain values.

use crate::series::SeriesReport;
use crate::spread::SpreadReport;
use serde::Serialize;

/// What [`analyse`](crate::analyse) returns; its names are the keys of `polypath pcap --json`.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// When the first packet was seen, by the clock of its file, ns since that clock's epoch; none:
    /// there are no packets.
    pub start_ns: Option<u64>,
    /// In the order in which they were given.
    pub files: Vec<FileReport>,
    /// In the order in which their initial subflows were seen; joins are assigned by token
    /// (RFC 8684 section 3.2).
    pub connections: Vec<ConnectionReport>,
}

/// One capture file: what it holds, and where it breaks.
#[derive(Clone, Debug, Serialize)]
pub struct FileReport {
    /// As the caller of [`analyse`](crate::analyse) named it.
    pub name: String,
    /// Packets read, those of `unread` among them.
    pub packets: u64,
    /// Packets that the file says it misses: the capture lost them, or ended before they came.
    pub missing: u64,
    /// The most that a packet's time lies before that of one that stands before it, s.
    pub clock_back_s: f64,
    /// Packets of which it is not known what is in them.
    pub unread: u64,
    /// Why, the most frequent first; at most 65 kinds.
    pub unread_kinds: Vec<KindCount>,
    /// What the others are: `TCP`, `UDP`, `ICMP`, `ARP` and so on, the most frequent first; at most
    /// 65 kinds.
    pub kinds: Vec<KindCount>,
    /// Where the file ends early, bytes from its beginning, unpacked; none: it is whole.
    pub broken_at_byte: Option<u64>,
    /// Why it ends early ([`Broken::sentence`](crate::Broken::sentence)); none: it is whole.
    pub broken: Option<String>,
    /// ICMP and ICMPv6 messages of every type, in the order of their numbers.
    pub icmp: Vec<IcmpCount>,
}

/// How many packets of a kind a file has.
#[derive(Clone, Debug, Serialize)]
pub struct KindCount {
    /// A protocol, or why a packet is not read, with its number in the registry where it has one.
    pub name: String,
    /// Packets of this kind, by what is innermost.
    pub packets: u64,
}

/// How often a message was seen in a file.
#[derive(Clone, Debug, Serialize)]
pub struct IcmpCount {
    /// `ICMP` (RFC 792) or `ICMPv6` (RFC 4443); `kind` and `code` are its numbers.
    pub protocol: &'static str,
    /// Type of the message, in IANA's registry of that protocol.
    pub kind: u8,
    /// Code within that type, in the same registry.
    pub code: u8,
    /// Lower case, after IANA's "ICMP Parameters" and "ICMPv6 Parameters"; `other`: not known here.
    pub name: &'static str,
    /// Messages with these numbers in the file, whatever they are about.
    pub count: u64,
}

/// A connection of TCP, or of MPTCP with all its subflows.
#[derive(Clone, Debug, Serialize)]
pub struct ConnectionReport {
    /// `tcp`, `mptcp v0`, `mptcp v1`, or `mptcp` where no MP_CAPABLE was seen to tell the version.
    pub kind: &'static str,
    /// When its first packet was seen, s since the first packet of all files.
    pub began_s: f64,
    /// Of plain TCP one, which is the connection.
    pub subflows: Vec<SubflowReport>,
    /// From the client and from the server.
    pub data: [DataReport; 2],
    /// Some of its packets came in a tunnel, that is, in another IP packet.
    pub in_tunnel: bool,
    /// Which: `GRE`, `GRE-in-UDP` (RFC 8086), `IP in IP`, `VXLAN` and so on; of several the
    /// innermost.
    pub tunnel: Option<&'static str>,
    /// How it ended where no end was reset, in an English sentence without a full stop; none: that
    /// is not in the captures.
    pub ended: Option<String>,
    /// How many packets were several segments that the host had joined (TSO, GRO), in an English
    /// sentence without a full stop; none: none were.
    pub joined: Option<String>,
    /// What held it back or reset it, in English sentences without a full stop; empty: the packets
    /// show nothing.
    pub diagnosis: Vec<String>,
}

/// The data stream of a connection in one direction; of plain TCP, the byte stream.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DataReport {
    /// Bytes from the first data sequence number to the last that was sent.
    pub sent_bytes: u64,
    /// Bytes from the first data sequence number to the last that was acknowledged.
    pub acked_bytes: u64,
    /// Bytes sent on a subflow that had been sent on another, without those that the subflow itself
    /// sent again; 0 of plain TCP.
    pub reinjected_bytes: u64,
    /// Bytes that MPTCP sent again on the subflow that had carried them, with new sequence numbers
    /// of that subflow (Linux counts such segments, and those of reinjections, in `MPTCPRetrans`).
    pub mptcp_retransmitted_bytes: u64,
    /// From the first to the last packet with data, s.
    pub lasted_s: f64,
    /// Bits per second: what was acknowledged, or sent where no packet of the other end was seen,
    /// over `lasted_s`; 0 if that is 0.
    pub goodput_bps: f64,
    /// Share of that time, 0 to 1, in which the receive window had no room for a segment; none: no
    /// window, or not its scale, was seen.
    pub window_limited_share: Option<f64>,
    /// The same over time, in bytes from the first data sequence number.
    pub series: SeriesReport,
}

/// A TCP connection, or one subflow of MPTCP: what has two addresses and two ports.
#[derive(Clone, Debug, Serialize)]
pub struct SubflowReport {
    /// Address and port, `192.0.2.1:80` or `[2001:db8::1]:80`, of who sent the SYN, or without one
    /// the first packet seen.
    pub client: String,
    /// Address and port of the other end.
    pub server: String,
    /// Its SYN had an MP_JOIN (RFC 8684 section 3.2).
    pub is_join: bool,
    /// That MP_JOIN had the B flag: to be used only if no other subflow can be
    /// (RFC 8684 section 3.2).
    pub backup: bool,
    /// The client's ACK of the SYN/ACK was seen, or payload of either end.
    pub established: bool,
    /// Either end sent a RST.
    pub reset: bool,
    /// How it ended; none: that is not in the captures.
    pub end: Option<EndReport>,
    /// From the client and from the server.
    pub directions: [DirectionReport; 2],
    /// Errors about this subflow's packets, each told apart by who sent it, what it says and to
    /// whom; at most 64.
    pub icmp: Vec<IcmpReport>,
}

/// How a subflow ended: the first RST, or without one before both ends had sent a FIN, the first
/// FIN.
#[derive(Clone, Debug, Serialize)]
pub struct EndReport {
    /// `RST` or `FIN`.
    pub how: &'static str,
    /// Who sent it, `client` or `server`; or somebody on the path in its name.
    pub by: &'static str,
    /// Since the first packet of all files, s.
    pub at_s: f64,
    /// Of the MP_TCPRST on the RST (RFC 8684 section 3.6); none: it had none.
    pub reason_number: Option<u8>,
    /// What that section calls the reason.
    pub reason: Option<&'static str>,
    /// Its flag T: the sender expects that the condition goes away.
    pub is_transient: Option<bool>,
}

/// An ICMP or ICMPv6 error, counted in the file that showed it first.
#[derive(Clone, Debug, Serialize)]
pub struct IcmpReport {
    /// IP address of who sent it.
    pub from: String,
    /// Whose packet it quotes, `client` or `server`.
    pub about: &'static str,
    /// As [`IcmpCount::protocol`].
    pub protocol: &'static str,
    /// As [`IcmpCount::kind`].
    pub kind: u8,
    /// As [`IcmpCount::code`].
    pub code: u8,
    /// As [`IcmpCount::name`].
    pub name: &'static str,
    /// Longest packet that passes, bytes, of "fragmentation needed" and "packet too big", where the
    /// sender names it.
    pub mtu: Option<u32>,
    /// How often the file that showed it first shows it.
    pub count: u64,
    /// Since the first packet of all files, s.
    pub first_s: f64,
    /// Packets that have payload and are longer than that MTU, sent after the first of these
    /// messages.
    pub longer_after: u64,
    /// The longest of them, bytes; 0: there were none.
    pub longest_after: u32,
}

/// What one end of a subflow sent.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DirectionReport {
    /// The file from which this is told: that in which this end's first packet was seen first.
    pub file: Option<String>,
    /// Segments with payload; a super-frame counts as the segments that it was on the link.
    pub segments: u64,
    /// Payload, each byte once (by sequence number).
    pub bytes: u64,
    /// Payload that the other end acknowledged, bytes (Linux: `tcpi_bytes_acked`).
    pub acked_bytes: u64,
    /// Segments sent again, counted as in `segments` (Linux: `tcpi_total_retrans`).
    pub retransmissions: u64,
    /// Payload of the retransmissions, bytes (Linux: `tcpi_bytes_retrans`).
    pub retransmitted_bytes: u64,
    /// Packets with payload that `file` shows once more, on another interface or behind another
    /// header: they count once.
    pub copies: u64,
    /// Packets with payload of which it cannot be told whether they are copies or were sent again;
    /// they count as neither.
    pub unclear: u64,
    /// Segments that came behind a later one and were sent once.
    pub reordered: u64,
    /// Keep-alives with a byte that was acknowledged before (RFC 9293 section 3.8.4); they count as
    /// nothing else.
    pub keep_alives: u64,
    /// Bytes that it carried after another subflow had, by data sequence number; 0 of plain TCP.
    pub reinjected_bytes: u64,
    /// Bytes that it carried after it had itself, by data sequence number, with new sequence
    /// numbers of its own; 0 of plain TCP.
    pub mptcp_retransmitted_bytes: u64,
    /// Bits per second: `acked_bytes`, or `bytes` where no packet of the other end was seen, over
    /// the time from the first to the last packet with payload; 0 if that time is 0.
    pub goodput_bps: f64,
    /// MSS option of its SYN or SYN/ACK, bytes (RFC 9293 section 3.7.1); none: it was not seen.
    pub mss_announced: Option<u16>,
    /// Longest payload of its segments, bytes; 0: it sent none.
    pub mss_used: u32,
    /// Longest packet with data that was acknowledged, bytes.
    pub pmtu_seen: u32,
    /// Payload of segments, and how many there were, the most frequent first.
    pub sizes: Vec<(u32, u64)>,
    /// Packets longer than the receiver's MSS allows with their options: the host joined segments
    /// before the capture saw them.
    pub super_frames: u64,
    /// Packets with payload that had CE in `file` (RFC 3168 section 5).
    pub ce_marks: u64,
    /// From a segment sent once to the ACK that covers it, delayed ACKs included; none: nothing to
    /// measure.
    pub rtt: Option<SpreadReport>,
    /// From `file` to another file, of segments sent once; none: no other file saw them.
    pub one_way_delay: Option<SpreadReport>,
    /// Smallest receive window that this end offered, bytes, scaled (RFC 7323 section 2.2); SYNs
    /// and RSTs do not count. None: it offered none, or their scale was not seen.
    pub window_min: Option<u64>,
    /// The largest, as `window_min`.
    pub window_max: Option<u64>,
    /// Share, 0 to 1, of the time of `goodput_bps` in which the other end's receive window had no
    /// room for a segment; none: no window, or not its scale, was seen.
    pub window_limited_share: Option<f64>,
    /// The same over time, in bytes from this end's first.
    pub series: SeriesReport,
}
