//! `setsockopt`: options that a program sets of a socket before it connects or listens, and of a
//! connection.

use super::{Conn, Handle, Host};
use crate::script::SocketOption;
use polypath_base::{Bytes, Duration};
use polypath_transport::{Connection, Settings};
use std::net::SocketAddrV4;

/// Bytes that SO_SNDBUF and SO_RCVBUF count at most (`net.core.wmem_max` and `rmem_max` by default),
/// and what a buffer has at least (Linux: `SOCK_MIN_SNDBUF`, `SOCK_MIN_RCVBUF`).
const BUFFER_MAX: i32 = 212_992;
const LEAST_SEND_BUFFER: u32 = 4608;
const LEAST_RECEIVE_BUFFER: u32 = 2304;

/// What a program has set of a socket before it connects or listens.
#[derive(Clone, Debug, Default)]
pub(super) struct SocketOptions {
    /// SO_RCVLOWAT.
    pub(super) receive_low_water: Option<Bytes>,
    /// SO_SNDBUF and SO_RCVBUF, as Linux keeps them.
    pub(super) send_buffer: Option<Bytes>,
    pub(super) receive_buffer: Option<Bytes>,
    /// TCP_MAXSEG.
    pub(super) max_segment: Option<Bytes>,
    /// TCP_SYNCNT.
    pub(super) syn_count: Option<u32>,
    /// TCP_NOTSENT_LOWAT.
    pub(super) notsent_low_water: Option<Bytes>,
    /// TCP_RTO_MAX_MS.
    pub(super) rto_max: Option<Duration>,
    /// TCP_FASTOPEN of a listening socket: connections that may wait; and TCP_FASTOPEN_KEY.
    pub(super) fast_open_queue: Option<u32>,
    pub(super) fast_open_key: Option<[u8; 16]>,
    /// TCP_NODELAY and TCP_CORK.
    pub(super) nodelay: bool,
    pub(super) corked: bool,
    /// Where it is bound.
    pub(super) local: Option<SocketAddrV4>,
}

impl SocketOptions {
    /// The host's settings with these.
    pub(super) fn settings(&self, host: &Settings) -> Settings {
        let mut settings = host.clone();
        if let Some(low_water) = self.receive_low_water {
            settings.receive_low_water = low_water;
        }
        if let Some(size) = self.send_buffer {
            settings.wmem = [size; 3];
        }
        if let Some(size) = self.receive_buffer {
            settings.rmem = [size; 3];
        }
        settings.max_segment = self.max_segment;
        settings.syn_retries = self.syn_count.unwrap_or(settings.syn_retries);
        settings.notsent_lowat = self.notsent_low_water.unwrap_or(settings.notsent_lowat);
        settings.rto_max = self.rto_max.unwrap_or(settings.rto_max);
        settings
    }
}

impl Conn {
    pub(super) fn set_user_timeout(&mut self, time: Duration) -> Result<(), String> {
        match &mut self.end {
            Connection::Tcp(socket) => socket.set_user_timeout(time),
            _ => return Err("MPTCP has no TCP_USER_TIMEOUT".to_owned()),
        }
        Ok(())
    }
}

impl Host {
    pub(super) fn set_option(&mut self, fd: i32, option: SocketOption, value: i32) -> Result<Result<i64, String>, String> {
        if option == SocketOption::UserTimeout {
            let time = Duration::from_millis(u64::from(value.max(0).unsigned_abs()));
            if let Some(Handle::Connection(i)) = self.sockets.get(&fd) {
                self.connections[*i].set_user_timeout(time)?;
            }
            self.user_timeouts.insert(fd, time);
            return Ok(Ok(0));
        }
        if option == SocketOption::RtoMax {
            let is_mptcp = match self.sockets.get(&fd) {
                Some(Handle::Fresh { mptcp, .. } | Handle::Listener { mptcp, .. }) => *mptcp,
                Some(Handle::Connection(i)) => self.connections[*i].is_mptcp(),
                None => return Err(format!("{fd} is no socket")),
            };
            // Linux: `mptcp_supported_sockopt`, `do_tcp_setsockopt`.
            if is_mptcp || !self.settings.stack.sets_rto_max {
                return Ok(Err("ENOPROTOOPT".to_owned()));
            }
            if !(1000..=120_000).contains(&value) {
                return Ok(Err("EINVAL".to_owned()));
            }
        }
        match option {
            SocketOption::ReuseAddr => return Ok(Ok(0)),
            SocketOption::Linger if value > 0 => return Err("our programs do not block in close".to_owned()),
            SocketOption::Linger if value == 0 => drop(self.linger_not.insert(fd)),
            SocketOption::Linger => drop(self.linger_not.remove(&fd)),
            _ => return self.set_own_option(fd, option, value),
        }
        Ok(Ok(0))
    }

    /// Options of a connection, or of those to come.
    fn set_own_option(&mut self, fd: i32, option: SocketOption, value: i32) -> Result<Result<i64, String>, String> {
        let bytes = Bytes::from_u32(value.max(0).unsigned_abs());
        let time = Duration::from_millis(u64::from(value.max(0).unsigned_abs()));
        // Linux doubles what a program asks for, up to net.core's maxima, which are not modelled:
        // those are 212992 bytes (`sock_setsockopt`).
        let doubled = |least: u32| Bytes::from_u32((value.clamp(0, BUFFER_MAX).unsigned_abs() * 2).max(least));
        let (sndbuf, rcvbuf) = (doubled(LEAST_SEND_BUFFER), doubled(LEAST_RECEIVE_BUFFER));
        match self.sockets.get_mut(&fd) {
            Some(Handle::Fresh { options, .. } | Handle::Listener { options, .. }) => match option {
                SocketOption::ReceiveLowWater => options.receive_low_water = Some(bytes.max(Bytes::new(1))),
                SocketOption::SendBuffer => options.send_buffer = Some(sndbuf),
                SocketOption::ReceiveBuffer => options.receive_buffer = Some(rcvbuf),
                SocketOption::MaxSegment => options.max_segment = (value > 0).then_some(bytes),
                SocketOption::SynCount => options.syn_count = Some(value.max(1).unsigned_abs()),
                SocketOption::NotSentLowWater => options.notsent_low_water = Some(bytes),
                SocketOption::RtoMax => options.rto_max = Some(time),
                SocketOption::NoDelay => options.nodelay = value != 0,
                SocketOption::Cork => options.corked = value != 0,
                _ => return Err(format!("our endpoints have no socket option {option:?} here")),
            },
            Some(Handle::Connection(i)) => match (&mut self.connections[*i].end, option) {
                (Connection::Tcp(socket), SocketOption::SendBuffer) => socket.set_sndbuf(sndbuf),
                (Connection::Tcp(socket), SocketOption::SynCount) => socket.set_syn_retries(value.max(1).unsigned_abs()),
                (Connection::Tcp(socket), SocketOption::NotSentLowWater) => socket.set_notsent_lowat(bytes),
                (Connection::Tcp(socket), SocketOption::RtoMax) => socket.set_rto_max(time),
                (Connection::Tcp(socket), SocketOption::NoDelay) => socket.set_nodelay(value != 0),
                (Connection::Tcp(socket), SocketOption::Cork) => socket.set_corked(value != 0),
                _ => return Err(format!("our endpoints have no socket option {option:?} here")),
            },
            None => return Err(format!("{fd} is no socket")),
        }
        Ok(Ok(0))
    }
}
