//! The order of messages, what is asked for, and what a peer that runs ahead or lies can do.

use super::*;
use crate::rudp::wire;
use crate::session::Allowance;

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn incoming() -> (Incoming, Inbox) {
    (
        Incoming::new(Duration::from_millis(100), Duration::from_millis(800)),
        Inbox::new(1 << 20),
    )
}

fn asked(incoming: &mut Incoming, millis: u64) -> Vec<u16> {
    let mut ids = Vec::new();
    incoming.ask(at(millis), Duration::ZERO, 512, &mut ids);
    ids
}

#[test]
fn gaps_are_asked_for_at_once_then_ever_more_rarely() {
    let (mut incoming, mut inbox) = incoming();
    assert_eq!(incoming.take(at(0), 3, b"d", &mut inbox), Taken::New);
    let rounds: Vec<_> = (0..3000)
        .filter(|millis| !asked(&mut incoming, *millis).is_empty())
        .collect();
    assert_eq!(rounds, [0, 100, 300, 700, 1500, 2300]);
}

#[test]
fn a_new_gap_is_asked_for_with_the_oldest_one() {
    let (mut incoming, mut inbox) = incoming();
    incoming.take(at(0), 2, b"", &mut inbox);
    assert_eq!(asked(&mut incoming, 0), [0, 1]);
    incoming.take(at(10), 4, b"", &mut inbox);
    assert_eq!(asked(&mut incoming, 10), [0, 3]);
    incoming.take(at(20), 1, b"", &mut inbox);
    assert_eq!(asked(&mut incoming, 20), [], "nothing new is missing");
    incoming.take(at(30), 0, b"", &mut inbox);
    let delivered = incoming.deliver(at(30), Duration::ZERO, false, &mut inbox);
    assert_eq!(delivered.messages, 3);
    assert_eq!(asked(&mut incoming, 30), []);
    assert_eq!(asked(&mut incoming, 100), [3]);
}

#[test]
fn a_far_id_costs_one_small_output_not_a_storm() {
    let (mut incoming, mut inbox) = incoming();
    assert_eq!(incoming.take(at(0), 1024, b"x", &mut inbox), Taken::Ahead);
    assert_eq!(incoming.take(at(0), 40_000, b"x", &mut inbox), Taken::Ahead);
    assert_eq!(incoming.take(at(0), 1023, b"x", &mut inbox), Taken::New);
    assert_eq!(asked(&mut incoming, 0).len(), 170);
    let total: usize = (1..1000).map(|t| asked(&mut incoming, t).len()).sum();
    assert_eq!(total, 3 * 170, "at 100, 300 and 700 ms");
}

/// A single datagram claims few places: many are for a peer of whom much waits.
#[test]
fn a_window_is_long_once_many_wait_in_it() {
    let (mut incoming, mut inbox) = incoming();
    let mut take = |id| incoming.take(at(0), id, b"", &mut inbox);
    for id in 1..256 {
        assert_eq!(take(id), Taken::New);
    }
    assert_eq!(take(4_095), Taken::Ahead);
    assert_eq!(take(256), Taken::New);
    assert_eq!(take(4_095), Taken::New);
    assert_eq!(take(4_096), Taken::Ahead);
}

/// Places take memory, whether a message came for them or not: who claims them holds it, and where memory is short gets
/// no more than is allowed.
#[test]
fn places_are_held_like_messages() {
    let (mut incoming, mut inbox) = incoming();
    incoming.take(at(0), 10, b"", &mut inbox);
    assert_eq!(incoming.held(), MESSAGE_OVERHEAD, "a usual gap");
    let ahead = |ahead| Allowance {
        ahead,
        ..Allowance::UNLIMITED
    };
    inbox.set_allowance(ahead(4_800));
    assert_eq!(incoming.take(at(0), 200, b"", &mut inbox), Taken::Ahead);
    assert_eq!(
        incoming.take(at(0), 199, b"", &mut inbox),
        Taken::New,
        "24 bytes each"
    );
    inbox.set_allowance(ahead(1));
    assert_eq!(incoming.take(at(0), 200, b"", &mut inbox), Taken::Ahead);
    incoming.on_refused(at(0), 200, &inbox);
    assert_eq!(incoming.window.len(), 200);
    inbox.set_allowance(Allowance::UNLIMITED);
    assert_eq!(incoming.take(at(0), 1_023, b"", &mut inbox), Taken::New);
    assert_eq!(
        incoming.held(),
        3 * MESSAGE_OVERHEAD + (1_024 - 64) * PLACE_BYTES
    );
    for id in (0..1_022).filter(|id| ![10, 199].contains(id)) {
        incoming.take(at(0), id, b"", &mut inbox);
    }
    incoming.deliver(at(0), Duration::ZERO, false, &mut inbox);
    assert_eq!(incoming.window.len(), 2);
    assert!(
        incoming.held() > 960 * PLACE_BYTES,
        "until the gap is closed"
    );
    incoming.take(at(0), 1_022, b"", &mut inbox);
    incoming.deliver(at(0), Duration::ZERO, false, &mut inbox);
    assert_eq!(incoming.held(), 0);
}

/// A new session is silent until then: what it says first would make what is missing unfetchable.
#[test]
fn all_is_there_from_the_start_when_nothing_is_missing() {
    let (mut incoming, mut inbox) = incoming();
    let mut none_sent = Vec::new();
    wire::emit_missing(&mut none_sent, 0);
    let has_all = |incoming: &Incoming, said: &[u8]| {
        incoming.has_all_from_the_start(wire::parse(said).unwrap())
    };
    assert!(!has_all(&incoming, &[]), "it may have sent some");
    assert!(has_all(&incoming, &none_sent));
    incoming.take(at(0), 0, b"", &mut inbox);
    assert!(has_all(&incoming, &[]));
    incoming.take(at(0), 2, b"", &mut inbox);
    assert!(!has_all(&incoming, &none_sent), "one is on its way");
    incoming.take(at(0), 1, b"", &mut inbox);
    incoming.deliver(at(0), Duration::ZERO, false, &mut inbox);
    assert!(has_all(&incoming, &[]));
}

/// Whoever forges a message from far ahead now and then must not end a session that goes on.
#[test]
fn a_message_that_is_delivered_shows_that_nobody_ran_ahead() {
    let (mut incoming, mut inbox) = incoming();
    for id in 0..20 {
        let forged = 5_000 + id;
        assert_eq!(incoming.take(at(0), forged, b"x", &mut inbox), Taken::Ahead);
        let next = incoming.take(at(0), id, b"y", &mut inbox);
        assert_eq!(next, Taken::Delivered);
    }
    assert_eq!(incoming.gap_since(), None);
}

#[test]
fn a_peer_that_ran_ahead_left_a_gap() {
    let (mut incoming, mut inbox) = incoming();
    for id in [5000, 5001, 5002] {
        assert_eq!(incoming.take(at(0), id, b"x", &mut inbox), Taken::Ahead);
    }
    assert_eq!(incoming.gap_since(), None);
    assert_eq!(incoming.take(at(5), 5002, b"x", &mut inbox), Taken::Ahead);
    assert_eq!(incoming.gap_since(), Some(at(5)));
    assert_eq!(asked(&mut incoming, 5).len(), 170);
    incoming.on_missing(at(6), 0);
    let delivered = incoming.deliver(at(6), Duration::ZERO, false, &mut inbox);
    assert!(delivered.is_broken, "it is believed");
}

/// However far that was, and though nothing more is heard from there.
#[test]
fn what_a_peer_ran_ahead_by_is_not_forgotten() {
    let (mut incoming, mut inbox) = incoming();
    for id in [9_000, 8_999, 8_998, 8_997] {
        assert_eq!(incoming.take(at(0), id, b"x", &mut inbox), Taken::Ahead);
    }
    for id in 0..8_996 {
        assert_eq!(incoming.take(at(5), id, b"", &mut inbox), Taken::New);
        assert!(incoming.window.len() <= WINDOW_AT_FIRST, "{id}");
        incoming.deliver(at(5), Duration::ZERO, false, &mut inbox);
    }
    assert_eq!(asked(&mut incoming, 600), [8_996]);
    incoming.on_missing(at(600), 8_996);
    let delivered = incoming.deliver(at(600), Duration::ZERO, false, &mut inbox);
    assert!(delivered.is_broken, "it is believed");
}

/// A gap that was left open because we refused what closes it does not count against the peer.
#[test]
fn what_waited_for_us_waits_for_the_peer_from_now_on() {
    let (mut incoming, mut inbox) = incoming();
    incoming.take(at(0), 3, b"d", &mut inbox);
    assert_eq!(asked(&mut incoming, 0), [0, 1, 2]);
    assert_eq!(asked(&mut incoming, 50), []);
    incoming.ask_soon(at(50));
    assert_eq!(incoming.gap_since(), Some(at(50)));
    assert_eq!(asked(&mut incoming, 50), [0, 1, 2]);
}

/// Within the window; what is beyond it may be forged.
#[test]
fn what_was_refused_is_asked_for() {
    let (mut incoming, mut inbox) = incoming();
    assert_eq!(incoming.take(at(0), 0, b"", &mut inbox), Taken::Delivered);
    for outside in [0, 1025, 0x8000] {
        incoming.on_refused(at(0), outside, &inbox);
    }
    assert_eq!(
        (asked(&mut incoming, 0), incoming.gap_since()),
        (vec![], None)
    );
    incoming.on_refused(at(5), 2, &inbox);
    assert_eq!(incoming.gap_since(), Some(at(5)));
    assert_eq!(asked(&mut incoming, 5), [1, 2]);
    incoming.on_refused(at(6), 1024, &inbox);
    assert_eq!(asked(&mut incoming, 6)[..3], [1, 3, 4]);
}

#[test]
fn missing_counts_only_below_the_highest_message_and_loses_to_the_real_one() {
    let (mut incoming, mut inbox) = incoming();
    incoming.on_missing(at(0), 0);
    incoming.take(at(0), 1, b"b", &mut inbox);
    assert_eq!(
        incoming.grace_ends_at(Duration::ZERO),
        None,
        "it was not believed"
    );
    incoming.on_missing(at(0), 0);
    let grace = Duration::from_millis(50);
    let waiting = incoming.deliver(at(49), grace, true, &mut inbox);
    assert_eq!(waiting, Delivered::default());
    incoming.take(at(49), 0, b"a", &mut inbox);
    let delivered = incoming.deliver(at(60), grace, true, &mut inbox);
    assert_eq!((delivered.messages, delivered.skipped), (2, 0));

    incoming.take(at(60), 3, b"d", &mut inbox);
    incoming.on_missing(at(60), 2);
    assert!(
        incoming
            .deliver(at(110), grace, false, &mut inbox)
            .is_broken
    );
    let skipped = incoming.deliver(at(110), grace, true, &mut inbox);
    assert_eq!((skipped.messages, skipped.skipped), (1, 1));
}

#[test]
fn duplicates_and_other_lives_are_told_apart() {
    let (mut incoming, mut inbox) = incoming();
    for id in 0..3000u16 {
        assert_eq!(incoming.take(at(0), id, b"", &mut inbox), Taken::Delivered);
    }
    let mut take = |id| incoming.take(at(0), id, b"", &mut inbox);
    assert_eq!(
        [2999, 1976, 1975, 3].map(&mut take),
        [
            Taken::Duplicate,
            Taken::Duplicate,
            Taken::Behind,
            Taken::Behind
        ]
    );
}

#[test]
fn stored_bytes_are_bounded_and_the_next_message_always_fits() {
    let (mut incoming, mut inbox) = incoming();
    let payload = vec![0; 1400];
    let stored = (1..1000u16)
        .filter(|id| incoming.take(at(0), *id, &payload, &mut inbox) == Taken::New)
        .count();
    assert!(stored * 1400 < STORED_BYTES_MAX && stored > 170, "{stored}");
    let held = stored * (1400 + MESSAGE_OVERHEAD);
    assert_eq!(incoming.stored_bytes, held);
    let rest = vec![0; STORED_BYTES_MAX - held - MESSAGE_OVERHEAD];
    let longer = [&rest[..], &[0]].concat();
    assert_eq!(
        incoming.take(at(0), 1000, &longer, &mut inbox),
        Taken::NoRoom
    );
    assert_eq!(incoming.window.len(), 1001, "it was sent: it is asked for");
    assert_eq!(incoming.take(at(0), 1000, &rest, &mut inbox), Taken::New);
    assert_eq!(incoming.take(at(0), 0, &payload, &mut inbox), Taken::New);
    incoming.deliver(at(0), Duration::ZERO, false, &mut inbox);
    assert!(incoming.stored_bytes < held);
    incoming.release();
    assert_eq!(incoming.held(), 0);
}

/// Ids are as young as the peer is slow: what shows that it began anew is how long ago it said the same.
#[test]
fn what_was_delivered_long_ago_is_said_by_another_life_only() {
    let (mut incoming, mut inbox) = incoming();
    let mut taken = |millis, id: u16| {
        let taken = incoming.take(at(millis), id, b"x", &mut inbox);
        incoming.deliver(at(millis), Duration::ZERO, false, &mut inbox);
        taken
    };
    for id in 0..250_u16 {
        let millis = 100 * u64::from(id);
        assert_eq!(taken(millis, id), Taken::Delivered);
        let last = id.saturating_sub(99);
        assert_eq!(taken(millis, last), Taken::Duplicate, "it may be late");
    }
    assert_eq!(taken(25_000, 0), Taken::Behind);
    assert_eq!(taken(25_000, 99), Taken::Behind);
    assert_eq!(taken(25_000, 250), Taken::Delivered);
}
