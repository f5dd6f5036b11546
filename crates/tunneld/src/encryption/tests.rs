//! Two ends in virtual time.

use super::*;
use proptest::prelude::*;

const A: usize = 0;
const B: usize = 1;
const PATH: PathId = PathId(1);

fn at(end: usize) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, end as u8 + 1], 23456))
}

fn secs(n: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(n)
}

struct Net {
    ends: [Peer; 2],
    keys: [Keys; 2],
    now: Instant,
    /// What was sent, by its sender.
    sent: Vec<(usize, Vec<u8>)>,
}

impl Net {
    /// Two ends that have had nothing to say yet.
    fn new() -> Self {
        let own = [(); 2].map(|()| Key::generate().unwrap());
        let keys = [A, B].map(|end| Keys { private: own[end], peer: own[1 - end].public(), preshared: Keys::NO_PRESHARED });
        Self { ends: keys.map(|keys| Peer::new(keys, 2)), keys, now: Instant::ZERO, sent: vec![] }
    }

    fn wall(&self) -> u64 {
        1_000_000_000_000 + self.now.as_nanos()
    }

    /// Two ends that have agreed on a session.
    fn agreed() -> Self {
        let mut net = Self::new();
        net.settle(false);
        assert!(net.carries(A) && net.carries(B));
        net
    }

    /// An end forgets all, a second later.
    fn restart(&mut self, end: usize) {
        self.now += Duration::from_secs(1);
        self.ends[end] = Peer::new(self.keys[end], 2);
    }

    /// Everything that is due at this second happens, and what is sent arrives at once, unless `lost`.
    fn settle(&mut self, lost: bool) {
        for end in [A, B] {
            if self.ends[end].poll_timeout() <= self.now {
                let wall = self.wall();
                self.ends[end].handle_timeout(self.now, wall);
            }
        }
        loop {
            let mut some = false;
            for end in [A, B] {
                while let Some((to, message)) = self.ends[end].poll_transmit() {
                    some = true;
                    self.sent.push((end, message.clone()));
                    // On all paths: the second copy must do no harm.
                    for path in 0..if to == To::All { 2 } else { 1 } {
                        if !lost {
                            let result = self.take(1 - end, PathId(path), &message);
                            assert!(path == 1 || result.is_ok(), "{result:?}");
                        }
                    }
                }
            }
            if !some {
                return;
            }
        }
    }

    fn take(&mut self, end: usize, path: PathId, datagram: &[u8]) -> Result<Opened, Refusal> {
        let mut plain = vec![];
        let now = self.now;
        self.ends[end].handle(now, path, (at(1 - end), true), datagram, &mut plain)
    }

    fn seal(&self, end: usize, plain: &[u8]) -> Vec<u8> {
        let mut sealed = vec![];
        assert!(self.ends[end].session().expect("a session").seal(PATH, plain, &mut sealed));
        sealed
    }

    /// Whether a datagram gets from an end to the other.
    fn carries(&mut self, end: usize) -> bool {
        let sealed = self.seal(end, b"hello");
        let mut plain = vec![];
        let now = self.now;
        let taken = self.ends[1 - end].handle(now, PATH, (at(end), true), &sealed, &mut plain);
        matches!(taken, Ok(Opened::Data { newest: true, .. })) && plain == b"hello"
    }

    fn run_to(&mut self, second: u64) {
        while self.now < secs(second) {
            self.now += Duration::from_secs(1);
            self.settle(false);
            // Keepalives, which show a new session's other end that it can be used.
            for end in [A, B] {
                assert!(self.ends[end].session().is_none() || self.carries(end), "end {end} at {:?}", self.now);
            }
        }
    }
}

#[test]
fn two_ends_that_start_at_once_understand_each_other() {
    let mut net = Net::new();
    net.settle(false);
    for end in [A, B, A, B, B, A] {
        assert!(net.carries(end));
    }
    assert!(net.sent.iter().all(|(_, message)| message.len() == if message[0] == INITIATION { 128 } else { 76 }));
}

#[test]
fn a_plain_text_does_not_show_and_has_its_place() {
    let net = Net::agreed();
    let sealed = net.seal(A, b"hello");
    assert_eq!((sealed.len(), sealed[0], sealed[8]), (5 + OVERHEAD, DATA, PATH.0));
    assert!(!sealed.windows(5).any(|window| window == b"hello"));
    let mut twice = sealed.clone();
    assert!(net.ends[A].session().unwrap().seal(PATH, b"hello", &mut twice), "more stands behind what is there");
    assert_ne!(twice[sealed.len() + HEADER..], sealed[HEADER..]);
}

#[test]
fn sessions_are_replaced_every_two_minutes_and_nothing_is_lost() {
    let mut net = Net::new();
    net.run_to(130);
    let old = net.seal(A, b"late");
    let sessions = net.ends[A].counters().sessions;
    net.run_to(245);
    assert!(net.ends[A].counters().sessions > sessions, "a new one since");
    assert_eq!(net.take(B, PATH, &old), Ok(Opened::Data { newest: false, renewed: false }), "the previous one is still read");
    net.run_to(1000);
    let sessions = net.ends[A].counters().sessions;
    assert!((8..=18).contains(&sessions), "{sessions} in 1000 s");
    assert_eq!(net.take(B, PATH, &old), Err(Refusal::NoSession), "and long after it is not");
}

#[test]
fn without_the_other_end_a_session_ends_and_initiations_go_on() {
    let mut net = Net::agreed();
    while net.now < secs(179) {
        net.now += Duration::from_secs(1);
        net.settle(true);
        assert!(net.ends.iter().all(|end| end.session().is_some()));
    }
    net.now += Duration::from_secs(1);
    net.settle(true);
    assert!(net.ends.iter().all(|end| end.session().is_none()));
    let before = net.sent.len();
    for _ in 0..10 {
        net.now += Duration::from_secs(1);
        net.settle(true);
    }
    assert_eq!(net.sent.len() - before, 10, "one every two seconds from each");
    net.now += Duration::from_secs(2);
    net.settle(false);
    assert!(net.carries(A) && net.carries(B), "the path is back");
}

#[test]
fn an_end_that_starts_again_is_understood_at_once() {
    let mut net = Net::new();
    net.run_to(10);
    net.restart(B);
    let sealed = net.seal(A, b"hello");
    assert_eq!(net.take(B, PATH, &sealed), Err(Refusal::NoSession));
    net.settle(false);
    assert!(net.carries(B) && net.carries(A));
}

#[test]
fn what_comes_twice_is_taken_once() {
    let mut net = Net::agreed();
    let (first, second) = (net.seal(A, b"1"), net.seal(A, b"2"));
    assert_eq!(net.take(B, PATH, &second), Ok(Opened::Data { newest: true, renewed: false }));
    assert_eq!(net.take(B, PATH, &first), Ok(Opened::Data { newest: false, renewed: false }), "late, and taken");
    for datagram in [&first, &second] {
        assert_eq!(net.take(B, PATH, datagram), Err(Refusal::Replayed));
    }
    let initiation = net.sent.iter().find(|(end, message)| *end == A && message[0] == INITIATION).unwrap().1.clone();
    assert_eq!(net.take(B, PATH, &initiation), Err(Refusal::Replayed));
    assert!(net.carries(A) && net.carries(B));
    // At an end that has forgotten all of that, an old initiation begins a session that nobody can use: the tunnel goes on.
    net.restart(B);
    net.settle(false);
    assert!(net.carries(B) && net.carries(A));
    assert!(net.take(B, PATH, &initiation).is_ok());
    assert!(net.carries(A) && net.carries(B));
}

#[test]
fn whoever_has_not_the_keys_gets_nowhere() {
    let mut net = Net::agreed();
    let stranger = Key::generate().unwrap();
    // He knows our public keys, even.
    let keys = Keys { private: stranger, peer: net.keys[B].private.public(), preshared: Keys::NO_PRESHARED };
    let mut other = Peer::new(keys, 2);
    other.handle_timeout(secs(0), 5_000_000_000_000);
    let (_, initiation) = other.poll_transmit().unwrap();
    assert_eq!(net.take(B, PATH, &initiation), Err(Refusal::NotAuthentic));
    // One end has a preshared key.
    let mut with = Peer::new(Keys { preshared: stranger, ..net.keys[A] }, 2);
    with.handle_timeout(secs(0), 5_000_000_000_000);
    let (_, initiation) = with.poll_transmit().unwrap();
    assert!(net.take(B, PATH, &initiation).is_ok(), "it shows in the answer");
    let (_, response) = net.ends[B].poll_transmit().unwrap();
    assert_eq!(with.handle(secs(0), PATH, (at(B), true), &response, &mut vec![]), Err(Refusal::NotAuthentic));
    assert!(net.carries(A) && net.carries(B), "the session that there is goes on");
}

#[test]
fn a_flood_of_handshakes_costs_no_more_than_twenty_a_second() {
    let mut net = Net::agreed();
    net.now = secs(10);
    let initiation = net.sent.iter().find(|(end, message)| *end == A && message[0] == INITIATION).unwrap().1.clone();
    let mut plain = vec![];
    let mut looked_at = 0;
    for _ in 0..1000 {
        let result = net.ends[B].handle(secs(10), PATH, (at(7), false), &initiation, &mut plain);
        looked_at += u32::from(result == Err(Refusal::Replayed));
        assert!(matches!(result, Err(Refusal::Replayed | Refusal::Busy)));
    }
    assert_eq!(looked_at, HANDSHAKES as u32);
    net.restart(A);
    net.settle(false);
    assert!(net.carries(A), "the other end is heard all the same");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_changed_datagram_is_taken(at in 0..200_usize, bit in 0..8_u8, cut in 0..40_usize) {
        let mut net = Net::agreed();
        let messages: Vec<_> = net.sent.iter().filter(|(end, _)| *end == A).map(|(_, message)| message.clone()).collect();
        // Replays are refused in any case: the other end has forgotten them.
        net.ends[B].latest = 0;
        for message in messages.into_iter().chain([net.seal(A, b"hello")]) {
            let mut changed = message.clone();
            let place = at % changed.len();
            // Bytes 1 to 3 say nothing.
            if changed[0] != DATA || !(1..4).contains(&place) {
                changed[place] ^= 1 << bit;
                prop_assert!(net.take(B, PATH, &changed).is_err(), "byte {place} of {:x}", message[0]);
            }
            prop_assert!(net.take(B, PATH, &message[..message.len() - 1 - cut.min(message.len() - 1)]).is_err());
        }
        prop_assert!(net.carries(A) && net.carries(B));
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(kind in 0..5_u8, mut bytes in proptest::collection::vec(any::<u8>(), 0..160)) {
        let mut net = Net::agreed();
        if let Some(first) = bytes.first_mut() {
            *first = [INITIATION, RESPONSE, DATA, 0, *first][usize::from(kind)];
        }
        prop_assert!(net.take(A, PATH, &bytes).is_err());
        prop_assert!(net.carries(A) && net.carries(B));
    }
}
