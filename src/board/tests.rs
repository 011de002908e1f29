use std::net::SocketAddr;
use std::time::Duration;

use tidegate_proto::{Now, Stats};

use super::*;

fn at(secs: u64) -> Now {
    Now::default().after(Duration::from_secs(secs))
}

fn board() -> (Board, Vec<Reporter>) {
    let (board, reporters, _) = board_of(Pool::with_two_targets());
    (board, reporters)
}

fn board_of(pool: Pool) -> (Board, Vec<Reporter>, Arc<Pool>) {
    let pool = Arc::new(pool);
    let board = Board::new(at(0), Capacity::new(64, 1 << 20).into());
    board.add_backend("game", pool.clone());
    let reporters = board.add_listener(about("udp"), &WorkerSocket::one_each(2));
    (board, reporters, pool)
}

fn about(name: &str) -> ListenerInfo {
    ListenerInfo {
        name: name.into(),
        protocol: "gaffer",
        bind: vec!["127.0.0.1:40000".parse().unwrap()],
        backend: "game".into(),
        peers_max: 64,
    }
}

fn row(port: u16, loss: f32, in_bad_mode: bool) -> PeerRow {
    PeerRow {
        session: 1,
        address: SocketAddr::from(([127, 0, 0, 1], port)),
        client_id: None,
        age: Duration::ZERO,
        target: None,
        inbox_bytes: 0,
        stats: Stats {
            loss,
            in_bad_mode,
            ..Stats::default()
        },
    }
}

#[test]
fn workers_and_listeners_add_up_to_their_backend() {
    let (board, reporters) = board();
    for (index, reporter) in reporters.iter().enumerate() {
        let mut counters = reporter.counters();
        counters.peers = 1 + index as u64;
        counters.targets[1].connections = 5;
        reporter.publish(at(1).mono, &counters);
    }
    let snapshot = board.snapshot(at(1));
    assert_eq!(snapshot.peers(), 3);
    assert_eq!(snapshot.backends[0].targets[1].counters.connections, 10);
    assert_eq!(snapshot.listeners[0].workers()[&1].peers, 2);
}

/// Whatever order they came in: a reload adds some later.
#[test]
fn names_with_numbers_stand_in_their_order() {
    let (board, _, pool) = board_of(Pool::with_two_targets());
    for name in ["x-10", "x-0", "x", "x-2", "x-1", "a-3", "x-2b"] {
        board.add_backend(name, pool.clone());
        board.add_listener(about(name), &WorkerSocket::one_each(1));
    }
    let snapshot = board.snapshot(at(1));
    let listeners: Vec<&str> = (snapshot.listeners.iter())
        .map(|listener| &*listener.about.name)
        .collect();
    let expected = ["a-3", "udp", "x", "x-0", "x-1", "x-2", "x-2b", "x-10"];
    assert_eq!(listeners, expected);
    let backends = snapshot.backends.iter().map(|backend| &*backend.name);
    let backends: Vec<&str> = backends.filter(|name| *name != "game").collect();
    assert_eq!(backends, ["a-3", "x", "x-0", "x-1", "x-2", "x-2b", "x-10"]);
}

#[test]
fn what_leaves_is_counted_until_it_is_gone_and_kept_while_its_listener_stays() {
    let (board, reporters) = board();
    let first = WorkerSocket::one_each(1);
    let more = board.extend_listener("udp", Vec::new(), &first, at(3).mono);
    let all = reporters.iter().chain(&more);
    for reporter in all.clone() {
        let mut counters = reporter.counters();
        counters.datagrams_received = 7;
        counters.receive_buffer_bytes = 1;
        reporter.publish(at(1).mono, &counters);
    }
    reporters[0].finish();
    let seen = &board.snapshot(at(1)).listeners[0];
    assert_eq!(seen.counters.datagrams_received, 21, "counters never fall");
    assert_eq!(seen.counters.receive_buffer_bytes, 2, "gauges say now");
    let of_workers = seen.sockets.iter().map(|seen| seen.socket.worker);
    assert_eq!(of_workers.collect::<Vec<_>>(), [1, 0]);
    let again = board.extend_listener("udp", Vec::new(), &first, at(3).mono);
    assert_eq!(board.snapshot(at(1)).listeners[0].sockets.len(), 3);
    board.set_peers_max("udp", 0);
    assert_eq!(board.snapshot(at(1)).full(), ["listener.udp.max_peers"]);

    board.retire_listener("udp");
    board.retire_backend("game");
    let full = board.snapshot(at(1)).full();
    assert_eq!(full, Vec::<String>::new(), "it keeps nobody out");
    assert_eq!(board.leaving(), (vec!["udp".into()], vec!["game".into()]));
    for reporter in all.skip(1).chain(&again) {
        assert!(board.snapshot(at(1)).listeners[0].leaving);
        reporter.finish();
    }
    assert!(board.snapshot(at(1)).listeners.is_empty());
    assert!(board.snapshot(at(1)).backends.is_empty());
}

#[test]
fn a_silent_worker_is_named() {
    let (board, reporters) = board();
    board.update_process(|process| process.state = State::Serving);
    let counters = reporters[0].counters();
    reporters[0].publish(at(9).mono, &counters);
    reporters[1].publish(at(5).mono, &counters);
    assert_eq!(board.snapshot(at(9)).not_ready(), Vec::<String>::new());
    let stuck = board.snapshot(at(10)).stuck();
    assert_eq!(stuck, ["worker 1 of listener udp has been silent for 5 s"]);
}

/// Two workers on two addresses are two workers, and each has the time of a whole thread.
#[test]
fn a_worker_is_one_on_however_many_addresses() {
    let (board, _) = board();
    let addresses = ["0.0.0.0:40000", "[::]:40000"].map(|it| Some(it.parse().unwrap()));
    let socket = |worker, address| WorkerSocket { worker, address };
    let sockets = [0, 1].map(|worker| addresses.map(|address| socket(worker, address)));
    let about = board.snapshot(at(0)).listeners[0].about.clone();
    let about = ListenerInfo {
        name: "both".into(),
        ..about
    };
    let reporters = board.add_listener(about, sockets.as_flattened());
    for (reporter, (peers, busy)) in reporters.iter().zip([(1, 5), (2, 5), (4, 7), (8, 6)]) {
        let mut counters = reporter.counters();
        (counters.peers, counters.busy) = (peers, Duration::from_secs(busy));
        reporter.publish(at(9).mono, &counters);
    }
    let seen = |secs| board.snapshot(at(secs)).listeners[0].clone();
    let worker = |peers, busy| WorkerSnapshot {
        peers,
        busy: Duration::from_secs(busy),
    };
    let workers = [(0, worker(3, 5)), (1, worker(12, 7))];
    assert_eq!(seen(9).workers(), workers.into());
    reporters[3].finish();
    let reporters = &reporters[..3];
    let counters = reporters[0].counters();
    (reporters[..2].iter()).for_each(|reporter| reporter.publish(at(20).mono, &counters));
    let stuck = board.snapshot(at(20)).stuck();
    let text = "worker 1 (0.0.0.0:40000) of listener both has been silent for 11 s";
    assert!(stuck.contains(&text.to_owned()), "{stuck:?}");
}

#[test]
fn ready_needs_the_state_and_a_target() {
    let (board, _, pool) = board_of(Pool::with_two_targets());
    assert_eq!(board.snapshot(at(0)).not_ready(), ["state is starting"]);
    board.update_process(|process| process.state = State::Serving);
    pool.take_down(0);
    assert!(board.snapshot(at(0)).not_ready().is_empty());
    pool.take_down(1);
    assert_eq!(
        board.snapshot(at(0)).not_ready(),
        ["no target of backend game is up"]
    );
    // Where nobody checks, somebody has to come to find that it is back.
    pool.set_checked(false);
    for target in [0, 1] {
        pool.fail_connects(target);
        assert!(!board.snapshot(at(0)).backends[0].targets[target].state.up);
    }
    assert!(board.snapshot(at(0)).not_ready().is_empty());
}

/// What is drained by hand takes nobody, whether or not it is up, and with or without checks.
#[test]
fn a_drained_target_makes_nobody_ready() {
    let (tcp, unix) = ("tcp://127.0.0.1:7000", "unix:/run/game.sock");
    let (board, _, pool) = board_of(Pool::with_two_targets());
    board.update_process(|process| process.state = State::Serving);
    let not_ready = || board.snapshot(at(0)).not_ready();
    pool.set_draining(tcp, true);
    assert!(not_ready().is_empty(), "the other one takes them");
    pool.take_down(1);
    assert_eq!(
        not_ready(),
        ["no target of backend game takes newcomers: each is down or drained by hand"]
    );
    pool.set_draining(unix, true);
    let drained = ["no target of backend game takes newcomers: all are drained by hand"];
    assert_eq!(not_ready(), drained);
    pool.set_checked(false);
    assert_eq!(not_ready(), drained);
    pool.set_draining(unix, false);
    assert!(not_ready().is_empty());
}

#[test]
fn the_worst_peers_are_few_and_worst_first() {
    let (board, reporters) = board();
    let mut worst = WorstPeers::default();
    for port in 1..=10_000 {
        worst.offer(row(port, f32::from(port % 100) / 100.0, port == 777));
    }
    reporters[0].publish_peers(worst);
    let mut worst = WorstPeers::default();
    worst.offer(row(20_000, 1.0, false));
    reporters[1].publish_peers(worst);
    let rows = &board.snapshot(at(0)).listeners[0].worst;
    assert_eq!(rows.len(), WorstPeers::MAX);
    assert_eq!(rows[0].address.port(), 777, "bad mode first");
    assert_eq!(rows[1].address.port(), 20_000, "then loss, over workers");
}

/// Where nothing is measured, what was sent again tells who has a bad time.
#[test]
fn peers_without_a_round_trip_are_sorted_by_what_was_sent_again() {
    let mut worst = WorstPeers::default();
    for resent in 0..1_000 {
        let mut row = row(1, 0.0, false);
        row.stats.messages_resent = resent * 7 % 1_000;
        worst.offer(row);
    }
    let rows = worst.into_rows();
    let resent: Vec<_> = rows.iter().map(|row| row.stats.messages_resent).collect();
    let expected: Vec<_> = (950..1_000).rev().collect();
    assert_eq!(resent, expected);
}

#[test]
fn a_refused_reload_keeps_the_date_of_the_configuration_in_force() {
    let (board, _) = board();
    let tried = |secs, error: Option<&str>| {
        let error = error.map(str::to_owned);
        board.update_process(|process| process.on_reload(at(secs), error));
    };
    tried(50, None);
    tried(60, Some("unknown key"));
    let process = board.snapshot(at(60)).process;
    assert_eq!(process.loaded_unix, 50);
    assert_eq!(process.reload_error.as_deref(), Some("unknown key"));
    assert_eq!((process.reloads_ok, process.reloads_refused), (1, 1));
    tried(70, None);
    assert_eq!(board.snapshot(at(70)).process.reload_error, None);
}
