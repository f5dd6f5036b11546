//! Captures of any program, read and explained: connections, subflows, and what held them back.
//!
//! [`analyse`] reads files side by side in the order of their time stamps, so that several places
//! on a path may be given, each in a file of its own. Memory is bounded by the connections, not by
//! the files. Files are bytes from a stranger: nothing here panics, and what is cut off or damaged
//! ends a file early, with a sentence that says where.
//!
//! Start at `analysis`. A file's bytes become packets (`packed`, `reader`), a packet what is
//! innermost in it (`layers`, `frame`, `fragments`, `icmp`, `kind`). Segments go to their `stream`,
//! with a `direction` and a `window` for each end; streams of MPTCP to their `connection`
//! (`mapped`). `diagnosis` makes sentences of it, and `report` is what comes out. `sight` tells
//! a packet that passes several interfaces from one that was sent again. `ranges`, `series` and
//! `spread` hold numbers in bounded memory. `listing` gives segments one by one instead.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod analysis;
mod connection;
mod diagnosis;
mod direction;
mod fragments;
mod frame;
mod icmp;
mod kind;
mod layers;
mod listing;
mod mapped;
mod packed;
mod point;
mod ranges;
mod reader;
mod report;
mod series;
mod sight;
mod spread;
mod stream;
mod window;

pub use analysis::{analyse, analyse_one_end};
pub use listing::{Listed, segments};
pub use reader::Broken;
pub use report::{
    ConnectionReport, DataReport, DirectionReport, EndReport, FileReport, IcmpCount, IcmpReport, KindCount, Report, SubflowReport,
};
pub use series::SeriesReport;
pub use spread::SpreadReport;
