//! Loss recovery: parts that a socket tells what ACKs bring and asks what follows, none of which
//! knows a segment.

mod prr;
mod rack;
mod state;
mod tlp;
mod undo;

pub(super) use prr::{Delivered, Prr};
pub(super) use rack::Rack;
pub(super) use state::LossState;
pub(super) use tlp::{Tlp, TlpAck, TlpVerdict};
pub(super) use undo::Undo;
