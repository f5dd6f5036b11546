//! System calls: `write(4, ..., 1000) = 1000`; commands; assertions on TCP_INFO.

use super::cursor::{Cursor, Read};
use crate::script::{Assertion, Call, Comparison, Directions, Outcome, SocketOption, Verb};

const VERBS: &str = "socket, setsockopt, bind, listen, accept, connect, write, send, read, recv, shutdown and close";

pub(super) fn take(cursor: &mut Cursor<'_>) -> Read<Call> {
    let shown = cursor.shown();
    let name = cursor.word();
    if name.is_empty() {
        return Err(format!(
            "{shown} is no event: a packet begins with `<` or `>`, anything else is a call, `%{{ ... }}%`, `quiet` or a command"
        ));
    }
    cursor.expect("(", &format!("behind `{name}`"))?;
    let inside = cursor.until(")", &format!("behind the arguments of `{name}`"))?;
    let arguments = split(inside);
    cursor.expect("=", &format!("before the result of `{name}`"))?;
    let result = take_outcome(cursor)?;
    let number = |i: usize, what: &str| -> Read<i64> {
        let text = arguments.get(i).copied().unwrap_or_default();
        let mut inner = Cursor::new(text.trim_start_matches('[').trim_end_matches(']'));
        inner
            .number(what)
            .and_then(|value| inner.finish().map(|()| value))
            .map_err(|_| format!("{what} of `{name}` is `{text}`, which is no number"))
    };
    let fd = || number(0, "the socket").map(|fd| fd as i32);
    let len = || number(2, "the length").and_then(|len| u64::try_from(len).map_err(|_| "a length is below zero".to_owned()));
    let verb = match name {
        "socket" => Verb::Socket { mptcp: is_mptcp(&arguments)? },
        "setsockopt" => {
            let option = option(&arguments)?;
            let value = if option == SocketOption::Linger { linger(&arguments)? } else { number(3, "the value")? as i32 };
            Verb::SetOption { fd: fd()?, option, value }
        }
        "bind" => Verb::Bind { fd: fd()? },
        "listen" => Verb::Listen { fd: fd()? },
        "accept" => Verb::Accept { fd: fd()? },
        "connect" => Verb::Connect { fd: fd()? },
        "write" | "send" => Verb::Write { fd: fd()?, len: len()? },
        "read" | "recv" => Verb::Read { fd: fd()?, len: len()? },
        "shutdown" => Verb::Shutdown { fd: fd()?, how: directions(&arguments)? },
        "close" => Verb::Close { fd: fd()? },
        _ => return Err(format!("`{name}` is no call that a script can make; calls are {VERBS}")),
    };
    Ok(Call { verb, result })
}

/// Arguments stand between commas; what is in braces is one.
fn split(inside: &str) -> Vec<&str> {
    let mut depth = 0;
    let parts = inside.split(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    parts.map(str::trim).collect()
}

fn directions(arguments: &[&str]) -> Read<Directions> {
    match arguments.get(1) {
        Some(&"SHUT_RD") => Ok(Directions::Read),
        Some(&"SHUT_WR") => Ok(Directions::Write),
        Some(&"SHUT_RDWR") => Ok(Directions::Both),
        _ => Err("`shutdown` ends SHUT_RD, SHUT_WR or SHUT_RDWR".to_owned()),
    }
}

/// `{onoff=1, linger=0}`: the seconds, below zero if it is off.
fn linger(arguments: &[&str]) -> Read<i32> {
    let wrong = || "the value of SO_LINGER is written `{onoff=1, linger=0}`".to_owned();
    let text = arguments.get(3).and_then(|text| text.strip_prefix('{')?.strip_suffix('}')).ok_or_else(wrong)?;
    let (onoff, seconds) = text.split_once(',').ok_or_else(wrong)?;
    let value = |text: &str, name: &str| text.trim().strip_prefix(name)?.strip_prefix('=')?.parse::<i32>().ok();
    match (value(onoff, "onoff"), value(seconds, "linger")) {
        (Some(0), Some(_)) => Ok(-1),
        (Some(1), Some(seconds)) if seconds >= 0 => Ok(seconds),
        _ => Err(wrong()),
    }
}

/// `0`, `1000`, `-1 EAGAIN (Resource temporarily unavailable)`.
fn take_outcome(cursor: &mut Cursor<'_>) -> Read<Outcome> {
    let value: i64 = cursor.number("the result")?;
    if value >= 0 {
        return Ok(Outcome::Value(value));
    }
    let name = cursor.take(|c| c.is_ascii_uppercase());
    if !name.starts_with('E') {
        return Err("a result of -1 needs the name of an error, such as `-1 EAGAIN`".to_owned());
    }
    if cursor.eat("(") {
        cursor.until(")", "behind the words of the error")?;
    }
    Ok(Outcome::Error(name.to_owned()))
}

fn is_mptcp(arguments: &[&str]) -> Read<bool> {
    match arguments {
        ["..." | "AF_INET", "SOCK_STREAM", "IPPROTO_TCP"] => Ok(false),
        ["..." | "AF_INET", "SOCK_STREAM", "IPPROTO_MPTCP"] => Ok(true),
        _ => Err("a socket is `socket(..., SOCK_STREAM, IPPROTO_TCP)`, or IPPROTO_MPTCP".to_owned()),
    }
}

fn option(arguments: &[&str]) -> Read<SocketOption> {
    let pair = (arguments.get(1).copied().unwrap_or_default(), arguments.get(2).copied().unwrap_or_default());
    Ok(match pair {
        ("SOL_SOCKET", "SO_REUSEADDR") => SocketOption::ReuseAddr,
        ("SOL_SOCKET", "SO_RCVLOWAT") => SocketOption::ReceiveLowWater,
        ("SOL_SOCKET", "SO_SNDBUF") => SocketOption::SendBuffer,
        ("SOL_SOCKET", "SO_RCVBUF") => SocketOption::ReceiveBuffer,
        ("SOL_SOCKET", "SO_LINGER") => SocketOption::Linger,
        ("SOL_TCP" | "IPPROTO_TCP", "TCP_NODELAY") => SocketOption::NoDelay,
        ("SOL_TCP" | "IPPROTO_TCP", "TCP_SYNCNT") => SocketOption::SynCount,
        ("SOL_TCP" | "IPPROTO_TCP", "TCP_CORK") => SocketOption::Cork,
        ("SOL_TCP" | "IPPROTO_TCP", "TCP_NOTSENT_LOWAT") => SocketOption::NotSentLowWater,
        ("SOL_TCP" | "IPPROTO_TCP", "TCP_MAXSEG") => SocketOption::MaxSegment,
        ("SOL_TCP" | "IPPROTO_TCP", "TCP_USER_TIMEOUT") => SocketOption::UserTimeout,
        ("SOL_TCP" | "IPPROTO_TCP", "TCP_RTO_MAX_MS") => SocketOption::RtoMax,
        (level, name) => {
            return Err(format!(
                "the socket option {level} {name} is not known; known are SO_REUSEADDR, SO_RCVLOWAT, SO_SNDBUF, SO_RCVBUF, SO_LINGER, TCP_NODELAY, TCP_MAXSEG, TCP_USER_TIMEOUT and TCP_RTO_MAX_MS"
            ));
        }
    })
}

/// Behind the first backquote.
pub(super) fn take_command(cursor: &mut Cursor<'_>) -> Read<Call> {
    let text = cursor.until("`", "behind a command")?;
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        ["ip", "mptcp", "endpoint", "delete" | "del", "id", id] => {
            let id = id.parse().map_err(|_| format!("`{id}` is no id of an endpoint"))?;
            Ok(Call { verb: Verb::RemoveEndpoint { id }, result: Outcome::Value(0) })
        }
        _ => Err(format!("`{text}` is no command that a script can run; `ip mptcp endpoint delete id N` is one")),
    }
}

/// Behind `%{`: `tcpi_snd_cwnd == 10; tcpi_unacked < 3 }%`.
pub(super) fn take_assertions(cursor: &mut Cursor<'_>) -> Read<Vec<Assertion>> {
    let inside = cursor.until("}%", "behind the assertions")?;
    inside.split([';', ',']).map(str::trim).filter(|part| !part.is_empty()).map(take_assertion).collect()
}

fn take_assertion(part: &str) -> Read<Assertion> {
    let text = part.strip_prefix("assert ").unwrap_or(part).trim();
    let mut cursor = Cursor::new(text);
    let field = cursor.word().to_owned();
    let comparisons = [
        ("==", Comparison::Equal),
        ("!=", Comparison::Unequal),
        ("<=", Comparison::LessOrEqual),
        (">=", Comparison::GreaterOrEqual),
        ("<", Comparison::Less),
        (">", Comparison::Greater),
    ];
    let comparison = comparisons.iter().find(|(sign, _)| cursor.eat(sign)).map(|(_, comparison)| *comparison);
    let comparison = comparison.ok_or_else(|| format!("`{text}` has none of ==, !=, <, <=, > and >="))?;
    if !crate::info::FIELDS.contains(&field.as_str()) {
        return Err(format!("`{field}` is no field of TCP_INFO that a script can ask for; fields are {}", crate::info::FIELDS.join(", ")));
    }
    let value = match cursor.rest() {
        name if name.starts_with("TCP_") => {
            let value = crate::info::constant(name).ok_or_else(|| format!("`{name}` is no state of TCP"))?;
            cursor = Cursor::new("");
            value
        }
        _ => cursor.number("the value")?,
    };
    cursor.finish()?;
    Ok(Assertion { field, comparison, value, text: text.to_owned() })
}
