//! One worker over real sockets, with a toy protocol on the UDP side: everything a backend can do to
//! a session, and a session to a backend.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot get a socket has failed"
)]

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};
use support::place::Place;
use support::toy::Client;
use support::{
    PATIENCE, Relay, Setup, accept, closed_port, read_frame, tcp_backend, tcp_target, toy_parts,
    wait_until, write_frame,
};
use tidegate::backend::Pool;
use tidegate::clock::Clock;
use tidegate::config::{Balance, Target, UnreliablePolicy};
use tidegate::counters::{Direction, DropReason};
use tidegate::framing::{FrameCodec, Framing};
use tidegate::proxy_protocol::{ProxyHeader, ProxyTlvs, ProxyTransport, ProxyVersion};
use tidegate::worker::{Command, Handle};
use tidegate_proto::{CloseReason, Reject, Timestamp};

fn closed(relay: &mut Relay, reason: CloseReason) {
    relay.wait_for(reason.label(), |counters| {
        counters.sessions_closed[reason as usize] == 1 && counters.peers == 0
    });
}

/// The relay ends this client's session, and says why to it and to us.
fn ended(relay: &mut Relay, client: &mut Client, reason: CloseReason) {
    client.run_until("goodbye", |client| client.goodbye.is_some());
    assert_eq!(client.goodbye.as_deref(), Some(reason.label()));
    closed(relay, reason);
}

/// A client with a stream of its own at the backend.
fn seated(setup: Setup) -> (Relay, Client, TcpStream) {
    let (backend, target) = tcp_backend();
    let relay = Relay::start(&[target], setup);
    let (client, stream) = join(&relay, &backend);
    (relay, client, stream)
}

/// Another client, let in, with a stream of its own.
fn join(relay: &Relay, backend: &TcpListener) -> (Client, TcpStream) {
    let mut client = Client::new(relay.address);
    let stream = accept(backend);
    client.run_until("welcome", |client| client.welcome);
    (client, stream)
}

#[test]
fn messages_echo_through_tcp() {
    let (backend, target) = tcp_backend();
    let mut relay = Relay::start(&[target], Setup::default());
    let echo = std::thread::spawn(move || {
        let mut stream = accept(&backend);
        while let Some(message) = read_frame(&mut stream) {
            write_frame(&mut stream, &message);
        }
    });
    let mut client = Client::connected(relay.address);
    for number in 0..500u32 {
        client.send(&number.to_be_bytes().repeat(1 + number as usize % 50));
    }
    client.run_until("all echoed", |client| client.received.len() == 500);
    for (number, message) in (0..500u32).zip(&client.received) {
        assert_eq!(
            *message,
            number.to_be_bytes().repeat(1 + number as usize % 50)
        );
    }
    client.say_goodbye();
    closed(&mut relay, CloseReason::PeerDisconnect);
    echo.join().unwrap();
    let counters = relay.counters();
    assert_eq!(counters.rejects[Reject::ListenerLimited as usize], 0);
    assert_eq!(counters.messages_forwarded, [500, 500]);
    let turns = counters.forward_duration.each_ref();
    assert_eq!(turns.map(|histogram| histogram.count()), [500, 500]);
    assert_eq!(counters.messages_dropped, [[0; DropReason::ALL.len()]; 2]);
    let target = &counters.targets[0];
    assert_eq!(target.connections, 0);
    let framed = client.received.iter().map(|message| 2 + message.len());
    let framed = framed.sum::<usize>() as u64;
    assert_eq!(counters.message_bytes_forwarded, [framed - 2 * 500; 2]);
    assert_eq!((target.bytes_sent, target.bytes_received), (framed, framed));
    assert!(counters.sent.bytes > framed);
    assert!(counters.receive_buffer_bytes > 0 && counters.send_buffer_bytes > 0);
}

#[test]
fn messages_echo_through_a_unix_socket() {
    let place = Place::new("echo");
    let path = place.path("backend.sock");
    let backend = UnixListener::bind(&path).unwrap();
    let mut relay = Relay::start(&[Target::Unix(path)], Setup::default());
    let echo = std::thread::spawn(move || {
        let (mut stream, _) = backend.accept().unwrap();
        while let Some(message) = read_frame(&mut stream) {
            write_frame(&mut stream, &message);
        }
    });
    let mut client = Client::connected(relay.address);
    for number in 0..100u32 {
        client.send(&number.to_be_bytes());
    }
    client.run_until("all echoed", |client| client.received.len() == 100);
    client.say_goodbye();
    closed(&mut relay, CloseReason::PeerDisconnect);
    echo.join().unwrap();
}

#[test]
fn ipv6_peers_are_served() {
    let (backend, target) = tcp_backend();
    let bind = SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, 0));
    if std::net::UdpSocket::bind(bind).is_err() {
        return; // A machine without IPv6.
    }
    let relay = Relay::start(
        &[target],
        Setup {
            bind,
            ..Setup::default()
        },
    );
    let (mut client, mut stream) = join(&relay, &backend);
    client.send(b"six");
    assert_eq!(read_frame(&mut stream).unwrap(), b"six");
}

/// A listener that has all addresses of its host names the one that this player dialled.
#[test]
fn a_backend_is_told_which_address_was_dialled() {
    let header = ProxyHeader {
        version: ProxyVersion::V1,
        transport: ProxyTransport::Stream,
        tlvs: ProxyTlvs::default(),
    };
    let (backend, target) = tcp_backend();
    let setup = Setup {
        bind: SocketAddr::from(([0, 0, 0, 0], 0)),
        proxy: Some(header),
        ..Setup::default()
    };
    let relay = Relay::start(&[target], setup);
    let port = relay.address.port();
    let client = Client::new(SocketAddr::from(([127, 0, 0, 2], port)));
    let from = client.socket.local_addr().unwrap().port();
    let mut line = String::new();
    let mut stream = BufReader::new(accept(&backend));
    stream.read_line(&mut line).unwrap();
    assert_eq!(
        line,
        format!("PROXY TCP4 127.0.0.1 127.0.0.2 {from} {port}\r\n")
    );
}

/// Nobody is seated in front of a backend that is not there.
#[test]
fn a_refusing_backend_denies_the_peer() {
    let (_closed, address) = closed_port();
    // Of eight tries, the last ones find the target at rest; that it refused is still why.
    for attempts in [1, 8] {
        let target = tcp_target(address.port());
        let setup = Setup {
            attempts,
            ..Setup::default()
        };
        let mut relay = Relay::start(&[target], setup);
        let mut client = Client::new(relay.address);
        ended(&mut relay, &mut client, CloseReason::BackendRefused);
        assert!(!client.welcome);
    }
}

#[test]
fn a_backend_without_a_socket_denies_the_peer() {
    let target = Target::Unix("/nonexistent/backend.sock".into());
    let mut relay = Relay::start(&[target], Setup::default());
    let mut client = Client::new(relay.address);
    ended(&mut relay, &mut client, CloseReason::BackendUnreachable);
}

/// A server that takes its time to accept, while more peers join than its queue holds: they wait, as
/// they would with TCP, and nobody is denied.
#[test]
fn peers_wait_for_a_full_queue() {
    let place = Place::new("queue");
    let path = place.path("backend.sock");
    let backend = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
    backend.bind(&SockAddr::unix(&path).unwrap()).unwrap();
    backend.listen(1).unwrap();
    let mut relay = Relay::start(&[Target::Unix(path)], Setup::default());
    let mut clients: Vec<_> = (0..6).map(|_| Client::new(relay.address)).collect();
    relay.wait_for("all of them came", |counters| {
        counters.sessions_opened == 6 && counters.targets[0].connects >= 1
    });
    let streams: Vec<_> = (0..6).map(|_| backend.accept().unwrap()).collect();
    for client in &mut clients {
        client.run_until("welcome", |client| client.welcome);
        assert_eq!(client.goodbye, None);
    }
    let counters = relay.counters();
    assert_eq!(counters.targets[0].connect_failures, [0; 8]);
    drop(streams);
}

#[test]
fn the_next_target_stands_in_for_a_dead_one() {
    let (_closed, dead) = closed_port();
    let first = tcp_target(dead.port());
    let (backend, second) = tcp_backend();
    let setup = Setup {
        attempts: 2,
        ..Setup::default()
    };
    let relay = Relay::start(&[first, second], setup);
    let (mut client, mut stream) = join(&relay, &backend);
    client.send(b"hello");
    assert_eq!(read_frame(&mut stream).unwrap(), b"hello");
}

/// A backend that comes up between two attempts is found.
#[test]
fn a_late_backend_is_tried_again() {
    // It has its port from the beginning, and does not listen yet.
    let (backend, address) = closed_port();
    let target = tcp_target(address.port());
    let setup = Setup {
        attempts: 200,
        ..Setup::default()
    };
    let mut relay = Relay::start(&[target], setup);
    let mut client = Client::new(relay.address);
    relay.wait_for("a failed connect", |counters| {
        counters.targets[0].connect_failures[0] > 0
    });
    backend.listen(16).unwrap();
    let _stream = accept(&TcpListener::from(backend));
    client.run_until("welcome", |client| client.welcome);
}

/// A peer that leaves while its stream is being connected takes its place in the balance with it.
#[test]
fn who_leaves_during_a_connect_is_not_counted_at_the_target() {
    let (_full, hangs) = hanging_backend();
    let (_other, target) = tcp_backend();
    let pool = Arc::new(Pool::new(Balance::LeastPeers, &[hangs, target]));
    let socket = tidegate::udp::UdpSocket::bind(
        SocketAddr::from(([127, 0, 0, 1], 0)),
        tidegate::udp::Options::default(),
    )
    .unwrap();
    let address = socket.local_addr();
    let mut parts = toy_parts(socket, &[], &Setup::default(), None);
    let destination = parts.terms.destination.as_mut().unwrap();
    (destination.pool, destination.timeout) = (pool.clone(), Duration::from_secs(60));
    let clock = Clock::start();
    let worker = Handle::spawn(0, clock, vec![parts], ()).unwrap();
    // Which one has fewer, now.
    let first = || {
        let (pick, _) = pool.pick(Timestamp::ZERO, None, None).unwrap();
        pool.on_closed(pick);
        pick.target
    };
    assert_eq!(first(), 0);
    let client = Client::new(address);
    wait_until("a connect", PATIENCE, || (first() == 1).then_some(()));
    client.say_goodbye();
    wait_until("its place", PATIENCE, || (first() == 0).then_some(()));
    worker.tell(Command::Stop);
    worker.join().unwrap().unwrap();
}

/// Everything the backend wrote before it closed arrives, then the reason.
#[test]
fn a_closing_backend_loses_nothing_it_wrote() {
    let (mut relay, mut client, mut stream) = seated(Setup::default());
    for number in 0..2_000u32 {
        write_frame(&mut stream, &number.to_be_bytes());
    }
    drop(stream);
    ended(&mut relay, &mut client, CloseReason::BackendClosed);
    let expected: Vec<_> = (0..2_000u32).map(|n| n.to_be_bytes().to_vec()).collect();
    assert_eq!(client.received, expected);
}

/// A backend that has only stopped writing still gets what its peer sends meanwhile.
#[test]
fn a_half_closed_backend_still_reads() {
    let (mut relay, mut client, mut stream) = seated(Setup::default());
    client.acknowledges = false;
    write_frame(&mut stream, b"last words");
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    client.send(b"after the half-close");
    assert_eq!(read_frame(&mut stream).unwrap(), b"after the half-close");
    client.acknowledges = true;
    client.run_until("goodbye", |client| client.goodbye.is_some());
    assert_eq!(client.received, [b"last words"]);
    assert_eq!(stream.read(&mut [0; 16]).unwrap(), 0, "an orderly end");
    closed(&mut relay, CloseReason::BackendClosed);
}

#[test]
fn a_killed_backend_ends_the_session() {
    let (mut relay, mut client, mut stream) = seated(Setup::default());
    write_frame(&mut stream, b"before");
    client.run_until("a message", |client| client.received.len() == 1);
    socket2::SockRef::from(&stream)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
    drop(stream);
    ended(&mut relay, &mut client, CloseReason::BackendReset);
}

/// The peer's goodbye does not outrun what it sent: all that was accepted is written, then the
/// stream ends in order, although the backend wrote what nobody will read.
#[test]
fn what_was_accepted_reaches_a_slow_backend_after_the_goodbye() {
    let (mut relay, mut client, mut stream) = seated(Setup::default());
    client.acknowledges = false;
    write_frame(&mut stream, b"unread");
    for number in 0..3_000u32 {
        client.send(&number.to_be_bytes().repeat(100));
    }
    // The backend reads nothing until the peer has gone; what does not fit is refused meanwhile.
    client.run_until("some accepted", |client| client.acked > 500);
    client.say_goodbye();
    relay.wait_for("closed", |counters| {
        counters.sessions_closed[CloseReason::PeerDisconnect as usize] == 1
    });
    write_frame(&mut stream, b"unread as well");
    let mut count = 0;
    while let Some(message) = read_frame(&mut stream) {
        assert_eq!(message, (count as u32).to_be_bytes().repeat(100));
        count += 1;
    }
    assert_eq!(stream.read(&mut [0; 16]).unwrap(), 0, "an orderly end");
    let accepted = relay.wait_for("peer gone", |counters| counters.peers == 0);
    assert_eq!(count, accepted.sessions.messages_received);
    assert!(count >= u64::from(client.acked));
    assert_eq!(
        accepted.messages_forwarded[Direction::ToBackend as usize],
        count
    );
}

/// Once a second each peer is looked at: that is where the page has the worst from, and the dashboard its distributions.
#[test]
fn peers_are_sampled() {
    let (mut relay, client, _stream) = seated(Setup::default());
    let worst = wait_until("a look at all peers", PATIENCE, || relay.worst().pop());
    assert_eq!(worst.address, client.socket.local_addr().unwrap());
    assert_eq!(worst.target, Some(0));
    assert_eq!(relay.counters().peers, 1);
}

/// A backend that never reads costs a bounded queue, then its session, and nobody else's.
#[test]
fn a_backend_that_never_reads_is_given_up() {
    let (backend, target) = tcp_backend();
    let setup = Setup {
        stall: Duration::from_secs(2),
        ..Setup::default()
    };
    let mut relay = Relay::start(&[target], setup);
    let (mut stuck, _stuck_stream) = join(&relay, &backend);
    let (mut fine, mut fine_stream) = join(&relay, &backend);
    for _ in 0..10_000 {
        stuck.send(&[7; 900]);
    }
    let (mut largest, mut waiting) = (0, 0);
    let mut fine_count = 0;
    while stuck.goodbye.is_none() {
        stuck.turn();
        let counters = relay.counters();
        largest = largest.max(counters.queued_bytes[Direction::ToBackend as usize]);
        waiting = waiting.max(counters.peers_blocked[Direction::ToBackend as usize]);
        fine.send(b"still there");
        fine.run_until("acknowledged", |client| client.unacked() == 0);
        assert_eq!(read_frame(&mut fine_stream).unwrap(), b"still there");
        fine_count += 1;
        assert!(fine_count < 100_000, "never given up");
    }
    assert_eq!(stuck.goodbye.as_deref(), Some("backend_stalled"));
    assert!(largest > 64 * 1024, "the queue was never full: {largest}");
    assert!(largest < 256 * 1024, "the queue grew to {largest}");
    assert_eq!(waiting, 1, "one of the two peers waits for its backend");
    relay.wait_for("peer gone", |counters| counters.peers == 1);
    let counters = relay.counters();
    let lost = counters.messages_dropped[Direction::ToBackend as usize];
    let forwarded = counters.messages_forwarded[Direction::ToBackend as usize] - fine_count;
    assert_eq!(
        forwarded + lost[DropReason::SessionClosed as usize],
        u64::from(stuck.acked),
        "every accepted message is accounted for"
    );
}

/// The kernel reports room in a Unix socket only once three quarters of its buffer are free, and a slow reader needs
/// longer for that than we are patient. It reads all the same.
#[test]
fn a_backend_that_reads_slowly_is_not_given_up() {
    let place = Place::new("slow");
    let path = place.path("backend.sock");
    let backend = UnixListener::bind(&path).unwrap();
    let stall = Duration::from_secs(1);
    let setup = Setup {
        stall,
        ..Setup::default()
    };
    let mut relay = Relay::start(&[Target::Unix(path)], setup);
    let mut client = Client::new(relay.address);
    let (mut stream, _) = backend.accept().unwrap();
    client.run_until("welcome", |client| client.welcome);
    for _ in 0..4_000 {
        client.send(&[7; 900]);
    }
    stream.set_nonblocking(true).unwrap();
    let mut clock = Clock::start();
    let begin = clock.now().mono;
    let (mut read, mut buffer, mut lasted) = (0, [0; 4096], Duration::ZERO);
    // All that it owes by now, however seldom this machine lets it read.
    let mut catch_up = |lasted: Duration| {
        let owed = (lasted.as_secs_f64() * READ_PER_SECOND) as usize;
        while read < owed {
            match stream.read(&mut buffer) {
                Ok(count @ 1..) => read += count,
                _ => break,
            }
        }
        read
    };
    while lasted < 4 * stall && client.goodbye.is_none() {
        client.turn();
        lasted = clock.now().mono.since(begin);
        catch_up(lasted);
    }
    let read = catch_up(lasted);
    assert_eq!(client.goodbye, None, "after {read} bytes");
    let waits = relay.counters().queued_bytes[Direction::ToBackend as usize];
    assert!(waits > 0, "nothing waited");
    client.say_goodbye();
    while lasted < 7 * stall {
        lasted = clock.now().mono.since(begin);
        catch_up(lasted);
    }
    let mut read = catch_up(lasted);
    stream.set_nonblocking(false).unwrap();
    read += std::io::copy(&mut stream, &mut std::io::sink()).unwrap() as usize;
    relay.wait_for("peer gone", |counters| counters.peers == 0);
    let lost = relay.counters().messages_dropped[Direction::ToBackend as usize];
    assert_eq!(lost, [0; DropReason::ALL.len()], "after {read} bytes");
}

/// Bytes. Within the patience above, less than frees three quarters of the buffer, and more than the longest write.
const READ_PER_SECOND: f64 = 70_000.0;

/// A backend that floods is read as fast as the peer acknowledges, and memory stays flat.
#[test]
fn a_flooding_backend_waits_for_its_peer() {
    let (mut relay, mut client, mut stream) = seated(Setup::default());
    client.acknowledges = false;
    stream.set_nonblocking(true).unwrap();
    let frame = {
        let mut frame = 500u16.to_be_bytes().to_vec();
        frame.extend_from_slice(&[9; 500]);
        frame
    };
    let mut offered = 0;
    let mut at = 0;
    let mut write_some = |stream: &mut TcpStream| -> bool {
        match stream.write(&frame[at..]) {
            Ok(count) => {
                at = (at + count) % frame.len();
                offered += count;
                true
            }
            Err(_) => false,
        }
    };
    let mut silent = 0;
    while silent < 200 {
        if write_some(&mut stream) {
            silent = 0;
        } else {
            silent += 1;
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    relay.wait_for("the backend waits", |counters| {
        counters.peers_blocked[Direction::ToPeer as usize] == 1
    });
    // What we hold is one outbox and one read; the rest is in the kernel's buffers.
    let taken = relay.counters().messages_forwarded[Direction::ToPeer as usize];
    assert_eq!(taken, 256);
    // The rest of the frame it was in the middle of gets through once the peer acknowledges.
    stream.set_nonblocking(false).unwrap();
    std::thread::spawn(move || stream.write_all(&frame[at..]).unwrap());
    client.acknowledges = true;
    client.run_until("goodbye", |client| client.goodbye.is_some());
    assert_eq!(client.goodbye.as_deref(), Some("backend_closed"));
    assert!(client.received.len() > 1_000, "the flood was too small");
    assert!(client.received.iter().all(|message| *message == [9; 500]));
}

#[test]
fn a_backend_may_write_byte_by_byte() {
    let (_relay, mut client, mut stream) = seated(Setup::default());
    let mut bytes = Vec::new();
    for number in 0..40u32 {
        write_frame(
            &mut bytes,
            &number.to_be_bytes().repeat(1 + number as usize % 3),
        );
    }
    for byte in bytes {
        stream.write_all(&[byte]).unwrap();
    }
    client.run_until("all", |client| client.received.len() == 40);
    for (number, message) in (0..40u32).zip(&client.received) {
        assert_eq!(
            *message,
            number.to_be_bytes().repeat(1 + number as usize % 3)
        );
    }
}

/// Nanoseconds of processor time that the worker has taken.
fn worked(relay: &Relay) -> u64 {
    let (tell, told) = channel();
    relay.tell(Command::Visit(Box::new(move |_, _| {
        let times = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        tell.send(times).unwrap();
    })));
    let times = told.recv_timeout(PATIENCE).unwrap();
    times.split(' ').next().unwrap().parse().unwrap()
}

/// Half of a long frame waits for the rest, which comes byte by byte, while the player plays on. What waits stays where it
/// is: to copy it each time would take from everybody on the worker.
#[test]
fn half_a_frame_takes_no_time_of_others() {
    const HALF: usize = 16 << 20;
    let setup = Setup {
        framing: Framing::U32Be,
        max_message: 2 * HALF,
        ..Setup::default()
    };
    let (mut relay, mut client, mut stream) = seated(setup);
    stream.set_nodelay(true).unwrap();
    let mut plays = |relay: &Relay, stream: &mut TcpStream| {
        let before = worked(relay);
        for _ in 0..100 {
            stream.write_all(&[7]).unwrap();
            client.send(b"I move");
            client.run_until("taken", |client| client.unacked() == 0);
        }
        worked(relay) - before
    };
    let length = 2 * HALF as u32;
    stream.write_all(&length.to_be_bytes()).unwrap();
    let with_little = plays(&relay, &mut stream);
    stream.write_all(&vec![7; HALF]).unwrap();
    relay.wait_for("half of it", |counters| {
        counters.targets[0].bytes_received >= HALF as u64
    });
    let with_half = plays(&relay, &mut stream);
    assert!(
        with_half < 10 * with_little,
        "{with_half} ns, and {with_little} ns before"
    );
    // Once all of it is there, it is the one frame that was announced: longer than this peer's messages.
    stream.write_all(&vec![7; HALF - 200]).unwrap();
    ended(&mut relay, &mut client, CloseReason::MessageTooLarge);
}

/// What was passed on is let go of, and not only once the backend has said the other half of the frame behind it.
#[test]
fn half_a_frame_holds_none_that_went() {
    let (mut relay, mut client, mut stream) = seated(Setup::default());
    client.acknowledges = false;
    let frames = |count| {
        [&100u16.to_be_bytes()[..], &[7; 100]]
            .concat()
            .repeat(count)
    };
    // As many as a session holds that is not acknowledged anything.
    stream.write_all(&frames(256)).unwrap();
    relay.wait_for("a full session", |counters| {
        counters.queued_bytes[Direction::ToPeer as usize] >= 256 * 100
    });
    // One read takes all of these; the session does not.
    let (first, second) = (frames(561), 561 * 102 - 50);
    stream.write_all(&first[..second]).unwrap();
    client.acknowledges = true;
    client.run_until("all but one", |client| client.received.len() == 256 + 560);
    relay.wait_for("half a frame", |counters| {
        counters.queued_bytes[Direction::ToPeer as usize] == 52
    });
    stream.write_all(&first[second..]).unwrap();
    client.run_until("the last", |client| client.received.len() == 256 + 561);
}

/// A frame that no peer could take ends the session as soon as its length is known.
#[test]
fn an_oversize_frame_ends_the_session() {
    let (mut relay, mut client, mut stream) = seated(Setup::default());
    write_frame(&mut stream, b"fine");
    stream.write_all(&65_000u16.to_be_bytes()).unwrap();
    ended(&mut relay, &mut client, CloseReason::BackendProtocolError);
    assert_eq!(client.received, [b"fine"]);
}

#[test]
fn a_message_the_peer_cannot_take_ends_the_session() {
    let (mut relay, mut client, mut stream) = seated(Setup::default());
    write_frame(&mut stream, &[1; 1_001]);
    ended(&mut relay, &mut client, CloseReason::MessageTooLarge);
    let dropped = relay.counters().messages_dropped;
    let too_large = dropped.map(|reasons| reasons[DropReason::TooLarge as usize]);
    assert_eq!(too_large, [0, 1]);
}

#[test]
fn a_message_that_fits_no_frame_ends_the_session() {
    let setup = Setup {
        framing: Framing::Line,
        ..Setup::default()
    };
    let (mut relay, mut client, mut stream) = seated(setup);
    // What is behind it, and is here already, would be delivered with a gap before it.
    let (sent, are_sent) = channel::<()>();
    relay.tell(Command::Visit(Box::new(move |_, _| {
        are_sent.recv().ok();
    })));
    for message in [&b"one line"[..], b"two\nlines", b"another line"] {
        client.send(message);
    }
    drop(sent);
    ended(&mut relay, &mut client, CloseReason::MessageTooLarge);
    let mut delivered = String::new();
    stream.read_to_string(&mut delivered).unwrap();
    assert_eq!(delivered, "one line\n");
    let dropped = relay.counters().messages_dropped[Direction::ToBackend as usize];
    assert_eq!(dropped[DropReason::TooLarge as usize], 1);
    assert_eq!(dropped[DropReason::SessionClosed as usize], 1, "behind it");
}

/// A backend may write a frame in pieces, and several in one: what was read before waits for the rest, whatever the peer says
/// meanwhile.
#[test]
fn a_frame_that_comes_in_pieces_is_whole() {
    for framing in [Framing::U16Be, Framing::Line] {
        let setup = Setup {
            framing,
            ..Setup::default()
        };
        let (mut relay, mut client, mut stream) = seated(setup);
        stream.set_nodelay(true).unwrap();
        let frames: Vec<_> = [700, 1, 20, 20, 999]
            .map(|size| vec![b'a' + (size % 26) as u8; size])
            .to_vec();
        let mut bytes = Vec::new();
        for frame in &frames {
            let codec = FrameCodec::new(framing, false, false, 1000);
            codec.encode(0, frame, &mut bytes).unwrap();
        }
        let mut written = 0;
        for size in [40, 41, 900, 90, 7, 300, 6, 1].into_iter().cycle() {
            let piece = &bytes[written..bytes.len().min(written + size)];
            if piece.is_empty() {
                break;
            }
            stream.write_all(piece).unwrap();
            written += piece.len();
            relay.wait_for("a piece", |counters| {
                counters.targets[0].bytes_received == written as u64
            });
            // The peer is heard meanwhile, and nothing more of the frame is there.
            client.send(b"hello");
            client.run_until("taken", |client| client.unacked() == 0);
        }
        client.run_until("all frames", |client| client.received.len() == frames.len());
        assert_eq!(client.received, frames, "{}", framing.label());
    }
}

/// Raw streams are cut and joined as they come: only the bytes count.
#[test]
fn a_raw_stream_is_its_bytes() {
    let setup = Setup {
        framing: Framing::Raw,
        max_message: 700,
        ..Setup::default()
    };
    let (_relay, mut client, mut stream) = seated(setup);
    let bytes: Vec<u8> = (0..100_000u32)
        .map(|n| (n.wrapping_mul(n) >> 7) as u8)
        .collect();
    stream.write_all(&bytes).unwrap();
    client.run_until("all bytes", |client| {
        client.received.iter().map(Vec::len).sum::<usize>() == bytes.len()
    });
    assert_eq!(client.received.concat(), bytes);
    for piece in bytes.chunks(321) {
        client.send(piece);
    }
    let mut got = vec![0; bytes.len()];
    let reader = std::thread::spawn(move || {
        stream.read_exact(&mut got).unwrap();
        got
    });
    client.run_until("all acknowledged", |client| client.unacked() == 0);
    assert!(reader.join().unwrap() == bytes);
}

/// Behind a queue, unreliable messages make way; reliable ones never do.
#[test]
fn unreliable_messages_are_dropped_first() {
    for policy in [UnreliablePolicy::DropOldest, UnreliablePolicy::DropNewest] {
        let setup = Setup {
            unreliable: policy,
            ..Setup::default()
        };
        let (mut relay, mut client, mut stream) = seated(setup);
        for _ in 0..4_000 {
            client.send(&[0; 300]);
        }
        // Until the queue is there, but not so far that the inbox refuses everything.
        wait_until("a queue", PATIENCE, || {
            client.turn();
            (relay.counters().queued_bytes[0] > 1_000).then_some(())
        });
        for number in 1..=200u8 {
            client.send_unreliable(&[number; 10]);
        }
        let dropped = |counters: &tidegate::counters::WorkerCounters| {
            counters.messages_dropped[Direction::ToBackend as usize][DropReason::QueueFull as usize]
        };
        let reader = std::thread::spawn(move || {
            let (mut reliable, mut unreliable) = (0, 0);
            while let Some(message) = read_frame(&mut stream) {
                if message.len() == 300 {
                    reliable += 1;
                } else {
                    unreliable += 1;
                }
            }
            (reliable, unreliable)
        });
        client.run_until("all acknowledged", |client| client.unacked() == 0);
        client.say_goodbye();
        closed(&mut relay, CloseReason::PeerDisconnect);
        let (reliable, unreliable) = reader.join().unwrap();
        assert_eq!(reliable, 4_000, "{policy:?}");
        let counters = relay.counters();
        let refused = counters.rejects[Reject::Malformed as usize];
        let told = unreliable + dropped(&counters) + refused;
        // A socket that was full may have lost some of them, or some of the others.
        let lost_on_the_way = 200 - told;
        assert!(lost_on_the_way <= counters.kernel_drops, "{policy:?}");
    }
}

/// Each empty datagram is one step like any other, and no answer.
#[test]
fn ten_thousand_empty_datagrams_are_nothing() {
    let (mut relay, mut client, mut stream) = seated(Setup::default());
    let stranger = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    for round in 0..100 {
        for _ in 0..100 {
            stranger.send_to(b"", relay.address).unwrap();
        }
        client.send(&[round]);
        client.run_until("acknowledged", |client| client.unacked() == 0);
        assert_eq!(read_frame(&mut stream).unwrap(), [round]);
    }
    let counters = relay.wait_for("all counted", |counters| {
        counters.rejects[Reject::UnknownPeer as usize] + counters.kernel_drops == 10_000
    });
    assert_eq!(counters.peers, 1);
}

/// A drain delivers what was accepted in both directions, and tells both sides.
#[test]
fn a_drain_delivers_and_ends() {
    let (relay, mut client, mut stream) = seated(Setup::default());
    client.acknowledges = false;
    for number in 0..100u32 {
        write_frame(&mut stream, &number.to_be_bytes());
        client.send(&number.to_be_bytes());
    }
    client.run_until("all accepted", |client| client.unacked() == 0);
    for number in 0..100u32 {
        assert_eq!(read_frame(&mut stream).unwrap(), number.to_be_bytes());
    }
    relay.tell(Command::Drain { linger: PATIENCE });
    // Commands are taken in turn: who knocks after this one knocks during the drain.
    let (tell, told) = channel();
    relay.tell(Command::Visit(Box::new(move |_, _| tell.send(()).unwrap())));
    told.recv_timeout(PATIENCE).unwrap();
    let mut late = Client::new(relay.address);
    client.acknowledges = true;
    client.run_until("goodbye", |client| client.goodbye.is_some());
    assert_eq!(client.goodbye.as_deref(), Some("drain"));
    assert_eq!(client.received.len(), 100);
    assert_eq!(stream.read(&mut [0; 16]).unwrap(), 0, "an orderly end");
    drop(stream);
    let counters = relay.join();
    assert_eq!(counters.sessions_closed[CloseReason::Drain as usize], 1);
    late.turn();
    assert!(!late.welcome, "nobody is let in during a drain");
}

/// It waits for nothing: not for what a peer has not acknowledged, nor for streams.
#[test]
fn a_stop_is_quick() {
    let setup = Setup {
        linger: 100 * PATIENCE,
        ..Setup::default()
    };
    let (mut relay, mut client, mut stream) = seated(setup);
    client.acknowledges = false;
    write_frame(&mut stream, b"unheard");
    relay.wait_for("a message", |counters| {
        counters.messages_forwarded[Direction::ToPeer as usize] == 1
    });
    relay.tell(Command::Stop);
    client.run_until("goodbye", |client| client.goodbye.is_some());
    assert_eq!(client.goodbye.as_deref(), Some("shutdown"));
    relay.join();
}

/// A listener that accepts nobody, and those who fill its backlog, so that further connects are not
/// answered.
fn hanging_backend() -> ((Socket, Vec<TcpStream>), Target) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket
        .bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())
        .unwrap();
    socket.listen(1).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let mut fillers = Vec::new();
    while fillers.len() < 32 {
        match TcpStream::connect_timeout(&address, Duration::from_millis(100)) {
            Ok(stream) => fillers.push(stream),
            Err(_) => break,
        }
    }
    assert!(fillers.len() < 32, "the backlog never filled");
    ((socket, fillers), tcp_target(address.port()))
}

/// A connect that hangs ends in time, with its reason.
#[test]
fn a_hanging_connect_is_given_up() {
    let (_full, target) = hanging_backend();
    let setup = Setup {
        connect_timeout: Duration::from_millis(300),
        ..Setup::default()
    };
    let mut relay = Relay::start(&[target], setup);
    let mut client = Client::new(relay.address);
    ended(&mut relay, &mut client, CloseReason::BackendConnectTimeout);
}
