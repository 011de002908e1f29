//! What is acknowledged and when, and what counts as a gap.

use std::time::Duration;

use super::super::channels::{FragmentPlace, PacketWriter};
use super::super::reliable::Header;
use super::*;

/// Ten frames a second for some seconds, each in a packet of three fragments of this size.
fn hear(incoming: &mut Incoming, seconds: std::ops::Range<u64>, size: usize) {
    for tenth in seconds.start * 10..seconds.end * 10 {
        let now = Now {
            mono: Timestamp::from_millis(tenth * 100),
            unix_secs: 0,
        };
        let limits = reliable::Limits {
            fragment_size: size,
            ..reliable::Limits::default()
        };
        let header = Header {
            sequence: tenth as u16,
            ack: 65_535,
            ack_bits: 0,
        };
        let packet = vec![0; 2 * size + 1];
        for index in 0..3 {
            let mut datagram = Vec::new();
            limits.emit(header, &packet, index, &mut datagram);
            incoming.handle(now, &datagram, true, |_| Ok(())).ok();
        }
    }
}

/// What a packet acknowledges is true before the packet is complete, and when it goes again it acknowledges more. A path
/// that loses one of its datagrams takes nothing of that away.
#[test]
fn acks_are_heard_with_each_first_fragment() {
    let mut incoming = Incoming::new(NOW, &Params::default());
    let limits = reliable::Limits::default();
    let mut hear = |ack, index| {
        let header = Header {
            sequence: 0,
            ack,
            ack_bits: 1,
        };
        let mut datagram = Vec::new();
        limits.emit(header, &[0; 3_000], index, &mut datagram);
        let mut acks = Vec::new();
        let heard = incoming.handle(NOW, &datagram, true, |heard| {
            acks.push((heard.header.ack, heard.in_order));
            Ok(())
        });
        (acks, matches!(heard, Ok(Some(_))))
    };
    assert_eq!(hear(5, 1), (vec![], false));
    assert_eq!(hear(5, 0), (vec![(5, true)], false));
    assert_eq!(hear(6, 0), (vec![(6, false)], false), "once more");
    assert_eq!(hear(6, 2), (vec![], true), "complete, and heard already");
    assert_eq!(hear(7, 0), (vec![(7, false)], false), "it had all of it");
}

/// What a first fragment acknowledges is held against the peer as well.
#[test]
fn a_false_ack_in_a_first_fragment_ends_the_session() {
    let mut incoming = Incoming::new(NOW, &Params::default());
    let header = Header {
        sequence: 0,
        ack: 9,
        ack_bits: 1,
    };
    let mut datagram = Vec::new();
    reliable::Limits::default().emit(header, &[0; 3_000], 0, &mut datagram);
    let heard = incoming.handle(NOW, &datagram, true, |_| Err(FalseAck));
    assert!(matches!(heard, Err(Trouble::Broken(Reject::BadAck))));
}

/// One that acknowledges only what was written, and the packets it is sent.
struct Strict {
    incoming: Incoming,
    params: Params,
    next: u16,
}

impl Strict {
    fn new() -> Self {
        let params = Params {
            ack: AckPolicy::Strict,
            ..Params::default()
        };
        Self {
            incoming: Incoming::new(NOW, &params),
            params,
            next: 0,
        }
    }

    /// Takes a packet; which of all so far are acknowledged then.
    fn take(&mut self, fill: impl Fn(&mut PacketWriter<'_>)) -> Vec<bool> {
        let mut payload = Vec::new();
        let header = Header {
            sequence: self.next,
            ack: 65_535,
            ack_bits: 0,
        };
        self.next += 1;
        header.emit(&mut payload);
        let mut writer = PacketWriter::new(&self.params.layout, &mut payload);
        fill(&mut writer);
        writer.finish();
        let heard = self.incoming.handle(NOW, &payload, true, |_| Ok(()));
        assert!(matches!(heard, Ok(Some(_))), "{heard:?}");
        self.acked()
    }

    fn acked(&mut self) -> Vec<bool> {
        let (ack, bits) = self.incoming.take_ack();
        let behind = |number: u16| u32::from(ack.wrapping_sub(number));
        let is_acked = |number| {
            bits.checked_shr(behind(number))
                .is_some_and(|it| it & 1 == 1)
        };
        (0..self.next).map(is_acked).collect()
    }

    /// Polls one message, and says that it is written.
    fn write_one(&mut self) -> Vec<bool> {
        assert!(self.incoming.inbox.pop().is_some());
        self.incoming.confirm_written();
        self.acked()
    }
}

const NOW: Now = Now {
    mono: Timestamp::ZERO,
    unix_secs: 0,
};

fn messages(ids: &[u16]) -> impl Fn(&mut PacketWriter<'_>) {
    move |writer| {
        writer.reliable(0, ids.iter().copied());
        for _ in ids {
            writer.message(0, (b"a message", &[]));
        }
    }
}

/// Fragments of a block and repeats bring the writer nothing new, so no write of theirs is ever confirmed. A
/// peer of the standard sends the first 25 fragments again and again until they are acknowledged.
#[test]
fn what_brings_nothing_to_write_waits_for_no_write() {
    let mut strict = Strict::new();
    let fragment = |writer: &mut PacketWriter<'_>| {
        let place = FragmentPlace {
            channel: 0,
            id: 1,
            index: 0,
            count: 3,
        };
        writer.fragment(place, 1, (&[7; 1024], &[]));
    };
    assert_eq!(strict.take(messages(&[0])), [false]);
    assert_eq!(strict.take(fragment), [false, true]);
    assert_eq!(strict.take(messages(&[0])), [false, true, false]);
    assert_eq!(strict.write_one(), [true; 3]);
    assert_eq!(strict.take(messages(&[0])), [true; 4]);
    assert_eq!(strict.take(fragment), [true; 5]);
    assert_eq!(strict.take(|_| ()), [true; 6]);
}

/// What waits for a missing message is acknowledged, and the missing one once both are written.
#[test]
fn what_is_behind_a_gap_waits_for_no_write() {
    let mut strict = Strict::new();
    assert_eq!(strict.take(messages(&[0, 2])), [false]);
    assert_eq!(strict.take(messages(&[3])), [false, true]);
    assert_eq!(strict.write_one(), [true; 2]);
    assert_eq!(strict.take(messages(&[1, 5])), [true, true, false]);
    assert_eq!(strict.write_one(), [true, true, false]);
    assert_eq!(strict.write_one(), [true, true, false]);
    assert_eq!(strict.write_one(), [true; 3]);
}

/// As long as its datagrams arrive, as repeats or signs of life, and whatever waits here for what is missing.
#[test]
fn a_gap_is_held_against_who_says_nothing_new() {
    let params = Params::default();
    let mut payload = Vec::new();
    let header = Header {
        sequence: 0,
        ack: 65_535,
        ack_bits: 0,
    };
    header.emit(&mut payload);
    let mut writer = PacketWriter::new(&params.layout, &mut payload);
    messages(&[1])(&mut writer);
    writer.finish();
    let repeats = |incoming: &mut Incoming, now| {
        incoming.handle(now, &payload, true, |_| Ok(())).ok();
    };
    let lives = |incoming: &mut Incoming, now: Now| incoming.on_heard(now.mono);
    for says in [&repeats as &dyn Fn(&mut Incoming, Now), &lives] {
        let mut incoming = Incoming::new(NOW, &params);
        repeats(&mut incoming, NOW);
        let mut stalled_at = None;
        for tenth in 1..=400 {
            let now = NOW.after(Duration::from_millis(100 * tenth));
            says(&mut incoming, now);
            stalled_at = stalled_at.or(incoming.is_stalled().then_some(tenth));
        }
        assert_eq!(stalled_at, Some(300));
    }
}

#[test]
fn fragments_of_another_size_are_no_gap_and_end_a_session_all_the_same() {
    let now = Now {
        mono: Timestamp::ZERO,
        unix_secs: 0,
    };
    let incoming = || Incoming::new(now, &Params::default());
    let mut wrong = incoming();
    hear(&mut wrong, 0..9, 700);
    assert!(!wrong.is_stalled());
    hear(&mut wrong, 9..11, 700);
    assert!(wrong.is_stalled());

    let mut right = incoming();
    hear(&mut right, 0..20, 1024);
    assert!(!right.is_stalled());

    let mut both = incoming();
    for from in [0, 10, 20] {
        hear(&mut both, from..from + 9, 700);
        hear(&mut both, from + 9..from + 10, 1024);
    }
    assert!(!both.is_stalled());
}

/// Each message of a packet takes as much work as one of some size: also one that is known, and one that is refused.
#[test]
fn a_packet_full_of_tiny_messages_costs_more_than_its_bytes() {
    let params = Params::default();
    let mut incoming = Incoming::new(NOW, &params);
    let mut surcharge = |sequence, ids: std::ops::Range<u16>, payload: &[u8], is_taking| {
        let mut datagram = Vec::new();
        let header = Header {
            sequence,
            ack: 65_535,
            ack_bits: 0,
        };
        header.emit(&mut datagram);
        let body = datagram.len();
        let mut writer = PacketWriter::new(&params.layout, &mut datagram);
        // The second half in an entry of its own: one may name a channel twice.
        let (count, half) = (ids.len(), ids.start + ids.len() as u16 / 2);
        writer.reliable(0, ids.start..half);
        (ids.start..half).for_each(|_| writer.message(0, (payload, &[])));
        writer.reliable(0, half..ids.end);
        (half..ids.end).for_each(|_| writer.message(0, (payload, &[])));
        writer.finish();
        let bytes = datagram.len() - body;
        incoming.handle(NOW, &datagram, is_taking, |_| Ok(())).ok();
        let charged = bytes + std::mem::take(&mut incoming.surcharge);
        (charged == bytes, charged / count)
    };
    assert_eq!(surcharge(0, 0..400, &[], true), (false, 64));
    assert_eq!(surcharge(1, 0..400, &[], true), (false, 64), "known");
    assert_eq!(surcharge(2, 400..800, &[], false), (false, 64), "refused");
    let (is_all, _) = surcharge(3, 400..410, &[7; 100], true);
    assert!(is_all, "paid for by their bytes");
}
