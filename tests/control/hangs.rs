//! What hangs, and whom it holds up.

use std::os::unix::net::{UnixDatagram, UnixStream};
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};

use crate::support::PATIENCE;
use crate::support::place::Place;
use crate::support::program::{Program, program};

/// A connect waits for ever where the queue of a process that hangs is full.
#[test]
fn one_that_hangs_stops_nobody_else() {
    let place = Place::new("hangs");
    let path = place.path("hung.sock");
    let hung = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
    hung.bind(&SockAddr::unix(&path).unwrap()).unwrap();
    hung.listen(0).unwrap();
    let _in_queue = UnixStream::connect(&path).unwrap();

    let serve = ["serve", "--listen", "rudp://127.0.0.1:0", "--admin", ""];
    let backend = ["--backend", "tcp://127.0.0.1:9", "--control"];
    let mut command = program();
    let mut second = Program::start(command.args(serve).args(backend).arg(&path));
    assert_eq!(second.exit_code(), Some(69));
    second.wait_for("another process answers there");

    let mut asks = Program::start(program().args(["ctl", "stats", "--control"]).arg(&path));
    asks.wait_for("takes no connections");
    assert_eq!(asks.exit_code(), Some(69));
}

/// A pause that sessions survive, as when a machine is moved or a snapshot of it is taken, does not starve the watchdog: it
/// is fed before anything is said of workers, which stood still as well.
#[test]
fn a_pause_is_no_worker_that_hangs() {
    let place = Place::new("pause");
    let told = UnixDatagram::bind(place.path("notify")).unwrap();
    told.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut command = program();
    command.env("NOTIFY_SOCKET", place.path("notify"));
    command.env("WATCHDOG_USEC", "30000000");
    let listen = ["serve", "--listen", "gaffer://127.0.0.1:0"];
    let backend = ["--backend", "tcp://127.0.0.1:1", "--admin", ""];
    let server = Program::start(command.args(listen).args(backend));
    let mut word = [0; 1000];
    // The first two may come in either order; none is to be under way when it stops. By the second sign of life, two seconds
    // later, the workers have turned: a pause before their first turn is none to them.
    let mut awaited = vec![&b"READY=1"[..], b"WATCHDOG=1", b"WATCHDOG=1"];
    while !awaited.is_empty() {
        let length = told.recv(&mut word).unwrap();
        let came = (awaited.iter()).position(|begin| word[..length].starts_with(begin));
        if let Some(came) = came {
            awaited.swap_remove(came);
        }
    }
    server.signal("STOP");
    // Longer than a worker may be silent.
    std::thread::sleep(Duration::from_millis(5_500));
    told.set_nonblocking(true).unwrap();
    while told.recv(&mut word).is_ok() {}
    told.set_nonblocking(false).unwrap();
    server.signal("CONT");
    let length = told.recv(&mut word).unwrap();
    let said = String::from_utf8_lossy(&word[..length]);
    assert!(said.starts_with("WATCHDOG=1"), "{said}");
    server.logged("process_paused");
}

/// A service manager that hangs hears nothing, and what is sent to it waits once its queue is full.
#[test]
fn a_service_manager_that_hangs_delays_no_stop() {
    let place = Place::new("deaf");
    let deaf = UnixDatagram::bind(place.path("notify")).unwrap();
    let serve = ["serve", "--listen", "rudp://127.0.0.1:0", "--admin", ""];
    let mut command = program();
    command.env("NOTIFY_SOCKET", place.path("notify"));
    let backend = ["--backend", "tcp://127.0.0.1:9"];
    let mut stopped = Program::start(command.args(serve).args(backend));
    deaf.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut word = [0; 100];
    while !word.starts_with(b"READY=1") {
        deaf.recv(&mut word).unwrap();
    }

    let noise = UnixDatagram::unbound().unwrap();
    noise.set_nonblocking(true).unwrap();
    let full = std::iter::repeat_with(|| noise.send_to(b"STATUS=", place.path("notify")));
    let full = full.take(100_000).find_map(Result::err).unwrap();
    assert_eq!(full.kind(), std::io::ErrorKind::WouldBlock);
    stopped.signal("TERM");
    assert_eq!(stopped.exit_code(), Some(0));
}
