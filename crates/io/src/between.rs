//! What the network between two namespaces carries, measured with plain sockets.

use crate::{Clock, Failed, Namespace, UdpReceiver, UdpSender};
use polypath_base::{Duration, Instant};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How long a receiver waits for what is still under way.
pub const TAIL: std::time::Duration = std::time::Duration::from_millis(200);
/// Steps of the search for the highest rate without loss.
const HALVINGS: u32 = 6;

/// Two namespaces, and how long each measurement lasts. Addresses are the server's.
#[derive(Debug)]
pub struct Between<'a> {
    /// It sends.
    pub client: &'a Namespace,
    /// It receives.
    pub server: &'a Namespace,
    /// What time is measured by.
    pub clock: Clock,
    /// Of one measurement.
    pub each: Duration,
}

/// What came of sending at some rate.
#[derive(Copy, Clone, Debug)]
pub struct Sent {
    /// Datagrams.
    pub sent_per_s: f64,
    /// Datagrams.
    pub received_per_s: f64,
    /// Datagrams.
    pub lost: u64,
}

impl Between<'_> {
    /// Sends datagrams at a rate, packets/s.
    pub fn udp(&self, at: SocketAddr, payload: usize, rate: f64) -> Result<Sent, Failed> {
        let receiver = self.server.inside(|| UdpReceiver::new(at, TAIL))?;
        let mut sender = self.client.inside(|| UdpSender::new(at, payload))?;
        let (done, received, last) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
        let begin = self.clock.now();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| -> Result<(), Failed> {
                loop {
                    match receiver.count()? {
                        0 if done.load(Ordering::Relaxed) => return Ok(()),
                        0 => {}
                        count => {
                            received.fetch_add(count as u64, Ordering::Relaxed);
                            last.store(self.clock.now().as_nanos(), Ordering::Relaxed);
                        }
                    }
                }
            });
            let mut sent = 0_u64;
            let outcome = loop {
                let spent = self.clock.now().since(begin);
                if spent >= self.each {
                    break Ok(spent);
                }
                // What is due by now; a rate without end is always due.
                let due = (rate * spent.as_secs_f64()).min(sent as f64 + 1e6) as u64;
                match sender.send_many(due.saturating_sub(sent) as usize) {
                    _ if due <= sent => std::hint::spin_loop(),
                    Ok(count) => sent += count as u64,
                    Err(failed) => break Err(failed),
                }
            };
            done.store(true, Ordering::Relaxed);
            reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            let spent = outcome?.as_secs_f64();
            let received = received.load(Ordering::Relaxed);
            let received_in = Instant::from_nanos(last.load(Ordering::Relaxed)).since(begin).as_secs_f64().max(spent);
            let lost = sent.saturating_sub(received);
            Ok(Sent { sent_per_s: sent as f64 / spent, received_per_s: received as f64 / received_in, lost })
        })
    }

    /// The highest rate at which nothing is lost, up to some rate.
    pub fn lossless(&self, at: SocketAddr, payload: usize, most: f64) -> Result<f64, Failed> {
        let (mut good, mut bad, mut rate) = (0.0, most, most);
        for _ in 0..HALVINGS {
            let sent = self.udp(at, payload, rate)?;
            if sent.lost == 0 {
                good = sent.sent_per_s.max(good);
            } else {
                bad = rate;
            }
            rate = f64::midpoint(good, bad);
        }
        Ok(good)
    }

    /// Goodput of one TCP connection, bits/s.
    pub fn tcp(&self, at: SocketAddr) -> Result<f64, Failed> {
        let failed = |what: &'static str| move |e| Failed::new(format!("{what} the measured connection"), e);
        let listener = self.server.inside(|| TcpListener::bind(at).map_err(failed("listening for")))?;
        let mut client = self.client.inside(|| TcpStream::connect(at).map_err(failed("opening")))?;
        let (mut server, _) = listener.accept().map_err(failed("accepting"))?;
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let (mut buffer, mut bytes, begin) = (vec![0; 1 << 20], 0, self.clock.now());
                loop {
                    match server.read(&mut buffer).map_err(failed("reading"))? {
                        0 => return Ok::<_, Failed>((bytes, self.clock.now().since(begin))),
                        count => bytes += count as u64,
                    }
                }
            });
            let (chunk, begin) = (vec![0; 256 << 10], self.clock.now());
            while self.clock.now().since(begin) < self.each {
                client.write_all(&chunk).map_err(failed("writing to"))?;
            }
            client.shutdown(Shutdown::Write).map_err(failed("ending"))?;
            let (bytes, spent) = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            Ok(bytes as f64 * 8.0 / spent.as_secs_f64())
        })
    }
}
