//! What a script needs of an endpoint: IP packets in and out, the calls of a program, and time.

use crate::script::{Engine, Verb};
use polypath_base::Instant;

/// A packet that the endpoint has sent.
#[derive(Clone, Debug)]
pub struct Sent {
    pub at: Instant,
    /// From the IP header on.
    pub bytes: Vec<u8>,
}

/// A host with an endpoint, and the application on it. Time begins at zero and goes on in
/// [`Endpoint::wait`] alone.
///
/// The application reads at once whatever it can, unless the head says that it reads by call.
pub trait Endpoint {
    fn engine(&self) -> Engine;

    fn now(&self) -> Instant;

    /// Lets time pass until `until`; comes back at once when the endpoint sends a packet, which is
    /// handed out. Called for the present, it hands out what was sent already.
    ///
    /// # Errors
    /// A sentence, if the engine fails.
    fn wait(&mut self, until: Instant) -> Result<Option<Sent>, String>;

    /// A packet arrives.
    ///
    /// # Errors
    /// A sentence, if the engine fails or cannot take such a packet.
    fn inject(&mut self, bytes: &[u8]) -> Result<(), String>;

    /// The program calls the kernel. The value returned is the call's, or the name of the error.
    ///
    /// # Errors
    /// A sentence, if the engine cannot make such a call.
    fn call(&mut self, verb: &Verb) -> Result<Result<i64, String>, String>;

    /// A field of TCP_INFO of the newest connection; none if there is no connection.
    fn info(&mut self, field: &str) -> Option<u64>;
}
