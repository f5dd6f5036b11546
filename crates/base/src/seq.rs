//! Sequence numbers: they wrap, and order is that of the shorter way around.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

macro_rules! sequence_number {
    ($(#[$meta:meta])* $name:ident: $number:ident, $signed:ident) => {
        $(#[$meta])*
        #[derive(Copy, Clone, Default, PartialEq, Eq, Hash)]
        #[repr(transparent)]
        pub struct $name($number);

        impl $name {
            /// From the number as it stands in a header.
            #[inline]
            pub const fn new(number: $number) -> Self {
                Self(number)
            }

            /// The number as it stands in a header.
            #[inline]
            pub const fn get(self) -> $number {
                self.0
            }

            /// It lies before `other`, less than half of the space away.
            #[inline]
            pub const fn before(self, other: Self) -> bool {
                (self.0.wrapping_sub(other.0) as $signed) < 0
            }

            /// It lies after `other`, less than half of the space away.
            #[inline]
            pub const fn after(self, other: Self) -> bool {
                other.before(self)
            }

            /// Bytes from `earlier` to here, forward.
            #[inline]
            pub const fn distance(self, earlier: Self) -> $number {
                self.0.wrapping_sub(earlier.0)
            }

            /// The one of two that comes first.
            #[must_use]
            #[inline]
            pub const fn min(self, other: Self) -> Self {
                if other.before(self) { other } else { self }
            }

            /// The one of two that comes last.
            #[must_use]
            #[inline]
            pub const fn max(self, other: Self) -> Self {
                if self.before(other) { other } else { self }
            }
        }

        impl Add<$number> for $name {
            type Output = Self;
            /// So many bytes further on; wraps.
            #[inline]
            fn add(self, bytes: $number) -> Self {
                Self(self.0.wrapping_add(bytes))
            }
        }

        impl AddAssign<$number> for $name {
            #[inline]
            fn add_assign(&mut self, bytes: $number) {
                *self = *self + bytes;
            }
        }

        impl Sub<$number> for $name {
            type Output = Self;
            /// So many bytes back; wraps.
            #[inline]
            fn sub(self, bytes: $number) -> Self {
                Self(self.0.wrapping_sub(bytes))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

sequence_number! {
    /// A TCP sequence number (RFC 9293 section 3.4), also that of an MPTCP subflow.
    Seq: u32, i32
}

sequence_number! {
    /// An MPTCP data sequence number (RFC 8684 section 3.3.1).
    DataSeq: u64, i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_that_of_the_shorter_way_around() {
        let (last, first) = (Seq::new(u32::MAX), Seq::new(0));
        assert!(last.before(first) && first.after(last) && !first.before(first) && !first.after(first));
        assert_eq!((last + 1, first - 1, first.distance(last), last.distance(first)), (first, last, 1, u32::MAX));
        assert_eq!((last.max(first), last.min(first), first.max(last), first.min(last)), (first, last, first, last));
    }

    #[test]
    fn data_sequence_numbers_wrap_at_64_bits() {
        let last = DataSeq::new(u64::MAX);
        assert!(last.before(last + 5));
        assert_eq!((last + 5, (last + 5).distance(last)), (DataSeq::new(4), 5));
    }
}
