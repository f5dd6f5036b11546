//! Reads a script. What is wrong is said in one sentence with file and line.

mod call;
mod cursor;
mod head;
mod options;
mod packet;

use crate::script::{Engine, Event, Head, Line, Script, Time};
use cursor::{Cursor, Direction, Read};
use polypath_base::Duration;
use std::fmt;

/// What is wrong with a script, or went wrong on one of its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub file: String,
    /// From 1.
    pub line: usize,
    pub sentence: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.sentence)
    }
}

impl std::error::Error for Fault {}

/// Reads a script; `file` is its name in messages.
///
/// # Errors
/// The first line that is no line of a script.
pub fn parse(file: &str, text: &str) -> Result<Script, Fault> {
    let mut script = Script { file: file.to_owned(), head: Head::default(), lines: Vec::new() };
    let mut above = Above::Nothing;
    for (i, line) in text.lines().enumerate() {
        let (code, comment) = split_comment(line);
        let fault = |sentence: String| Fault { file: file.to_owned(), line: i + 1, sentence: format!("{sentence}.") };
        if code.is_empty() {
            above = if comment { Above::Comment } else { Above::Nothing };
            continue;
        }
        let mut cursor = Cursor::new(code);
        let engine = take_engine(&mut cursor);
        let kernels = take_kernels(&mut cursor);
        let for_one = engine.map(|_| "engine").or((!kernels.is_empty()).then_some("kernel"));
        if let Some(what) = for_one.filter(|_| !comment && above == Above::Nothing) {
            return Err(fault(format!("a line for one {what} alone needs a comment above it or behind it that says why")));
        }
        if let Some(unknown) = kernels.iter().find(|kernel| !script.head.kernels.contains(kernel)) {
            return Err(fault(format!("the script is about {}, so no line is for {unknown} alone", script.head.kernels.join(" and "))));
        }
        above = if comment || (for_one.is_some() && above != Above::Nothing) { Above::Comment } else { Above::Nothing };
        if starts_with_time(cursor.rest()) {
            let time = take_time(&mut cursor).map_err(fault)?;
            let text = cursor.rest().to_owned();
            let event = take_event(&mut cursor).map_err(fault)?;
            script.lines.push(Line { number: i + 1, text, engine, kernels, time, event });
        } else if let Some(what) = for_one {
            return Err(fault(format!("a line for one {what} alone needs a time")));
        } else if script.lines.is_empty() {
            head::take(&mut script.head, &mut cursor).map_err(fault)?;
        } else {
            return Err(fault(format!("a line begins with a time, such as `+0.010`, and not with {}", cursor.shown())));
        }
    }
    if script.lines.is_empty() {
        return Err(Fault {
            file: file.to_owned(),
            line: text.lines().count().max(1),
            sentence: "the script has no line with a time.".to_owned(),
        });
    }
    Ok(script)
}

/// What stood on the line before.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Above {
    Nothing,
    /// A comment, or a line of one engine or kernel that has its comment.
    Comment,
}

/// The line without its comment, and whether it has one.
fn split_comment(line: &str) -> (&str, bool) {
    let at = line.find("//").into_iter().chain(line.find('#')).min();
    at.map_or((line.trim(), false), |at| (line[..at].trim(), true))
}

fn take_engine(cursor: &mut Cursor<'_>) -> Option<Engine> {
    [Engine::Ours, Engine::Linux].into_iter().find(|engine| cursor.eat(&format!("{}:", engine.name())))
}

/// `6.1:` or `6.12,7.3:`, which no time looks like.
fn take_kernels(cursor: &mut Cursor<'_>) -> Vec<String> {
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_digit()) && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '.' || c == '-')
    };
    match cursor.rest().split_once(':') {
        Some((names, _)) if names.split(',').all(is_name) => {
            cursor.eat(&format!("{names}:"));
            names.split(',').map(str::to_owned).collect()
        }
        _ => Vec::new(),
    }
}

fn starts_with_time(rest: &str) -> bool {
    rest.starts_with(|c: char| c.is_ascii_digit() || c == '+' || c == '*')
}

fn take_time(cursor: &mut Cursor<'_>) -> Read<Time> {
    if cursor.eat("*") {
        return Ok(Time::Any);
    }
    let relative = cursor.eat("+");
    let from = take_seconds(cursor)?;
    if !cursor.eat("~") {
        return Ok(if relative { Time::After(from) } else { Time::At(from) });
    }
    if cursor.eat("+") != relative {
        return Err("both ends of a range of times count from the same moment: `+0.2~+0.21` or `0.2~0.21`".to_owned());
    }
    let to = take_seconds(cursor)?;
    if to < from {
        return Err("a range of times ends before it begins".to_owned());
    }
    Ok(if relative { Time::WithinAfter(from, to) } else { Time::Within(from, to) })
}

/// Seconds with at most nine digits behind the point.
fn take_seconds(cursor: &mut Cursor<'_>) -> Read<Duration> {
    let shown = cursor.shown();
    let wrong = || format!("{shown} is no time in seconds, such as `0.250`");
    let text = cursor.take(|c| c.is_ascii_digit() || c == '.');
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty() || part.len() > 9 {
        return Err(wrong());
    }
    let seconds: u64 = whole.parse().map_err(|_| wrong())?;
    let nanos: u64 = format!("{part:0<9}").parse().map_err(|_| wrong())?;
    seconds.checked_mul(1_000_000_000).and_then(|ns| ns.checked_add(nanos)).map(Duration::from_nanos).ok_or_else(wrong)
}

fn take_event(cursor: &mut Cursor<'_>) -> Read<Event> {
    let event = if cursor.eat("<") {
        Event::Inject(packet::take(cursor, Direction::In)?)
    } else if cursor.eat(">") {
        Event::Expect(packet::take(cursor, Direction::Out)?)
    } else if cursor.eat("%{") {
        Event::Assert(call::take_assertions(cursor)?)
    } else if cursor.eat("`") {
        Event::Call(call::take_command(cursor)?)
    } else if cursor.eat_word("quiet") {
        Event::Quiet
    } else {
        Event::Call(call::take(cursor)?)
    };
    cursor.finish()?;
    Ok(event)
}

#[cfg(test)]
mod tests;
