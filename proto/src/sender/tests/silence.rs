//! What is sent to a peer of which nothing is heard.

use std::collections::HashSet;

use super::*;

#[test]
fn total_loss_is_neither_a_flood_nor_the_end() {
    for both_ways in [true, false] {
        let mut pair = Pair::new(Params::default(), lossy(0.0), 11);
        play(&mut pair, 0..100);
        let dead = lossy(1.0);
        pair.links[0].set_conditions(dead);
        if both_ways {
            pair.links[1].set_conditions(dead);
        }
        let before = stats(&pair, 0);
        play(&mut pair, 100..500);
        pair.run_for(20_000);
        let during = stats(&pair, 0).packets_sent - before.packets_sent;
        // 6.4 s of messages at the good rate, then probes that back off and keep-alives.
        assert!(
            during <= 8 + 7 * 90 + 20 * 10,
            "{during} packets into the void"
        );
        assert!(pair.got[1].len() == 100, "nothing can have arrived");
        pair.links
            .iter_mut()
            .for_each(|link| link.set_conditions(lossy(0.0)));
        pair.run_for(400);
        assert!(
            pair.got[1].len() > 100,
            "first delivery takes two round trips and a probe"
        );
        pair.run_for(2_000);
        assert!(pair.got[1] == expected(500));
        assert!(
            stats(&pair, 0).packets_sent < before.packets_sent + during + 250,
            "a flood after it"
        );
    }
}

/// Nothing comes back for four seconds, but the way there is as it was and loses one in twenty. Who hears nothing
/// cannot know what is missing: every message goes more than once, the newest as well as the oldest.
#[test]
fn who_is_not_heard_is_still_told() {
    let mut worst = Vec::new();
    for seed in 0..16 {
        let mut pair = Pair::new(Params::default(), lossy(0.05), 100 + 2 * seed);
        play(&mut pair, 0..300);
        pair.links[1].set_conditions(lossy(1.0));
        let before = stats(&pair, 0);
        let behind = (300..550).map(|n| {
            play(&mut pair, n..n + 1);
            n as usize + 1 - pair.got[1].len()
        });
        worst.push(behind.max().unwrap());
        let packets = stats(&pair, 0).packets_sent - before.packets_sent;
        assert!(packets < 300, "{packets} packets for 250 messages");
    }
    worst.sort_unstable();
    assert!(worst[15] < 30, "messages behind: {worst:?}");
}

/// A peer may acknowledge a packet only once everything in it was delivered, so probes that always
/// began with the oldest message would leave the next missing one unsaid for ever. But it may be the
/// oldest that everything waits for, so every other probe begins there.
#[test]
fn probes_without_an_answer_say_every_message_again() {
    let mut pair = Pair::new(Params::default(), lossy(1.0), 43);
    let mut said = [0; 6];
    for _ in &said {
        pair.peers[0].sender.push(pair.now, 0, &[9; 1_000]).unwrap();
    }
    for _ in 0..10_000 {
        pair.peers[0].sender.handle_timeout(pair.now);
        while let Some(packet) = pair.peers[0].poll_transmit(pair.now) {
            for (_, id, _) in packet.messages {
                said[usize::from(id)] += 1;
            }
        }
        pair.now += Duration::from_millis(1);
    }
    assert!(said.iter().all(|times| *times >= 2), "{said:?}");
    assert!(
        said[1..].iter().all(|times| said[0] > 2 * times),
        "{said:?}"
    );
}

/// A peer that acknowledges a packet once everything in it was delivered answers no probe with a message behind a
/// block that it lacks. Once everything was lost at the same time, the block goes again all the same.
#[test]
fn a_probe_asks_for_nothing_behind_a_block_that_is_missing() {
    let params = Params {
        keep_alive: false,
        ..Params::default()
    };
    let mut pair = Pair::new(params, lossy(1.0), 44);
    let Peer { sender, .. } = &mut pair.peers[0];
    let outbox = sender.lanes.outbox_mut(0);
    outbox.expect("lane 0 is reliable").widen(8192, 1_100);
    sender.push(pair.now, 0, &[0; 100]).unwrap();
    sender
        .push_as(pair.now, 0, &[1; 3_000], Form::Block)
        .unwrap();
    sender.push(pair.now, 0, &[2; 100]).unwrap();
    let (begin, mut fragments, mut has) = (pair.now, HashSet::new(), [false; 3]);
    let mut said = 0;
    while pair.now < begin + Duration::from_secs(9) {
        pair.peers[0].sender.handle_timeout(pair.now);
        while let Some(packet) = pair.peers[0].poll_transmit(pair.now) {
            said += packet.messages.len() + usize::from(packet.fragment.is_some());
            if pair.now < begin + Duration::from_secs(1) {
                continue;
            }
            for (_, id, _) in &packet.messages {
                has[usize::from(*id)] = true;
            }
            fragments.extend(packet.fragment.map(|(fragment, _)| fragment.index));
            has[1] = fragments.len() == 3;
            let waits = |id: u16| !has[..usize::from(id)].iter().all(|has| *has);
            let is_told = !packet.messages.iter().any(|(_, id, _)| waits(*id));
            let sender = &mut pair.peers[0].sender;
            sender.hear(pair.now, IN_ORDER, |hearing| {
                if is_told {
                    hearing.acked(packet.number);
                }
            });
        }
        pair.now += Duration::from_millis(1);
    }
    assert_eq!(has, [true; 3]);
    assert!(pair.peers[0].sender.is_drained());
    assert!(said >= 2 * 5, "nothing was lost");
}

/// The article's sender repeats what is not acknowledged after 0.1 s, each time: also while nothing at all is
/// heard, and while packets that are due again already wait for the second after which they count as lost.
#[test]
fn the_articles_sender_repeats_into_silence() {
    let start = Timestamp::from_millis(1_000);
    let mut peer = Peer::new(start, Arc::new(Params::article()), &LANES);
    peer.sender.push(start, 0, b"is anybody there").unwrap();
    let (mut now, mut carried) = (start, Vec::new());
    while now < start + Duration::from_millis(950) {
        peer.sender.handle_timeout(now);
        while let Some(packet) = peer.poll_transmit(now) {
            if !packet.messages.is_empty() {
                carried.push(now.since(start).as_millis());
            }
        }
        let next = peer.sender.poll_timeout().expect("something is due").at;
        now = next.max(now + Duration::from_millis(1));
    }
    assert_eq!(carried, [0, 100, 200, 300, 400, 500, 600, 700, 800, 900]);
}
