//! gaffer from end to end, in its reliable mode: the promises of yojimbo that need no keys.

use std::sync::Arc;
use std::time::Duration;

use super::games::{Game, Rules, client_address, server_address};
use super::scenario::{Scenario, bad_weather, path};
use crate::endpoint::Handled;
use crate::gaffer::wire::Header;
use crate::gaffer::{Late, Params, Payload, Session};
use crate::sender;
use crate::session::{CloseReason, Reject, Session as _};
use crate::sim::{Conditions, Traffic};
use crate::time::{Now, Timestamp};

fn scenario(seed: u64, weather: Conditions, up: &Traffic, down: &Traffic) -> Scenario {
    let mut game = Game::new(Rules::Gaffer(Arc::default()), seed);
    Scenario::new(&mut game, 1, weather, up, down)
}

#[test]
fn messages_of_many_fragments_keep_their_order() {
    let traffic = Traffic {
        messages: 30,
        sizes: 900..=16_000,
        every: Duration::from_millis(100),
        ..Traffic::default()
    };
    let mut scenario = scenario(22, bad_weather(), &traffic, &traffic);
    scenario.deliver_all_within(Duration::from_secs(200));
}

/// A lost message of more than half a packet has to be sent again although others wait behind it.
#[test]
fn a_large_lost_message_is_sent_again_before_fresh_ones() {
    let up = Traffic {
        messages: 1_000,
        sizes: 900..=1_000,
        every: Duration::from_millis(2),
        ..Traffic::default()
    };
    let weather = path(10, 0.02);
    let down = Traffic::silent();
    let mut scenario = scenario(28, weather, &up, &down);
    scenario.deliver_all_within(Duration::from_secs(120));
}

#[test]
fn no_backend_is_opened_for_an_address_that_was_not_probed() {
    let silent = Traffic::silent();
    let mut scenario = scenario(25, Conditions::default(), &silent, &silent);
    for sequence in 0..1_000u32 {
        let mut datagram = Vec::new();
        let header = Header {
            protocol_id: Params::default().protocol_id,
            sequence,
            // Half of them guess a number that was never told.
            ack: if sequence % 2 == 0 { 0 } else { sequence << 12 },
            ack_bits: if sequence % 2 == 0 { 0 } else { u32::MAX },
        };
        header.emit(&mut datagram);
        datagram.push(0);
        let handled = scenario.inject(client_address(7), &datagram);
        assert!(
            matches!(handled, Handled::Replied | Handled::Rejected(_)),
            "{handled:?}"
        );
    }
    assert!(scenario.server().is_empty());
}

/// A packet that was under way when its session ended proved its address once more and opened
/// another session, which lacked what the first one had acknowledged.
#[test]
fn what_is_under_way_when_a_session_ends_opens_no_other() {
    let params = Arc::new(Params::default());
    let mut game = Game::new(Rules::Gaffer(params), 27);
    let mut now = Now {
        mono: Timestamp::from_millis(1),
        unix_secs: 0,
    };
    let mut server = game.server(0);
    let (mut client, peer) = game.dial(now, 0);
    let (mut under_way, mut out, mut reply) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..10 {
        now = now.after(Duration::from_millis(40));
        client.handle_timeout(now);
        client.send(now, peer, 0, b"once").ok();
        while client.poll_transmit(now, &mut out).is_some() {
            under_way.push(out.clone());
            let (from, mut datagram) = (client_address(0), std::mem::take(&mut out));
            if let Handled::Accepted(id) =
                server.handle_datagram(now, from, &mut datagram, &mut reply)
            {
                server.admit(now, id);
            }
            if !reply.is_empty() {
                client.handle_datagram(now, server_address(), &mut reply.clone(), &mut out);
            }
        }
    }
    let peers: Vec<_> = server.peers().map(|(id, ..)| id).collect();
    assert_eq!(peers.len(), 1, "the session was real");
    server.close(now, peers[0], CloseReason::Kicked);
    server.let_go(peers[0]);
    while server.poll_transmit(now, &mut out).is_some() {}
    for datagram in &under_way {
        let from = client_address(0);
        let handled = server.handle_datagram(now, from, &mut datagram.clone(), &mut reply);
        assert!(!matches!(handled, Handled::Accepted(_)), "{handled:?}");
    }
    assert!(server.is_empty());
    // Nor is the address shut out: who dials again gets in.
    let (mut client, _) = game.dial(now, 0);
    for _ in 0..10 {
        now = now.after(Duration::from_millis(40));
        client.handle_timeout(now);
        while client.poll_transmit(now, &mut out).is_some() {
            let mut datagram = std::mem::take(&mut out);
            server.handle_datagram(now, client_address(0), &mut datagram, &mut reply);
            if !reply.is_empty() {
                client.handle_datagram(now, server_address(), &mut reply.clone(), &mut out);
            }
        }
    }
    assert_eq!(server.len(), 1);
}

/// An accepted session, and a peer that sends it one reliable message in each packet.
struct Uphill {
    session: Session,
    now: Now,
    sequence: u32,
}

impl Uphill {
    fn from(sequence: u32) -> Self {
        Self::to(&Params::default(), sequence)
    }

    fn to(params: &Params, sequence: u32) -> Self {
        let now = Now {
            mono: Timestamp::from_millis(1),
            unix_secs: 0,
        };
        let mut session = Session::replayed(now, params, [7, 7, 0, 0, 0]);
        session.admit(now);
        Self {
            session,
            now,
            sequence,
        }
    }

    fn send(&mut self, id: u16) -> Result<(), Reject> {
        let mut payload = vec![1];
        payload.extend(id.to_be_bytes());
        payload.extend(1_000u16.to_be_bytes());
        payload.extend([0; 1_000]);
        self.send_payload(&payload)
    }

    fn send_payload(&mut self, payload: &[u8]) -> Result<(), Reject> {
        self.now = self.now.after(Duration::from_millis(1));
        let mut datagram = Vec::new();
        let header = Header {
            protocol_id: Params::default().protocol_id,
            sequence: self.sequence,
            ack: 0,
            ack_bits: 0,
        };
        header.emit(&mut datagram);
        datagram.extend(payload);
        self.sequence = self.sequence.wrapping_add(1);
        self.session.handle_datagram(self.now, &mut datagram)
    }
}

/// While a backend is slow, its peer is refused packet after packet. However many that are, it is the same peer, and not
/// one that began again far away.
#[test]
fn a_peer_that_was_refused_for_long_is_still_itself() {
    let mut peer = Uphill::from(1);
    let mut id = 0;
    while peer.send(id).is_ok() {
        id += 1;
    }
    for _ in 0..5_000 {
        assert_eq!(peer.send(id), Err(Reject::Refused));
    }
    while peer.session.poll_message().is_some() {}
    assert_eq!(peer.send(id), Ok(()));
}

/// A random number of 32 bits is above 2^31 every other time.
#[test]
fn a_peer_may_begin_to_count_anywhere() {
    for first in [0, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_fff0] {
        let mut peer = Uphill::from(first);
        for id in 0..40 {
            assert_eq!(peer.send(id), Ok(()), "{first:x}");
        }
        let mut out = Vec::new();
        assert!(peer.session.poll_transmit(peer.now, &mut out));
        let (header, _) = Header::parse(&out).unwrap();
        assert_eq!(header.ack, first.wrapping_add(39), "{first:x}");
        assert_eq!(header.ack_bits, u32::MAX, "{first:x}");
    }
}

/// Where each packet is one message, it is as long as the listener takes, however much a datagram holds.
#[test]
fn a_raw_packet_is_as_long_as_the_listener_takes() {
    let params = Params {
        payload: Payload::Raw { late: Late::Drop },
        message_bytes_max: 100,
        ..Params::default()
    };
    let mut uphill = Uphill::to(&params, 1);
    assert_eq!(uphill.send_payload(&[1; 101]), Err(Reject::Malformed));
    assert_eq!(uphill.send_payload(&[1; 100]), Ok(()));
    let message = uphill.session.poll_message().expect("the one that fits");
    assert_eq!(message.payload.len(), 100);
    assert!(uphill.session.poll_message().is_none());
}

/// A path that spreads datagrams over several links of which one is dead. What goes again once three later packets were
/// acknowledged, or three packets of the article's are over, meets the same link each time.
#[test]
fn losses_in_turn_do_not_hit_the_same_message_for_ever() {
    let traffic = Traffic {
        messages: 60,
        sizes: 0..=300,
        every: Duration::from_millis(50),
        unreliable: true,
        ..Traffic::default()
    };
    let mut one_by_one = sender::Params {
        redundancy: false,
        ..sender::Params::default()
    };
    one_by_one.outbox_bytes_max = 1;
    for sender in [one_by_one, sender::Params::article()] {
        let params = Params {
            sender,
            ..Params::default()
        };
        for (of, which) in (2..=5).flat_map(|of| (1..=of).map(move |which| (of, which))) {
            let in_turn = Conditions {
                nth: (of, which),
                ..path(100, 0.0)
            };
            for weathers in [[in_turn, path(100, 0.0)], [in_turn, in_turn]] {
                let mut game = Game::new(Rules::Gaffer(Arc::new(params.clone())), of.into());
                let mut scenario = Scenario::new(&mut game, 1, path(100, 0.0), &traffic, &traffic);
                scenario.set_weather(weathers[0], weathers[1]);
                scenario.deliver_all_within(Duration::from_secs(120));
            }
        }
    }
}
