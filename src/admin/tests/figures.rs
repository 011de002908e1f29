//! What the page and `/status` say of the figures on a board.

use super::*;

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
            packets_acked: 3,
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

/// Nothing is below nothing.
#[test]
fn who_loses_nothing_is_below_the_next_figure() {
    let mut scene = scene("udp");
    let mut counters = scene.reporters[0].counters();
    counters.loss.record(0.0);
    let now = scene.clock.now();
    scene.reporters[0].publish(now.mono, &counters);
    let snapshot = scene.board.snapshot(now);
    let status = Status::new(&snapshot, &History::default(), &Usage::default());
    let page = page::render(&status);
    let shown = page.split("loss</dt>").nth(1).unwrap();
    let expected = "<dd><b>0.0 %</b><small>95 % below 0.1 %</small>";
    assert!(shown.starts_with(expected), "{}", &shown[..80]);
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

/// Nobody answered a rudp session yet, and none measures loss: that is not known, and no figure is as good as that.
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
