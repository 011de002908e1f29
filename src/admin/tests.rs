//! The server over loopback, with a board that a test fills.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};

use tidegate_proto::{CloseReason, Reject, Stats};

use super::*;
use crate::backend::Pool;
use crate::board::{ListenerInfo, PeerRow, Reporter, State, WorkerSocket, WorstPeers};
use crate::capacity::Capacity;
use crate::counters::WorkerCounters;

struct Scene {
    board: Arc<Board>,
    pool: Arc<Pool>,
    reporters: Vec<Reporter>,
    clock: Clock,
    admin: Admin,
}

fn scene(name: &str) -> Scene {
    scene_at(name, "127.0.0.1:0", &[])
}

fn scene_at(name: &str, listen: &str, allowed_hosts: &[&str]) -> Scene {
    let mut clock = Clock::start();
    let board = Arc::new(Board::new(clock.now(), Capacity::new(64, 1 << 20).into()));
    let pool = Arc::new(Pool::with_two_targets());
    board.add_backend("game", pool.clone());
    let reporters = board.add_listener(
        ListenerInfo {
            name: name.into(),
            protocol: "gaffer",
            bind: vec!["127.0.0.1:40000".parse().unwrap()],
            backend: "game".into(),
            peers_max: 64,
        },
        &WorkerSocket::one_each(1),
    );
    board.update_process(|process| process.state = State::Serving);
    let listen = listen.parse().unwrap();
    let allowed: Vec<String> = allowed_hosts.iter().map(ToString::to_string).collect();
    let admin = Admin::start(listen, &allowed, Arc::clone(&board), clock.clone()).unwrap();
    Scene {
        board,
        pool,
        reporters,
        clock,
        admin,
    }
}

impl Scene {
    fn get(&self, path: &str) -> (u16, String) {
        probe(self.admin.address(), path, PATIENCE).unwrap()
    }

    /// The status of the answer to a request by these names.
    fn asked_by(&self, target: &str, hosts: &[&str]) -> String {
        let hosts: String = hosts
            .iter()
            .map(|host| format!("Host: {host}\r\n"))
            .collect();
        let answer = self.raw(&format!(
            "GET {target} HTTP/1.1\r\n{hosts}Connection: close\r\n\r\n"
        ));
        answer.split(' ').nth(1).unwrap_or("").to_owned()
    }

    fn raw(&self, request: &str) -> String {
        let loopback = (Ipv4Addr::LOCALHOST, self.admin.address().port());
        let mut stream = TcpStream::connect(loopback).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        if let Err(error) = stream.read_to_string(&mut answer) {
            assert_ne!(error.kind(), ErrorKind::WouldBlock, "it is still open");
        }
        answer
    }
}

#[test]
fn every_route_answers() {
    let mut scene = scene("udp");
    let counters = scene.reporters[0].counters();
    scene.reporters[0].publish(scene.clock.now().mono, &counters);
    for path in ["/livez", "/live", "/healthz", "/readyz", "/ready"] {
        assert_eq!(scene.get(path), (200, "ok\n".into()), "{path}");
    }
    let (code, metrics) = scene.get("/metrics");
    assert_eq!(code, 200);
    assert!(metrics.contains("tidegate_peers{listener=\"udp\"} 0\n"));
    let (code, status) = scene.get("/status");
    assert_eq!(code, 200);
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["listeners"][0]["name"], "udp");
    assert_eq!(scene.get("/nothing").0, 404);
}

#[test]
fn nothing_but_reading_is_allowed() {
    let scene = scene("udp");
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        let request =
            format!("{method} /status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let answer = scene.raw(&request);
        assert!(answer.starts_with("HTTP/1.1 405 "), "{method}: {answer}");
    }
}

/// A page whose name was rebound to loopback reads nothing: its browser asks by that name.
#[test]
fn on_loopback_only_names_that_cannot_be_rebound_are_answered() {
    let scene = scene_at("udp", "127.0.0.1:0", &["gate.example.net"]);
    let port = scene.admin.address().port();
    for host in [
        "127.0.0.1",
        "127.0.0.1:9477",
        "[::1]:9477",
        "192.0.2.7",
        "localhost",
        "LocalHost:9477",
        "localhost.",
        "Gate.example.net",
        "gate.example.net:443",
        "",
    ] {
        assert_eq!(scene.asked_by("/status", &[host]), "200", "{host:?}");
    }
    for host in [
        "evil.example",
        "evil.example:9477",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "[::1",
        "1",
        "127.0.0.1@evil.example",
        "x.gate.example.net",
        "a b",
    ] {
        for path in ["/", "/status", "/metrics", "/livez"] {
            assert_eq!(scene.asked_by(path, &[host]), "421", "{host:?}");
        }
    }
    assert_eq!(
        scene.asked_by("/status", &["localhost", "evil.example"]),
        "421"
    );
    let target = format!("http://evil.example:{port}/status");
    assert_eq!(scene.asked_by(&target, &["localhost"]), "421");
    let answer =
        scene.raw("GET /status HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
    assert!(answer.contains("admin.allowed_hosts"), "{answer}");
    assert!(
        scene
            .raw("GET /status HTTP/1.0\r\n\r\n")
            .starts_with("HTTP/1.0 200 ")
    );
}

#[test]
fn loopback_in_the_notation_of_the_other_family_is_loopback() {
    for (address, is_elsewhere) in [
        ("::ffff:127.0.0.1", false),
        ("::1", false),
        ("::ffff:10.0.0.7", true),
    ] {
        let hosts = Hosts::new(address.parse().unwrap(), &[]);
        assert_eq!(matches!(hosts, Hosts::Any), is_elsewhere, "{address}");
    }
}

/// Prometheus knows a server elsewhere by a name that nobody told it.
#[test]
fn elsewhere_any_name_goes_unless_some_are_listed() {
    let scene = scene_at("udp", "0.0.0.0:0", &[]);
    assert_eq!(scene.asked_by("/metrics", &["tidegate:9477"]), "200");
    let scene = scene_at("udp", "0.0.0.0:0", &["tidegate"]);
    assert_eq!(scene.asked_by("/metrics", &["tidegate:9477"]), "200");
    assert_eq!(
        scene.asked_by("/livez", &["10.1.2.3:9477"]),
        "200",
        "probes of Kubernetes"
    );
    assert_eq!(scene.asked_by("/status", &["evil.example:9477"]), "421");
}

/// What a browser may do with an answer: show it, alone.
#[test]
fn no_page_from_elsewhere_may_use_an_answer() {
    let scene = scene("udp");
    for path in ["/", "/status", "/metrics", "/nothing"] {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\nConnection: close\r\n\r\n"
        );
        let answer = scene.raw(&request);
        let head = answer.split("\r\n\r\n").next().unwrap().to_lowercase();
        for header in [
            "x-content-type-options: nosniff",
            "cross-origin-resource-policy: same-origin",
            "cache-control: no-store",
        ] {
            assert!(head.contains(header), "{path}: {head}");
        }
        assert!(!head.contains("access-control-"), "{path}: {head}");
        let framed = !head.contains("frame-ancestors 'none'");
        assert_eq!(framed, path != "/", "{head}");
    }
}

#[test]
fn ready_says_why_not() {
    let scene = scene("udp");
    scene
        .board
        .update_process(|process| process.state = State::Draining);
    (0..2).for_each(|target| scene.pool.take_down(target));
    let (code, why) = scene.get("/readyz");
    assert_eq!(code, 503);
    assert_eq!(why, "state is draining\nno target of backend game is up\n");
    assert_eq!(scene.get("/livez").0, 200, "draining is not dying");
}

/// Names and addresses are shown, never obeyed; and the figures are there without scripts.
#[test]
fn the_page_shows_figures_and_escapes_names() {
    let mut scene = scene("<script>{{worst}}");
    let now = scene.clock.now();
    let mut counters = scene.reporters[0].counters();
    counters.peers = 3;
    counters.on_reject(Reject::TokenKey);
    counters.on_close(CloseReason::PeerTimeout, Duration::from_secs(9));
    scene.reporters[0].publish(now.mono, &counters);
    let mut worst = WorstPeers::default();
    worst.offer(PeerRow {
        session: 0x5e55,
        address: "198.51.100.9:4242".parse().unwrap(),
        client_id: Some(u64::MAX),
        age: Duration::from_secs(61),
        target: Some(0),
        inbox_bytes: 2048,
        stats: Stats {
            rtt: Duration::from_micros(23_400),
            loss: 0.25,
            in_bad_mode: true,
            ..Stats::default()
        },
    });
    scene.reporters[0].publish_peers(worst);
    let (code, page) = scene.get("/");
    assert_eq!(code, 200);
    let shown = page.split("<script").next().unwrap();
    for figure in [
        "&lt;script&gt;{{worst}}",
        "<b>3</b>",
        "<small>of 64</small>",
        "<td>token_key<small>The token was not made with our key",
        "<td>peer_timeout<small>",
        "<td>198.51.100.9:4242</td>",
        "<td>18446744073709551615</td>",
        "<td>0000000000005e55</td>",
        "<td>1 min</td>",
        "<td>23.4 ms</td>",
        "<td>25.0 %</td>",
        "<td>2.0 KiB</td>",
    ] {
        assert!(shown.contains(figure), "{figure} is not in {shown}");
    }
    for elsewhere in ["http://", "https://", "//cdn", "@import"] {
        let found = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!found.contains(elsewhere), "the page asks for {elsewhere}");
    }
}

/// Where nothing finer was measured than the first bucket, the page says no more than its bound.
#[test]
fn a_round_trip_in_the_first_bucket_is_no_figure() {
    for (trip, half, most) in [
        (30_u64, "under 1 ms", "95 % under 1 ms"),
        (1_500, "1.5 ms", "95 % below 2.0 ms"),
    ] {
        let mut scene = scene("udp");
        let mut counters = scene.reporters[0].counters();
        counters.sample_peer(&Stats {
            rtt: Duration::from_micros(trip),
            ..Stats::default()
        });
        let now = scene.clock.now();
        scene.reporters[0].publish(now.mono, &counters);
        let snapshot = scene.board.snapshot(now);
        let status = Status::new(&snapshot, &History::default(), &Usage::default());
        let page = page::render(&status);
        let shown = page.split("round trip</dt>").nth(1).unwrap();
        let expected = format!("<dd><b>{half}</b><small>{most}</small>");
        assert!(shown.starts_with(&expected), "{trip} us: {}", &shown[..80]);
    }
}

/// A card, a curve and a table that stand on one page say the same of one thing.
#[test]
fn peers_in_bad_mode_are_as_many_everywhere() {
    let mut scene = scene("udp");
    let start = scene.clock.now();
    let mut history = History::default();
    let mut counters = scene.reporters[0].counters();
    counters.peers = 50;
    let mut told = |second, bad| {
        let now = start.after(Duration::from_secs(second));
        counters.peers_in_bad_mode = bad;
        scene.reporters[0].publish(now.mono, &counters);
        let snapshot = scene.board.snapshot(now);
        let status = Status::new(&snapshot, &history, &Usage::default());
        history.push(&snapshot);
        status
    };
    for second in 0..5 {
        told(second, 0);
    }
    let status = told(5, 48);
    let page = page::render(&status);
    for figure in [
        "<b>96.0 %</b>",
        "<small>48 peers</small>",
        "<td>48</td>",
        "\"bad_peers\":[0.0,0.0,0.0,48.0]",
    ] {
        assert!(page.contains(figure), "{figure} is not in {page}");
    }
    let alerts: Vec<_> = status.findings.iter().filter_map(|it| it.alert).collect();
    assert_eq!(alerts, ["TidegateBadNetworkWidespread"]);
    let status = told(6, 1);
    assert!(page::render(&status).contains("<small>1 peer</small>"));
    assert_eq!(status.findings, []);
}

/// rudp measures neither round trips nor loss: that is not known, and no figure is as good as that.
#[test]
fn what_was_not_measured_has_no_figure() {
    let scene = scene("udp");
    let mut worst = WorstPeers::default();
    worst.offer(PeerRow {
        session: 0x5e55,
        address: "198.51.100.9:4242".parse().unwrap(),
        client_id: None,
        age: Duration::from_secs(9),
        target: Some(0),
        inbox_bytes: 0,
        stats: Stats {
            messages_resent: 44,
            ..Stats::default()
        },
    });
    scene.reporters[0].publish_peers(worst);
    let (_, status) = scene.get("/status");
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let peer = &status["worst"][0];
    for key in ["rtt", "jitter", "loss"] {
        assert!(peer[key].is_null(), "{key} in {peer}");
    }
    assert_eq!(peer["resent"], 44);
    let (_, page) = scene.get("/");
    let row = page.split("198.51.100.9:4242</td>").nth(1).unwrap();
    let row = row.split("</tr>").next().unwrap();
    let unknown = "<td>-</td>".repeat(4);
    assert!(row.contains(&(unknown + "<td>44</td>")), "{row}");
    assert!(!row.contains("good"), "{row}");
}

/// The curves and the last minute come from the seconds remembered, not from who asked when.
#[test]
fn the_last_minute_is_a_difference() {
    let (board, mut clock) = {
        let scene = scene("udp");
        (Arc::clone(&scene.board), scene.clock.clone())
    };
    let mut history = History::default();
    let reporter = &board.add_listener(
        ListenerInfo {
            name: "second".into(),
            protocol: "gaffer",
            bind: Vec::new(),
            backend: "game".into(),
            peers_max: 1,
        },
        &WorkerSocket::one_each(1),
    )[0];
    let start = clock.now();
    let mut counters = reporter.counters();
    for second in 0..400 {
        let now = start.after(Duration::from_secs(second));
        counters.datagrams_received += 100;
        counters.on_reject(Reject::Malformed);
        reporter.publish(now.mono, &counters);
        history.push(&board.snapshot(now));
    }
    let snapshot = board.snapshot(start.after(Duration::from_secs(399)));
    let status = Status::new(&snapshot, &history, &Usage::default());
    assert_eq!(status.now["datagrams_in"], 100.0);
    assert_eq!(status.history["datagrams_in"].len(), 300, "bounded");
    assert_eq!(status.rejects[0].reason, "malformed");
    assert_eq!(
        (status.rejects[0].last_minute, status.rejects[0].total),
        (60, 400)
    );
    assert_eq!(status.rejects.len(), 1, "no reason that never occurred");
}

/// Rates of the last five seconds, round trips of the last ten.
#[test]
fn figures_of_now_soon_forget() {
    let mut scene = scene("udp");
    let (reporter, start) = (&scene.reporters[0], scene.clock.now());
    let mut history = History::default();
    let mut counters = reporter.counters();
    let mut push = |second: u64, counters: &WorkerCounters| {
        let now = start.after(Duration::from_secs(second));
        reporter.publish(now.mono, counters);
        history.push(&scene.board.snapshot(now));
        history.recent()
    };
    push(0, &counters);
    counters.sample_peer(&Stats {
        rtt: Duration::from_millis(300),
        ..Stats::default()
    });
    let mut now = BTreeMap::new();
    for second in 1..=16 {
        counters.datagrams_received += 10 * second;
        now = push(second, &counters);
        let is_known = second <= 14;
        assert_eq!(now["rtt_p50"] > 0.0, is_known, "{second}");
    }
    assert_eq!(now["datagrams_in"], 140.0);
}

/// A request head that is too long is refused, and one that never ends is cut off.
#[test]
fn requests_are_bounded_in_size_and_time() {
    let scene = scene("udp");
    let long = format!(
        "GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "a".repeat(20_000)
    );
    let answer = scene.raw(&long);
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 4"),
        "{answer}"
    );
    assert!(!scene.raw("GET /livez HTTP/1.1\r\nHo").contains(" 200 "));
}

/// Silent connections take every place, and many wait for one; they lose it again, and the next one is served.
#[test]
fn slow_clients_cannot_keep_everybody_out() {
    let scene = scene("udp");
    // Fewer than the backlog holds; one after the other, their timeouts would take forty seconds.
    let silent: Vec<TcpStream> = (0..8 * CONNECTIONS_MAX)
        .map(|_| TcpStream::connect(scene.admin.address()).unwrap())
        .collect();
    let answer = probe(scene.admin.address(), "/status", PATIENCE / 2).unwrap();
    assert_eq!(answer.0, 200);
    drop(silent);
}

/// Of two listeners with as many peers as are shown, half of each.
#[test]
fn the_worst_peers_are_those_of_all_listeners() {
    let mut clock = Clock::start();
    let board = Board::new(clock.now(), Capacity::new(200, 1 << 20).into());
    board.add_backend("game", Arc::new(Pool::with_two_targets()));
    let most = WorstPeers::MAX as u64;
    for listener in 0..2 {
        let about = ListenerInfo {
            name: listener.to_string(),
            protocol: "gaffer",
            bind: Vec::new(),
            backend: "game".into(),
            peers_max: 100,
        };
        let mut worst = WorstPeers::default();
        for peer in 0..most {
            let stats = Stats {
                rtt: Duration::from_millis(2 * peer + listener),
                ..Stats::default()
            };
            worst.offer(PeerRow {
                session: 2 * peer + listener,
                address: "198.51.100.9:4242".parse().unwrap(),
                client_id: None,
                age: Duration::ZERO,
                target: None,
                inbox_bytes: 0,
                stats,
            });
        }
        board.add_listener(about, &WorkerSocket::one_each(1))[0].publish_peers(worst);
    }
    let snapshot = board.snapshot(clock.now());
    let status = Status::new(&snapshot, &History::default(), &Usage::default());
    let sessions: Vec<_> = status.worst.into_iter().map(|peer| peer.session).collect();
    let expected = (most..2 * most).rev();
    let expected: Vec<_> = expected.map(|session| format!("{session:016x}")).collect();
    assert_eq!(sessions, expected);
}

/// Two seconds, in which one of two workers was busy for 0.4 s.
#[test]
fn rates_are_of_a_second_and_busy_is_of_all_workers() {
    let mut clock = Clock::start();
    let start = clock.now();
    let board = Board::new(start, Capacity::new(64, 1 << 20).into());
    board.add_backend("game", Arc::new(Pool::with_two_targets()));
    let about = ListenerInfo {
        name: "udp".into(),
        protocol: "gaffer",
        bind: Vec::new(),
        backend: "game".into(),
        peers_max: 1,
    };
    let reporters = board.add_listener(about, &WorkerSocket::one_each(2));
    let mut counters = reporters[0].counters();
    let mut history = History::default();
    for seconds in [0, 2] {
        let now = start.after(Duration::from_secs(seconds));
        counters.datagrams_received = 100 * seconds;
        counters.busy = Duration::from_millis(200 * seconds);
        reporters[0].publish(now.mono, &counters);
        reporters[1].publish(now.mono, &reporters[1].counters());
        history.push(&board.snapshot(now));
    }
    let recent = history.recent();
    assert_eq!((recent["datagrams_in"], recent["busy"]), (100.0, 0.1));
}

#[test]
fn figures_change_their_unit_where_they_get_long() {
    let counts = [9_999.0, 10_000.0, 999_949.0, 1e6].map(units::count);
    assert_eq!(counts, ["9999", "10.0 k", "999.9 k", "1.0 M"]);
    let sizes = [1_023.0, 1_024.0, 1_572_864.0, 1_073_741_824.0].map(units::bytes);
    assert_eq!(sizes, ["1023 B", "1.0 KiB", "1.5 MiB", "1.0 GiB"]);
    let times = [None, Some(0.0123), Some(0.1), Some(0.999), Some(1.0)].map(units::brief);
    assert_eq!(times, ["-", "12.3 ms", "100 ms", "999 ms", "1.00 s"]);
    let ages = [59.9, 60.0, 3_599.0, 3_600.0, 86_399.0, 90_000.0].map(units::span);
    let expected = [
        "59 s",
        "1 min 0 s",
        "59 min 59 s",
        "1 h 0 min",
        "23 h 59 min",
        "1 d 1 h",
    ];
    assert_eq!(ages, expected);
    assert_eq!(units::share(0.307_7), "30.8 %");
}

/// Many times what a request may take, so that the machine may be busy, and yet less than the life of a
/// connection.
const PATIENCE: Duration = Duration::from_secs(40);
const _: () = assert!(PATIENCE.as_secs() < CONNECTION_LIFE.as_secs());
