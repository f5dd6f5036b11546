//! A multipath GRE-in-UDP tunnel without sockets: which path a packet takes, which number it gets,
//! and in what order the far end gives packets on.
//!
//! Nothing here knows what a packet is: the simulator passes its packets through, the daemon
//! buffers of bytes. Time comes in as an argument. A part is asked with `handle_*` and answers
//! through `poll_*`: after any `handle_*`, ask every `poll_*` until it returns `None`, then ask for
//! its next timeout.
//!
//! Start at `endpoint`, one end, which has the others: `distribution` chooses a path (`earliest` by
//! when packets arrive), `reorder` gives on in order, `keepalive` and `silence` say which paths are
//! alive, `path_mtu` how long a packet may be, `mss` what a SYN may announce; `fec` brings lost
//! packets back.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod distribution;
mod earliest;
mod endpoint;
mod fec;
mod keepalive;
mod mss;
mod path_mtu;
mod reorder;
mod silence;

pub use distribution::{Distribution, FlowHash, MOST_BATCH, WeightedTurns};
pub use earliest::{Earliest, PathEstimate, Report};
pub use endpoint::{Endpoint, EndpointConfig, Message, PathCounters, Spreading};
pub use fec::{FecConfig, FecCounters, MOST_PACKETS, Parity, REMEMBERED, Recovery};
pub use keepalive::{Change, Keepalive, KeepaliveConfig};
pub use mss::clamped_mss;
pub use path_mtu::{MtuConfig, PathBounds, PathMtus, Probe};
pub use reorder::{Arrival, Reorder, ReorderConfig, ReorderCounters, Rule};
