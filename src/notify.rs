//! What systemd is told: ready, reloading, stopping, how many peers there are, and, while every
//! worker turns, that it need not restart us. Says nothing where nobody listens.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use sd_notify::NotifyState;

use crate::board::{Board, Snapshot};
use crate::clock::Clock;
use crate::exit::Unavailable;
use crate::sizing::threads;

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

/// The drain begins; it may take until then, whatever the unit's timeout says.
pub fn stopping(grace: Duration) {
    // systemd reads 64 bits; the library's own word for it has 32, which end after 71 minutes.
    let extend = format!("EXTEND_TIMEOUT_USEC={}", (grace + STOP_MARGIN).as_micros());
    tell(&[NotifyState::Stopping, NotifyState::Custom(&extend)]);
}

/// Reports state and peers from now on, and feeds the watchdog while every worker turns, from a
/// thread of its own that ends with the process. Does nothing without a service manager.
pub fn start(board: Arc<Board>, clock: Clock) -> Result<(), Unavailable> {
    if env::var_os("NOTIFY_SOCKET").is_none() {
        return Ok(());
    }
    let watchdog = sd_notify::watchdog_enabled();
    thread::Builder::new()
        .name("notify".into())
        .spawn(move || report(&board, clock, watchdog))
        .map_err(|error| threads::unavailable("the watchdog", &error))?;
    Ok(())
}

fn report(board: &Board, mut clock: Clock, watchdog: Option<Duration>) {
    // Thrice in a watchdog's period: one late turn of this thread is not a dead process.
    let pause = watchdog.map_or(STATUS_EVERY, |period| (period / 3).min(STATUS_EVERY));
    let mut told = String::new();
    loop {
        let snapshot = board.snapshot(clock.now());
        let status = status(&snapshot);
        let mut news = Vec::new();
        if watchdog.is_some() && snapshot.stuck().is_empty() {
            news.push(NotifyState::Watchdog);
        }
        if status != told {
            news.push(NotifyState::Status(&status));
        }
        if !news.is_empty() {
            tell(&news);
        }
        told = status;
        let began = clock.now().mono;
        thread::sleep(pause);
        if clock.now().mono.since(began) >= pause + STOOD_STILL {
            await_turns(board, &mut clock);
        }
    }
}

/// Where the whole process stood still, its workers have not turned either, and this thread may be the first to go on.
/// Were they judged at once, the watchdog would starve for one more period, and a pause that all sessions have survived
/// would end them.
fn await_turns(board: &Board, clock: &mut Clock) {
    let until = clock.now().mono + FIRST_TURN;
    loop {
        let now = clock.now();
        if now.mono >= until || board.snapshot(now).stuck().is_empty() {
            return;
        }
        thread::sleep(LOOK_AGAIN);
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
    let Some(place) = env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    if let Err(error) = send(&place, news) {
        tracing::debug!(event = "notify_failed", %error);
    }
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

const STATUS_EVERY: Duration = Duration::from_secs(2);

/// Later than any thread is woken that gets processor time.
const STOOD_STILL: Duration = Duration::from_secs(1);

/// For the workers to turn, as they do four times a second.
const FIRST_TURN: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Beyond the drain's grace: flushing streams, saying goodbye.
const STOP_MARGIN: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;
    use crate::board::{ListenerInfo, State, WorkerSocket};
    use crate::capacity::Capacity;

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
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        Running(child)
    }

    /// A worker that turns at first and then hangs.
    #[test]
    #[ignore = "run by systemd_hears_everything_and_the_watchdog_starves in a process of its own"]
    fn the_talking_process() {
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
        ready();
        reloading();
        stopping(Duration::from_secs(7_200));
        reporter.publish(clock.now().mono, &counters);
        start(Arc::clone(&board), clock).unwrap();
        thread::sleep(Duration::from_secs(30));
    }

    #[test]
    fn systemd_hears_everything_and_the_watchdog_starves() {
        let path = env::temp_dir().join(format!("tidegate-notify-{}", std::process::id()));
        let socket = UnixDatagram::bind(&path).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let running = child(&path);
        let said = heard(&socket, |text| text.contains("has been silent"));
        drop(running);
        std::fs::remove_file(&path).unwrap();
        let lines: Vec<&str> = said.iter().flat_map(|text| text.lines()).collect();

        assert_eq!(lines[0], "READY=1");
        assert_eq!(lines[1], "RELOADING=1");
        assert!(lines[2].starts_with("MONOTONIC_USEC="), "{}", lines[2]);
        assert_eq!(lines[3], "STOPPING=1");
        assert_eq!(lines[4], "EXTEND_TIMEOUT_USEC=7210000000");
        assert_eq!(lines[5], "WATCHDOG=1");
        assert_eq!(lines[6], "STATUS=serving, 7 peers");
        let fed = lines.iter().filter(|line| **line == "WATCHDOG=1").count();
        assert!(fed > 10, "fed {fed} times in five seconds");
        let stuck =
            "STATUS=serving, 7 peers; not ready: worker 0 of listener udp has been silent for 5 s";
        assert_eq!(said.last().unwrap(), stuck, "and no more is fed");
    }
}
