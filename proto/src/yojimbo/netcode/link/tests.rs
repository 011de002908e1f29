use super::*;
use crate::session::Way;
use crate::yojimbo::netcode::wire::TAG_BYTES;

/// Keep-alives of both ends in this span, in milliseconds; each end says all that is due.
fn keep_alives(ends: &mut [Link; 2], millis: std::ops::Range<u64>) -> Vec<u64> {
    let mut sent = Vec::new();
    for at in millis.step_by(10) {
        let now = Now {
            mono: Timestamp::from_millis(at),
            unix_secs: 0,
        };
        for from in [0, 1] {
            let mut datagram = Vec::new();
            if ends[from].is_keep_alive_due(now) {
                ends[from].keep_alive(now, &mut datagram);
                ends[1 - from].open(now, &mut datagram).unwrap();
                sent.push(at);
            }
        }
    }
    sent
}

/// Dense after whatever is said at first, so that losing some of them keeps nobody out; then one a
/// second after whatever was said last: a message now and then brings nothing after it.
#[test]
fn a_session_that_talks_seldom_sends_no_more_keep_alives_than_an_idle_one() {
    let now = Now::default();
    let params = |role| LinkParams {
        role,
        protocol_id: 7,
        receive_key: Key::new([9; 32]),
        send_key: Key::new([9; 32]),
        timeout: Some(Duration::from_secs(10)),
    };
    let mut ends = [
        Link::waiting(now, params(Role::Server), 3, 64),
        Link::dialing(now, params(Role::Client)),
    ];
    let mut seated = Vec::new();
    ends[0].admit(now, None, &mut seated);
    ends[1].open(now, &mut seated).unwrap();
    let first = keep_alives(&mut ends, 0..1_600);
    assert!((6..=10).contains(&first.len()), "both ends: {first:?}");
    for round in 2..30 {
        let now = Now {
            mono: Timestamp::from_millis(round * 900),
            unix_secs: 0,
        };
        for from in [0, 1] {
            let mut datagram = Vec::new();
            let sealing = ends[from].begin(&mut datagram);
            datagram.push(1);
            ends[from].seal(now, &mut datagram, sealing);
            ends[1 - from].open(now, &mut datagram).unwrap();
        }
        let next = keep_alives(&mut ends, round * 900..(round + 1) * 900);
        match round {
            2..8 => assert_eq!(next.len(), 6, "at 0.1, 0.3 and 0.7 s: {next:?}"),
            12.. => assert!(next.is_empty(), "{next:?}"),
            _ => {}
        }
    }
    assert_eq!(keep_alives(&mut ends, 27_000..27_200), [27_100, 27_100]);
}

/// What a peer said can be written down without its seal, and said again under another key.
#[test]
fn what_is_revealed_can_be_concealed_again() {
    conceal_again(Link::begin);
    conceal_again(Link::begin_gcm);
}

fn conceal_again(begin: impl Fn(&mut Link, &mut Vec<u8>) -> Sealing) {
    let now = Now::default();
    let words = [7, 5_000_000_000, 3, 64];
    let replayed = Link::replayed(now, LinkOrigin::from_words(words));
    assert_eq!(replayed.origin().to_words(), words);
    let params = |key: u8, role| LinkParams {
        role,
        protocol_id: 7,
        receive_key: Key::new([key; 32]),
        send_key: Key::new([key; 32]),
        timeout: None,
    };
    let recorded = Link::waiting(now, params(9, Role::Server), 3, 64);
    let mut client = Link::dialing(now, params(9, Role::Client));
    let mut datagram = Vec::new();
    let sealing = begin(&mut client, &mut datagram);
    datagram.extend_from_slice(b"in secret");
    client.seal(now, &mut datagram, sealing);

    let mut clear = Vec::new();
    assert!(recorded.reveal(Way::FromPeer, &datagram, &mut clear));
    assert_eq!(clear.len(), datagram.len());
    assert!(clear[2..].starts_with(b"in secret"));
    assert_eq!(clear[clear.len() - TAG_BYTES..], [0; TAG_BYTES]);

    let (mut again, mut clear_again) = (Vec::new(), Vec::new());
    assert!(replayed.conceal(&clear, &mut again));
    assert_ne!(again, datagram, "another key");
    assert!(replayed.reveal(Way::FromPeer, &again, &mut clear_again));
    assert_eq!(clear_again, clear);

    // The nearest datagram that is not the peer's.
    datagram[5] ^= 1;
    clear.clear();
    assert!(!recorded.reveal(Way::FromPeer, &datagram, &mut clear));
    assert!(clear.is_empty());
}
