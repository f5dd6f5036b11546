//! What an analysis says, as plain values.

use crate::series::SeriesReport;
use crate::spread::SpreadReport;
use serde::Serialize;

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// When the first packet was seen, by the clock of its file, ns since that clock's epoch; none: there are no packets.
    pub start_ns: Option<u64>,
    pub files: Vec<FileReport>,
    pub connections: Vec<ConnectionReport>,
}

#[derive(Clone, Debug, Serialize)]
pub struct FileReport {
    pub name: String,
    pub packets: u64,
    /// Packets that are no IP, or end before their headers do.
    pub unread: u64,
    /// Where and why the file ends early.
    pub broken_at_byte: Option<u64>,
    pub broken: Option<String>,
    /// ICMP and ICMPv6 messages of every type.
    pub icmp: Vec<IcmpCount>,
}

/// How often a message was seen in a file.
#[derive(Clone, Debug, Serialize)]
pub struct IcmpCount {
    /// `ICMP` or `ICMPv6`, with the message's numbers there.
    pub protocol: &'static str,
    pub kind: u8,
    pub code: u8,
    pub name: &'static str,
    pub count: u64,
}

#[derive(Clone, Debug, Serialize)]
pub struct ConnectionReport {
    /// `tcp`, `mptcp v0` or `mptcp v1`.
    pub kind: &'static str,
    pub subflows: Vec<SubflowReport>,
    /// MPTCP's data from the client and from the server.
    pub data: [DataReport; 2],
    /// In GRE-in-UDP.
    pub in_tunnel: bool,
    pub diagnosis: Vec<String>,
}

/// The data stream of a connection in one direction; of plain TCP, the byte stream.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DataReport {
    /// Bytes from the first data sequence number to the last that was sent, and to the last acknowledged.
    pub sent_bytes: u64,
    pub acked_bytes: u64,
    /// Bytes sent on a subflow that had been sent on another.
    pub reinjected_bytes: u64,
    /// Bytes acknowledged over the time from the first to the last packet with data.
    pub goodput_bps: f64,
    /// Share of that time in which the receive window had no room for a segment.
    pub window_limited_share: f64,
    pub series: SeriesReport,
}

#[derive(Clone, Debug, Serialize)]
pub struct SubflowReport {
    /// Client's address and port, then server's; whoever sent the SYN, or the first packet, is the client.
    pub client: String,
    pub server: String,
    pub is_join: bool,
    pub backup: bool,
    /// From the SYN to the handshake's end, at the client.
    pub established: bool,
    pub reset: bool,
    /// From the client and from the server.
    pub directions: [DirectionReport; 2],
    /// Errors about this subflow's packets, each told apart by who sent it, what it says and to whom; at most 64.
    pub icmp: Vec<IcmpReport>,
}

/// An ICMP or ICMPv6 error, counted in the file that showed it first.
#[derive(Clone, Debug, Serialize)]
pub struct IcmpReport {
    /// Who sent it, and whose packet it is about: `client` or `server`.
    pub from: String,
    pub about: &'static str,
    pub protocol: &'static str,
    pub kind: u8,
    pub code: u8,
    pub name: &'static str,
    /// Longest packet that passes, of "fragmentation needed" and "packet too big", where the sender names it.
    pub mtu: Option<u32>,
    pub count: u64,
    /// Since the first packet of all files, s.
    pub first_s: f64,
    /// Packets longer than that MTU which were sent after the first of these messages, and the longest of them.
    pub longer_after: u64,
    pub longest_after: u32,
}

/// What one end of a subflow sent.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DirectionReport {
    /// The file from which this is told: that in which this end's first packet was seen first.
    pub file: Option<String>,
    /// Segments with payload; a super-frame counts as the segments that it was on the link.
    pub segments: u64,
    /// Payload, each byte once.
    pub bytes: u64,
    pub acked_bytes: u64,
    pub retransmissions: u64,
    pub retransmitted_bytes: u64,
    /// Segments that came behind a later one and were sent once.
    pub reordered: u64,
    pub reinjected_bytes: u64,
    pub goodput_bps: f64,
    /// MSS that this end announced; longest payload that it sent.
    pub mss_announced: Option<u16>,
    pub mss_used: u32,
    /// Longest packet with data that was acknowledged, bytes.
    pub pmtu_seen: u32,
    /// Payload of segments, and how many there were, the most frequent first.
    pub sizes: Vec<(u32, u64)>,
    /// Packets longer than the receiver's MSS allows: the host joined segments before the capture saw them.
    pub super_frames: u64,
    pub ce_marks: u64,
    pub rtt: Option<SpreadReport>,
    /// From the file nearest to this end to another one.
    pub one_way_delay: Option<SpreadReport>,
    /// Smallest and largest window that this end offered, bytes.
    pub window_min: Option<u64>,
    pub window_max: Option<u64>,
    pub window_limited_share: f64,
    pub series: SeriesReport,
}
