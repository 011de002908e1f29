//! The endpoint's own duties, shown with a protocol small enough to read at a glance: a session
//! echoes each datagram, `!` ends it, `+` proves that it comes from the peer wherever it comes from, `@` that it comes from
//! the peer that was accepted from this port, and between two `#` it takes no messages. `%` is such a proof in a datagram
//! that is no good, `~` puts off when it wants to be woken, and an echo of `^` is urgent.

mod follow;
mod handover;
mod turns;

use std::collections::VecDeque;

use super::*;
use crate::session::{Stranger, Verdict};
use crate::time::{Deadline, Timestamp, Wake};

struct Echo {
    name: String,
    out: VecDeque<Vec<u8>>,
    events: VecDeque<Event>,
    wakes: Option<Timestamp>,
    woken: u64,
    is_full: bool,
    is_released: bool,
    stats: Stats,
}

impl Echo {
    fn new(from: SocketAddr, wakes: Option<Timestamp>) -> Self {
        let events = [Event::Authenticated].into();
        Self {
            name: format!("@{}", from.port()),
            out: VecDeque::new(),
            events,
            wakes,
            woken: 0,
            is_full: false,
            is_released: false,
            stats: Stats::default(),
        }
    }
}

impl Session for Echo {
    fn handle_datagram(&mut self, now: Now, datagram: &mut [u8]) -> Result<(), Reject> {
        match datagram {
            [] | [b'%', ..] => return Err(Reject::Malformed),
            [b'@', ..] if *datagram != *self.name.as_bytes() => {
                // As a cipher does that opens in place.
                datagram.fill(0);
                return Err(Reject::DecryptFailed);
            }
            [b'!', ..] => self.close(now, CloseReason::PeerDisconnect),
            [b'#', ..] => self.is_full = !self.is_full,
            [b'~', ..] => self.wakes = Some(now.mono + Duration::from_secs(1)),
            other => self.out.push_back(other.to_vec()),
        }
        self.stats.packets_received += 1;
        Ok(())
    }
    fn handle_timeout(&mut self, now: Now) {
        self.woken += 1;
        self.out.push_back(b"woken".to_vec());
        self.wakes = Some(now.mono + Duration::from_secs(1));
    }
    fn admit(&mut self, _now: Now) {
        self.events.push_back(Event::Connected);
    }
    fn send(&mut self, _now: Now, _channel: Channel, payload: &[u8]) -> Result<(), SendError> {
        self.out.push_back(payload.to_vec());
        Ok(())
    }
    fn finish(&mut self, now: Now, reason: CloseReason, _linger: Duration) {
        self.close(now, reason);
    }
    fn close(&mut self, _now: Now, reason: CloseReason) {
        self.wakes = None;
        self.events.push_back(Event::Closed(reason));
    }
    fn poll_transmit(&mut self, _now: Now, out: &mut Vec<u8>) -> bool {
        let Some(datagram) = self.out.pop_front() else {
            return false;
        };
        out.extend_from_slice(&datagram);
        true
    }
    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
    fn poll_message(&mut self) -> Option<Message<'_>> {
        None
    }
    fn inbox_bytes(&self) -> usize {
        0
    }
    fn held(&self) -> Held {
        Held {
            ahead: usize::from(!self.is_released),
            ..Held::default()
        }
    }
    fn set_allowance(&mut self, _allowance: Allowance) {}
    fn release(&mut self) {
        self.is_released = true;
    }
    fn is_urgent(&self) -> bool {
        self.out.front().is_some_and(|next| next.starts_with(b"^"))
    }
    fn has_room(&self) -> bool {
        !self.is_full
    }
    fn poll_timeout(&self) -> Option<Deadline> {
        self.wakes.map(|at| Deadline {
            at,
            why: Wake::Idle,
        })
    }
    fn vouches_for(&self, datagram: &[u8]) -> bool {
        matches!(datagram.first(), Some(b'+' | b'!' | b'%')) || datagram == self.name.as_bytes()
    }
    fn reads_as_goodbye(&self, datagram: &[u8]) -> bool {
        matches!(datagram.first(), Some(b'!' | b'?'))
    }
    fn identity(&self) -> Identity<'_> {
        Identity::default()
    }
    fn stats(&self) -> Stats {
        self.stats
    }
}

/// Accepts `hello`, answers `ask` with an answer that is far too long and `deny` with a refusal, has an answer to `late`
/// that it thinks better of, keeps the handshake that `knock` begins for a second, knows nobody else.
struct EchoAcceptor {
    wakes: Option<Timestamp>,
    knocked: Option<Timestamp>,
}

impl Acceptor for EchoAcceptor {
    fn handle_unknown(&mut self, now: Now, stranger: Stranger<'_>) -> Verdict {
        match &*stranger.datagram {
            b"hello" => Verdict::Accept(Box::new(Echo::new(stranger.from, self.wakes))),
            b"ask" => {
                stranger.reply.extend_from_slice(&[0; 100]);
                Verdict::Reply
            }
            b"deny" => {
                stranger.reply.extend_from_slice(b"no");
                Verdict::Deny(Reject::Full)
            }
            b"late" => {
                stranger.reply.extend_from_slice(b"yes");
                Verdict::Reject(Reject::Unexpected)
            }
            b"knock" => {
                self.knocked = Some(now.mono);
                Verdict::Reply
            }
            _ => Verdict::Reject(Reject::UnknownPeer),
        }
    }
    fn handle_timeout(&mut self, _now: Now) {
        self.knocked = None;
    }
    fn poll_timeout(&self) -> Option<Deadline> {
        self.knocked.map(|at| Deadline {
            at: at + Duration::from_secs(1),
            why: Wake::Idle,
        })
    }
    fn pending(&self) -> usize {
        usize::from(self.knocked.is_some())
    }
}

fn at(millis: u64) -> Now {
    Now {
        mono: Timestamp::from_millis(millis),
        unix_secs: 0,
    }
}

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn endpoint(wakes: Option<Timestamp>, params: Params) -> Endpoint {
    let acceptor = EchoAcceptor {
        wakes,
        knocked: None,
    };
    Endpoint::new(Box::new(acceptor), params)
}

fn accept(endpoint: &mut Endpoint, port: u16) -> PeerId {
    match endpoint.handle_datagram(
        at(0),
        address(port),
        &mut b"hello".to_vec(),
        &mut Vec::new(),
    ) {
        Handled::Accepted(id) => id,
        other => panic!("not accepted: {other:?}"),
    }
}

/// A datagram with this text arrives; nothing is to be said at once.
fn hear(endpoint: &mut Endpoint, port: u16, text: &str, millis: u64) -> Handled {
    let (mut datagram, mut reply) = (Vec::from(text), Vec::new());
    endpoint.handle_datagram(at(millis), address(port), &mut datagram, &mut reply)
}

fn drain(endpoint: &mut Endpoint, now: Now) -> Vec<(SocketAddr, Vec<u8>)> {
    let mut all = Vec::new();
    let mut out = Vec::new();
    while let Some((_, to)) = endpoint.poll_transmit(now, &mut out) {
        all.push((to, std::mem::take(&mut out)));
    }
    all
}

#[test]
fn datagrams_go_to_their_peers_and_answers_back() {
    let mut endpoint = endpoint(None, Params::default());
    let peers: Vec<_> = (1..=3).map(|port| accept(&mut endpoint, port)).collect();
    for (port, text) in [(2, "two"), (1, "one"), (2, "zwei")] {
        let handled =
            endpoint.handle_datagram(at(1), address(port), &mut Vec::from(text), &mut Vec::new());
        assert_eq!(handled, Handled::Peer(peers[port as usize - 1]));
    }
    let mut sent = drain(&mut endpoint, at(1));
    sent.sort();
    let expected =
        [(1, "one"), (2, "two"), (2, "zwei")].map(|(port, text)| (address(port), text.into()));
    assert_eq!(sent, expected);
    let events: Vec<_> = std::iter::from_fn(|| endpoint.poll_event()).collect();
    assert_eq!(events.len(), 3, "each was authenticated once: {events:?}");
}

#[test]
fn no_answer_to_a_stranger_is_longer_than_its_question() {
    let mut endpoint = endpoint(None, Params::default());
    let mut reply = Vec::new();
    assert_eq!(
        endpoint.handle_datagram(at(0), address(9), &mut b"ask".to_vec(), &mut reply),
        Handled::Replied
    );
    assert!(reply.is_empty(), "{} bytes for 3", reply.len());
    let fits = |question, answer| Stranger::may_reply(question, answer);
    assert!(fits(1, 6) && !fits(1, 7), "1.2 times as long, with headers");
    assert!(fits(972, 1_172) && !fits(972, 1_173));
    for _ in 0..2 {
        let handled =
            endpoint.handle_datagram(at(0), address(9), &mut b"deny".to_vec(), &mut reply);
        assert_eq!(
            (handled, reply.as_slice()),
            (Handled::Rejected(Reject::Full), b"no".as_slice()),
            "once each, in a buffer that is used again"
        );
    }
    let handled = endpoint.handle_datagram(at(0), address(9), &mut b"late".to_vec(), &mut reply);
    assert_eq!(
        (handled, reply.as_slice()),
        (Handled::Rejected(Reject::Unexpected), b"".as_slice())
    );
}

/// A peer that closed stays until its owner has let go of it, which a slow stream may put off for seconds. A newcomer
/// whom the acceptor has seated would be thrown away meanwhile, and its token with it.
#[test]
fn a_closed_peer_keeps_nobody_out() {
    let params = Params {
        peers_max: 1,
        ..Params::default()
    };
    let mut endpoint = endpoint(None, params);
    let first = accept(&mut endpoint, 1);
    assert_eq!(
        hear(&mut endpoint, 2, "hello", 1),
        Handled::Rejected(Reject::Full)
    );
    endpoint.close(at(2), first, CloseReason::Kicked);
    let second = accept(&mut endpoint, 2);
    endpoint.let_go(first);
    drain(&mut endpoint, at(3));
    assert_eq!(
        hear(&mut endpoint, 3, "hello", 4),
        Handled::Rejected(Reject::Full)
    );
    endpoint.let_go(second);
    drain(&mut endpoint, at(5));
    accept(&mut endpoint, 3);
}

#[test]
fn a_closed_peer_frees_its_address_at_once_and_its_name_for_ever() {
    let mut endpoint = endpoint(None, Params::default());
    let old = accept(&mut endpoint, 1);
    assert_ne!(endpoint.held(old), Held::default());
    endpoint.close(at(0), old, CloseReason::Kicked);
    assert_eq!(endpoint.find(address(1)), None);
    assert_eq!(endpoint.held(old), Held::default(), "nor is anything kept");
    let new = accept(&mut endpoint, 1);
    endpoint.let_go(old);
    drain(&mut endpoint, at(0));
    assert!(
        endpoint.find(address(1)).is_some(),
        "the address belongs to the new peer"
    );
    let third = accept(&mut endpoint, 2);
    assert_eq!(
        (third.slot(), third == old),
        (old.slot(), false),
        "same slot, another tenant"
    );
    assert_eq!(
        endpoint.send(at(0), old, 0, b"late"),
        Err(SendError::Closed)
    );
    assert_eq!(endpoint.send(at(0), new, 0, b"fine"), Ok(()));
}

#[test]
fn who_was_found_last_is_found_again_only_while_the_address_is_theirs() {
    let mut endpoint = endpoint(None, Params::default());
    let old = accept(&mut endpoint, 1);
    let other = accept(&mut endpoint, 2);
    for port in [1, 1, 2, 1] {
        let expected = if port == 1 { old } else { other };
        assert_eq!(endpoint.find(address(port)), Some(expected));
    }
    endpoint.close(at(0), old, CloseReason::Kicked);
    assert_eq!(endpoint.find(address(1)), None, "it closed");
    let new = accept(&mut endpoint, 1);
    assert_eq!(endpoint.find(address(1)), Some(new));
    let mut moved = b"+moved".to_vec();
    let handled = endpoint.handle_datagram(at(400), address(3), &mut moved, &mut Vec::new());
    let Handled::Moved(follower) = handled else {
        panic!("nobody followed: {handled:?}");
    };
    let left = if follower == new { 1 } else { 2 };
    assert_eq!(endpoint.find(address(left)), None, "it moved");
    assert_eq!(endpoint.find(address(3)), Some(follower));
}

#[test]
fn who_has_no_room_is_awaited_until_that_is_polled_or_nobody_is_there() {
    let mut endpoint = endpoint(None, Params::default());
    let ids = [1, 2].map(|port| accept(&mut endpoint, port));
    for (id, port) in ids.into_iter().zip([1, 2]) {
        hear(&mut endpoint, port, "#", 1);
        endpoint.await_room(id);
        endpoint.await_room(id);
    }
    drain(&mut endpoint, at(1));
    assert_eq!((endpoint.awaited(), endpoint.poll_room()), (2, None));
    hear(&mut endpoint, 1, "#", 2);
    drain(&mut endpoint, at(2));
    assert_eq!(endpoint.awaited(), 2, "nobody was told yet");
    assert_eq!(endpoint.poll_room(), Some(ids[0]));
    assert_eq!((endpoint.awaited(), endpoint.poll_room()), (1, None));
    endpoint.take_out(ids[1]);
    assert_eq!(endpoint.awaited(), 0);
}

/// Its stream is not read before that, and would never end.
#[test]
fn who_is_over_is_not_awaited_for_ever() {
    let mut endpoint = endpoint(None, Params::default());
    let id = accept(&mut endpoint, 1);
    hear(&mut endpoint, 1, "#", 1);
    endpoint.await_room(id);
    drain(&mut endpoint, at(1));
    assert_eq!(endpoint.poll_room(), None);
    endpoint.close(at(2), id, CloseReason::Kicked);
    drain(&mut endpoint, at(2));
    assert_eq!(endpoint.poll_room(), Some(id));
}

#[test]
fn an_entry_of_the_timers_is_stale_when_an_earlier_one_took_its_place() {
    let id = accept(&mut endpoint(None, Params::default()), 1);
    let (mut timers, mut scheduled) = (Timers::default(), Scheduled::default());
    let at = Timestamp::from_millis;
    for millis in [500, 300, 400] {
        timers.schedule(id, at(millis), &mut scheduled);
    }
    assert_eq!(timers.pop_due(at(299)), None);
    assert_eq!(timers.pop_due(at(900)), Some((at(300), id)));
    assert!(scheduled.take(at(300)));
    assert!(!scheduled.take(at(300)), "it was taken");
    assert_eq!(timers.next(), Some(at(500)), "400 is later than 300");
    assert_eq!(timers.pop_due(at(900)), Some((at(500), id)));
    assert!(!scheduled.take(at(500)));
    assert_eq!(timers.pop_due(at(900)), None);
    timers.schedule(id, at(800), &mut scheduled);
    assert!(
        scheduled.take(at(800)),
        "what was taken does not stand in the way"
    );
}

/// Thousands may be told to go at once, and others play meanwhile.
#[test]
fn those_who_are_over_speak_behind_those_who_play() {
    let mut endpoint = endpoint(None, Params::default());
    let peers = [1, 2, 3].map(|port| accept(&mut endpoint, port));
    drain(&mut endpoint, at(0));
    for id in &peers[..2] {
        endpoint.send(at(1), *id, 0, b"last words").unwrap();
        endpoint.close(at(1), *id, CloseReason::Kicked);
    }
    endpoint.let_go(peers[0]);
    endpoint.send(at(1), peers[2], 0, b"news").unwrap();
    let mut out = Vec::new();
    let first = endpoint.poll_playing(at(1), &mut out);
    assert_eq!(first, Some((peers[2], address(3))));
    assert_eq!(endpoint.poll_playing(at(1), &mut out), None);
    let rest = drain(&mut endpoint, at(1)).into_iter().map(|(to, _)| to);
    assert_eq!(rest.collect::<Vec<_>>(), [address(1), address(2)]);
    assert_eq!(endpoint.len(), 2, "whom nobody holds is forgotten");
}

#[test]
fn a_drain_turns_strangers_away_and_keeps_peers() {
    let mut endpoint = endpoint(None, Params::default());
    let peer = accept(&mut endpoint, 1);
    endpoint.set_refusing(Some(Reject::Draining));
    let mut from = |port: u16, text: &str| {
        endpoint.handle_datagram(
            at(500),
            address(port),
            &mut Vec::from(text),
            &mut Vec::new(),
        )
    };
    assert_eq!(from(2, "hello"), Handled::Rejected(Reject::Draining));
    assert_eq!(from(1, "still here"), Handled::Peer(peer));
    assert_eq!(
        from(3, "+moved"),
        Handled::Rejected(Reject::Draining),
        "it was heard just now"
    );
    let moved = hear(&mut endpoint, 3, "+moved", 900);
    assert_eq!(moved, Handled::Moved(peer), "no stranger");
}

/// What is kept of addresses, to find who moved, is kept of those who are there: of a million players who came and went
/// nothing is left.
#[test]
fn who_left_or_moved_is_looked_for_nowhere_else() {
    let mut endpoint = endpoint(None, Params::default());
    let behind = |endpoint: &Endpoint| {
        let all = endpoint.peers.behind(address(1).ip(), 1);
        all.collect::<Vec<_>>()
    };
    let [gone, closed, moved] = [1, 2, 3].map(|port| accept(&mut endpoint, port));
    assert_eq!(behind(&endpoint), [gone, closed, moved]);
    endpoint.let_go(gone);
    drain(&mut endpoint, at(1));
    endpoint.close(at(1), closed, CloseReason::Kicked);
    assert_eq!(behind(&endpoint), [moved]);
    endpoint.peers.move_to(moved, address(4));
    assert_eq!(behind(&endpoint), [moved], "once");
}

/// However long a walk takes, and whoever comes and goes meanwhile.
#[test]
fn a_survey_counts_each_session_once() {
    let mut endpoint = endpoint(None, Params::default());
    let peers = [1, 2, 3].map(|port| accept(&mut endpoint, port));
    for port in 1..=3 {
        hear(&mut endpoint, port, "x", 1);
    }
    for _ in 0..2 {
        endpoint.begin_survey();
        assert_eq!(endpoint.survey(1, |_, _, _, _| {}), None, "there are more");
        let visited = peers.map(|peer| endpoint.is_surveyed(peer));
        assert_eq!(visited, [true, false, false]);
        for gone in [peers[0], peers[2]] {
            endpoint.let_go(gone);
            drain(&mut endpoint, at(2));
        }
        let mut seen = Vec::new();
        let total = endpoint.survey(usize::MAX, |peer, _, _, _| seen.push(peer));
        assert_eq!(seen, [peers[1]]);
        assert_eq!(total.map(|total| total.packets_received), Some(3));
    }
}

#[test]
fn counters_outlive_their_sessions() {
    let mut endpoint = endpoint(None, Params::default());
    let peer = accept(&mut endpoint, 1);
    endpoint.handle_datagram(at(1), address(1), &mut b"x".to_vec(), &mut Vec::new());
    endpoint.let_go(peer);
    assert_eq!(
        drain(&mut endpoint, at(1)).len(),
        1,
        "what was to be sent still leaves"
    );
    assert_eq!(endpoint.retired().packets_received, 1);
    assert!(endpoint.is_empty());
}
