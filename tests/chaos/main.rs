//! Faults and attacks on the built program, in network namespaces of their own: real processes, real
//! sockets, real errors of the kernel.
//!
//! ```text
//!   namespace "play" (this process)              namespace "gate"
//!   players, floods, backends  ── a veth pair ──  tidegate serve
//!         └────────────── a Unix socket: backends ──────┘
//! ```
//!
//! Needs root and the kernel's namespaces; where they cannot be made it says so, loudly, and passes.
//! `just chaos` runs the long forms; names on the command line choose scenarios. Everything ends with
//! the process: the namespaces have no other holder.

#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a test that cannot get a socket has failed; modules of a test share what they like"
)]

mod backend;
mod errors;
mod faults;
mod flood;
mod forged;
mod gate;
mod players;
mod pressure;
mod soak;
#[path = "../support/mod.rs"]
mod support;

use std::process::{Command, ExitCode};
use std::sync::Mutex;

/// How long and how heavy a scenario is.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// The form for a quiet machine and patient people.
    pub long: bool,
}

impl Scale {
    /// One of two values.
    pub fn pick<T>(self, short: T, long: T) -> T {
        if self.long { long } else { short }
    }
}

type Scenario = fn(Scale);

/// Names are what docs/RELIABILITY.md and docs/THREAT-MODEL.md refer to. Those that take longest come
/// first, so that the others run beside them.
const SCENARIOS: [(&str, Scenario); 18] = [
    ("memory_used_up", pressure::memory_used_up),
    ("descriptors_used_up", pressure::descriptors_used_up),
    ("backend_hung", faults::backend_hung),
    ("backend_flooding", faults::backend_flooding),
    ("backend_killed", faults::backend_killed),
    ("backend_refusing", faults::backend_refusing),
    ("backend_half_closing", faults::backend_half_closing),
    ("name_servers_silent", faults::name_servers_silent),
    ("partition_short", faults::partition_short),
    ("partition_long", faults::partition_long),
    ("nat_rebinding", faults::nat_rebinding),
    ("stopped_process", faults::stopped_process),
    ("udp_errors", errors::udp_errors),
    ("forged_sources", forged::forged_sources),
    ("forged_errors", forged::forged_errors),
    ("log_disk_full", pressure::log_disk_full),
    ("spoofed_flood", flood::spoofed_flood),
    ("soak", soak::soak),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        SCENARIOS
            .iter()
            .for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    if std::env::var_os(PROBE).is_some() {
        errors::probe();
        return ExitCode::SUCCESS;
    }
    if let Ok(name) = std::env::var(INSIDE) {
        let (_, scenario) = SCENARIOS.iter().find(|(known, _)| *known == name).unwrap();
        scenario(Scale {
            long: std::env::var_os("TIDEGATE_CHAOS_LONG").is_some(),
        });
        return ExitCode::SUCCESS;
    }
    let can = Command::new("unshare")
        .args(["-n", "-m", "ip", "link", "set", "lo", "up"])
        .output();
    if !can.is_ok_and(|can| can.status.success()) {
        support::skipped(
            "all of chaos: network namespaces cannot be made here, which needs root, unshare and ip",
        );
        return ExitCode::SUCCESS;
    }
    let wanted: Vec<_> = arguments.iter().filter(|it| !it.starts_with('-')).collect();
    let is_wanted = |name: &str| match wanted.is_empty() {
        // For who asks for it: even its short form takes two minutes.
        true => name != "soak",
        false => wanted.iter().any(|it| name.contains(*it)),
    };
    let names = SCENARIOS.iter().map(|(name, _)| *name);
    let (alone, together): (Vec<_>, Vec<_>) = names
        .filter(|name| is_wanted(name))
        .partition(|name| *name == "spoofed_flood");
    // Most of them mostly wait. What is measured under load has the machine to itself.
    let failed = [run_all(together, 4), run_all(alone, 1)].concat();
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("chaos failed: {failed:?}");
    ExitCode::FAILURE
}

/// Runs scenarios, so many at a time; those that failed.
fn run_all(names: Vec<&'static str>, at_once: usize) -> Vec<&'static str> {
    let left = Mutex::new(names.into_iter());
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                loop {
                    let next = left.lock().unwrap().next();
                    let Some(name) = next else { break };
                    if !run(name) {
                        failed.lock().unwrap().push(name);
                    }
                }
            });
        }
    });
    failed.into_inner().unwrap()
}

/// Runs one scenario as a program of its own, in a network namespace that nobody else sees.
fn run(name: &str) -> bool {
    #[expect(
        clippy::disallowed_methods,
        reason = "how long it took, for who reads it"
    )]
    let began = std::time::Instant::now();
    let output = Command::new("timeout")
        .args(["-k", "5", PATIENCE, "unshare", "-n", "-m"])
        .arg(std::env::current_exe().unwrap())
        .env(INSIDE, name)
        .output()
        .unwrap();
    let passed = output.status.success();
    let verdict = if passed { "ok" } else { "FAILED" };
    println!(
        "chaos {name} ... {verdict} ({:.1} s)",
        began.elapsed().as_secs_f64()
    );
    print!("{}", String::from_utf8_lossy(&output.stdout));
    if !passed {
        print!("{}", String::from_utf8_lossy(&output.stderr));
    }
    passed
}

/// Seconds, for `timeout`: a day of soak, and more than anything else takes.
const PATIENCE: &str = "100000";
const INSIDE: &str = "TIDEGATE_CHAOS_INSIDE";
/// Set in the program's namespace, to see what it sees.
pub const PROBE: &str = "TIDEGATE_CHAOS_PROBE";
