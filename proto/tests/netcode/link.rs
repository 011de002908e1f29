//! A link by itself: vouching, prefacing, timers, and how small it is.

use std::time::Duration;

use tidegate_proto::session::Reject;
use tidegate_proto::time::{Timestamp, Wake};
use tidegate_proto::yojimbo::netcode::packet::Beyond;
use tidegate_proto::yojimbo::netcode::wire::Sizes;
use tidegate_proto::yojimbo::netcode::{Link, Received};

use crate::world::*;

fn pair() -> (Server, Link) {
    let mut server = Server::new();
    let (link, _) = connect(&mut server, 0, address(HOME), mint(1, 1, EPOCH));
    (server, link.expect("connected"))
}

#[test]
fn a_link_is_small() {
    assert!(size_of::<Link>() < 512, "{} bytes", size_of::<Link>());
}

#[test]
fn a_link_vouches_for_what_only_its_peer_can_have_sent_just_now() {
    let (mut server, mut client) = pair();
    let from = address(HOME);
    let mut goodbye = Vec::new();
    let packet = seal(&mut client, at(200), b"from a new port");
    client.disconnect(at(200), &mut goodbye);
    let link = &server.peers[&from].link;
    let before = format!("{link:?}");
    assert!(link.vouches_for(&packet));
    assert!(link.vouches_for(&packet), "asking changes nothing");
    assert!(link.vouches_for(&goodbye));
    assert_eq!(format!("{link:?}"), before);
    for (what, datagram) in [
        ("nothing", &[][..]),
        ("half of it", &packet[..packet.len() / 2]),
        ("too much", &[0x15; 1400]),
    ] {
        assert!(!link.vouches_for(datagram), "{what}");
    }
    server.receive(at(210), from, &packet);
    let link = &server.peers[&from].link;
    assert!(
        !link.vouches_for(&packet),
        "seen before, so anybody may have sent it again"
    );
}

/// Beyond the standard only where it was agreed, and then no further than that.
#[test]
fn payloads_are_as_long_as_the_sizes_say() {
    let (mut server, mut client) = pair();
    let link = &mut server.peers.get_mut(&address(HOME)).unwrap().link;
    client.go_beyond(Beyond::new(Sizes::with_payload(8_201), true));
    let sent =
        [1_200, 1_201, 1_283, 8_000].map(|length| seal(&mut client, at(200), &vec![7; length]));
    let takes =
        |link: &mut Link, datagram: &[u8]| link.open(at(210), &mut datagram.to_vec()).is_ok();
    let taken = sent.each_ref().map(|datagram| takes(link, datagram));
    assert_eq!(taken, [true, false, false, false], "the standard");

    link.go_beyond(Beyond::new(Sizes::with_payload(8_000), true));
    for length in [1_201, 1_283, 8_000, 8_001, 8_201] {
        let datagram = seal(&mut client, at(220), &vec![7; length]);
        assert_eq!(link.vouches_for(&datagram), length <= 8_000, "{length}");
        assert_eq!(takes(link, &datagram), length <= 8_000, "{length}");
    }
    assert_eq!(Sizes::with_payload(100), Sizes::STANDARD);
}

/// Responses are repeated without replay protection, so an old one proves nothing.
#[test]
fn a_response_does_not_vouch() {
    let mut server = Server::new();
    let (_, sent) = connect(&mut server, 0, address(HOME), mint(1, 1, EPOCH));
    assert!(!server.peers[&address(HOME)].link.vouches_for(&sent[1]));
}

#[test]
fn payloads_to_an_unconfirmed_client_are_prefaced() {
    let (mut server, mut client) = pair();
    let from = address(HOME);
    for n in 0..3 {
        let datagrams = server.send(at(200 + n), from, b"tick");
        assert_eq!(datagrams.len(), 2, "a keep-alive, then the payload");
        let mut keep_alive = datagrams[0].clone();
        let said = client.open(at(210), &mut keep_alive).unwrap();
        assert_eq!(
            said,
            Received::KeepAlive {
                client_index: 0,
                max_clients: 16
            }
        );
    }
    let hello = seal(&mut client, at(220), b"hello");
    server.receive(at(230), from, &hello);
    assert_eq!(server.send(at(240), from, b"tick").len(), 1);
    let mut out = Vec::new();
    assert!(!client.preface(at(240), &mut out), "a client never does");
}

#[test]
fn timers_say_when_they_are_due() {
    let (server, client) = pair();
    let link = &server.peers[&address(HOME)].link;
    let sent = Timestamp::from_millis(100);
    let wake = link.poll_timeout().unwrap();
    assert_eq!(
        (wake.at, wake.why),
        (sent + Duration::from_millis(100), Wake::KeepAlive)
    );
    assert!(!link.is_keep_alive_due(at(199)) && link.is_keep_alive_due(at(200)));
    // The server's limit is the timeout, the client's the moment after it.
    assert!(!link.is_timed_out(at(5_099)) && link.is_timed_out(at(5_100)));
    assert!(!client.is_timed_out(at(5_100)) && client.is_timed_out(at(5_101)));
}

/// Windows and timers go by what arrived, whatever the order it arrived in.
#[test]
fn reordered_and_duplicated_packets_are_taken_once() {
    let (mut server, mut client) = pair();
    let from = address(HOME);
    let packets: Vec<_> = (0..300u16)
        .map(|n| seal(&mut client, at(200), &n.to_le_bytes()))
        .collect();
    let mut expected = Vec::new();
    // 299 first, then everything backwards: the newest 256 are within the window.
    for n in (0..300usize).rev() {
        server.receive(at(300), from, &packets[n]);
        server.receive(at(300), from, &packets[n]);
        if n >= 300 - 256 {
            expected.push((n as u16).to_le_bytes().to_vec());
        }
    }
    assert_eq!(server.delivered, expected);
    let stale = server
        .rejects
        .iter()
        .filter(|r| **r == Reject::Stale)
        .count();
    let replayed = server
        .rejects
        .iter()
        .filter(|r| **r == Reject::Replayed)
        .count();
    assert_eq!((stale, replayed), (2 * 44, 256));
}

#[test]
#[should_panic(expected = "a payload of 1201 bytes")]
fn a_payload_that_is_too_long_is_our_own_bug() {
    let (_, mut client) = pair();
    seal(&mut client, at(200), &[0; 1201]);
}
