//! Time, rate, bytes and seeded random streams: the words every other crate speaks.
//!
//! Nothing here reads a clock or a global generator; time and chance come in as arguments.
#![forbid(unsafe_code)]

mod rate;
mod stream;
mod time;

pub use rate::{Bytes, Rate};
pub use stream::Stream;
pub use time::{Duration, Instant};
