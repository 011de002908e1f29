//! One worker that is short of memory, over real sockets, with a toy protocol on the UDP side: who is
//! held back, who is not, and that nothing is lost by it.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot get a socket has failed"
)]

mod support;

use std::io::Write;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::thread::JoinHandle;

use support::place::Place;
use support::toy::Client;
use support::{PATIENCE, Relay, Setup, read_frame, wait_until, write_frame};
use tidegate::capacity::{Capacity, Queued};
use tidegate::config::Target;
use tidegate::counters::{Direction, DropReason, WorkerCounters};
use tidegate_proto::CloseReason;

const QUEUE_MEMORY: u64 = 1 << 20;
/// The most that may wait one way: three eighths, and what the worker has not told yet.
const ONE_WAY_MAX: u64 = QUEUE_MEMORY / 8 * 3 + 16 * 1024;
/// Each could hold 128 KiB of its own accord: together more than all there is.
const LOUD: usize = 10;
const MESSAGES: u32 = 1_500;

/// A worker with little memory, and its backend: a Unix socket, since the kernel's buffers are small
/// there.
struct Scene {
    relay: Relay,
    backend: UnixListener,
    _place: Place,
    capacity: Arc<Capacity>,
}

impl Scene {
    fn new(name: &str) -> Self {
        Self::with(name, Arc::new(Capacity::new(64, QUEUE_MEMORY)))
    }

    /// Another worker of the same process.
    fn neighbour(&self, name: &str) -> Self {
        Self::with(name, self.capacity.clone())
    }

    fn with(name: &str, capacity: Arc<Capacity>) -> Self {
        let place = Place::new(name);
        let path = place.path("backend.sock");
        let backend = UnixListener::bind(&path).unwrap();
        backend.set_nonblocking(true).unwrap();
        let setup = Setup {
            stall: 10 * PATIENCE,
            capacity,
            ..Setup::default()
        };
        let capacity = setup.capacity.clone();
        Self {
            relay: Relay::start(&[Target::Unix(path)], setup),
            backend,
            _place: place,
            capacity,
        }
    }

    fn seat(&self) -> (Client, UnixStream) {
        let mut client = Client::new(self.relay.address);
        let stream = wait_until("a stream", PATIENCE, || {
            self.backend.accept().ok().map(|(stream, _)| stream)
        });
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        client.run_until("welcome", |client| client.welcome);
        (client, stream)
    }

    /// A player who says all this and stays until it is taken.
    fn seat_loud(&self, messages: u32) -> (JoinHandle<Client>, UnixStream) {
        let (mut client, stream) = self.seat();
        let says = std::thread::spawn(move || {
            (0..messages).for_each(|number| client.send(&payload(number)));
            client.run("taken", PATIENCE, |client| {
                client.unacked() == 0 || client.goodbye.is_some()
            });
            client
        });
        (says, stream)
    }

    /// A player who began a message of many pieces, and sent so many of them.
    fn seat_in_pieces(&mut self, pieces: u64) -> (Client, UnixStream) {
        let (client, stream) = self.seat();
        for _ in 0..pieces {
            client.socket.send(&piece()).unwrap();
        }
        self.relay.wait_for("a few pieces", |counters| {
            counters.queued_bytes[0] >= pieces * 1_000
        });
        (client, stream)
    }

    fn wait_until_held_back(&mut self) {
        self.relay.wait_for("all are held back", |counters| {
            counters.peers_held_back >= LOUD as u64
        });
        let most = self.capacity.most_queued();
        let expected = QUEUE_MEMORY / 4..ONE_WAY_MAX;
        assert!(expected.contains(&most), "{most} bytes waited");
    }

    /// All queues are empty, nothing was lost, and nobody was ended for what others held.
    fn settle(&mut self) {
        let counters = self.relay.wait_for("nothing waits", |counters| {
            counters.peers_held_back == 0 && counters.queued_bytes == [0, 0]
        });
        let none = [[0; DropReason::ALL.len()]; Direction::ALL.len()];
        assert_eq!(counters.messages_dropped, none);
        assert_eq!(overloaded(&counters), 0);
    }
}

fn payload(number: u32) -> Vec<u8> {
    number.to_be_bytes().repeat(225)
}

/// Of a message whose other pieces never come.
fn piece() -> Vec<u8> {
    let mut piece = vec![0; 1_001];
    piece[0] = b'F';
    piece
}

fn overloaded(counters: &WorkerCounters) -> u64 {
    counters.sessions_closed[CloseReason::Overload as usize]
}

/// Nobody waits for what others hold, and what is refused comes again: once, and in order.
#[test]
fn a_backend_that_sleeps_fills_its_part_and_loses_nothing() {
    let mut scene = Scene::new("sleeps");
    let loud: Vec<_> = (0..LOUD).map(|_| scene.seat_loud(MESSAGES)).collect();
    let (mut quiet, mut quiet_stream) = scene.seat();
    scene.wait_until_held_back();
    for number in 0..200u32 {
        quiet.send(&payload(number));
        quiet.run_until("taken", |client| client.unacked() == 0);
        let message = read_frame(&mut quiet_stream).unwrap();
        assert_eq!(message, payload(number));
        write_frame(&mut quiet_stream, &message);
        quiet.run_until("echoed", |client| {
            client.received.len() == number as usize + 1
        });
    }
    let mut readers = Vec::new();
    for (says, mut stream) in loud {
        let reads = std::thread::spawn(move || {
            for number in 0..MESSAGES {
                assert_eq!(read_frame(&mut stream).unwrap(), payload(number));
            }
            stream
        });
        readers.push((says, reads));
    }
    for (says, reads) in readers {
        let _stream = reads.join().unwrap();
        assert_eq!(says.join().unwrap().acked, MESSAGES);
    }
    scene.settle();
}

/// The other way: what backends write for peers that acknowledge nothing.
#[test]
fn backends_that_flood_fill_their_part_and_lose_nothing() {
    let mut scene = Scene::new("flood");
    let mut loud = Vec::new();
    for _ in 0..LOUD {
        let (mut client, mut stream) = scene.seat();
        client.acknowledges = false;
        let writes = std::thread::spawn(move || {
            for number in 0..MESSAGES {
                write_frame(&mut stream, &payload(number));
            }
            stream.flush().unwrap();
            stream
        });
        loud.push((client, writes));
    }
    scene.wait_until_held_back();
    // The other direction has a part of its own.
    let (mut quiet, mut quiet_stream) = scene.seat();
    for number in 0..50 {
        quiet.send(&payload(number));
        quiet.run_until("taken", |client| client.unacked() == 0);
        assert_eq!(read_frame(&mut quiet_stream).unwrap(), payload(number));
    }
    let mut hearers = Vec::new();
    for (mut client, writes) in loud {
        client.acknowledges = true;
        let hears = std::thread::spawn(move || {
            client.run("heard", PATIENCE, |client| {
                client.received.len() == MESSAGES as usize
            });
            client
        });
        hearers.push((hears, writes));
    }
    for (hears, writes) in hearers {
        let client = hears.join().unwrap();
        for (number, message) in (0..MESSAGES).zip(&client.received) {
            assert_eq!(*message, payload(number));
        }
        let _stream = writes.join().unwrap();
    }
    scene.settle();
}

/// Its queue was full while there was memory for all, and nothing has happened to it since. It holds more than
/// anybody, so it is held back like the others.
#[test]
fn who_was_full_before_memory_was_short_is_held_back_as_well() {
    let mut scene = Scene::new("first");
    let (mut first, mut stream) = scene.seat();
    first.acknowledges = false;
    // A little more than its session takes.
    for number in 0..260 {
        write_frame(&mut stream, &payload(number));
    }
    scene.relay.wait_for("a full queue", |counters| {
        counters.peers_blocked[Direction::ToPeer as usize] == 1
    });
    let mut others = Vec::new();
    for _ in 1..LOUD {
        let (mut client, mut stream) = scene.seat();
        client.acknowledges = false;
        stream.set_nonblocking(true).unwrap();
        let mut frame = Vec::new();
        write_frame(&mut frame, &payload(0));
        // As much as fits, and a half of one at the end does not matter.
        while stream.write_all(&frame).is_ok() {}
        others.push((client, stream));
    }
    // Within a minute something happens to everybody.
    wait_until("all are held back", PATIENCE / 2, || {
        (scene.relay.counters().peers_held_back >= LOUD as u64).then_some(())
    });
}

/// What nobody plays for any more goes first, and is counted.
#[test]
fn the_stream_of_who_left_is_given_up_before_who_plays() {
    let mut scene = Scene::new("left");
    let (mut leaver, _leaver_stream) = scene.seat();
    (0..MESSAGES).for_each(|number| leaver.send(&payload(number)));
    let (stayer, _stayer_stream) = scene.seat_loud(MESSAGES);
    wait_until("much waits", PATIENCE, || {
        leaver.turn();
        (scene.relay.counters().queued_bytes[0] > 200 * 1024).then_some(())
    });
    leaver.say_goodbye();
    let own = scene.relay.wait_for("one has left", |counters| {
        counters.sessions_closed[CloseReason::PeerDisconnect as usize] == 1
    });
    let own = own.queued_bytes[0];
    assert!(own > 200 * 1024, "what was accepted still waits: {own}");
    // Somebody else holds so much that a quarter of it is too much.
    let other = Queued {
        messages: [QUEUE_MEMORY - own / 4 * 3, 0],
        ..Queued::default()
    };
    scene.capacity.on_queued(Queued::default(), other);
    let counters = scene
        .relay
        .wait_for("given up", |counters| counters.peers == 1);
    let dropped = counters.messages_dropped[Direction::ToBackend as usize];
    assert!(dropped[DropReason::Overload as usize] > 50, "{dropped:?}");
    assert_eq!(overloaded(&counters), 0, "who plays stays");
    // Now there is nobody else.
    let more = Queued {
        messages: [QUEUE_MEMORY, 0],
        ..Queued::default()
    };
    scene.capacity.on_queued(other, more);
    let stayer = stayer.join().unwrap();
    assert_eq!(stayer.goodbye.as_deref(), Some("overload"));
}

/// Of the streams of those who left, the one that has waited longest for its backend goes, and the others get what they wait
/// for.
#[test]
fn the_oldest_stream_of_those_who_left_is_given_up_first() {
    let mut scene = Scene::new("oldest");
    let (mut last, mut last_stream) = scene.seat();
    let (mut first, mut first_stream) = scene.seat();
    for (full, player) in [(1, &mut first), (2, &mut last)] {
        // How much a backend's socket takes depends on how the messages fall together.
        (0..MESSAGES).for_each(|number| player.send(&payload(number)));
        wait_until("a full queue", PATIENCE, || {
            player.turn();
            let blocked = scene.relay.counters().peers_blocked;
            (blocked[Direction::ToBackend as usize] == full).then_some(())
        });
    }
    first.say_goodbye();
    last.say_goodbye();
    let own = scene.relay.wait_for("both have left", |counters| {
        counters.sessions_closed[CloseReason::PeerDisconnect as usize] == 2
    });
    let own = own.queued_bytes[0];
    // Somebody else holds so much that a little of what waits is too much.
    let other = Queued {
        messages: [QUEUE_MEMORY - own / 4 * 3, 0],
        ..Queued::default()
    };
    scene.capacity.on_queued(Queued::default(), other);
    let counters = scene
        .relay
        .wait_for("given up", |counters| counters.peers == 1);
    let dropped = counters.messages_dropped[Direction::ToBackend as usize];
    assert!(dropped[DropReason::Overload as usize] > 0, "{dropped:?}");
    let frames = |stream: &mut UnixStream| std::iter::from_fn(|| read_frame(stream)).count() as u32;
    let (all, some) = (frames(&mut last_stream), frames(&mut first_stream));
    assert!(all >= last.acked, "{all} of {} taken", last.acked);
    assert!(some < first.acked, "all reached the backend: {some}");
}

/// Who finishes nothing cannot be told to wait: when pieces fill their quarter, those who hold most of them
/// go, and nobody else.
#[test]
fn who_holds_most_of_what_is_incomplete_goes() {
    let mut scene = Scene::new("pieces");
    let (mut modest, mut modest_stream) = scene.seat_in_pieces(50);
    let (mut greedy, _greedy_stream) = scene.seat();
    wait_until("too much", PATIENCE, || {
        greedy.socket.send(&piece()).unwrap();
        greedy.turn();
        greedy.goodbye.clone()
    });
    assert_eq!(greedy.goodbye.as_deref(), Some("overload"));
    let most = scene.capacity.most_queued();
    // The quarter, and what came in a turn.
    assert!(most < QUEUE_MEMORY / 2, "{most} bytes waited");
    let counters = scene.relay.wait_for("its pieces are free", |counters| {
        counters.peers == 1 && counters.queued_bytes[0] <= 50 * 1_000
    });
    assert_eq!(overloaded(&counters), 1);
    modest.send(&payload(1));
    modest.run_until("taken", |client| client.unacked() == 0);
    assert_eq!(read_frame(&mut modest_stream).unwrap(), payload(1));
}

/// Both hold more than there is for each peer, and a part of what one of them holds is too much.
#[test]
fn nobody_goes_for_what_another_frees() {
    let mut scene = Scene::new("enough");
    let (mut most, _most_stream) = scene.seat_in_pieces(60);
    let (mut less, mut less_stream) = scene.seat_in_pieces(50);
    let own = scene.relay.wait_for("pieces of both", |counters| {
        counters.queued_bytes[0] >= 110 * 1_000
    });
    let others = Queued {
        pieces: QUEUE_MEMORY / 4 + 20_000 - own.queued_bytes[0],
        ..Queued::default()
    };
    scene.capacity.on_queued(Queued::default(), others);
    most.run_until("its end", |client| client.goodbye.is_some());
    assert_eq!(most.goodbye.as_deref(), Some("overload"));
    less.send(&payload(1));
    less.run_until("taken", |client| client.unacked() == 0);
    assert_eq!(read_frame(&mut less_stream).unwrap(), payload(1));
    assert_eq!(overloaded(&scene.relay.counters()), 1);
}

/// Two workers: at one play those who fill the quarter, at the other somebody with a message under way, and many who hold
/// nothing. Who holds little beside those who fill the memory is not ended for them, however many hold less.
#[test]
fn who_holds_little_beside_others_stays_among_idle_peers() {
    let mut scene = Scene::new("fillers");
    let mut neighbour = scene.neighbour("beside-fillers");
    let (mut modest, mut modest_stream) = neighbour.seat_in_pieces(30);
    (0..40).for_each(|_| scene.capacity.on_arrival());
    let mut fillers: Vec<_> = (0..4).map(|_| scene.seat()).collect();
    for number in 1.. {
        for (filler, _) in &mut fillers {
            filler.socket.send(&piece()).unwrap();
            filler.turn();
        }
        modest.send(&payload(number));
        modest.run_until("taken", |client| {
            client.unacked() == 0 || client.goodbye.is_some()
        });
        assert_eq!(modest.goodbye, None, "after {number} pieces each");
        assert_eq!(read_frame(&mut modest_stream).unwrap(), payload(number));
        if fillers.iter().all(|(filler, _)| filler.goodbye.is_some()) {
            break;
        }
    }
    let counters = scene.relay.wait_for("the fillers have gone", |counters| {
        overloaded(counters) >= 1
    });
    assert!(overloaded(&counters) <= 4);
    assert_eq!(overloaded(&neighbour.relay.counters()), 0);
}

/// Each worker and listener frees its part of what is too much, and in this one nobody holds much: who has less in pieces
/// than there is for each peer is not ended for what others hold.
#[test]
fn who_holds_little_of_what_is_incomplete_stays() {
    let mut scene = Scene::new("few-pieces");
    let (mut modest, mut modest_stream) = scene.seat_in_pieces(50);
    // Two of them.
    let others = Queued {
        pieces: QUEUE_MEMORY / 4,
        squares_of_pieces: 2 * (QUEUE_MEMORY / 8 / 1024).pow(2),
        ..Queued::default()
    };
    (0..2).for_each(|_| scene.capacity.on_arrival());
    scene.capacity.on_queued(Queued::default(), others);
    // The last of them comes in a turn that began when the others' pieces were known.
    for number in 1..=3 {
        modest.send(&payload(number));
        modest.run_until("taken", |client| client.unacked() == 0);
        assert_eq!(read_frame(&mut modest_stream).unwrap(), payload(number));
    }
    assert_eq!(modest.goodbye, None);
}

/// And who has a few messages waiting is not ended for what others have let wait.
#[test]
fn who_holds_little_of_what_waits_stays() {
    let mut scene = Scene::new("few-messages");
    let (mut modest, mut modest_stream) = scene.seat();
    modest.acknowledges = false;
    for number in 0..30 {
        write_frame(&mut modest_stream, &payload(number));
    }
    scene.relay.wait_for("a few messages", |counters| {
        counters.queued_bytes[1] >= 30 * 900
    });
    // Two of them fill all there is.
    let mut others = Queued::default();
    for _ in 0..2 {
        scene.capacity.on_arrival();
        others.add(Queued::of_session([QUEUE_MEMORY / 2, 0], 0));
    }
    scene.capacity.on_queued(Queued::default(), others);
    // The last of them comes in a turn that began when the others' messages were known.
    for number in 1..=3 {
        modest.send(&payload(number));
        modest.run_until("taken", |client| {
            client.unacked() == 0 || client.goodbye.is_some()
        });
        assert_eq!(modest.goodbye, None);
        assert_eq!(read_frame(&mut modest_stream).unwrap(), payload(number));
    }
}
