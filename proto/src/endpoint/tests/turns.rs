//! Who wakes when, and whose output is next.

use super::*;

#[test]
fn peers_wake_when_they_asked_to() {
    let mut endpoint = endpoint(Some(Timestamp::from_millis(500)), Params::default());
    accept(&mut endpoint, 1);
    drain(&mut endpoint, at(0));
    assert_eq!(endpoint.poll_timeout(), Some(Timestamp::from_millis(500)));
    endpoint.handle_timeout(at(499));
    assert!(drain(&mut endpoint, at(499)).is_empty());
    endpoint.handle_timeout(at(500));
    assert_eq!(drain(&mut endpoint, at(500)).len(), 1);
    assert_eq!(endpoint.poll_timeout(), Some(Timestamp::from_millis(1500)));
}

/// As each datagram does that puts an idle timeout off, whether or not its peer had its turn since.
#[test]
fn who_put_it_off_is_woken_then_and_not_before() {
    let mut endpoint = endpoint(Some(Timestamp::from_millis(500)), Params::default());
    let peer = accept(&mut endpoint, 1);
    drain(&mut endpoint, at(0));
    hear(&mut endpoint, 1, "~", 200);
    drain(&mut endpoint, at(200));
    endpoint.handle_timeout(at(500));
    assert!(!endpoint.is_in_turn(peer));
    assert_eq!(endpoint.poll_timeout(), Some(Timestamp::from_millis(1200)));
    hear(&mut endpoint, 1, "~", 1_200);
    endpoint.handle_timeout(at(1_200));
    assert_eq!(drain(&mut endpoint, at(1_200)), [], "it has its turn yet");
    assert_eq!(endpoint.poll_timeout(), Some(Timestamp::from_millis(2200)));
    endpoint.handle_timeout(at(2_200));
    assert_eq!(drain(&mut endpoint, at(2_200)).len(), 1);
}

#[test]
fn handshakes_are_forgotten_when_they_asked_to_be() {
    let mut endpoint = endpoint(None, Params::default());
    assert_eq!(hear(&mut endpoint, 1, "knock", 100), Handled::Replied);
    assert_eq!(endpoint.poll_timeout(), Some(Timestamp::from_millis(1100)));
    endpoint.handle_timeout(at(1_099));
    assert_eq!(endpoint.handshakes_pending(), 1);
    endpoint.handle_timeout(at(1_100));
    assert_eq!(endpoint.handshakes_pending(), 0);
}

/// Who has a map to send leaves the others their turn after a burst, and goes on behind them. What one left of its burst
/// is not taken from the next one's.
#[test]
fn nobody_waits_for_all_that_another_says() {
    let mut endpoint = endpoint(None, Params::default());
    let peers = [1, 2, 3, 4].map(|port| accept(&mut endpoint, port));
    drain(&mut endpoint, at(0));
    for (id, says) in peers.into_iter().zip([200, 1, 30, 100]) {
        for _ in 0..says {
            endpoint.send(at(1), id, 0, &[0; 1_000]).unwrap();
        }
    }
    let sent = drain(&mut endpoint, at(1));
    let bursts: Vec<(u16, usize)> = (sent.chunk_by(|(one, _), (next, _)| one == next))
        .map(|burst| (burst[0].0.port(), burst.len()))
        .collect();
    let first_round = [(1, 66), (2, 1), (3, 30), (4, 66)];
    assert_eq!(
        bursts,
        [&first_round[..], &[(1, 66), (4, 34), (1, 68)]].concat()
    );
}

/// Only what is urgent goes before its turn: the others leave in batches.
#[test]
fn who_is_in_no_hurry_waits_for_its_turn() {
    let mut endpoint = endpoint(None, Params::default());
    let peer = accept(&mut endpoint, 1);
    hear(&mut endpoint, 1, "^now", 1);
    hear(&mut endpoint, 1, "later", 1);
    let mut out = Vec::new();
    assert_eq!(
        endpoint.poll_urgent(at(1), peer, &mut out),
        Some(address(1))
    );
    assert_eq!(endpoint.poll_urgent(at(1), peer, &mut out), None);
    assert_eq!(out, b"^now");
    assert_eq!(
        drain(&mut endpoint, at(1)),
        [(address(1), b"later".to_vec())]
    );
}
