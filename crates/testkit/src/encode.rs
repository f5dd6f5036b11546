//! The bytes of an injected packet.

use crate::notation::AE;
use crate::numbers::{Numbers, Side, absolute};
use crate::script::{Opt, Packet, Segment, Value};
use polypath_base::Seq;
use polypath_wire::checksum::Addresses;
use polypath_wire::mptcp::{self, Announcement, FirstData, Keys, Mapping, Number, dss_checksum};
use polypath_wire::{Flags, Inline, SackBlock, accecn, icmpv4, ipv4, tcp};
use std::net::{IpAddr, Ipv4Addr};

/// The window of an injected segment that names none.
const WINDOW: u16 = 65_535;

/// Builds the packet, and learns from it what the endpoint will learn.
///
/// # Errors
/// A sentence, if the script asks for what is not known yet or fits into no packet.
pub(crate) fn packet(numbers: &mut Numbers, packet: &Packet) -> Result<Vec<u8>, String> {
    match packet {
        Packet::Tcp(segment) => tcp(numbers, segment),
        Packet::FragmentationNeeded { subflow, mtu, seq, len } => fragmentation_needed(numbers, *subflow, *mtu, (*seq, *len)),
    }
}

fn tcp(numbers: &mut Numbers, segment: &Segment) -> Result<Vec<u8>, String> {
    let flow = numbers.flow_to_open(segment.subflow).clone();
    let local_iss = flow.local_iss.unwrap_or_default();
    let mut header = tcp::Repr {
        source_port: flow.peer.port(),
        destination_port: flow.local.port(),
        seq: absolute(flow.peer_iss, segment.seq),
        ack: segment.ack.map_or(Seq::default(), |ack| absolute(local_iss, ack)),
        flags: Flags(segment.flags as u8),
        reserved: u8::from(segment.flags & AE != 0),
        window: segment.window.unwrap_or(WINDOW),
        payload_len: segment.len as usize,
        ..tcp::Repr::default()
    };
    for option in segment.options.iter().flat_map(|options| &options.list) {
        let mut encoder = Encoder { numbers, segment, option };
        encoder.put(&mut header).map_err(|sentence| format!("option {}: {sentence}", option.name))?;
        // A code may be of a nonce in the same segment.
        numbers.learn(Side::Peer, segment.subflow, &header);
    }
    let ip = ipv4::Repr {
        source: *flow.peer.ip(),
        destination: *flow.local.ip(),
        protocol: tcp::PROTOCOL,
        ecn: segment.ecn.unwrap_or(0),
        dont_fragment: true,
        payload_len: header.buffer_len(),
        ..ipv4::Repr::default()
    };
    let mut bytes = vec![0; ip.buffer_len()];
    let addresses = Addresses::V4 { source: ip.source, destination: ip.destination };
    header.emit(&mut bytes[ip.header_len()..], &addresses).map_err(|e| format!("no such segment can be: {e}"))?;
    ip.emit(&mut bytes).map_err(|e| format!("no such packet can be: {e}"))?;
    Ok(bytes)
}

/// RFC 1191 section 4: the message quotes the IP header and at least eight bytes behind it.
fn fragmentation_needed(numbers: &Numbers, subflow: usize, mtu: u16, (seq, len): (i64, u32)) -> Result<Vec<u8>, String> {
    let flow = numbers.flow(subflow).ok_or_else(|| format!("subflow {subflow} has sent nothing yet"))?;
    let iss = flow.local_iss.ok_or("the endpoint has sent nothing yet")?;
    let header = tcp::Repr {
        source_port: flow.local.port(),
        destination_port: flow.peer.port(),
        seq: absolute(iss, seq),
        flags: Flags::ACK,
        payload_len: len as usize,
        ..tcp::Repr::default()
    };
    let ip = ipv4::Repr {
        source: *flow.local.ip(),
        destination: *flow.peer.ip(),
        protocol: tcp::PROTOCOL,
        dont_fragment: true,
        payload_len: header.buffer_len(),
        ..ipv4::Repr::default()
    };
    let mut quoted = vec![0; ip.buffer_len()];
    let addresses = Addresses::V4 { source: ip.source, destination: ip.destination };
    header.emit(&mut quoted[ip.header_len()..], &addresses).map_err(|e| format!("no such segment can be: {e}"))?;
    ip.emit(&mut quoted).map_err(|e| format!("no such packet can be: {e}"))?;
    icmpv4::fragmentation_needed(&quoted, *flow.peer.ip(), u32::from(mtu)).ok_or_else(|| "no router answers such a segment".to_owned())
}

struct Encoder<'a> {
    numbers: &'a mut Numbers,
    segment: &'a Segment,
    option: &'a Opt,
}

impl Encoder<'_> {
    fn given(&self, key: &str) -> Option<&Value> {
        self.option.fields.iter().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// A field without a computed value: given, or `default`.
    fn plain(&mut self, key: &str, default: u128) -> Result<u128, String> {
        let Some(given) = self.given(key).cloned() else { return Ok(default) };
        let none = |_: &Numbers| Err(format!("`{key}` is nothing that can be computed"));
        self.numbers.value(&given, none, None)
    }

    fn small<T: TryFrom<u128>>(&mut self, key: &str, default: u128) -> Result<T, String> {
        let value = self.plain(key, default)?;
        T::try_from(value).map_err(|_| format!("`{key}` is {value}, which is too large"))
    }

    /// A field that is computed unless the script gives another value.
    fn computed(&mut self, key: &str, auto: impl FnOnce(&Numbers) -> Result<u128, String>) -> Result<u128, String> {
        let given = self.given(key).cloned().unwrap_or(Value::Auto);
        self.numbers.value(&given, auto, None)
    }

    fn put(&mut self, header: &mut tcp::Repr) -> Result<(), String> {
        let subflow = self.segment.subflow;
        let flow = self.numbers.flow(subflow).ok_or("the subflow is not open")?.clone();
        match self.option.name {
            "mss" => header.mss = Some(self.small("", 0)?),
            "wscale" => header.window_scale = Some(self.small("", 0)?),
            "sackOK" => header.sack_permitted = true,
            "TS" => {
                let none = |_: &Numbers| Err("`auto` is no timestamp".to_owned());
                let val = self.given("val").cloned().unwrap_or(Value::Number(0));
                let ecr = self.given("ecr").cloned().unwrap_or(Value::Any);
                let first = flow.first_ts.unwrap_or(0);
                let value = self.numbers.value(&val, none, None)? as u32;
                let last = u128::from(flow.last_ts.wrapping_sub(first));
                // A SYN has nothing to echo (RFC 7323 section 3.2).
                let echo =
                    if header.flags.has(Flags::ACK) { first.wrapping_add(self.numbers.value(&ecr, none, Some(last))? as u32) } else { 0 };
                header.timestamps = Some(tcp::Timestamps { value, echo });
            }
            "sack" => {
                let iss = flow.local_iss.ok_or("the endpoint has sent nothing yet")?;
                let edges: Vec<Value> = self.option.fields.iter().map(|(_, value)| value.clone()).collect();
                for block in edges.chunks(2) {
                    let mut edge = |value: &Value| {
                        let none = |_: &Numbers| Err("`auto` is no sequence number".to_owned());
                        self.numbers.value(value, none, None).map(|number| absolute(iss, number as i64))
                    };
                    let block = SackBlock { start: edge(&block[0])?, end: edge(&block[1])? };
                    if !header.sack.push(block) {
                        return Err("there are more than four blocks".to_owned());
                    }
                }
            }
            "ECN" => {
                let fields: Vec<_> = self.option.fields.iter().map(|(key, _)| *key).collect();
                let mut option = accecn::Repr {
                    ect_1_first: fields.first().is_none_or(|key| *key == "e1b"),
                    len: fields.len() as u8,
                    ..Default::default()
                };
                for (counter, key) in option.counters.iter_mut().zip(fields) {
                    *counter = self.small::<u32>(key, 0)? & 0xff_ffff;
                }
                header.accecn = Some(option);
            }
            // They have no meaning: the padding is as Linux has it.
            "nop" | "eol" => {}
            _ => {
                let option = self.mptcp(flow.peer_nonce())?;
                if !header.mptcp.push(option) {
                    return Err("there are more MPTCP options than fit".to_owned());
                }
            }
        }
        Ok(())
    }

    fn mptcp(&mut self, nonce: u32) -> Result<mptcp::Repr, String> {
        let subflow = self.segment.subflow;
        let hmac = |numbers: &Numbers| numbers.join_hmac(Side::Peer, subflow);
        Ok(match self.option.name {
            "mpcapable" => self.capable()?,
            "mp_join_syn" => mptcp::Repr::JoinSyn {
                backup: self.plain("backup", 0)? != 0,
                address_id: self.small("address_id", subflow as u128)?,
                token: self.computed("token", |numbers| numbers.token(Side::Peer).map(u128::from))? as u32,
                nonce: self.small("nonce", u128::from(nonce))?,
            },
            "mp_join_syn_ack" => mptcp::Repr::JoinSynAck {
                backup: self.plain("backup", 0)? != 0,
                address_id: self.small("address_id", subflow as u128)?,
                nonce: self.small("nonce", u128::from(nonce))?,
                hmac: self.computed("sender_hmac", |numbers| hmac(numbers).map(|code| head(&code) >> 64))? as u64,
            },
            "mp_join_ack" => {
                let mut code = hmac(self.numbers)?;
                let start = self.computed("sender_hmac", |_| Ok(head(&code)))?;
                code[..16].copy_from_slice(&start.to_be_bytes());
                mptcp::Repr::JoinAck { hmac: code }
            }
            "dss" => self.dss()?,
            "add_address" | "add_address_echo" => self.address()?,
            "remove_address" => {
                let mut ids = Inline::default();
                for (_, value) in &self.option.fields {
                    let Value::Number(id) = value else { return Err("an id of an address is a number".to_owned()) };
                    let id = u8::try_from(*id).map_err(|_| format!("{id} is no id of an address"))?;
                    if !ids.extend(&[id]) {
                        return Err("there are too many ids".to_owned());
                    }
                }
                mptcp::Repr::RemoveAddr { address_ids: ids }
            }
            "mp_prio" => mptcp::Repr::Prio {
                backup: self.plain("backup", 0)? != 0,
                address_id: if self.given("address_id").is_some() { Some(self.small("address_id", 0)?) } else { None },
            },
            "mp_fail" => {
                let dsn = self.plain("dsn8", 0)? as u64;
                mptcp::Repr::Fail { dsn: self.numbers.idsn(Side::Local).get().wrapping_add(dsn) }
            }
            "mp_fastclose" => {
                let auto = |numbers: &Numbers| {
                    numbers.key(Side::Local).map(u128::from).ok_or_else(|| "the key of the endpoint is not known yet".to_owned())
                };
                mptcp::Repr::FastClose { receiver_key: self.computed("key", auto)? as u64 }
            }
            "mp_reset" => mptcp::Repr::TcpRst { flags: self.small("flags", 0)?, reason: self.small("reason", 0)? },
            name => return Err(format!("`{name}` cannot be injected")),
        })
    }

    fn capable(&mut self) -> Result<mptcp::Repr, String> {
        let version = self.small("version", 1)?;
        let flags = self.small("flags", u128::from(mptcp::Repr::HASH))?;
        let sender = if self.given("key").is_some() { Some(self.plain("key", 0)? as u64) } else { None };
        let receiver = if self.given("peer_key").is_some() { Some(self.plain("peer_key", 0)? as u64) } else { None };
        let keys = match (sender, receiver) {
            (None, _) => Keys::None,
            (Some(sender), None) => Keys::Sender(sender),
            (Some(sender), Some(receiver)) => {
                let with_data = self.given("mpcdatalen").is_some() || self.segment.len > 0;
                let len: u16 = self.small("mpcdatalen", u128::from(self.segment.len))?;
                let payload = vec![0; usize::from(len)];
                let first = mptcp::Version::V1.token_and_idsn(sender).1 + 1;
                let wanted = flags & mptcp::Repr::CHECKSUM != 0 && self.given("csum") != Some(&Value::Number(0));
                let sum = |_: &Numbers| Ok(u128::from(dss_checksum(first, 1, len, &payload)));
                let checksum = if wanted { Some(self.computed("csum", sum)? as u16) } else { None };
                Keys::Both { sender, receiver, data: with_data.then_some(FirstData { len, checksum }) }
            }
        };
        Ok(mptcp::Repr::Capable { version, flags, keys })
    }

    /// A data sequence number or acknowledgement of 4 or 8 bytes, counted from the first one of
    /// `side`.
    fn number(&mut self, short: &str, long: &str, side: Side) -> Result<Option<Number>, String> {
        let idsn = self.numbers.idsn(side).get();
        if self.given(long).is_some() {
            return Ok(Some(Number::Long(idsn.wrapping_add(self.plain(long, 0)? as u64))));
        }
        if self.given(short).is_some() {
            return Ok(Some(Number::Short((idsn as u32).wrapping_add(self.plain(short, 0)? as u32))));
        }
        Ok(None)
    }

    fn dss(&mut self) -> Result<mptcp::Repr, String> {
        let ack = self.number("dack4", "dack8", Side::Local)?;
        let data_fin = self.given("fin").is_some();
        let mapping = match self.number("dsn4", "dsn8", Side::Peer)? {
            None => None,
            Some(dsn) => {
                let ssn = self.small("ssn", self.segment.seq as u128)?;
                let len: u16 = self.small("dll", u128::from(self.segment.len) + u128::from(data_fin))?;
                let bytes = usize::from(len) - usize::from(data_fin && len > 0);
                let whole = dsn.expand(self.numbers.idsn(Side::Peer));
                let sum = |_: &Numbers| Ok(u128::from(dss_checksum(whole, ssn, len, &vec![0; bytes])));
                let checksum = match self.given("csum") {
                    None | Some(Value::Number(0)) => None,
                    Some(_) => Some(self.computed("csum", sum)? as u16),
                };
                Some(Mapping { dsn, ssn, len, checksum })
            }
        };
        Ok(mptcp::Repr::Dss { ack, mapping, data_fin })
    }

    fn address(&mut self) -> Result<mptcp::Repr, String> {
        let address_id: u8 = self.small("address_id", 0)?;
        let address = Ipv4Addr::from(self.small::<u32>("addr", 0)?);
        let port = if self.given("port").is_some() { Some(self.small("port", 0)?) } else { None };
        let announcement = if self.option.name == "add_address_echo" {
            Announcement::Echo
        } else {
            let auto = |numbers: &Numbers| numbers.address_hmac(Side::Peer, address_id, address, port.unwrap_or(0)).map(u128::from);
            Announcement::Authenticated { hmac: self.computed("hmac", auto)? as u64 }
        };
        Ok(mptcp::Repr::AddAddr { announcement, address_id, address: IpAddr::V4(address), port })
    }
}

/// The leftmost 128 bits.
pub(crate) fn head(code: &[u8; 20]) -> u128 {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&code[..16]);
    u128::from_be_bytes(bytes)
}
