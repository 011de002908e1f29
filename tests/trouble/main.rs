//! What the program does and says when what it stands on fails: its backends, its time, its descriptors,
//! the reader of its log.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot get a socket has failed"
)]

mod backends;
mod limits;
mod names;
mod pauses;
mod stops;
#[path = "../support/mod.rs"]
mod support;

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;

use support::place::Place;
use support::program::{Program, program};
use support::{PATIENCE, page, wait_until};

/// A gaffer listener before `targets`, a tunnel that leads to it, and its page.
struct Scene {
    place: Place,
    server: Program,
    _tunnel: Program,
    entrance: SocketAddr,
    page: SocketAddr,
}

impl Scene {
    /// `serve` is how the server is started: the program's name and arguments follow.
    fn start(name: &str, serve: &[&str], targets: &str, backend: &str) -> Self {
        let place = Place::new(name);
        let path = |file: &str| place.path(file).display().to_string();
        let server = format!(
            "version = 1\n\
             [runtime]\nworkers = 1\n\
             [admin]\nlisten = \"127.0.0.1:0\"\ncontrol_socket = \"{}\"\n\
             [listener.game]\nprotocol = \"gaffer\"\nbind = [\"127.0.0.1:0\"]\nbackend = \"game\"\n\
             idle_timeout = \"2s\"\n\
             [backend.game]\ntargets = [{targets}]\nframing = \"u16be\"\n{backend}\n",
            path("control.sock")
        );
        place.write("server.toml", &server);
        let mut command = match serve {
            [] => program(),
            [wrapper, arguments @ ..] => {
                let mut command = Command::new(wrapper);
                command.args(arguments).arg(env!("CARGO_BIN_EXE_tidegate"));
                command
            }
        };
        let server = Program::start(command.args(["serve", "--config", &path("server.toml")]));
        let (remote, page) = (server.address(), server.admin());
        server.logged("control");
        let tunnel = format!(
            "version = 1\n[admin]\nlisten = \"\"\ncontrol_socket = \"\"\n\
             [tunnel.home]\nprotocol = \"gaffer\"\nlisten = [\"tcp://127.0.0.1:0\"]\n\
             remote = \"{remote}\"\nframing = \"raw\"\nidle_timeout = \"60s\"\n"
        );
        place.write("tunnel.toml", &tunnel);
        let tunnel = Program::start(program().args(["connect", "--config", &path("tunnel.toml")]));
        let entrance = tunnel.address();
        assert_eq!(tunnel.logged("listening")["tunnel"], "home");
        Self {
            place,
            server,
            _tunnel: tunnel,
            entrance,
            page,
        }
    }

    fn player(&self) -> TcpStream {
        let mut player = TcpStream::connect(self.entrance).unwrap();
        let patience = Some(PATIENCE);
        player.set_read_timeout(patience).unwrap();
        player.write_all(b"hello").unwrap();
        player
    }

    /// Of the first series that begins so; less than any figure where there is none.
    fn metric(&self, series: &str) -> f64 {
        page::metric(self.page, series).unwrap_or(-1.0)
    }

    /// Until so many checks of the target that listens here have ended so.
    fn wait_for_checks(&self, target: &TcpListener, result: &str, count: f64) {
        let address = target.local_addr().unwrap();
        let series = format!(
            "tidegate_backend_health_checks_total{{backend=\"game\",target=\"tcp://{address}\",result=\"{result}\"}}"
        );
        let made = || (self.metric(&series) == count).then_some(());
        wait_until(&series, PATIENCE, made);
    }

    fn wait_for_metric(&self, series: &str) {
        let moved = || (self.metric(series) > 0.0).then_some(());
        wait_until(series, PATIENCE, moved);
    }
}

/// The first connection that such a backend sees is a session's.
const UNWATCHED: &str = "health = { kind = \"off\" }";

fn backend() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("\"tcp://{}\"", listener.local_addr().unwrap());
    (listener, target)
}
