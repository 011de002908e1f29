//! A path that loses every other packet, as one does that spreads them over two links of which one is dead.

use std::collections::VecDeque;

use super::truth::Metronome;
use super::*;

/// How long it takes until the peer has all, when the last is said after so many milliseconds. The peer beats 60 times a
/// second; a keep-alive of the protocol below leaves after 100 ms without a packet of ours.
fn drained_after(last_said: u64) -> u64 {
    let params = Params {
        keep_alive: false,
        ..Params::default()
    };
    let delay = 30;
    let mut ours = Peer::new(Timestamp::ZERO, Arc::new(params), &LANES);
    let mut stock = Metronome::new(Duration::from_millis(17), Timestamp::ZERO);
    let (mut there, mut back) = (VecDeque::new(), VecDeque::new());
    let (mut packets, mut last_sent) = (0_u64, 0);
    for millis in 0..last_said + 10_000 {
        let now = Timestamp::from_millis(millis);
        while back.front().is_some_and(|(at, _)| *at <= millis) {
            let (_, packet) = back.pop_front().expect("it is there");
            ours.handle_packet(now, &packet);
        }
        if millis < last_said && millis % 33 == 0 {
            ours.sender.push(now, 0, &[7; 100]).ok();
            ours.sender.push(now, 1, &[7; 150]).ok();
        }
        ours.sender.handle_timeout(now);
        while let Some(packet) = ours.poll_transmit(now) {
            packets += 1;
            last_sent = millis;
            if packets % 2 == 0 {
                there.push_back((millis + delay, packet.number));
            }
        }
        if millis == last_sent + 100 {
            packets += 1;
            last_sent = millis;
        }
        if millis % 17 == 0 {
            while there.front().is_some_and(|(at, _)| *at <= millis) {
                stock.handle(there.pop_front().expect("it is there").1);
            }
            let mut packet = stock.beat();
            if millis >= last_said {
                packet.messages.clear();
            }
            back.push_back((millis + delay, packet));
        }
        if millis > last_said && ours.sender.is_drained() {
            return millis - last_said;
        }
    }
    u64::MAX
}

#[test]
fn probes_keep_step_with_nothing_else() {
    for step in 0..40 {
        let last_said = 7_000 + 50 * step;
        let took = drained_after(last_said);
        assert!(took < 1_000, "{took} ms after {last_said}");
    }
}
