//! What one peer may take of a worker: its share always, and more where nobody waits for it.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot get a socket has failed"
)]

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use support::toy::Client;
use support::{PATIENCE, Relay, Setup, accept, read_frame, tcp_backend, toy_policy};
use tidegate::clock;
use tidegate::config::Bucket;
use tidegate::listener::PeerLimits;
use tidegate::udp::{Options, Outgoing, Sent, UdpSocket};
use tidegate::worker::Command;
use tidegate_proto::Reject;

/// Ten datagrams a second, which every test goes far beyond.
fn limits(strict: bool) -> PeerLimits {
    let plenty = Bucket {
        rate: 1 << 30,
        burst: 1 << 30,
    };
    PeerLimits {
        packets: Bucket {
            rate: 10,
            burst: 10,
        },
        bytes: plenty,
        messages: plenty,
        strict,
    }
}

fn limited(strict: bool) -> Setup {
    Setup {
        limits: Some(limits(strict)),
        ..Setup::default()
    }
}

/// Sends a thousand datagrams, fifty at a time, none before the last fifty were read. Returns how many
/// were more than the peer's share.
fn refused_of_a_thousand(relay: &mut Relay, client: &Client) -> u64 {
    let before = relay.counters();
    for round in 1..=20 {
        (0..50).for_each(|_| client.send_unreliable(&[7; 100]));
        relay.wait_for("what was sent", |counters| {
            counters.datagrams_received >= before.datagrams_received + 50 * round
        });
    }
    let refused = Reject::PeerLimited as usize;
    relay.counters().rejects[refused] - before.rejects[refused]
}

#[test]
fn a_peer_may_have_what_nobody_waits_for() {
    let (backend, target) = tcp_backend();
    let mut relay = Relay::start(&[target], limited(false));
    let client = Client::connected(relay.address);
    let _stream = accept(&backend);
    assert_eq!(refused_of_a_thousand(&mut relay, &client), 0);
}

#[test]
fn a_strict_share_is_all_there_is() {
    let (backend, target) = tcp_backend();
    let mut relay = Relay::start(&[target], limited(true));
    let client = Client::connected(relay.address);
    let _stream = accept(&backend);
    let refused = refused_of_a_thousand(&mut relay, &client);
    assert!(refused > 0, "{refused} refused");
}

/// Who plays began with other limits, and keeps them.
#[test]
fn limits_that_a_reload_brings_are_those_of_newcomers() {
    let (backend, target) = tcp_backend();
    let setup = limited(false);
    let policy = toy_policy(std::slice::from_ref(&target), &setup, limits(true));
    let mut relay = Relay::start(&[target], setup);
    let veteran = Client::connected(relay.address);
    let _stream = accept(&backend);
    relay.tell(Command::Visit(Box::new(move |_, listeners| {
        listeners[0].set_policy(policy);
    })));
    let newcomer = Client::connected(relay.address);
    let _other = accept(&backend);
    let refused = refused_of_a_thousand(&mut relay, &newcomer);
    assert!(refused > 0, "{refused} refused");
    assert_eq!(refused_of_a_thousand(&mut relay, &veteran), 0);
}

/// A stranger that names a peer's address sends what the peer's session refuses, and is not paid for by the peer.
#[test]
fn what_anybody_may_have_sent_is_no_peers_to_pay() {
    let (backend, target) = tcp_backend();
    let mut relay = Relay::start(&[target], limited(true));
    let mut client = Client::connected(relay.address);
    let mut stream = accept(&backend);
    let malformed = Reject::Malformed as usize;
    for round in 1..=20 {
        for _ in 0..50 {
            client.socket.send(b"?").unwrap();
        }
        relay.wait_for("the nonsense", |counters| {
            counters.rejects[malformed] >= 50 * round
        });
    }
    client.send(b"and still heard");
    assert_eq!(read_frame(&mut stream).unwrap(), b"and still heard");
    assert_eq!(relay.counters().rejects[Reject::PeerLimited as usize], 0);
}

/// Few datagrams and few bytes, but each datagram has a thousand messages.
#[test]
fn messages_in_a_datagram_are_paid_for() {
    let (backend, target) = tcp_backend();
    let bucket = |rate, burst| Bucket { rate, burst };
    let limits = PeerLimits {
        packets: bucket(1 << 30, 1 << 30),
        // Four such datagrams at once, and one more a minute: what comes back while the test waits is nothing.
        bytes: bucket(1024, 256 * 1024),
        ..limits(true)
    };
    let setup = Setup {
        limits: Some(limits),
        ..Setup::default()
    };
    let mut relay = Relay::start(&[target], setup);
    let client = Client::connected(relay.address);
    let _stream = accept(&backend);
    for round in 1..=40 {
        client.socket.send(&[b'T'; 1001]).unwrap();
        relay.wait_for("what was sent", |counters| {
            counters.datagrams_received > round
        });
    }
    let refused = relay.counters().rejects[Reject::PeerLimited as usize];
    assert!(refused >= 20, "{refused} refused");
}

/// What is too short to be paid for by its bytes is counted instead, and waits. Nothing is lost.
#[test]
fn short_messages_have_a_rate_of_their_own() {
    let (backend, target) = tcp_backend();
    let messages = Bucket { rate: 1, burst: 10 };
    let limits = PeerLimits {
        messages,
        ..limits(false)
    };
    let setup = Setup {
        limits: Some(limits),
        ..Setup::default()
    };
    let relay = Relay::start(&[target], setup);
    let mut client = Client::connected(relay.address);
    let mut stream = accept(&backend);
    let mut takes = |length: usize, count: usize| {
        let began = clock::now();
        (0..count).for_each(|_| client.send(&vec![7; length]));
        client.run_until("taken", |client| client.unacked() == 0);
        for _ in 0..count {
            assert_eq!(read_frame(&mut stream).unwrap(), vec![7; length]);
        }
        began.elapsed()
    };
    let long = takes(64, 200);
    assert!(long < PATIENCE, "as if they were short: {long:?}");
    let short = takes(63, 12);
    assert!(short > Duration::from_millis(1_900), "{short:?}");
}

/// Two send as fast as they can: once more comes than one turn reads, each gets its share and no more.
#[test]
fn in_a_crowd_everybody_has_a_share() {
    let (backend, target) = tcp_backend();
    let mut relay = Relay::start(&[target], limited(false));
    let greedy = [(); 2].map(|()| Client::connected(relay.address));
    let mut streams = [(); 2].map(|()| accept(&backend));
    for stream in &mut streams {
        stream
            .set_read_timeout(Some(Duration::from_millis(100)))
            .unwrap();
    }
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = End(&over);
        for client in &greedy {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    // A full send buffer is no error here.
                    client.socket.send(&[b'U'; 200]).ok();
                }
            });
        }
        for stream in streams {
            let over = &over;
            scope.spawn(move || {
                let mut stream = stream;
                while !over.load(Ordering::Relaxed) {
                    std::io::copy(&mut stream, &mut std::io::sink()).ok();
                }
            });
        }
        relay.wait_for("a crowd", |counters| {
            counters.rejects[Reject::PeerLimited as usize] > 0
        });
    });
}

/// Ends the threads of a test, also of one that fails.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The kernel joins what one sender sends at once. A hello behind few refusals is heard; behind eight of them nothing is
/// looked at, and all of it is counted.
#[test]
fn a_stranger_who_is_refused_eight_times_in_one_buffer_is_heard_no_further() {
    let (listener, target) = tcp_backend();
    let targets = [target];
    let anybody = toy_policy(&targets, &Setup::default(), limits(false)).admission;
    let setup = Setup {
        admission: Some(anybody),
        ..Setup::default()
    };
    let mut relay = Relay::start(&targets, setup);
    let address = relay.address;
    let mut socket = UdpSocket::bind(([127, 0, 0, 1], 0).into(), Options::default()).unwrap();
    let mut say_at_once = |words: &[u8]| {
        let mut outgoing = Outgoing::default();
        for word in words {
            outgoing.bytes().push(*word);
            outgoing.push(address, None);
        }
        let mut sent = Sent::default();
        socket.send(&outgoing, &mut sent);
        sent.calls == 1
    };
    let early = Reject::Unexpected as usize;
    assert!(say_at_once(b"MMMMMMMMHMMMMMMH"));
    let refused = relay.wait_for("what was sent", |counters| {
        counters.datagrams_received == 16
    });
    assert_eq!((refused.rejects[early], refused.peers), (16, 0));
    assert!(say_at_once(b"MMMMMMMH"));
    let _stream = accept(&listener);
    let counters = relay.wait_for("a peer", |counters| counters.peers == 1);
    assert_eq!(counters.rejects[early], 16 + 7);
}
