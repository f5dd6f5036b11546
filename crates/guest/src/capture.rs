//! Captures of devices: a ring shared with the kernel, emptied without a system call a packet, written as pcap with nanoseconds.

use crate::network::Network;
use crate::plan::Capture;
use crate::ring::Ring;
use crate::sys::{self, Error, Outcome};
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// A capture that is going on.
#[derive(Debug)]
pub(crate) struct Tap {
    name: String,
    ring: Ring,
    file: File,
    waiting: Vec<u8>,
    snaplen: u32,
}

impl Tap {
    pub(crate) fn open(capture: &Capture, network: &Network, results: &Path) -> Outcome<Self> {
        let place = &network.places[network.number(&capture.namespace)?];
        let device = network.device(&capture.namespace, &capture.device)?;
        sys::enter_network(&place.file)?;
        let what = |e: Error| e.of(format!("capturing {} of {}", capture.device, capture.namespace));
        let ring = Ring::open(device, capture.snaplen).map_err(what)?;
        let file = File::create(results.join(&capture.file)).map_err(|e| Error::machine(format!("{}: {e}", capture.file)))?;
        Ok(Self { name: capture.file.clone(), ring, file, waiting: header(capture.snaplen), snaplen: capture.snaplen })
    }

    /// Takes over what the ring has.
    pub(crate) fn empty(&mut self) -> Outcome<()> {
        const MUCH: usize = 1 << 20;
        let (waiting, snaplen) = (&mut self.waiting, self.snaplen as usize);
        self.ring.empty(|seconds, nanoseconds, length, bytes| {
            let kept = &bytes[..bytes.len().min(snaplen)];
            for value in [seconds, nanoseconds, kept.len() as u32, length] {
                waiting.extend_from_slice(&value.to_le_bytes());
            }
            waiting.extend_from_slice(kept);
        });
        if self.waiting.len() >= MUCH { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Outcome<()> {
        self.file.write_all(&self.waiting).map_err(|e| Error::machine(format!("{}: {e}", self.name)))?;
        self.waiting.clear();
        sys::forget_pages(&self.file);
        Ok(())
    }

    /// Ends the capture. Returns the file's name and how many frames the ring had no place for.
    pub(crate) fn finish(mut self) -> Outcome<(String, u64)> {
        self.empty()?;
        self.write()?;
        Ok((self.name, u64::from(self.ring.losses())))
    }
}

/// The head of a pcap file: nanoseconds, version 2.4, Ethernet.
fn header(snaplen: u32) -> Vec<u8> {
    const NANOSECONDS: u32 = 0xa1b2_3c4d;
    const ETHERNET: u32 = 1;
    [NANOSECONDS, 2 | 4 << 16, 0, 0, snaplen, ETHERNET].iter().flat_map(|value| value.to_le_bytes()).collect()
}
