//! What gaffer and rudp promise alike.

use std::sync::Arc;
use std::time::Duration;

use tidegate_proto::sim::Conditions;
use tidegate_proto::{Acceptor, CloseReason, SendError, Session as _, Verdict, gaffer, rudp};

use crate::gaffer::{connected as gaffer_pair, packet};
use crate::link::{Pair, START, assert_same, calm, judge, numbered, storm};
use crate::rudp::connected as rudp_pair;

/// A session that nobody reads keeps a bounded inbox. A refused packet is not acknowledged, so everything comes once
/// there is room.
#[test]
fn what_a_full_inbox_refuses_comes_later() {
    let inbox_max = 8 * 1024;
    let of_gaffer = gaffer::Params {
        inbox_max,
        ..gaffer::Params::default()
    };
    let of_rudp = rudp::Params {
        inbox_max,
        ..rudp::Params::default()
    };
    for (mut pair, fills_in, empties_in) in [
        (gaffer_pair(&of_gaffer, calm(), 1), 6, 60),
        (rudp_pair(of_rudp, calm(), 1), 4, 20),
    ] {
        pair.ends[1].is_reading = false;
        let sent = numbered(400, 200);
        pair.ends[0].to_send.extend(sent.iter().cloned());
        pair.run(fills_in, |_| false);
        let held = pair.ends[1].session().inbox_bytes();
        assert!(held > 4 * 1024 && held < 12 * 1024, "{held}");
        assert!(pair.ends[1].session().stats().packets_refused > 0);
        pair.ends[1].is_reading = true;
        pair.run(empties_in, |pair| pair.ends[1].received.len() == sent.len());
        assert_eq!(pair.ends[1].closed, None);
        assert_same(&pair.ends[1].received, &sent);
    }
}

/// Ten seconds of silence end a session, and no fewer; an idle one wakes for its keep-alives only.
#[test]
fn idle_sessions_sleep_and_silence_ends_them() {
    for (mut pair, wakes_max, silence_min) in [
        (
            gaffer_pair(&gaffer::Params::default(), calm(), 1),
            480,
            9_700,
        ),
        (rudp_pair(rudp::Params::default(), calm(), 1), 125, 9_000),
    ] {
        pair.run(10, |_| false);
        let before = pair.ends[1].wakes;
        pair.run(60, |_| false);
        assert_eq!(pair.ends[0].closed.or(pair.ends[1].closed), None);
        let wakes = pair.ends[1].wakes - before;
        assert!(wakes <= wakes_max, "{wakes} wake-ups in a minute");
        pair.weather.loss = 1.0;
        let since = pair.now.mono;
        pair.run(20, |pair| pair.ends.iter().all(|end| end.closed.is_some()));
        let closed = [0, 1].map(|end: usize| pair.ends[end].closed);
        assert_eq!(closed, [Some(CloseReason::PeerTimeout); 2]);
        let silence = pair.now.mono.since(since).as_millis();
        assert!((silence_min..=10_100).contains(&silence), "{silence} ms");
    }
}

/// `finish` delivers what was sent before it says goodbye, and the other end hears it.
#[test]
fn finish_delivers_then_says_goodbye() {
    let weather = Conditions {
        loss: 0.1,
        ..storm()
    };
    let gaffers = (0..12).map(|seed| (gaffer_pair(&gaffer::Params::default(), weather, seed), 20));
    let rudps = (0..20).map(|seed| (rudp_pair(rudp::Params::default(), weather, seed), 10));
    for (mut pair, linger) in gaffers.chain(rudps) {
        let sent = numbered(200, 100);
        pair.ends[0].to_send.extend(sent.iter().cloned());
        pair.run(5, |pair| pair.ends[0].to_send.is_empty());
        let now = pair.now;
        let client = pair.ends[0].session_mut();
        client.finish(now, CloseReason::BackendClosed, Duration::from_secs(linger));
        assert_eq!(client.send(now, 0, b"late"), Err(SendError::Closed));
        pair.run(40, |pair| pair.ends[1].closed.is_some());
        assert_eq!(pair.ends[0].closed, Some(CloseReason::BackendClosed));
        // Each goodbye may be lost.
        let heard = pair.ends[1].closed.expect("an end");
        let expected = [CloseReason::PeerDisconnect, CloseReason::PeerTimeout];
        assert!(expected.contains(&heard), "{heard:?}");
        assert_same(&pair.ends[1].received, &sent);
    }
}

/// Two listeners cannot be made to talk to each other by a forged datagram.
#[test]
fn two_listeners_do_not_talk_to_each_other() {
    let answers = |mut listeners: [Box<dyn Acceptor>; 2], mut datagram: Vec<u8>| {
        for step in 0..10 {
            let now = START.after(Duration::from_secs(step));
            let listener = listeners[step as usize % 2].as_mut();
            match judge(listener, now, &datagram) {
                (Verdict::Reply, reply) => datagram = reply,
                _ => return step,
            }
        }
        10
    };
    let secrets = [[1; 16], [2; 16]];
    for sequence in [0, 63, 64, 65, 1 << 30, 0x7fff_ffff] {
        let gaffers =
            secrets.map(|secret| Box::new(gaffer::Acceptor::new(Arc::default(), secret)) as _);
        let hello = packet(sequence, 0, 0, &[0]);
        assert_eq!(answers(gaffers, hello), 1, "sequence {sequence}");
    }
    let rudps =
        secrets.map(|secret| Box::new(rudp::Acceptor::new(rudp::Params::default(), secret)) as _);
    assert_eq!(answers(rudps, vec![0]), 1);
}

/// The queue for the peer is bounded, and so are messages.
#[test]
fn the_send_queue_is_bounded() {
    let of_gaffer = gaffer::Session::dial(START, &gaffer::Params::default(), 1);
    let of_rudp = rudp::Session::dial(START, rudp::Params::default());
    assert!(
        !of_gaffer.has_room() && !of_rudp.has_room(),
        "nothing is said before it is in"
    );
    let bounds: [(Pair, &[usize]); 2] = [
        (
            gaffer_pair(&gaffer::Params::default(), calm(), 1),
            &[16_384, 1024],
        ),
        (rudp_pair(rudp::Params::default(), calm(), 1), &[1468]),
    ];
    for (mut pair, longest) in bounds {
        let now = pair.now;
        let session = pair.ends[0].session_mut();
        let mut queued = 0;
        while session.has_room() {
            session.send(now, 0, &[0; 100]).expect("room");
            queued += 1;
        }
        assert_eq!(queued, 1024);
        assert_eq!(session.send(now, 0, b""), Err(SendError::Full));
        for (channel, &max) in (0..).zip(longest) {
            let size = max + 1;
            let too_large = session.send(now, channel, &vec![0; size]);
            assert_eq!(too_large, Err(SendError::TooLarge { size, max }));
        }
        let none = longest.len() as u8;
        assert_eq!(session.send(now, none, b""), Err(SendError::NoSuchChannel));
    }
}
