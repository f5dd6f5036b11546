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

fn peer(keys: Keys) -> Peer {
    Peer::new(keys, 2, Key::random().unwrap())
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
        let keys = [A, B].map(|end| Keys { private: own[end].clone(), peer: own[1 - end].public(), preshared: Keys::NO_PRESHARED });
        Self { ends: keys.clone().map(peer), keys, now: Instant::ZERO, sent: vec![] }
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
        self.ends[end] = peer(self.keys[end].clone());
    }

    /// Everything that is due at this second happens, and what is sent arrives at once, unless
    /// `lost`.
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
                    if !lost {
                        let (To::Path(path) | To::Back(path, _)) = to;
                        let result = self.take(1 - end, path, &message);
                        assert!(path == PathId(1) || result.is_ok(), "{result:?}");
                    }
                }
            }
            if !some {
                return;
            }
        }
    }

    /// What both ends send is under way at one time, and so is the keepalive in which each says
    /// that its session is new.
    fn cross(&mut self) {
        let mut under_way = vec![];
        loop {
            for end in [A, B] {
                let sent = std::iter::from_fn(|| self.ends[end].poll_transmit());
                under_way.extend(sent.map(|(To::Path(path) | To::Back(path, _), message)| (end, path, message)));
            }
            if under_way.is_empty() {
                return;
            }
            for (end, path, datagram) in std::mem::take(&mut under_way) {
                let taken = self.take(1 - end, path, &datagram);
                if let Ok(Opened::Handshake { renewed: true } | Opened::Data { renewed: true, .. }) = taken {
                    under_way.push((1 - end, PATH, self.seal(1 - end, b"keepalive")));
                }
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
    assert!(net.sent.iter().all(|(_, message)| message.len() == if message[0] == INITIATION { 144 } else { 76 }));
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
fn what_is_under_way_is_read_where_both_ends_begin_at_once() {
    // They do so each time, once they did.
    let mut net = Net::new();
    for second in 0..400 {
        net.now = secs(second);
        let late = [A, B].map(|end| net.ends[end].session().is_some().then(|| net.seal(end, b"late")));
        let wall = net.wall();
        for end in net.ends.iter_mut().filter(|end| end.poll_timeout() <= secs(second)) {
            end.handle_timeout(secs(second), wall);
        }
        net.cross();
        for (end, late) in late.into_iter().enumerate() {
            let taken = late.map(|late| net.take(1 - end, PATH, &late));
            assert!(matches!(taken, None | Some(Ok(Opened::Data { .. }))), "{second} s, end {end}: {taken:?}");
        }
    }
    assert!(net.ends.iter().all(|end| end.counters().sessions == 6), "two each time");
}

#[test]
fn without_the_other_end_a_session_ends_and_initiations_do_until_there_is_something_to_send() {
    let mut net = Net::agreed();
    let lost_until = |net: &mut Net, second| {
        let before = net.sent.len();
        while net.now < secs(second) {
            net.now += Duration::from_secs(1);
            net.settle(true);
        }
        net.sent.len() - before
    };
    assert_eq!(lost_until(&mut net, 119), 0);
    lost_until(&mut net, 179);
    assert!(net.ends.iter().all(|end| end.session().is_some()));
    let more = lost_until(&mut net, 200);
    assert!(net.ends.iter().all(|end| end.session().is_none()));
    assert!((24..=44).contains(&more), "one every two or three seconds from each, on two paths: {more}");
    // The one that began the session has tried since 120 s, the other one since 150 s.
    assert!(lost_until(&mut net, 245) > 0);
    assert_eq!(lost_until(&mut net, 1000), 0, "nobody hears anything of them");
    let now = net.now;
    net.ends[A].handle_data(now);
    assert!(lost_until(&mut net, 1010) >= 6);
    assert!(lost_until(&mut net, 1095) > 0);
    assert_eq!(lost_until(&mut net, 2000), 0);
    let now = net.now;
    net.ends[A].handle_data(now);
    net.now += Duration::from_secs(2);
    net.settle(false);
    assert!(net.carries(A) && net.carries(B), "the path is back");
}

#[test]
fn who_saw_one_start_knows_nothing_of_the_next() {
    // All keys are the same, and so is the time.
    let keys = Net::new().keys[A].clone();
    let started = || {
        let mut end = peer(keys.clone());
        end.handle_timeout(secs(0), 5_000_000_000_000);
        let (_, initiation) = end.poll_transmit().unwrap();
        (initiation[4..8].to_vec(), end.made.cookies(secs(1), at(B)))
    };
    let (one, other) = (started(), started());
    assert!(one.0 != other.0 && one.1 != other.1);
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
    // At an end that has forgotten all of that, an old initiation begins a session that nobody can
    // use: the tunnel goes on.
    net.restart(B);
    net.settle(false);
    assert!(net.carries(B) && net.carries(A));
    assert!(net.take(B, PATH, &initiation).is_ok());
    assert!(net.carries(A) && net.carries(B));
}

#[test]
fn a_datagram_of_one_path_is_refused_on_another_one_and_comes_on_its_own() {
    let mut net = Net::agreed();
    let sealed = net.seal(A, b"hello");
    assert_eq!(net.take(B, PathId(0), &sealed), Err(Refusal::WrongPath));
    assert_eq!(net.take(B, PathId(9), &sealed), Err(Refusal::WrongPath));
    assert_eq!(net.take(B, PATH, &sealed), Ok(Opened::Data { newest: true, renewed: false }), "it has not come yet");
    assert_eq!(net.take(B, PathId(0), &sealed), Err(Refusal::Replayed));
}

#[test]
fn a_cookie_for_one_path_is_refused_on_another_one() {
    let mut net = Net::new();
    let now = net.now;
    net.ends[A].handle_timeout(now, 5_000_000_000_000);
    let (to, initiation) = net.ends[A].poll_transmit().unwrap();
    assert_eq!(to, To::Path(PathId(0)));
    // Who is on path 0 has B say it to an address of his own, and brings it to A on path 1.
    let cookie = {
        let public = net.keys[B].private.public();
        net.ends[B].made.message(now, at(7), &public, &initiation).unwrap()
    };
    assert_eq!(net.take(A, PathId(1), &cookie), Err(Refusal::NotAuthentic));
    assert_eq!(net.take(A, PathId(0), &cookie), Ok(Opened::Handshake { renewed: false }));
}

#[test]
fn whoever_has_not_the_keys_gets_nowhere() {
    let mut net = Net::agreed();
    let stranger = Key::generate().unwrap();
    // He knows our public keys, even.
    let keys = Keys { private: stranger.clone(), peer: net.keys[B].private.public(), preshared: Keys::NO_PRESHARED };
    let mut other = peer(keys);
    other.handle_timeout(secs(0), 5_000_000_000_000);
    let (_, initiation) = other.poll_transmit().unwrap();
    assert_eq!(net.take(B, PATH, &initiation), Err(Refusal::NotAuthentic));
    // One end has a preshared key.
    let mut with = peer(Keys { preshared: stranger, ..net.keys[A].clone() });
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

/// What somebody sends who knows the public key of an end and nothing else: an initiation that
/// costs as much as a real one.
fn forged(receiver: &Key, number: u64) -> Vec<u8> {
    let mut message = vec![0x5a; INITIATION_LEN];
    message[0] = INITIATION;
    message[1..4].fill(0);
    // The ephemeral key differs each time.
    message[8..16].copy_from_slice(&number.to_be_bytes());
    message[STAMPED..].fill(0);
    let stamped = stamp(receiver, &message[..STAMPED - STAMP]);
    message[STAMPED - STAMP..STAMPED].copy_from_slice(&stamped);
    message
}

#[test]
fn a_flood_that_says_it_is_the_peer_does_not_keep_the_peer_out() {
    let mut net = Net::new();
    let receiver = net.keys[B].private.public();
    let (mut looked_at, mut sent) = (0, 0_u64);
    for step in 0..1000 {
        net.now = Instant::ZERO + Duration::from_millis(10 * step);
        // From the peer's own address, and from a thousand others.
        for _ in 0..if step == 0 { 100 } else { 20 } {
            sent += 1;
            let from = if sent % 2 == 0 { at(A) } else { SocketAddr::from(([10, 7, (sent / 250) as u8, sent as u8], 5)) };
            let now = net.now;
            let result = net.ends[B].handle(now, PATH, (from, sent % 2 == 0), &forged(&receiver, sent), &mut vec![]);
            looked_at += u32::from(result == Err(Refusal::NotAuthentic));
            assert!(matches!(result, Err(Refusal::NotAuthentic | Refusal::Busy)), "{result:?}");
            // Cookies for the forged ones go where they say they come from: to the peer, who did
            // not ask.
            while let Some((To::Back(path, to), message)) = net.ends[B].poll_transmit() {
                assert!(message.len() < INITIATION_LEN);
                if to == at(A) {
                    let taken = net.take(A, path, &message);
                    assert!(matches!(taken, Err(Refusal::NotAuthentic | Refusal::NoSession)), "{taken:?}");
                }
            }
        }
        // What both ends have to say, as far as B takes it.
        for end in [A, B] {
            if net.ends[end].poll_timeout() <= net.now {
                let wall = net.wall();
                net.ends[end].handle_timeout(net.now, wall);
            }
            while let Some((to, message)) = net.ends[end].poll_transmit() {
                let (To::Path(path) | To::Back(path, _)) = to;
                // B's own initiations are lost: A alone can begin.
                if end == A || message[0] != INITIATION {
                    let _ = net.take(1 - end, path, &message);
                }
            }
        }
    }
    assert!(looked_at <= 2 * (11 * HANDSHAKES as u32), "{looked_at} of {sent}");
    assert!(net.ends[A].counters().cookies_received >= 1, "it was told to prove where it is");
    assert!(net.carries(A) && net.carries(B), "{:?}", net.ends[B].counters());
}

#[test]
fn an_address_that_proves_itself_gets_five_a_second_and_all_of_them_a_hundred() {
    let net = Net::new();
    let (mut end, receiver) = (peer(net.keys[B].clone()), net.keys[B].private.public());
    let mut number = 0;
    // Cookies as B gives them to each, which whoever gets them can use.
    let mut proven = |end: &mut Peer, now: Instant, from: SocketAddr| {
        number += 1;
        let mut message = forged(&receiver, number);
        let proof = mac(&end.made.cookies(now, from)[0], &message[..STAMPED]);
        message[STAMPED..].copy_from_slice(&proof);
        end.handle(now, PATH, (from, false), &message, &mut vec![]) == Err(Refusal::NotAuthentic)
    };
    let now = secs(10);
    let one = (0..1000).filter(|_| proven(&mut end, now, at(7))).count();
    assert_eq!(one, EACH as usize);
    let many = (0..4000_u32).filter(|n| proven(&mut end, now, SocketAddr::from(([10, (n >> 8) as u8, *n as u8, 1], 5)))).count();
    assert_eq!(many + one, ALL_PROVEN as usize, "however many there are");
    // A proof of another address, or an old one, is none.
    let mut foreign = forged(&receiver, 0);
    let proof = mac(&end.made.cookies(now, at(8))[0], &foreign[..STAMPED]);
    foreign[STAMPED..].copy_from_slice(&proof);
    assert!(!end.made.cookies(now, at(9)).iter().any(|cookie| mac(cookie, &foreign[..STAMPED]) == proof));
    assert!(end.made.cookies(secs(130), at(8)).iter().any(|cookie| mac(cookie, &foreign[..STAMPED]) == proof));
    assert!(!end.made.cookies(secs(400), at(8)).iter().any(|cookie| mac(cookie, &foreign[..STAMPED]) == proof));
}

#[test]
fn a_response_that_nobody_awaits_costs_nothing() {
    let mut net = Net::new();
    net.settle(true);
    let receiver = net.keys[B].private.public();
    let mut response = vec![0; RESPONSE_LEN];
    response[0] = RESPONSE;
    let stamped = stamp(&receiver, &response[..RESPONSE_LEN - STAMP]);
    response[RESPONSE_LEN - STAMP..].copy_from_slice(&stamped);
    for _ in 0..1000 {
        let result = net.ends[B].handle(secs(0), PATH, (at(A), true), &response, &mut vec![]);
        assert_eq!(result, Err(Refusal::NoSession));
    }
    net.now = secs(3);
    net.settle(false);
    assert!(net.carries(A) && net.carries(B), "the real one is taken");
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
            // A proof that nobody asked for says nothing.
            if changed[0] != INITIATION || place < STAMPED {
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
            *first = [INITIATION, RESPONSE, DATA, COOKIE, *first][usize::from(kind)];
        }
        prop_assert!(net.take(A, PATH, &bytes).is_err());
        prop_assert!(net.carries(A) && net.carries(B));
    }
}
