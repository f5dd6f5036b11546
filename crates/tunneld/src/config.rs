//! The tunnel's file: TOML, read once into values that make sense.
//!
//! Every mistake is one sentence that names the file, the line and the field.

use crate::encapsulation::{Encapsulation, Framing};
use crate::encryption::{Key, Keys, OVERHEAD};
use polypath_base::{Bytes, Duration, Error};
use polypath_io::Prefix;
use polypath_tunnel::{
    EndpointConfig, FecConfig, KeepaliveConfig, MOST_BATCH, MOST_PACKETS, MtuConfig, PathBounds, ReorderConfig, Spreading,
};
use polypath_wire::{gre, mpt, parity};
use serde::Deserialize;
use std::fs::File as OpenFile;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use toml::Spanned;
use zeroize::Zeroizing;

/// What a path of 1500 bytes carries, less the headers in front, is the tunnel's MTU if the file
/// names none.
const ETHERNET_MTU: u32 = 1500;
const UDP_HEADER: u32 = 8;
/// Every IPv4 network carries as much (RFC 791 section 3.2), every one of IPv6 more
/// (RFC 8200 section 5).
const LEAST_MTU: u32 = 576;
const MOST_MTU: u32 = 65_000;
/// The same of IPv6; a device with less has no IPv6 (RFC 8200 section 5).
const LEAST_MTU_IPV6: u32 = 1280;
/// RFC 791 section 3.2: what every path of IPv4 passes.
const LEAST_PATH_MTU: u32 = 68;
/// Ethernet's jumbo frames: nothing longer is searched for.
const MOST_SEARCHED: u32 = 9000;
pub(crate) const MOST_PATHS: usize = 64;
/// Packets that wait in the device while the sending thread is kept from the processor.
const DEVICE_QUEUE: u32 = 1000;
const MOST_QUEUED: u32 = 1_000_000;
/// What waits in a path's socket while a thread is kept from the processor: 14 MB, as fast tunnels
/// have it.
const SEND_BUFFER: u32 = 14 << 20;
/// A block of packets ends so long after its first.
const FEC_TIMEOUT: Duration = Duration::from_millis(10);
/// Linux's own limits (SOCK_MIN_SNDBUF, and what SO_SNDBUFFORCE may double).
const SEND_BUFFERS: std::ops::RangeInclusive<u32> = 4608..=(1 << 30);

/// A tunnel as the daemon carries it.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Its name, for `status` and `down`.
    pub name: String,
    /// The TUN device.
    pub device: String,
    /// Of the device.
    pub addresses: Vec<Prefix>,
    /// The other end's address in the tunnel, and ours of the same IP version.
    pub peer: (IpAddr, IpAddr),
    /// Of the device, bytes; where it is searched for ([`EndpointConfig::mtu`]), of its first
    /// moment.
    pub mtu: u32,
    /// The MSS of SYNs that pass is lowered to what the MTU leaves.
    pub clamp_mss: bool,
    /// Packets that wait in the device at most.
    pub queue: u32,
    /// The socket buffer of each path, bytes as the kernel counts them (`skb->truesize`): what
    /// waits there has not left the host's own interface. While it is full, the sending thread
    /// waits.
    pub send_buffer: u32,
    /// Packets that both ends have sent before they came up: the number and the turn of the first.
    pub packets_before: u32,
    /// Networks that are behind the other end.
    pub routes: Vec<Prefix>,
    /// Where packets that come out of the tunnel may say that they are from; none: anywhere.
    pub allowed_ips: Option<Vec<Prefix>>,
    /// The kernel may leave cutting and checksums to the daemon.
    pub offload: bool,
    /// The form of datagrams.
    pub encapsulation: Encapsulation,
    /// What datagrams are encrypted with; none: they are not.
    pub encryption: Option<Keys>,
    /// Distribution, reorder rule, dead time.
    pub endpoint: EndpointConfig,
    /// In their order.
    pub paths: Vec<PathConfig>,
}

impl Config {
    /// Bytes of the longest packet that the other end may send: where MTUs are searched for its
    /// paths may be wider than ours.
    pub fn longest_inside(&self) -> u32 {
        if self.endpoint.mtu.is_some() { MOST_SEARCHED } else { self.mtu }
    }

    /// Bytes of the longest IP packet that goes out on a path.
    pub fn longest_outside(&self, path: &PathConfig) -> u32 {
        self.mtu + path.in_front(headers(&self.encapsulation, self.encryption.is_some(), self.endpoint.fec.is_some()))
    }
}

/// A path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathConfig {
    pub name: String,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// The only device that carries it, if one is named.
    pub device: Option<String>,
}

impl PathConfig {
    /// Bytes in front of each packet on it, with `headers` behind UDP's.
    fn in_front(&self, headers: u32) -> u32 {
        UDP_HEADER + headers + if self.local.is_ipv6() { 40 } else { 20 }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Option<Spanned<String>>,
    tunnel: Tunnel,
    #[serde(default)]
    reorder: Reorder,
    #[serde(default)]
    keepalive: Keepalive,
    fec: Option<Spanned<Fec>>,
    encryption: Option<Encryption>,
    path: Spanned<Vec<PathFile>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tunnel {
    device: Spanned<String>,
    addresses: Spanned<Vec<Spanned<String>>>,
    peer: Spanned<IpAddr>,
    mtu: Option<Spanned<toml::Value>>,
    #[serde(default)]
    clamp_mss: bool,
    #[serde(default)]
    routes: Vec<Spanned<String>>,
    allowed_ips: Option<Vec<Spanned<String>>>,
    queue: Option<Spanned<u32>>,
    send_buffer: Option<Spanned<u32>>,
    #[serde(default)]
    packets_before: u32,
    #[serde(default)]
    encapsulation: Framing,
    key: Option<Spanned<u32>>,
    #[serde(default)]
    distribution: Option<Spanned<Distribution>>,
    batch: Option<Spanned<u32>>,
    #[serde(default = "yes")]
    offload: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PathFile {
    name: Option<Spanned<String>>,
    local: Spanned<IpAddr>,
    remote: Spanned<IpAddr>,
    port: Option<Spanned<u16>>,
    remote_port: Option<Spanned<u16>>,
    device: Option<Spanned<String>>,
    weight: Option<Spanned<u32>>,
}

#[derive(Copy, Clone, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Distribution {
    Turns,
    Flows,
    Earliest,
}

#[derive(Copy, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RuleName {
    Off,
    Mpt,
    Fixed,
    Adaptive,
    Equalised,
    #[default]
    Progress,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reorder {
    #[serde(default)]
    rule: RuleName,
    packets: Option<Spanned<u32>>,
    max_delay: Option<Spanned<String>>,
    offset: Option<Spanned<String>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Keepalive {
    enabled: Option<bool>,
    interval: Option<Spanned<String>>,
    dead_time: Option<Spanned<String>>,
    data_count: Option<bool>,
    progress: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fec {
    data: Spanned<u32>,
    parity: Spanned<u32>,
    timeout: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Encryption {
    /// Files, beside this one if they have no folder.
    private_key: Spanned<String>,
    preshared_key: Option<Spanned<String>>,
    peer_public_key: Spanned<String>,
}

/// Bytes between UDP's header and the packet inside, and what a parity has more.
fn headers(encapsulation: &Encapsulation, encrypted: bool, corrected: bool) -> u32 {
    let more = if corrected { parity::OVERHEAD } else { 0 };
    encapsulation.header_len() as u32 + if encrypted { OVERHEAD as u32 } else { 0 } + more
}

fn yes() -> bool {
    true
}

/// What stands in a tunnel's file.
pub fn text(file: &Path) -> Result<String, Error> {
    std::fs::read_to_string(file).map_err(|e| Error::caller(format!("{}: {e}", file.display())))
}

/// Reads a tunnel's file. `file` is its name for errors, and its stem is the tunnel's name if the
/// text has none.
pub fn parse(file: &Path, text: &str) -> Result<Config, Error> {
    parse_with(file, text, &|name| read_secret(&beside(file, name)))
}

/// The same where the files of keys are not read here: `secret` gives the text of one, by its name
/// in the file, or the sentence that says why not.
pub fn parse_with(file: &Path, text: &str, secret: &ReadSecret<'_>) -> Result<Config, Error> {
    let reader = Reader { file, text, secret };
    let parsed: File = toml::from_str(text).map_err(|error| reader.unreadable(&error))?;
    reader.config(parsed)
}

/// What reads the file of a key.
pub type ReadSecret<'a> = dyn Fn(&str) -> Result<Zeroizing<String>, String> + 'a;

/// A file that another one names.
pub fn beside(file: &Path, name: &str) -> std::path::PathBuf {
    file.parent().unwrap_or(Path::new("")).join(name)
}

/// The text of a file that only its owner may read and change, who is root or the user of this
/// program. Otherwise what is to be done.
pub fn read_secret(file: &Path) -> Result<Zeroizing<String>, String> {
    let shown = file.display();
    let mut text = Zeroizing::new(String::with_capacity(128));
    let read = OpenFile::open(file).and_then(|mut file| {
        file.read_to_string(&mut text)?;
        file.metadata()
    });
    match read {
        Err(error) => Err(format!("{shown}: {error}; `polypath tunnel keygen {shown}` makes one")),
        Ok(about) if about.permissions().mode() & 0o077 != 0 => Err(format!("others may read {shown}, or write to it: chmod 600 {shown}")),
        Ok(about) if ![0, polypath_io::user()].contains(&about.uid()) => {
            Err(format!("{shown} belongs to user {}, who may read and change it: chown root {shown}", about.uid()))
        }
        Ok(_) => Ok(text),
    }
}

struct Reader<'a> {
    file: &'a Path,
    text: &'a str,
    secret: &'a ReadSecret<'a>,
}

impl Reader<'_> {
    fn line(&self, at: usize) -> usize {
        self.text.char_indices().take_while(|&(place, _)| place < at).filter(|&(_, c)| c == '\n').count() + 1
    }

    fn sentence(&self, at: usize, field: &str, what: &str) -> Error {
        let colon = if field.is_empty() { "" } else { ": " };
        Error::caller(format!("{}, line {}: {field}{colon}{what}", self.file.display(), self.line(at)))
    }

    /// What the reader of TOML found, in one line, with the name that stands before the value.
    fn unreadable(&self, error: &toml::de::Error) -> Error {
        let at = error.span().map_or(0, |span| span.start);
        let what = match error.message() {
            "invalid IP address syntax" => {
                "that is no IP address: names are not looked up, and a port of its own is port or remote_port".into()
            }
            // Nothing else in the file is a list of tables.
            "invalid type: map, expected a sequence" => "write [[path]], with two brackets, for each path".into(),
            other => other.replace('\n', " "),
        };
        let line = self.text.lines().nth(self.line(at) - 1).unwrap_or_default();
        let field = match line.split_once('=') {
            Some((name, _)) if !what.contains("field") => name.trim(),
            _ => "",
        };
        self.sentence(at, field, &what)
    }

    fn fail<T, V>(&self, value: &Spanned<V>, field: &str, what: &str) -> Result<T, Error> {
        Err(self.sentence(value.span().start, field, what))
    }

    fn config(&self, file: File) -> Result<Config, Error> {
        let tunnel = &file.tunnel;
        let name = match &file.name {
            Some(name) if !is_name(name.get_ref()) => return self.fail(name, "name", NAME),
            Some(name) => name.get_ref().clone(),
            None => self.file.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        };
        if !is_name(&name) {
            return Err(self.sentence(0, "name", "the file's own name will not do: add a line such as name = \"site-a\""));
        }
        let device = tunnel.device.get_ref();
        if !is_name(device) || device.len() > 15 {
            return self.fail(&tunnel.device, "tunnel.device", "a device has a name of 1 to 15 letters, digits, '-', '_' and '.'");
        }
        let addresses = self.prefixes(tunnel.addresses.get_ref(), "tunnel.addresses", true)?;
        let peer = *tunnel.peer.get_ref();
        let Some(own) = addresses.iter().map(|prefix| prefix.address).find(|own| own.is_ipv4() == peer.is_ipv4()) else {
            return self.fail(&tunnel.peer, "tunnel.peer", "tunnel.addresses has no address of the peer's IP version: add one");
        };
        if own == peer {
            return self.fail(&tunnel.peer, "tunnel.peer", "that is this end's own address: write the other end's");
        }
        if let (Framing::Mpt, Some(key)) = (tunnel.encapsulation, &tunnel.key) {
            return self.fail(key, "tunnel.key", "MPT has no keys: write encapsulation = \"rfc8086\", or leave the key out");
        }
        let (paths, weights) = self.paths(tunnel.encapsulation, &file.path)?;
        let reorder = self.reorder(&file.reorder)?;
        let encapsulation = Encapsulation {
            framing: tunnel.encapsulation,
            key: tunnel.key.as_ref().map(|key| *key.get_ref()),
            numbered: reorder != ReorderConfig::Off,
        };
        let encryption = file.encryption.as_ref().map(|given| self.encryption(given)).transpose()?;
        if let (true, Some(key)) = (encryption.is_some(), &tunnel.key) {
            return self.fail(key, "tunnel.key", "with [encryption] a key of GRE would tell nothing: leave it out");
        }
        let fec = file.fec.as_ref().map(|given| self.fec(given, reorder)).transpose()?;
        let headers = headers(&encapsulation, encryption.is_some(), fec.is_some());
        let inside_ipv6 = || addresses.iter().any(|prefix| prefix.address.is_ipv6());
        let least = if inside_ipv6() { LEAST_MTU_IPV6 } else { LEAST_MTU };
        let (mtu, search) = self.mtu(tunnel, (headers, least), &paths, reorder)?;
        let spreading = self.spreading(tunnel, reorder)?;
        Ok(Config {
            name,
            device: device.clone(),
            peer: (peer, own),
            mtu,
            clamp_mss: tunnel.clamp_mss,
            queue: self.within(tunnel.queue.as_ref(), "tunnel.queue", 1..=MOST_QUEUED, DEVICE_QUEUE)?,
            send_buffer: self.within(tunnel.send_buffer.as_ref(), "tunnel.send_buffer", SEND_BUFFERS, SEND_BUFFER)?,
            packets_before: tunnel.packets_before,
            routes: self.prefixes(&tunnel.routes, "tunnel.routes", false)?,
            allowed_ips: tunnel.allowed_ips.as_ref().map(|given| self.prefixes(given, "tunnel.allowed_ips", false)).transpose()?,
            offload: tunnel.offload,
            encapsulation,
            encryption,
            endpoint: EndpointConfig { weights, spreading, reorder, keepalive: self.keepalive(&file.keepalive)?, mtu: search, fec },
            paths,
            addresses,
        })
    }

    fn paths(&self, framing: Framing, given: &Spanned<Vec<PathFile>>) -> Result<(Vec<PathConfig>, Vec<u32>), Error> {
        if given.get_ref().is_empty() || given.get_ref().len() > MOST_PATHS {
            return self.fail(given, "path", &format!("a tunnel has 1 to {MOST_PATHS} paths: write [[path]] for each"));
        }
        let default = match framing {
            Framing::Mpt => mpt::UDP_PORT,
            Framing::Rfc8086 => gre::UDP_PORT,
        };
        let (mut paths, mut weights) = (Vec::new(), Vec::new());
        for (number, path) in given.get_ref().iter().enumerate() {
            let at = |field: &str| format!("path[{number}].{field}");
            let (local, remote) = (*path.local.get_ref(), *path.remote.get_ref());
            if local.is_ipv4() != remote.is_ipv4() {
                return self.fail(&path.remote, &at("remote"), "it is of another IP version than local");
            }
            if local.is_unspecified() || remote.is_unspecified() {
                return self.fail(&path.local, &at("local"), "a path joins two addresses: write this end's own, and the other end's");
            }
            if let Some(port) = [&path.port, &path.remote_port].into_iter().flatten().find(|port| *port.get_ref() == 0) {
                return self.fail(port, &at("port"), "0 is no port");
            }
            let port = path.port.as_ref().map_or(default, |port| *port.get_ref());
            let remote_port = path.remote_port.as_ref().map_or(port, |port| *port.get_ref());
            if (local, port) == (remote, remote_port) {
                return self.fail(&path.remote, &at("remote"), "that is this end's own address: write the other end's");
            }
            let weight = path.weight.as_ref().map_or(1, |weight| *weight.get_ref());
            if let (0 | 1001.., Some(given)) = (weight, &path.weight) {
                return self.fail(given, &at("weight"), "a weight is a whole number of 1 to 1000");
            }
            let name = path.name.as_ref().map_or_else(|| format!("path{number}"), |name| name.get_ref().clone());
            if let (false, Some(given)) = (is_name(&name), &path.name) {
                return self.fail(given, &at("name"), NAME);
            }
            if paths.iter().any(|other: &PathConfig| other.name == name || other.local == SocketAddr::new(local, port)) {
                return self.fail(&path.local, &at("local"), "another path has this name, or this address and port: each needs its own");
            }
            let device = path.device.as_ref().map(|device| device.get_ref().clone());
            paths.push(PathConfig { name, local: SocketAddr::new(local, port), remote: SocketAddr::new(remote, remote_port), device });
            weights.push(weight);
        }
        Ok((paths, weights))
    }

    fn spreading(&self, tunnel: &Tunnel, reorder: ReorderConfig) -> Result<Spreading, Error> {
        let batch = self.within(tunnel.batch.as_ref(), "tunnel.batch", 1..=MOST_BATCH, 1)?;
        match &tunnel.distribution {
            None => Ok(Spreading::Turns { batch }),
            Some(given) => match given.get_ref() {
                Distribution::Turns => Ok(Spreading::Turns { batch }),
                Distribution::Flows => Ok(Spreading::Flows),
                Distribution::Earliest if matches!(reorder, ReorderConfig::Off | ReorderConfig::Mpt { .. }) => {
                    let what = "earliest needs numbered packets and the other end's reports of them, which MPT does not send: take another \
                                reorder.rule, progress for example, or distribution = \"turns\"";
                    self.fail(given, "tunnel.distribution", what)
                }
                Distribution::Earliest => Ok(Spreading::Earliest),
            },
        }
    }

    /// The device's MTU, and how it is searched for; `headers` stand behind UDP's.
    fn mtu(
        &self,
        tunnel: &Tunnel,
        (headers, least): (u32, u32),
        paths: &[PathConfig],
        reorder: ReorderConfig,
    ) -> Result<(u32, Option<MtuConfig>), Error> {
        let usual = ETHERNET_MTU - paths.iter().map(|path| path.in_front(headers)).max().unwrap_or(0);
        let Some(given) = &tunnel.mtu else { return Ok((usual, None)) };
        match given.get_ref() {
            toml::Value::Integer(mtu) if (i64::from(LEAST_MTU)..=i64::from(MOST_MTU)).contains(mtu) => Ok((*mtu as u32, None)),
            toml::Value::String(word) if word == "search" => {
                if matches!(reorder, ReorderConfig::Mpt { .. }) {
                    let what =
                        "MPT, whose rule this tunnel has, does not answer probes: write the MTU as a number, or another reorder.rule";
                    return self.fail(given, "tunnel.mtu", what);
                }
                let bounds = |path: &PathConfig| PathBounds {
                    headers: Bytes::from_u32(path.in_front(headers)),
                    floor: Bytes::from_u32(if path.local.is_ipv6() { LEAST_MTU_IPV6 } else { LEAST_PATH_MTU }),
                    ceiling: Bytes::from_u32(MOST_SEARCHED),
                };
                let search = MtuConfig { paths: paths.iter().map(bounds).collect(), least: Bytes::from_u32(least) };
                Ok((usual, Some(search)))
            }
            _ => self.fail(given, "tunnel.mtu", &format!("a tunnel's MTU is {LEAST_MTU} to {MOST_MTU} bytes, or \"search\"")),
        }
    }

    /// A whole number of this range, or the default.
    fn within(&self, given: Option<&Spanned<u32>>, field: &str, range: std::ops::RangeInclusive<u32>, default: u32) -> Result<u32, Error> {
        match given {
            Some(number) if !range.contains(number.get_ref()) => {
                self.fail(number, field, &format!("write a whole number of {} to {}", range.start(), range.end()))
            }
            given => Ok(given.map_or(default, |number| *number.get_ref())),
        }
    }

    fn encryption(&self, given: &Encryption) -> Result<Keys, Error> {
        let private = self.key_file(&given.private_key, "encryption.private_key")?;
        let Some(peer) = Key::parse(given.peer_public_key.get_ref()) else {
            let what = "it is no public key: write what `polypath tunnel keygen` says at the other end, 44 characters";
            return self.fail(&given.peer_public_key, "encryption.peer_public_key", what);
        };
        if peer.is_public_of_none() {
            let what = "with this one everybody would know all secrets: write what `polypath tunnel keygen` says at the other end";
            return self.fail(&given.peer_public_key, "encryption.peer_public_key", what);
        }
        if peer == private.public() {
            let what = "that is this end's own public key: write the other end's";
            return self.fail(&given.peer_public_key, "encryption.peer_public_key", what);
        }
        let preshared = given.preshared_key.as_ref().map(|file| self.key_file(file, "encryption.preshared_key")).transpose()?;
        Ok(Keys { private, peer, preshared: preshared.unwrap_or(Keys::NO_PRESHARED) })
    }

    fn key_file(&self, given: &Spanned<String>, field: &str) -> Result<Key, Error> {
        match (self.secret)(given.get_ref()) {
            Err(sentence) => self.fail(given, field, &sentence),
            Ok(text) => match Key::parse(&text) {
                Some(key) => Ok(key),
                None => {
                    let shown = beside(self.file, given.get_ref());
                    self.fail(given, field, &format!("{} holds no key; `polypath tunnel keygen` makes one", shown.display()))
                }
            },
        }
    }

    fn reorder(&self, given: &Reorder) -> Result<ReorderConfig, Error> {
        let capacity = given.packets.as_ref().map_or(4096, |packets| *packets.get_ref());
        if let (0 | 1_048_577.., Some(packets)) = (capacity, &given.packets) {
            return self.fail(packets, "reorder.packets", "a reorder buffer holds 1 to 1048576 packets");
        }
        if let (true, Some(offset)) = (given.rule != RuleName::Adaptive, &given.offset) {
            return self.fail(offset, "reorder.offset", "only the rule adaptive has an offset");
        }
        let delay = |default: u64| self.time(given.max_delay.as_ref(), "reorder.max_delay", Duration::from_millis(default));
        Ok(match given.rule {
            RuleName::Off => ReorderConfig::Off,
            RuleName::Mpt => ReorderConfig::Mpt { window: capacity, max_delay: delay(100)? },
            RuleName::Fixed => ReorderConfig::Fixed { timeout: delay(15)?, capacity },
            RuleName::Adaptive => {
                let offset = self.time(given.offset.as_ref(), "reorder.offset", Duration::from_millis(5))?;
                ReorderConfig::Adaptive { offset, cap: delay(100)?, capacity }
            }
            RuleName::Equalised => ReorderConfig::Equalised { cap: delay(100)?, capacity },
            RuleName::Progress => ReorderConfig::Progress { max_delay: delay(300)?, capacity },
        })
    }

    fn fec(&self, given: &Spanned<Fec>, reorder: ReorderConfig) -> Result<FecConfig, Error> {
        if matches!(reorder, ReorderConfig::Off | ReorderConfig::Mpt { .. }) {
            let what = "lost packets are known by their numbers, and MPT knows no parity: take another reorder.rule, progress for example";
            return self.fail(given, "fec", what);
        }
        let Fec { data, parity, timeout } = given.get_ref();
        let packets = self.within(Some(data), "fec.data", 1..=MOST_PACKETS.into(), 0)? as u8;
        let parities = self.within(Some(parity), "fec.parity", 1..=packets.into(), 0)? as u8;
        let config = FecConfig { packets, parities, timeout: self.time(timeout.as_ref(), "fec.timeout", FEC_TIMEOUT)? };
        match timeout {
            Some(timeout) if !config.is_sound() => {
                let longest = FecConfig::LONGEST.as_micros() / 1000;
                self.fail(timeout, "fec.timeout", &format!("a block lasts for more than 0 and at most {longest} ms"))
            }
            _ => Ok(config),
        }
    }

    fn keepalive(&self, given: &Keepalive) -> Result<KeepaliveConfig, Error> {
        if given.enabled == Some(false) {
            let never = KeepaliveConfig::NEVER;
            return Ok(KeepaliveConfig { interval: never, dead_time: never, data_count: true, progress: false });
        }
        let default = KeepaliveConfig::default();
        let interval = self.time(given.interval.as_ref(), "keepalive.interval", default.interval)?;
        let dead_time = self.time(given.dead_time.as_ref(), "keepalive.dead_time", default.dead_time)?;
        match (&given.dead_time, &given.interval) {
            (Some(at), _) | (None, Some(at)) if dead_time < interval || interval == Duration::ZERO => {
                self.fail(at, "keepalive.dead_time", "a dead time is not shorter than the interval, and an interval is above zero")
            }
            _ => Ok(KeepaliveConfig {
                interval,
                dead_time,
                data_count: given.data_count.unwrap_or(default.data_count),
                progress: given.progress.unwrap_or(default.progress),
            }),
        }
    }

    fn time(&self, given: Option<&Spanned<String>>, field: &str, default: Duration) -> Result<Duration, Error> {
        let Some(given) = given else { return Ok(default) };
        match duration(given.get_ref()) {
            Some(time) => Ok(time),
            None => {
                self.fail(given, field, &format!("{:?} is no time: write one up to a day such as \"300ms\" or \"5s\"", given.get_ref()))
            }
        }
    }

    fn prefixes(&self, given: &[Spanned<String>], field: &str, of_host: bool) -> Result<Vec<Prefix>, Error> {
        let read = |text: &Spanned<String>| match prefix(text.get_ref()) {
            Some(prefix) if of_host || network(&prefix) == prefix.address => Ok(prefix),
            Some(prefix) => self.fail(
                text,
                field,
                &format!("{} has bits behind its prefix: write {}/{}", text.get_ref(), network(&prefix), prefix.length),
            ),
            None => self.fail(
                text,
                field,
                &format!("{:?} is no address with a prefix such as \"10.0.0.1/24\" or \"fd00::1/64\"", text.get_ref()),
            ),
        };
        given.iter().map(read).collect()
    }
}

const NAME: &str = "a name has 1 to 64 letters, digits, '-', '_' and '.', and does not begin with '.' or '-'";

/// Whether a text can be the name of a tunnel, a path or a device.
pub fn is_name(text: &str) -> bool {
    let sound = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=64).contains(&text.len()) && text.bytes().all(sound) && !text.starts_with(['.', '-'])
}

fn duration(text: &str) -> Option<Duration> {
    let units = [("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000), ("min", 60_000_000_000)];
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (_, unit) = units.into_iter().find(|(name, _)| *name == &text[digits..])?;
    let ns = text[..digits].parse::<u64>().ok()?.checked_mul(unit)?;
    (ns <= 86_400_000_000_000).then(|| Duration::from_nanos(ns))
}

fn prefix(text: &str) -> Option<Prefix> {
    let (address, length) = text.split_once('/')?;
    let (address, length): (IpAddr, u8) = (address.parse().ok()?, length.parse().ok()?);
    (length <= if address.is_ipv4() { 32 } else { 128 }).then_some(Prefix { address, length })
}

fn network(prefix: &Prefix) -> IpAddr {
    match prefix.address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix.length)).unwrap_or(0);
            IpAddr::V4((u32::from(address) & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix.length)).unwrap_or(0);
            IpAddr::V6((u128::from(address) & mask).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SITE: &str = r#"
[tunnel]
device = "tun0"
addresses = ["10.0.0.1/24", "fd00::1/64"]
peer = "10.0.0.2"
routes = ["192.168.20.0/24"]

[[path]]
name = "fibre"
local = "192.0.2.1"
remote = "198.51.100.1"
weight = 3

[[path]]
local = "2001:db8::1"
remote = "2001:db8::2"
"#;

    fn read(text: &str) -> Result<Config, Error> {
        parse(Path::new("site-a.toml"), text)
    }

    #[test]
    fn a_short_file_means_what_mpt_would_do_with_our_rule() {
        let config = read(SITE).unwrap();
        assert_eq!((config.name.as_str(), config.device.as_str(), config.mtu), ("site-a", "tun0", 1500 - 40 - 8 - 8));
        assert_eq!(config.peer, ("10.0.0.2".parse().unwrap(), "10.0.0.1".parse().unwrap()));
        assert_eq!(config.endpoint.weights, [3, 1]);
        assert_eq!((config.queue, config.send_buffer, config.packets_before), (1000, 14 << 20, 0));
        assert_eq!(config.endpoint.reorder, ReorderConfig::Progress { max_delay: Duration::from_millis(300), capacity: 4096 });
        assert_eq!(config.endpoint.keepalive, KeepaliveConfig::default());
        assert_eq!(config.paths[0].local, "192.0.2.1:23456".parse().unwrap());
        assert_eq!(config.paths[1].remote, "[2001:db8::2]:23456".parse().unwrap());
        assert_eq!(config.paths[1].name, "path1");
        assert_eq!(config.encapsulation, Encapsulation { framing: Framing::Mpt, key: None, numbered: true });
    }

    #[test]
    fn every_mistake_is_a_sentence_with_file_line_and_field() {
        let cases = [
            ("device = \"tun0\"", "device = \"a/b\"", "line 3: tunnel.device: a device has"),
            ("device = \"tun0\"", "devise = \"tun0\"", "line 3: unknown field `devise`"),
            ("device = \"tun0\"", "device = 7", "line 3: device: invalid type"),
            ("device = \"tun0\"", "device = \"tun0\"\nkey = 7", "line 4: tunnel.key: MPT has no keys"),
            ("device = \"tun0\"", "device = \"tun0\"\nmtu = 100", "line 4: tunnel.mtu: a tunnel's MTU"),
            (
                "device = \"tun0\"",
                "device = \"tun0\"\nmtu = \"find\"",
                "line 4: tunnel.mtu: a tunnel's MTU is 576 to 65000 bytes, or \"search\"",
            ),
            (
                "routes = [\"192.168.20.0/24\"]",
                "mtu = \"search\"\n[reorder]\nrule = \"mpt\"",
                "line 6: tunnel.mtu: MPT, whose rule this tunnel has, does not answer probes",
            ),
            (
                "routes = [\"192.168.20.0/24\"]",
                "distribution = \"earliest\"\n[reorder]\nrule = \"off\"",
                "line 6: tunnel.distribution: earliest needs numbered packets",
            ),
            ("device = \"tun0\"", "device = \"tun0\"\ndistribution = \"first\"", "line 4: distribution: unknown variant `first`"),
            ("device = \"tun0\"", "device = \"tun0\"\nclamp_mss = 1400", "line 4: clamp_mss: invalid type"),
            ("device = \"tun0\"", "device = \"tun0\"\nbatch = 0", "line 4: tunnel.batch: write a whole number of 1 to 1024"),
            ("device = \"tun0\"", "device = \"tun0\"\nqueue = 0", "line 4: tunnel.queue: write a whole number of 1 to"),
            ("device = \"tun0\"", "device = \"tun0\"\nsend_buffer = 100", "line 4: tunnel.send_buffer: write a whole number of 4608 to"),
            ("10.0.0.1/24", "10.0.0.1", "line 4: tunnel.addresses: \"10.0.0.1\" is no address"),
            ("10.0.0.2", "10.0.0.1", "line 5: tunnel.peer: that is this end's"),
            ("192.168.20.0/24", "192.168.20.1/24", "line 6: tunnel.routes: 192.168.20.1/24 has bits behind"),
            ("weight = 3", "weight = 0", "line 12: path[0].weight: a weight"),
            ("weight = 3", "weight = -1", "line 12: weight: invalid value"),
            ("weight = 3", "port = 0", "line 12: path[0].port: 0 is no port"),
            ("2001:db8::2", "192.0.2.7", "line 16: path[1].remote: it is of another"),
            ("2001:db8::2", "2001:db8::1", "line 16: path[1].remote: that is this end's own address"),
            ("2001:db8::2", "[2001:db8::2]:4000", "line 16: remote: that is no IP address: names are not looked up, and a port"),
            ("[[path]]\nlocal", "[keepalive]\ndead_time = \"1 s\"\n\n[[path]]\nlocal", "line 15: keepalive.dead_time: \"1 s\" is no time"),
            ("[[path]]\nlocal", "[keepalive]\ndead_time = \"1s\"\n\n[[path]]\nlocal", "line 15: keepalive.dead_time: a dead time"),
            ("[[path]]\nlocal", "[reorder]\npackets = 0\n\n[[path]]\nlocal", "line 15: reorder.packets: a reorder buffer"),
            ("[[path]]\nlocal", "[fec]\ndata = 65\nparity = 1\n\n[[path]]\nlocal", "line 15: fec.data: write a whole number of 1 to 64"),
            ("[[path]]\nlocal", "[fec]\ndata = 4\nparity = 5\n\n[[path]]\nlocal", "line 16: fec.parity: write a whole number of 1 to 4"),
            (
                "[[path]]\nlocal",
                "[fec]\ndata = 4\nparity = 1\ntimeout = \"1s\"\n\n[[path]]\nlocal",
                "line 17: fec.timeout: a block lasts for more than 0 and at most 500 ms",
            ),
            ("[[path]]\nlocal", "[fec]\nparity = 1\n\n[[path]]\nlocal", "line 14: missing field `data`"),
            (
                "[[path]]\nlocal",
                "[fec]\ndata = 4\nparity = 1\n[reorder]\nrule = \"mpt\"\n\n[[path]]\nlocal",
                "line 14: fec: lost packets are known by their numbers, and MPT knows no parity",
            ),
            ("[[path]]\nlocal", "[reorder]\nrule = \"none\"\n\n[[path]]\nlocal", "line 15: rule: unknown variant `none`"),
        ];
        for (from, to, sentence) in cases {
            assert!(SITE.contains(from), "{from}");
            let error = read(&SITE.replacen(from, to, 1)).expect_err(to).to_string();
            assert!(error.starts_with(&format!("site-a.toml, {sentence}")), "{to}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
        let single = SITE.split("[[path]]").take(2).collect::<Vec<_>>().join("[path]");
        assert!(read(&single).unwrap_err().to_string().contains("write [[path]], with two brackets"));
        assert!(read("").unwrap_err().to_string().contains("missing field"));
    }

    #[test]
    fn an_mtu_that_is_searched_for_begins_as_without_and_leaves_ipv6_its_least() {
        let config = read(&SITE.replacen("device = \"tun0\"", "device = \"tun0\"\nmtu = \"search\"", 1)).unwrap();
        let search = config.endpoint.mtu.clone().expect("it is searched for");
        let bounds = |headers, floor| PathBounds { headers: Bytes::new(headers), floor: Bytes::new(floor), ceiling: Bytes::new(9000) };
        assert_eq!((search.paths, search.least), (vec![bounds(36, 68), bounds(56, 1280)], Bytes::new(1280)));
        assert_eq!((config.mtu, config.longest_inside()), (1500 - 40 - 8 - 8, 9000));
        assert_eq!(read(SITE).unwrap().longest_inside(), config.mtu);
    }

    #[test]
    fn encryption_takes_keys_from_files_that_are_secret() {
        let folder = std::env::temp_dir().join(format!("polypath-keys-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (own, other) = (Key::generate().unwrap(), Key::generate().unwrap());
        let file = folder.join("site-a.toml");
        let with = |peer: &str| {
            let section = format!("[encryption]\nprivate_key = \"a.key\"\npeer_public_key = \"{peer}\"\n\n[[path]]\nname");
            parse(&file, &SITE.replacen("[[path]]\nname", &section, 1))
        };
        let fails = |peer: &str, sentence: &str| {
            let error = with(peer).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{}, {sentence}", file.display())) && !error.contains('\n'), "{error}");
        };
        let key = folder.join("a.key");
        fails("x", "line 9: encryption.private_key: ");
        std::fs::write(&key, own.text().as_bytes()).unwrap();
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
        fails("x", &format!("line 9: encryption.private_key: others may read {}, or write to it: chmod 600", key.display()));
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
        fails("x", "line 10: encryption.peer_public_key: it is no public key");
        fails(&format!("{}=", "A".repeat(43)), "line 10: encryption.peer_public_key: with this one everybody would know all secrets");
        fails(&own.public().text(), "line 10: encryption.peer_public_key: that is this end's own");
        let config = with(&other.public().text()).unwrap();
        assert_eq!(config.encryption, Some(Keys { private: own, peer: other.public(), preshared: Keys::NO_PRESHARED }));
        assert_eq!(config.mtu, 1500 - 40 - 8 - 8 - 32);
        std::fs::write(&key, "no key").unwrap();
        fails("x", "line 9: encryption.private_key: ");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_key_and_rfc_8086_take_their_place_and_port() {
        let text = SITE.replace("device = \"tun0\"", "device = \"tun0\"\nencapsulation = \"rfc8086\"\nkey = 7");
        let config =
            read(&text.replace("[[path]]\nlocal", "[reorder]\nrule = \"off\"\n[keepalive]\nenabled = false\n[[path]]\nlocal")).unwrap();
        assert_eq!(
            (config.paths[0].local.port(), config.encapsulation.header_len(), config.endpoint.keepalive.interval),
            (4754, 8, KeepaliveConfig::NEVER)
        );
    }
}
