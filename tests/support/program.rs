//! The built program, running.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde_json::Value;

use super::place::Place;
use super::{PATIENCE, skipped, wait_until};

/// The program, not started yet, and without what it would find in a login session.
pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command
        .env_remove("RUNTIME_DIRECTORY")
        .env_remove("XDG_RUNTIME_DIR")
        .env_remove("TIDEGATE_CONTROL")
        .env_remove("TIDEGATE_CONFIG");
    command
}

impl Place {
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

    /// Starts the program here, with these arguments and nothing in its environment.
    pub fn start(&self, arguments: &[&str]) -> Program {
        let mut command = program();
        let command = command.args(arguments).current_dir(self.dir());
        Program::start(command.env_clear().stdout(Stdio::null()))
    }
}

/// One run of it, and what it has logged; killed when dropped.
pub struct Program {
    pub child: Child,
    log: Arc<Mutex<Vec<String>>>,
}

impl Program {
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        let (stderr, lines) = (child.stderr.take().unwrap(), log.clone());
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                lines.lock().unwrap().push(line);
            }
        });
        Self { child, log }
    }

    /// Where it listens, as its log says.
    pub fn address(&self) -> SocketAddr {
        parsed(&self.logged("listening")["address"])
    }

    /// Where its page is, as its log says.
    pub fn admin(&self) -> SocketAddr {
        parsed(&self.logged("admin")["listen"])
    }

    /// The first line of its log about this event.
    pub fn logged(&self, event: &str) -> Value {
        self.logged_where(event, |_| true)
    }

    /// The first of those that are what is asked for.
    pub fn logged_where(&self, event: &str, is: impl Fn(&Value) -> bool) -> Value {
        wait_until(event, PATIENCE, || {
            let mut lines = self.all_logged(event).into_iter();
            lines.find(&is)
        })
    }

    /// Every line about this event so far.
    pub fn all_logged(&self, event: &str) -> Vec<Value> {
        let log = self.log.lock().unwrap();
        let lines = log
            .iter()
            .filter_map(|line| serde_json::from_str(line).ok());
        lines
            .filter(|line: &Value| line["event"] == event)
            .collect()
    }

    /// The first line of its log with this in it.
    pub fn wait_for(&self, what: &str) -> String {
        wait_until(what, PATIENCE, || self.line(what))
    }

    pub fn has_said(&self, what: &str) -> bool {
        self.line(what).is_some()
    }

    /// Whether it comes to leaving out the lines of sessions while `open` opens some, and says how many. There are lines
    /// for 4096, and for ten more a second.
    #[expect(clippy::disallowed_methods, reason = "a test runs in real time")]
    pub fn calls_many(&self, mut open: impl FnMut() -> u64) -> bool {
        let (began, mut opened) = (Instant::now(), 0);
        while !self.has_said("\"many\":true") {
            let took = began.elapsed().as_secs();
            // A slow machine needs longer, and some more for it.
            if opened >= 5000 + 10 * took {
                return false;
            }
            if took > 300 {
                skipped("5000 sessions in five minutes");
                return true;
            }
            opened += open();
        }
        true
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, name: &str) {
        let pid = self.pid().to_string();
        let status = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(status.unwrap().success());
    }

    /// Waits for its end.
    pub fn exit_code(&mut self) -> Option<i32> {
        let status = wait_until("its end", PATIENCE, || self.child.try_wait().unwrap());
        status.code()
    }

    fn line(&self, what: &str) -> Option<String> {
        let log = self.log.lock().unwrap();
        log.iter().find(|line| line.contains(what)).cloned()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn parsed(address: &Value) -> SocketAddr {
    address.as_str().unwrap().parse().unwrap()
}
