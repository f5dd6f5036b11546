//! TCP options: `mss 1460, sackOK, TS val 100 ecr 0, nop, wscale 7`, and MPTCP's.

use super::cursor::{Cursor, Direction, Read};
use crate::notation::{FLAG_LETTERS, OPTIONS};
use crate::script::{Opt, Options, Value};

pub(super) fn take(text: &str, direction: Direction) -> Read<Options> {
    let mut options = Options::default();
    for part in split(text) {
        if part == "..." {
            if direction == Direction::In {
                return Err("`...` says nothing of an injected packet".to_owned());
            }
            options.open = true;
        } else {
            options.list.push(take_one(part)?);
        }
    }
    Ok(options)
}

/// The parts between commas outside of brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut from) = (Vec::new(), 0_u32, 0);
    for (at, c) in text.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(text[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    if !text[from..].trim().is_empty() || from > 0 {
        parts.push(text[from..].trim());
    }
    parts
}

fn take_one(part: &str) -> Read<Opt> {
    let mut cursor = Cursor::new(part);
    let shown = cursor.shown();
    let word = cursor.word();
    let Some(&(name, keys)) = OPTIONS.iter().find(|(name, _)| *name == word) else {
        let known: Vec<&str> = OPTIONS.iter().map(|(name, _)| *name).collect();
        return Err(format!("{shown} is no option; options are {}", known.join(", ")));
    };
    let mut fields = Vec::new();
    match name {
        "mss" | "wscale" => fields.push(("", take_value(&mut cursor, name)?)),
        "TS" => {
            cursor.expect("val", "behind `TS`")?;
            fields.push(("val", take_value(&mut cursor, "val")?));
            cursor.expect("ecr", "behind the timestamp's value")?;
            fields.push(("ecr", take_value(&mut cursor, "ecr")?));
        }
        "ECN" => {
            while !cursor.is_empty() {
                let shown = cursor.shown();
                let word = cursor.word();
                let key = keys.iter().find(|key| **key == word);
                let key = *key.ok_or_else(|| format!("{shown} is no counter of the option `ECN`; counters are {}", keys.join(", ")))?;
                put(&mut fields, key, take_value(&mut cursor, key)?)?;
            }
            if !is_order(&fields) {
                return Err("the counters of an option `ECN` are the first of `e0b ceb e1b` or of `e1b ceb e0b`".to_owned());
            }
        }
        "sack" => {
            while !cursor.is_empty() {
                fields.push(("", take_value(&mut cursor, "a SACK block")?));
                cursor.expect(":", "within a SACK block")?;
                fields.push(("", take_value(&mut cursor, "a SACK block")?));
            }
            if fields.is_empty() {
                return Err("an option `sack` needs a block, such as `sack 1001:2001`".to_owned());
            }
        }
        _ => {
            while !cursor.is_empty() {
                take_field(&mut cursor, name, keys, &mut fields)?;
            }
        }
    }
    cursor.finish()?;
    Ok(Opt { name, fields })
}

/// They stand in one of the two orders of RFC 9768 section 3.2.3.
fn is_order(fields: &[(&'static str, Value)]) -> bool {
    let begins = |order: [&str; 3]| fields.iter().zip(order).all(|((key, _), wanted)| *key == wanted);
    begins(["e0b", "ceb", "e1b"]) || begins(["e1b", "ceb", "e0b"])
}

/// A field of an MPTCP option.
fn take_field(cursor: &mut Cursor<'_>, name: &'static str, keys: &[&'static str], fields: &mut Vec<(&'static str, Value)>) -> Read<()> {
    let shown = cursor.shown();
    let word = cursor.word();
    match (name, word) {
        ("mpcapable", "v0" | "v1") => return put(fields, "version", Value::Number(u128::from(word == "v1"))),
        ("mpcapable", "nokey") => return put(fields, "keys", Value::Number(0)),
        ("mpcapable" | "dss", "nocs") => return put(fields, "csum", Value::Number(0)),
        ("mpcapable", "mpcdatalen") => return put(fields, "mpcdatalen", take_value(cursor, "mpcdatalen")?),
        ("dss", "fin") => return put(fields, "fin", Value::Number(1)),
        ("mpcapable" | "mp_reset", "flags") => {
            cursor.expect("[", "behind `flags`")?;
            let text = cursor.until("]", "behind the flags")?;
            return put(fields, "flags", Value::Number(flags(text)?));
        }
        ("mpcapable" | "mp_fastclose", "key") => {
            cursor.expect("[", "behind `key`")?;
            let mut inner = Cursor::new(cursor.until("]", "behind the keys")?);
            put(fields, "key", take_value(&mut inner, "a key")?)?;
            if name == "mpcapable" {
                let both = inner.eat(",");
                if both {
                    put(fields, "peer_key", take_value(&mut inner, "a key")?)?;
                }
                put(fields, "keys", Value::Number(1 + u128::from(both)))?;
            }
            return inner.finish();
        }
        _ => {}
    }
    let key = keys.iter().find(|key| **key == word);
    let key = *key.ok_or_else(|| format!("{shown} is no field of the option `{name}`; fields are {}", keys.join(", ")))?;
    cursor.expect("=", &format!("behind `{key}`"))?;
    let value = take_value(cursor, key)?;
    if name == "remove_address" {
        // The option may name several.
        fields.push((key, value));
        return Ok(());
    }
    put(fields, key, value)
}

fn put(fields: &mut Vec<(&'static str, Value)>, key: &'static str, value: Value) -> Read<()> {
    if fields.iter().any(|(there, _)| *there == key) {
        return Err(format!("`{key}` stands there twice"));
    }
    fields.push((key, value));
    Ok(())
}

fn flags(text: &str) -> Read<u128> {
    let mut bits = 0;
    for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let bit = FLAG_LETTERS.iter().find(|(letter, _)| *letter == name).map(|(_, bit)| u128::from(*bit));
        bits |= bit.ok_or_else(|| format!("`{name}` is no flag; flags are `flag_a` to `flag_h`, and `flag_t` of mp_reset"))?;
    }
    Ok(bits)
}

fn take_value(cursor: &mut Cursor<'_>, what: &str) -> Read<Value> {
    if cursor.eat("*") {
        return Ok(Value::Any);
    }
    let mut ahead = *cursor;
    let word = ahead.take(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
    if word.contains('.') {
        let address: std::net::Ipv4Addr = word.parse().map_err(|_| format!("`{word}` is no IPv4 address"))?;
        *cursor = ahead;
        return Ok(Value::Number(u128::from(u32::from(address))));
    }
    if word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        *cursor = ahead;
        return Ok(match word {
            "auto" => Value::Auto,
            "wrong" => Value::Wrong,
            name if cursor.eat("=") => Value::Let(name.to_owned(), cursor.number::<i128>(name)?.unsigned_abs()),
            name => Value::Name(name.to_owned()),
        });
    }
    cursor.number::<i128>(what).and_then(|v| u128::try_from(v).map_err(|_| format!("{what} is below zero"))).map(Value::Number)
}
