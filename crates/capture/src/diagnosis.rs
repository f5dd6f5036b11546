//! What held a connection back, in sentences.

use crate::connection::Connection;
use crate::report::DataReport;
use crate::stream::Stream;
use std::net::SocketAddr;

/// A share of the time from which on something is worth a sentence.
const WORTH: f64 = 0.2;
/// Data below which there is nothing to judge, bytes.
const LITTLE: u64 = 20_000;
/// Retransmissions of segments longer than any acknowledged that make a black hole.
const STUCK: u64 = 3;

pub(crate) fn sentences(connection: &Connection, streams: &[&Stream], data: &[DataReport; 2], is_mptcp: bool) -> Vec<String> {
    let mut said = Vec::new();
    if is_mptcp {
        subflows(connection, streams, &mut said);
    } else if streams.iter().any(|stream| stream.capable[0] && !stream.capable[1]) {
        said.push("the client asked for MPTCP and the server, or something on the path, did not answer so: this is plain TCP".to_owned());
    }
    for stream in streams {
        handshake(stream, &mut said);
        path_mtu(stream, &mut said);
    }
    for (side, data) in data.iter().enumerate() {
        let who = ["server", "client"][side];
        if data.sent_bytes > LITTLE && data.window_limited_share >= WORTH {
            let share = data.window_limited_share * 100.0;
            said.push(format!("limited by the receive window of the {who} for {share:.0} % of the time"));
        }
        if data.sent_bytes > LITTLE && data.reinjected_bytes * 20 > data.sent_bytes {
            let share = data.reinjected_bytes as f64 / data.sent_bytes as f64 * 100.0;
            said.push(format!("{share:.0} % of the data of the {} were sent again on another subflow", ["client", "server"][side]));
        }
    }
    for stream in streams {
        losses(stream, &mut said);
    }
    said
}

fn name(stream: &Stream) -> String {
    let [client, server] = stream.ends.map(|(address, port)| SocketAddr::new(address, port));
    format!("{client} to {server}")
}

fn subflows(connection: &Connection, streams: &[&Stream], said: &mut Vec<String>) {
    let has_data = |stream: &&&Stream| stream.directions.iter().any(|direction| direction.segments > 0);
    let carrying = streams.iter().filter(has_data).count();
    if !connection.has_first {
        said.push("its first subflow is not in the capture: only joins are".to_owned());
    }
    if streams.iter().any(|stream| stream.capable == [true, false] && stream.syn_ack) {
        said.push("the SYN had an MP_CAPABLE and its answer had none: the connection fell back to TCP".to_owned());
    } else if carrying == 1 && connection.join_syns == 0 {
        let offered = if connection.addresses_announced > 0 { ", though an address was announced" } else { "" };
        said.push(format!("only one subflow carried data: no MP_JOIN was sent{offered}"));
    } else if carrying == 1 && streams.len() > 1 {
        let refused = streams.iter().filter(|stream| stream.is_join && !stream.established).count();
        let all_backup = streams.iter().filter(|stream| stream.is_join).all(|stream| stream.backup);
        said.push(match (refused, all_backup) {
            (0, true) => "only one subflow carried data: the others are backups".to_owned(),
            (0, false) => "only one subflow carried data, though the others were established".to_owned(),
            (refused, _) => format!("only one subflow carried data: {refused} of {} joins did not succeed", streams.len() - 1),
        });
    }
    if connection.fallback {
        said.push("an MP_FAIL was sent: a checksum was wrong, and something on the path changes what passes it".to_owned());
    }
}

fn handshake(stream: &Stream, said: &mut Vec<String>) {
    if stream.syns > 0 && !stream.syn_ack {
        let syns = stream.syns;
        said.push(format!("{}: no answer to {syns} SYN{}", name(stream), if syns == 1 { "" } else { "s" }));
    }
}

fn path_mtu(stream: &Stream, said: &mut Vec<String>) {
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
                ["client", "server"][event.side],
                event.count,
                if event.count == 1 { "" } else { "s" },
                event.message.name()
            ),
        });
    }
    for direction in &stream.directions {
        if direction.too_long_again >= STUCK
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
        if direction.super_frames > 0 {
            said.push(format!(
                "{}: {} packets are longer than the receiver's MSS allows: the host joined segments (TSO, GRO), and they are counted as those they must have been",
                name(stream),
                direction.super_frames
            ));
        }
    }
}

fn losses(stream: &Stream, said: &mut Vec<String>) {
    for (side, direction) in stream.directions.iter().enumerate() {
        let share = |count: u64| count as f64 / direction.segments.max(1) as f64;
        let who = ["client", "server"][side];
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
