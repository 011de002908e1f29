//! The order of work within a turn, by single steps over real sockets: nothing here depends on how
//! fast the machine is.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot get a socket has failed"
)]

mod support;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, UdpSocket};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;

use mio::{Events, Poll, Token, Waker};
use socket2::Socket;
use support::place::Place;
use support::{PATIENCE, Setup, tcp_backend, toy_parts, wait_until};
use tidegate::admission;
use tidegate::backend::{Pool, Scratch};
use tidegate::board::{Board, ListenerInfo, WorkerSocket};
use tidegate::capacity::Capacity;
use tidegate::clock::Clock;
use tidegate::config::{Balance, Bucket, Target};
use tidegate::counters::{Direction, DropReason, WorkerCounters};
use tidegate::listener::{Listener, Turn, Whom, meaning};
use tidegate::udp::{self, Outgoing, Received};
use tidegate_proto::CloseReason;

/// A listener whose turns are taken by hand.
struct Table {
    address: SocketAddr,
    backend: Socket,
    poll: Poll,
    events: Events,
    clock: Clock,
    board: Board,
    listener: Listener,
    received: Received,
    outgoing: Outgoing,
    scratch: Scratch,
    reply: Vec<u8>,
}

impl Table {
    fn new() -> Self {
        Self::of(&Setup::default())
    }

    fn of(setup: &Setup) -> Self {
        let (backend, target) = tcp_backend();
        Self::before(backend.into(), target, setup)
    }

    fn before(backend: Socket, target: Target, setup: &Setup) -> Self {
        backend.set_nonblocking(true).unwrap();
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let socket = udp::UdpSocket::bind(any, udp::Options::default()).unwrap();
        let address = socket.local_addr();
        let mut clock = Clock::start();
        let targets = &[target];
        let board = Board::new(clock.now(), setup.capacity.clone());
        board.add_backend("test", Arc::new(Pool::new(Balance::First, targets)));
        let about = ListenerInfo {
            name: "test".into(),
            protocol: "toy",
            bind: Vec::new(),
            backend: "test".into(),
            peers_max: 64,
        };
        let mut reporters = board.add_listener(about, &WorkerSocket::one_each(1));
        let parts = toy_parts(socket, targets, setup, reporters.pop());
        let mut listener = Listener::new(0, parts);
        let poll = Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), Token(usize::MAX)).unwrap());
        listener.register(poll.registry(), &waker).unwrap();
        Self {
            address,
            backend,
            poll,
            events: Events::with_capacity(1024),
            clock,
            board,
            scratch: Scratch::new(listener.max_frame()),
            listener,
            received: Received::default(),
            outgoing: Outgoing::default(),
            reply: Vec::new(),
        }
    }

    /// Takes news of the sockets; whether there were any.
    fn hear(&mut self) -> bool {
        self.poll
            .poll(&mut self.events, Some(Duration::ZERO))
            .unwrap();
        for event in &self.events {
            if let Some((_, what)) = meaning(event.token()) {
                self.listener.on_event(what, event);
            }
        }
        !self.events.is_empty()
    }

    /// News of the sockets, and then these steps.
    fn steps(&mut self, steps: &[fn(&mut Listener, &mut Turn<'_>)]) {
        self.hear();
        let mut turn = Turn {
            now: self.clock.now(),
            registry: self.poll.registry(),
            received: &mut self.received,
            outgoing: &mut self.outgoing,
            scratch: &mut self.scratch,
            reply: &mut self.reply,
        };
        for step in steps {
            step(&mut self.listener, &mut turn);
        }
    }

    /// The part of a turn that is for those who play.
    fn play(&mut self) {
        self.steps(&[
            Listener::receive,
            Listener::handle_timeouts,
            Listener::pump,
            Listener::transmit,
        ]);
    }

    fn welcome(&mut self) {
        self.steps(&[Listener::handle_strangers]);
    }

    fn counters(&mut self) -> WorkerCounters {
        let now = self.clock.now();
        self.listener.publish(now);
        self.board.snapshot(now).listeners[0].counters.clone()
    }

    /// Streams that came to the backend and were not taken before.
    fn streams(&self) -> Vec<Socket> {
        std::iter::from_fn(|| Some(self.backend.accept().ok()?.0)).collect()
    }

    fn stranger(&self, datagram: &[u8]) -> UdpSocket {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(self.address).unwrap();
        socket.send(datagram).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    }

    /// The player's message of this number, of a kilobyte; whether it was taken. If so, the number goes up.
    fn says(&mut self, player: &UdpSocket, next: &mut u32) -> bool {
        let message = [b"M", &next.to_be_bytes()[..], &[0; 1_000]].concat();
        player.send(&message).unwrap();
        self.play();
        let mut answer = [0; 16];
        let length = player.recv(&mut answer).unwrap();
        let is_taken = answer[..length] == *[b"A", &(*next + 1).to_be_bytes()[..]].concat();
        *next += u32::from(is_taken);
        is_taken
    }

    /// Someone who is let in, and its stream.
    fn player(&mut self) -> (UdpSocket, Socket) {
        let socket = self.stranger(b"H");
        let mut streams = Vec::new();
        wait_until("welcome", PATIENCE, || {
            self.play();
            self.welcome();
            streams.extend(self.streams());
            matches!(socket.recv(&mut [0; 16]), Ok(1)).then_some(())
        });
        (socket, streams.pop().unwrap())
    }
}

/// Forty strangers were first, and yet the player's message is with the backend before one of them is
/// looked at; then they are let in, all of them, a few in a turn.
#[test]
fn those_who_play_go_before_those_who_join() {
    let mut table = Table::new();
    let (player, mut stream) = table.player();
    stream.set_nonblocking(true).unwrap();

    let strangers: Vec<_> = (0..40).map(|_| table.stranger(b"H")).collect();
    player.send(b"M\0\0\0\0hello").unwrap();
    table.play();
    let mut frame = [0; 16];
    assert_eq!(stream.read(&mut frame).unwrap(), 7, "length and message");
    assert_eq!(&frame[2..7], b"hello");
    assert!(table.streams().is_empty(), "nobody was let in so far");
    assert!(table.listener.has_work(), "strangers wait");

    let (mut turns, mut welcome, mut streams) = (0, 0, Vec::new());
    wait_until("everybody is in", PATIENCE, || {
        table.welcome();
        let came = table.streams();
        assert!(came.len() <= 8, "{} in one turn", came.len());
        turns += 1;
        streams.extend(came);
        table.play();
        let told = |socket: &&UdpSocket| matches!(socket.recv(&mut [0; 16]), Ok(1));
        welcome += strangers.iter().filter(told).count();
        (welcome == strangers.len()).then_some(())
    });
    assert!(turns >= 5, "40 strangers in {turns} turns");
    assert_eq!(streams.len(), 40);
    assert_eq!(
        stream.read(&mut frame).unwrap_err().kind(),
        ErrorKind::WouldBlock,
        "the player is still in"
    );
}

/// Nonsense costs little, so it keeps nobody waiting: it is refused as fast as it comes.
#[test]
fn nonsense_does_not_stand_in_the_way_of_a_stranger() {
    let mut table = Table::new();
    let _noise: Vec<_> = (0..50).map(|_| table.stranger(b"?")).collect();
    let _genuine = table.stranger(b"H");
    table.play();
    table.welcome();
    assert_eq!(table.streams().len(), 1, "in the very first turn");
}

/// What is said behind an answer of the same turn waits behind it. What nothing is in front of does not wait.
#[test]
fn who_speaks_behind_its_answer_is_heard() {
    let once = Bucket { rate: 1, burst: 1 };
    let setup = Setup {
        admission: Some(admission::Params {
            per_prefix: once,
            listener: once,
            table_size: 1024,
            strikes: None,
            rules: admission::SourceRules::default(),
        }),
        ..Setup::default()
    };
    let mut table = Table::of(&setup);
    let _nobody = table.stranger(b"M\0\0\0\0nonsense");
    table.play();
    assert!(!table.listener.has_work(), "it was refused at once");

    let socket = table.stranger(b"H");
    socket.send(b"M\0\0\0\0hello").unwrap();
    socket.send(b"M\0\0\0\x01again").unwrap();
    table.play();
    let mut streams = Vec::new();
    wait_until("its stream", PATIENCE, || {
        table.welcome();
        table.play();
        streams.extend(table.streams());
        let mut frames = [0; 32];
        let stream = streams.last_mut()?;
        stream.set_nonblocking(true).unwrap();
        let length = stream.read(&mut frames).ok()?;
        assert_eq!(&frames[..length], b"\0\x05hello\0\x05again");
        Some(())
    });
}

/// They come in one turn, and the process has two seats: its limit holds within the turn too.
#[test]
fn a_crowd_takes_the_seats_there_are() {
    let setup = Setup {
        capacity: Arc::new(Capacity::new(2, 1 << 28)),
        ..Setup::default()
    };
    let mut table = Table::of(&setup);
    let _strangers: Vec<_> = (0..6).map(|_| table.stranger(b"H")).collect();
    table.play();
    table.welcome();
    assert_eq!(table.streams().len(), 2);
}

/// Two hundred players are kicked at once. To end their streams takes a few turns, and one who plays waits for none of
/// them.
#[test]
fn those_who_play_do_not_wait_for_those_who_leave() {
    let setup = Setup {
        capacity: Arc::new(Capacity::new(1_000, 1 << 28)),
        ..Setup::default()
    };
    let mut table = Table::of(&setup);
    let mut crowd: Vec<_> = (0..200).map(|_| table.player()).collect();
    let (player, mut stream) = table.player();
    stream.set_nonblocking(true).unwrap();
    let now = table.clock.now();
    for (one, stream) in &crowd {
        let whom = Whom::Address(one.local_addr().unwrap());
        stream.set_nonblocking(true).unwrap();
        assert_eq!(table.listener.end(now, whom, CloseReason::Kicked), 1);
    }

    player.send(b"M\0\0\0\0hello").unwrap();
    let mut turns = 0;
    wait_until("everybody has gone", PATIENCE, || {
        table.play();
        turns += 1;
        if turns == 1 {
            let mut frame = [0; 16];
            assert_eq!(stream.read(&mut frame).unwrap(), 7, "the player's message");
            assert_eq!(player.recv(&mut frame).unwrap(), 5, "its acknowledgement");
        }
        let before = crowd.len();
        crowd.retain_mut(|(_, stream)| stream.read(&mut [0; 16]).is_err());
        assert!(before - crowd.len() <= 64, "{before} in turn {turns}");
        (crowd.is_empty() && table.listener.peers() == 1).then_some(())
    });
    assert!(turns > 200 / 64);
}

/// The backends of twenty players who were kicked go on writing: what is read for nobody, a turn, is about as much as
/// four of their streams may have, and all of it is counted in the end.
#[test]
fn those_who_play_do_not_wait_for_what_is_written_to_those_who_left() {
    let setup = Setup {
        capacity: Arc::new(Capacity::new(1_000, 1 << 28)),
        linger: Duration::from_secs(60),
        ..Setup::default()
    };
    let mut table = Table::of(&setup);
    let mut crowd: Vec<_> = (0..20).map(|_| table.player()).collect();
    let now = table.clock.now();
    let mut written = 0;
    for (one, stream) in &mut crowd {
        let whom = Whom::Address(one.local_addr().unwrap());
        assert_eq!(table.listener.end(now, whom, CloseReason::Kicked), 1);
        // Empty frames, of which one turn once took 64 KiB of each stream.
        written += stream.write(&[0; 128 << 10]).unwrap();
    }
    assert!(written > 20 * (64 << 10), "only {written} bytes wait");
    for (_, stream) in &crowd {
        stream.shutdown(Shutdown::Write).unwrap();
    }

    let dropped = |table: &mut Table| {
        let messages = table.counters().messages_dropped;
        let frames = messages[Direction::ToPeer as usize][DropReason::SessionClosed as usize];
        2 * frames as usize
    };
    let (mut turns, mut before) = (0, 0);
    wait_until("everybody has gone", PATIENCE, || {
        table.play();
        turns += 1;
        let now = dropped(&mut table);
        assert!(
            now - before <= (256 + 64) << 10,
            "{} bytes in turn {turns}",
            now - before
        );
        before = now;
        (table.listener.peers() == 0).then_some(())
    });
    assert_eq!(before, written, "every frame is counted");
}

/// Six backends have written 200 messages of a kilobyte each: of more than a megabyte that waits, half of one leaves in a
/// turn, and something of everybody's.
#[test]
fn bulk_makes_no_turn_long() {
    let setup = Setup {
        capacity: Arc::new(Capacity::new(1_000, 1 << 28)),
        ..Setup::default()
    };
    let mut table = Table::of(&setup);
    let mut crowd: Vec<_> = (0..6).map(|_| table.player()).collect();
    let frame = [&1_000u16.to_be_bytes()[..], &[7; 1_000]].concat();
    let forwarded = |table: &mut Table| {
        let counters = table.counters();
        counters.messages_forwarded[Direction::ToPeer as usize]
    };
    for round in 1..=4 {
        for (_, stream) in &mut crowd {
            stream.write_all(&frame.repeat(50)).unwrap();
        }
        wait_until("all is queued", PATIENCE, || {
            table.steps(&[Listener::pump]);
            (forwarded(&mut table) == round * 6 * 50).then_some(())
        });
    }

    let before = table.counters().sent.bytes;
    table.steps(&[Listener::transmit]);
    let sent = table.counters().sent.bytes - before;
    assert!((500 << 10..=513 << 10).contains(&sent), "{sent} bytes");
    for (one, _) in &crowd {
        assert_eq!(one.recv(&mut [0; 2_000]).unwrap(), 1_005);
    }
}

/// More than one send takes, while datagrams are still received: uploads of several players at once make as many.
#[test]
fn answers_that_cannot_wait_leave_however_many_there_are() {
    let mut table = Table::new();
    let crowd: Vec<_> = (0..20).map(|_| table.player()).collect();
    for _ in 0..10 {
        for (player, _) in &crowd {
            player.send(b"N").unwrap();
        }
    }
    let mut answers = vec![0; crowd.len()];
    wait_until("all are answered", PATIENCE, || {
        table.play();
        for ((player, _), answers) in crowd.iter().zip(&mut answers) {
            *answers += std::iter::from_fn(|| player.recv(&mut [0; 16]).ok()).count();
        }
        (!table.listener.has_work()).then_some(())
    });
    assert_eq!(answers, vec![10; crowd.len()]);
}

/// More than an inbox holds comes in one turn: all of it is taken, because the backend gets it meanwhile.
#[test]
fn a_turn_takes_more_than_an_inbox_holds() {
    let mut table = Table::new();
    let (player, mut stream) = table.player();
    for number in 0..80u32 {
        let message = [b"M", &number.to_be_bytes()[..], &[7; 1_000]].concat();
        player.send(&message).unwrap();
    }
    table.play();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut frames = vec![0; 80 * 1_002];
    stream.read_exact(&mut frames).unwrap();
}

/// A Unix socket could tell of each read of the other side, and the loop would wake once more for each message.
#[test]
fn a_server_that_reads_wakes_nobody_unless_it_was_waited_for() {
    let place = Place::new("reads");
    let path = place.path("backend.sock");
    let backend = UnixListener::bind(&path).unwrap();
    let mut table = Table::before(backend.into(), Target::Unix(path), &Setup::default());
    let (player, mut stream) = table.player();
    stream.set_nonblocking(true).unwrap();
    let mut next = 0;
    let mut taken = Vec::new();
    for _ in 0..3 {
        assert!(table.says(&player, &mut next));
        take(&mut stream, 4 << 10, &mut taken);
        assert!(!table.hear(), "there was room, and there is more");
    }

    while table.says(&player, &mut next) {}
    while payloads(&taken).len() < next as usize {
        let before = taken.len();
        take(&mut stream, 1 << 20, &mut taken);
        assert!(taken.len() > before, "the rest was written");
        table.play();
    }
}

/// Takes what has come, `most` bytes of it.
fn take(stream: &mut Socket, most: usize, taken: &mut Vec<u8>) {
    let mut buffer = vec![0; most];
    if let Ok(count) = stream.read(&mut buffer) {
        taken.extend_from_slice(&buffer[..count]);
    }
}

/// The payloads of whole frames.
fn payloads(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut all = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let Some((payload, rest)) = rest.split_at_checked(u16::from_be_bytes(*length).into())
        else {
            break;
        };
        all.push(payload);
        bytes = rest;
    }
    all
}

/// Unreliable messages that meet a queue wait beside it, the newest of them, and are the first that go when it is written.
#[test]
fn the_newest_unreliable_messages_wait_for_a_slow_backend() {
    let mut table = Table::new();
    // The kernel is to hold little, so that the queue is here.
    table.backend.set_recv_buffer_size(8 << 10).unwrap();
    let (player, mut stream) = table.player();
    stream.set_nonblocking(true).unwrap();
    let mut next = 0;
    while table.says(&player, &mut next) {}
    let mut taken = Vec::new();
    // Now the stream's queue is full, and so is the inbox: until that takes some more.
    wait_until("room in the inbox", PATIENCE, || {
        take(&mut stream, 4 << 10, &mut taken);
        table.says(&player, &mut next).then_some(())
    });

    for number in 1..=200u8 {
        player.send(&[b'U', number]).unwrap();
        if number.is_multiple_of(20) {
            table.play();
        }
    }
    let heard = wait_until("the newest", PATIENCE, || {
        take(&mut stream, 1 << 20, &mut taken);
        table.play();
        let short = payloads(&taken).into_iter().filter(|it| it.len() == 1);
        let numbers = short.map(|it| it[0]).collect::<Vec<u8>>();
        numbers.contains(&200).then_some(numbers)
    });
    assert_eq!(heard, (169..=200).collect::<Vec<u8>>());
    let bytes: usize = payloads(&taken).iter().map(|it| it.len()).sum();
    let counted = table.counters().message_bytes_forwarded[Direction::ToBackend as usize];
    assert_eq!(counted, bytes as u64);
    let reliable = payloads(&taken).len() - heard.len();
    assert_eq!(reliable, next as usize, "no reliable one makes way");
}
