//! What the tests of the running program share.

#![allow(
    dead_code,
    unused_imports,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "each test binary uses its own part of it"
)]

pub mod address;
pub mod backend;
pub mod lossy;
pub mod page;
pub mod place;
pub mod program;
pub mod relay;
pub mod scene;
pub mod skip;
pub mod token;
pub mod toy;

use std::process::Child;
use std::time::{Duration, Instant};

pub use address::{NO_HOST, closed_port, own_address};
pub use backend::{accept, echo_server, read_frame, tcp_backend, tcp_target, write_frame};
pub use relay::{Relay, Setup, toy_parts, toy_policy};
pub use skip::skipped;

/// How long a test waits for what is sure to come. It keeps a test from hanging and measures nothing: a machine
/// that is busy with other things may be many times slower than this one.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Asks again and again, for a bounded time.
pub fn wait_until<T>(what: &str, patience: Duration, mut ask: impl FnMut() -> Option<T>) -> T {
    #[expect(clippy::disallowed_methods, reason = "a test waits in real time")]
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(start.elapsed() < patience, "waited too long: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The code of a program that ends by itself, and what it said on a standard error of ours.
pub fn end_of(mut child: Child) -> (Option<i32>, String) {
    wait_until("its end", PATIENCE, || child.try_wait().unwrap());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), said)
}
