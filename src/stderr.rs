//! Standard error: what commands say there, and what the journal is told beside the text where it ends there.
//!
//! That is how bad a line is. The journal reads it from the line's beginning (sd-daemon(3)) and takes it away. Without it
//! everything is information, and `journalctl -p warning` shows nothing.

use std::io::{self, Write};
use std::sync::mpsc::sync_channel;
use std::time::Duration;
use std::{env, thread};

use tracing::Level;

/// Whether it ends in the journal: its stream has the device and the inode of `$JOURNAL_STREAM`,
/// which a shell below a unit hands on to programs whose output goes elsewhere.
pub(crate) fn is_journal() -> bool {
    let Some(stream) = env::var_os("JOURNAL_STREAM") else {
        return false;
    };
    rustix::fs::fstat(io::stderr())
        .is_ok_and(|found| stream == *format!("{}:{}", found.st_dev, found.st_ino))
}

/// What a line of this level begins with.
pub(crate) const fn priority(level: Level) -> &'static str {
    match level {
        Level::ERROR => ERROR,
        Level::WARN => "<4>",
        Level::INFO => "<6>",
        Level::DEBUG | Level::TRACE => "<7>",
    }
}

/// What a command that fails says last, line by line, on standard error.
pub fn complain(text: &str) {
    say(ERROR, text);
}

/// What a command says beside its answer, on standard error.
pub fn remark(text: &str) {
    say("<5>", text);
}

/// Does not wait for a reader that is stuck: the log's own thread may already wait for the same one.
fn say(priority: &'static str, text: &str) {
    let marked: String = if is_journal() {
        let lines = text.lines();
        lines.map(|line| format!("{priority}{line}\n")).collect()
    } else {
        format!("{text}\n")
    };
    // Nobody is left to hear that it cannot be said.
    let write = |text: &str| io::stderr().write_all(text.as_bytes()).ok();
    let (done, written) = sync_channel(1);
    let own = marked.clone();
    let spawned = thread::Builder::new().spawn(move || {
        write(&own);
        done.send(()).ok();
    });
    match spawned {
        Ok(_) => written.recv_timeout(PATIENCE).ok(),
        Err(_) => write(&marked),
    };
}

/// How long a reader of standard error may not read.
const PATIENCE: Duration = Duration::from_millis(500);

const ERROR: &str = "<3>";
