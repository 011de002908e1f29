//! The built program as a child process, and what it used.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A directory with a key in it; gone when dropped.
pub struct Place(pub PathBuf);

impl Place {
    pub fn new() -> Self {
        let path = std::env::temp_dir().join(format!("tidegate-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        let key = path.join("netcode.key");
        std::fs::write(&key, "11".repeat(32)).unwrap();
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
        Self(path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// The key in every [`Place`].
pub const KEY: [u8; 32] = [0x11; 32];

/// One run of the program; killed when dropped.
pub struct Program {
    child: Child,
    pub address: SocketAddr,
}

/// Processor time, memory and waits of a process.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    pub cpu_nanos: u64,
    /// Bytes of memory of its own: pages of its file are not what peers take.
    pub owned: u64,
    /// Times it went to sleep of its own accord: wake-ups.
    pub sleeps: u64,
}

impl Program {
    /// `tidegate serve` with one worker in front of this backend, under all its addresses. Limits are
    /// set so that no bench meets them.
    pub fn serve(place: &Place, targets: &[String], framing: &str) -> Self {
        let timeout = super::timeout().as_secs();
        let lifetime = 3 * timeout;
        let config = format!(
            r#"
version = 1
[runtime]
workers = 1
max_peers = 60000
queue_memory = "1GiB"
udp_recv_buffer = "32MiB"
udp_send_buffer = "32MiB"
[admin]
listen = ""
control_socket = ""
[log]
level = "info,tidegate::listener=warn"
format = "json"
[listener.bench]
bind = ["127.0.0.1:0"]
public_addresses = ["any"]
backend = "bench"
max_peers = 60000
idle_timeout = "{timeout}s"
[listener.bench.limits]
peer_packets = {{ rate = 1000000, burst = 1000000 }}
peer_bytes = {{ rate = "1GiB", burst = "1GiB" }}
peer_messages = {{ rate = 1000000, burst = 1000000 }}
ip_handshakes = {{ rate = 100000, burst = 100000 }}
handshakes = {{ rate = 1000000, burst = 1000000 }}
[listener.bench.netcode]
key_file = "netcode.key"
max_token_lifetime = "{lifetime}s"
[backend.bench]
targets = {targets:?}
framing = "{framing}"
max_message = "60KiB"
health = {{ kind = "off" }}
"#
        );
        std::fs::write(place.0.join("serve.toml"), config).unwrap();
        Self::start(tidegate(place).args(["serve", "--config", "serve.toml"]))
    }

    /// `tidegate connect` towards this server.
    pub fn connect(place: &Place, remote: SocketAddr, framing: &str) -> Self {
        let config = format!(
            r#"
version = 1
[admin]
listen = ""
control_socket = ""
[log]
format = "json"
[tunnel.bench]
listen = ["tcp://127.0.0.1:0"]
remote = "{remote}"
framing = "{framing}"
max_message = "60KiB"
max_streams = 4096
[tunnel.bench.netcode]
key_file = "netcode.key"
"#
        );
        std::fs::write(place.0.join("connect.toml"), config).unwrap();
        Self::start(tidegate(place).args(["connect", "--config", "connect.toml"]))
    }

    /// Runs what says in its log, as tidegate does, where it listens.
    pub fn start(command: &mut Command) -> Self {
        let mut child = command
            .env_clear()
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = loop {
            let line = lines.next().expect("it ended before it listened").unwrap();
            if let Some((_, rest)) = line.split_once("\"address\":\"")
                && line.contains("\"event\":\"listening\"")
            {
                break rest.split_once('"').unwrap().0.parse().unwrap();
            }
            if line.contains("rror") {
                eprintln!("{line}");
            }
        };
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if std::env::var_os("TIDEGATE_BENCH_LOG").is_some() {
                    eprintln!("{line}");
                }
            }
        });
        Self { child, address }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn usage(&self) -> Usage {
        let root = PathBuf::from(format!("/proc/{}", self.child.id()));
        let (mut cpu_nanos, mut sleeps) = (0, 0);
        for task in std::fs::read_dir(root.join("task")).unwrap() {
            let task = task.unwrap().path();
            let times = std::fs::read_to_string(task.join("schedstat")).unwrap_or_default();
            let spent = times.split(' ').next().and_then(|time| time.parse().ok());
            cpu_nanos += spent.unwrap_or(0);
            sleeps += field(&task.join("status"), "voluntary_ctxt_switches:");
        }
        Usage {
            cpu_nanos,
            owned: field(&root.join("status"), "RssAnon:") * 1024,
            sleeps,
        }
    }
}

fn tidegate(place: &Place) -> Command {
    let binary = std::env::var("TIDEGATE_BENCH_BINARY")
        .unwrap_or_else(|_| env!("CARGO_BIN_EXE_tidegate").to_owned());
    let mut command = Command::new(binary);
    command.current_dir(&place.0);
    command
}

fn field(path: &std::path::Path, name: &str) -> u64 {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|rest| rest.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

impl Drop for Program {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
