//! A server in front of a backend, a tunnel that leads to it, and `tidegate ctl` beside.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;

use serde_json::Value;

use super::place::Place;
use super::program::{Program, program};
use super::{PATIENCE, accept};

/// A server in front of a backend, and a tunnel that leads to it.
pub struct Scene {
    pub place: Place,
    pub backend: TcpListener,
    pub server: Program,
    pub tunnel: Program,
    pub entrance: SocketAddr,
}

impl Scene {
    pub fn new(name: &str) -> Self {
        let place = Place::new(name);
        let mut keygen = place.start(&["keygen", "--out", "key"]);
        assert_eq!(keygen.exit_code(), Some(0));
        let backend = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = backend.local_addr().unwrap();
        let control = place.path("control.sock");
        let config = place.write(
            "server.toml",
            format!(
                "version = 1\n\
                 [runtime]\nworkers = 2\n\
                 [admin]\nlisten = \"\"\ncontrol_socket = \"{}\"\n\
                 [listener.game]\nbind = [\"127.0.0.1:0\"]\nbackend = \"game\"\n\
                 netcode = {{ key_file = \"key\" }}\n\
                 [backend.game]\ntargets = [\"tcp://{target}\"]\nframing = \"raw\"\n\
                 health = {{ kind = \"off\" }}\n",
                control.display()
            ),
        );
        let mut server = program();
        // What it makes by a name without a directory is made there.
        server.current_dir(place.dir());
        let server = Program::start(server.args(["serve", "--config"]).arg(config));
        let address = server.address();
        server.logged("control");
        let config = place.write(
            "tunnel.toml",
            format!(
                "version = 1\n[admin]\nlisten = \"\"\ncontrol_socket = \"\"\n\
                 [tunnel.home]\nlisten = [\"tcp://127.0.0.1:0\"]\nremote = \"{address}\"\n\
                 framing = \"raw\"\nnetcode = {{ key_file = \"key\", client_id = \"77\" }}\n"
            ),
        );
        let tunnel = Program::start(program().args(["connect", "--config"]).arg(config));
        let entrance = tunnel.address();
        Self {
            place,
            backend,
            server,
            tunnel,
            entrance,
        }
    }

    /// A player whose stream reaches the backend.
    pub fn join(&self) -> (TcpStream, TcpStream) {
        join(self.entrance, &self.backend)
    }

    pub fn control(&self) -> PathBuf {
        self.place.path("control.sock")
    }

    pub fn ctl(&self, arguments: &[&str]) -> Output {
        ctl(&self.control(), arguments)
    }

    /// Changes the server's file.
    pub fn edit(&self, from: &str, to: &str) {
        let path = self.place.path("server.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{text}");
        std::fs::write(path, text.replace(from, to)).unwrap();
    }

    pub fn ask(&self, arguments: &[&str]) -> Value {
        let output = self.ctl(arguments);
        let text = String::from_utf8(output.stdout).unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{arguments:?}: {text}{error}"))
    }
}

/// A player who comes to this address, and may be refused.
pub fn knock(entrance: SocketAddr) -> TcpStream {
    let player = TcpStream::connect(entrance).unwrap();
    player.set_read_timeout(Some(PATIENCE)).unwrap();
    player
}

/// A player who comes to this address, and whose stream reaches this backend.
pub fn join(entrance: SocketAddr, backend: &TcpListener) -> (TcpStream, TcpStream) {
    let mut player = knock(entrance);
    player.write_all(b"hello").unwrap();
    let mut stream = accept(backend);
    stream.read_exact(&mut [0; 5]).unwrap();
    (player, stream)
}

/// What is written at one end arrives at the other.
pub fn assert_connected(player: &mut TcpStream, stream: &mut TcpStream) {
    player.write_all(b"still here").unwrap();
    let mut heard = [0; 10];
    stream.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"still here");
}

pub fn ctl(control: &Path, arguments: &[&str]) -> Output {
    let mut command = program();
    command
        .arg("ctl")
        .arg("--control")
        .arg(control)
        .arg("--json");
    command.args(arguments).output().unwrap()
}

/// Whether the other end closes the stream. One that goes on in silence is not over.
pub fn is_over(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0; 16]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

/// A pair of streams that answer each other until told to stop: traffic during a reload.
pub struct Traffic {
    stop: Arc<std::sync::atomic::AtomicBool>,
    player: std::thread::JoinHandle<u32>,
    echo: std::thread::JoinHandle<()>,
}

impl Traffic {
    pub fn start((mut player, mut stream): (TcpStream, TcpStream)) -> Self {
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let ends = stop.clone();
        let echo = std::thread::spawn(move || {
            let mut bytes = [0; 4];
            while stream.read_exact(&mut bytes).is_ok() {
                stream.write_all(&bytes).unwrap();
            }
        });
        let player = std::thread::spawn(move || {
            let mut round = 0u32;
            while !ends.load(std::sync::atomic::Ordering::Relaxed) {
                player.write_all(&round.to_be_bytes()).unwrap();
                let mut answer = [0; 4];
                player.read_exact(&mut answer).unwrap();
                assert_eq!(answer, round.to_be_bytes());
                round += 1;
            }
            round
        });
        Self { stop, player, echo }
    }

    pub fn stop(self) -> u32 {
        self.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let rounds = self.player.join().unwrap();
        self.echo.join().unwrap();
        rounds
    }
}
