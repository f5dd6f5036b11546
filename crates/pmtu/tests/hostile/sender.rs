//! A sender with a search, and all that can happen to it. The property tests and the fuzzer use it.

use polypath_base::{Bytes, Duration, Instant};
use polypath_pmtu::{Bounds, LossBurst, Path, Policy};

pub(crate) const RTT: Duration = Duration::from_millis(20);
/// What probes may take, whatever the path carries.
const ALLOWANCE: u64 = 1500 + 9000;
/// Probes of `parallel` in the network.
pub(crate) const MOST_OUT: usize = 3;

/// Something that happens to a search; sizes are anything, indices are taken modulo what there is.
#[derive(Copy, Clone, Debug)]
pub(crate) enum Event {
    /// The sender has room for a probe.
    Room,
    Arrives(usize),
    IsLost(usize),
    IsForgotten(usize),
    Hint(u64),
    DataArrives(u64),
    DataLost([u64; 2], bool),
    BlackHole,
    Passes(Duration),
}

/// A sender with a search.
pub(crate) struct Sender<P> {
    pub(crate) search: P,
    pub(crate) bounds: Bounds,
    pub(crate) now: Instant,
    pub(crate) out: Vec<Bytes>,
    /// In probes, and of data.
    pub(crate) spent: u64,
    pub(crate) arrived: u64,
}

/// What probes may take when so much arrived in so long: a hundredth of what that is in three
/// seconds, and in twice the time that has passed more, up to ten.
pub(crate) fn budget(elapsed: Duration, arrived: u64) -> u64 {
    let seconds = elapsed.max(RTT).as_secs_f64();
    let horizon = (3.0 + 2.0 * seconds).min(10.0).max(seconds);
    ALLOWANCE.max((arrived as f64 * horizon / seconds / 100.0).ceil() as u64)
}

impl<P: Policy> Sender<P> {
    pub(crate) fn new(mut search: P, bounds: Bounds) -> Self {
        search.on_start(Instant::ZERO, bounds);
        Self { search, bounds, now: Instant::ZERO, out: Vec::new(), spent: 0, arrived: 0 }
    }

    /// A probe leaves, if the search wants one; how long it is.
    pub(crate) fn probe(&mut self) -> Option<Bytes> {
        let path = Path { bounds: self.bounds, srtt: RTT, arrived: Bytes::new(self.arrived) };
        let size = if self.search.may_probe() { self.search.next_probe(self.now, path) } else { None }?;
        assert!(size > self.search.largest() && size <= self.bounds.ceiling, "a probe of {size:?}");
        self.search.on_probe_sent(self.now, size);
        self.spent += size.get();
        self.out.push(size);
        Some(size)
    }

    /// One of the probes in the network, by any number.
    fn take(&mut self, number: usize) -> Option<Bytes> {
        (!self.out.is_empty()).then(|| self.out.remove(number % self.out.len()))
    }

    pub(crate) fn suffer(&mut self, event: Event) {
        match event {
            Event::Room => drop(self.probe()),
            Event::Arrives(number) => {
                if let Some(size) = self.take(number) {
                    self.arrived += size.get();
                    self.search.on_probe_acked(self.now, size);
                }
            }
            Event::IsLost(number) => {
                if let Some(size) = self.take(number) {
                    self.search.on_probe_lost(self.now, size);
                }
            }
            Event::IsForgotten(number) => {
                if let Some(size) = self.take(number) {
                    self.search.on_probe_forgotten(size);
                }
            }
            Event::Hint(mtu) => self.search.on_hint(Bytes::new(mtu)),
            Event::DataArrives(longest) => {
                self.arrived += longest;
                self.search.on_data_acked(Bytes::new(longest));
            }
            Event::DataLost([one, other], by_timeout) => {
                let [shortest, longest] = [one.min(other), one.max(other)].map(Bytes::new);
                self.search.on_data_lost(self.now, LossBurst { shortest, longest, by_timeout });
            }
            Event::BlackHole => self.search.on_black_hole(self.now, self.bounds),
            Event::Passes(time) => self.now += time,
        }
    }
}
