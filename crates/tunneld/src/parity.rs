//! What parities are made of, and packets of parities: the bytes of forward error correction, in
//! the form that `polypath_wire::parity` describes.
//!
//! Which packets are a block, and when a parity can bring one back, `polypath_tunnel` decides. A
//! packet that was brought back is as foreign as one from the network: who gives it on checks it.

use polypath_base::Seq;
use polypath_tunnel::{Parity, REMEMBERED, Recovery};
use polypath_wire::parity::{LENGTH, MOST_PACKETS};
use std::ops::Range;

/// A block's only parity is the sum of its symbols; two or more are of the library.
const SUM: u8 = 1;

/// The packets of the block that has not ended.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    /// One behind the other, each behind its length.
    bytes: Vec<u8>,
    packets: Vec<Range<usize>>,
}

impl Encoder {
    /// A packet of the block, in pieces.
    pub(crate) fn add<'a>(&mut self, pieces: impl IntoIterator<Item = &'a [u8]>) {
        let begin = self.bytes.len();
        self.bytes.extend([0; LENGTH]);
        pieces.into_iter().for_each(|piece| self.bytes.extend_from_slice(piece));
        let length = (self.bytes.len() - begin - LENGTH) as u16;
        self.bytes[begin..begin + LENGTH].copy_from_slice(&length.to_be_bytes());
        self.packets.push(begin..self.bytes.len());
    }

    /// The symbols of the parities of the block, which has ended: what is added next is of another
    /// one.
    pub(crate) fn end(&mut self, block: &Parity) -> Vec<Vec<u8>> {
        debug_assert_eq!(self.packets.len(), usize::from(block.packets), "a block has the packets since the last one");
        let longest = self.packets.iter().map(Range::len).max().unwrap_or(0);
        let symbols = self.packets.iter().map(|at| &self.bytes[at.clone()]);
        let parities = if block.parities == SUM {
            let mut sum = vec![0; longest];
            symbols.for_each(|symbol| add(&mut sum, symbol));
            vec![sum]
        } else {
            let length = longest.next_multiple_of(2);
            let padded = symbols.map(|symbol| padded(symbol, length));
            // The library takes every number of packets and parities that a block can have.
            reed_solomon_simd::encode(self.packets.len(), block.parities.into(), padded).unwrap_or_default()
        };
        self.bytes.clear();
        self.packets.clear();
        parities
    }
}

fn padded(symbol: &[u8], length: usize) -> Vec<u8> {
    let mut padded = symbol.to_vec();
    padded.resize(length, 0);
    padded
}

/// Adds a symbol, behind whose end are zeros, to a sum modulo 2 that is as long.
fn add(sum: &mut [u8], symbol: &[u8]) {
    sum.iter_mut().zip(symbol).for_each(|(sum, byte)| *sum ^= byte);
}

/// Symbols of packets that came of late, by number.
#[derive(Debug)]
pub(crate) struct Recent {
    symbols: Vec<(Seq, Vec<u8>)>,
}

impl Recent {
    pub(crate) fn new() -> Self {
        Self { symbols: vec![(Seq::new(0), Vec::new()); REMEMBERED] }
    }

    /// A packet has come.
    pub(crate) fn add(&mut self, seq: Seq, packet: &[u8]) {
        let (number, symbol) = &mut self.symbols[seq.get() as usize % REMEMBERED];
        *number = seq;
        symbol.clear();
        symbol.extend_from_slice(&(packet.len() as u16).to_be_bytes());
        symbol.extend_from_slice(packet);
    }

    fn get(&self, seq: Seq) -> Option<&[u8]> {
        let (number, symbol) = &self.symbols[seq.get() as usize % REMEMBERED];
        (*number == seq && !symbol.is_empty()).then_some(symbol)
    }

    /// The packets that parities bring back, each with its number. None where the parities and what
    /// came do not fit together: somebody has made them up.
    pub(crate) fn recover<P: AsRef<[u8]>>(&self, recovery: &Recovery<P>) -> Vec<(Seq, Vec<u8>)> {
        self.symbols_of(recovery).unwrap_or_default().into_iter().filter_map(|(seq, symbol)| Some((seq, packet(&symbol)?))).collect()
    }

    fn symbols_of<P: AsRef<[u8]>>(&self, recovery: &Recovery<P>) -> Option<Vec<(Seq, Vec<u8>)>> {
        let Recovery { block, missing, parities } = recovery;
        debug_assert!(block.packets <= MOST_PACKETS, "a block is sound where it is read");
        let length = parities.first()?.1.as_ref().len();
        let numbers = (0..block.packets).map(|place| (place, Seq::new(block.first) + u32::from(place)));
        let mut came = Vec::new();
        for (place, seq) in numbers.filter(|(_, seq)| !missing.contains(seq)) {
            came.push((usize::from(place), self.get(seq).filter(|symbol| symbol.len() <= length)?));
        }
        if block.parities == SUM {
            let [seq] = missing[..] else { return None };
            let mut sum = parities.first()?.1.as_ref().to_vec();
            came.into_iter().for_each(|(_, symbol)| add(&mut sum, symbol));
            return Some(vec![(seq, sum)]);
        }
        let came = came.into_iter().map(|(place, symbol)| (place, padded(symbol, length)));
        let parities = parities.iter().map(|(index, symbol)| (usize::from(*index), symbol));
        // It refuses lengths that are not even or not the same.
        let restored = reed_solomon_simd::decode(block.packets.into(), block.parities.into(), came, parities).ok()?;
        let symbol = |&seq: &Seq| Some((seq, restored.get(&(seq.get().wrapping_sub(block.first) as usize))?.clone()));
        missing.iter().map(symbol).collect()
    }
}

/// The packet of a symbol, if its length is one that it can have.
fn packet(symbol: &[u8]) -> Option<Vec<u8>> {
    let (&length, rest) = symbol.split_first_chunk::<LENGTH>()?;
    Some(rest.get(..u16::from_be_bytes(length).into())?.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Packets of these lengths, no two alike.
    fn packets(lengths: &[usize]) -> Vec<Vec<u8>> {
        (1..).zip(lengths).map(|(n, &length)| (0..length).map(|at| (at as u8).wrapping_mul(31).wrapping_add(7 * n)).collect()).collect()
    }

    fn encode(packets: &[Vec<u8>], block: &Parity) -> Vec<Vec<u8>> {
        let mut encoder = Encoder::default();
        packets.iter().for_each(|packet| encoder.add(packet.chunks(100)));
        encoder.end(block)
    }

    #[test]
    fn the_bytes_of_parities_are_those_of_the_format() {
        let one = Parity { index: 0, packets: 2, parities: 1, first: 9 };
        assert_eq!(encode(&[vec![0x45, 1, 2], vec![0x60]], &one), [[0, 3 ^ 1, 0x45 ^ 0x60, 1, 2]]);
        // What the library makes of it must not change: both ends need the same code.
        let two = Parity { parities: 2, packets: 3, ..one };
        let made = encode(&packets(&[4, 3, 1]), &two);
        assert_eq!(made, [[46, 186, 103, 41, 73, 229], [46, 188, 123, 34, 64, 129]]);
    }

    #[test]
    fn nothing_is_made_of_what_does_not_fit_together() {
        let packets = packets(&[20, 30, 25]);
        for parities in [1, 2] {
            let block = Parity { index: 0, packets: 3, parities, first: 0 };
            let made = encode(&packets, &block);
            let mut recent = Recent::new();
            let recovery = |symbol: &[u8]| Recovery { block, missing: vec![Seq::new(1)], parities: vec![(0, symbol.to_vec())] };
            recent.add(Seq::new(0), &packets[0]);
            assert_eq!(recent.recover(&recovery(&made[0])), [], "packet 2 has not come");
            recent.add(Seq::new(2), &packets[2]);
            assert_eq!(recent.recover(&recovery(&made[0])), [(Seq::new(1), packets[1].clone())]);
            assert_eq!(recent.recover(&recovery(&made[0][..9])), [], "it is shorter than packets of the block");
            let nothing = Recovery { block, missing: vec![], parities: vec![(0, made[0].clone())] };
            assert_eq!(recent.recover(&nothing), []);
        }
    }

    proptest! {
        /// Whatever is lost of a block, as many as there are parities: bytes and lengths come back.
        #[test]
        fn lost_packets_come_back_to_the_byte(
            lengths in prop::collection::vec(1..1500_usize, 1..20), parities in 1..5_u8, first: u32, lost in prop::collection::vec(any::<prop::sample::Index>(), 4),
        ) {
            let packets = packets(&lengths);
            let block = Parity { index: 0, packets: packets.len() as u8, parities, first };
            let made = encode(&packets, &block);
            prop_assert_eq!(made.len(), usize::from(parities));
            let mut missing: Vec<usize> = lost.iter().take(parities.into()).map(|lost| lost.index(packets.len())).collect();
            missing.sort_unstable();
            missing.dedup();
            let mut recent = Recent::new();
            let seq = |place: usize| Seq::new(first) + place as u32;
            for (place, packet) in packets.iter().enumerate().filter(|(place, _)| !missing.contains(place)) {
                recent.add(seq(place), packet);
            }
            // The last parities, so that the first are not needed.
            let skipped = made.len() - missing.len();
            let parities: Vec<(u8, Vec<u8>)> = (0..).zip(made).skip(skipped).collect();
            let missing_seqs = missing.iter().map(|&place| seq(place)).collect();
            let found = recent.recover(&Recovery { block, missing: missing_seqs, parities });
            let expected: Vec<(Seq, Vec<u8>)> = missing.iter().map(|&place| (seq(place), packets[place].clone())).collect();
            prop_assert_eq!(found, expected);
        }

        /// Whatever a hostile peer sends as a parity, nothing panics and no packet is longer than
        /// it.
        #[test]
        fn any_bytes_are_taken_for_a_parity(
            packets in 1..=MOST_PACKETS, parities in 1..=MOST_PACKETS, index in 0..MOST_PACKETS, symbol in prop::collection::vec(any::<u8>(), 2..200), missing in 0..3_u32,
        ) {
            let block = Parity { index: index % parities, packets, parities, first: 0 };
            let mut recent = Recent::new();
            (0..u32::from(packets)).for_each(|n| recent.add(Seq::new(n), &symbol[..symbol.len() / 2]));
            let missing = (0..missing.min(packets.into())).map(Seq::new).collect();
            let recovery = Recovery { block, missing, parities: vec![(block.index, symbol.clone())] };
            for (_, packet) in recent.recover(&recovery) {
                prop_assert!(packet.len() + LENGTH <= symbol.len());
            }
        }
    }
}
