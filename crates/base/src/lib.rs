//! Time, rate, amounts, sequence numbers, paths, seeded random streams and errors: the words every
//! other crate speaks.
//!
//! Nothing here reads a clock or a global generator; time and chance come in as arguments.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod columns;
mod error;
mod path;
mod rate;
mod rng;
mod seq;
mod time;

pub use columns::{Column, Countable, Unit, Values};
pub use error::{Error, ErrorKind};
pub use path::PathId;
pub use rate::{Bytes, Rate, Segments};
pub use rng::{Rng, SmallRng};
pub use seq::{DataSeq, Seq};
pub use time::{Duration, Instant, SmoothedRtt};
