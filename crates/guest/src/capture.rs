//! Captures of devices: a ring shared with the kernel, emptied without a system call a packet,
//! written as pcapng.

use crate::network::Network;
use crate::plan::Capture;
use crate::sys::{self, Error, Outcome};
use polypath_io::{Failed, PacketRing, RingLayout};
use polypath_wire::pcapng::{self, LinkType};
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// From a frame's begin to the Ethernet header: tpacket2_hdr, sockaddr_ll, and the alignment of the
/// network header (packet_mmap.rst).
const TO_PACKET: usize = 66;
const BLOCK: usize = 128 << 10;
/// Frames in a ring at least: 20 ms of full-size packets and their acknowledgements at 3 Gbit/s.
const FRAMES: usize = 8192;

/// A capture that is going on.
#[derive(Debug)]
pub(crate) struct Tap {
    name: String,
    ring: PacketRing,
    file: File,
    waiting: Vec<u8>,
    snaplen: u32,
    most: u64,
    seen: u64,
    /// Of the last packet, on the machine's clock.
    time_ns: u64,
}

impl Tap {
    pub(crate) fn open(capture: &Capture, network: &Network, results: &Path) -> Outcome<Self> {
        let namespace = &network.namespaces[network.number(&capture.namespace)?];
        network.device(&capture.namespace, &capture.device)?;
        sys::enter_network(&namespace.file)?;
        let frame = (TO_PACKET + capture.snaplen as usize).next_multiple_of(16).min(BLOCK);
        let layout = RingLayout { block: BLOCK, blocks: FRAMES.div_ceil(BLOCK / frame), frame };
        let what = |e: Failed| Error::from(e).of(format!("capturing {} of {}", capture.device, capture.namespace));
        let ring = PacketRing::open(&capture.device, layout, 0, &[]).map_err(what)?;
        let file = File::create(results.join(&capture.file)).map_err(|e| Error::machine(format!("{}: {e}", capture.file)))?;
        let (name, snaplen, most) = (capture.file.clone(), capture.snaplen, capture.packets);
        let mut waiting = Vec::new();
        pcapng::section(&mut waiting, concat!("polypath ", env!("CARGO_PKG_VERSION")));
        let link_type = if network.is_tunnel(&capture.namespace, &capture.device)? { LinkType::RawIp } else { LinkType::Ethernet };
        pcapng::interface(&mut waiting, link_type, snaplen, name.trim_end_matches(".pcapng"));
        Ok(Self { name, ring, file, waiting, snaplen, most, seen: 0, time_ns: 0 })
    }

    /// Takes over what the ring has.
    pub(crate) fn empty(&mut self) -> Outcome<()> {
        const MUCH: usize = 1 << 20;
        let Self { ring, waiting, snaplen, most, seen, time_ns, .. } = self;
        while let Some(frame) = ring.first() {
            *seen += 1;
            *time_ns = frame.real_ns;
            if *seen <= *most {
                pcapng::packet(waiting, frame.real_ns, frame.length, &frame.bytes[..frame.bytes.len().min(*snaplen as usize)]);
            }
            ring.release();
        }
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
        let (most, losses) = (self.most, u64::from(self.ring.take_losses()));
        let comment = (self.seen > most).then(|| format!("only the first {most} packets are here"));
        let missing = self.seen.saturating_sub(most) + losses;
        pcapng::statistics(&mut self.waiting, self.time_ns, self.seen + losses, missing, comment.as_deref());
        self.write()?;
        Ok((self.name, losses))
    }
}
