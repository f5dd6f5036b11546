//! What the commands of a script have set: stand-ins for `sysctl`, `ip` and `tc` write it below one
//! folder (`python/polypath/selftests/_endpoint.py`), and so does whoever writes to /proc/sys
//! (`preload`).

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

/// Sysctls that change nothing that the endpoint does, with the values for which that is so; none:
/// any.
const WITHOUT_EFFECT: [(&str, &[&str]); 9] = [
    // Gone since Linux 4.15, where RACK took its place.
    ("net.ipv4.tcp_fack", &[]),
    // For a host with thousands of handshakes.
    ("net.ipv4.tcp_syncookies", &[]),
    // As they are by default: of flows that are paced.
    ("net.ipv4.tcp_pacing_ss_ratio", &["200"]),
    ("net.ipv4.tcp_pacing_ca_ratio", &["120"]),
    ("net.ipv4.tcp_synack_retries", &["5"]),
    // Of AccECN options that are sent sparingly, which is not modelled.
    ("net.ipv4.tcp_ecn_option_beacon", &[]),
    ("net.ipv4.tcp_ecn_fallback", &["1"]),
    // A `socket` says whether it is MPTCP's.
    ("net.mptcp.enabled", &["1"]),
    ("net.ipv4.tcp_fastopen_blackhole_timeout_sec", &[]),
];

/// The sysctls that are set, by their names, whatever has no effect left out.
///
/// # Errors
/// A sentence about one that has an effect which is not modelled.
pub(crate) fn sysctls(folder: &Path) -> Result<Vec<(String, String)>, String> {
    let mut found = Vec::new();
    let top = folder.join("proc/sys");
    let mut open = vec![top.clone()];
    while let Some(place) = open.pop() {
        let Ok(entries) = fs::read_dir(&place) else { continue };
        for entry in entries.flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let name = path.strip_prefix(&top).unwrap_or(&path).to_string_lossy().replace('/', ".");
            let value = fs::read_to_string(&path).unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
            // To read what was never set, or to put that back, means the default.
            if !value.is_empty() {
                found.push((name, value));
            }
        }
    }
    found.sort();
    // The authors' kernels have 1000 ticks a second, and so times that scripts expect.
    let mut told = vec![("tick_us".to_owned(), "1000".to_owned())];
    for (name, value) in found {
        match WITHOUT_EFFECT.iter().find(|(known, _)| *known == name) {
            Some((_, values)) if values.is_empty() || values.contains(&value.as_str()) => {}
            Some((_, values)) => return Err(format!("{name} = {value}; modelled is {}", values.join(" or "))),
            None => told.push((name, value)),
        }
    }
    Ok(told)
}

/// What is wrong, without the list of what would be right.
pub(crate) fn first_clause(sentence: String) -> String {
    let whole = sentence.trim_start_matches("node `host`: ");
    whole.split_once("; modelled are").map_or(whole, |(first, _)| first).to_owned()
}

/// `/proc/net/tcp` of the endpoint: sockets that listen (state 0A) and their ports, as Linux prints
/// them.
pub(crate) fn tell_listeners(folder: &Path, ports: impl Iterator<Item = u16>) {
    let lines: String = ports.map(|port| format!("   0: 00000000:{port:04X} 00000000:0000 0A \n")).collect();
    let net = folder.join("proc/net");
    // A folder that cannot be written was told of by whoever made it.
    let _told = fs::create_dir_all(&net).and_then(|()| fs::write(net.join("tcp"), lines));
}

/// The addresses that `ip mptcp endpoint` has the host announce (`signal`).
///
/// # Errors
/// A sentence about a command of which the endpoint does not know what it would do.
pub(crate) fn announced(folder: &Path) -> Result<Vec<Ipv4Addr>, String> {
    let told = fs::read_to_string(folder.join("ip")).unwrap_or_default();
    let mut announced = Vec::new();
    for line in told.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            // It matters where the address is announced.
            ["addr", "add", ..] => {}
            ["mptcp", "endpoint", "flush"] => announced.clear(),
            ["mptcp", "endpoint", "add", address, "signal"] => {
                announced.push(address.parse().map_err(|_| format!("the command ip {line}"))?);
            }
            // As many as there can be.
            ["mptcp", "limits", "set", "add_addr_accepted", "8", "subflows", "8"] => {}
            _ => return Err(format!("the command ip {line}")),
        }
    }
    Ok(announced)
}

/// How often `ip tcp_metrics flush all` was called.
pub(crate) fn flushes(folder: &Path) -> usize {
    fs::read_to_string(folder.join("flushes")).map_or(0, |told| told.lines().count())
}
