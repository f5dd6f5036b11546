//! What a tunnel says of itself: a value that is JSON, and a table for people.

use crate::core::Core;
use polypath_base::{Column, Unit};
use serde_json::{Map, Value, json};

/// Counters by their names: times as NAME_s, seconds.
fn counted(columns: &[Column], values: impl Iterator<Item = u64>) -> Map<String, Value> {
    let value = |column: &Column, value: u64| if column.unit == Unit::Time { json!(value as f64 / 1e9) } else { json!(value) };
    columns.iter().zip(values).map(|(column, number)| (column.name(), value(column, number))).collect()
}

/// The state of the tunnel now.
pub(crate) fn status(core: &Core) -> Value {
    use crate::core::DaemonCounters;
    use crate::encapsulation::Refused;
    use crate::encryption::EncryptionCounters;
    use polypath_tunnel::{PathCounters, ReorderCounters};
    let config = &core.config;
    let state = core.state();
    let paths: Vec<Value> = state
        .endpoint
        .paths()
        .zip(config.paths.iter().zip(&core.paths).zip(&state.remotes))
        .map(|((up, counters), ((path, sockets), remote))| {
            let mut row = Map::new();
            row.insert("name".into(), json!(path.name));
            row.insert("up".into(), json!(up));
            row.insert("local".into(), json!(path.local.to_string()));
            row.insert("remote".into(), json!(remote.to_string()));
            row.insert("udp_segment".into(), json!(sockets.segments()));
            row.extend(counted(PathCounters::COLUMNS, counters.values()));
            Value::Object(row)
        })
        .collect();
    let now = core.clock.now();
    let encryption = config.encryption.map(|_| {
        let mut found = counted(EncryptionCounters::COLUMNS, state.encryption.values());
        found.insert("session_age_s".into(), json!(state.session.as_ref().map(|session| session.age(now).as_secs_f64())));
        found
    });
    json!({
        "name": config.name,
        "device": core.tun.name(),
        "mtu": config.mtu,
        "pid": std::process::id(),
        "uptime_s": now.as_secs_f64(),
        "encryption": encryption,
        "tun_offload": format!("{:?}", core.tun.offload()),
        "paths": paths,
        "reorder": counted(ReorderCounters::COLUMNS, state.endpoint.reorder_counters().values()),
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
    let heads = ["path", "state", "local", "remote", "sent", "received", "keepalives", "times down"];
    let mut rows = vec![heads.map(str::to_owned)];
    for path in status["paths"].as_array().into_iter().flatten() {
        rows.push([
            text(&path["name"]),
            if path["up"] == true { "up" } else { "down" }.to_owned(),
            text(&path["local"]),
            text(&path["remote"]),
            text(&path["packets_sent"]),
            text(&path["packets_received"]),
            text(&path["keepalives_received"]),
            text(&path["went_down"]),
        ]);
    }
    let widths: Vec<usize> = (0..heads.len()).map(|i| rows.iter().map(|row| row[i].len()).max().unwrap_or(0)).collect();
    for row in rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}")).collect();
        lines.push(cells.join("  ").trim_end().to_owned());
    }
    for (part, words) in [("reorder", "reordering"), ("refused", "dropped, from the network"), ("daemon", "daemon")] {
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
