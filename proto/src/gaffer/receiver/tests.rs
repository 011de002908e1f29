//! What is judged, kept and delivered, and in which order.

use super::*;
use crate::gaffer::wire;
use crate::session::Allowance;

/// A receiver, and what it delivered.
struct Far {
    receiver: Receiver,
    inbox: Inbox,
    delivered: usize,
}

impl Far {
    fn new() -> Self {
        Self {
            receiver: Receiver::new(Timestamp::ZERO, 1024),
            inbox: Inbox::new(4 << 20),
            delivered: 0,
        }
    }

    /// One packet with these messages, all of one payload.
    fn receive(&mut self, ids: &[u16], payload: &[u8]) -> Result<(), Reject> {
        let mut packet = Vec::new();
        for id in ids {
            wire::emit_reliable(*id, (payload, &[]), &mut packet);
        }
        let records = wire::parse(&packet).expect("own bytes");
        self.receiver.judge(records, true, &self.inbox)?;
        self.receiver
            .apply(Timestamp::ZERO, records, &mut self.inbox);
        assert!(self.receiver.stored_bytes <= STORED_BYTES_MAX);
        while self.inbox.pop().is_some() {
            self.delivered += 1;
        }
        Ok(())
    }

    /// One packet with one message that nobody sends again.
    fn receive_unreliable(&mut self, payload: &[u8]) -> Result<(), Reject> {
        let mut packet = Vec::new();
        wire::emit_unreliable((payload, &[]), &mut packet);
        let records = wire::parse(&packet).expect("own bytes");
        self.receiver.judge(records, true, &self.inbox)
    }

    /// One packet with one fragment, with as many bytes as it may have or `length` at the end.
    fn receive_fragment(
        &mut self,
        id: u16,
        (index, last): (u8, u8),
        length: usize,
    ) -> Result<Brought, Reject> {
        let is_last = index == last;
        let bytes = vec![7; if is_last { length } else { FRAGMENT_BYTES }];
        let mut packet = Vec::new();
        wire::emit_fragment(id, index, last, (&bytes, &[]), &mut packet);
        let records = wire::parse(&packet).expect("own bytes");
        self.receiver.judge(records, true, &self.inbox)?;
        let inbox = &mut self.inbox;
        Ok(self.receiver.apply(Timestamp::ZERO, records, inbox))
    }

    /// Of these messages, each in a packet of its own, the number that was taken.
    fn fill(&mut self, ids: std::ops::Range<u16>, payload: &[u8]) -> usize {
        ids.filter(|id| self.receive(&[*id], payload).is_ok())
            .count()
    }
}

/// As many fit as there is room for, without the reserve.
fn full(payload: &[u8]) -> usize {
    (STORED_BYTES_MAX - STORED_BYTES_RESERVE) / (payload.len() + MESSAGE_OVERHEAD)
}

/// A store filled to the brim still takes what empties it, whatever comes with it.
#[test]
fn a_packet_that_closes_a_gap_has_room_of_its_own() {
    let (mut far, payload) = (Far::new(), [7; 250]);
    assert_eq!(far.fill(4..1024, &payload), full(&payload));
    // The first of four missing messages frees nothing.
    assert_eq!(far.receive(&[0, 1010, 1011, 1012], &payload), Ok(()));
    assert_eq!(far.fill(1013..1024, &payload), 0, "full for all others");
    let copies = [1, 4, 5, 1010];
    assert_eq!(far.receive(&copies, &payload), Ok(()));
    assert_eq!(far.receive(&copies[1..], &payload), Ok(()), "nothing new");
    assert_eq!(far.receive(&[3], &payload), Err(Reject::Refused));
    // What a packet delivers frees what waits, and is no burden itself.
    assert_eq!(far.receive(&[2, 3, 1020, 1021], &payload), Ok(()));
    assert_eq!(far.delivered, 4 + full(&payload));
}

/// A peer that brings the next message again and again, and more beside it than that sets free.
#[test]
fn nobody_gets_more_room_than_there_is() {
    let (mut far, payload) = (Far::new(), [7; 500]);
    for place in 0..full(&payload) as u16 {
        assert_eq!(far.receive(&[2 * place + 1], &payload), Ok(()));
    }
    let mut taken = 0;
    let beside = |next| [next, next + 1022, next + 1023];
    while far.receive(&beside(far.receiver.next), &payload).is_ok() {
        taken += 1;
    }
    assert_eq!(taken, STORED_BYTES_RESERVE / (500 + MESSAGE_OVERHEAD));
    let next = far.receiver.next;
    assert_eq!(far.receive(&[next], &payload), Ok(()), "alone it fits");
}

/// The places before a message that came too early are memory as well: who claims them holds it, and where memory is
/// short gets no more than is allowed.
#[test]
fn places_are_held_like_messages() {
    let mut far = Far::new();
    let ahead = |ahead| Allowance {
        ahead,
        ..Allowance::UNLIMITED
    };
    assert_eq!(far.receive(&[10], b""), Ok(()));
    assert_eq!(far.receiver.held(), (MESSAGE_OVERHEAD, 0), "a usual gap");
    far.inbox.set_allowance(ahead(4_800));
    assert_eq!(far.receive(&[300], b""), Err(Reject::Refused));
    assert_eq!(far.receive(&[299], b""), Ok(()), "16 bytes a place");
    far.inbox.set_allowance(ahead(1));
    assert_eq!(far.receive(&[0, 301], b""), Ok(()), "it brings the next");
    far.inbox.set_allowance(Allowance::UNLIMITED);
    assert_eq!(far.receive(&[1024], b""), Ok(()));
    let (held, _) = far.receiver.held();
    assert!(held >= 4 * MESSAGE_OVERHEAD + (1024 - 64) * 16, "{held}");
    far.receiver.release();
    assert_eq!(far.receiver.held(), (0, 0));
}

/// A message in fragments is as long as others may be, to the byte, and travels alone.
#[test]
fn fragments_of_impossible_messages_are_refused() {
    let mut far = Far::new();
    far.receiver = Receiver::new(Timestamp::ZERO, 2 * FRAGMENT_BYTES + 10);
    let mut judge = |id, place, length| far.receive_fragment(id, place, length).err();
    let bad = Some(Reject::BadFragment);
    let long = Some(Reject::Malformed);
    assert_eq!(judge(0, (2, 2), 11), long, "a byte too long");
    assert_eq!(judge(0, (0, 3), 1), long, "however short its last");
    assert_eq!(judge(1, (0, 2), 10), Some(Reject::Refused), "not alone");
    assert_eq!(judge(0, (2, 2), 10), None);
    assert_eq!(judge(0, (0, 1), 10), bad, "another number of fragments");
    assert_eq!(judge(0, (0, 2), 10), None);
    let last = far.receive_fragment(0, (1, 2), 10);
    let last = last.expect("the one that was missing");
    assert_eq!((last.messages, last.fragments), (1, 1));
    assert!(last.is_awaited, "nothing else is sent before it is known");
    assert_eq!(last.bytes, 2 * FRAGMENT_BYTES as u64 + 10);
    let again = far.receive_fragment(0, (1, 2), 10);
    assert_eq!(again.expect("harmless").duplicates, 1);
    let message = far.inbox.pop().expect("whole");
    assert_eq!(message.payload.len(), 2 * FRAGMENT_BYTES + 10);
    // Nor does a message of one fragment get around what a plain one has to keep to.
    let mut short = Far::new();
    short.receiver = Receiver::new(Timestamp::ZERO, FRAGMENT_BYTES - 1);
    let alone = short.receive_fragment(0, (0, 0), FRAGMENT_BYTES);
    assert_eq!(alone.err(), long);
}

/// A packet is judged before anything of it is applied, so one may have fragments of two messages under one id.
#[test]
fn a_packet_with_fragments_that_disagree_brings_the_first() {
    let mut far = Far::new();
    far.receiver = Receiver::new(Timestamp::ZERO, 4 * FRAGMENT_BYTES);
    let (mut packet, whole) = (Vec::new(), [7; FRAGMENT_BYTES]);
    wire::emit_fragment(0, 0, 2, (&whole, &[]), &mut packet);
    wire::emit_fragment(0, 1, 1, (&[8; 9], &[]), &mut packet);
    let records = wire::parse(&packet).expect("own bytes");
    assert_eq!(far.receiver.judge(records, true, &far.inbox), Ok(()));
    let inbox = &mut far.inbox;
    let brought = far.receiver.apply(Timestamp::ZERO, records, inbox);
    assert_eq!((brought.fragments, brought.duplicates), (1, 1));
}

/// Nothing beyond the window may be acknowledged: it would be dropped, and never come again.
#[test]
fn what_is_beyond_the_window_is_refused() {
    let mut far = Far::new();
    assert_eq!(far.receive(&[WINDOW], b""), Err(Reject::Refused));
    assert_eq!(far.receive(&[WINDOW - 1], b""), Ok(()));
    assert_eq!(far.receive(&[0], b""), Ok(()));
    assert_eq!(far.receive(&[WINDOW], b""), Ok(()));
    assert_eq!(far.fill(1..WINDOW - 1, b""), usize::from(WINDOW) - 2);
    assert_eq!(far.delivered, usize::from(WINDOW) + 1);
}

/// However long the peer had nothing to say before, and whatever comes behind.
#[test]
fn a_gap_counts_from_the_first_message_that_waits_for_it() {
    let mut far = Far::new();
    let secs = |secs: u64| Timestamp::from_millis(1_000 * secs);
    let mut waits_since = |id, heard| {
        let mut packet = Vec::new();
        wire::emit_reliable(id, (b"x", &[]), &mut packet);
        let records = wire::parse(&packet).expect("own bytes");
        far.receiver.apply(secs(heard), records, &mut far.inbox);
        far.receiver.waits_since()
    };
    assert_eq!(waits_since(1, 100), Some(secs(100)));
    assert_eq!(waits_since(3, 101), Some(secs(100)));
    assert_eq!(waits_since(0, 102), Some(secs(102)), "it came closer");
    assert_eq!(waits_since(2, 103), None);
}

/// No message is longer than the listener takes, whichever record it comes in.
#[test]
fn a_message_is_as_long_as_the_listener_takes() {
    let mut far = Far::new();
    far.receiver = Receiver::new(Timestamp::ZERO, 100);
    let too_long = [0; 101];
    assert_eq!(far.receive(&[0], &too_long), Err(Reject::Malformed));
    assert_eq!(far.receive_unreliable(&too_long), Err(Reject::Malformed));
    assert_eq!(far.receive(&[0], &too_long[1..]), Ok(()));
    assert_eq!(far.receive_unreliable(&too_long[1..]), Ok(()));
}

/// When memory is short nothing may wait. The next message need not.
#[test]
fn a_peer_without_an_allowance_is_served_in_order() {
    let mut far = Far::new();
    far.inbox.set_allowance(Allowance {
        ahead: 0,
        ..Allowance::UNLIMITED
    });
    assert_eq!(far.receive(&[1], b""), Err(Reject::Refused));
    for id in 0..100 {
        assert_eq!(far.receive(&[2 * id, 2 * id + 1], b"x"), Ok(()));
    }
    assert_eq!(far.delivered, 200);
}
