//! `parallel` against a network and a peer that do as they like: probes that arrive or are lost in any order, losses and timeouts of data of any
//! size, messages that lie. Whatever happens, the sizes stay within their bounds and the cost within its share; and once the network is quiet, the
//! search finds what the path passes.

use polypath_base::{Bytes, Duration, Instant};
use polypath_pmtu::{Bounds, LEAST_MTU, LEAST_MTU_IPV6, LossBurst, MtuSearch, Parallel, Path, Policy, Sysctls};
use proptest::prelude::*;

const RTT: Duration = Duration::from_millis(20);
/// RFC 8899 section 5.1.1: `PMTU_RAISE_TIMER`. After it a search forgets what was lost.
const RAISE_AFTER: Duration = Duration::from_secs(600);
/// What probes may take, whatever the path carries.
const ALLOWANCE: u64 = 1500 + 9000;
const MOST_OUT: usize = 3;

/// Something that happens to a search; sizes are anything, indices are taken modulo what there is.
#[derive(Copy, Clone, Debug)]
enum Event {
    /// The sender has room for a probe.
    Room,
    Arrives(usize),
    IsLost(usize),
    IsForgotten(usize),
    Hint(u64),
    DataArrives(u64),
    DataLost([u64; 2], bool),
    Passes(Duration),
}

fn event() -> impl Strategy<Value = Event> {
    let size = 0_u64..70_000;
    prop_oneof![
        4 => Just(Event::Room),
        2 => any::<usize>().prop_map(Event::Arrives),
        2 => any::<usize>().prop_map(Event::IsLost),
        1 => any::<usize>().prop_map(Event::IsForgotten),
        1 => size.clone().prop_map(Event::Hint),
        2 => size.clone().prop_map(Event::DataArrives),
        2 => ([size.clone(), size], any::<bool>()).prop_map(|(sizes, by_timeout)| Event::DataLost(sizes, by_timeout)),
        1 => (0_u64..700).prop_map(|seconds| Event::Passes(Duration::from_secs(seconds))),
    ]
}

/// The least MTU of an IP version, and what an interface takes.
fn bounds() -> impl Strategy<Value = Bounds> {
    prop_oneof![Just(LEAST_MTU), Just(LEAST_MTU_IPV6)].prop_flat_map(|floor| {
        (floor.get()..=65_535).prop_map(move |ceiling| Bounds {
            floor,
            base: Bytes::new(1076),
            ceiling: Bytes::new(ceiling),
            headers: Bytes::new(52),
        })
    })
}

/// A sender with a search.
struct Sender<P> {
    search: P,
    bounds: Bounds,
    now: Instant,
    out: Vec<Bytes>,
    /// In probes, and of data.
    spent: u64,
    arrived: u64,
}

/// What probes may take when so much arrived in so long: a hundredth of what that is in three seconds, and in twice the time that has passed more, up
/// to ten.
fn budget(elapsed: Duration, arrived: u64) -> u64 {
    let seconds = elapsed.max(RTT).as_secs_f64();
    let horizon = (3.0 + 2.0 * seconds).min(10.0).max(seconds);
    ALLOWANCE.max((arrived as f64 * horizon / seconds / 100.0).ceil() as u64)
}

impl<P: Policy> Sender<P> {
    fn new(mut search: P, bounds: Bounds) -> Self {
        search.on_start(Instant::ZERO, bounds);
        Self { search, bounds, now: Instant::ZERO, out: Vec::new(), spent: 0, arrived: 0 }
    }

    /// A probe leaves, if the search wants one; how long it is.
    fn probe(&mut self) -> Option<Bytes> {
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

    fn suffer(&mut self, event: Event) {
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
            Event::Passes(time) => self.now += time,
        }
    }

    /// A round trip over a path that passes packets of up to `passes` bytes and loses no other: 10 MB of data, and probes.
    fn round(&mut self, passes: Bytes) {
        let size = self.search.largest();
        if size <= passes {
            self.arrived += 10_000_000;
            self.search.on_data_acked(size);
        } else {
            self.search.on_data_lost(self.now, LossBurst { shortest: size, longest: size, by_timeout: true });
        }
        while self.probe().is_some() {}
        self.now += RTT;
        for size in std::mem::take(&mut self.out) {
            if size <= passes {
                self.search.on_probe_acked(self.now, size);
            } else {
                self.search.on_probe_lost(self.now, size);
            }
        }
    }

    fn rounds(&mut self, count: usize, passes: Bytes) {
        (0..count).for_each(|_| self.round(passes));
    }
}

fn parallel(bounds: Bounds) -> Sender<Parallel> {
    Sender::new(Parallel::new(Sysctls::default()), bounds)
}

proptest! {
    #[test]
    fn sizes_stay_within_bounds_and_probes_within_their_share(bounds in bounds(), events in prop::collection::vec(event(), 1..400)) {
        let (mut sender, mut spent) = (parallel(bounds), 0);
        for event in events {
            sender.suffer(event);
            let size = sender.search.largest();
            prop_assert!(size >= bounds.floor && size <= bounds.ceiling, "{event:?}: {size:?} of {bounds:?}");
            prop_assert!(sender.out.len() <= MOST_OUT);
            if sender.spent > spent {
                let budget = budget(sender.now.since(Instant::ZERO), sender.arrived);
                prop_assert!(sender.spent <= budget, "{} bytes in probes, of {budget}", sender.spent);
                spent = sender.spent;
            }
        }
    }

    #[test]
    fn a_quiet_network_is_searched_whatever_was_before(
        bounds in bounds(), share in 0_u64..=1000, events in prop::collection::vec(event(), 0..200)
    ) {
        let range = bounds.ceiling.get() - bounds.floor.get();
        let passes = Bytes::new(bounds.floor.get() + range * share / 1000);
        let mut sender = parallel(bounds);
        for event in events {
            sender.suffer(event);
        }
        // What the hostile network said is believed until the search begins anew, no longer.
        sender.rounds(100, passes);
        sender.now += RAISE_AFTER;
        sender.rounds(100, passes);
        let found = sender.search.largest();
        prop_assert!(found <= passes, "{found:?} of {passes:?}");
        prop_assert!(passes.get() - found.get() <= found.get() / 128 + 9, "{found:?} of {passes:?}");
        prop_assert!(sender.probe().is_none(), "it is over");
    }

    #[test]
    fn no_search_exceeds_the_ceiling(bounds in bounds(), events in prop::collection::vec(event(), 1..200)) {
        for (name, _) in MtuSearch::NAMES {
            let search = MtuSearch::find(name).expect("it is in the list").search(Sysctls { mtu_probing: 2, ..Sysctls::default() });
            let mut sender = Sender::new(search, bounds);
            for &event in &events {
                sender.suffer(event);
                prop_assert!(sender.search.largest() <= bounds.ceiling.max(bounds.base), "{name}, {event:?}");
            }
        }
    }
}

#[test]
fn an_estimate_never_falls_below_the_least_mtu_of_ipv6() {
    // RFC 8201 section 4; also where a message says less, or nothing gets through.
    let [ceiling, less] = [1500, 400].map(Bytes::new);
    let mut sender = parallel(Bounds { floor: LEAST_MTU_IPV6, base: Bytes::new(1076), ceiling, headers: Bytes::new(72) });
    sender.search.on_hint(less);
    sender.search.on_limit(less);
    assert_eq!(sender.search.largest(), LEAST_MTU_IPV6);
    for _ in 0..20 {
        let burst = LossBurst { shortest: less, longest: ceiling, by_timeout: true };
        sender.search.on_data_lost(Instant::ZERO, burst);
    }
    assert_eq!(sender.search.largest(), LEAST_MTU_IPV6);
}
