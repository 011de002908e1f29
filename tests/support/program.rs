//! The built program, running.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use super::{PATIENCE, wait_until};

/// A directory that programs run in; gone when dropped.
pub struct Place(PathBuf);

impl Place {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tidegate-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// A file there, or the place for one.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Puts a file there.
    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).unwrap();
    }

    /// Starts `serve` with one listener on a free port, and its key beside it.
    pub fn serve(
        &self,
        protocol: &str,
        framing: &str,
        backend: SocketAddr,
        more: &[&str],
    ) -> Program {
        let listen = format!("{protocol}://127.0.0.1:0");
        let backend = format!("tcp://{backend}");
        let arguments = [
            "serve",
            "--listen",
            &listen,
            "--backend",
            &backend,
            "--framing",
            framing,
            "--admin",
            "",
        ];
        self.start(&[&arguments, more].concat())
    }

    /// Starts the program with these arguments.
    pub fn start(&self, arguments: &[&str]) -> Program {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(arguments)
            .current_dir(&self.0)
            .env_clear()
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = Arc::new(Mutex::new(Vec::new()));
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let lines = said.clone();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                lines.lock().unwrap().push(line);
            }
        });
        Program { child, said }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// One run of it; killed when dropped.
pub struct Program {
    child: Child,
    said: Arc<Mutex<Vec<String>>>,
}

impl Program {
    /// Where it listens, as its log says.
    pub fn address(&mut self) -> SocketAddr {
        self.logged_address("listening", "address")
    }

    /// Where its page is, as its log says.
    pub fn admin(&mut self) -> SocketAddr {
        self.logged_address("admin", "listen")
    }

    fn logged_address(&mut self, event: &str, field: &str) -> SocketAddr {
        let line = self.wait_for(&format!("\"event\":\"{event}\""));
        let (_, rest) = line.split_once(&format!("\"{field}\":\"")).unwrap();
        let (address, _) = rest.split_once('"').unwrap();
        address.parse().unwrap()
    }

    /// The first line of its log with this in it.
    pub fn wait_for(&mut self, what: &str) -> String {
        wait_until(what, PATIENCE, || self.line(what))
    }

    pub fn has_said(&self, what: &str) -> bool {
        self.line(what).is_some()
    }

    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(status.unwrap().success());
    }

    /// Waits for its end.
    pub fn exit_code(&mut self) -> Option<i32> {
        let status = wait_until("its end", PATIENCE, || self.child.try_wait().unwrap());
        status.code()
    }

    fn line(&self, what: &str) -> Option<String> {
        let said = self.said.lock().unwrap();
        said.iter().find(|line| line.contains(what)).cloned()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
