//! What systemd is told: ready, reloading, stopping, how many peers there are, and, while every
//! worker turns, that it need not restart us. Says nothing where nobody listens.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use sd_notify::NotifyState;

use crate::board::Snapshot;

/// Sockets are bound, peers are welcome. Also ends a reload.
pub fn ready() {
    tell(&[NotifyState::Ready]);
}

/// A reload begins. Without the time, `systemctl reload` of a `notify-reload` unit waits for ever.
pub fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(error) => tracing::debug!(event = "notify_failed", %error),
    }
}

/// The drain begins; it may take until then, whatever the unit's timeout says. The status goes with it: a drain may be
/// over before it is the feed's turn.
pub fn stopping(grace: Duration, snapshot: &Snapshot) {
    // systemd reads 64 bits; the library's own word for it has 32, which end after 71 minutes.
    let extend = format!("EXTEND_TIMEOUT_USEC={}", (grace + STOP_MARGIN).as_micros());
    let status = status(snapshot);
    tell(&[
        NotifyState::Stopping,
        NotifyState::Custom(&extend),
        NotifyState::Status(&status),
    ]);
}

/// Every session has ended. systemd keeps the last status of a unit, and shows it for as long as the unit is stopped.
pub fn stopped() {
    tell(&[NotifyState::Status("stopped")]);
}

/// What the service manager is told again and again.
pub struct Feed {
    /// Where it listens, if it does.
    place: Option<OsString>,
    /// For so long it waits for a sign of life, if at all.
    watchdog: Option<Duration>,
    /// The status that it has.
    told: String,
}

impl Feed {
    pub fn open() -> Self {
        let place = env::var_os("NOTIFY_SOCKET");
        Self {
            watchdog: sd_notify::watchdog_enabled().filter(|_| place.is_some()),
            place,
            told: String::new(),
        }
    }

    /// How often it waits for one, thrice in a watchdog's period: one late turn of a thread is not a dead process.
    pub fn every(&self) -> Option<Duration> {
        self.watchdog.map(|period| period / 3)
    }

    /// State and peers where they changed, and a sign of life if every worker turns.
    pub fn tell(&mut self, snapshot: &Snapshot, all_turn: bool) {
        let status = status(snapshot);
        let mut news = Vec::new();
        if self.watchdog.is_some() && all_turn {
            news.push(NotifyState::Watchdog);
        }
        if status != self.told {
            news.push(NotifyState::Status(&status));
        }
        if news.is_empty() {
            return;
        }
        // What it was too busy to take is told again.
        let is_told = |place: &OsString| was_taken(place, &news);
        if self.place.as_ref().is_none_or(is_told) {
            self.told = status;
        }
    }
}

/// One line for `systemctl status`.
fn status(snapshot: &Snapshot) -> String {
    let state = snapshot.process.state.label();
    let peers = snapshot.peers();
    match snapshot.not_ready().first() {
        Some(why) => format!("{state}, {peers} peers; not ready: {why}"),
        None => format!("{state}, {peers} peers"),
    }
}

fn tell(news: &[NotifyState<'_>]) {
    if let Some(place) = env::var_os("NOTIFY_SOCKET") {
        was_taken(&place, news);
    }
}

fn was_taken(place: &OsStr, news: &[NotifyState<'_>]) -> bool {
    send(place, news)
        .inspect_err(|error| tracing::debug!(event = "notify_failed", %error))
        .is_ok()
}

/// The library waits for ever where the queue of a manager that hangs is full, and with it a drain would.
fn send(place: &OsStr, news: &[NotifyState<'_>]) -> io::Result<()> {
    let address = match place.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(place)?,
    };
    let lines: String = news.iter().map(|state| format!("{state}\n")).collect();
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.send_to_addr(lines.as_bytes(), &address).map(drop)
}

/// For a manager that is busy.
const PATIENCE: Duration = Duration::from_secs(1);

/// Beyond the drain's grace: flushing streams, saying goodbye.
const STOP_MARGIN: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Command, Stdio};
    use std::sync::Arc;
    use std::thread;

    use super::*;
    use crate::board::{Board, ListenerInfo, State, WorkerSocket};
    use crate::capacity::Capacity;
    use crate::clock::Clock;
    use crate::config::{Log, LogFormat};
    use crate::{hangs, logging};

    /// What the child below says, a datagram each time, until one that `last` accepts.
    fn heard(socket: &UnixDatagram, last: impl Fn(&str) -> bool) -> Vec<String> {
        let mut all = Vec::new();
        let mut datagram = [0; 1024];
        while !all.last().is_some_and(|said: &String| last(said)) {
            let len = match socket.recv(&mut datagram) {
                // A child of another test ended.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                received => received.unwrap(),
            };
            let text = std::str::from_utf8(&datagram[..len]).unwrap();
            all.push(text.trim_end().to_owned());
        }
        all
    }

    struct Running(Child);

    impl Drop for Running {
        fn drop(&mut self) {
            self.0.kill().unwrap();
            self.0.wait().unwrap();
        }
    }

    /// The environment belongs to the whole process, so a copy of this test program talks.
    fn child(path: &std::path::Path) -> Running {
        let program = env::current_exe().unwrap();
        let child = Command::new(program)
            .args(["--exact", "notify::tests::the_talking_process", "--ignored"])
            .env("NOTIFY_SOCKET", path)
            .env("WATCHDOG_USEC", "300000")
            .env_remove("WATCHDOG_PID")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Running(child)
    }

    /// A worker that turns at first, then hangs, and in the end turns again.
    #[test]
    #[ignore = "run by systemd_hears_everything_and_the_watchdog_starves in a process of its own"]
    fn the_talking_process() {
        let log = Log {
            format: LogFormat::Json,
            level: "info".to_owned(),
            repeat_window: Duration::ZERO,
        };
        let _logging = logging::install(&log).unwrap();
        let mut clock = Clock::start();
        let board = Arc::new(Board::new(clock.now(), Capacity::new(64, 0).into()));
        let info = ListenerInfo {
            name: "udp".into(),
            protocol: "gaffer",
            bind: Vec::new(),
            backend: "none".into(),
            peers_max: 1,
        };
        let reporter = &board.add_listener(info, &WorkerSocket::one_each(1))[0];
        let mut counters = reporter.counters();
        counters.peers = 7;
        board.update_process(|process| process.state = State::Serving);
        reporter.publish(clock.now().mono, &counters);
        ready();
        reloading();
        stopping(Duration::from_secs(7_200), &board.snapshot(clock.now()));
        hangs::watch(&board, clock.clone()).unwrap();
        while board.snapshot(clock.now()).stuck().is_empty() {
            thread::sleep(Duration::from_millis(50));
        }
        thread::sleep(Duration::from_secs(1));
        reporter.publish(clock.now().mono, &counters);
        thread::sleep(Duration::from_secs(4));
    }

    /// Else `systemctl status` would show what was before, until the next player comes or goes.
    #[test]
    fn a_status_that_nobody_took_is_told_again() {
        let path = env::temp_dir().join(format!("tidegate-status-{}", std::process::id()));
        let mut clock = Clock::start();
        let board = Board::new(clock.now(), Capacity::new(64, 0).into());
        let snapshot = board.snapshot(clock.now());
        let mut feed = Feed {
            place: Some(path.clone().into()),
            watchdog: None,
            told: String::new(),
        };
        feed.tell(&snapshot, true);
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_nonblocking(true).unwrap();
        feed.tell(&snapshot, true);
        feed.tell(&snapshot, true);
        let said = heard(&socket, |text| text.starts_with("STATUS="));
        assert_eq!(said.len(), 1);
        let more = socket.recv(&mut [0; 64]).unwrap_err();
        assert_eq!(more.kind(), io::ErrorKind::WouldBlock, "once is enough");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn systemd_hears_everything_and_the_watchdog_starves() {
        let path = env::temp_dir().join(format!("tidegate-notify-{}", std::process::id()));
        let socket = UnixDatagram::bind(&path).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let mut running = child(&path);
        let log = running.0.stderr.take().unwrap();
        let said = heard(&socket, |text| text.contains("has been silent"));
        let log = BufReader::new(log).lines().map_while(Result::ok);
        let mut events = log.filter(|line| line.contains("\"event\":\"worker_"));
        let hangs = events.next().unwrap();
        assert!(hangs.contains("worker_hangs"), "{hangs}");
        assert!(
            hangs.contains("worker 0 of listener udp has been silent for 5 s"),
            "{hangs}"
        );
        let turns = events.next().unwrap();
        assert!(turns.contains("worker_turns_again"), "{turns}");
        let again = heard(&socket, |text| text.contains("WATCHDOG=1"));
        let before = &again[..again.len() - 1];
        assert!(
            before.iter().all(|text| text.contains("has been silent")),
            "{before:?}"
        );
        drop(running);
        std::fs::remove_file(&path).unwrap();
        let lines: Vec<&str> = said.iter().flat_map(|text| text.lines()).collect();

        assert_eq!(lines[0], "READY=1");
        assert_eq!(lines[1], "RELOADING=1");
        assert!(lines[2].starts_with("MONOTONIC_USEC="), "{}", lines[2]);
        assert_eq!(lines[3], "STOPPING=1");
        assert_eq!(lines[4], "EXTEND_TIMEOUT_USEC=7210000000");
        assert_eq!(lines[5], "STATUS=serving, 7 peers");
        assert_eq!(lines[6], "WATCHDOG=1");
        assert_eq!(lines[7], "STATUS=serving, 7 peers");
        let fed = lines.iter().filter(|line| **line == "WATCHDOG=1").count();
        assert!(fed > 10, "fed {fed} times in five seconds");
        let stuck =
            "STATUS=serving, 7 peers; not ready: worker 0 of listener udp has been silent for 5 s";
        assert_eq!(said.last().unwrap(), stuck, "and no more is fed");
    }
}
