//! What a tunnel says of itself: a value that is JSON, and a table for people.

use crate::config::PathConfig;
use crate::core::{Core, PathSockets};
use crate::rights::Rights;
use polypath_base::{Bytes, Column, Duration, PathId, Rate, Unit};
use polypath_tunnel::PathEstimate;
use serde_json::{Map, Value, json};
use std::net::SocketAddr;

/// Counters by their names: times as NAME_s, seconds.
fn counted(columns: &[Column], values: impl Iterator<Item = u64>) -> Map<String, Value> {
    let value = |column: &Column, value: u64| if column.unit == Unit::Time { json!(value as f64 / 1e9) } else { json!(value) };
    columns.iter().zip(values).map(|(column, number)| (column.name(), value(column, number))).collect()
}

/// What the distribution earliest has learnt of a path; null with another one.
fn estimated(estimate: Option<PathEstimate>) -> Value {
    estimate.map_or(Value::Null, |found| {
        json!({
            "capacity_bits_per_s": found.capacity.map(Rate::as_bits_per_sec),
            "behind_s": found.behind.map(Duration::as_secs_f64),
            "queue_s": found.queue.as_secs_f64(),
            "in_flight_bytes": found.in_flight.get(),
            "most_in_flight_bytes": found.most_in_flight.map(Bytes::get),
            "packets_lost": found.lost,
        })
    })
}

/// What routers have said that a path of IPv6 carries, bytes, where that is less than what the
/// tunnel sends. Those of IPv4 fragment instead, and where the MTU is searched for they are not
/// believed.
fn said_mtu(core: &Core, path: &PathConfig, sockets: &PathSockets, remote: SocketAddr) -> Option<u32> {
    if path.local.is_ipv4() || core.config.endpoint.mtu.is_some() {
        return None;
    }
    sockets.main.said_mtu(remote).filter(|&mtu| mtu < core.config.longest_outside(path))
}

/// The state of the tunnel now.
pub(crate) fn status(core: &Core, rights: &Rights) -> Value {
    use crate::core::DaemonCounters;
    use crate::encapsulation::Refused;
    use crate::encryption::EncryptionCounters;
    use polypath_tunnel::{FecCounters, PathCounters, ReorderCounters};
    let config = &core.config;
    let state = core.state();
    let now = core.clock.now();
    let paths: Vec<Value> = state
        .endpoint
        .paths()
        .zip(config.paths.iter().zip(&core.paths).zip(&state.remotes))
        .enumerate()
        .map(|(number, ((up, counters), ((path, sockets), remote)))| {
            let mut row = Map::new();
            row.insert("name".into(), json!(path.name));
            row.insert("up".into(), json!(up));
            row.insert("local".into(), json!(path.local.to_string()));
            row.insert("remote".into(), json!(remote.to_string()));
            let found = state.endpoint.path_mtu(PathId(number as u8));
            row.insert("mtu".into(), json!(found.map(|(mtu, _)| mtu.get())));
            row.insert("mtu_answered".into(), json!(found.map(|(_, answered)| answered)));
            row.insert("said_mtu".into(), json!(said_mtu(core, path, sockets, *remote)));
            row.insert("udp_segment".into(), json!(sockets.segments()));
            row.insert("estimate".into(), estimated(state.endpoint.estimate(now, PathId(number as u8))));
            row.extend(counted(PathCounters::COLUMNS, counters.values()));
            Value::Object(row)
        })
        .collect();
    let encryption = config.encryption.as_ref().map(|_| {
        let mut found = counted(EncryptionCounters::COLUMNS, state.encryption.values());
        found.insert("session_age_s".into(), json!(state.session.as_ref().map(|session| session.age(now).as_secs_f64())));
        found
    });
    json!({
        "name": config.name,
        "device": core.tun.name(),
        "mtu": core.mtu(),
        "mtu_searched": config.endpoint.mtu.is_some(),
        "pid": std::process::id(),
        "user": rights.user,
        "system_calls_filtered": rights.filtered,
        "uptime_s": now.as_secs_f64(),
        "encryption": encryption,
        "tun_offload": format!("{:?}", core.tun.offload()),
        "reported": state.endpoint.is_reported(),
        "paths": paths,
        "reorder": counted(ReorderCounters::COLUMNS, state.endpoint.reorder_counters().values()),
        "fec": state.endpoint.fec_counters().map(|fec| counted(FecCounters::COLUMNS, fec.values())),
        "refused": counted(Refused::COLUMNS, state.refused.values()),
        "daemon": counted(DaemonCounters::COLUMNS, state.counters.values()),
        "no_path_up": state.endpoint.unsent_packets(),
        "numbers_disagree": state.endpoint.malformed_packets(),
    })
}

/// The same for people.
pub fn table(status: &Value) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut lines = vec![format!(
        "{} on {}, MTU {}, up for {:.0} s, {}",
        text(&status["name"]),
        text(&status["device"]),
        status["mtu"],
        status["uptime_s"].as_f64().unwrap_or_default(),
        match &status["encryption"] {
            Value::Null => "not encrypted".to_owned(),
            found => found["session_age_s"].as_f64().map_or_else(
                || "encrypted, and the other end has not answered".to_owned(),
                |age| format!("encrypted, with a session of {age:.0} s")
            ),
        }
    )];
    let estimated = !status["reported"].is_null();
    let mut heads = vec!["path", "state", "local", "remote", "sent", "received", "keepalives", "times down"];
    if estimated {
        heads.extend(["capacity", "behind", "queue", "lost"]);
    }
    let searched = status["mtu_searched"] == true;
    if searched {
        heads.push("MTU");
    }
    let mut rows: Vec<Vec<String>> = vec![heads.iter().map(|&head| head.to_owned()).collect()];
    for path in status["paths"].as_array().into_iter().flatten() {
        let mut row = vec![
            text(&path["name"]),
            if path["up"] == true { "up" } else { "down" }.to_owned(),
            text(&path["local"]),
            text(&path["remote"]),
            text(&path["packets_sent"]),
            text(&path["packets_received"]),
            text(&path["keepalives_received"]),
            text(&path["went_down"]),
        ];
        if estimated {
            let found = &path["estimate"];
            let scaled =
                |value: &Value, by: f64, unit: &str| value.as_f64().map_or_else(|| "?".to_owned(), |n| format!("{:.1} {unit}", n * by));
            row.push(scaled(&found["capacity_bits_per_s"], 1e-6, "Mbit/s"));
            row.extend(["behind_s", "queue_s"].map(|name| scaled(&found[name], 1e3, "ms")));
            row.push(text(&found["packets_lost"]));
        }
        if searched {
            row.push(if path["mtu_answered"] == true { text(&path["mtu"]) } else { format!("{}?", path["mtu"]) });
        }
        rows.push(row);
    }
    let widths: Vec<usize> = (0..heads.len()).map(|i| rows.iter().map(|row| row[i].len()).max().unwrap_or(0)).collect();
    for row in rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}")).collect();
        lines.push(cells.join("  ").trim_end().to_owned());
    }
    let unanswered = |path: &Value| path["mtu_answered"] == false && path["up"] == true;
    if status["paths"].as_array().into_iter().flatten().any(unanswered) {
        lines.push("the other end does not answer probes, so a path's MTU with ? is a guess: does it have this version?".to_owned());
    }
    for path in status["paths"].as_array().into_iter().flatten().filter(|path| !path["said_mtu"].is_null()) {
        lines.push(format!(
            "a router says that {} carries packets of {} bytes, and the tunnel sends longer ones, which are then lost: write a smaller tunnel.mtu, or \
             mtu = \"search\"",
            text(&path["name"]),
            path["said_mtu"]
        ));
    }
    if status["user"] == 0 {
        lines.push("the daemon runs as root, since this machine lets it become no other user".to_owned());
    }
    if status["refused"]["wrong_path"] != 0 {
        lines.push("packets came on another path than they were sent on: do both files list the paths in the same order?".to_owned());
    }
    if status["reported"] == false {
        lines.push("the other end sends no reports, which the distribution earliest needs: packets take turns by weight".to_owned());
    }
    for (part, words) in
        [("reorder", "reordering"), ("fec", "error correction"), ("refused", "dropped, from the network"), ("daemon", "daemon")]
    {
        let found: Vec<String> = status[part]
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(_, n)| n.as_f64() != Some(0.0))
            .map(|(name, n)| format!("{name} {n}"))
            .collect();
        if !found.is_empty() {
            lines.push(format!("{words}: {}", found.join(", ")));
        }
    }
    for (name, words) in
        [("no_path_up", "packets found no path up"), ("numbers_disagree", "packets had a number where this end has none, or none")]
    {
        if status[name] != 0 {
            lines.push(format!("{} {words}", status[name]));
        }
    }
    lines.join("\n") + "\n"
}
