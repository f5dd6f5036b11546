//! What the kernel says about the TCP sockets of a namespace (socket diagnostics).

use crate::sys::{Error, Outcome};
use polypath_io::netlink::{self, DUMP, Message, Netlink};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A TCP socket, a subflow of MPTCP or not.
#[derive(Clone, Debug)]
pub struct Seen {
    pub source: SocketAddr,
    pub destination: SocketAddr,
    pub state: u32,
    pub cc: String,
    /// MPTCP_SUBFLOW_FLAG_*, 0 for TCP.
    pub flags: u32,
    /// By what this host knows the MPTCP connection; None for TCP, and where the kernel does not
    /// tell.
    pub token: Option<u32>,
    /// MPTCP's numbers of the addresses at this end and at the other one, 0 for TCP.
    pub ids: (u8, u8),
    /// The kernel's tcp_info, as long as this kernel's is.
    pub tcp_info: Vec<u8>,
}

/// The sockets of a network namespace, for a program that watches them.
#[derive(Debug)]
pub struct Diagnostics(Netlink);

impl Diagnostics {
    /// Of the calling thread's namespace, for ever.
    pub fn open() -> Outcome<Self> {
        Netlink::open(libc::NETLINK_SOCK_DIAG).map(Self)
    }

    /// All TCP sockets that neither listen nor wait out their time, of both families.
    pub fn dump(&mut self) -> Outcome<Vec<Seen>> {
        let mut found = Vec::new();
        for family in [libc::AF_INET, libc::AF_INET6] {
            match sockets(&mut self.0, family as u8, |seen| found.push(seen)) {
                // A kernel without IPv6 has no such sockets.
                Err(_) if family == libc::AF_INET6 => {}
                asked => asked.map_err(|e| Error::machine(format!("socket diagnostics: {e}")))?,
            }
        }
        Ok(found)
    }
}

pub(crate) const ESTABLISHED: u32 = 1;
pub(crate) const SYN_RECEIVED: u32 = 3;
/// MPTCP_SUBFLOW_FLAG_MCAP_REM: the peer agreed to MPTCP.
pub(crate) const FLAG_CAPABLE: u32 = 1;
/// MPTCP_SUBFLOW_FLAG_JOIN_REM and _LOC.
pub(crate) const FLAG_JOIN: u32 = 4 | 8;

/// Hands each TCP socket of the socket's namespace to `each`: those of one family (AF_INET,
/// AF_INET6) that neither listen nor wait out their time.
pub(crate) fn sockets(netlink: &mut Netlink, family: u8, mut each: impl FnMut(Seen)) -> Outcome<()> {
    const SOCK_DIAG_BY_FAMILY: u16 = 20;
    const TIME_WAIT: u32 = 6;
    const LISTEN: u32 = 10;
    const INFO: u16 = 2;
    const CONGESTION: u16 = 4;
    // struct inet_diag_req_v2: family, protocol, extensions, padding, states, an empty socket id.
    let mut question = [0; 56];
    question[0] = family;
    question[1] = libc::IPPROTO_TCP as u8;
    question[2] = 1 << (INFO - 1) | 1 << (CONGESTION - 1);
    question[4..8].copy_from_slice(&(!(1_u32 << LISTEN | 1 << TIME_WAIT)).to_ne_bytes());
    netlink.ask(Message::new(SOCK_DIAG_BY_FAMILY, DUMP, &question), |part| {
        if let Some(seen) = parse(part.body) {
            each(seen);
        }
    })
}

/// struct inet_diag_msg and its attributes.
fn parse(body: &[u8]) -> Option<Seen> {
    const HEAD: usize = 72;
    const INFO: u16 = 2;
    const CONGESTION: u16 = 4;
    const ULP_INFO: u16 = 19;
    const ULP_INFO_MPTCP: u16 = 3;
    const SUBFLOW_TOKEN_LOCAL: u16 = 2;
    const SUBFLOW_FLAGS: u16 = 8;
    const SUBFLOW_ID_REMOTE: u16 = 9;
    const SUBFLOW_ID_LOCAL: u16 = 10;
    let rest = body.get(HEAD..)?;
    let address = |at: usize| match i32::from(body[0]) {
        libc::AF_INET => Some(IpAddr::from(Ipv4Addr::from(*body[at..].first_chunk::<4>()?))),
        libc::AF_INET6 => Some(IpAddr::from(Ipv6Addr::from(*body[at..].first_chunk::<16>()?))),
        _ => None,
    };
    let port = |at: usize| u16::from_be_bytes([body[at], body[at + 1]]);
    let mut seen = Seen {
        source: SocketAddr::new(address(8)?, port(4)),
        destination: SocketAddr::new(address(24)?, port(6)),
        state: u32::from(body[1]),
        cc: String::new(),
        flags: 0,
        token: None,
        ids: (0, 0),
        tcp_info: Vec::new(),
    };
    for (kind, value) in netlink::attributes(rest) {
        match kind {
            INFO => seen.tcp_info = value.to_vec(),
            CONGESTION => seen.cc = String::from_utf8_lossy(value.split(|&c| c == 0).next().unwrap_or_default()).into_owned(),
            ULP_INFO => {
                let Some(mptcp) = netlink::attribute(value, ULP_INFO_MPTCP) else { continue };
                let id = |kind| netlink::attribute(mptcp, kind).and_then(|value| value.first().copied()).unwrap_or(0);
                seen.flags = netlink::attribute(mptcp, SUBFLOW_FLAGS).map_or(0, |value| netlink::word(value, 0));
                seen.token = netlink::attribute(mptcp, SUBFLOW_TOKEN_LOCAL).map(|value| netlink::word(value, 0));
                seen.ids = (id(SUBFLOW_ID_LOCAL), id(SUBFLOW_ID_REMOTE));
            }
            _ => {}
        }
    }
    Some(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_of_this_host_is_seen_from_both_ends() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let here = std::net::TcpStream::connect(listener.local_addr().expect("it is bound")).expect("somebody listens");
        let (_there, peer) = listener.accept().expect("it has connected");
        let seen = Diagnostics::open().and_then(|mut diagnostics| diagnostics.dump()).expect("every kernel that runs this has them");
        let server = here.peer_addr().expect("it is connected");
        let ends = |source, destination| seen.iter().filter(move |s| (s.source, s.destination) == (source, destination));
        for (source, destination) in [(peer, server), (server, peer)] {
            let found: Vec<&Seen> = ends(source, destination).collect();
            assert_eq!(found.len(), 1);
            // An ordinary socket has no token; tcp_info reaches at least to the counters of Linux
            // 5.6.
            assert_eq!((found[0].state, found[0].token, found[0].tcp_info.len() >= 232), (ESTABLISHED, None, true));
        }
    }

    #[test]
    fn a_subflow_is_read_with_its_flags() {
        let mut head = [0; 72];
        head[0] = libc::AF_INET as u8;
        head[1] = 1;
        head[4..8].copy_from_slice(&[0x9c, 0x40, 0x14, 0x51]);
        head[8..12].copy_from_slice(&[10, 11, 1, 1]);
        head[24..28].copy_from_slice(&[10, 9, 0, 1]);
        let message = Message::new(20, 0, &head).put(2, &[1, 2, 3, 4]).put_text(4, "cubic");
        let message = message.nest(19, &[], |m| {
            m.put_text(1, "mptcp").nest_flagged(3, |m| m.put_u32(1, 7).put_u32(2, 0xfeed).put_u32(8, 0x43).put_u8(9, 3).put_u8(10, 2))
        });
        let seen = parse(message.body()).expect("the message is whole");
        assert_eq!((seen.source.to_string(), seen.destination.to_string()), ("10.11.1.1:40000".into(), "10.9.0.1:5201".into()));
        assert_eq!((seen.state, seen.cc.as_str(), seen.flags, seen.tcp_info), (ESTABLISHED, "cubic", 0x43, vec![1, 2, 3, 4]));
        assert_eq!((seen.token, seen.ids), (Some(0xfeed), (2, 3)));
        assert!(parse(&message.body()[..60]).is_none());
    }
}
