//! Two workers' shares of one listener, turned by hand: a peer that is handed over while the one that
//! asked for it goes is in no moment nowhere.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot get a socket has failed"
)]

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use mio::{Events, Poll, Waker};
use support::{PATIENCE, Setup, toy, toy_parts, wait_until};
use tidegate::backend::{Pool, Scratch};
use tidegate::board::{Board, ListenerInfo, WorkerSocket};
use tidegate::capacity::Capacity;
use tidegate::config::Balance;
use tidegate::counters::{Direction, WorkerCounters};
use tidegate::listener::{Listener, Siblings, Turn, Whom, meaning};
use tidegate::udp::{Options, Outgoing, Received};
use tidegate_proto::{CloseReason, Endpoint, Now, Reject, Timestamp, endpoint};

/// Both shares on one poll, and a clock that goes when we say so.
struct Bench {
    poll: Poll,
    shares: Vec<Listener>,
    addresses: Vec<SocketAddr>,
    board: Arc<Board>,
    now: Now,
    backend: TcpListener,
}

impl Bench {
    fn new() -> Self {
        let (backend, target) = support::tcp_backend();
        let now = Now {
            mono: Timestamp::from_millis(1_000),
            unix_secs: 1_000,
        };
        let board = Arc::new(Board::new(now, Capacity::new(64, 1 << 28).into()));
        let targets = [target.clone()];
        board.add_backend("test", Pool::new(Balance::First, &targets).into());
        let info = ListenerInfo {
            name: "test".into(),
            protocol: "toy",
            bind: Vec::new(),
            backend: "test".into(),
            peers_max: 64,
        };
        let reporters = board.add_listener(info, &WorkerSocket::one_each(2));
        let poll = Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), mio::Token(usize::MAX)).unwrap());
        let mut addresses = Vec::new();
        let siblings = Siblings::new(2).into_iter();
        let shares = reporters.into_iter().zip(siblings).enumerate();
        let shares = shares.map(|(index, (reporter, siblings))| {
            let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
            // The kernel chooses between sockets of one port; here the test does, by the port.
            let socket = tidegate::udp::UdpSocket::bind(loopback, Options::default()).unwrap();
            addresses.push(socket.local_addr());
            let params = endpoint::Params {
                follow: endpoint::Follow::Port,
                ..endpoint::Params::default()
            };
            let targets = std::slice::from_ref(&target);
            let mut parts = toy_parts(socket, targets, &Setup::default(), Some(reporter));
            parts.endpoint = Endpoint::new(Box::new(toy::ToyAcceptor), params);
            parts.siblings = siblings;
            let mut listener = Listener::new(index, parts);
            listener.register(poll.registry(), &waker).unwrap();
            listener
        });
        Self {
            shares: shares.collect(),
            poll,
            addresses,
            board,
            now,
            backend,
        }
    }

    /// One turn of one of them.
    fn turn(&mut self, index: usize) {
        let mut events = Events::with_capacity(64);
        self.poll
            .poll(&mut events, Some(Duration::from_millis(1)))
            .unwrap();
        for event in &events {
            if let Some((of, what)) = meaning(event.token()) {
                self.shares[of].on_event(what, event);
            }
        }
        let mut turn = Turn {
            now: self.now,
            registry: self.poll.registry(),
            received: &mut Received::default(),
            outgoing: &mut Outgoing::default(),
            scratch: &mut Scratch::new(self.shares[index].max_frame()),
            reply: &mut Vec::new(),
        };
        let share = &mut self.shares[index];
        share.receive(&mut turn);
        share.handle_timeouts(&mut turn);
        share.pump(&mut turn);
        share.transmit(&mut turn);
        share.handle_strangers(&mut turn);
    }

    fn pass(&mut self, millis: u64) {
        self.now.mono += Duration::from_millis(millis);
    }

    /// What both counted.
    fn counters(&mut self) -> WorkerCounters {
        let now = self.now;
        for share in &mut self.shares {
            share.publish_last(now);
        }
        self.board.snapshot(now).listeners[0].counters.clone()
    }

    /// A player at the first of them: its socket, and its backend's stream.
    fn player(&mut self) -> (UdpSocket, TcpStream) {
        self.player_at(0)
    }

    fn player_at(&mut self, index: usize) -> (UdpSocket, TcpStream) {
        let player = UdpSocket::bind("127.0.0.1:0").unwrap();
        player.send_to(b"H", self.addresses[index]).unwrap();
        let before = self.counters().handshakes_accepted;
        wait_until("a session", PATIENCE, || {
            self.turn(index);
            (self.counters().handshakes_accepted > before).then_some(())
        });
        (player, support::accept(&self.backend))
    }

    /// A datagram comes to one of them.
    fn say(&mut self, from: &UdpSocket, datagram: &[u8], index: usize) {
        from.send_to(datagram, self.addresses[index]).unwrap();
        let before = self.counters().datagrams_received;
        wait_until("its datagram", PATIENCE, || {
            self.turn(index);
            (self.counters().datagrams_received > before).then_some(())
        });
    }

    /// A player at each of them. Then the first one's router gives it the address that the second one had, from which the
    /// kernel leads to the second one's worker, and that has asked whose a message from there is.
    fn one_at_the_address_of_another(&mut self) -> (SocketAddr, [(UdpSocket, TcpStream); 2]) {
        let (player, stream) = self.player_at(0);
        let (other, others) = self.player_at(1);
        self.say(&player, b"M\0\0\0\0one", 0);
        self.pass(2_000);
        self.say(&other, b"V\0\0\0\x01two", 1);
        let was_at = player.local_addr().unwrap();
        (was_at, [(player, stream), (other, others)])
    }

    /// Such a player, whose datagram then came to the second of them from another port, which has asked
    /// for it.
    fn lost_player(&mut self) -> (UdpSocket, TcpStream) {
        let (_, stream) = self.player();
        (self.moves(), stream)
    }

    /// The player gets another port, from which the kernel leads to the second of them.
    fn moves(&mut self) -> UdpSocket {
        // Silent for long enough that somebody else's datagram may be its.
        self.pass(2_000);
        let moved = UdpSocket::bind("127.0.0.1:0").unwrap();
        self.say(&moved, b"V", 1);
        moved
    }
}

/// A drain by hand may last for hours, and those who play stay: their routers change ports meanwhile as ever.
#[test]
fn a_peer_moves_while_nobody_new_is_taken() {
    let mut bench = Bench::new();
    let (_, mut stream) = bench.player();
    for share in &mut bench.shares {
        share.set_draining(true);
    }
    let moved = bench.moves();
    bench.turn(0);
    assert!(bench.shares[0].is_empty(), "it was not handed over");
    bench.turn(1);
    stream.write_all(b"\0\x01?").unwrap();
    moved.set_nonblocking(true).unwrap();
    let mut heard = [0; 16];
    wait_until("its message", PATIENCE, || {
        bench.turn(1);
        let length = moved.recv(&mut heard).ok()?;
        (heard[..length].ends_with(b"?")).then_some(())
    });
    let counters = bench.counters();
    assert_eq!((counters.sessions_opened, counters.closed()), (1, 0));
    assert_eq!(counters.invariant_violations, 0);
}

/// The one that was there is silent: it may have changed places with the other. Both are listed where they are, and what
/// comes from there is the other one's from now on.
#[test]
fn a_silent_peer_makes_way_for_one_that_moves_to_its_address() {
    let mut bench = Bench::new();
    let (was_at, [(player, mut stream), (other, _others)]) = bench.one_at_the_address_of_another();
    bench.turn(0);
    assert!(bench.shares[0].is_empty(), "it was not handed over");
    bench.turn(1);
    let mut frames = [0; 10];
    stream.read_exact(&mut frames).unwrap();
    assert_eq!(&frames, b"\0\x03one\0\x03two");
    let views = bench.shares[1].views(bench.now);
    let mut listed: Vec<_> = views.iter().map(|view| view.address.clone()).collect();
    let mut there = [was_at, other.local_addr().unwrap()].map(|address| address.to_string());
    listed.sort();
    there.sort();
    assert_eq!(listed, there);

    bench.say(&player, b"V\0\0\0\0of the other", 1);
    let counters = bench.counters();
    let received = counters.messages_forwarded[Direction::ToBackend as usize];
    assert_eq!(
        received, 3,
        "the other is at the address that was the first one's"
    );
    assert_eq!((counters.sessions_opened, counters.closed()), (2, 0));
    assert_eq!(counters.invariant_violations, 0);
}

/// Two cannot be at one address, and the one that is heard there is.
#[test]
fn a_peer_that_moves_to_where_another_is_heard_ends() {
    let mut bench = Bench::new();
    let (_, [(_player, mut stream), (other, mut others)]) = bench.one_at_the_address_of_another();
    bench.say(&other, b"M\0\0\0\0here", 1);
    bench.turn(0);
    assert!(bench.shares[0].is_empty(), "it was not handed over");
    wait_until("its end", PATIENCE, || {
        bench.turn(1);
        (bench.counters().closed() == 1).then_some(())
    });
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    assert_eq!(all, b"\0\x03one", "what it said before, and the end");
    bench.say(&other, b"M\0\0\0\x01still", 1);
    let mut frames = [0; 13];
    others.read_exact(&mut frames).unwrap();
    assert_eq!(&frames, b"\0\x04here\0\x05still");
    let counters = bench.counters();
    assert_eq!(counters.sessions_closed[CloseReason::Replaced as usize], 1);
    assert_eq!(counters.invariant_violations, 0);
}

/// Its backend reads nothing, so its session takes nothing, and what first comes from its new address is refused. It is
/// there all the same: it is listed there, kicked there, and told there.
#[test]
fn a_peer_that_is_refused_where_it_moved_to_is_there() {
    for to in [0, 1] {
        let mut bench = Bench::new();
        let (player, _stream) = bench.player();
        let mut next = 0u32;
        let refused = |bench: &mut Bench| bench.counters().rejects[Reject::Refused as usize];
        wait_until("a full inbox", PATIENCE, || {
            let message = [b"M", &next.to_be_bytes()[..], &[7; 1_000]].concat();
            player.send_to(&message, bench.addresses[0]).unwrap();
            let before = bench.counters().datagrams_received;
            while bench.counters().datagrams_received == before {
                bench.turn(0);
            }
            next += 1;
            (refused(&mut bench) > 0).then_some(())
        });
        let held = bench.counters().queued_bytes[Direction::ToBackend as usize];
        bench.pass(2_000);
        let moved = UdpSocket::bind("127.0.0.1:0").unwrap();
        let next = next - 1;
        let message = [b"V", &next.to_be_bytes()[..], &[7; 1_000]].concat();
        moved.send_to(&message, bench.addresses[to]).unwrap();
        wait_until("its datagram", PATIENCE, || {
            bench.turn(to);
            bench.turn(0);
            (refused(&mut bench) > 1).then_some(())
        });
        let now = bench.now;
        let address = moved.local_addr().unwrap();
        let views = bench.shares[to].views(now);
        assert_eq!(views[0].address, address.to_string());
        assert_eq!(bench.counters().address_moves, 1);
        let holds = bench.counters().queued_bytes[Direction::ToBackend as usize];
        let once = held / 2..held * 3 / 2;
        assert!(once.contains(&holds), "{holds} where it held {held}");
        let ended = bench.shares[to].end(now, Whom::Address(address), CloseReason::Kicked);
        assert_eq!(ended, 1);
        bench.turn(to);
        moved.set_nonblocking(true).unwrap();
        let all = std::iter::from_fn(|| {
            let mut heard = vec![0; 16];
            let length = moved.recv(&mut heard).ok()?;
            heard.truncate(length);
            Some(heard)
        });
        assert_eq!(all.last().unwrap(), b"Bkicked");
    }
}

#[test]
fn a_peer_for_one_that_closed_meanwhile_stays_where_it_was() {
    let mut bench = Bench::new();
    let _player = bench.lost_player();
    let (now, grace) = (bench.now, Duration::from_secs(5));
    bench.shares[1].retire(now, grace);
    assert!(bench.shares[1].poll_retired(now), "nobody is there");
    bench.turn(0);
    assert!(!bench.shares[0].is_empty(), "the session is gone");
    let counters = bench.counters();
    assert_eq!((counters.sessions_opened, counters.closed()), (1, 0));
    assert_eq!(counters.invariant_violations, 0);
    assert_eq!(counters.targets[0].connections, 1);
}

#[test]
fn a_peer_on_its_way_to_one_that_goes_is_told_and_counted() {
    let mut bench = Bench::new();
    let (moved, _stream) = bench.lost_player();
    bench.turn(0);
    assert!(bench.shares[0].is_empty(), "it was not handed over");
    let (now, grace) = (bench.now, Duration::from_secs(5));
    bench.shares[1].retire(now, grace);
    assert!(!bench.shares[1].poll_retired(now), "somebody is on the way");
    wait_until("its end", PATIENCE, || {
        bench.turn(1);
        bench.pass(100);
        let now = bench.now;
        bench.shares[1].poll_retired(now).then_some(())
    });
    let mut heard = [0; 16];
    moved.set_nonblocking(true).unwrap();
    let said_goodbye = std::iter::from_fn(|| moved.recv(&mut heard).ok().map(|_| heard[0]));
    assert!(said_goodbye.into_iter().any(|kind| kind == b'B'));
    let counters = bench.counters();
    assert_eq!((counters.sessions_opened, counters.closed()), (1, 1));
    assert_eq!(counters.sessions_closed[CloseReason::Drain as usize], 1);
    assert_eq!(counters.invariant_violations, 0);
    assert_eq!(counters.targets[0].connections, 0);
}

/// A peer that is kicked or banned while it is with no worker ends where it comes.
#[test]
fn a_peer_on_its_way_misses_no_order() {
    for reason in [CloseReason::Kicked, CloseReason::Banned] {
        let mut bench = Bench::new();
        let (moved, _stream) = bench.lost_player();
        bench.turn(0);
        assert!(bench.shares[0].is_empty(), "it was not handed over");
        let now = bench.now;
        let whom = Whom::Range("127.0.0.1/32".parse().unwrap());
        for share in &mut bench.shares {
            let ended = match reason {
                CloseReason::Banned => share.ban(now, whom, None).unwrap(),
                _ => share.end(now, whom, reason),
            };
            assert_eq!(ended, 0, "nobody has it");
        }
        wait_until("its end", PATIENCE, || {
            bench.turn(1);
            bench.pass(100);
            (bench.counters().closed() == 1).then_some(())
        });
        let counters = bench.counters();
        assert_eq!(counters.sessions_closed[reason as usize], 1);
        assert_eq!(counters.invariant_violations, 0);
        drop(moved);
    }
}

/// An order is for those who were there: who comes and moves after it stays.
#[test]
fn who_joins_after_an_order_stays() {
    let mut bench = Bench::new();
    let (now, whom) = (bench.now, Whom::Range("127.0.0.1/32".parse().unwrap()));
    for share in &mut bench.shares {
        assert_eq!(share.end(now, whom, CloseReason::Kicked), 0);
    }
    bench.pass(1);
    let (_moved, _stream) = bench.lost_player();
    bench.turn(0);
    for _ in 0..5 {
        bench.turn(1);
        bench.pass(100);
    }
    assert!(!bench.shares[1].is_empty(), "it did not come");
    assert_eq!(bench.counters().closed(), 0);
}

/// Who takes what was accepted for it gets more time with every message. A listener that goes does not wait for it
/// beyond the grace.
#[test]
fn a_peer_that_is_still_served_is_ended_with_the_grace() {
    let mut bench = Bench::new();
    let (player, mut stream) = bench.player();
    player.set_nonblocking(true).unwrap();
    let messages = 20;
    for _ in 0..messages {
        stream.write_all(b"\0\x01?").unwrap();
    }
    wait_until("all messages", PATIENCE, || {
        bench.turn(0);
        let forwarded = bench.counters().messages_forwarded[Direction::ToPeer as usize];
        (forwarded == messages).then_some(())
    });
    let (now, grace) = (bench.now, Duration::from_secs(5));
    bench.shares[0].retire(now, grace);
    for taken in 1..=5u32 {
        let now = bench.now;
        assert!(!bench.shares[0].poll_retired(now), "{taken}");
        let answer = [b"A", &taken.to_be_bytes()[..]].concat();
        player.send_to(&answer, bench.addresses[0]).unwrap();
        bench.turn(0);
        assert_eq!(bench.counters().closed(), 0, "before its grace is over");
        bench.pass(1_000);
    }
    let now = bench.now;
    assert!(!bench.shares[0].poll_retired(now), "it is told first");
    bench.turn(0);
    let counters = bench.counters();
    assert_eq!(
        counters.sessions_closed[CloseReason::Shutdown as usize],
        1,
        "{}",
        counters.closed()
    );
    drop(stream);
    wait_until("its end", PATIENCE, || {
        bench.turn(0);
        bench.shares[0].poll_retired(now).then_some(())
    });
    let mut heard = [0; 16];
    let goodbye = std::iter::from_fn(|| {
        player
            .recv(&mut heard)
            .ok()
            .map(|length| heard[..length].to_vec())
    });
    assert_eq!(goodbye.last().unwrap(), b"Bshutdown");
}
