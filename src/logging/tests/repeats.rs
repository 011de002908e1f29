//! What is said again and again has few lines, and what those leave out is counted.

use super::*;

/// A thousand warnings of two kinds are two lines, and the rest is counted.
#[test]
fn the_same_is_said_once_a_window() {
    let mut suppressed = [0; LOG_LEVELS.len()];
    let said = lines(&log("info", LONG), Style::Text, |logging| {
        for round in 0..500 {
            tracing::warn!(event = "backend_down", reason = "refused", round);
            tracing::warn!(event = "backend_down", reason = "timeout", round);
        }
        suppressed = logging.lines_suppressed();
    });
    assert_eq!(suppressed, [0, 998, 0, 0], "all of them warnings");
    assert_eq!(
        said,
        [
            "WARN  backend_down reason=refused round=0",
            "WARN  backend_down reason=timeout round=0",
            "WARN  backend_down reason=refused suppressed=499",
            "WARN  backend_down reason=timeout suppressed=499",
        ]
    );
    let said = lines(&log("info", LONG), Style::Json, |_| {
        (0..3).for_each(|round| tracing::warn!(event = "backend_down", round));
    });
    assert!(said[1].ends_with("\"suppressed\":2}"), "{said:?}");
}

/// How many were refused is worth more than how many lines said so.
#[test]
fn what_lines_count_is_in_the_next_one_when_they_are_held_back() {
    let refuse = |refused: u64| {
        let (reason, key, refused) = ("full", "runtime.max_peers", Some(refused));
        tracing::warn!(event = "newcomers_refused", reason, key, limit = 9, refused);
    };
    let said = lines(&log("info", LONG), Style::Text, |_| {
        [7, 20, 300].into_iter().for_each(refuse)
    });
    assert_eq!(
        said,
        [
            "WARN  newcomers_refused reason=full key=runtime.max_peers limit=9 refused=7",
            "WARN  newcomers_refused reason=full key=runtime.max_peers refused=320 suppressed=2",
        ]
    );
    // Whatever is said in time and whatever is not: nobody is left out.
    let mut refused = 0;
    let said = lines(
        &log("info", Duration::from_millis(1)),
        Style::Text,
        |logging| {
            while logging.lines_suppressed()[rank(Level::WARN)] < 1000 {
                refused += 1;
                refuse(1);
            }
        },
    );
    let told = said.iter().map(|line| {
        let (_, rest) = line.split_once("refused=").unwrap();
        rest.split(' ').next().unwrap().parse::<u64>().unwrap()
    });
    assert_eq!(told.sum::<u64>(), refused);
}

/// The second of two names that do not resolve, listeners that are full, addresses that are banned.
#[test]
fn what_happens_to_another_is_another_line() {
    let said = lines(&log("info", LONG), Style::Text, |_| {
        for _ in 0..3 {
            for backend in ["game", "lobby"] {
                tracing::warn!(event = "dns_failed", backend, target = "db", error = "gone");
            }
            for range in ["192.0.2.0/24", "198.51.100.0/24"] {
                let reason = "strikes";
                tracing::warn!(event = "source_banned", reason, listener = "game", range);
            }
        }
    });
    assert_eq!(
        said,
        [
            "WARN  dns_failed backend=game target=db error=gone",
            "WARN  dns_failed backend=lobby target=db error=gone",
            "WARN  source_banned listener=game reason=strikes range=192.0.2.0/24",
            "WARN  source_banned listener=game reason=strikes range=198.51.100.0/24",
            "WARN  dns_failed backend=game target=db suppressed=2",
            "WARN  dns_failed backend=lobby target=db suppressed=2",
            "WARN  source_banned listener=game reason=strikes range=192.0.2.0/24 suppressed=2",
            "WARN  source_banned listener=game reason=strikes range=198.51.100.0/24 suppressed=2",
        ]
    );
}

/// A second listener must not start in silence, and least of all an insecure one.
#[test]
fn listeners_have_their_line_each() {
    let said = lines(&log("info", LONG), Style::Text, |_| {
        for listener in ["game", "legacy"] {
            tracing::info!(event = "listening", listener);
            tracing::warn!(event = "insecure_listener", listener);
        }
    });
    assert_eq!(said.len(), 4, "{said:?}");
}

/// Two reloads, seconds apart, of which each finds another value that has to wait.
#[test]
fn reloads_have_their_line_each() {
    let said = lines(&log("info", LONG), Style::Text, |_| {
        for values in ["runtime.workers", "admin.listen"] {
            tracing::warn!(event = "needs_restart", values);
        }
    });
    assert_eq!(
        said,
        [
            "WARN  needs_restart values=runtime.workers",
            "WARN  needs_restart values=admin.listen",
        ]
    );
}

#[test]
fn sessions_have_their_line_each() {
    let said = lines(&log("info", LONG), Style::Text, |_| {
        for session in 0..20_u64 {
            tracing::info!(event = "session_end", session, reason = "drain");
            tracing::warn!(event = "stalled_backend", session);
            tracing::info!(event = "dial_refused");
        }
    });
    let count = |what: &str| said.iter().filter(|line| line.contains(what)).count();
    assert_eq!(count("session_end"), 20);
    let others = ["stalled_backend", "dial_refused"].map(count);
    assert_eq!(others, [2, 2], "the first, and how many more");
}

/// Whoever needs no token may open sessions and leave all night.
#[test]
fn sessions_that_strangers_open_by_the_thousand_have_few_lines() {
    let mut suppressed = 0;
    let said = lines(&log("info", LONG), Style::Text, |logging| {
        for session in 0..1000_u64 {
            tracing::info!(event = "session_start", session, many = true);
            tracing::info!(event = "session_start", session, listener = "other");
        }
        suppressed = logging.lines_suppressed()[rank(Level::INFO)];
    });
    assert_eq!(suppressed, 968);
    let count = |what: &str| said.iter().filter(|line| line.contains(what)).count();
    assert_eq!((count("many=true"), count("other")), (32, 1000));
}

/// A thousand players who find no game server try again every second for the whole night. Some are named, and the others
/// counted; who did play is named whatever happens.
#[test]
fn tries_have_few_lines_and_sessions_all() {
    let mut suppressed = 0;
    let said = lines(&log("info", LONG), Style::Text, |logging| {
        for session in 0..1000_u64 {
            let (seated, reason) = (false, "backend_refused");
            tracing::info!(event = "session_end", session, seated, reason);
            tracing::info!(event = "session_end", session, reason = "backend_reset");
        }
        suppressed = logging.lines_suppressed()[rank(Level::INFO)];
    });
    assert_eq!(suppressed, 968);
    let count = |what: &str| said.iter().filter(|line| line.contains(what)).count();
    assert_eq!(count("backend_reset"), 1000);
    assert_eq!(count("seated=false"), 32);
    let rest = "INFO  session_end reason=backend_refused suppressed=968";
    assert_eq!(said.last().unwrap(), rest);
    assert_eq!(said.len(), 1033);
}

/// Where players come and go all the time, no second is quiet.
#[test]
fn what_was_held_back_is_told_while_others_speak() {
    let page = Page::default();
    let short = log("info", Duration::from_millis(100));
    let (subscriber, logging) = build(&short, Style::Text, false, Box::new(page.clone())).unwrap();
    tracing::subscriber::with_default(subscriber, || {
        // On a busy machine a window may be over before the second comes.
        while logging.lines_suppressed()[rank(Level::WARN)] == 0 {
            tracing::warn!(event = "token_refused", reason = "token_address");
        }
        let told = || {
            let text = String::from_utf8(page.0.lock().unwrap().clone()).unwrap();
            text.contains("token_refused reason=token_address suppressed=1")
        };
        let end = clock::now() + Duration::from_secs(60);
        while !told() {
            assert!(clock::now() < end, "nobody was told");
            tracing::info!(event = "session_start", session = 1_u64);
            std::thread::sleep(Duration::from_millis(5));
        }
    });
}
