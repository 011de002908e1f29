use std::sync::mpsc;

use super::*;

mod readers;
mod repeats;

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

/// Waits until all that was said is written, however busy the machine is.
fn write_all(logging: &Logging) {
    let (done, written) = sync_channel(1);
    assert!(logging.queue.flush(done));
    written.recv().unwrap();
}

/// The lines of `body`, without their stamps.
fn lines(log: &Log, style: Style, body: impl FnOnce(&Logging)) -> Vec<String> {
    let page = Page::default();
    let (subscriber, logging) = build(log, style, false, Box::new(page.clone())).unwrap();
    tracing::subscriber::with_default(subscriber, || body(&logging));
    write_all(&logging);
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
                // What tests say is in nobody's log.
                "tests" => continue,
                "mod" | "lib" | "main" => module.to_owned(),
                name => format!("{module}::{name}"),
            };
            if path.is_dir() {
                walk(&path, &inner, found);
            } else if path.extension().is_some_and(|it| it == "rs") {
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

/// A comma too many, or a variable in a template that is not set: each would be taken for "error".
#[test]
fn a_directive_without_a_level_is_no_order_to_be_silent() {
    for slip in [
        "info,",
        ",info",
        "info,,tidegate::udp=debug",
        ",",
        "tidegate=",
        "info,tidegate::udp=",
        "=",
    ] {
        let why = check_level(slip).unwrap_err();
        assert!(why.ends_with("says no level"), "{slip}: {why}");
    }
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
    write_all(&logging);
    let text = String::from_utf8(page.0.lock().unwrap().clone()).unwrap();
    let starts: Vec<&str> = text.lines().map(|line| &line[..4]).collect();
    let of_what_was_held_back = "<4>{";
    assert_eq!(
        starts,
        ["<3>{", "<4>{", "<6>{", "<7>{", of_what_was_held_back]
    );
}
