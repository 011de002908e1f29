//! What leaves before the peer is there.

use super::*;

/// Side 0 says eight messages, and after 120 ms learns that the other was not there before. Unless `was_there`, none of
/// that arrived.
fn speak_early(was_there: bool) -> Pair {
    let mut pair = Pair::new(Params::default(), lossy(0.0), 5);
    for n in 0..8 {
        let sent = pair.peers[0].sender.push(pair.now, 0, &number(n));
        sent.expect("there is room");
        let mut left = 0;
        while let Some(packet) = pair.peers[0].poll_transmit(pair.now) {
            left += 1;
            if was_there {
                pair.links[0].push(pair.now, packet, &[0; 100]);
            }
        }
        assert_eq!(left, 1);
        pair.now += Duration::from_millis(15);
    }
    pair.peers[0].sender.start_over(pair.now);
    pair
}

#[test]
fn what_met_nobody_goes_again_and_is_no_loss() {
    let mut pair = speak_early(false);
    pair.run_for(100);
    assert_eq!(pair.got[1], expected(8));
    let stats = stats(&pair, 0);
    assert_eq!((stats.messages_acked, stats.messages_resent), (8, 8));
    assert_eq!((stats.packets_lost, stats.loss), (0, 0.0));
}

/// Only the answer was late: what it acknowledges does not go again, and takes nothing from what is known of the path.
#[test]
fn what_was_heard_after_all_is_not_late() {
    let mut pair = speak_early(true);
    pair.run_for(100);
    assert_eq!(pair.got[1], expected(8));
    play(&mut pair, 8..40);
    pair.run_for(100);
    assert_eq!(pair.got[1], expected(40));
    let stats = stats(&pair, 0);
    assert_eq!((stats.messages_acked, stats.packets_lost), (40, 0));
    let longest = Duration::from_millis(65);
    assert!(
        stats.rtt > Duration::from_millis(45) && stats.rtt < longest,
        "{:?}",
        stats.rtt
    );
}
