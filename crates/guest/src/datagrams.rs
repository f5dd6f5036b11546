//! The two ends of a stream of datagrams: a thread sends at a rate, a thread notes what arrives and
//! when.

use crate::address::ip;
use crate::network::Network;
use crate::plan::{App, Flow};
use crate::progress::{DATAGRAM_HEAD, EndState, Progress, lock, spawn};
use crate::sys::{self, Error, Outcome};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

/// Datagrams read with one call at most.
const BATCH: usize = 16;
/// A datagram that leaves later than this is counted: the machine had more to do than there was
/// time, and the stream has another shape.
const LATE_NS: u64 = 1_000_000;

/// Both sockets, each in its namespace, connected to one another.
#[derive(Debug)]
pub(crate) struct Sockets {
    client: OwnedFd,
    server: OwnedFd,
}

impl Sockets {
    pub(crate) fn open(flow: &Flow, network: &Network) -> Outcome<Self> {
        /// No Don't Fragment: routers may split, as they may a datagram of any program that does
        /// not ask for more.
        const IP_PMTUDISC_DONT: i32 = 0;
        let (client_address, server_address) = (ip(&flow.client_address)?, ip(&flow.server_address)?);
        let family = if server_address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        let open = |namespace: &str, address: SocketAddr| {
            sys::enter_network(&network.namespaces[network.number(namespace)?].file)?;
            let socket = sys::socket(family, libc::SOCK_DGRAM, 0)?;
            sys::bind(&socket, address)?;
            Ok::<_, Error>(socket)
        };
        let server_at = SocketAddr::new(server_address, flow.port);
        let server = open(&flow.server, server_at)?;
        let client = open(&flow.client, SocketAddr::new(client_address, 0))?;
        sys::connect(&client, server_at)?;
        if server_address.is_ipv4() {
            sys::set_option(&client, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, IP_PMTUDISC_DONT)?;
        }
        Ok(Self { client, server })
    }

    /// Starts both ends; the run's time 0 is `origin` on the machine's clock.
    pub(crate) fn start(self, flow: Flow, progress: Arc<Mutex<Progress>>, origin: u64) -> Outcome<()> {
        let (server, noted) = (self.server, progress.clone());
        let payload = u64::from(flow.datagram_bytes);
        spawn(move || receive(&server, payload, &noted, origin))?;
        spawn(move || {
            let sent = Sender { flow: &flow, socket: &self.client, progress: &progress, origin, sent: 0, late: 0 }.run();
            let mut progress = lock(&progress);
            progress.client = EndState { socket: None, ended: true };
            if let Err(wrong) = sent {
                progress.result.error.get_or_insert(wrong.to_string());
            }
        })
    }
}

/// Notes what arrives until the run ends: a receiver of datagrams never knows whether another one
/// comes.
fn receive(socket: &OwnedFd, payload: u64, progress: &Mutex<Progress>, origin: u64) {
    let mut buffers: [Vec<u8>; BATCH] = std::array::from_fn(|_| vec![0; DATAGRAM_HEAD]);
    let mut total = 0;
    loop {
        let got = match polypath_io::receive_many(socket, &mut buffers) {
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return,
            Ok((lengths, count)) => lengths.into_iter().zip(&buffers).take(count),
        };
        let now = sys::monotonic().saturating_sub(origin);
        let mut progress = lock(progress);
        progress.result.accepted_ns.get_or_insert(now);
        for (length, bytes) in got.filter(|(length, _)| *length >= DATAGRAM_HEAD) {
            debug_assert_eq!(length, bytes.len(), "the rest of a datagram is not read");
            total += payload;
            progress.note_datagram(now, bytes);
        }
        progress.note_read(now, total);
    }
}

struct Sender<'a> {
    flow: &'a Flow,
    socket: &'a OwnedFd,
    progress: &'a Mutex<Progress>,
    origin: u64,
    sent: u64,
    late: u64,
}

impl Sender<'_> {
    /// Bursts, each from where the last one should have ended; the n-th datagram of one leaves n
    /// datagrams' time into it.
    fn run(&mut self) -> Outcome<()> {
        let App::OnOff { on_ns, off_ns, duration_ns, bits_per_s: Some(bits) } = self.flow.app else {
            return Err(Error::caller("datagrams are sent by an application at a rate"));
        };
        let mut datagram = vec![0; self.flow.datagram_bytes as usize];
        let mut begin = self.flow.start_ns;
        let end = begin + duration_ns;
        lock(self.progress).result.connected_ns = Some(begin);
        while begin < end {
            let until = (begin + on_ns).min(end);
            for number in 0_u64.. {
                let into = u128::from(number) * u128::from(self.flow.datagram_bytes) * 8_000_000_000 / u128::from(bits);
                let at = begin + into as u64;
                if at >= until {
                    break;
                }
                sys::sleep_until(self.origin + at);
                self.send(at, &mut datagram)?;
            }
            begin = until + off_ns;
        }
        Ok(())
    }

    fn send(&mut self, due: u64, datagram: &mut [u8]) -> Outcome<()> {
        let now = sys::monotonic().saturating_sub(self.origin);
        datagram[..8].copy_from_slice(&self.sent.to_le_bytes());
        datagram[8..DATAGRAM_HEAD].copy_from_slice(&now.to_le_bytes());
        self.sent += 1;
        self.late += u64::from(now > due + LATE_NS);
        match sys::send(self.socket, datagram) {
            Ok(_) => {}
            // A full device, or a peer that said it was not there: the datagram is lost, and the
            // next one may not be.
            Err(e) if matches!(e.raw_os_error(), Some(libc::ENOBUFS | libc::ECONNREFUSED | libc::EHOSTUNREACH)) => {}
            Err(e) => return Err(Error::machine(format!("send: {e}"))),
        }
        let mut progress = lock(self.progress);
        (progress.result.datagrams_sent, progress.result.datagrams_late) = (self.sent, self.late);
        progress.note_written(now, self.sent * datagram.len() as u64);
        Ok(())
    }
}
