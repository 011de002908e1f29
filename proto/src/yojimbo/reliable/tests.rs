//! The receiver over long distances, under floods, and with an owner who refuses.

use std::time::Duration;

use super::*;
use crate::time::Timestamp;

const NOW: Timestamp = Timestamp::ZERO;

fn header(sequence: u16) -> Header {
    Header {
        sequence,
        ack: 65535,
        ack_bits: 0,
    }
}

/// Reads a datagram and takes it.
fn receive<'a>(
    receiver: &'a mut Receiver,
    now: Timestamp,
    datagram: &'a [u8],
) -> Result<Arrival<'a>, DatagramError> {
    let datagram = receiver.parse(datagram)?;
    receiver.receive(now, datagram)
}

/// Feeds one whole packet, in as many datagrams as it needs, and accepts it.
fn deliver(receiver: &mut Receiver, sequence: u16, payload: &[u8]) -> bool {
    let limits = Limits::default();
    let mut arrived = false;
    for index in 0..limits.datagrams(payload.len()) {
        let mut datagram = Vec::new();
        limits.emit(header(sequence), payload, index, &mut datagram);
        if let Ok(Arrival::Packet { payload: got, .. }) = receive(receiver, NOW, &datagram) {
            assert_eq!(got, payload);
            arrived = true;
        }
    }
    if arrived {
        receiver.accept(sequence);
    }
    arrived
}

fn fragment(sequence: u16, index: u8, count: u16, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Fragment {
        sequence,
        index,
        count,
        header: (index == 0).then_some(header(sequence)),
        data,
    }
    .emit(&mut out);
    out
}

/// Half the circle of numbers and more between two packets of one kind is no reason to refuse.
#[test]
fn any_number_of_plain_packets_between_two_fragmented_ones() {
    for between in [
        255, 256, 32_766, 32_767, 32_768, 32_769, 65_535, 65_536, 100_000u32,
    ] {
        let mut receiver = Receiver::default();
        assert!(deliver(&mut receiver, 0, &[1; 3000]));
        for sequence in 1..=between {
            assert!(deliver(&mut receiver, sequence as u16, &[2]));
        }
        let last = (between + 1) as u16;
        assert!(deliver(&mut receiver, last, &[3; 3000]), "{between}");
        assert_eq!(receiver.ack(), (last, u32::MAX));
    }
}

#[test]
fn any_number_of_fragmented_packets_between_two_plain_ones() {
    let mut receiver = Receiver::default();
    assert!(deliver(&mut receiver, 0, &[1]));
    for sequence in 1..=33_000u16 {
        assert!(deliver(&mut receiver, sequence, &[2; 1153]), "{sequence}");
    }
    assert!(deliver(&mut receiver, 33_001, &[3]));
    assert_eq!(receiver.held(), 0);
}

/// First and last fragments only, as fast as they come: memory follows the bytes received and stops
/// at its bound, and other traffic is not disturbed. The numbers wrap on the way.
#[test]
fn a_flood_of_incomplete_packets_is_bounded() {
    let mut receiver = Receiver::default();
    for sequence in 0..40_000u16 {
        let plain = sequence.wrapping_mul(2);
        let broken = plain.wrapping_add(1);
        for datagram in [
            fragment(broken, 0, 8, &[1; 1024]),
            fragment(broken, 7, 8, &[1]),
        ] {
            assert_eq!(receive(&mut receiver, NOW, &datagram), Ok(Arrival::Stored));
        }
        assert!(receiver.held() <= 64 * 1400, "{} held", receiver.held());
        assert!(deliver(&mut receiver, plain, &[2; 100]));
    }
    assert!(receiver.reassembly_failures() > 9_900);
    let given_up = receiver.reassembly_failures();
    // The greediest mix: everything but one fragment, of 64 packets.
    for sequence in 20_000..20_064 {
        for index in 0..7 {
            let datagram = fragment(sequence, index, 8, &[1; 1024]);
            assert_eq!(receive(&mut receiver, NOW, &datagram), Ok(Arrival::Stored));
            assert!(receiver.held() <= 256 * 1024);
        }
    }
    // The newest of them are still there: as many as fit into 256 KiB, with room for their last.
    let newest = |kept: u16| 20_064 - kept..20_064;
    let fit = 256 / 8 - 1;
    for sequence in newest(fit) {
        let last = fragment(sequence, 7, 8, &[1; 1024]);
        assert!(matches!(
            receive(&mut receiver, NOW, &last),
            Ok(Arrival::Packet { payload, .. }) if payload.len() == 8192
        ));
    }
    assert_eq!(receiver.held(), 8192, "what is lent counts as well");
    receiver.expire(NOW);
    assert_eq!(receiver.held(), 0);
    let others = u64::from(64 - fit);
    assert!(receiver.reassembly_failures() >= given_up + others);
}

#[test]
fn a_single_byte_claims_no_more_than_its_share() {
    let mut receiver = Receiver::default();
    for sequence in 0..64 {
        let datagram = fragment(sequence, 7, 8, &[1]);
        assert_eq!(receive(&mut receiver, NOW, &datagram), Ok(Arrival::Stored));
    }
    assert!(receiver.held() < 64 * 256, "{} held", receiver.held());
}

#[test]
fn incomplete_packets_are_given_up_after_two_seconds() {
    let mut receiver = Receiver::default();
    assert_eq!(receiver.next_expiry(), None);
    let first = fragment(0, 0, 2, &[1; 1024]);
    assert_eq!(receive(&mut receiver, NOW, &first), Ok(Arrival::Stored));
    assert_eq!(receiver.next_expiry(), Some(NOW + Duration::from_secs(2)));
    receiver.expire(NOW + Duration::from_millis(1999));
    assert!(receiver.held() > 0);
    receiver.expire(NOW + Duration::from_secs(2));
    assert_eq!((receiver.held(), receiver.reassembly_failures()), (0, 1));
    // All of it again, and it is whole.
    assert!(deliver(&mut receiver, 0, &[1; 1200]));
    // Whatever comes first then, a fragment or the clock.
    let (half, late) = (fragment(1, 0, 2, &[1; 1024]), fragment(1, 1, 2, &[1; 100]));
    assert_eq!(receive(&mut receiver, NOW, &half), Ok(Arrival::Stored));
    let at = NOW + Duration::from_secs(2);
    assert_eq!(receive(&mut receiver, at, &late), Ok(Arrival::Stored));
    assert_eq!(receiver.reassembly_failures(), 2);
}

/// Each repetition brings some of those that are missing, however long that takes.
#[test]
fn a_packet_whose_fragments_keep_coming_is_not_given_up() {
    let mut receiver = Receiver::default();
    for (index, at) in [(0, 0), (1, 900), (2, 1800)] {
        let piece = fragment(0, index, 4, &[1; 1024]);
        let at = NOW + Duration::from_millis(at);
        receiver.expire(at);
        assert_eq!(receive(&mut receiver, at, &piece), Ok(Arrival::Stored));
    }
    assert_eq!(
        receiver.next_expiry(),
        Some(NOW + Duration::from_millis(3800))
    );
    let last = fragment(0, 3, 4, &[1; 100]);
    let at = NOW + Duration::from_millis(2700);
    let arrival = receive(&mut receiver, at, &last);
    assert!(matches!(arrival, Ok(Arrival::Packet { .. })), "{arrival:?}");
}

/// Whichever began first: the packet that was not heard of for longest is given up.
#[test]
fn incomplete_packets_are_given_up_in_the_order_in_which_they_were_heard_last() {
    let mut receiver = Receiver::default();
    for (sequence, index, at) in [(0, 0, 0), (1, 0, 500), (0, 1, 1000)] {
        let piece = fragment(sequence, index, 3, &[1; 1024]);
        let at = NOW + Duration::from_millis(at);
        assert_eq!(receive(&mut receiver, at, &piece), Ok(Arrival::Stored));
    }
    for (at, left) in [(2500, 1), (3000, 0)] {
        let at = NOW + Duration::from_millis(at);
        assert_eq!(receiver.next_expiry(), Some(at));
        receiver.expire(at);
        assert_eq!(receiver.reassembly_failures(), 2 - left);
    }
    assert_eq!(receiver.next_expiry(), None);
}

/// A place in the window belongs to a newer number then, which would be acknowledged though it never came.
#[test]
fn what_was_accepted_too_late_acknowledges_nothing() {
    let mut receiver = Receiver::default();
    receiver.accept(300);
    receiver.accept(300 - 256);
    assert_eq!(receiver.ack(), (300, 1));
    receiver.accept(300 - 255);
    assert_eq!(receiver.take_ack(), (76, 1 << 31), "just in time");
}

/// However much came late: headers that speak of older packets leave every second one to the newest.
#[test]
fn what_came_late_does_not_keep_the_newest_from_being_acknowledged() {
    let mut receiver = Receiver::default();
    for sequence in [200, 100, 150] {
        receiver.accept(sequence);
    }
    let newest = receiver.ack();
    let told: Vec<u16> = (0..5).map(|_| receiver.take_ack().0).collect();
    assert_eq!(told, [131, 200, 163, 200, 200]);
    assert_eq!(receiver.take_ack(), newest);
}

#[test]
fn fragments_of_one_packet_must_agree() {
    let mut receiver = Receiver::default();
    let first = fragment(3, 0, 3, &[1; 1024]);
    assert_eq!(receive(&mut receiver, NOW, &first), Ok(Arrival::Stored));
    assert_eq!(
        receive(&mut receiver, NOW, &fragment(3, 1, 2, &[1; 9])),
        Err(DatagramError::BadFragment)
    );
    assert_eq!(
        receive(&mut receiver, NOW, &first),
        Err(DatagramError::Duplicate)
    );
    assert_eq!(receiver.ack(), (3, 0), "seen, and not received");
}

/// A refused packet may come again, whole or in fragments, and is acknowledged only then.
#[test]
fn refused_packets_are_not_acknowledged() {
    let mut receiver = Receiver::default();
    let limits = Limits::default();
    for payload in [&[7; 10][..], &[7; 2000]] {
        for round in 0..3 {
            let mut arrived = false;
            for index in 0..limits.datagrams(payload.len()) {
                let mut datagram = Vec::new();
                limits.emit(header(9), payload, index, &mut datagram);
                let arrival = receive(&mut receiver, NOW, &datagram);
                arrived |= matches!(arrival, Ok(Arrival::Packet { .. }));
            }
            assert!(arrived, "round {round}");
            assert_eq!(receiver.ack().1 & 1, 0);
        }
    }
    assert!(deliver(&mut receiver, 9, &[7; 10]));
    assert_eq!(receiver.ack(), (9, 1));
    assert!(!deliver(&mut receiver, 9, &[7; 10]));
}

#[test]
fn an_idle_receiver_is_small() {
    assert!(size_of::<Receiver>() <= 192, "{}", size_of::<Receiver>());
    assert_eq!(Receiver::default().held(), 0);
}
