//! The DSS option: data acknowledgements, mappings and their checksum (RFC 8684 section 3.3).

use super::cursor::{Reader, Writer};
use crate::checksum::Sum;
use crate::error::{Error, Result};
use polypath_base::DataSeq;

/// A data acknowledgement or a data sequence number, in four or in eight bytes
/// (RFC 8684 section 3.3).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Number {
    /// The lower half.
    Short(u32),
    /// All 64 bits.
    Long(u64),
}

impl Number {
    /// The whole number: of all that have this lower half the one that is nearest to `near`
    /// (RFC 8684 section 3.3.1).
    #[must_use]
    pub fn expand(self, near: DataSeq) -> DataSeq {
        let near = near.get();
        DataSeq::new(match self {
            Self::Long(number) => number,
            Self::Short(low) => near.wrapping_add_signed(i64::from(low.wrapping_sub(near as u32) as i32)),
        })
    }

    pub(super) fn len(self) -> usize {
        match self {
            Self::Short(_) => 4,
            Self::Long(_) => 8,
        }
    }

    fn write(self, out: &mut Writer<'_>) {
        match self {
            Self::Short(number) => out.put(&number.to_be_bytes()),
            Self::Long(number) => out.put(&number.to_be_bytes()),
        }
    }
}

/// The mapping of a DSS option.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Data sequence number of the first mapped byte.
    pub dsn: Number,
    /// Its place in the subflow: 1 is the first byte after the SYN; 0 stands for a DATA_FIN alone.
    pub ssn: u32,
    /// Bytes, the DATA_FIN's place included; 0 maps all that follows, in a fallback
    /// (RFC 8684 section 3.7).
    pub len: u16,
    /// Over pseudo header and mapped data ([`dss_checksum`]), if the connection uses checksums;
    /// none leaves the field out.
    pub checksum: Option<u16>,
}

/// Flags of a DSS: a data acknowledgement, of eight bytes, a mapping, with an eight-byte number,
/// and the end of the data.
const ACK: u8 = 0x01;
const ACK_LONG: u8 = 0x02;
const MAP: u8 = 0x04;
const MAP_LONG: u8 = 0x08;
const DATA_FIN: u8 = 0x10;

/// Acknowledgement, mapping and whether the data ends (RFC 8684 section 3.3); that there is a
/// checksum only the length tells.
pub(super) fn parse(mut data: Reader<'_>) -> Result<(Option<Number>, Option<Mapping>, bool)> {
    let flags = data.byte()?;
    let number = |data: &mut Reader<'_>, long: u8| {
        Ok::<_, Error>(if flags & long == 0 { Number::Short(data.word()?) } else { Number::Long(data.long()?) })
    };
    let ack = if flags & ACK == 0 { None } else { Some(number(&mut data, ACK_LONG)?) };
    let mapping = if flags & MAP == 0 {
        None
    } else {
        let (dsn, ssn, len) = (number(&mut data, MAP_LONG)?, data.word()?, data.short()?);
        Some(Mapping { dsn, ssn, len, checksum: if data.0.is_empty() { None } else { Some(data.short()?) } })
    };
    if !data.0.is_empty() {
        return Err(Error::Malformed("mptcp length"));
    }
    Ok((ack, mapping, flags & DATA_FIN != 0))
}

pub(super) fn emit(ack: Option<Number>, mapping: Option<Mapping>, data_fin: bool, out: &mut Writer<'_>) {
    let long = |number: Number, flag: u8| if number.len() == 8 { flag } else { 0 };
    let ack_flags = ack.map_or(0, |ack| ACK | long(ack, ACK_LONG));
    let map_flags = mapping.map_or(0, |mapping| MAP | long(mapping.dsn, MAP_LONG));
    out.put(&[ack_flags | map_flags | if data_fin { DATA_FIN } else { 0 }]);
    ack.into_iter().for_each(|ack| ack.write(out));
    if let Some(mapping) = mapping {
        mapping.dsn.write(out);
        out.put(&mapping.ssn.to_be_bytes());
        out.put(&mapping.len.to_be_bytes());
        mapping.checksum.into_iter().for_each(|checksum| out.put(&checksum.to_be_bytes()));
    }
}

/// The checksum of a mapping (RFC 8684 section 3.3.1): its pseudo header has the data sequence
/// number in eight bytes whatever the option has. `data` are the mapped bytes; a DATA_FIN's place
/// has none.
#[must_use]
pub fn dss_checksum(dsn: DataSeq, ssn: u32, len: u16, data: &[u8]) -> u16 {
    let dsn = dsn.get();
    let sum = Sum::default().number((dsn >> 32) as u32).number(dsn as u32).number(ssn).number(u32::from(len));
    sum.bytes(data).checksum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_numbers_grow_to_the_nearest_long_one() {
        let expand = |low: u32, near: u64| Number::Short(low).expand(DataSeq::new(near)).get();
        assert_eq!(expand(0x10, 0x5_ffff_fff0), 0x6_0000_0010);
        assert_eq!(expand(0xffff_ff00, 0x5_ffff_fff0), 0x5_ffff_ff00);
        assert_eq!(expand(0xffff_ff00, 0x6_0000_0010), 0x5_ffff_ff00);
        assert_eq!(expand(1, u64::MAX), 1);
    }

    #[test]
    fn a_dss_checksum_covers_numbers_and_data() {
        // 0102+0304+0506+0708 + 0000+0001 + 0003 + 0000 + aabb+cc00 = 0x187d3 -> 0x87d4 ->
        // complement 0x782b.
        let expected = !(0x0102_u32 + 0x0304 + 0x0506 + 0x0708 + 1 + 3 + 0xaabb + 0xcc00);
        let folded = !((!expected & 0xffff) + (!expected >> 16)) as u16;
        assert_eq!(dss_checksum(DataSeq::new(0x0102_0304_0506_0708), 1, 3, &[0xaa, 0xbb, 0xcc]), folded);
    }
}
