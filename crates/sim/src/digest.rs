//! A fingerprint of an outcome: two runs that differ in any value of it have different ones.

use crate::outcome::Outcome;
use std::fmt;

/// FNV-1a over 64 bits, written in hexadecimal digits.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Digest(u64);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Outcome {
    /// Of all values in the order of their fields, series included. Names of types and fields do
    /// not count: they may change.
    pub fn digest(&self) -> Digest {
        of_text(&values(&format!("{self:?}")))
    }
}

fn of_text(text: &str) -> Digest {
    Digest(text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)))
}

/// The values of an outcome in the order of its fields, without the names of types and fields.
fn values(debug: &str) -> String {
    let mut kept = String::with_capacity(debug.len());
    let mut word = String::new();
    for c in debug.chars() {
        if c.is_alphanumeric() || c == '_' {
            word.push(c);
            continue;
        }
        if c == ':' || (c == ' ' && word.starts_with(char::is_uppercase)) {
            word.clear();
            continue;
        }
        kept.push_str(&word);
        word.clear();
        kept.push(c);
    }
    kept + &word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_count_and_values_do() {
        assert_eq!(values("Outcome { flows: [Flow { name: \"a\", goodput: 1.5 }], events: 3 }"), "{  [{  \"a\",  1.5 }],  3 }");
        assert_ne!(of_text(&values("A { b: 1 }")), of_text(&values("A { b: 2 }")));
    }
}
