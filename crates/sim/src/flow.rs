//! A flow: an application at each end, and what is measured of them.

use crate::delays::Delays;
use crate::outcome::{DisorderOutcome, FlowOutcome, Spread, SubflowOutcome};
use crate::probe::{at_receiver, micros};
use crate::routes::PathsOf;
use crate::scenario::{self, App, DataDirection, Transport};
use crate::traffic;
use polypath_base::{Bytes, Duration, Instant, Rate};
use polypath_transport::tcp::Probe;
use polypath_transport::{Connection, ReorderStats};

/// Interval of the samples of which means are taken.
pub(crate) const SAMPLE: Duration = Duration::from_millis(100);

/// An application that writes at a rate writes this often.
const WRITE: Duration = Duration::from_millis(1);

/// What the world looks for after each event of an endpoint. Most of the time nothing, so that it
/// costs one comparison.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum AppWait {
    Nothing,
    Established,
    /// So many bytes in the send buffer since the start.
    Accepted(u64),
    /// So many bytes read since the start: all of a transfer.
    Received(u64),
    /// The same: the next request, at the server.
    Request(u64),
    /// The same: the next response, at the client.
    Response(u64),
}

#[derive(Debug)]
pub(crate) struct Flow {
    name: String,
    app: App,
    direction: DataDirection,
    /// Payload of each datagram, if it sends datagrams, bytes.
    datagram: Option<Bytes>,
    window: [Duration; 2],
    /// When the sender's connection was established and the application began.
    began: Option<Instant>,
    /// When the server accepted the connection.
    accepted_at: Option<Instant>,
    completed: Option<Instant>,
    /// On/off: whether a burst is going on, and when the phase ends.
    bursting: bool,
    phase_ends: Instant,
    /// Requests: when each was sent and answered; the last may be without an answer.
    asked_at: Instant,
    answered: Vec<(Instant, Instant)>,
    before: Option<Mark>,
    after: Option<Mark>,
    means: Vec<Mean>,
    received_100ms: Vec<u64>,
    accepted_100ms: Vec<u64>,
    out_of_order_100ms: Vec<u64>,
}

/// Counts at one edge of the window.
#[derive(Clone, Debug, Default)]
struct Mark {
    at: Instant,
    received: u64,
    accepted: u64,
    /// Datagrams that had arrived.
    arrivals: usize,
    /// By subflow.
    acked: Vec<u64>,
    disorder: ReorderStats,
}

#[derive(Copy, Clone, Debug, Default)]
struct Mean {
    samples: u64,
    srtt_us: u64,
    cwnd: u64,
    max_cwnd: u32,
}

impl Flow {
    pub(crate) fn new(flow: &scenario::Flow) -> Self {
        Self {
            name: flow.name.clone(),
            app: flow.app,
            direction: flow.direction,
            datagram: (flow.transport == Transport::Udp).then_some(flow.datagram),
            window: flow.window,
            began: None,
            accepted_at: None,
            completed: None,
            bursting: false,
            phase_ends: Instant::NEVER,
            asked_at: Instant::ZERO,
            answered: Vec::new(),
            before: None,
            after: None,
            means: Vec::new(),
            received_100ms: Vec::new(),
            accepted_100ms: Vec::new(),
            out_of_order_100ms: Vec::new(),
        }
    }

    /// What counts the delays of its bytes, to be told of each that is accepted or read, and of the
    /// window.
    pub(crate) fn delays(&self) -> Delays {
        Delays::new(self.datagram.is_none())
    }

    /// The window has begun and not ended.
    pub(crate) fn is_in_window(&self) -> bool {
        self.before.is_some() && self.after.is_none()
    }

    /// Whether the client's end is the one that sends; of requests it is the one that asks.
    pub(crate) fn client_sends(&self) -> bool {
        self.direction == DataDirection::Upload
    }

    /// The client's application makes the next [`Flow::step`]: it opens the connection, also where
    /// the server sends.
    pub(crate) fn client_acts(&self) -> bool {
        self.began.is_none() || self.client_sends()
    }

    /// The application's next step: opens the connection (`end` is the client's), or begins, pauses
    /// or ends a burst (the sender's). Returns what that end's application waits for and when the
    /// next step is due.
    pub(crate) fn step(&mut self, now: Instant, end: &mut Connection) -> (AppWait, Instant) {
        let Some(began) = self.began else {
            end.open(now);
            return (AppWait::Established, Instant::NEVER);
        };
        let sender = end;
        match self.app {
            App::Bulk { .. } => {
                sender.stop(now);
                sender.close(now);
                (AppWait::Nothing, Instant::NEVER)
            }
            App::Transfer { .. } => (AppWait::Nothing, Instant::NEVER),
            App::Requests { request, response, .. } => {
                self.asked_at = now;
                sender.offer(now, request);
                (AppWait::Response((self.answered.len() as u64 + 1) * response.get()), Instant::NEVER)
            }
            App::OnOff { on, off, duration, rate } => {
                let end = began + duration;
                if now >= end {
                    sender.stop(now);
                    sender.close(now);
                    return (AppWait::Nothing, Instant::NEVER);
                }
                if now >= self.phase_ends {
                    self.bursting = !self.bursting;
                    self.phase_ends = now + if self.bursting { on } else { off };
                    match (self.bursting, rate) {
                        (true, None) => sender.offer(now, Bytes::MAX),
                        (true, Some(_)) => {}
                        (false, _) => sender.stop(now),
                    }
                }
                let mut next = self.phase_ends.min(end);
                if let (true, Some(rate)) = (self.bursting, rate) {
                    // The bytes of the time until the next write: rates are kept exactly over each
                    // burst.
                    let into = |at: Instant| on - self.phase_ends.since(at);
                    if let Some(payload) = self.datagram {
                        sender.offer(now, payload);
                        let following = datagram_after(into(now), payload, rate);
                        return (AppWait::Nothing, next.min(now + (following - into(now))));
                    }
                    let sent = |at: Instant| (u128::from(rate.as_bits_per_sec()) * u128::from(into(at).as_nanos()) / 8_000_000_000) as u64;
                    let until = (now + WRITE).min(next);
                    sender.offer(now, Bytes::new(sent(until) - sent(now)));
                    next = until;
                }
                (AppWait::Nothing, next)
            }
        }
    }

    /// The sender is established: the application begins. Returns what it waits for and when its
    /// next step is due.
    pub(crate) fn begin(&mut self, now: Instant, sender: &mut Connection) -> (AppWait, Instant) {
        self.began = Some(now);
        match self.app {
            App::Bulk { duration } => {
                sender.offer(now, Bytes::MAX);
                (AppWait::Nothing, now + duration)
            }
            App::Transfer { bytes } => {
                sender.offer(now, bytes);
                (AppWait::Accepted(bytes.get()), Instant::NEVER)
            }
            App::Requests { .. } => self.step(now, sender),
            App::OnOff { .. } => {
                self.phase_ends = now;
                self.step(now, sender)
            }
        }
    }

    /// The server has accepted. Returns when the window begins.
    pub(crate) fn accept(&mut self, now: Instant) -> Instant {
        self.accepted_at = Some(now);
        now + self.window[0]
    }

    /// The receiver is established. Returns what its application waits for.
    pub(crate) fn listen(&self) -> AppWait {
        match self.app {
            App::Transfer { bytes } => AppWait::Received(bytes.get()),
            App::Requests { request, .. } => AppWait::Request(request.get()),
            App::Bulk { .. } | App::OnOff { .. } => AppWait::Nothing,
        }
    }

    /// The receiver has read everything.
    pub(crate) fn complete(&mut self, now: Instant) {
        self.completed = Some(now);
    }

    /// The server has read a request, the last of `asked` bytes. Returns what to app_wait it for.
    pub(crate) fn serve(&mut self, now: Instant, asked: u64, server: &mut Connection) -> AppWait {
        let App::Requests { request, response, .. } = self.app else { return AppWait::Nothing };
        server.offer(now, response);
        AppWait::Request(asked + request.get())
    }

    /// The client has read a response. Returns when it asks again.
    pub(crate) fn answer(&mut self, now: Instant, client: &mut Connection) -> Instant {
        self.answered.push((self.asked_at, now));
        let App::Requests { pause, duration, .. } = self.app else { return Instant::NEVER };
        let again = now + pause;
        if self.began.is_none_or(|began| again >= began + duration) {
            client.close(now);
            return Instant::NEVER;
        }
        again
    }

    /// An edge of the window. Returns when the next one is due.
    pub(crate) fn edge(&mut self, now: Instant, sender: &Connection, receiver: &Connection) -> Instant {
        let accepted_at = self.accepted_at.expect("the window begins once the server has accepted");
        if self.before.is_none() {
            let mut mark = Mark::new(now, sender, receiver);
            if self.window[0] == Duration::ZERO {
                // What the socket took while the handshake went on counts as well.
                mark.accepted = 0;
                // It begins with the first datagram.
                (mark.arrivals, mark.received) = (0, 0);
            }
            self.before = Some(mark);
            return accepted_at + self.window[1];
        }
        self.after = Some(Mark::new(now, sender, receiver));
        Instant::NEVER
    }

    /// A sample at a multiple of 100 ms.
    pub(crate) fn sample(&mut self, now: Instant, sender: &Connection, receiver: &Connection) {
        self.received_100ms.push(receiver.received().get());
        self.accepted_100ms.push(sender.accepted().get());
        self.out_of_order_100ms.push(receiver.disorder(now).waiting.get());
        if self.before.is_none() || self.after.is_some() {
            return;
        }
        let subflows = sender.subflow_count();
        if self.means.len() < subflows {
            self.means.resize(subflows, Mean::default());
        }
        for (index, mean) in self.means.iter_mut().enumerate().take(subflows) {
            let probe = sender.subflow(index);
            if probe.established_at.is_some_and(|at| at <= now) {
                mean.samples += 1;
                mean.srtt_us += probe.srtt.as_micros();
                mean.cwnd += u64::from(probe.cwnd.get());
                mean.max_cwnd = mean.max_cwnd.max(probe.cwnd.get());
            }
        }
    }

    /// What there is to say at the end of the run.
    pub(crate) fn outcome(
        &mut self,
        end: Instant,
        sender: &Connection,
        receiver: &Connection,
        byte_delay: Option<Spread>,
        paths: PathsOf<'_>,
    ) -> FlowOutcome {
        if self.before.is_some() && self.after.is_none() {
            self.after = Some(Mark::new(end, sender, receiver));
        }
        let (before, after) = (self.before.take().unwrap_or_default(), self.after.take().unwrap_or_default());
        let seconds = after.at.since(before.at).as_secs_f64();
        // Of a window that never began, or is empty, nothing is known: no goodput.
        let rate = |bytes: u64| if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 };
        let goodput = rate(after.received - before.received);
        let since_accept = |at: Instant| self.accepted_at.map(|accepted| at.since(accepted).as_nanos());
        let held = sender.limited(end);
        FlowOutcome {
            name: self.name.clone(),
            established_ns: self.accepted_at.map(Instant::as_nanos),
            goodput_receiver_bps: goodput,
            goodput_sender_bps: rate(after.accepted.saturating_sub(before.accepted)),
            bytes_received: receiver.received().get(),
            bytes_accepted: sender.accepted().get(),
            completion_ns: self.completed.and_then(since_accept),
            transient_ns: self.transient([before.at, after.at], goodput).and_then(since_accept),
            fallback: sender.is_fallback(),
            reinjected_bytes: sender.reinjected().get(),
            datagrams: sender
                .as_udp()
                .zip(receiver.as_udp())
                .map(|(sender, receiver)| traffic::datagrams(sender.sent(), receiver.arrivals(), [before.arrivals, after.arrivals])),
            responses: matches!(self.app, App::Requests { .. }).then(|| {
                // The first request leaves while the receiver's acceptance is still on its way.
                let from = if self.window[0] == Duration::ZERO { Instant::ZERO } else { before.at };
                traffic::responses(&self.answered, [from, after.at])
            }),
            byte_delay,
            disorder: self.datagram.is_none().then(|| {
                DisorderOutcome::new(
                    [&before.disorder, &after.disorder, &receiver.disorder(end)],
                    after.received - before.received,
                    seconds,
                )
            }),
            rwnd_limited_ns: held.window.as_nanos(),
            sndbuf_limited_ns: held.buffer.as_nanos(),
            app_limited_ns: held.application.as_nanos(),
            subflows: (0..sender.subflow_count())
                .map(|index| self.subflow(index, &before, &after, seconds, [sender, receiver], paths))
                .collect(),
            received_100ms: std::mem::take(&mut self.received_100ms),
            accepted_100ms: std::mem::take(&mut self.accepted_100ms),
            out_of_order_100ms: std::mem::take(&mut self.out_of_order_100ms),
        }
    }

    fn subflow(
        &self,
        index: usize,
        before: &Mark,
        after: &Mark,
        seconds: f64,
        [sender, receiver]: [&Connection; 2],
        paths: PathsOf<'_>,
    ) -> SubflowOutcome {
        let Probe { counters, mut rejected, established_at, min_rtt, mss, pmtu, .. } = sender.subflow(index);
        if let Some(there) = at_receiver(sender, index, receiver, paths) {
            rejected += there.rejected;
        }
        let path = sender.path_of(index);
        let [source, destination] = paths.addresses(path, sender.path(path));
        let acked = |mark: &Mark| mark.acked.get(index).copied().unwrap_or(0);
        let mean = self.means.get(index).copied().unwrap_or_default();
        let of = |sum: u64| if mean.samples > 0 { sum as f64 / mean.samples as f64 } else { 0.0 };
        SubflowOutcome {
            source,
            destination,
            established_ns: established_at.map(Instant::as_nanos),
            acked_bps: if seconds > 0.0 { (acked(after) - acked(before)) as f64 * 8.0 / seconds } else { 0.0 },
            counters,
            rejected,
            mean_srtt_us: of(mean.srtt_us),
            mean_cwnd: of(mean.cwnd),
            max_cwnd: mean.max_cwnd,
            min_rtt_us: micros(min_rtt),
            mss: mss.as_u32(),
            pmtu: pmtu.as_u32(),
        }
    }

    /// The first time in the window from which on the goodput of the second before stays within 10
    /// % of the window's.
    fn transient(&self, window: [Instant; 2], goodput: f64) -> Option<Instant> {
        let second = (1_000_000_000 / SAMPLE.as_nanos()) as usize;
        let mut first = None;
        for (last, pair) in self.received_100ms.windows(second + 1).enumerate() {
            let at = Instant::ZERO + SAMPLE * (last + second) as u64;
            if at < window[0] + Duration::from_secs(1) || at > window[1] {
                continue;
            }
            let mean = (pair[second] - pair[0]) as f64 * 8.0;
            if (mean - goodput).abs() > 0.1 * goodput {
                first = None;
            } else if first.is_none() {
                first = Some(at);
            }
        }
        first
    }
}

/// When the datagram is due that follows the one sent so far into a burst at this rate: the n-th
/// leaves n datagrams' time into it.
fn datagram_after(into: Duration, payload: Bytes, rate: Rate) -> Duration {
    let bit_ns = u128::from(payload.get()) * 8_000_000_000;
    let (into, rate) = (u128::from(into.as_nanos()), u128::from(rate.as_bits_per_sec()));
    // Times are rounded down, so the one sent now may have been due up to a nanosecond later.
    let sent = ((into + 1) * rate - 1) / bit_ns;
    Duration::from_nanos(((sent + 1) * bit_ns / rate) as u64)
}

impl Mark {
    fn new(at: Instant, sender: &Connection, receiver: &Connection) -> Self {
        let acked = (0..sender.subflow_count()).map(|index| sender.subflow(index).counters.bytes_acked).collect();
        let arrivals = receiver.as_udp().map_or(0, |socket| socket.arrivals().len());
        Self {
            at,
            received: receiver.received().get(),
            accepted: sender.accepted().get(),
            arrivals,
            acked,
            disorder: receiver.disorder(at),
        }
    }
}
