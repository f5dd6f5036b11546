//! What a program that stands outside asks of the host's sockets, beyond the calls of a script:
//! whoever drives it decides which calls wait.

use super::fast_open::FastOpen;
use super::{Conn, Handle, Host, info_of, name_of, settings_of};
use polypath_base::{Bytes, Duration, Instant};
use polypath_transport::{Connection, SocketError};
use std::net::{Ipv4Addr, SocketAddrV4};

/// How far a connecting socket is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Connecting {
    /// It has neither connected nor listened.
    Fresh,
    Listens,
    /// Its SYN is not answered.
    InProgress,
    Established,
    Over,
}

/// What poll would tell of a socket.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// Bytes that wait to be read, or a connection that waits to be accepted.
    pub readable: bool,
    pub writable: bool,
    pub has_error: bool,
    /// The peer sends no more, or this end reads no more.
    pub read_closed: bool,
    /// Neither end sends any more.
    pub hung_up: bool,
    /// Bytes that have come so far, for who is told of news alone.
    pub arrived: u64,
}

impl Host {
    /// The program that reads at once asks whether it can.
    pub(super) fn poll_readiness(&mut self) {
        if !self.reads_by_call {
            let asks = |c: &&mut Conn| c.waits_at.is_none() && !c.finished && !c.end.peer_finished();
            self.connections.iter_mut().filter(asks).for_each(|c| c.end.poll_readiness());
        }
    }

    /// Sysctls by their whole names, of which sockets from now on have the values, and listening
    /// ones for connections to come.
    ///
    /// # Errors
    /// A sentence about one that is not modelled.
    pub fn set_sysctls(&mut self, sysctls: &[(String, String)]) -> Result<(), String> {
        let (own, others): (Vec<_>, Vec<_>) = sysctls.iter().cloned().partition(|(name, _)| name.starts_with("net.ipv4.tcp_fastopen"));
        (self.algorithm, self.settings) = settings_of(&others, self.settings.stack)?;
        for (name, value) in own {
            let wrong = || format!("{name} = {value} means nothing");
            match name.as_str() {
                "net.ipv4.tcp_fastopen" => {
                    let digits = value.strip_prefix("0x");
                    let bits = digits.map_or_else(|| value.parse().ok(), |digits| u32::from_str_radix(digits, 16).ok());
                    self.fast_open.bits = bits.ok_or_else(wrong)?;
                }
                "net.ipv4.tcp_fastopen_key" => self.fast_open.key = FastOpen::key_of(&value).ok_or_else(wrong)?,
                _ => return Err(format!("{name} is not modelled")),
            }
        }
        Ok(())
    }

    /// The address from which connections leave that no program has bound.
    pub fn set_address(&mut self, address: Ipv4Addr) {
        self.addresses[0] = address;
    }

    /// The addresses beside the first one that connections from now on have and, as servers,
    /// announce.
    pub fn set_announced(&mut self, addresses: &[Ipv4Addr]) {
        self.addresses.truncate(1);
        self.addresses.extend_from_slice(addresses);
    }

    /// When something is due by itself, after the script's beginning.
    pub fn next_due(&self) -> Instant {
        let due = self.connections.iter().map(|c| c.end.poll_timeout()).min().unwrap_or(Instant::NEVER);
        if due == Instant::NEVER { due } else { Instant::ZERO + due.since(Instant::ZERO + super::BEGINNING) }
    }

    /// `bind`.
    ///
    /// # Errors
    /// A sentence, if it is not a fresh socket.
    pub fn bind(&mut self, fd: i32, local: SocketAddrV4) -> Result<(), String> {
        match self.sockets.get_mut(&fd) {
            Some(Handle::Fresh { options, .. }) => options.local = Some(local),
            _ => return Err(format!("{fd} is no fresh socket")),
        }
        Ok(())
    }

    /// Where a socket listens.
    pub fn listens_at(&self, fd: i32) -> Option<SocketAddrV4> {
        match self.sockets.get(&fd)? {
            Handle::Listener { options, .. } => options.local,
            _ => None,
        }
    }

    /// TCP_FASTOPEN: so many connections of a listening socket may wait that data has opened.
    ///
    /// # Errors
    /// A sentence, if it can listen no more.
    pub fn set_fast_open_queue(&mut self, fd: i32, most: u32) -> Result<(), String> {
        self.options_of(fd)?.fast_open_queue = Some(most);
        Ok(())
    }

    /// TCP_FASTOPEN_KEY.
    ///
    /// # Errors
    /// A sentence, if it can listen no more.
    pub fn set_fast_open_key(&mut self, fd: i32, key: [u8; 16]) -> Result<(), String> {
        self.options_of(fd)?.fast_open_key = Some(key);
        Ok(())
    }

    fn options_of(&mut self, fd: i32) -> Result<&mut super::SocketOptions, String> {
        match self.sockets.get_mut(&fd) {
            Some(Handle::Fresh { options, .. } | Handle::Listener { options, .. }) => Ok(options),
            _ => Err("our endpoints take no TCP_FASTOPEN of a connection".to_owned()),
        }
    }

    /// Whether the data of the SYN counts.
    pub fn has_syn_data(&self, fd: i32) -> bool {
        self.at(fd).is_some_and(Conn::has_syn_data)
    }

    /// `connect`, which does not wait.
    ///
    /// # Errors
    /// A sentence, if it is not a fresh socket.
    pub fn begin_connecting(&mut self, fd: i32, peer: SocketAddrV4) -> Result<(), String> {
        let _in_progress = self.connect_to(fd, peer, None)?;
        self.transmit()
    }

    /// `sendto` with MSG_FASTOPEN, which does not wait: how much the SYN has taken.
    ///
    /// # Errors
    /// The name of the error, or a sentence if it is not a fresh socket.
    pub fn begin_fast_open(&mut self, fd: i32, peer: SocketAddrV4, len: u64) -> Result<Result<i64, String>, String> {
        let told = self.connect_to(fd, peer, Some(len))?;
        self.transmit()?;
        Ok(told)
    }

    /// A `connect` of TCP_FASTOPEN_CONNECT may wait for data.
    pub fn has_fast_open_cookie(&self, peer: SocketAddrV4) -> bool {
        let known = self.known_servers.get(peer.ip()).is_some_and(super::Known::has_cookie);
        self.fast_open.client().is_some_and(|without_cookie| known || without_cookie)
    }

    /// `tcp_fastopen` lets a client take part.
    pub fn has_fast_open_client(&self) -> bool {
        self.fast_open.client().is_some()
    }

    /// `ip tcp_metrics flush all`.
    pub fn forget_servers(&mut self) {
        self.known_servers.clear();
    }

    /// How far a socket is.
    pub fn connecting(&self, fd: i32) -> Connecting {
        match self.sockets.get(&fd) {
            Some(Handle::Listener { .. }) => Connecting::Listens,
            Some(Handle::Connection(i)) => {
                let end = &self.connections[*i].end;
                match (end.has_ended(), end.established_at()) {
                    (true, _) => Connecting::Over,
                    (false, None) => Connecting::InProgress,
                    (false, Some(_)) => Connecting::Established,
                }
            }
            _ => Connecting::Fresh,
        }
    }

    /// The peer's address.
    pub fn peer_of(&self, fd: i32) -> Option<SocketAddrV4> {
        self.at(fd).map(|connection| connection.paths[0].1)
    }

    /// What the program says of its next write: more follows (MSG_MORE), or a record ends with it
    /// (MSG_EOR).
    ///
    /// # Errors
    /// A sentence, if it is no connection of plain TCP.
    pub fn announce_write(&mut self, fd: i32, more: bool, ends_record: bool) -> Result<(), String> {
        match &mut self.connection(fd)?.end {
            Connection::Tcp(socket) => socket.announce_write(more, ends_record),
            _ if more || ends_record => return Err("MPTCP has neither MSG_MORE nor MSG_EOR".to_owned()),
            _ => {}
        }
        Ok(())
    }

    /// A `write` that waits: how much has been taken in all once it is over.
    ///
    /// # Errors
    /// The name of the socket's error, or a sentence.
    pub fn begin_writing(&mut self, fd: i32, len: u64) -> Result<Result<u64, String>, String> {
        let now = self.now;
        let connection = self.connection(fd)?;
        if connection.sends_no_more || connection.end.has_ended() {
            return Ok(Err(connection.end.take_error().map_or("EPIPE", name_of).to_owned()));
        }
        let until = connection.end.accepted().get() + len;
        connection.end.offer(now, Bytes::new(len));
        self.transmit()?;
        Ok(Ok(until))
    }

    /// The waiting `write` gives up what was not taken.
    ///
    /// # Errors
    /// A sentence, if it is no connection.
    pub fn stop_writing(&mut self, fd: i32) -> Result<(), String> {
        let now = self.now;
        self.connection(fd)?.end.stop(now);
        Ok(())
    }

    /// Bytes that writes have had taken so far.
    pub fn written(&self, fd: i32) -> u64 {
        self.at(fd).map_or(0, |connection| connection.end.accepted().get())
    }

    /// Of those, bytes that the peer has acknowledged.
    pub fn acked(&self, fd: i32) -> u64 {
        self.at(fd).map_or(0, |connection| connection.end.subflow(0).counters.bytes_acked)
    }

    /// SO_ERROR: what the program has not been told.
    pub fn take_error(&mut self, fd: i32) -> Option<&'static str> {
        self.connection(fd).ok()?.end.take_error().map(name_of)
    }

    /// What poll would tell.
    pub fn readiness(&self, fd: i32) -> Readiness {
        match self.sockets.get(&fd) {
            Some(Handle::Listener { .. }) => {
                let waits = |c: &Conn| c.waits_at == Some(fd) && c.end.established_at().is_some();
                Readiness { readable: self.connections.iter().any(waits), ..Readiness::default() }
            }
            Some(Handle::Connection(i)) => self.connections[*i].readiness(),
            // Linux: a socket that is closed and has never been connected.
            _ => Readiness { writable: true, hung_up: true, ..Readiness::default() },
        }
    }

    /// A field of TCP_INFO of a socket's connection.
    pub fn info_of(&self, fd: i32, field: &str) -> Option<u64> {
        match self.sockets.get(&fd)? {
            Handle::Connection(i) if field == "tcpi_options" => {
                // TCPI_OPT_TIMESTAMPS, SACK, WSCALE and ECN are the first bits, SYN_DATA is 32.
                let agreed = self.tcp(fd)?.agreed().iter().enumerate().fold(0, |bits, (bit, agreed)| bits | u64::from(*agreed) << bit);
                Some(agreed | u64::from(self.connections[*i].has_syn_data()) << 5)
            }
            Handle::Connection(_) if matches!(field, "tcpi_rwnd_limited" | "tcpi_sndbuf_limited") => {
                let times = self.limited(fd);
                let time = if field == "tcpi_rwnd_limited" { times.window } else { times.buffer };
                // Linux counts them in jiffies.
                let tick = self.settings.tick.as_micros().max(1);
                Some(time.as_micros() / tick * tick)
            }
            Handle::Connection(_) if field == "tcpi_last_data_recv" => {
                Some(self.now.since(self.tcp(fd)?.last_data_received()?).as_micros() / 1000)
            }
            Handle::Connection(i) => info_of(&self.connections[*i].end, field),
            Handle::Listener { .. } if field == "tcpi_state" => Some(10),
            Handle::Fresh { .. } if field == "tcpi_state" => Some(7),
            _ => None,
        }
    }

    /// Bytes that wait to be read (SIOCINQ).
    pub fn unread(&self, fd: i32) -> u64 {
        self.at(fd).map_or(0, |connection| connection.end.unread().get())
    }

    /// SO_SNDBUF, bytes.
    pub fn send_buffer(&self, fd: i32) -> u64 {
        match self.sockets.get(&fd) {
            Some(Handle::Fresh { options, .. } | Handle::Listener { options, .. }) => options.settings(&self.settings).wmem[1].get(),
            _ => self.tcp(fd).map_or(0, |socket| socket.sender().sndbuf().get()),
        }
    }

    /// The plain TCP connection of a socket.
    pub fn tcp(&self, fd: i32) -> Option<&polypath_transport::tcp::Socket> {
        match &self.at(fd)?.end {
            Connection::Tcp(socket) => Some(socket),
            _ => None,
        }
    }

    /// What has held the sender up, and when it is.
    pub fn limited(&self, fd: i32) -> polypath_transport::tcp::LimitedTimes {
        self.at(fd).map(|connection| connection.end.limited(self.now)).unwrap_or_default()
    }

    /// How long ago something was, at the host.
    pub fn since(&self, then: Instant) -> Duration {
        self.now.since(then)
    }

    fn at(&self, fd: i32) -> Option<&Conn> {
        match self.sockets.get(&fd) {
            Some(Handle::Connection(i)) => Some(&self.connections[*i]),
            _ => None,
        }
    }
}

impl Conn {
    /// The data of the SYN counts, at either end.
    fn has_syn_data(&self) -> bool {
        self.has_syn_data || matches!(&self.end, Connection::Tcp(socket) if socket.has_syn_data_acked())
    }

    fn readiness(&self) -> Readiness {
        let end = &self.end;
        let read_closed = end.peer_finished() || end.has_ended() || self.finished;
        let established = end.established_at().is_some();
        Readiness {
            readable: (established || end.has_ended()) && (end.unread() >= Bytes::new(1) || read_closed),
            writable: end.has_ended() || self.sends_no_more || (established && end.takes_writes()),
            has_error: end.error().is_some_and(|error: SocketError| !name_of(error).is_empty()),
            read_closed,
            hung_up: end.has_ended() || (read_closed && self.sends_no_more),
            arrived: end.subflow(0).bytes_received.get() + u64::from(end.peer_finished()),
        }
    }
}
