//! What a sender costs: as much as it uses, whatever it once used and whatever its peer does.

use super::super::in_flight::LOOKS;
use super::*;

/// What the first lane has room for.
fn kept_bytes(sender: &Sender) -> usize {
    let outbox = sender.lanes.outbox(0);
    outbox.expect("lane 0 is reliable").capacity_bytes()
}

#[test]
fn memory_goes_back_when_a_peer_falls_silent() {
    let mut pair = Pair::new(Params::default(), lossy(0.05), 41);
    play(&mut pair, 0..300);
    pair.peers[0]
        .sender
        .push(pair.now, 0, &vec![7; 200_000])
        .unwrap();
    pair.run_for(30_000);
    let sender = &pair.peers[0].sender;
    assert!(sender.is_drained());
    assert!(
        sender.in_flight.is_empty(),
        "{} packets remembered",
        sender.in_flight.len()
    );
    let kept = kept_bytes(sender);
    assert!(kept <= 8_192, "{kept} bytes kept");
}

#[test]
fn memory_goes_back_while_a_peer_goes_on_talking() {
    let mut pair = Pair::new(Params::default(), lossy(0.0), 42);
    let say = |pair: &mut Pair, bytes: usize| {
        let now = pair.now;
        pair.peers[0].sender.push(now, 0, &vec![7; bytes]).unwrap();
        pair.run_for(5);
    };
    for _ in 0..200 {
        say(&mut pair, 1_000);
    }
    for _ in 0..1_000 {
        say(&mut pair, 20);
    }
    let sender = &pair.peers[0].sender;
    assert!(!sender.is_drained(), "the last is always under way");
    let kept = kept_bytes(sender);
    assert!(kept <= 8_192, "{kept} bytes kept");
}

#[test]
fn an_idle_sender_is_small() {
    let now = Timestamp::ZERO;
    let framing = crate::sim::peer::FRAMING;
    let sender = Sender::new(now, Arc::new(Params::default()), framing, &LANES);
    let lanes = sender.lanes.size_bytes();
    let total = size_of::<Sender>() + lanes;
    assert!(total <= 896, "{total} bytes, {lanes} of them for lanes");
}

/// A peer acknowledges every message, and never the bare acknowledgement that left beside one. What leaves
/// while nothing is under way is not filed, so the next message is that many numbers behind the open packet.
#[test]
fn a_packet_left_open_for_ever_costs_no_memory() {
    let mut peer = Peer::new(Timestamp::ZERO, Arc::new(Params::default()), &LANES);
    let send = |peer: &mut Peer, millis: u64| {
        let now = Timestamp::from_millis(millis);
        peer.sender.on_received(now, Worth::Awaited, true);
        assert!(peer.poll_transmit(now).is_some(), "an acknowledgement");
        now
    };
    peer.sender.push(Timestamp::ZERO, 0, b"x").unwrap();
    send(&mut peer, 0);
    let now = send(&mut peer, 20);
    peer.sender.hear(now, IN_ORDER, |hearing| hearing.acked(0));
    assert!(peer.sender.is_drained());
    for n in 2..50_000 {
        send(&mut peer, 20 * n);
    }
    let now = Timestamp::from_millis(20 * 50_000);
    peer.sender.push(now, 0, b"y").unwrap();
    assert!(peer.poll_transmit(now).is_some());
    let room = peer.sender.in_flight.capacity();
    assert!(room <= 16_384, "room for {room} packets");
}

/// A peer acknowledges nothing, and gets thousands of packets with nothing reliable before one that has a message. They
/// are kept for long, and the sender is polled much more often than packets leave.
#[test]
fn what_needs_no_answer_is_passed_once() {
    let count = 10_000;
    let mut peer = Peer::new(Timestamp::ZERO, Arc::new(Params::default()), &LANES);
    let say = |peer: &mut Peer, n: u64| {
        let now = Timestamp::from_millis(20 * n);
        let lane = u8::from(n < count);
        peer.sender.push(now, lane, b"x").unwrap();
        assert!(peer.poll_transmit(now).is_some());
        assert!(peer.poll_transmit(now).is_none());
    };
    (0..count).for_each(|n| say(&mut peer, n));
    assert!(peer.sender.in_flight.end() >= count);
    assert_eq!(peer.sender.in_flight.base(), 0, "all are remembered");
    let before = LOOKS.get();
    say(&mut peer, count);
    for _ in 0..1_000 {
        peer.sender.poll_timeout();
    }
    let looks = LOOKS.get() - before;
    assert!(looks < 100, "{looks} looks");
}

/// Of the packets that a peer left open only some are judged for each one that leaves.
#[test]
fn a_packet_costs_no_look_at_all_that_is_open() {
    let mut pair = Pair::new(Params::default(), lossy(0.05), 41);
    play(&mut pair, 0..300);
    let (begun, peer) = (pair.now, &mut pair.peers[0]);
    let say = |peer: &mut Peer, n: u64| {
        let now = begun + Duration::from_millis(20 * n);
        peer.sender.push(now, 1, b"x").unwrap();
        std::iter::from_fn(|| peer.poll_transmit(now)).count()
    };
    let mut judged_most = 0;
    for n in 0..10_000 {
        let in_flight = &mut peer.sender.in_flight;
        let all = in_flight.base()..in_flight.end();
        if n % 1_000 == 999 {
            for sent in in_flight.range_mut(all.clone()) {
                sent.loss_chance = f32::NAN;
            }
        }
        let packets = say(peer, n);
        if n % 1_000 == 999 {
            let in_flight = &mut peer.sender.in_flight;
            let judged = in_flight
                .range_mut(all)
                .filter(|sent| !sent.loss_chance.is_nan());
            judged_most = judged.count().max(judged_most);
            assert!(packets > 0);
        }
    }
    assert!(peer.sender.in_flight.len() > 8_000, "they are open");
    let most = 512 + 512 + 1;
    assert!((513..=most).contains(&judged_most), "{judged_most} judged");
}
