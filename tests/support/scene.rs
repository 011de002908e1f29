//! A server in front of a backend, a tunnel that leads to it, and `tidegate ctl` beside.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use super::{PATIENCE, accept, wait_until};

/// A directory of this test's own, gone with it.
pub struct Directory(pub PathBuf);

impl Directory {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tidegate-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command
        .env_remove("RUNTIME_DIRECTORY")
        .env_remove("XDG_RUNTIME_DIR")
        .env_remove("TIDEGATE_CONTROL")
        .env_remove("TIDEGATE_CONFIG");
    command
}

/// A running tidegate, and what it has logged.
pub struct Running {
    pub child: Child,
    log: Arc<Mutex<Vec<Value>>>,
}

impl Running {
    pub fn start(arguments: &[&str]) -> Self {
        Self::of(program().args(arguments))
    }

    pub fn of(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        let (lines, kept) = (child.stderr.take().unwrap(), log.clone());
        std::thread::spawn(move || {
            for line in BufReader::new(lines).lines().map_while(Result::ok) {
                let line = serde_json::from_str(&line).unwrap_or(Value::String(line));
                kept.lock().unwrap().push(line);
            }
        });
        Self { child, log }
    }

    pub fn logged(&self, event: &str) -> Value {
        wait_until(event, PATIENCE, || {
            let log = self.log.lock().unwrap();
            log.iter().find(|line| line["event"] == event).cloned()
        })
    }

    /// Every line of this event so far.
    pub fn all_logged(&self, event: &str) -> Vec<Value> {
        let log = self.log.lock().unwrap();
        let lines = log.iter().filter(|line| line["event"] == event);
        lines.cloned().collect()
    }

    /// Waits for a line with this in it, whatever its shape.
    pub fn said(&self, what: &str) {
        wait_until(what, PATIENCE, || {
            let log = self.log.lock().unwrap();
            let mut lines = log.iter().filter_map(Value::as_str);
            lines.any(|line| line.contains(what)).then_some(())
        });
    }

    pub fn end(&mut self) -> i32 {
        wait_until("its end", PATIENCE, || self.child.try_wait().unwrap())
            .code()
            .unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A server in front of a backend, and a tunnel that leads to it.
pub struct Scene {
    pub directory: Directory,
    pub backend: TcpListener,
    pub server: Running,
    pub tunnel: Running,
    pub entrance: SocketAddr,
}

impl Scene {
    pub fn new(name: &str) -> Self {
        let directory = Directory::new(name);
        let key = directory.0.join("key");
        let made = program()
            .arg("keygen")
            .arg("--out")
            .arg(&key)
            .status()
            .unwrap();
        assert!(made.success());
        let backend = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = backend.local_addr().unwrap();
        let control = directory.0.join("control.sock");
        let config = directory.write(
            "server.toml",
            &format!(
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
        let server = Running::start(&["serve", "--config", config.to_str().unwrap()]);
        let address = server.logged("listening")["address"]
            .as_str()
            .unwrap()
            .to_owned();
        server.logged("control");
        let config = directory.write(
            "tunnel.toml",
            &format!(
                "version = 1\n[admin]\nlisten = \"\"\ncontrol_socket = \"\"\n\
                 [tunnel.home]\nlisten = [\"tcp://127.0.0.1:0\"]\nremote = \"{address}\"\n\
                 framing = \"raw\"\nnetcode = {{ key_file = \"key\", client_id = \"77\" }}\n"
            ),
        );
        let tunnel = Running::start(&["connect", "--config", config.to_str().unwrap()]);
        let entrance = tunnel.logged("listening")["address"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
        Self {
            directory,
            backend,
            server,
            tunnel,
            entrance,
        }
    }

    /// A player whose stream reaches the backend.
    pub fn join(&self) -> (TcpStream, TcpStream) {
        let mut player = TcpStream::connect(self.entrance).unwrap();
        player.set_read_timeout(Some(PATIENCE)).unwrap();
        player.write_all(b"hello").unwrap();
        let mut stream = accept(&self.backend);
        let mut heard = [0; 5];
        stream.read_exact(&mut heard).unwrap();
        (player, stream)
    }

    pub fn control(&self) -> PathBuf {
        self.directory.0.join("control.sock")
    }

    pub fn ctl(&self, arguments: &[&str]) -> Output {
        ctl(&self.control(), arguments)
    }

    /// Changes the server's file.
    pub fn edit(&self, from: &str, to: &str) {
        let path = self.directory.0.join("server.toml");
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

pub fn ctl(control: &Path, arguments: &[&str]) -> Output {
    let mut command = program();
    command
        .arg("ctl")
        .arg("--control")
        .arg(control)
        .arg("--json");
    command.args(arguments).output().unwrap()
}

pub fn is_over(stream: &mut TcpStream) -> bool {
    matches!(stream.read(&mut [0; 16]), Ok(0) | Err(_))
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
