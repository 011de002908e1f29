//! The namespace of the built program, and the program in it.

use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tidegate::tokens;
use tidegate_client::Dial;

use crate::support::place::Place;
use crate::support::{PATIENCE, page, token, wait_until};

/// A namespace with one end of a veth pair, held by a process that sleeps.
pub struct Space {
    holder: Child,
}

impl Space {
    pub fn new() -> Self {
        run("ip", &["link", "set", "lo", "up"]);
        let holder = Command::new("unshare")
            .args(["-n", "sleep", "3600"])
            .spawn()
            .unwrap();
        let space = Self { holder };
        let own = std::fs::read_link("/proc/self/ns/net").unwrap();
        let theirs = format!("/proc/{}/ns/net", space.holder.id());
        wait_until("a namespace", PATIENCE, || {
            std::fs::read_link(&theirs)
                .ok()
                .filter(|theirs| *theirs != own)
        });
        let pid = space.pid();
        run(
            "ip",
            &[
                "link", "add", "play", "type", "veth", "peer", "name", "gate", "netns", &pid,
            ],
        );
        run(
            "ip",
            &["addr", "add", &format!("{PLAYERS}/24"), "dev", "play"],
        );
        run("ip", &["link", "set", "play", "up"]);
        space.run("ip", &["link", "set", "lo", "up"]);
        space.run(
            "ip",
            &["addr", "add", &format!("{SERVER}/24"), "dev", "gate"],
        );
        space.run("ip", &["link", "set", "gate", "up"]);
        // Whatever address a datagram claims, its answer would come back here.
        space.run("ip", &["route", "add", "default", "via", PLAYERS]);
        space
    }

    fn pid(&self) -> String {
        self.holder.id().to_string()
    }

    /// Runs a command there, to its end.
    pub fn run(&self, program: &str, arguments: &[&str]) {
        let pid = self.pid();
        run(
            "nsenter",
            &[&["-t", &pid, "-n", program], arguments].concat(),
        );
    }

    /// Runs this very program there, with something in its environment; what it prints.
    pub fn run_self(&self, variable: &str, value: &str) -> String {
        let output = Command::new("nsenter")
            .args(["-t", &self.pid(), "-n"])
            .arg(std::env::current_exe().unwrap())
            .env(variable, value)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        self.holder.kill().ok();
        self.holder.wait().ok();
        Command::new("ip")
            .args(["link", "del", "play"])
            .output()
            .ok();
    }
}

/// Runs a command here, to its end.
pub fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
}

/// A running `tidegate serve` in a namespace, with one listener and a backend on a Unix socket.
pub struct Gate {
    pub space: Space,
    place: Place,
    child: Child,
    log: PathBuf,
}

/// How a gate is to be different.
#[derive(Default)]
pub struct Setup<'a> {
    /// Put before the program, as in `prlimit --nofile=64`.
    pub wrapper: &'a [&'a str],
    /// More lines of `[listener.game]` and of tables after it.
    pub config: &'a str,
    /// Where the log goes, if not beside the rest.
    pub log: Option<&'a Path>,
}

impl Gate {
    pub fn start(name: &str, setup: &Setup<'_>) -> Self {
        let space = Space::new();
        let place = Place::new(&format!("chaos-{name}"));
        place.write(
            "tidegate.toml",
            format!(
                "version = 1\n[admin]\nlisten = \"{SERVER}:{ADMIN}\"\ncontrol_socket = \"\"\n\
                 [log]\nformat = \"json\"\nrepeat_window = \"1ms\"\n\
                 [backend.game]\ntargets = [\"unix:{0}\"]\nframing = \"u16be\"\n\
                 [listener.game]\nbind = [\"{SERVER}:40000\"]\nbackend = \"game\"\nmax_peers = 1024\n\
                 {1}\n",
                place.path("backend.sock").display(),
                setup.config,
            ),
        );
        let mut keygen = place.start(&["keygen", "--out", "netcode.key"]);
        assert_eq!(keygen.exit_code(), Some(0));
        // The first check alone decides whether a target is up: it finds somebody, in whose place
        // the scenario's own backend comes.
        let socket = place.path("backend.sock");
        let somebody = UnixListener::bind(&socket).unwrap();
        somebody.set_nonblocking(true).unwrap();
        let log = setup.log.map_or(place.path("log"), Path::to_owned);
        let pid = space.pid();
        let mut arguments = vec!["-t", &pid, "-n", "--"];
        arguments.extend(setup.wrapper);
        arguments.extend([PROGRAM, "serve", "--config", "tidegate.toml"]);
        let child = Command::new("nsenter")
            .args(arguments)
            .current_dir(place.dir())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let gate = Self {
            space,
            place,
            child,
            log,
        };
        gate.wait_for("\"event\":\"listening\"");
        let checked = || somebody.accept().ok();
        wait_until("a first check", PATIENCE, checked);
        std::fs::remove_file(&socket).unwrap();
        gate
    }

    /// Where its backend is expected.
    pub fn backend(&self) -> PathBuf {
        self.place.path("backend.sock")
    }

    /// A way in, for one client.
    pub fn dial(&self, timeout: Duration) -> Dial {
        let client_id = u64::from_le_bytes(tokens::random().unwrap());
        let token = token::mint(&self.place, client_id, &[address()], timeout);
        Dial::yojimbo(tokens::token_text(&token).as_bytes()).unwrap()
    }

    pub fn signal(&self, name: &str) {
        run("kill", &["-s", name, &self.child.id().to_string()]);
    }

    /// Its log so far.
    pub fn log(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Lines of its log with all of this in them.
    pub fn said(&self, parts: &[&str]) -> usize {
        let has_all = |line: &&String| parts.iter().all(|part| line.contains(part));
        self.log().iter().filter(has_all).count()
    }

    pub fn wait_for(&self, what: &str) -> String {
        wait_until(what, PATIENCE, || {
            self.log().into_iter().find(|line| line.contains(what))
        })
    }

    /// Waits until so many sessions have ended for this reason.
    pub fn wait_for_ends(&self, reason: &str, count: usize) {
        let reason = format!("\"reason\":\"{reason}\"");
        wait_until(&reason, PATIENCE, || {
            let ended = self.said(&["session_end", &reason]);
            (ended >= count).then_some(())
        });
    }

    /// Resident memory in bytes, and CPU time used.
    pub fn usage(&self) -> (u64, Duration) {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        // The name may contain anything; what follows it does not.
        let (_, rest) = stat.rsplit_once(')').unwrap();
        let fields: Vec<u64> = rest
            .split_whitespace()
            .map(|f| f.parse().unwrap_or(0))
            .collect();
        // proc(5): utime and stime are fields 14 and 15, rss is 24; the state here is field 3.
        let ticks = fields[11] + fields[12];
        (fields[21] * 4096, Duration::from_millis(ticks * 10))
    }

    /// What all series of a metric that have these labels add up to now.
    pub fn metric(&self, name: &str, labels: &[&str]) -> u64 {
        let page = SocketAddr::new(SERVER.parse().unwrap(), ADMIN);
        let (_, text) = page::ask(page, "/metrics");
        let series = text.lines().filter(|line| {
            let rest = line.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
                && labels.iter().all(|label| line.contains(label))
        });
        let values = series.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap());
        values.sum::<f64>() as u64
    }

    /// Ends it as an operator would; panics unless it ends well.
    pub fn stop(mut self) {
        self.signal("TERM");
        let status = wait_until("its end", PATIENCE, || self.child.try_wait().unwrap());
        assert!(status.success(), "{status}: {:?}", self.log().last());
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        if std::thread::panicking() {
            let log = self.log();
            let last = log.len().saturating_sub(10);
            eprintln!("the last of its log: {:#?}", &log[last..]);
        }
    }
}

pub fn address() -> SocketAddr {
    SocketAddr::new(SERVER.parse().unwrap(), 40_000)
}

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
/// Its page, which the players' side can reach here.
const ADMIN: u16 = 9477;
pub const SERVER: &str = "10.77.0.1";
pub const PLAYERS: &str = "10.77.0.2";
