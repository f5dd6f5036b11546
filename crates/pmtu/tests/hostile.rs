//! Searches against a network and a peer that do as they like: probes that arrive or are lost in
//! any order, losses and timeouts of data of any size, messages that lie. Whatever happens, the
//! sizes stay within their bounds and the cost within its share; and once the network is quiet, the
//! search finds what the path passes.

#[path = "hostile/sender.rs"]
mod sender;

use polypath_base::{Bytes, Duration, Instant};
use polypath_pmtu::{Bounds, LEAST_MTU, LEAST_MTU_IPV6, LossBurst, MtuSearch, Parallel, Policy, Sysctls};
use proptest::prelude::*;
use sender::{Event, MOST_OUT, RTT, Sender, budget};

/// RFC 8899 section 5.1.1: `PMTU_RAISE_TIMER`. After it a search forgets what was lost.
const RAISE_AFTER: Duration = Duration::from_secs(600);

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
        1 => Just(Event::BlackHole),
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

impl<P: Policy> Sender<P> {
    /// A round trip over a path that passes packets of up to `passes` bytes and loses no other:
    /// 10 MB of data, and probes.
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
