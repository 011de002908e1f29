//! What the benches of the running program stand on: players that cost little, backends that echo or
//! swallow, the program as a child process, and a relay without any protocol to compare it with.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::let_underscore_must_use,
    reason = "each bench uses its own part of it; one that cannot get a socket or a clock has failed"
)]

pub mod backend;
pub mod door;
pub mod held_streams;
pub mod in_memory;
pub mod link;
pub mod plain;
pub mod players;
pub mod program;
pub mod spread;
pub mod table;
pub mod talkers;
pub mod tcp_players;
pub mod writer;

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Nanoseconds since the bench began; the same clock for players and backends.
pub fn nanos() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// The number behind `--NAME` on the command line.
pub fn option(name: &str, default: f64) -> f64 {
    word(name).map_or(default, |number| number.parse().unwrap())
}

/// What stands behind `--NAME` on the command line.
pub fn word(name: &str) -> Option<String> {
    let flag = format!("--{name}");
    std::env::args()
        .skip_while(|argument| *argument != flag)
        .nth(1)
}

/// Whether `--NAME` is on the command line.
pub fn flag(name: &str) -> bool {
    let flag = format!("--{name}");
    std::env::args().any(|argument| argument == flag)
}

/// How long an end may be silent, and a third of how long a token is good: `--timeout`, in seconds. A machine that is
/// too slow for what a bench asks of it is late with keep-alives and joins.
pub fn timeout() -> Duration {
    Duration::from_secs_f64(option("timeout", 10.0))
}

/// Bytes at the start of every message: when it was sent, and when the backend had it.
pub const STAMPS: usize = 16;

/// Ties a process, with all its threads, or one thread, to a core; needs `taskset`.
pub fn pin(id: u32, core: u32, whole: bool) {
    let (id, core) = (id.to_string(), core.to_string());
    let mut taskset = std::process::Command::new("taskset");
    if whole {
        taskset.arg("--all-tasks");
    }
    let done = taskset.args(["--cpu-list", "--pid", &core, &id]).output();
    assert!(done.unwrap().status.success(), "taskset cannot pin {id}");
}

/// The number that the kernel knows this thread by.
pub fn own_thread() -> u32 {
    let path = std::fs::read_link("/proc/thread-self").unwrap();
    path.file_name().unwrap().to_str().unwrap().parse().unwrap()
}
