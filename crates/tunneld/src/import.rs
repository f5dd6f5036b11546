//! MPT's own files read, and written as ours: `interface.conf` with the tunnel devices, `connections/*.conf` with connections and paths.
//!
//! The files are INI with `#` or `;` before comments. What has no meaning here (the port for commands, MACs, gateways, which are the kernel's
//! routes) is left out; what would change the tunnel and cannot be kept is an error.

use polypath_base::Error;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;
use std::path::Path;

/// Sections by name, in them values by name; both in small letters, as MPT reads them.
type Ini = BTreeMap<String, BTreeMap<String, String>>;

/// Our files, one behind the other, of a folder with `interface.conf` and `connections/`; before each stands where to put it.
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

    /// The first of these that is there; MPT's files have had more than one name for some.
    fn address(&self, section: &str, names: &[&str]) -> Result<IpAddr, Error> {
        match self.text(section, names).map(|text| text.split('/').next().unwrap_or_default().parse()) {
            Some(Ok(address)) => Ok(address),
            Some(Err(_)) => self.fail(section, names[0], "it is no IP address"),
            None => self.fail(section, names[0], "it is missing"),
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
    if values.number(here, "auth_type", 0)? != 0 {
        return values.fail(here, "auth_type", "this daemon has no authentication yet: set it to 0 at both ends, or keep MPT");
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
        let section = format!("net_{number}");
        let to = values.address(&section, &["dst_addr"])?;
        routes.push(format!("\"{to}/{}\"", values.number(&section, "dst_prefix_length", 24)?));
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
    let (interval, dead) = keepalive(&values, count)?;
    line(&mut out, format_args!("\n[keepalive]\ninterval = \"{interval}s\"\ndead_time = \"{dead}s\"\ndata_count = false"));
    for number in 0..count {
        let section = format!("path_{number}");
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

/// One interval and one dead time for all paths: MPT has them for each, and its authors' files have the same ones for all.
fn keepalive(values: &Values<'_>, paths: u32) -> Result<(u32, u32), Error> {
    let mut found = None;
    for number in 0..paths {
        let section = format!("path_{number}");
        let own = (values.number(&section, "keepalive_time", 5)?, values.number(&section, "dead_time", 11)?);
        if found.is_some_and(|found| found != own) {
            return values.fail(
                &section,
                "keepalive_time",
                "this daemon has one keepalive interval and one dead time for all paths: make them equal",
            );
        }
        found = Some(own);
    }
    Ok(found.unwrap_or((5, 11)))
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
    fn what_cannot_be_kept_is_an_error() {
        for (from, to, sentence) in [
            ("auth_type = 0", "auth_type = 1", "conn.conf: [connection] auth_type: this daemon"),
            ("ip_local = 10.0.0.1", "ip_local = 10.0.0.9", "conn.conf: [connection] ip_local: no tunnel"),
            ("weight_out = 5", "dead_time = 20", "conn.conf: [path_1] keepalive_time: this daemon"),
            ("remote_ipaddr = 198.51.100.2", "", "conn.conf: [path_1] remote_ipaddr: it is missing"),
            ("reorder_window = 1600", "reorder_window = many", "conn.conf: [connection] reorder_window: it is no"),
        ] {
            let error = imported(&CONNECTION.replace(from, to)).expect_err(to).to_string();
            assert!(error.starts_with(sentence), "{error}");
        }
    }
}
