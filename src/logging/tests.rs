use std::sync::mpsc;

use super::*;

fn log(level: &str, repeat_window: Duration) -> Log {
    Log {
        format: LogFormat::Text,
        level: level.to_owned(),
        repeat_window,
    }
}

/// Everything written so far.
#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The lines of `body`, without their stamps.
fn lines(log: &Log, style: Style, body: impl FnOnce(&Logging)) -> Vec<String> {
    let page = Page::default();
    let (subscriber, logging) = build(log, style, false, Box::new(page.clone())).unwrap();
    tracing::subscriber::with_default(subscriber, || body(&logging));
    logging.flush();
    let text = String::from_utf8(page.0.lock().unwrap().clone()).unwrap();
    let stamp = "1970-01-01T00:00:00.000000Z".len();
    let skip = match style {
        Style::Text => stamp + 1,
        Style::Json => "{\"ts\":\"\",".len() + stamp,
    };
    text.lines().map(|line| line[skip..].to_owned()).collect()
}

const LONG: Duration = Duration::from_secs(3600);

#[test]
fn stable_keys_come_first_and_in_order() {
    let say = |_: &Logging| {
        tracing::info!(
            bytes = 12_u64,
            client_id = u64::MAX,
            reason = "peer_timeout",
            session = %format_args!("{:016x}", 255),
            listener = "game",
            peer = %"192.0.2.1:9",
            event = "session_end",
            "a peer left"
        );
    };
    assert_eq!(
        lines(&log("info", LONG), Style::Text, say),
        [
            "INFO  session_end: a peer left listener=game peer=192.0.2.1:9 \
          session=00000000000000ff client_id=18446744073709551615 reason=peer_timeout bytes=12"
        ]
    );
    assert_eq!(
        lines(&log("info", LONG), Style::Json, say),
        [
            "\"level\":\"info\",\"event\":\"session_end\",\"listener\":\"game\",\
          \"peer\":\"192.0.2.1:9\",\"session\":\"00000000000000ff\",\"client_id\":\"18446744073709551615\",\
          \"reason\":\"peer_timeout\",\"bytes\":12,\"msg\":\"a peer left\"}"
        ]
    );
}

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

#[test]
fn the_level_can_be_changed() {
    let said = lines(&log("warn", LONG), Style::Text, |logging| {
        tracing::info!("not yet");
        logging.set_level("warn,tidegate=debug").unwrap();
        tracing::debug!("now");
        logging.set_level("loud").unwrap_err();
        logging.set_level(" ").unwrap_err();
        tracing::debug!("still");
        assert_eq!(logging.level(), "warn,tidegate=debug");
    });
    assert_eq!(said, ["DEBUG now", "DEBUG still"]);
}

/// The modules that log are those that a directive can name.
#[test]
fn every_module_that_logs_is_known() {
    fn walk(directory: &std::path::Path, module: &str, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let inner = match name.as_str() {
                "mod" | "lib" | "main" => module.to_owned(),
                name => format!("{module}::{name}"),
            };
            if path.is_dir() {
                walk(&path, &inner, found);
            } else if name != "tests" && path.extension().is_some_and(|it| it == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let levels = ["trace", "debug", "info", "warn", "error"];
                let logs = |level| text.contains(&format!("tracing::{level}!("));
                found.extend(levels.into_iter().any(logs).then_some(inner));
            }
        }
    }
    let mut found = Vec::new();
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    walk(&source, "tidegate", &mut found);
    found.sort();
    assert_eq!(found, level::TARGETS, "write them into logging/level.rs");
    for good in [
        "off",
        "info,tidegate=debug",
        "tidegate::udp",
        "tidegate::udp::first_link=trace",
    ] {
        assert_eq!(check_level(good), Ok(()), "{good}");
    }
    for nobody in [
        "tidegate_proto=debug",
        "tidegate::listner=debug",
        "tidegate::udp::x",
    ] {
        let why = check_level(nobody).unwrap_err();
        assert!(why.contains("tidegate::token_history"), "{why}");
    }
}

/// A thread that logs never waits for the one that reads the log.
#[test]
fn a_stuck_reader_costs_lines_not_time() {
    struct Stuck(mpsc::Receiver<()>);
    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // Returns when the test is over.
            self.0.recv().ok();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let (release, held) = mpsc::channel::<()>();
    let sink = Box::new(Stuck(held));
    let (subscriber, logging) = build(&log("debug", LONG), Style::Text, false, sink).unwrap();
    let text = "0123456789".repeat(40);
    tracing::subscriber::with_default(subscriber, || {
        for _ in 0..10_000 {
            tracing::debug!(text, "a line");
        }
    });
    // So much waits, and one line may be on its way out.
    let kept = (10_000 - logging.lines_dropped()) as usize;
    let line =
        queue::BESIDE + "1970-01-01T00:00:00.000000Z DEBUG a line text=\n".len() + text.len();
    let fits = queue::BYTES / line;
    assert!((fits..=fits + 1).contains(&kept), "{kept} lines kept");
    drop(release);
}

/// A process ends, or its network does, and all its players are told of in one turn.
#[test]
fn all_who_leave_at_once_have_their_line() {
    let page = Page::default();
    let (subscriber, logging) = build(
        &log("info", LONG),
        Style::Json,
        false,
        Box::new(page.clone()),
    )
    .unwrap();
    let figures = "0123456789".repeat(60);
    tracing::subscriber::with_default(subscriber, || {
        // What writes there waits until they have all gone.
        let _busy = page.0.lock().unwrap();
        for session in 0..4096_u64 {
            tracing::info!(event = "session_end", session, figures);
        }
    });
    logging.flush();
    assert_eq!(logging.lines_dropped(), 0);
    let text = String::from_utf8(page.0.lock().unwrap().clone()).unwrap();
    assert_eq!(text.lines().count(), 4096);
}

/// Who reads slowly is waited for, at the end of a process that had much to say.
#[test]
fn a_slow_reader_gets_the_last_lines() {
    struct Slow(Page);
    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            std::thread::sleep(Duration::from_millis(10));
            self.0.write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let page = Page::default();
    let sink = Box::new(Slow(page.clone()));
    let (subscriber, logging) = build(&log("info", LONG), Style::Json, false, sink).unwrap();
    tracing::subscriber::with_default(subscriber, || {
        for session in 0..100_u64 {
            tracing::info!(event = "session_end", session);
        }
    });
    logging.flush();
    let text = String::from_utf8(page.0.lock().unwrap().clone()).unwrap();
    assert_eq!(text.lines().count(), 100);
}

/// `journalctl -p warning` finds warnings, and errors that come in several lines.
#[test]
fn the_journal_hears_how_bad_a_line_is() {
    let page = Page::default();
    let sink = Box::new(page.clone());
    let (subscriber, logging) = build(&log("debug", LONG), Style::Json, true, sink).unwrap();
    tracing::subscriber::with_default(subscriber, || {
        tracing::error!(event = "one");
        for _ in 0..2 {
            tracing::warn!(event = "two");
        }
        tracing::info!(event = "three");
        tracing::debug!(event = "four");
    });
    logging.flush();
    let text = String::from_utf8(page.0.lock().unwrap().clone()).unwrap();
    let starts: Vec<&str> = text.lines().map(|line| &line[..4]).collect();
    let of_what_was_held_back = "<4>{";
    assert_eq!(
        starts,
        ["<3>{", "<4>{", "<6>{", "<7>{", of_what_was_held_back]
    );
}

/// Where players come and go all the time, no second is quiet.
#[test]
fn what_was_held_back_is_told_while_others_speak() {
    let page = Page::default();
    let short = log("info", Duration::from_millis(100));
    let (subscriber, _logging) = build(&short, Style::Text, false, Box::new(page.clone())).unwrap();
    tracing::subscriber::with_default(subscriber, || {
        tracing::warn!(event = "token_refused", reason = "token_address");
        tracing::warn!(event = "token_refused", reason = "token_address");
        let told = || {
            let text = String::from_utf8(page.0.lock().unwrap().clone()).unwrap();
            text.contains("token_refused reason=token_address suppressed=1")
        };
        let end = clock::now() + Duration::from_secs(20);
        while !told() {
            assert!(clock::now() < end, "nobody was told");
            tracing::info!(event = "session_start", session = 1_u64);
            std::thread::sleep(Duration::from_millis(5));
        }
    });
}

/// So much fits on it, in the middle of a line.
#[derive(Clone, Default)]
struct Disk {
    page: Page,
    room: Arc<AtomicU64>,
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.room.load(Ordering::Relaxed);
        let fits = bytes.len().min(room as usize);
        if fits == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.room.store(room - fits as u64, Ordering::Relaxed);
        self.page.write(&bytes[..fits])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_costs_its_own_lines_and_they_are_counted_once() {
    let disk = Disk::default();
    disk.room.store(50, Ordering::Relaxed);
    let sink = Box::new(disk.clone());
    let (subscriber, logging) = build(&log("info", LONG), Style::Text, false, sink).unwrap();
    tracing::subscriber::with_default(subscriber, || {
        for session in 1..=3_u64 {
            tracing::info!(event = "session_start", session, long = "0123456789");
        }
        // Looks for what was lost, as it does every second, and cannot say it.
        logging.flush();
        logging.flush();
        disk.room.store(10_000, Ordering::Relaxed);
        logging.flush();
        tracing::info!(event = "session_start", session = 4_u64);
        logging.flush();
    });
    assert_eq!(logging.lines_dropped(), 3);
    let text = String::from_utf8(disk.page.0.lock().unwrap().clone()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert_eq!(lines[0].len(), 50, "the half that fitted");
    assert!(lines[1].contains("WARN  log_lines_dropped"), "{text}");
    assert!(lines[1].ends_with(" count=3"), "{text}");
    assert!(lines[2].ends_with("session=4"), "{text}");
}

/// On a quiet server a full disk loses one line, and the next after an hour.
#[test]
fn lost_lines_are_news_for_a_minute_and_until_the_log_has_told() {
    let start = clock::now();
    let mut losses = Losses::default();
    let mut recent =
        |secs, dropped, told| losses.are_recent(start + Duration::from_secs(secs), dropped, told);
    assert!(!recent(0, 0, 0));
    assert!(recent(10, 1, 0));
    assert!(recent(600, 1, 0), "the disk is still full");
    assert!(recent(659, 1, 1));
    assert!(!recent(660, 1, 1));
    assert!(recent(700, 2, 2), "told within the second");
    assert!(!recent(760, 2, 2));
}
