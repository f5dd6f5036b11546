//! Captures that are packed with gzip or zstd: unpacked while they are read, in bounded memory.

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::{BufRead, BufReader, Cursor, Error, ErrorKind, Read, Result};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a file may become without anybody asking how long it was, bytes, and how many times its
/// length beyond that. Captures of 64 kB segments of zeros become a thousand times as long; what
/// becomes more than this is made to do harm.
const FREE: u64 = 1 << 28;
const TIMES: u64 = 5000;

/// Bytes by which formats are told apart.
const HEAD: usize = 6;

/// A file whose packing, if it has one, is taken off.
pub(crate) struct Unpacked<'a> {
    pub(crate) source: Box<dyn Read + Send + 'a>,
    /// Why it could not be read on.
    pub(crate) why: Arc<OnceLock<&'static str>>,
    pub(crate) is_packed: bool,
}

/// Looks at a file's first bytes. The sentence says what to do with a packing that is not read.
pub(crate) fn unpacked<'a, R: Read + Send + 'a>(mut file: R) -> std::result::Result<Unpacked<'a>, &'static str> {
    let mut head = Vec::with_capacity(HEAD);
    file.by_ref().take(HEAD as u64).read_to_end(&mut head).map_err(|_| "the file cannot be read")?;
    let why = Arc::new(OnceLock::new());
    let packing = head.clone();
    let whole = Cursor::new(head).chain(file);
    let packed = |source, read: &Arc<AtomicU64>| {
        let bounded = Bounded { source, read: Arc::clone(read), made: 0, why: Arc::clone(&why) };
        Ok(Unpacked { source: Box::new(Filling { source: bounded, failed: None }), why: Arc::clone(&why), is_packed: true })
    };
    let read = Arc::new(AtomicU64::new(0));
    let buffered = |whole| BufReader::with_capacity(1 << 16, Counted { source: whole, read: Arc::clone(&read) });
    match packing[..] {
        [0x1f, 0x8b, ..] => packed(Box::new(MultiGzDecoder::new(buffered(whole))) as Box<dyn Read + Send + 'a>, &read),
        // A frame, or one that is to be skipped (RFC 8878 sections 3.1.1 and 3.1.2).
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => packed(Box::new(Zstd::new(buffered(whole))), &read),
        [0xfd, b'7', b'z', b'X', b'Z', 0] => Err("it is compressed with xz, which is not read: unpack it first (unxz)"),
        [b'B', b'Z', b'h', ..] => Err("it is compressed with bzip2, which is not read: unpack it first (bunzip2)"),
        [0x04, 0x22, 0x4d, 0x18, ..] => Err("it is compressed with lz4, which is not read: unpack it first (unlz4)"),
        [b'P', b'K', 3, 4, ..] => Err("it is a zip archive, which is not read: unpack it first (unzip)"),
        _ => Ok(Unpacked { source: Box::new(Filling { source: whole, failed: None }), why, is_packed: false }),
    }
}

/// Fills whatever it is given, since what a file is is told by the first read. A failure comes
/// behind the bytes before it.
struct Filling<R> {
    source: R,
    failed: Option<Error>,
}

impl<R: Read> Read for Filling<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let mut len = 0;
        while len < buffer.len() && self.failed.is_none() {
            match self.source.read(&mut buffer[len..]) {
                Ok(0) => break,
                Ok(read) => len += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => self.failed = Some(error),
            }
        }
        if len == 0 { self.failed.take().map_or(Ok(0), Err) } else { Ok(len) }
    }
}

/// Counts what is read of a file.
struct Counted<R> {
    source: R,
    read: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let len = self.source.read(buffer)?;
        self.read.fetch_add(len as u64, Ordering::Relaxed);
        Ok(len)
    }
}

/// What a decoder makes, bounded by what it has read. Readers above it tell only that they failed,
/// so the reason is kept.
struct Bounded<R> {
    source: R,
    read: Arc<AtomicU64>,
    made: u64,
    why: Arc<OnceLock<&'static str>>,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let made = self.source.read(buffer).inspect_err(|error| {
            let _ = self.why.set(match error.kind() {
                ErrorKind::UnexpectedEof => "its compressed data are cut off",
                ErrorKind::InvalidData | ErrorKind::InvalidInput => "its compressed data are damaged",
                _ => "the file cannot be read",
            });
        })?;
        self.made += made as u64;
        if self.made > FREE + TIMES * self.read.load(Ordering::Relaxed) {
            let _ = self.why.set("it is compressed to less than a five thousandth, as no capture is");
            return Err(ErrorKind::InvalidData.into());
        }
        Ok(made)
    }
}

/// Any number of frames of zstd, whose checksums are compared.
struct Zstd<R> {
    source: R,
    decoder: FrameDecoder,
    is_begun: bool,
}

impl<R: BufRead> Zstd<R> {
    fn new(source: R) -> Self {
        Self { source, decoder: FrameDecoder::new(), is_begun: false }
    }

    /// Goes to the next frame. False if there is none.
    fn begin(&mut self) -> Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.source) {
                Ok(()) => {
                    self.is_begun = true;
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    std::io::copy(&mut self.source.by_ref().take(u64::from(length)), &mut std::io::sink())?;
                }
                Err(_) => return Err(self.failed()),
            }
        }
        Ok(false)
    }

    /// A decoder that wants more than there is says so in one of many ways.
    fn failed(&mut self) -> Error {
        match self.source.fill_buf() {
            Ok([]) => ErrorKind::UnexpectedEof.into(),
            Ok(_) => ErrorKind::InvalidData.into(),
            Err(error) => error,
        }
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        while !buffer.is_empty() {
            if self.is_begun && self.decoder.is_finished() && self.decoder.can_collect() == 0 {
                self.is_begun = false;
                let told = self.decoder.get_checksum_from_data();
                if told.is_some() && told != self.decoder.get_calculated_checksum() {
                    return Err(ErrorKind::InvalidData.into());
                }
            }
            if !self.is_begun && !self.begin()? {
                return Ok(0);
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                if self.decoder.decode_blocks(&mut self.source, BlockDecodingStrategy::UptoBlocks(1)).is_err() {
                    return Err(self.failed());
                }
            }
            let len = self.decoder.read(buffer)?;
            if len > 0 {
                return Ok(len);
            }
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// As the pcap that it could be, for what matters here.
    fn content() -> Vec<u8> {
        (0..300_000_u32).flat_map(|number| (number / 7).to_le_bytes()).collect()
    }

    fn gzip(content: &[u8]) -> Vec<u8> {
        let mut packer = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
        packer.write_all(content).unwrap();
        packer.finish().unwrap()
    }

    fn zstd(content: &[u8]) -> Vec<u8> {
        ruzstd::encoding::compress_to_vec(content, ruzstd::encoding::CompressionLevel::Fastest)
    }

    fn read(file: &[u8]) -> (Vec<u8>, Option<&'static str>) {
        let mut opened = unpacked(file).unwrap_or_else(|sentence| panic!("{sentence}"));
        let mut all = vec![];
        let ended = opened.source.read_to_end(&mut all);
        assert_eq!(ended.is_err(), opened.why.get().is_some());
        (all, opened.why.get().copied())
    }

    #[test]
    fn what_is_packed_is_read_as_if_it_were_not() {
        let content = content();
        for packed in [content.clone(), gzip(&content), zstd(&content)] {
            assert_eq!(read(&packed), (content.clone(), None));
        }
        // Files one behind another, as `cat` makes them, and with a frame to be skipped.
        for pack in [gzip, zstd] {
            let twice = [pack(&content[..1000]), pack(&content[1000..])].concat();
            assert_eq!(read(&twice), (content.clone(), None));
        }
        let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3][..], &zstd(&content)].concat();
        assert_eq!(read(&skipped), (content, None));
    }

    #[test]
    fn what_is_cut_or_damaged_is_told_so() {
        let content = content();
        for packed in [gzip(&content), zstd(&content)] {
            assert_eq!(read(&packed[..packed.len() / 2]).1, Some("its compressed data are cut off"));
            let mut damaged = packed.clone();
            let at = damaged.len() - 6;
            damaged[at] ^= 0x55;
            assert!(read(&damaged).1.is_some());
        }
    }

    #[test]
    fn a_little_that_becomes_very_much_is_not_read_on() {
        // A frame with a window of 128 KiB, and blocks that repeat a byte 128 KiB times
        // (RFC 8878 section 3.1.1.2).
        let mut bomb = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38];
        let block = (128_u32 << 10 << 3) | 1 << 1;
        bomb.extend([&block.to_le_bytes()[..3], &[0]].concat().repeat(20_000));
        let mut opened = unpacked(&bomb[..]).unwrap_or_else(|sentence| panic!("{sentence}"));
        let read = std::io::copy(&mut opened.source, &mut std::io::sink());
        assert!(read.is_err() && opened.why.get().unwrap().contains("a five thousandth"), "{read:?}, {:?}", opened.why);
    }

    #[test]
    fn other_packings_are_named() {
        for (head, name) in [(&b"\xfd7zXZ\0 "[..], "xz"), (b"BZh91AY", "bzip2"), (b"\x04\x22\x4d\x18 ", "lz4"), (b"PK\x03\x04  ", "zip")] {
            assert!(unpacked(head).is_err_and(|sentence| sentence.contains(name)));
        }
    }
}
