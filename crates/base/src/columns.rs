//! Counters and series, each declared once: its field, its unit, its column in the results, its
//! meaning.
//!
//! [`counters!`](crate::counters) and [`series!`](crate::series) make the structure, and a table of
//! [`Column`]s from which the results' tables and `docs/reference/results.md` are made. Python
//! reads the tables as `polypath._native.columns()`.

use crate::Duration;

/// What a value counts. It decides how the engines hand the value on, and how a table of results
/// shows it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Payload, or of a link whole packets, in bytes.
    Bytes,
    /// Segments of TCP.
    Segments,
    /// Packets on a link, of whatever protocol.
    Packets,
    /// How often something happened.
    Times,
    /// A plain number.
    Number,
    /// A [`Duration`] (of a counter): nanoseconds as NAME_ns, in a table seconds as NAME_s.
    Time,
    /// NAME_ns, in a table seconds as NAME_s.
    Nanoseconds,
    /// NAME_us, in a table milliseconds as NAME_ms.
    Microseconds,
    /// Bytes a second as NAME_rate, in a table 10^6 bit/s as NAME_mbps.
    BytesPerSecond,
    /// A place in a list of the outcome, which a table shows by its name.
    Index,
}

impl Unit {
    /// What the name of a field ends with, what an engine's name of the value and what a table's
    /// column end with instead, and how much of the engine's unit is one of the table's.
    pub const fn names(self) -> (&'static str, &'static str, &'static str, f64) {
        match self {
            Self::Time => ("", "_ns", "_s", 1e9),
            Self::Nanoseconds => ("_ns", "_ns", "_s", 1e9),
            Self::Microseconds => ("_us", "_us", "_ms", 1e3),
            Self::BytesPerSecond => ("_rate", "_rate", "_mbps", 1e6 / 8.0),
            Self::Bytes | Self::Segments | Self::Packets | Self::Times | Self::Number | Self::Index => ("", "", "", 1.0),
        }
    }

    /// What a table counts.
    pub const fn in_tables(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Segments => "segments",
            Self::Packets => "packets",
            Self::Times => "times",
            Self::Time | Self::Nanoseconds => "s",
            Self::Microseconds => "ms",
            Self::BytesPerSecond => "Mbit/s",
            Self::Number | Self::Index => "",
        }
    }
}

/// A counter or a column of a series.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The field's name.
    pub field: &'static str,
    /// What its values count.
    pub unit: Unit,
    /// What it says, in the words of the reference page.
    pub meaning: &'static str,
    /// Counters of Linux's /proc/net/netstat and snmp, with their groups, whose sum it is; none
    /// where Linux has no counter like it.
    pub linux: &'static [&'static str],
}

impl Column {
    /// The engines' name of the value.
    pub fn raw(&self) -> String {
        let (end, raw, _, _) = self.unit.names();
        format!("{}{raw}", self.field.trim_end_matches(end))
    }

    /// The name of its column in a table of results.
    pub fn name(&self) -> String {
        let (end, _, column, _) = self.unit.names();
        format!("{}{column}", self.field.trim_end_matches(end))
    }
}

/// What a counter can be.
pub trait Countable {
    /// As a number; a duration in nanoseconds.
    fn count(self) -> u64;
}

impl Countable for u64 {
    fn count(self) -> u64 {
        self
    }
}

impl Countable for Duration {
    fn count(self) -> u64 {
        self.as_nanos()
    }
}

/// The values of a column of a series, in the width in which they are kept: it becomes the table's.
#[derive(Copy, Clone, Debug)]
pub enum Values<'a> {
    /// Small numbers, such as a state.
    U8(&'a [u8]),
    /// Counts and times that Linux has in 32 bits.
    U32(&'a [u32]),
    /// Everything else.
    U64(&'a [u64]),
}

impl<'a> From<&'a [u8]> for Values<'a> {
    fn from(values: &'a [u8]) -> Self {
        Self::U8(values)
    }
}

impl<'a> From<&'a [u32]> for Values<'a> {
    fn from(values: &'a [u32]) -> Self {
        Self::U32(values)
    }
}

impl<'a> From<&'a [u64]> for Values<'a> {
    fn from(values: &'a [u64]) -> Self {
        Self::U64(values)
    }
}

/// Declares a structure of counters, a line each: `name: Unit [Linux's counters], "meaning";`. One
/// of [`Unit::Time`] is a [`Duration`], all others are `u64`.
#[macro_export]
macro_rules! counters {
    (@type Time) => { $crate::Duration };
    (@type $unit:ident) => { u64 };
    ($(#[$meta:meta])* $vis:vis struct $struct:ident { $($field:ident: $unit:ident $([$($linux:literal),+])?, $meaning:literal;)+ }) => {
        $(#[$meta])*
        #[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
        $vis struct $struct { $(#[doc = $meaning] $vis $field: $crate::counters!(@type $unit),)+ }

        impl $struct {
            /// One for each counter, in their order.
            $vis const COLUMNS: &'static [$crate::Column] = &[$($crate::Column {
                field: stringify!($field),
                unit: $crate::Unit::$unit,
                meaning: $meaning,
                linux: &[$($($linux),+)?],
            }),+];

            /// What was counted, in the order of the columns; durations in nanoseconds.
            $vis fn values(&self) -> impl Iterator<Item = u64> + use<> {
                [$($crate::Countable::count(self.$field)),+].into_iter()
            }
        }

        impl std::ops::AddAssign for $struct {
            fn add_assign(&mut self, other: Self) {
                $(self.$field += other.$field;)+
            }
        }
    };
}

/// Declares a series and its row, a line a column: `name: type Unit, "meaning";`.
#[macro_export]
macro_rules! series {
    ($(#[$meta:meta])* $vis:vis struct $struct:ident of $row:ident { $($field:ident: $type:ty = $unit:ident, $meaning:literal;)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default)]
        $vis struct $struct { $(#[doc = $meaning] $vis $field: Vec<$type>,)+ }

        #[doc = concat!("A row of [`", stringify!($struct), "`].")]
        #[derive(Copy, Clone, Debug, Default)]
        $vis struct $row { $(#[doc = $meaning] $vis $field: $type,)+ }

        impl $struct {
            /// One for each field, in their order.
            $vis const COLUMNS: &'static [$crate::Column] = &[$($crate::Column {
                field: stringify!($field),
                unit: $crate::Unit::$unit,
                meaning: $meaning,
                linux: &[],
            }),+];

            /// Appends a row.
            $vis fn push(&mut self, row: $row) {
                $(self.$field.push(row.$field);)+
            }

            /// Name and values of each column.
            $vis fn columns(&self) -> impl Iterator<Item = (&'static str, $crate::Values<'_>)> {
                [$((stringify!($field), $crate::Values::from(self.$field.as_slice()))),+].into_iter()
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::counters! {
        /// An example.
        struct Example {
            sent: Segments ["TcpExtSent"], "segments sent";
            busy: Time, "time in which it was busy";
        }
    }

    crate::series! {
        /// An example.
        struct Samples of Row {
            time_ns: u64 = Nanoseconds, "when";
            srtt_us: u32 = Microseconds, "round-trip time";
            pacing_rate: u64 = BytesPerSecond, "pacing rate";
        }
    }

    #[test]
    fn a_counter_has_a_value_and_a_column_for_each_line() {
        let mut example = Example { sent: 3, busy: Duration::from_micros(2) };
        example += example;
        assert_eq!(example.values().collect::<Vec<_>>(), [6, 4000]);
        let names: Vec<_> = Example::COLUMNS.iter().map(|column| (column.raw(), column.name(), column.linux)).collect();
        let no_linux: &[&str] = &[];
        assert_eq!(
            names,
            [("sent".to_owned(), "sent".to_owned(), &["TcpExtSent"] as &[_]), ("busy_ns".to_owned(), "busy_s".to_owned(), no_linux)]
        );
    }

    #[test]
    fn a_row_lands_in_every_column_of_its_series() {
        let mut samples = Samples::default();
        samples.push(Row { time_ns: 1, srtt_us: 2, pacing_rate: 3 });
        assert_eq!((&samples.time_ns[..], &samples.srtt_us[..], &samples.pacing_rate[..]), (&[1][..], &[2][..], &[3][..]));
        let names: Vec<_> = samples.columns().map(|(name, _)| name).collect();
        assert_eq!(names, ["time_ns", "srtt_us", "pacing_rate"]);
        assert_eq!(Samples::COLUMNS.iter().map(Column::name).collect::<Vec<_>>(), ["time_s", "srtt_ms", "pacing_mbps"]);
    }
}
