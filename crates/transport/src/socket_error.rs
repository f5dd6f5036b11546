//! What a program is told when its connection ends otherwise than by both ends' FINs (Linux:
//! `sk_err`).

/// Why a connection has ended.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum SocketError {
    /// A RST answered the SYN (Linux: `ECONNREFUSED`).
    Refused,
    /// A RST came, or a program took back a connection that had not come about
    /// (Linux: `ECONNRESET`).
    Reset,
    /// A RST came after the peer's FIN (Linux: `EPIPE`).
    BrokenPipe,
    /// The peer was silent for too long (Linux: `ETIMEDOUT`).
    TimedOut,
}
