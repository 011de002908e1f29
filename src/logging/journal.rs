//! What the journal is told beside the text: how bad a line is.
//!
//! It reads that from the line's beginning (sd-daemon(3)) and takes it away. Without it everything is
//! information, and `journalctl -p warning` shows nothing.

use std::env;
use std::io::{self, Write};

use tracing::Level;

/// Whether standard error ends in the journal: its stream has the device and the inode of `$JOURNAL_STREAM`,
/// which a shell below a unit hands on to programs whose output goes elsewhere.
pub(super) fn is_reading() -> bool {
    let Some(stream) = env::var_os("JOURNAL_STREAM") else {
        return false;
    };
    rustix::fs::fstat(io::stderr())
        .is_ok_and(|found| stream == *format!("{}:{}", found.st_dev, found.st_ino))
}

/// What a line of this level begins with.
pub(super) const fn priority(level: Level) -> &'static str {
    match level {
        Level::ERROR => ERROR,
        Level::WARN => "<4>",
        Level::INFO => "<6>",
        Level::DEBUG | Level::TRACE => "<7>",
    }
}

/// What a command that fails says last, line by line, on standard error.
pub fn complain(text: &str) {
    let marked: String = if is_reading() {
        text.lines()
            .map(|line| format!("{ERROR}{line}\n"))
            .collect()
    } else {
        format!("{text}\n")
    };
    // Nobody is left to hear that it cannot be said.
    io::stderr().write_all(marked.as_bytes()).ok();
}

const ERROR: &str = "<3>";
