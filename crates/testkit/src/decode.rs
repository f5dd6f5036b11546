//! What the bytes of the endpoint say, in the script's numbers, and whether that is what a line
//! expects.

use crate::encode::head;
use crate::notation::{AE, Seen, SeenOption, flags, moment, seconds};
use crate::numbers::{Flow, Numbers, Side};
use crate::script::{Opt, Options, Segment, Value};
use polypath_base::Instant;
use polypath_wire::mptcp::{self, Announcement, Keys, Number, dss_checksum};
use polypath_wire::{Flags, ipv4, tcp};
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};

/// Reads a packet of the endpoint, and learns from it. `expected` is the subflow of the line that
/// waits for it.
///
/// # Errors
/// A sentence, if it is no TCP segment with right checksums.
pub(crate) fn decode(numbers: &mut Numbers, at: Instant, bytes: &[u8], expected: Option<usize>) -> Result<Seen, String> {
    let packet = ipv4::Packet::new_checked(bytes).map_err(|e| format!("it is no IPv4 packet: {e}"))?;
    let ip = ipv4::Repr::parse(&packet).map_err(|e| format!("it is no IPv4 packet: {e}"))?;
    if ip.protocol != tcp::PROTOCOL {
        return Err(format!("it is no TCP segment, but of protocol {}", ip.protocol));
    }
    let view = tcp::Packet::new_checked(packet.payload()).map_err(|e| format!("it is no TCP segment: {e}"))?;
    let header = tcp::Repr::parse(&view, &packet.addresses()).map_err(|e| format!("it is no TCP segment: {e}"))?;
    let local = SocketAddrV4::new(ip.source, header.source_port);
    let peer = SocketAddrV4::new(ip.destination, header.destination_port);
    let is_syn = header.flags.has(Flags::SYN) && !header.flags.has(Flags::ACK);
    let subflow = numbers.flow_of(local, peer, is_syn, expected);
    if let Some(number) = subflow {
        numbers.learn(Side::Local, number, &header);
    }
    let flow = subflow.and_then(|number| numbers.flow(number)).cloned();
    let seq = flow.as_ref().map_or(i64::from(header.seq.get()), |flow| flow.local_relative(header.seq));
    let ack = flow.as_ref().map_or(i64::from(header.ack.get()), |flow| flow.peer_relative(header.ack));
    Ok(Seen {
        at,
        subflow,
        addresses: format!("{local} > {peer}"),
        ecn: ip.ecn,
        flags: u16::from(header.flags.0) | (u16::from(header.reserved & 1) * AE),
        seq,
        len: header.payload_len as u32,
        ack: header.flags.has(Flags::ACK).then_some(ack),
        window: header.window,
        options: options(numbers, flow.as_ref(), &header, view.payload()),
    })
}

fn options(numbers: &Numbers, flow: Option<&Flow>, header: &tcp::Repr, payload: &[u8]) -> Vec<SeenOption> {
    let mut found = Vec::new();
    let mut put = |name, fields: Vec<(&'static str, u128)>| found.push(SeenOption { name, fields });
    if let Some(mss) = header.mss {
        put("mss", vec![("", u128::from(mss))]);
    }
    if header.sack_permitted {
        put("sackOK", vec![]);
    }
    if let Some(timestamps) = header.timestamps {
        let first = flow.and_then(|flow| flow.first_ts).unwrap_or(0);
        put("TS", vec![("val", u128::from(timestamps.value.wrapping_sub(first))), ("ecr", u128::from(timestamps.echo))]);
    }
    if let Some(option) = header.accecn {
        put("ECN", option.named().map(|(name, counter)| (name, u128::from(counter))).collect());
    }
    if let Some(shift) = header.window_scale {
        put("wscale", vec![("", u128::from(shift))]);
    }
    if header.sack.len > 0 {
        let relative = |seq| flow.map_or(i64::from(polypath_base::Seq::get(seq)), |flow| flow.peer_relative(seq));
        let edges = header.sack.as_slice().iter().flat_map(|block| [block.start, block.end]);
        put("sack", edges.map(|edge| ("", u128::from(relative(edge) as u32))).collect());
    }
    for option in header.mptcp.iter() {
        let (name, fields) = mptcp_fields(numbers, option, payload);
        put(name, fields);
    }
    if let Some(&kind) = header.unknown.first() {
        put("unknown", vec![("kind", u128::from(kind))]);
    }
    found
}

fn mptcp_fields(numbers: &Numbers, option: &mptcp::Repr, payload: &[u8]) -> (&'static str, Vec<(&'static str, u128)>) {
    let flag = u128::from;
    match *option {
        mptcp::Repr::Capable { version, flags, keys } => {
            let mut fields = vec![("version", u128::from(version)), ("flags", u128::from(flags))];
            match keys {
                Keys::None => fields.push(("keys", 0)),
                Keys::Sender(key) => fields.extend([("keys", 1), ("key", u128::from(key))]),
                Keys::Both { sender, receiver, data } => {
                    fields.extend([("keys", 2), ("key", u128::from(sender)), ("peer_key", u128::from(receiver))]);
                    fields.extend(data.map(|data| ("mpcdatalen", u128::from(data.len))));
                    fields.extend(data.and_then(|data| data.checksum).map(|sum| ("csum", u128::from(sum))));
                }
            }
            ("mpcapable", fields)
        }
        mptcp::Repr::JoinSyn { backup, address_id, token, nonce } => {
            let fields =
                vec![("backup", flag(backup)), ("address_id", address_id.into()), ("token", token.into()), ("nonce", nonce.into())];
            ("mp_join_syn", fields)
        }
        mptcp::Repr::JoinSynAck { backup, address_id, hmac, nonce } => {
            let fields =
                vec![("backup", flag(backup)), ("address_id", address_id.into()), ("sender_hmac", hmac.into()), ("nonce", nonce.into())];
            ("mp_join_syn_ack", fields)
        }
        mptcp::Repr::JoinAck { hmac } => {
            let end = u32::from_be_bytes([hmac[16], hmac[17], hmac[18], hmac[19]]);
            ("mp_join_ack", vec![("sender_hmac", head(&hmac)), ("hmac_end", end.into())])
        }
        mptcp::Repr::Dss { ack, mapping, data_fin } => ("dss", dss_fields(numbers, (ack, mapping, data_fin), payload)),
        mptcp::Repr::AddAddr { announcement, address_id, address, port } => {
            let address = if let IpAddr::V4(address) = address { u32::from(address) } else { 0 };
            let mut fields = vec![("address_id", u128::from(address_id)), ("addr", address.into())];
            fields.extend(port.map(|port| ("port", u128::from(port))));
            if let Announcement::Authenticated { hmac } = announcement {
                fields.push(("hmac", hmac.into()));
            }
            (if announcement == Announcement::Echo { "add_address_echo" } else { "add_address" }, fields)
        }
        mptcp::Repr::RemoveAddr { address_ids } => {
            ("remove_address", address_ids.iter().map(|id| ("address_id", u128::from(*id))).collect())
        }
        mptcp::Repr::Prio { backup, address_id } => {
            let mut fields = vec![("backup", flag(backup))];
            fields.extend(address_id.map(|id| ("address_id", u128::from(id))));
            ("mp_prio", fields)
        }
        mptcp::Repr::Fail { dsn } => ("mp_fail", vec![("dsn8", relative(numbers, Side::Peer, Number::Long(dsn)).1)]),
        mptcp::Repr::FastClose { receiver_key } => ("mp_fastclose", vec![("key", receiver_key.into())]),
        mptcp::Repr::TcpRst { flags, reason } => ("mp_reset", vec![("flags", flags.into()), ("reason", reason.into())]),
        mptcp::Repr::Unknown { .. } => ("unknown", vec![("kind", u128::from(mptcp::KIND))]),
    }
}

/// Whether it is long, and the number counted from the first one of `side`.
fn relative(numbers: &Numbers, side: Side, number: Number) -> (bool, u128) {
    let idsn = numbers.idsn(side).get();
    match number {
        Number::Long(number) => (true, number.wrapping_sub(idsn).into()),
        Number::Short(number) => (false, number.wrapping_sub(idsn as u32).into()),
    }
}

type Dss = (Option<Number>, Option<mptcp::Mapping>, bool);

fn dss_fields(numbers: &Numbers, (ack, mapping, data_fin): Dss, payload: &[u8]) -> Vec<(&'static str, u128)> {
    let mut fields = Vec::new();
    if let Some((long, number)) = ack.map(|ack| relative(numbers, Side::Peer, ack)) {
        fields.push((if long { "dack8" } else { "dack4" }, number));
    }
    if let Some(mapping) = mapping {
        let (long, number) = relative(numbers, Side::Local, mapping.dsn);
        fields.push((if long { "dsn8" } else { "dsn4" }, number));
        fields.extend([("ssn", mapping.ssn.into()), ("dll", mapping.len.into())]);
        if let Some(sum) = mapping.checksum {
            let idsn = numbers.idsn(Side::Local);
            let whole = mapping.dsn.expand(idsn);
            fields.push(("csum", sum.into()));
            // What it must be, as far as this packet has the mapped bytes.
            let covered = usize::from(mapping.len) - usize::from(data_fin && mapping.len > 0);
            if let Some(bytes) = payload.get(..covered) {
                fields.push(("right_csum", dss_checksum(whole, mapping.ssn, mapping.len, bytes).into()));
            }
        }
    }
    if data_fin {
        fields.push(("fin", 1));
    }
    fields
}

/// The first thing in which a segment differs from what a line expects; none if there is no
/// difference.
///
/// # Errors
/// A sentence, if the line asks for what is not known.
pub(crate) fn difference(numbers: &mut Numbers, wanted: &Segment, seen: &Seen) -> Result<Option<String>, String> {
    if seen.subflow != Some(wanted.subflow) {
        let is = seen.subflow.map_or_else(
            || format!("the connection is {}, which is no subflow of the script", seen.addresses),
            |n| format!("the subflow is {n}"),
        );
        return Ok(Some(format!("{is}, not {}", wanted.subflow)));
    }
    if let Some(ecn) = wanted.ecn.filter(|ecn| *ecn != seen.ecn) {
        return Ok(Some(format!("the ECN codepoint is {}, not {ecn}", seen.ecn)));
    }
    if wanted.flags != seen.flags {
        return Ok(Some(format!("the flags are {}, not {}", flags(seen.flags), flags(wanted.flags))));
    }
    if (wanted.seq, wanted.len) != (seen.seq, seen.len) {
        let range = |seq: i64, len: u32| format!("{seq}:{}({len})", seq + i64::from(len));
        return Ok(Some(format!("the sequence numbers are {}, not {}", range(seen.seq, seen.len), range(wanted.seq, wanted.len))));
    }
    if let Some(ack) = wanted.ack.filter(|ack| Some(*ack) != seen.ack) {
        let is = seen.ack.map_or_else(|| "there is no acknowledgement".to_owned(), |seen| format!("the acknowledgement is {seen}"));
        return Ok(Some(format!("{is}, not {ack}")));
    }
    if let Some(window) = wanted.window.filter(|window| *window != seen.window) {
        return Ok(Some(format!("the window is {}, not {window}", seen.window)));
    }
    wanted.options.as_ref().map_or(Ok(None), |options| options_difference(numbers, wanted.subflow, options, seen))
}

fn options_difference(numbers: &mut Numbers, subflow: usize, wanted: &Options, seen: &Seen) -> Result<Option<String>, String> {
    let mut left: Vec<&SeenOption> = seen.options.iter().collect();
    // Padding has no meaning, and the order none either.
    for option in wanted.list.iter().filter(|option| !matches!(option.name, "nop" | "eol")) {
        let Some(at) = left.iter().position(|seen| seen.name == option.name) else {
            return Ok(Some(format!("the option {} is not there", option.name)));
        };
        let found = left.remove(at);
        if let Some(difference) = option_difference(numbers, subflow, option, found)? {
            return Ok(Some(difference));
        }
    }
    Ok(left.first().filter(|_| !wanted.open).map(|option| format!("there is an option {} too", option.name)))
}

fn option_difference(numbers: &mut Numbers, subflow: usize, wanted: &Opt, seen: &SeenOption) -> Result<Option<String>, String> {
    let name = wanted.name;
    let other_order = name == "ECN" && wanted.fields.iter().zip(&seen.fields).any(|((wanted, _), (seen, _))| wanted != seen);
    if matches!(name, "sack" | "remove_address" | "ECN") && (wanted.fields.len() != seen.fields.len() || other_order) {
        return Ok(Some(format!("the option is {seen}")));
    }
    if name == "dss" && !wanted.fields.is_empty() {
        for (keys, what) in
            [(&["dack4", "dack8"][..], "data acknowledgement"), (&["dsn4", "dsn8"][..], "mapping"), (&["fin"][..], "DATA_FIN")]
        {
            let has = keys.iter().any(|key| seen.field(key).is_some());
            let wants = wanted.fields.iter().any(|(key, _)| keys.contains(key));
            if has != wants {
                return Ok(Some(format!("the option dss has {} {what}", if has { "a" } else { "no" })));
            }
        }
    }
    for (i, (key, value)) in wanted.fields.iter().enumerate() {
        let positional = matches!(name, "sack" | "remove_address");
        let found = if positional { seen.fields.get(i).map(|(_, found)| *found) } else { seen.field(key) };
        // Without checksum, and so without the field.
        if *key == "csum" && *value == Value::Number(0) {
            if found.is_some() {
                return Ok(Some(format!("the option {name} has a checksum")));
            }
            continue;
        }
        let Some(found) = found else {
            return Ok(Some(format!("the option {name} has no {key}")));
        };
        if !numbers.matches(value, found, |numbers| computed(numbers, subflow, name, key, seen))? {
            let field = if key.is_empty() { String::new() } else { format!(" in its field {key}") };
            return Ok(Some(format!("the option {name} differs{field}: it is `{seen}`")));
        }
    }
    // The rest of a code of which the line has the first part.
    if name == "mp_join_ack" && wanted.fields.iter().any(|(_, value)| *value == Value::Auto) {
        let code = numbers.join_hmac(Side::Local, subflow)?;
        if seen.field("hmac_end") != Some(u32::from_be_bytes([code[16], code[17], code[18], code[19]]).into()) {
            return Ok(Some("the option mp_join_ack differs in the end of its code".to_owned()));
        }
    }
    Ok(None)
}

/// What the standard puts into a field of an option of the endpoint.
fn computed(numbers: &Numbers, subflow: usize, name: &str, key: &str, seen: &SeenOption) -> Result<u128, String> {
    match (name, key) {
        ("mp_join_syn", "token") => numbers.token(Side::Local).map(u128::from),
        ("mp_join_syn_ack", "sender_hmac") => numbers.join_hmac(Side::Local, subflow).map(|code| head(&code) >> 64),
        ("mp_join_ack", "sender_hmac") => numbers.join_hmac(Side::Local, subflow).map(|code| head(&code)),
        ("add_address", "hmac") => {
            let id = seen.field("address_id").unwrap_or(0) as u8;
            let address = Ipv4Addr::from(seen.field("addr").unwrap_or(0) as u32);
            numbers.address_hmac(Side::Local, id, address, seen.field("port").unwrap_or(0) as u16).map(u128::from)
        }
        ("mp_fastclose", "key") => numbers.key(Side::Peer).map(u128::from).ok_or_else(|| "the key of the peer is not known yet".to_owned()),
        ("mpcapable", "peer_key") => {
            numbers.key(Side::Peer).map(u128::from).ok_or_else(|| "the key of the peer is not known yet".to_owned())
        }
        ("dss" | "mpcapable", "csum") => seen.field("right_csum").ok_or_else(|| "the checksum covers bytes of other packets".to_owned()),
        _ => Err(format!("`{key}` of the option {name} is nothing that can be computed")),
    }
}

/// A packet and its time, for a message.
pub(crate) fn shown(seen: &Seen) -> String {
    format!("{} `{seen}`", moment(seen.at))
}

/// A range of times, for a message.
pub(crate) fn range(from: Instant, to: Instant) -> String {
    format!("{} to {}", seconds(from.since(Instant::ZERO)), seconds(to.since(Instant::ZERO)))
}
