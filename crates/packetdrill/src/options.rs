//! Socket options, and TCP_INFO.

use crate::program::{Errno, Program, TCP_FASTOPEN_CONNECT, TCP_INQ};
use polypath_testkit::Endpoint as _;
use polypath_testkit::script::{SocketOption, Verb};

/// Options that no packet shows, and what they are by default.
const REMEMBERED: [(i32, i32, i32); 7] = [
    (libc::SOL_TCP, TCP_FASTOPEN_CONNECT, 0),
    (libc::SOL_SOCKET, SO_ZEROCOPY, 0),
    (libc::SOL_TCP, TCP_INQ, 0),
    (libc::SOL_SOCKET, libc::SO_REUSEADDR, 0),
    (libc::SOL_SOCKET, libc::SO_REUSEPORT, 0),
    (libc::SOL_SOCKET, libc::SO_MARK, 0),
    (libc::SOL_IP, libc::IP_FREEBIND, 0),
];
/// `struct tcp_info` of Linux 6.12, field by field: its name and its bytes. The two that share a
/// byte are one here.
const TCP_INFO: [(&str, usize); 59] = [
    ("tcpi_state", 1),
    ("tcpi_ca_state", 1),
    ("tcpi_retransmits", 1),
    ("tcpi_probes", 1),
    ("tcpi_backoff", 1),
    ("tcpi_options", 1),
    ("wscales", 1),
    ("app_limited", 1),
    ("tcpi_rto", 4),
    ("tcpi_ato", 4),
    ("tcpi_snd_mss", 4),
    ("tcpi_rcv_mss", 4),
    ("tcpi_unacked", 4),
    ("tcpi_sacked", 4),
    ("tcpi_lost", 4),
    ("tcpi_retrans", 4),
    ("tcpi_fackets", 4),
    ("tcpi_last_data_sent", 4),
    ("tcpi_last_ack_sent", 4),
    ("tcpi_last_data_recv", 4),
    ("tcpi_last_ack_recv", 4),
    ("tcpi_pmtu", 4),
    ("tcpi_rcv_ssthresh", 4),
    ("tcpi_rtt", 4),
    ("tcpi_rttvar", 4),
    ("tcpi_snd_ssthresh", 4),
    ("tcpi_snd_cwnd", 4),
    ("tcpi_advmss", 4),
    ("tcpi_reordering", 4),
    ("tcpi_rcv_rtt", 4),
    ("tcpi_rcv_space", 4),
    ("tcpi_total_retrans", 4),
    ("tcpi_pacing_rate", 8),
    ("tcpi_max_pacing_rate", 8),
    ("tcpi_bytes_acked", 8),
    ("tcpi_bytes_received", 8),
    ("tcpi_segs_out", 4),
    ("tcpi_segs_in", 4),
    ("tcpi_notsent_bytes", 4),
    ("tcpi_min_rtt", 4),
    ("tcpi_data_segs_in", 4),
    ("tcpi_data_segs_out", 4),
    ("tcpi_delivery_rate", 8),
    ("tcpi_busy_time", 8),
    ("tcpi_rwnd_limited", 8),
    ("tcpi_sndbuf_limited", 8),
    ("tcpi_delivered", 4),
    ("tcpi_delivered_ce", 4),
    ("tcpi_bytes_sent", 8),
    ("tcpi_bytes_retrans", 8),
    ("tcpi_dsack_dups", 4),
    ("tcpi_reord_seen", 4),
    ("tcpi_rcv_ooopack", 4),
    ("tcpi_snd_wnd", 4),
    ("tcpi_rcv_wnd", 4),
    ("tcpi_rehash", 4),
    ("tcpi_total_rto", 2),
    ("tcpi_total_rto_recoveries", 2),
    ("tcpi_total_rto_time", 4),
];
/// Options of TCP that libc does not name.
const SO_ZEROCOPY: i32 = 60;
const TCP_FASTOPEN_KEY: i32 = 33;
const TCP_CC_INFO: i32 = 26;
const SO_MEMINFO: i32 = 55;
const TCP_NOTSENT_LOWAT: i32 = 25;
const TCP_RTO_MAX_MS: i32 = 44;

impl Program {
    pub(crate) fn set_option(&mut self, fd: i32, level: i32, name: i32, value: &[u8]) -> Result<i64, Errno> {
        let number = self.number(fd)?;
        let word = |at: usize| value.get(at..at + 4).map(|bytes| i32::from_ne_bytes(bytes.try_into().expect("four bytes")));
        if (level, name) == (libc::SOL_TCP, TCP_FASTOPEN_CONNECT) {
            self.set_up()?;
            if !self.host.has_fast_open_client() {
                return Err(Errno(libc::EOPNOTSUPP));
            }
        }
        if REMEMBERED.iter().any(|known| (known.0, known.1) == (level, name)) {
            self.socket_of(fd)?.remembered.insert((level, name), word(0).unwrap_or(0));
            return Ok(0);
        }
        if (level, name) == (libc::SOL_TCP, TCP_FASTOPEN_KEY) {
            let Ok(key) = value.try_into() else { return Err(Errno(libc::EINVAL)) };
            let told = self.host.set_fast_open_key(number, key);
            return told.map(|()| 0).map_err(|sentence| self.refuse(&sentence));
        }
        if [libc::SOL_IP, libc::SOL_IPV6].contains(&level) {
            return Err(self.refuse(&format!("the socket option {}", name_of(level, name))));
        }
        let Some(first) = word(0) else { return Err(Errno(libc::EINVAL)) };
        if (level, name) == (libc::SOL_TCP, libc::TCP_FASTOPEN) {
            let told = self.host.set_fast_open_queue(number, first.max(0).unsigned_abs());
            return told.map(|()| 0).map_err(|sentence| self.refuse(&sentence));
        }
        let (option, value) = match (level, name) {
            (libc::SOL_SOCKET, libc::SO_LINGER) => (SocketOption::Linger, if first == 0 { -1 } else { word(4).unwrap_or(0) }),
            (libc::SOL_SOCKET, libc::SO_RCVLOWAT) => (SocketOption::ReceiveLowWater, first),
            (libc::SOL_TCP, libc::TCP_USER_TIMEOUT) => (SocketOption::UserTimeout, first),
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => (SocketOption::SendBuffer, first),
            (libc::SOL_SOCKET, libc::SO_RCVBUF) => (SocketOption::ReceiveBuffer, first),
            (libc::SOL_TCP, libc::TCP_NODELAY) => (SocketOption::NoDelay, first),
            (libc::SOL_TCP, libc::TCP_CORK) => (SocketOption::Cork, first),
            (libc::SOL_TCP, libc::TCP_MAXSEG) => (SocketOption::MaxSegment, first),
            (libc::SOL_TCP, libc::TCP_SYNCNT) => (SocketOption::SynCount, first),
            (libc::SOL_TCP, TCP_NOTSENT_LOWAT) => (SocketOption::NotSentLowWater, first),
            (libc::SOL_TCP, TCP_RTO_MAX_MS) => (SocketOption::RtoMax, first),
            _ => return Err(self.refuse(&format!("the socket option {}", name_of(level, name)))),
        };
        self.socket_of(fd)?.remembered.insert((level, name), first);
        let told = self.host.call(&Verb::SetOption { fd: number, option, value });
        match told {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(name)) => Err(self.errno(&name)),
            Err(sentence) => Err(self.refuse(&sentence)),
        }
    }

    /// The value as it lies in memory.
    pub(crate) fn get_option(&mut self, fd: i32, level: i32, name: i32, room: usize) -> Result<Vec<u8>, Errno> {
        let number = self.number(fd)?;
        let word = |value: i32| Ok(value.to_ne_bytes().to_vec());
        if let Some((_, _, default)) = REMEMBERED.iter().find(|known| (known.0, known.1) == (level, name)) {
            return word(*self.socket_of(fd)?.remembered.get(&(level, name)).unwrap_or(default));
        }
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_ERROR) => {
                let errno = self.host.take_error(number).map_or(Errno(0), |name| self.errno(name));
                word(errno.0)
            }
            (libc::SOL_TCP, libc::TCP_INFO) => {
                let mut bytes = Vec::with_capacity(room);
                for (field, length) in TCP_INFO {
                    let value = self.host.info_of(number, field).unwrap_or(0);
                    bytes.extend_from_slice(&value.to_le_bytes()[..length]);
                }
                // Fields of later kernels are zero.
                bytes.resize(room, 0);
                Ok(bytes)
            }
            (libc::SOL_TCP, libc::TCP_MAXSEG) => {
                let asked = self.socket_of(fd)?.remembered.get(&(level, name)).copied();
                word(self.host.info_of(number, "tcpi_snd_mss").map_or(asked.unwrap_or(536), |mss| mss as i32))
            }
            (libc::SOL_TCP, TCP_NOTSENT_LOWAT) => word(*self.socket_of(fd)?.remembered.get(&(level, name)).unwrap_or(&0)),
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => word(self.host.send_buffer(number) as i32),
            // No congestion control tells of itself here.
            (libc::SOL_TCP, TCP_CC_INFO) => Ok(Vec::new()),
            (libc::SOL_SOCKET, SO_MEMINFO) => Ok(vec![0; room]),
            _ => Err(self.refuse(&format!("asking for the socket option {}", name_of(level, name)))),
        }
    }
}

/// An option as people call it.
fn name_of(level: i32, name: i32) -> String {
    const NAMES: [(i32, i32, &str); 24] = [
        (libc::SOL_SOCKET, libc::SO_SNDBUF, "SO_SNDBUF"),
        (libc::SOL_SOCKET, libc::SO_RCVBUF, "SO_RCVBUF"),
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE, "SO_KEEPALIVE"),
        (libc::SOL_SOCKET, libc::SO_TIMESTAMPING, "SO_TIMESTAMPING"),
        (libc::SOL_SOCKET, 60, "SO_ZEROCOPY"),
        (libc::SOL_SOCKET, libc::SO_RCVTIMEO, "SO_RCVTIMEO"),
        (libc::SOL_SOCKET, libc::SO_SNDTIMEO, "SO_SNDTIMEO"),
        (libc::SOL_TCP, libc::TCP_NODELAY, "TCP_NODELAY"),
        (libc::SOL_TCP, libc::TCP_CORK, "TCP_CORK"),
        (libc::SOL_TCP, libc::TCP_MAXSEG, "TCP_MAXSEG"),
        (libc::SOL_TCP, libc::TCP_KEEPIDLE, "TCP_KEEPIDLE"),
        (libc::SOL_TCP, libc::TCP_SYNCNT, "TCP_SYNCNT"),
        (libc::SOL_TCP, libc::TCP_FASTOPEN, "TCP_FASTOPEN"),
        (libc::SOL_TCP, 25, "TCP_NOTSENT_LOWAT"),
        (libc::SOL_TCP, 30, "TCP_FASTOPEN_CONNECT"),
        (libc::SOL_TCP, 33, "TCP_FASTOPEN_KEY"),
        (libc::SOL_TCP, 36, "TCP_INQ"),
        (libc::SOL_TCP, libc::TCP_MD5SIG, "TCP_MD5SIG"),
        (libc::SOL_TCP, libc::TCP_DEFER_ACCEPT, "TCP_DEFER_ACCEPT"),
        (libc::SOL_TCP, libc::TCP_WINDOW_CLAMP, "TCP_WINDOW_CLAMP"),
        (libc::SOL_TCP, libc::TCP_QUICKACK, "TCP_QUICKACK"),
        (libc::SOL_TCP, libc::TCP_CONGESTION, "TCP_CONGESTION"),
        (libc::SOL_IP, libc::IP_TOS, "IP_TOS"),
        (libc::SOL_IP, libc::IP_MTU_DISCOVER, "IP_MTU_DISCOVER"),
    ];
    let found = NAMES.iter().find(|known| (known.0, known.1) == (level, name));
    found.map_or_else(|| format!("{name} of the level {level}"), |(_, _, known)| (*known).to_owned())
}
