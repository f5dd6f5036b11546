//! Settings of a host by the names that Linux gives them.

use crate::scenario::Node;
use polypath_base::{Bytes, Duration, Error, Segments};
use polypath_pmtu::MtuSearch;
use polypath_transport::Settings;
use polypath_transport::stack::MptcpVersion;
use serde_json::Value;
use std::collections::BTreeMap;

/// The settings of an endpoint on a host with these sysctls, by the names and values that a study gives a node.
///
/// # Errors
/// If one of them is not modelled, or has a value that is not.
pub fn settings(sysctl: &BTreeMap<String, Value>) -> Result<Settings, Error> {
    let node =
        Node { name: "host".to_owned(), router: false, addresses: Vec::new(), kernel: None, mtu_search: None, sysctl: sysctl.clone() };
    let mut settings = Settings::default();
    apply(&node, &mut settings)?;
    Ok(settings)
}

/// Why a setting is not applied.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) error: Error,
    /// A kernel would take it: only the simulator has no model of it.
    pub(crate) simulator_only: bool,
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self { error, simulator_only: false }
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        refused.error
    }
}

/// Applies a node's settings on top of the defaults.
pub(crate) fn apply(node: &Node, settings: &mut Settings) -> Result<(), Refused> {
    if let Some(asked) = &node.mtu_search {
        settings.mtu_search = MtuSearch::find(asked).ok_or_else(|| {
            let known = MtuSearch::NAMES.map(|(name, _)| name).join(", ");
            Error::caller(format!("there is no search for the path's MTU `{asked}`; there are {known}"))
                .of(format!("node `{}`", node.name))
                .at(&["nodes", &node.name, "mtu_search"])
        })?;
    }
    for (name, value) in &node.sysctl {
        let short = name.strip_prefix("net.ipv4.").or_else(|| name.strip_prefix("net.mptcp.")).unwrap_or(name);
        let error = |sentence: String| Error::caller(sentence).of(format!("node `{}`", node.name)).at(&["nodes", &node.name, name]);
        let wrong = |allowed: &str| error(format!("`{name}` is {value}; it must be {allowed}"));
        let bytes = |low, high| {
            number(value, low, high).map(Bytes::from_u32).ok_or_else(|| wrong(&format!("a number of bytes from {low} to {high}")))
        };
        let seconds = |low, high| match number(value, low, high) {
            Some(seconds) => Ok(Duration::from_secs(u64::from(seconds))),
            None => Err(wrong(&format!("seconds from {low} to {high}"))),
        };
        // Linux takes the value.
        let other = |modelled: &str| Refused { error: error(format!("`{name}` is {value}; modelled is {modelled}")), simulator_only: true };
        match short {
            "tcp_rmem" => settings.rmem = triple(value).ok_or_else(|| wrong("three ascending sizes in bytes"))?,
            "tcp_wmem" => settings.wmem = triple(value).ok_or_else(|| wrong("three ascending sizes in bytes"))?,
            "tcp_sack" => settings.sack = flag(value).ok_or_else(|| wrong("0 or 1"))?,
            "tcp_dsack" => settings.dsack = flag(value).ok_or_else(|| wrong("0 or 1"))?,
            "tcp_timestamps" => {
                let wanted = number(value, 0, 2).ok_or_else(|| wrong("0, 1, or 2: timestamps that do not begin at a random value"))?;
                settings.timestamps = wanted > 0;
                settings.timestamps_from_zero = wanted == 2;
            }
            "tcp_window_scaling" => settings.window_scaling = flag(value).ok_or_else(|| wrong("0 or 1"))?,
            "tcp_ecn" => settings.ecn = number(value, 0, 2).ok_or_else(|| other("0, 1 or 2"))? as u8,
            "tcp_slow_start_after_idle" => settings.slow_start_after_idle = flag(value).ok_or_else(|| wrong("0 or 1"))?,
            "tcp_early_retrans" => settings.tail_loss_probe = number(value, 0, 4).ok_or_else(|| wrong("a number from 0 to 4"))? >= 3,
            "tcp_recovery" => {
                number(value, 1, 1).ok_or_else(|| other("1, since there is no other loss detection than RACK"))?;
            }
            "tcp_frto" => settings.frto = number(value, 0, 2).ok_or_else(|| wrong("0, 1 or 2"))? > 0,
            "tcp_reordering" => {
                settings.reordering = number(value, 1, 300).map(Segments::new).ok_or_else(|| other("a number from 1 to 300"))?;
            }
            "tcp_max_reordering" => {
                settings.max_reordering = number(value, 1, 65_535).map(Segments::new).ok_or_else(|| other("a number from 1 to 65535"))?;
            }
            "tcp_mtu_probing" => settings.mtu_probing = number(value, 0, 2).ok_or_else(|| wrong("0, 1 or 2"))? as u8,
            "tcp_base_mss" => settings.base_mss = bytes(48, 65_495)?,
            "tcp_min_snd_mss" => settings.min_snd_mss = bytes(48, 65_535)?,
            "tcp_mtu_probe_floor" => settings.mtu_probe_floor = bytes(48, 65_495)?,
            "tcp_probe_interval" => settings.probe_interval = seconds(0, 1 << 20)?,
            "tcp_probe_threshold" => settings.probe_threshold = bytes(1, 65_535)?,
            "route.mtu_expires" => settings.route_mtu_expires = seconds(1, 1 << 20)?,
            "route.min_pmtu" => settings.route_min_pmtu = bytes(68, 65_535)?,
            "checksum_enabled" | "mptcp_checksum" => settings.checksum = flag(value).ok_or_else(|| wrong("0 or 1"))?,
            "add_addr_timeout" => settings.add_addr_timeout = seconds(0, 1 << 20)?,
            "subflow_mtu_probing" => {
                settings.subflow_mtu_probing = flag(value).ok_or_else(|| wrong("0 or 1"))?;
                if settings.stack.mptcp_version != MptcpVersion::V0 {
                    return Err(
                        error(format!("`{name}` is a change to MPTCP 0.96 (kernel 5.4-mptcp); others always probe subflows")).into()
                    );
                }
            }
            // Not sysctls, but properties of the kernel, the route or the program that a study may want to change.
            "initcwnd" => {
                settings.initial_cwnd =
                    number(value, 1, 1000).map(Segments::new).ok_or_else(|| wrong("a number of segments from 1 to 1000"))?;
            }
            "tso_bytes" => {
                settings.tso_bytes =
                    number(value, 0, 1 << 20).map(Bytes::from_u32).ok_or_else(|| wrong("a number of bytes up to 1048576"))?;
            }
            "tick_us" => {
                settings.tick =
                    Duration::from_micros(u64::from(number(value, 0, 100_000).ok_or_else(|| wrong("microseconds from 0 to 100000"))?));
            }
            "rto_min_us" => {
                settings.rto_min = Duration::from_micros(u64::from(
                    number(value, 1000, 120_000_000).ok_or_else(|| wrong("microseconds from 1000 to 120000000"))?,
                ));
            }
            "read_period_us" => {
                settings.read_period =
                    Duration::from_micros(u64::from(number(value, 0, 10_000_000).ok_or_else(|| wrong("microseconds from 0 to 10000000"))?));
            }
            "receive_low_water" => {
                settings.receive_low_water =
                    number(value, 1, i32::MAX as u32).map(Bytes::from_u32).ok_or_else(|| wrong("a number of bytes above zero"))?;
            }
            _ => {
                let meant = nearest(name).map_or(String::new(), |known| format!(" did you mean `{known}`?"));
                let unknown = error(format!("the setting `{name}` is not modelled;{meant} modelled are {}", KNOWN.join(", ")));
                // Linux may have it.
                return Err(Refused { error: unknown, simulator_only: name.starts_with("net.") });
            }
        }
    }
    Ok(())
}

const KNOWN: [&str; 30] = [
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_dsack",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_early_retrans",
    "net.ipv4.tcp_recovery",
    "net.ipv4.tcp_frto",
    "net.ipv4.tcp_reordering",
    "net.ipv4.tcp_max_reordering",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_base_mss",
    "net.ipv4.tcp_min_snd_mss",
    "net.ipv4.tcp_mtu_probe_floor",
    "net.ipv4.tcp_probe_interval",
    "net.ipv4.tcp_probe_threshold",
    "net.ipv4.route.mtu_expires",
    "net.ipv4.route.min_pmtu",
    "subflow_mtu_probing",
    "net.mptcp.checksum_enabled",
    "net.mptcp.add_addr_timeout",
    "initcwnd",
    "tso_bytes",
    "tick_us",
    "rto_min_us",
    "read_period_us",
    "receive_low_water",
];

/// The known name that differs in the fewest letters, if these are few.
fn nearest(name: &str) -> Option<&'static str> {
    let bare = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    let distance = |known: &&str| letters_between(&bare(name), &bare(known));
    KNOWN.into_iter().min_by_key(distance).filter(|known| distance(known) <= 2)
}

/// How many letters have to be put in, taken out or exchanged to make one name of another (Levenshtein).
fn letters_between(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.bytes().enumerate() {
            let above = row[j + 1];
            row[j + 1] = (diagonal + usize::from(x != y)).min(above + 1).min(row[j] + 1);
            diagonal = above;
        }
    }
    row[b.len()]
}

/// A number, written as such or, as sysctl prints it, as text.
fn number(value: &Value, least: u32, most: u32) -> Option<u32> {
    let n = match value {
        Value::Number(n) => n.as_u64()?,
        Value::String(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    u32::try_from(n).ok().filter(|n| (least..=most).contains(n))
}

fn flag(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(flag) => Some(*flag),
        _ => number(value, 0, 1).map(|n| n == 1),
    }
}

/// Three ascending numbers: a list, or text as sysctl prints it.
fn triple(value: &Value) -> Option<[Bytes; 3]> {
    let items: Vec<u32> = match value {
        Value::Array(items) => items.iter().map(|item| number(item, 1, i32::MAX as u32)).collect::<Option<_>>()?,
        Value::String(text) => text.split_whitespace().map(|item| item.parse().ok()).collect::<Option<_>>()?,
        _ => return None,
    };
    <[u32; 3]>::try_from(items).ok().filter(|items| items.is_sorted() && items[0] > 0).map(|items| items.map(Bytes::from_u32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use polypath_transport::stack::MPTCP_0_96_LINUX_5_4_188;
    use std::collections::BTreeMap;

    fn node(name: &str, value: Value) -> Node {
        Node {
            name: "c".into(),
            router: false,
            addresses: vec![],
            kernel: None,
            mtu_search: None,
            sysctl: BTreeMap::from([(name.to_owned(), value)]),
        }
    }

    #[test]
    fn buffers_are_read_as_a_list_or_as_text() {
        for value in [serde_json::json!([4096, 131_072, 6_291_456]), serde_json::json!("4096 131072\t6291456")] {
            let mut settings = Settings { rmem: [Bytes::new(1); 3], ..Settings::default() };
            apply(&node("net.ipv4.tcp_rmem", value), &mut settings).unwrap();
            assert_eq!(settings.rmem.map(Bytes::get), [4096, 131_072, 6_291_456]);
        }
    }

    #[test]
    fn what_is_not_modelled_is_named() {
        let error = apply(&node("net.ipv4.tcp_nothing", Value::from(1)), &mut Settings::default()).unwrap_err();
        assert!(error.error.to_string().contains("tcp_nothing"), "{}", error.error);
        assert!(error.simulator_only, "a kernel may have it");
        assert_eq!(error.error.field(), ["nodes", "c", "net.ipv4.tcp_nothing"]);
        let error = apply(&node("net.ipv4.tcp_recovery", Value::from(0)), &mut Settings::default()).unwrap_err();
        assert!(error.error.to_string().contains("modelled") && error.simulator_only, "{}", error.error);
        let error = apply(&node("net.ipv4.tcp_sack", Value::from(7)), &mut Settings::default()).unwrap_err();
        assert!(error.error.to_string().contains("0 or 1") && !error.simulator_only, "{}", error.error);
        let error = apply(&node("initcwmd", Value::from(10)), &mut Settings::default()).unwrap_err();
        assert!(error.error.to_string().contains("did you mean `initcwnd`?") && !error.simulator_only, "{}", error.error);
    }

    #[test]
    fn probing_of_subflows_is_a_setting_of_out_of_tree_mptcp_alone() {
        let probing = node("subflow_mtu_probing", Value::from(1));
        let error = apply(&probing, &mut Settings::default()).unwrap_err();
        assert!(error.error.to_string().contains("MPTCP 0.96") && !error.simulator_only, "{}", error.error);
        assert_eq!(error.error.field(), ["nodes", "c", "subflow_mtu_probing"]);
        let mut settings = Settings { stack: &MPTCP_0_96_LINUX_5_4_188, ..Settings::default() };
        apply(&probing, &mut settings).unwrap();
        assert!(settings.subflow_mtu_probing);
    }

    #[test]
    fn sizes_and_times_of_path_mtus_have_bounds() {
        let refused = |name: &str, value: u64| {
            let error = apply(&node(name, Value::from(value)), &mut Settings::default()).err().map(|refused| refused.error.to_string());
            error.is_some_and(|error| error.contains("must be"))
        };
        let short = |name: &str| format!("net.ipv4.{name}");
        for (name, least) in [
            ("tcp_min_snd_mss", 48),
            ("tcp_mtu_probe_floor", 48),
            ("tcp_probe_threshold", 1),
            ("route.min_pmtu", 68),
            ("route.mtu_expires", 1),
        ] {
            assert!(refused(&short(name), least - 1) && !refused(&short(name), least), "{name}");
        }
        let mut settings = Settings::default();
        apply(&node("net.ipv4.tcp_probe_interval", Value::from(30)), &mut settings).unwrap();
        assert_eq!(settings.probe_interval, Duration::from_secs(30));
    }

    #[test]
    fn the_nearest_name_is_within_two_letters() {
        assert_eq!(nearest("net.ipv4.tcp_rmen"), Some("net.ipv4.tcp_rmem"));
        assert_eq!(nearest("tcp_sak"), Some("net.ipv4.tcp_sack"));
        assert_eq!(nearest("net.ipv4.tcp_fastopen"), None);
    }

    #[test]
    fn every_known_name_is_read() {
        for name in KNOWN {
            let error = apply(&node(name, Value::Null), &mut Settings::default()).unwrap_err();
            assert!(!error.error.to_string().contains("is not modelled;"), "{}", error.error);
        }
    }
}
