//! The fields of the structures of cc/include/pp_sched.h, in their order; build.rs reads this file
//! too.

/// Each structure and its fields.
pub(crate) const FIELDS: &[(&str, &[&str])] = &[
    (
        "pp_path_view",
        &[
            "pacing_rate",
            "mss",
            "unsent",
            "queued",
            "rttvar_ns",
            "srtt_us",
            "cwnd",
            "in_flight",
            "ssthresh",
            "buffers",
            "burst",
            "usable",
            "backup",
            "room",
            "in_loss",
            "wins_ties",
        ],
    ),
    ("pp_data_queue", &["una", "next", "end", "window_end", "now_ns"]),
    ("pp_choice", &["from", "bytes", "subflow"]),
    ("pp_sched_ctx", &["paths", "queue", "priv", "subflow_priv", "weights", "len", "compat"]),
    ("pp_sched_ops", &["name", "flags", "priv_bytes", "subflow_bytes", "init", "pick", "scheduled", "blocked"]),
    ("pp_sched_about", &["what"]),
];

/// How many numbers `pp_sched_layout` has: a size for each structure, place and size for each
/// field.
pub(crate) const LAYOUT_LEN: usize = {
    let (mut count, mut i) = (0, 0);
    while i < FIELDS.len() {
        count += 1 + 2 * FIELDS[i].1.len();
        i += 1;
    }
    count
};
