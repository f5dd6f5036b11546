//! Settings of a host by the names that Linux gives them.

use crate::scenario::Node;
use polypath_base::{Bytes, Duration, Error, Segments};
use polypath_pmtu::MtuSearch;
use polypath_transport::Settings;
use polypath_transport::stack::{MptcpVersion, Stack};
use serde_json::Value;
use std::collections::BTreeMap;

/// The settings of an endpoint on a host with this kernel and these sysctls, by the names and
/// values that a study gives a node.
///
/// # Errors
/// If one of them is not modelled, or has a value that is not.
pub fn settings(stack: &'static Stack, sysctl: &BTreeMap<String, Value>) -> Result<Settings, Error> {
    let node =
        Node { name: "host".to_owned(), router: false, addresses: Vec::new(), kernel: None, mtu_search: None, sysctl: sysctl.clone() };
    let mut settings = Settings::of(stack);
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

/// A setting that is modelled.
struct Known {
    name: &'static str,
    /// What its value must be.
    allowed: &'static str,
    /// Linux takes other values too.
    is_partial: bool,
    /// Applies a value; `None`: it is not one of those.
    set: fn(&mut Settings, &Value) -> Option<()>,
}

const fn all(name: &'static str, allowed: &'static str, set: fn(&mut Settings, &Value) -> Option<()>) -> Known {
    Known { name, allowed, is_partial: false, set }
}

const fn partly(name: &'static str, allowed: &'static str, set: fn(&mut Settings, &Value) -> Option<()>) -> Known {
    Known { name, allowed, is_partial: true, set }
}

/// Whether subflows of MPTCP 0.96 search for the path's MTU.
const SUBFLOW_MTU_PROBING: &str = "subflow_mtu_probing";

const KNOWN: [Known; 36] = [
    all("net.ipv4.tcp_rmem", "three ascending sizes in bytes", |s, v| triple(v).map(|sizes| s.rmem = sizes)),
    all("net.ipv4.tcp_wmem", "three ascending sizes in bytes", |s, v| triple(v).map(|sizes| s.wmem = sizes)),
    all("net.ipv4.tcp_sack", "0 or 1", |s, v| flag(v).map(|flag| s.sack = flag)),
    all("net.ipv4.tcp_dsack", "0 or 1", |s, v| flag(v).map(|flag| s.dsack = flag)),
    all("net.ipv4.tcp_timestamps", "0, 1, or 2: timestamps that do not begin at a random value", |s, v| {
        number(v, 0, 2).map(|wanted| (s.timestamps, s.timestamps_from_zero) = (wanted > 0, wanted == 2))
    }),
    all("net.ipv4.tcp_window_scaling", "0 or 1", |s, v| flag(v).map(|flag| s.window_scaling = flag)),
    partly("net.ipv4.tcp_ecn", "0, 1 or 2, or 3, 4 or 5 on a kernel with accurate ECN (7.3)", |s, v| {
        number(v, 0, if s.stack.accurate_ecn { 5 } else { 2 }).map(|n| s.ecn = n as u8)
    }),
    partly("net.ipv4.tcp_ecn_option", "0, 2 or 3, on a kernel with accurate ECN (7.3)", |s, v| {
        number(v, 0, if s.stack.accurate_ecn { 3 } else { 0 }).filter(|&n| n != 1 && s.stack.accurate_ecn).map(|n| s.ecn_option = n as u8)
    }),
    all("net.ipv4.tcp_slow_start_after_idle", "0 or 1", |s, v| flag(v).map(|flag| s.slow_start_after_idle = flag)),
    all("net.ipv4.tcp_early_retrans", "a number from 0 to 4", |s, v| number(v, 0, 4).map(|n| s.tail_loss_probe = n >= 3)),
    partly("net.ipv4.tcp_recovery", "1, since there is no other loss detection than RACK", |s, v| {
        // Where it cannot be switched off, 0 is the same.
        number(v, u32::from(!s.stack.rack_alone), 1).map(|_| ())
    }),
    partly("net.ipv4.tcp_rto_max_ms", "milliseconds from 1000 to 120000, on a kernel that has it (7.3)", |s, v| {
        number(v, 1000, 120_000).filter(|_| s.stack.sets_rto_max).map(|ms| s.rto_max = Duration::from_millis(u64::from(ms)))
    }),
    all("net.ipv4.tcp_frto", "0, 1 or 2", |s, v| number(v, 0, 2).map(|n| s.frto = n > 0)),
    partly("net.ipv4.tcp_reordering", "a number from 1 to 300", |s, v| number(v, 1, 300).map(|n| s.reordering = Segments::new(n))),
    partly("net.ipv4.tcp_max_reordering", "a number from 1 to 65535", |s, v| {
        number(v, 1, 65_535).map(|n| s.max_reordering = Segments::new(n))
    }),
    partly("net.ipv4.tcp_tso_win_divisor", "a number from 1 to 65535", |s, v| number(v, 1, 65_535).map(|n| s.tso_win_divisor = n)),
    all("net.ipv4.tcp_syn_retries", "a number from 1 to 127", |s, v| number(v, 1, 127).map(|n| s.syn_retries = n)),
    all("net.ipv4.tcp_min_tso_segs", "a number from 1 to 255", |s, v| number(v, 1, 255).map(|n| s.min_tso_segs = Segments::new(n))),
    all("net.ipv4.tcp_notsent_lowat", "a number of bytes", |s, v| number(v, 0, u32::MAX).map(|n| s.notsent_lowat = Bytes::from_u32(n))),
    all("net.ipv4.tcp_mtu_probing", "0, 1 or 2", |s, v| number(v, 0, 2).map(|n| s.mtu_probing = n as u8)),
    all("net.ipv4.tcp_base_mss", "a number of bytes from 48 to 65495", |s, v| bytes(v, 48, 65_495).map(|n| s.base_mss = n)),
    all("net.ipv4.tcp_min_snd_mss", "a number of bytes from 48 to 65535", |s, v| bytes(v, 48, 65_535).map(|n| s.min_snd_mss = n)),
    all("net.ipv4.tcp_mtu_probe_floor", "a number of bytes from 48 to 65495", |s, v| bytes(v, 48, 65_495).map(|n| s.mtu_probe_floor = n)),
    all("net.ipv4.tcp_probe_interval", "seconds from 0 to 1048576", |s, v| seconds(v, 0).map(|time| s.probe_interval = time)),
    all("net.ipv4.tcp_probe_threshold", "a number of bytes from 1 to 65535", |s, v| bytes(v, 1, 65_535).map(|n| s.probe_threshold = n)),
    all("net.ipv4.route.mtu_expires", "seconds from 1 to 1048576", |s, v| seconds(v, 1).map(|time| s.route_mtu_expires = time)),
    all("net.ipv4.route.min_pmtu", "a number of bytes from 68 to 65535", |s, v| bytes(v, 68, 65_535).map(|n| s.route_min_pmtu = n)),
    all(SUBFLOW_MTU_PROBING, "0 or 1", |s, v| flag(v).map(|flag| s.subflow_mtu_probing = flag)),
    all("net.mptcp.checksum_enabled", "0 or 1", |s, v| flag(v).map(|flag| s.checksum = flag)),
    all("net.mptcp.add_addr_timeout", "seconds from 0 to 1048576", |s, v| seconds(v, 0).map(|time| s.add_addr_timeout = time)),
    // Not sysctls, but properties of the kernel, the route or the program that a study may want to
    // change.
    all("initcwnd", "a number of segments from 1 to 1000", |s, v| number(v, 1, 1000).map(|n| s.initial_cwnd = Segments::new(n))),
    all("tso_bytes", "a number of bytes up to 1048576", |s, v| bytes(v, 0, 1 << 20).map(|n| s.tso_bytes = n)),
    all("tick_us", "microseconds from 0 to 100000", |s, v| micros(v, 0, 100_000).map(|time| s.tick = time)),
    all("rto_min_us", "microseconds from 1000 to 120000000", |s, v| micros(v, 1000, 120_000_000).map(|time| s.rto_min = time)),
    all("read_period_us", "microseconds from 0 to 10000000", |s, v| micros(v, 0, 10_000_000).map(|time| s.read_period = time)),
    all("receive_low_water", "a number of bytes above zero", |s, v| bytes(v, 1, i32::MAX as u32).map(|n| s.receive_low_water = n)),
];

/// Applies a node's settings on top of the defaults.
pub(crate) fn apply(node: &Node, settings: &mut Settings) -> Result<(), Refused> {
    let error =
        |sentence: String, field: &str| Error::caller(sentence).of(format!("node `{}`", node.name)).at(&["nodes", &node.name, field]);
    if let Some(asked) = &node.mtu_search {
        settings.mtu_search = MtuSearch::find(asked).ok_or_else(|| {
            let known = MtuSearch::NAMES.map(|(name, _)| name).join(", ");
            error(format!("there is no search for the path's MTU `{asked}`; there are {known}"), "mtu_search")
        })?;
    }
    for (name, value) in &node.sysctl {
        let error = |sentence| error(sentence, name);
        // The checksum's name in MPTCP 0.96.
        let short = match without_prefix(name) {
            "mptcp_checksum" => "checksum_enabled",
            short => short,
        };
        let Some(known) = KNOWN.iter().find(|known| without_prefix(known.name) == short) else {
            let meant = nearest(name).map_or(String::new(), |known| format!(" did you mean `{known}`?"));
            let names = KNOWN.map(|known| known.name).join(", ");
            let unknown = error(format!("the setting `{name}` is not modelled;{meant} modelled are {names}"));
            // Linux may have it.
            return Err(Refused { error: unknown, simulator_only: name.starts_with("net.") });
        };
        let Known { allowed, is_partial, .. } = *known;
        (known.set)(settings, value).ok_or_else(|| Refused {
            error: error(format!("`{name}` is {value}; {} {allowed}", if is_partial { "modelled is" } else { "it must be" })),
            simulator_only: is_partial,
        })?;
        if short == SUBFLOW_MTU_PROBING && settings.stack.mptcp_version != MptcpVersion::V0 {
            return Err(error(format!("`{name}` is a change to MPTCP 0.96 (kernel 5.4-mptcp); others always probe subflows")).into());
        }
    }
    Ok(())
}

/// A setting's name without its folder.
fn without_prefix(name: &str) -> &str {
    name.strip_prefix("net.ipv4.").or_else(|| name.strip_prefix("net.mptcp.")).unwrap_or(name)
}

/// The known name that differs in the fewest letters, if these are few.
fn nearest(name: &str) -> Option<&'static str> {
    let bare = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    let distance = |known: &&str| letters_between(&bare(name), &bare(known));
    KNOWN.map(|known| known.name).into_iter().min_by_key(distance).filter(|known| distance(known) <= 2)
}

/// How many letters have to be put in, taken out or exchanged to make one name of another
/// (Levenshtein).
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

fn bytes(value: &Value, least: u32, most: u32) -> Option<Bytes> {
    number(value, least, most).map(Bytes::from_u32)
}

/// At most 2^20 seconds.
fn seconds(value: &Value, least: u32) -> Option<Duration> {
    number(value, least, 1 << 20).map(|seconds| Duration::from_secs(u64::from(seconds)))
}

fn micros(value: &Value, least: u32, most: u32) -> Option<Duration> {
    number(value, least, most).map(|micros| Duration::from_micros(u64::from(micros)))
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
    use polypath_transport::stack::{LINUX_6_12_117, LINUX_7_3_4, MPTCP_0_96_LINUX_5_4_188};
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
    fn probing_of_subflows_is_a_setting_of_mptcp_0_96_alone() {
        let probing = node("subflow_mtu_probing", Value::from(1));
        let error = apply(&probing, &mut Settings::default()).unwrap_err();
        assert!(error.error.to_string().contains("MPTCP 0.96") && !error.simulator_only, "{}", error.error);
        assert_eq!(error.error.field(), ["nodes", "c", "subflow_mtu_probing"]);
        let mut settings = Settings::of(&MPTCP_0_96_LINUX_5_4_188);
        apply(&probing, &mut settings).unwrap();
        assert!(settings.subflow_mtu_probing);
    }

    #[test]
    fn accurate_ecn_is_a_setting_of_kernels_that_have_it() {
        let (asks, lacks) = (node("net.ipv4.tcp_ecn", Value::from(3)), node("net.ipv4.tcp_ecn_option", Value::from(0)));
        for setting in [&asks, &lacks] {
            let error = apply(setting, &mut Settings::default()).unwrap_err();
            assert!(error.error.to_string().contains("on a kernel with accurate ECN (7.3)") && error.simulator_only, "{}", error.error);
        }
        let mut settings = Settings::of(&LINUX_7_3_4);
        apply(&asks, &mut settings).unwrap();
        apply(&lacks, &mut settings).unwrap();
        assert_eq!((settings.ecn, settings.ecn_option), (3, 0));
        assert!(apply(&node("net.ipv4.tcp_ecn_option", Value::from(1)), &mut settings).is_err());
    }

    #[test]
    fn the_longest_timeout_and_rack_are_settings_of_kernels_that_have_them() {
        let set = |stack, name: &str, value: u64| {
            let mut settings = Settings::of(stack);
            apply(&node(name, Value::from(value)), &mut settings).map(|()| settings.rto_max.as_millis()).ok()
        };
        let rto_max = "net.ipv4.tcp_rto_max_ms";
        assert_eq!([999, 1000, 120_000, 120_001].map(|ms| set(&LINUX_7_3_4, rto_max, ms)), [None, Some(1000), Some(120_000), None]);
        let error = apply(&node(rto_max, Value::from(5000)), &mut Settings::default()).unwrap_err();
        assert!(error.error.to_string().contains("on a kernel that has it (7.3)") && error.simulator_only, "{}", error.error);
        assert_eq!([0, 1, 2].map(|n| set(&LINUX_7_3_4, "net.ipv4.tcp_recovery", n).is_some()), [true, true, false]);
        assert_eq!(set(&LINUX_6_12_117, "net.ipv4.tcp_recovery", 0), None);
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
        for Known { name, .. } in KNOWN {
            let error = apply(&node(name, Value::Null), &mut Settings::default()).unwrap_err();
            assert!(!error.error.to_string().contains("is not modelled;"), "{}", error.error);
        }
    }
}
