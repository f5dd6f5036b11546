//! How scripts and messages write packets: the notation of packetdrill.

use polypath_base::{Duration, Instant};
use std::fmt;

/// TCP header flags by their letters, in the order in which they are written.
pub const FLAGS: [(char, u16); 9] = [('S', 2), ('F', 1), ('R', 4), ('P', 8), ('.', 16), ('U', 32), ('E', 64), ('W', 128), ('A', AE)];
/// Accurate ECN: the bit above the eight flags of the header's byte 13 (RFC 9768 section 3.1.1).
pub const AE: u16 = 256;

/// Flags of MP_CAPABLE (RFC 8684 section 3.1) and of MP_TCPRST (section 3.6).
pub const FLAG_LETTERS: [(&str, u8); 9] = [
    ("flag_a", 0x80),
    ("flag_b", 0x40),
    ("flag_c", 0x20),
    ("flag_d", 0x10),
    ("flag_e", 0x08),
    ("flag_f", 0x04),
    ("flag_g", 0x02),
    ("flag_h", 0x01),
    ("flag_t", 0x01),
];

/// Options and their fields. A field without a name stands behind the option's name alone.
pub const OPTIONS: &[(&str, &[&str])] = &[
    ("mss", &[""]),
    ("wscale", &[""]),
    ("sackOK", &[]),
    ("nop", &[]),
    ("eol", &[]),
    ("TS", &["val", "ecr"]),
    ("sack", &[""]),
    ("ECN", &["e0b", "ceb", "e1b"]),
    ("mpcapable", &["version", "flags", "keys", "key", "peer_key", "mpcdatalen", "csum"]),
    ("mp_join_syn", &["backup", "address_id", "token", "nonce"]),
    ("mp_join_syn_ack", &["backup", "address_id", "sender_hmac", "nonce"]),
    ("mp_join_ack", &["sender_hmac"]),
    ("dss", &["dack4", "dack8", "dsn4", "dsn8", "ssn", "dll", "csum", "fin"]),
    ("add_address", &["address_id", "addr", "port", "hmac"]),
    ("add_address_echo", &["address_id", "addr", "port"]),
    ("remove_address", &["address_id"]),
    ("mp_prio", &["backup", "address_id"]),
    ("mp_fail", &["dsn8"]),
    ("mp_fastclose", &["key"]),
    ("mp_reset", &["flags", "reason"]),
    ("unknown", &["kind"]),
];

/// A segment that the endpoint sent, in the numbers of the script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub at: Instant,
    /// None: of no subflow that the script knows; `addresses` says which.
    pub subflow: Option<usize>,
    pub addresses: String,
    pub ecn: u8,
    /// The header's byte 13, and [`AE`].
    pub flags: u16,
    pub seq: i64,
    pub len: u32,
    pub ack: Option<i64>,
    pub window: u16,
    pub options: Vec<SeenOption>,
}

/// One of its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenOption {
    pub name: &'static str,
    /// In the order of [`OPTIONS`].
    pub fields: Vec<(&'static str, u128)>,
}

impl SeenOption {
    /// The value of a field, if the option has it.
    pub fn field(&self, key: &str) -> Option<u128> {
        self.fields.iter().find(|(name, _)| *name == key).map(|(_, value)| *value)
    }
}

/// TCP flags as letters.
pub fn flags(bits: u16) -> String {
    if bits == 0 {
        return "-".to_owned();
    }
    FLAGS.iter().filter(|(_, bit)| bits & bit != 0).map(|(letter, _)| *letter).collect()
}

/// A time or a span in seconds, to the microsecond.
pub fn seconds(span: Duration) -> String {
    format!("{:.6}", span.as_secs_f64())
}

/// A moment of the script in seconds.
pub fn moment(at: Instant) -> String {
    seconds(at.since(Instant::ZERO))
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "> ")?;
        match self.ecn {
            1 => write!(f, "[ect1] ")?,
            2 => write!(f, "[ect0] ")?,
            3 => write!(f, "[ce] ")?,
            _ => {}
        }
        match self.subflow {
            Some(0) => {}
            Some(number) => write!(f, "[{number}] ")?,
            None => write!(f, "[{}] ", self.addresses)?,
        }
        write!(f, "{} {}:{}({})", flags(self.flags), self.seq, self.seq + i64::from(self.len), self.len)?;
        if let Some(ack) = self.ack {
            write!(f, " ack {ack}")?;
        }
        write!(f, " win {}", self.window)?;
        if !self.options.is_empty() {
            let options: Vec<String> = self.options.iter().map(ToString::to_string).collect();
            write!(f, " <{}>", options.join(", "))?;
        }
        Ok(())
    }
}

impl fmt::Display for SeenOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        match self.name {
            "mss" | "wscale" => self.fields.iter().try_for_each(|(_, value)| write!(f, " {value}")),
            "sack" => self.fields.chunks(2).try_for_each(|block| write!(f, " {}:{}", block[0].1, block[block.len() - 1].1)),
            "TS" | "ECN" => self.fields.iter().try_for_each(|(key, value)| write!(f, " {key} {value}")),
            _ => self.fields.iter().try_for_each(|&(key, value)| self.write_field(f, key, value)),
        }
    }
}

impl SeenOption {
    fn write_field(&self, f: &mut fmt::Formatter<'_>, key: &str, value: u128) -> fmt::Result {
        match key {
            "version" => write!(f, " v{value}"),
            "flags" => {
                let last = usize::from(self.name != "mp_reset");
                let letters = FLAG_LETTERS.iter().rev().skip(last).rev();
                let names: Vec<&str> = letters.filter(|(_, bit)| value & u128::from(*bit) != 0).map(|(letter, _)| *letter).collect();
                write!(f, " flags[{}]", if self.name == "mp_reset" && value & 1 != 0 { "flag_t".to_owned() } else { names.join(",") })
            }
            "keys" if value == 0 => write!(f, " nokey"),
            "keys" | "hmac_end" => Ok(()),
            "key" => match self.field("peer_key") {
                Some(peer) => write!(f, " key[{value:#x}, {peer:#x}]"),
                None => write!(f, " key[{value:#x}]"),
            },
            "peer_key" => Ok(()),
            "mpcdatalen" => write!(f, " mpcdatalen {value}"),
            "fin" => write!(f, " fin"),
            "addr" => write!(f, " addr={}", std::net::Ipv4Addr::from(value as u32)),
            "token" | "nonce" | "sender_hmac" | "hmac" | "csum" => write!(f, " {key}={value:#x}"),
            _ => write!(f, " {key}={value}"),
        }
    }
}
