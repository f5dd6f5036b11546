//! What held a connection back, in sentences.

use crate::connection::Connection;
use crate::report::DataReport;
use crate::stream::Stream;
use std::net::SocketAddr;

/// A share of the time from which on something is worth a sentence.
const WORTH: f64 = 0.2;
/// Data below which there is nothing to judge, bytes.
const LITTLE: u64 = 20_000;
/// A subflow that carried much is idle at the end of the data if it is so for so many nanoseconds,
/// and for one part in so many of the time that the data took.
const IDLE_NS: u64 = 100_000_000;
const IDLE_PART: u64 = 20;
/// Retransmissions of segments longer than any acknowledged that make a black hole.
const STUCK: u64 = 3;

/// What the sentences are made of.
pub(crate) struct Findings<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) streams: &'a [&'a Stream],
    pub(crate) data: &'a [DataReport; 2],
    pub(crate) is_mptcp: bool,
    /// Nothing is missing in any file, as far as can be told: what is not in it was not there.
    pub(crate) is_whole: bool,
    /// When the first packet of all files was seen.
    pub(crate) start: u64,
}

impl Findings<'_> {
    pub(crate) fn sentences(&self) -> Vec<String> {
        let mut said = Vec::new();
        self.ends(&mut said);
        if self.is_mptcp {
            self.subflows(&mut said);
        } else if self.streams.iter().any(|stream| stream.capable[0] && stream.syn_ack && !stream.capable[1]) {
            said.push(
                "the client asked for MPTCP and the server, or something on the path, did not answer so: this is plain TCP".to_owned(),
            );
        }
        for stream in self.streams {
            let only = (0..2).find(|&side| stream.directions[side].segments > 0 && stream.is_unseen(1 - side));
            if let Some(side) = only {
                said.push(format!("{}: the capture shows only what the {} sent", name(stream), SENDERS[side]));
            } else if self.is_whole {
                handshake(stream, &mut said);
            }
            path_mtu(stream, self.is_whole && only.is_none(), &mut said);
        }
        // The direction that carries most first.
        let most = usize::from(self.data[1].sent_bytes > self.data[0].sent_bytes);
        for side in [most, 1 - most] {
            let (data, sender, receiver) = (&self.data[side], SENDERS[side], SENDERS[1 - side]);
            if data.sent_bytes > LITTLE && self.streams.iter().any(|stream| stream.directions[side].watch.is_scale_unknown) {
                said.push(format!(
                    "whether the receive window of the {receiver} limited the {sender} is not known: the capture has no SYN that tells its scale"
                ));
            }
            if let Some(share) = data.window_limited_share.filter(|&share| data.sent_bytes > LITTLE && share >= WORTH) {
                let (share, lasted) = (share * 100.0, data.lasted_s);
                said.push(format!(
                    "limited by the receive window of the {receiver} for {share:.0} % of the {lasted:.2} s in which the {sender} sent its {}",
                    amount(data.sent_bytes)
                ));
            }
            if let Some((since, until)) = self.connection.data[side].mptcp_retransmitted {
                said.push(format!(
                    "MPTCP sent {} of the {sender}'s data again on the subflow that had carried them, {}",
                    amount(data.mptcp_retransmitted_bytes),
                    if since == until {
                        format!("at {}", self.seconds(since))
                    } else {
                        format!("from {} to {}", self.seconds(since), self.seconds(until))
                    }
                ));
            }
            if side == most && data.sent_bytes > LITTLE {
                self.idle_at_the_end(side, &mut said);
            }
            // Of few bytes, too, if it is a part worth a sentence.
            let many = data.reinjected_bytes * 20 > data.sent_bytes;
            if many && (data.sent_bytes > LITTLE || data.reinjected_bytes as f64 >= WORTH * data.sent_bytes as f64) {
                let share = data.reinjected_bytes as f64 / data.sent_bytes as f64 * 100.0;
                said.push(format!("{share:.0} % of the data of the {sender} were sent again on another subflow"));
            }
        }
        for stream in self.streams {
            losses(stream, &mut said);
        }
        said
    }

    /// Subflows that carried much of the data and nothing of their last part.
    fn idle_at_the_end(&self, side: usize, said: &mut Vec<String>) {
        let whole = &self.connection.data[side].watch;
        for stream in self.streams {
            let sent = &stream.directions[side];
            let idle = whole.last.saturating_sub(sent.watch.last);
            let has_much = sent.bytes as f64 >= WORTH * self.data[side].sent_bytes as f64;
            if has_much && idle >= IDLE_NS && idle.saturating_mul(IDLE_PART) >= whole.lasted() {
                let (part, idle) = (idle as f64 / whole.lasted() as f64 * 100.0, idle as f64 / 1e9);
                said.push(format!(
                    "{}: it carried none of the {}'s data in the last {idle:.2} s, {part:.0} % of the time that they took",
                    name(stream),
                    SENDERS[side]
                ));
            }
        }
    }

    fn seconds(&self, at: u64) -> String {
        format!("{:.3} s", at.saturating_sub(self.start) as f64 / 1e9)
    }

    /// What ended early, and by whom.
    fn ends(&self, said: &mut Vec<String>) {
        if let Some((side, at)) = self.connection.fast_close {
            said.push(format!("the {} gave the connection up with MP_FASTCLOSE at {}", SENDERS[side], self.seconds(at)));
        }
        for stream in self.streams {
            let Some(reset) = stream.reset.filter(|reset| !reset.is_after_end) else { continue };
            // An MP_FASTCLOSE resets all subflows (RFC 8684 section 3.5).
            if self.connection.fast_close.is_some() && reset.why.is_none() {
                continue;
            }
            let (who, at) = (SENDERS[reset.side], self.seconds(reset.at));
            let mut sentence = if stream.syns > 0 && !stream.syn_ack && !stream.established {
                format!("{}: the {who} refused the SYN with a RST at {at}", name(stream))
            } else {
                format!("{}: the {who} reset it at {at}", name(stream))
            };
            if let (Some((is_transient, number)), Some(reason)) = (reset.why, reset.reason()) {
                sentence += &format!(", with MP_TCPRST: {reason} (reason {number}{})", if is_transient { ", transient" } else { "" });
            }
            said.push(sentence);
        }
    }

    fn subflows(&self, said: &mut Vec<String>) {
        let (connection, streams) = (self.connection, self.streams);
        let has_data = |stream: &&&Stream| stream.directions.iter().any(|direction| direction.segments > 0);
        let carrying = streams.iter().filter(has_data).count();
        if !connection.has_first {
            said.push(
                if streams.iter().any(|stream| stream.is_join) {
                    "its first subflow is not in the capture: only joins are"
                } else {
                    "its beginning is not in the capture: which other subflows belong to it is not known"
                }
                .to_owned(),
            );
        }
        // What was not seen may stand where nothing could be read.
        let is_known = self.is_whole && connection.has_first && streams.iter().all(|stream| stream.options_cut == 0);
        let is_over =
            connection.fast_close.is_some() || streams.iter().any(|stream| stream.reset.is_some() || stream.first_fin().is_some());
        let only = format!("only one subflow carried data{}", if is_over { "" } else { " until the capture ends" });
        if streams.iter().any(|stream| stream.capable == [true, false] && stream.syn_ack) {
            said.push("the SYN had an MP_CAPABLE and its answer had none: the connection fell back to TCP".to_owned());
        } else if carrying == 1 && connection.join_syns == 0 && is_known {
            let offered = if connection.addresses_announced > 0 { ", though an address was announced" } else { "" };
            said.push(format!("{only}: no MP_JOIN was sent{offered}"));
        } else if carrying == 1 && streams.len() > 1 && self.is_whole {
            let refused = streams.iter().filter(|stream| stream.is_join && !stream.established).count();
            let all_backup = streams.iter().filter(|stream| stream.is_join).all(|stream| stream.backup);
            said.push(match (refused, all_backup) {
                (0, true) => format!("{only}: the others are backups"),
                (0, false) => format!("{only}, though the others were established"),
                (refused, _) => format!("{only}: {refused} of {} joins did not succeed", streams.len() - 1),
            });
        }
        if connection.fallback {
            said.push("an MP_FAIL was sent: a checksum was wrong, and something on the path changes what passes it".to_owned());
        }
    }
}

const SENDERS: [&str; 2] = ["client", "server"];

/// How the streams of a connection ended, where none was reset.
pub(crate) fn ended(streams: &[&Stream], start: u64) -> Option<String> {
    let seconds = |at: u64| format!("{:.3} s", at.saturating_sub(start) as f64 / 1e9);
    if streams.iter().any(|stream| stream.reset.is_some_and(|reset| !reset.is_after_end)) {
        return None;
    }
    let ended = streams.iter().filter(|stream| stream.first_fin().is_some()).count();
    let (side, at) = streams.iter().filter_map(|stream| stream.first_fin()).min_by_key(|&(_, at)| at)?;
    if streams.len() > 1 {
        let (who, all) = (SENDERS[side], streams.len());
        return Some(format!("{ended} of {all} subflows ended with a FIN, the first by the {who} at {}", seconds(at)));
    }
    let first = format!("the {} closed it with a FIN at {}", SENDERS[side], seconds(at));
    if streams[0].is_unseen(1 - side) {
        return Some(first);
    }
    Some(match streams[0].directions[1 - side].fin {
        Some(later) => format!("{first}, the {} at {}", SENDERS[1 - side], seconds(later)),
        None => format!("{first}, the {} did not", SENDERS[1 - side]),
    })
}

/// Of how many packets the segments are counted that they must have been.
pub(crate) fn joined(streams: &[&Stream]) -> Option<String> {
    let counts = [0, 1].map(|side| streams.iter().map(|stream| stream.directions[side].super_frames).sum::<u64>());
    let said: Vec<_> = (counts.iter().zip(SENDERS))
        .filter(|(count, _)| **count > 0)
        .map(|(count, who)| format!("{count} packet{} of the {who}", if *count == 1 { "" } else { "s" }))
        .collect();
    let those = said.join(" and ");
    (!said.is_empty()).then(|| format!("the host joined segments (TSO, GRO) to {those}; they are counted one by one"))
}

fn amount(bytes: u64) -> String {
    if bytes < 1_000_000 { format!("{:.1} kB", bytes as f64 / 1e3) } else { format!("{:.2} MB", bytes as f64 / 1e6) }
}

fn name(stream: &Stream) -> String {
    let [client, server] = stream.ends.map(|(address, port)| SocketAddr::new(address, port));
    format!("{client} to {server}")
}

fn handshake(stream: &Stream, said: &mut Vec<String>) {
    if stream.syns > 0 && !stream.syn_ack && stream.reset.is_none() {
        let syns = stream.syns;
        said.push(format!("{}: no answer to {syns} SYN{}", name(stream), if syns == 1 { "" } else { "s" }));
    }
}

fn path_mtu(stream: &Stream, is_whole: bool, said: &mut Vec<String>) {
    for event in &stream.icmp {
        let router = event.from;
        said.push(match event.mtu {
            Some(mtu) if event.longer_after > STUCK => format!(
                "{}: {router} answers that {mtu} bytes are the most, and {} longer packets (up to {} bytes) followed: black hole behind it",
                name(stream),
                event.longer_after,
                event.longest_after
            ),
            Some(mtu) => format!("{}: the path MTU is {mtu} bytes behind {router}, which said so", name(stream)),
            None => format!(
                "{}: {router} answered the {} {} time{} with \"{}\"",
                name(stream),
                SENDERS[event.side],
                event.count,
                if event.count == 1 { "" } else { "s" },
                event.message.name()
            ),
        });
    }
    for direction in &stream.directions {
        if is_whole
            && direction.unclear == 0
            && direction.too_long_again >= STUCK
            && stream.icmp.iter().all(|event| event.mtu.is_none())
            && direction.too_long > direction.pmtu_seen + 8
            && direction.too_long > 576
        {
            said.push(format!(
                "{}: packets of {} bytes were sent again {} times and never acknowledged, {}, and no router answered: an MTU black hole",
                name(stream),
                direction.too_long,
                direction.too_long_again,
                if direction.pmtu_seen == 0 {
                    "nor was any other with data".to_owned()
                } else {
                    format!("those of {} bytes were", direction.pmtu_seen)
                },
            ));
        }
    }
}

fn losses(stream: &Stream, said: &mut Vec<String>) {
    if stream.options_cut > 0 {
        said.push(format!(
            "{}: the snap length cuts the TCP options of {} packets off, so that MPTCP, the MSS and the window's scale may be missed",
            name(stream),
            stream.options_cut
        ));
    }
    for (side, direction) in stream.directions.iter().enumerate() {
        let share = |count: u64| count as f64 / direction.segments.max(1) as f64;
        let who = SENDERS[side];
        if direction.unclear > 0 {
            said.push(format!(
                "{}: {} packets of the {who} stand twice in a capture of all interfaces that does not name them, so it cannot be told what was sent again: use `tcpdump -y LINUX_SLL2`, or capture one interface",
                name(stream),
                direction.unclear
            ));
            continue;
        }
        if direction.segments > 100 && share(direction.retransmissions) > 0.02 {
            let percent = share(direction.retransmissions) * 100.0;
            said.push(format!("{}: the {who} sent {percent:.1} % of its segments again", name(stream)));
        }
        if direction.segments > 100 && share(direction.reordered) > 0.01 {
            let percent = share(direction.reordered) * 100.0;
            said.push(format!("{}: {percent:.1} % of the {who}'s segments were overtaken by others", name(stream)));
        }
    }
}
