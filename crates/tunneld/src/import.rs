//! MPT's own files read, and written as ours: `interface.conf` with the tunnel devices,
//! `connections/*.conf` with connections and paths.
//!
//! The files are INI with `#` or `;` before comments. What has no meaning here (the port for
//! commands, MACs, gateways, which are the kernel's routes) is left out; what would change the
//! tunnel and cannot be kept is an error.

use polypath_base::Error;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;
use std::path::Path;

use crate::config::MOST_PATHS;

/// Sections by name, in them values by name; both in small letters, as MPT reads them.
type Ini = BTreeMap<String, BTreeMap<String, String>>;

/// Our files, one behind the other, of a folder with `interface.conf` and `connections/`; before
/// each stands where to put it.
pub fn folder(folder: &Path) -> Result<String, Error> {
    let read =
        |file: &Path| std::fs::read_to_string(file).map(|text| ini(&text)).map_err(|e| Error::caller(format!("{}: {e}", file.display())));
    let interfaces = read(&folder.join("interface.conf"))?;
    let place = folder.join("connections");
    let mut files: Vec<_> = std::fs::read_dir(&place)
        .map_err(|e| Error::caller(format!("{}: {e}", place.display())))?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "conf"))
        .collect();
    files.sort();
    if files.is_empty() {
        return Err(Error::caller(format!("{} has no file that ends in .conf", place.display())));
    }
    files.iter().map(|file| connection(&interfaces, &read(file)?, file)).collect()
}

/// One of our files from the texts of `interface.conf` and of a connection, which is called `file`
/// in errors.
pub fn translate(interfaces: &str, text: &str, file: &Path) -> Result<String, Error> {
    connection(&ini(interfaces), &ini(text), file)
}

fn ini(text: &str) -> Ini {
    let (mut found, mut section) = (Ini::new(), String::new());
    for line in text.lines().map(|line| line.split(['#', ';']).next().unwrap_or_default().trim()) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name.trim().to_ascii_lowercase();
        } else if let Some((name, value)) = line.split_once('=') {
            let value = value.trim().trim_matches('"').to_owned();
            found.entry(section.clone()).or_default().insert(name.trim().to_ascii_lowercase(), value);
        }
    }
    found
}

/// One file's values, for sentences about what is wrong in it.
struct Values<'a> {
    ini: &'a Ini,
    file: &'a Path,
}

impl Values<'_> {
    fn text(&self, section: &str, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|&name| self.ini.get(section)?.get(name)).map(String::as_str).filter(|value| !value.is_empty())
    }

    fn fail<T>(&self, section: &str, name: &str, what: &str) -> Result<T, Error> {
        Err(Error::caller(format!("{}: [{section}] {name}: {what}", self.file.display())))
    }

    fn number(&self, section: &str, name: &str, default: u32) -> Result<u32, Error> {
        match self.text(section, &[name]).map(str::parse) {
            None => Ok(default),
            Some(Ok(number)) => Ok(number),
            Some(Err(_)) => self.fail(section, name, "it is no whole number"),
        }
    }

    /// The first of these that is there; MPT's files have had more than one name for some. An
    /// address of zeros stands for none: MPT then asks the interface, or somebody else.
    fn address(&self, section: &str, names: &[&str]) -> Result<IpAddr, Error> {
        for &name in names {
            match self.text(section, &[name]).map(|text| text.split('/').next().unwrap_or_default().trim().parse::<IpAddr>()) {
                Some(Ok(address)) if !address.is_unspecified() => return Ok(address),
                Some(Err(_)) => return self.fail(section, name, "it is no IP address"),
                Some(Ok(_)) | None => {}
            }
        }
        self.fail(section, names[0], "it is missing")
    }

    /// A network behind the other end, with its prefix length.
    fn network(&self, section: &str) -> Result<String, Error> {
        let to = self.address(section, &["dst_addr"])?;
        let length = match self.text(section, &["dst_addr"]).and_then(|text| text.split_once('/')) {
            Some((_, length)) => length.trim().parse().ok(),
            None => Some(self.number(section, "dst_prefix_length", u32::MAX)?),
        };
        match length {
            Some(length) if length <= if to.is_ipv4() { 32 } else { 128 } => Ok(format!("{to}/{length}")),
            _ => self.fail(section, "dst_addr", "it needs a prefix length, as in 192.168.20.0/24"),
        }
    }
}

/// The device and the prefix of a connection's address: of the tunnel whose network has it.
fn device(interfaces: &Ini, own: IpAddr, file: &Path) -> Result<(String, u8, Option<String>), Error> {
    let key = if own.is_ipv4() { "ipv4_addr" } else { "ipv6_addr" };
    for (_, values) in interfaces.iter().filter(|(name, _)| name.starts_with("tun_")) {
        let Some((address, length)) = values.get(key).and_then(|text| text.split_once('/')) else { continue };
        if let (Ok(address), Ok(length)) = (address.trim().parse::<IpAddr>(), length.trim().parse()) {
            if address == own {
                let name = values.get("name").cloned().unwrap_or_else(|| "tun0".to_owned());
                return Ok((name, length, values.get("mtu").cloned()));
            }
        }
    }
    Err(Error::caller(format!("{}: [connection] ip_local: no tunnel of interface.conf has the address {own} as its {key}", file.display())))
}

fn connection(interfaces: &Ini, ini: &Ini, file: &Path) -> Result<String, Error> {
    let values = Values { ini, file };
    let here = "connection";
    let (own, peer) = (values.address(here, &["ip_local"])?, values.address(here, &["ip_remote"])?);
    let (device, length, mtu) = device(interfaces, own, file)?;
    let (port, remote_port) = (values.number(here, "local_port", 23456)?, values.number(here, "remote_port", 23456)?);
    let count = values.number(here, "path_count", 1)?;
    if count as usize > MOST_PATHS {
        return values.fail(
            here,
            "path_count",
            &format!("a tunnel has 1 to {MOST_PATHS} paths: write how many sections [path_0], ... there are"),
        );
    }
    if values.number(here, "auth_type", 0)? != 0 {
        let instead = "this daemon does not know MPT's authentication: set it to 0 and use [encryption] at both ends, or keep MPT";
        return values.fail(here, "auth_type", instead);
    }
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let mut out = format!("# {stem}.toml\n[tunnel]\ndevice = {device:?}\naddresses = [\"{own}/{length}\"]\npeer = \"{peer}\"\n");
    let line = |out: &mut String, text: std::fmt::Arguments<'_>| {
        // Writing to a String cannot fail.
        let _ = out.write_fmt(format_args!("{text}\n"));
    };
    if let Some(mtu) = mtu.and_then(|mtu| mtu.parse::<u32>().ok()) {
        line(&mut out, format_args!("mtu = {mtu}"));
    }
    let mut routes = vec![];
    for number in 0..values.number(here, "network_count", 0)? {
        routes.push(format!("\"{}\"", values.network(&format!("net_{number}"))?));
    }
    if !routes.is_empty() {
        line(&mut out, format_args!("routes = [{}]", routes.join(", ")));
    }
    match values.number(here, "reorder_window", 0)? {
        0 => line(&mut out, format_args!("\n[reorder]\nrule = \"off\"")),
        window => {
            // MPT reads 0 as 100.
            let delay = match values.number(here, "max_buffdelay_msec", 0)? {
                0 => 100,
                delay => delay,
            };
            line(&mut out, format_args!("\n[reorder]\nrule = \"mpt\"\npackets = {window}\nmax_delay = \"{delay}ms\""));
        }
    }
    match keepalive(&values, count)? {
        (0, _) => line(&mut out, format_args!("\n[keepalive]\nenabled = false")),
        (interval, dead) => {
            line(&mut out, format_args!("\n[keepalive]\ninterval = \"{interval}s\"\ndead_time = \"{dead}s\"\ndata_count = false"));
        }
    }
    for number in 0..count {
        let section = format!("path_{number}");
        for name in ["tcp_src", "tcp_dst", "udp_src", "udp_dst"] {
            if values.text(&section, &[name]).is_some() {
                return values.fail(&section, name, "this daemon does not choose paths by port: leave it out, or keep MPT");
            }
        }
        let local = values.address(&section, &["private_ipaddr", "public_ipaddr", "ip_private", "ip_public"])?;
        let remote = values.address(&section, &["remote_ipaddr", "ip_remote"])?;
        let weight = values.number(&section, "weight_out", 1)?;
        line(&mut out, format_args!("\n[[path]]\nlocal = \"{local}\"\nremote = \"{remote}\"\nport = {port}\nremote_port = {remote_port}"));
        line(&mut out, format_args!("weight = {}", weight.clamp(1, 1000)));
        if let Some(name) = values.text(&section, &["interface_name"]) {
            line(&mut out, format_args!("device = {name:?}"));
        }
    }
    out.push('\n');
    // What we write, we read.
    crate::config::parse(Path::new(&format!("{stem}.toml")), &out)?;
    Ok(out)
}

/// One interval and one dead time for all paths: MPT has them for each, and its authors' files have
/// the same ones for all.
fn keepalive(values: &Values<'_>, paths: u32) -> Result<(u32, u32), Error> {
    let mut found = None;
    for number in 0..paths {
        let section = format!("path_{number}");
        // 0: none is sent, and silence says nothing.
        let interval = values.number(&section, "keepalive_time", 0)?;
        let own = (interval, values.number(&section, "dead_time", interval.saturating_mul(3))?);
        if found.is_some_and(|found| found != own) {
            return values.fail(
                &section,
                "keepalive_time",
                "this daemon has one keepalive interval and one dead time for all paths: make them equal",
            );
        }
        found = Some(own);
    }
    Ok(found.unwrap_or((0, 0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERFACES: &str =
        "[general]\ntunnel_num = 1\ncmdport_local = 60456\n\n[tun_0]\nname = tun0\nmtu = 1464\nipv4_addr = 10.0.0.1/24\n";
    const CONNECTION: &str = "\
[connection]
name = conn          # a comment
ip_ver = 4
ip_local = 10.0.0.1
local_port = 23456
ip_remote = 10.0.0.2
remote_port = 23456
path_count = 2
network_count = 1
status = 1
reorder_window = 1600
max_buffdelay_msec = 300
auth_type = 0

[path_0]
interface_name = eth0
ip_ver = 4
private_ipaddr = 192.0.2.1
remote_ipaddr = 192.0.2.2
keepalive_time = 5
dead_time = 11
weight_out = 10

[path_1]
private_ipaddr = 198.51.100.1
remote_ipaddr = 198.51.100.2
keepalive_time = 5
dead_time = 11
weight_out = 5

[net_0]
dst_addr = 192.168.20.0
dst_prefix_length = 24
";

    fn imported(text: &str) -> Result<String, Error> {
        connection(&ini(INTERFACES), &ini(text), Path::new("conn.conf"))
    }

    #[test]
    fn mpts_files_become_ours() {
        let out = imported(CONNECTION).unwrap();
        let config = crate::config::parse(Path::new("conn.toml"), &out).unwrap();
        assert_eq!((config.mtu, config.endpoint.weights, config.paths[0].device.as_deref()), (1464, vec![10, 5], Some("eth0")));
        let delay = polypath_base::Duration::from_millis(300);
        assert_eq!(config.endpoint.reorder, polypath_tunnel::ReorderConfig::Mpt { window: 1600, max_delay: delay });
        assert_eq!(config.routes[0].length, 24);
        assert!(!config.endpoint.keepalive.data_count, "MPT counts keepalives alone");
    }

    #[test]
    fn files_in_the_form_of_mpts_authors_become_ours() {
        // As their published ones: a comment in front, values in a column, public addresses alone,
        // networks with their length.
        let text = "\
;###################### Multipath Connection Information: ###############
[connection]
name               = MPT_connection_10.0.0.1
permission         = 3
ip_ver             = 4
ip_local           = 10.0.0.1
local_port         = 23456
ip_remote          = 10.0.0.2
remote_port        = 23456
remote_cmd_port    = 60456
path_count         = 2
network_count      = 2
status             = 0
reorder_window     = 900
max_buffdelay_msec = 300
auth_type          = 0
;auth_key           = 0

;########################## PATHS ############################

[path_0]
interface_name   = eno2
ip_ver           = 4
public_ipaddr    = 192.0.2.1
gw_ipaddr        = 192.0.2.1
remote_ipaddr    = 192.0.2.2
keepalive_time   = 5
dead_time        = 11
weight_out       = 100
cmd_default      = 1
status           = 0

[path_1]
interface_name   = eno3
ip_ver           = 4
private_ipaddr   = 0.0.0.0
public_ipaddr    = 198.51.100.1
gw_ipaddr        = 0.0.0.0
remote_ipaddr    = 198.51.100.2
keepalive_time   = 5
dead_time        = 11
weight_out       = 50
status           = 0

;####################### NETWORKS #####################################
[net_0]
ip_ver     = 4
src_addr   = 192.168.10.0/24
dst_addr   = 192.168.20.0/22

[net_1]
ip_ver     = 4
src_addr   = 192.168.10.0/24
dst_addr   = 203.0.113.7/32
";
        let config = crate::config::parse(Path::new("conn.toml"), &imported(text).unwrap()).unwrap();
        assert_eq!(config.endpoint.weights, [100, 50]);
        let locals: Vec<_> = config.paths.iter().map(|path| path.local.ip().to_string()).collect();
        assert_eq!(locals, ["192.0.2.1", "198.51.100.1"]);
        assert_eq!(config.routes.iter().map(|route| route.length).collect::<Vec<_>>(), [22, 32]);
        let keepalive = config.endpoint.keepalive;
        assert_eq!(
            (keepalive.interval, keepalive.dead_time),
            (polypath_base::Duration::from_secs(5), polypath_base::Duration::from_secs(11))
        );
        // Without a time MPT sends none, and without a dead time it is three of them.
        let without = text.replace("keepalive_time   = 5", "").replace("dead_time        = 11", "");
        let config = crate::config::parse(Path::new("conn.toml"), &imported(&without).unwrap()).unwrap();
        assert_eq!(config.endpoint.keepalive.interval, polypath_tunnel::KeepaliveConfig::NEVER);
        let config = crate::config::parse(Path::new("conn.toml"), &imported(&text.replace("dead_time        = 11", "")).unwrap()).unwrap();
        assert_eq!(config.endpoint.keepalive.dead_time, polypath_base::Duration::from_secs(15));
    }

    #[test]
    fn what_cannot_be_kept_is_an_error() {
        for (from, to, sentence) in [
            ("auth_type = 0", "auth_type = 1", "conn.conf: [connection] auth_type: this daemon"),
            ("ip_local = 10.0.0.1", "ip_local = 10.0.0.9", "conn.conf: [connection] ip_local: no tunnel"),
            ("weight_out = 5", "dead_time = 20", "conn.conf: [path_1] keepalive_time: this daemon"),
            ("weight_out = 5", "tcp_dst = 80, 443", "conn.conf: [path_1] tcp_dst: this daemon"),
            ("dst_prefix_length = 24", "", "conn.conf: [net_0] dst_addr: it needs a prefix length"),
            ("dst_addr = 192.168.20.0", "dst_addr = 192.168.20.0/33", "conn.conf: [net_0] dst_addr: it needs a prefix length"),
            ("remote_ipaddr = 198.51.100.2", "", "conn.conf: [path_1] remote_ipaddr: it is missing"),
            ("private_ipaddr = 198.51.100.1", "private_ipaddr = 0.0.0.0", "conn.conf: [path_1] private_ipaddr: it is missing"),
            ("path_count = 2", "path_count = 4294967295", "conn.conf: [connection] path_count: a tunnel has 1 to 64 paths"),
            ("reorder_window = 1600", "reorder_window = many", "conn.conf: [connection] reorder_window: it is no"),
        ] {
            let error = imported(&CONNECTION.replace(from, to)).expect_err(to).to_string();
            assert!(error.starts_with(sentence), "{error}");
        }
    }
}
