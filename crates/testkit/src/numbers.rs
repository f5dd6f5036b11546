//! What a run learns from packets: subflows with their addresses and first sequence numbers, keys,
//! nonces, and the script's names.

use crate::script::{Head, SubflowAddresses, Value};
use polypath_base::{DataSeq, Seq};
use polypath_wire::mptcp::{self, Keys, Version};
use polypath_wire::tcp;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};

/// The endpoint's port and, where it connects, the peer's.
pub const PORT: u16 = 8080;
/// The peer's port of subflow 0, where the peer connects; that of subflow n is n higher.
pub const PEER_PORT: u16 = 4000;

/// The endpoint's address of this number.
pub const fn local_address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 9, number, 1)
}

/// The peer's address of this number.
pub const fn peer_address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 9, number, 2)
}

/// Who speaks.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Side {
    /// The endpoint.
    Local,
    /// The script.
    Peer,
}

impl Side {
    fn other(self) -> Self {
        if self == Self::Local { Self::Peer } else { Self::Local }
    }
}

/// A TCP connection, or a subflow of one of MPTCP.
#[derive(Clone, Debug)]
pub struct Flow {
    pub local: SocketAddrV4,
    pub peer: SocketAddrV4,
    /// Known once the endpoint's SYN or SYN/ACK was seen.
    pub local_iss: Option<Seq>,
    pub peer_iss: Seq,
    /// The endpoint's first timestamp, and its last.
    pub first_ts: Option<u32>,
    pub last_ts: u32,
    local_nonce: u32,
    peer_nonce: u32,
}

/// What is known at a moment.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    flows: BTreeMap<usize, Flow>,
    declared: Vec<SubflowAddresses>,
    local_key: Option<u64>,
    peer_key: Option<u64>,
    names: BTreeMap<String, u128>,
}

impl Numbers {
    pub fn new(head: &Head) -> Self {
        Self { declared: head.subflows.clone(), ..Self::default() }
    }

    pub fn flow(&self, number: usize) -> Option<&Flow> {
        self.flows.get(&number)
    }

    /// The subflow of this number; where there is none, the peer opens it.
    pub fn flow_to_open(&mut self, number: usize) -> &mut Flow {
        let first = self.flows.get(&0).map(|flow| *flow.local.ip());
        let declared = self.declared.iter().find(|declared| declared.number == number);
        let local = declared.map_or(first.unwrap_or(local_address(0)), |declared| declared.local);
        let peer = declared.map_or(peer_address(number as u8), |declared| declared.remote);
        let port = declared.and_then(|declared| declared.remote_port).unwrap_or(PEER_PORT + number as u16);
        self.flows.entry(number).or_insert_with(|| Flow::new(number, SocketAddrV4::new(local, PORT), SocketAddrV4::new(peer, port)))
    }

    /// The subflow that a packet of the endpoint belongs to. A SYN with new addresses is that of
    /// `expected`, if that one is free and has no other addresses.
    pub fn flow_of(&mut self, local: SocketAddrV4, peer: SocketAddrV4, is_syn: bool, expected: Option<usize>) -> Option<usize> {
        let known = self.flows.iter().find(|(_, flow)| (flow.local, flow.peer) == (local, peer));
        if let Some((number, _)) = known {
            return Some(*number);
        }
        let number = expected.filter(|number| is_syn && !self.flows.contains_key(number))?;
        let fits = |declared: &SubflowAddresses| {
            declared.number != number
                || (declared.local == *local.ip()
                    && declared.remote == *peer.ip()
                    && declared.remote_port.is_none_or(|port| port == peer.port()))
        };
        if !self.declared.iter().all(fits) {
            return None;
        }
        self.flows.insert(number, Flow::new(number, local, peer));
        Some(number)
    }

    /// Takes in what a segment of `side` on a subflow tells.
    pub fn learn(&mut self, side: Side, number: usize, header: &tcp::Repr) {
        let Some(flow) = self.flows.get_mut(&number) else { return };
        if side == Side::Local {
            if header.flags.has(polypath_wire::Flags::SYN) {
                flow.local_iss = Some(header.seq);
            }
            if let Some(timestamps) = header.timestamps {
                flow.first_ts.get_or_insert(timestamps.value);
                flow.last_ts = timestamps.value;
            }
        }
        for option in header.mptcp.iter() {
            match *option {
                mptcp::Repr::Capable { keys: Keys::Sender(key) | Keys::Both { sender: key, .. }, .. } => match side {
                    Side::Local => self.local_key = Some(key),
                    Side::Peer => self.peer_key = Some(key),
                },
                mptcp::Repr::JoinSyn { nonce, .. } | mptcp::Repr::JoinSynAck { nonce, .. } => match side {
                    Side::Local => flow.local_nonce = nonce,
                    Side::Peer => flow.peer_nonce = nonce,
                },
                _ => {}
            }
        }
    }

    /// The key of a side.
    pub fn key(&self, side: Side) -> Option<u64> {
        if side == Side::Local { self.local_key } else { self.peer_key }
    }

    fn known_key(&self, side: Side) -> Result<u64, String> {
        let who = if side == Side::Local { "endpoint" } else { "peer" };
        self.key(side).ok_or_else(|| format!("the key of the {who} is not known yet"))
    }

    /// Initial data sequence number of a side (RFC 8684 section 3.1); 0 while its key is not known.
    pub fn idsn(&self, side: Side) -> DataSeq {
        self.key(side).map_or(DataSeq::default(), |key| Version::V1.token_and_idsn(key).1)
    }

    /// The token by which `side` names the connection: that of the other's key.
    pub fn token(&self, side: Side) -> Result<u32, String> {
        self.known_key(side.other()).map(|key| Version::V1.token_and_idsn(key).0)
    }

    /// The code by which `side` proves on a subflow that it knows the keys.
    pub fn join_hmac(&self, side: Side, number: usize) -> Result<[u8; 20], String> {
        let flow = self.flows.get(&number).ok_or("the subflow is not open")?;
        let (own, peer) = match side {
            Side::Local => (flow.local_nonce, flow.peer_nonce),
            Side::Peer => (flow.peer_nonce, flow.local_nonce),
        };
        Ok(Version::V1.join_hmac(self.known_key(side)?, self.known_key(side.other())?, own, peer))
    }

    /// The code that goes with an address that `side` announces.
    pub fn address_hmac(&self, side: Side, id: u8, address: Ipv4Addr, port: u16) -> Result<u64, String> {
        Ok(Version::V1.address_hmac(self.known_key(side)?, self.known_key(side.other())?, id, IpAddr::V4(address), port))
    }

    /// What a name means.
    pub fn name(&self, name: &str) -> Option<u128> {
        self.names.get(name).copied()
    }

    pub fn set_name(&mut self, name: &str, value: u128) {
        self.names.insert(name.to_owned(), value);
    }

    /// Whether a field of an expected packet has the value it must have. A name that stands for
    /// nothing yet stands for it from now on. `auto` computes what the standard says.
    pub fn matches(&mut self, wanted: &Value, found: u128, auto: impl FnOnce(&Self) -> Result<u128, String>) -> Result<bool, String> {
        Ok(match wanted {
            Value::Number(number) => *number == found,
            Value::Name(name) => match self.name(name) {
                Some(value) => value == found,
                None => {
                    self.set_name(name, found);
                    true
                }
            },
            Value::Let(name, number) => {
                self.set_name(name, *number);
                *number == found
            }
            Value::Auto => auto(self)? == found,
            Value::Wrong => auto(self)? != found,
            Value::Any => true,
        })
    }

    /// The value of a field of an injected packet. `auto` computes what the standard says, `last`
    /// is the one last seen.
    pub fn value(&mut self, given: &Value, auto: impl FnOnce(&Self) -> Result<u128, String>, last: Option<u128>) -> Result<u128, String> {
        match given {
            Value::Number(number) => Ok(*number),
            Value::Name(name) => self.name(name).ok_or_else(|| format!("the name `{name}` has no value yet")),
            Value::Let(name, number) => {
                self.set_name(name, *number);
                Ok(*number)
            }
            Value::Auto => auto(self),
            Value::Wrong => auto(self).map(|value| value ^ 1),
            Value::Any => last.ok_or_else(|| "`*` says nothing of a field that the peer chooses".to_owned()),
        }
    }
}

impl Flow {
    fn new(number: usize, local: SocketAddrV4, peer: SocketAddrV4) -> Self {
        let number = number as u32;
        Self {
            local,
            peer,
            local_iss: None,
            peer_iss: Seq::new(10_000 * (number + 1)),
            first_ts: None,
            last_ts: 0,
            local_nonce: 0,
            peer_nonce: 0x5eed_0000 + number,
        }
    }

    /// The peer's nonce where the script gives none.
    pub fn peer_nonce(&self) -> u32 {
        self.peer_nonce
    }

    /// A sequence number of the endpoint, counted from its first one.
    pub fn local_relative(&self, seq: Seq) -> i64 {
        self.local_iss.map_or(i64::from(seq.get()), |iss| i64::from(seq.distance(iss) as i32))
    }

    /// A sequence number of the peer, counted from its first one.
    pub fn peer_relative(&self, seq: Seq) -> i64 {
        i64::from(seq.distance(self.peer_iss) as i32)
    }
}

/// A sequence number that lies `relative` behind the first one.
pub fn absolute(iss: Seq, relative: i64) -> Seq {
    Seq::new(iss.get().wrapping_add(relative as u32))
}
