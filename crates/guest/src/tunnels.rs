//! The tunnels of a plan: a daemon at each end, which makes its device there. The daemon is the one
//! that users run, `polypath-tunnel`.
//!
//! It reads its file from a pipe and is asked by an abstract socket, so that a run leaves nothing
//! behind. It ends with the thread that has started it.

use crate::plan::TunnelEnd;
use crate::records::TunnelEndResult;
use crate::sys::{self, Error, Outcome};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::process::{Child, Command, Stdio};

/// What the daemon prints once its device is there.
const UP: &str = "up ";
/// A daemon that does not answer for so long hangs.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);

/// A daemon that runs; it is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Daemon {
    /// Its namespace's number.
    namespace: usize,
    device: String,
    child: Child,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // One that has ended already cannot be killed.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl Daemon {
    /// Its namespace's number.
    pub(crate) fn namespace(&self) -> usize {
        self.namespace
    }

    /// Whether it has made this device of a namespace.
    pub(crate) fn is_at(&self, namespace: usize, device: &str) -> bool {
        self.namespace == namespace && self.device == device
    }

    /// Starts the daemon of one end in its namespace and waits until its device is there.
    pub(crate) fn start(program: &str, end: &TunnelEnd, number: usize, namespace: &OwnedFd) -> Outcome<Self> {
        let failed = |what: &str, e: std::io::Error| Error::machine(format!("{what} {program}: {e}"));
        sys::enter_network(namespace)?;
        let mut command = Command::new(program);
        // The file is what comes on its standard input.
        command.args(["run", "/proc/self/fd/0", "--private"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        sys::die_with_thread(&mut command);
        let child = command.spawn().map_err(|e| failed("starting", e))?;
        let mut daemon = Self { namespace: number, device: end.device.clone(), child };
        if let Some(mut input) = daemon.child.stdin.take() {
            input.write_all(end.file.as_bytes()).map_err(|e| failed("writing to", e))?;
        }
        let mut first = String::new();
        if let Some(output) = daemon.child.stdout.take() {
            BufReader::new(output).read_line(&mut first).map_err(|e| failed("waiting for", e))?;
        }
        if first.starts_with(UP) { Ok(daemon) } else { Err(Error::machine(daemon.last_words())) }
    }

    /// The last line that it said on its standard error, once it has ended.
    fn last_words(&mut self) -> String {
        // It has closed its standard output, and so is ending.
        let _killed = self.child.kill();
        let mut said = String::new();
        if let Some(mut error) = self.child.stderr.take() {
            // What is no text tells nothing.
            let _read = error.read_to_string(&mut said);
        }
        said.lines().last().unwrap_or("the tunnel daemon ended without a word").to_owned()
    }

    /// What the daemon says of itself, and what the kernel counted at its device.
    pub(crate) fn result(&mut self, name: &str, namespace: &OwnedFd) -> Outcome<TunnelEndResult> {
        sys::enter_network(namespace)?;
        let status = match ask(name) {
            Ok(status) => status,
            Err(e) => {
                let words = format!("the tunnel daemon of {name} does not answer: {e}");
                let ended = matches!(self.child.try_wait(), Ok(Some(_)));
                return Err(Error::machine(if ended { format!("{words}; it ended: {}", self.last_words()) } else { words }));
            }
        };
        let text = std::fs::read_to_string("/proc/thread-self/net/dev").map_err(|e| Error::machine(format!("net/dev: {e}")))?;
        let queue_drops = transmit_drops(&text, &self.device)
            .ok_or_else(|| Error::machine(format!("the device {} of the tunnel {name} is gone", self.device)))?;
        Ok(TunnelEndResult { status, queue_drops })
    }
}

/// Asks a daemon in the calling thread's namespace for its status.
fn ask(name: &str) -> std::io::Result<serde_json::Value> {
    let at = SocketAddr::from_abstract_name(format!("polypath-tunnel-{name}"))?;
    let mut stream = UnixStream::connect_addr(&at)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"status")?;
    let mut said = String::new();
    stream.read_to_string(&mut said)?;
    Ok(serde_json::from_str(&said)?)
}

/// Packets that a device dropped instead of sending them: the twelfth column of /proc/net/dev.
fn transmit_drops(text: &str, device: &str) -> Option<u64> {
    const DROPPED: usize = 11;
    let row = text.lines().find_map(|line| line.trim_start().strip_prefix(device)?.strip_prefix(':'))?;
    row.split_whitespace().nth(DROPPED)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_of_a_device_are_found_in_its_row() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes ...\n    lo:  1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n   t01: 0 0 0 0 0 0 0 0 0 0 0 8 0 0 0 0\n    t0: 0 0 0 0 0 0 0 0 0 0 0 7 0 0 0 0\n";
        assert_eq!(transmit_drops(text, "t0"), Some(7));
        assert_eq!(transmit_drops(text, "t1"), None);
    }
}
