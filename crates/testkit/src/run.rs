//! Runs a script against an endpoint.

use crate::decode::{decode, difference, range, shown};
use crate::encode;
use crate::endpoint::{Endpoint, Sent};
use crate::notation::{moment, seconds};
use crate::numbers::Numbers;
use crate::parse::Fault;
use crate::script::{Assertion, Call, Event, Head, Line, Outcome, Packet, Script, Segment, Time};
use polypath_base::{Duration, Instant};
use std::collections::VecDeque;

/// How long a line with the time `*` waits.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Runs the lines of a script, those for other engines and kernels apart. `start` makes the
/// endpoint, which does as `kernel`, from the script's head.
///
/// # Errors
/// The first line on which the endpoint does something else.
pub fn run<E: Endpoint>(script: &Script, kernel: &str, start: impl FnOnce(&Head) -> Result<E, String>) -> Result<(), Fault> {
    let fault = |line: usize, sentence: String| Fault { file: script.file.clone(), line, sentence: format!("{sentence}.") };
    let first = script.lines.first().map_or(1, |line| line.number);
    let endpoint = start(&script.head).map_err(|sentence| fault(first, sentence))?;
    let mut run = Run { numbers: Numbers::new(&script.head), queue: VecDeque::new(), last: Instant::ZERO, head: &script.head, endpoint };
    let engine = run.endpoint.engine();
    let mut number = first;
    for line in script.lines.iter().filter(|line| line.is_for(engine, kernel)) {
        number = line.number;
        run.step(line).map_err(|sentence| fault(number, sentence))?;
    }
    run.finish().map_err(|sentence| fault(number, sentence))
}

struct Run<'a, E> {
    numbers: Numbers,
    endpoint: E,
    head: &'a Head,
    /// Packets of the endpoint that no line has looked at yet.
    queue: VecDeque<Sent>,
    /// When the last line's event happened.
    last: Instant,
}

impl<E: Endpoint> Run<'_, E> {
    fn step(&mut self, line: &Line) -> Result<(), String> {
        if let Event::Expect(packet) = &line.event {
            let Packet::Tcp(segment) = packet else { return Err("only TCP segments can be expected".to_owned()) };
            return self.expect(line, segment);
        }
        let at = self.moment(line.time)?;
        self.pass_time(at)?;
        self.last = at;
        match &line.event {
            Event::Inject(packet) => {
                let bytes = encode::packet(&mut self.numbers, packet)?;
                self.endpoint.inject(&bytes)?;
            }
            Event::Call(call) => self.call(call)?,
            Event::Assert(assertions) => self.assert(assertions)?,
            Event::Quiet | Event::Expect(_) => {}
        }
        Ok(())
    }

    /// When an event of the script's own happens.
    fn moment(&self, time: Time) -> Result<Instant, String> {
        let at = planned(time, self.last)?;
        // On Linux a wait takes some nanoseconds more than nothing.
        if at + self.head.tolerance < self.endpoint.now() {
            return Err(format!("it was to happen at {}, but it is {} already", moment(at), moment(self.endpoint.now())));
        }
        Ok(at)
    }

    /// Lets time pass, and sees to it that the endpoint sent nothing before that no line expects.
    /// What it sends as good as now may be what a later line expects.
    fn pass_time(&mut self, until: Instant) -> Result<(), String> {
        while let Some(sent) = self.endpoint.wait(until)? {
            self.queue.push_back(sent);
        }
        match self.queue.front() {
            Some(sent) if sent.at + self.head.tolerance < until => {
                let sent = sent.clone();
                Err(format!("before this line the endpoint sends what no line expects: {}", self.describe(&sent)))
            }
            _ => Ok(()),
        }
    }

    fn describe(&mut self, sent: &Sent) -> String {
        match decode(&mut self.numbers, sent.at, &sent.bytes, None) {
            Ok(seen) => shown(&seen),
            Err(sentence) => format!("{} a packet of {} bytes; {sentence}", moment(sent.at), sent.bytes.len()),
        }
    }

    fn expect(&mut self, line: &Line, wanted: &Segment) -> Result<(), String> {
        let (from, to) = earliest_and_latest(line.time, self.last, self.head.tolerance, self.endpoint.now());
        let to = to.max(self.endpoint.now());
        let expected = || format!("expected at {} `{}`", range(from, to), line.text);
        let next = match self.queue.pop_front() {
            Some(sent) => Some(sent),
            None => self.endpoint.wait(to)?,
        };
        let Some(sent) = next else { return Err(format!("{}, seen nothing", expected())) };
        let seen = decode(&mut self.numbers, sent.at, &sent.bytes, Some(wanted.subflow)).map_err(|sentence| {
            format!("{}, seen a packet of {} bytes at {}: {sentence}", expected(), sent.bytes.len(), moment(sent.at))
        })?;
        let told = |what: String| format!("{}, seen at {}: {what}", expected(), shown(&seen));
        if let Some(what) = difference(&mut self.numbers, wanted, &seen)? {
            return Err(told(what));
        }
        if sent.at < from || sent.at > to {
            let (word, by) = if sent.at < from { ("early", from.since(sent.at)) } else { ("late", sent.at.since(to)) };
            return Err(told(format!("it is {} s too {word}", seconds(by))));
        }
        self.last = sent.at;
        Ok(())
    }

    fn call(&mut self, call: &Call) -> Result<(), String> {
        let returned = self.endpoint.call(&call.verb)?;
        let wanted = match &call.result {
            Outcome::Value(value) => Ok(*value),
            Outcome::Error(name) => Err(name.clone()),
        };
        if returned == wanted {
            return Ok(());
        }
        let word = |outcome: &Result<i64, String>| outcome.as_ref().map_or_else(|name| format!("-1 {name}"), i64::to_string);
        Err(format!("expected the result {}, seen {}", word(&wanted), word(&returned)))
    }

    fn assert(&mut self, assertions: &[Assertion]) -> Result<(), String> {
        for assertion in assertions {
            let found = self.endpoint.info(&assertion.field).ok_or("there is no connection")?;
            if !assertion.comparison.holds(found, assertion.value) {
                return Err(format!("expected `{}`, seen {} {found}", assertion.text, assertion.field));
            }
        }
        Ok(())
    }

    /// Nothing may be left that no line has expected.
    fn finish(&mut self) -> Result<(), String> {
        let end = self.endpoint.now().max(self.last) + self.head.tolerance;
        let left = self.queue.pop_front().map_or_else(|| self.endpoint.wait(end), |sent| Ok(Some(sent)))?;
        left.map_or(Ok(()), |sent| Err(format!("after the last line the endpoint sends what no line expects: {}", self.describe(&sent))))
    }
}

/// When an event of the script's own happens; `last` is the time of the event before.
///
/// # Errors
/// A sentence, if it has no single time.
pub(crate) fn planned(time: Time, last: Instant) -> Result<Instant, String> {
    match time {
        Time::At(after) => Ok(Instant::ZERO + after),
        Time::After(after) => Ok(last + after),
        _ => Err("what the script does itself has one time, not a range and not `*`".to_owned()),
    }
}

/// Between which times an expected packet must leave.
pub(crate) fn earliest_and_latest(time: Time, last: Instant, tolerance: Duration, now: Instant) -> (Instant, Instant) {
    let around = |at: Instant| (Instant::ZERO + at.since(Instant::ZERO + tolerance), at + tolerance);
    match time {
        Time::At(after) => around(Instant::ZERO + after),
        Time::After(after) => around(last + after),
        Time::Within(from, to) => (Instant::ZERO + from, Instant::ZERO + to),
        Time::WithinAfter(from, to) => (last + from, last + to),
        Time::Any => (Instant::ZERO, now + PATIENCE),
    }
}
