//! Plays a script without judging it, and writes down what the endpoint does: two engines' records
//! of one script show where they part.
//!
//! A line that expects a packet takes the next one that comes, whatever it is, and learns the
//! script's names from it.

use crate::decode::{decode, difference};
use crate::encode;
use crate::endpoint::{Endpoint, Sent};
use crate::info;
use crate::notation::Seen;
use crate::numbers::Numbers;
use crate::parse::Fault;
use crate::run::{earliest_and_latest, planned};
use crate::script::{Event, Head, Line, Packet, Script, Segment};
use polypath_base::Instant;
use std::collections::VecDeque;

/// What happened, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happening {
    pub at: Instant,
    /// The script's line then, from 1.
    pub line: usize,
    pub what: What,
    /// Fields of TCP_INFO just before; those of the newest connection.
    pub info: Vec<(&'static str, u64)>,
}

/// What can happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The endpoint sent a packet; what each side draws at random is left out.
    Sent(String),
    /// The script did something of its own, and what a call returned.
    Done(String),
}

/// Plays the lines of a script that are this engine's and this kernel's.
///
/// # Errors
/// The first line that the engine cannot play.
pub fn record<E: Endpoint>(script: &Script, kernel: &str, start: impl FnOnce(&Head) -> Result<E, String>) -> Result<Vec<Happening>, Fault> {
    let fault = |line: usize, sentence: String| Fault { file: script.file.clone(), line, sentence: format!("{sentence}.") };
    let first = script.lines.first().map_or(1, |line| line.number);
    let endpoint = start(&script.head).map_err(|sentence| fault(first, sentence))?;
    let mut record = Record {
        numbers: Numbers::new(&script.head),
        endpoint,
        head: &script.head,
        queue: VecDeque::new(),
        last: Instant::ZERO,
        line: first,
        happened: Vec::new(),
    };
    let engine = record.endpoint.engine();
    for line in script.lines.iter().filter(|line| line.is_for(engine, kernel)) {
        record.line = line.number;
        record.step(line).map_err(|sentence| fault(line.number, sentence))?;
    }
    let end = record.endpoint.now().max(record.last) + script.head.tolerance;
    record.pass_time(end).map_err(|sentence| fault(record.line, sentence))?;
    record.push(end, What::Done("the end".to_owned()));
    Ok(record.happened)
}

struct Record<'a, E> {
    numbers: Numbers,
    endpoint: E,
    head: &'a Head,
    /// Packets of the endpoint that no line has taken yet.
    queue: VecDeque<Sent>,
    /// When the last line's event happened.
    last: Instant,
    line: usize,
    happened: Vec<Happening>,
}

impl<E: Endpoint> Record<'_, E> {
    fn step(&mut self, line: &Line) -> Result<(), String> {
        if let Event::Expect(Packet::Tcp(wanted)) = &line.event {
            return self.follow(line, wanted);
        }
        let at = planned(line.time, self.last)?.max(self.endpoint.now());
        self.pass_time(at)?;
        self.last = at;
        let place = self.happened.len();
        self.push(at, What::Done(line.text.clone()));
        match &line.event {
            Event::Inject(packet) => {
                let bytes = encode::packet(&mut self.numbers, packet)?;
                self.endpoint.inject(&bytes)?;
            }
            Event::Call(call) => {
                let returned = self.endpoint.call(&call.verb)?;
                let word = returned.map_or_else(|name| format!("-1 {name}"), |value| value.to_string());
                let called = line.text.rsplit_once(" = ").map_or(line.text.as_str(), |(called, _)| called);
                self.happened[place].what = What::Done(format!("{called} = {word}"));
            }
            Event::Assert(_) => drop(self.happened.pop()),
            Event::Quiet | Event::Expect(_) => {}
        }
        Ok(())
    }

    /// Takes the next packet for a line that expects one.
    fn follow(&mut self, line: &Line, wanted: &Segment) -> Result<(), String> {
        let now = self.endpoint.now();
        let (_, latest) = earliest_and_latest(line.time, self.last, self.head.tolerance, now);
        if self.queue.is_empty() {
            self.next(latest.max(now), Some(wanted.subflow))?;
        }
        let Some(sent) = self.queue.pop_front() else { return Ok(()) };
        self.last = sent.at;
        if let Ok(seen) = decode(&mut self.numbers, sent.at, &sent.bytes, Some(wanted.subflow)) {
            // Names get their values; what differs is not this function's matter.
            let _ = difference(&mut self.numbers, wanted, &seen);
        }
        Ok(())
    }

    fn pass_time(&mut self, until: Instant) -> Result<(), String> {
        while self.next(until, None)? {}
        Ok(())
    }

    /// Whether a packet came until then.
    fn next(&mut self, until: Instant, expected: Option<usize>) -> Result<bool, String> {
        let Some(sent) = self.endpoint.wait(until)? else { return Ok(false) };
        let shown = match decode(&mut self.numbers, sent.at, &sent.bytes, expected) {
            Ok(seen) => comparable(seen).to_string(),
            Err(sentence) => format!("> {} bytes; {sentence}", sent.bytes.len()),
        };
        self.push(sent.at, What::Sent(shown));
        self.queue.push_back(sent);
        Ok(true)
    }

    fn push(&mut self, at: Instant, what: What) {
        let info = info::FIELDS.iter().filter_map(|field| Some((*field, self.endpoint.info(field)?))).collect();
        self.happened.push(Happening { at, line: self.line, what, info });
    }
}

/// Without what an endpoint draws at random, and with a checksum that is right as one word.
fn comparable(mut seen: Seen) -> Seen {
    for option in &mut seen.options {
        let right = option.field("right_csum");
        for (key, value) in &mut option.fields {
            match *key {
                "key" | "peer_key" | "token" | "nonce" | "sender_hmac" | "hmac" | "hmac_end" => *value = 0,
                "csum" if Some(*value) == right => *value = 0,
                "right_csum" => *value = 0,
                _ => {}
            }
        }
    }
    if seen.subflow.is_none() {
        "new subflow".clone_into(&mut seen.addresses);
    }
    seen
}
