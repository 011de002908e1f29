//! What the journal is told beside the text: how bad a line is.
//!
//! It reads that from the line's beginning (sd-daemon(3)) and takes it away. Without it everything is
//! information, and `journalctl -p warning` shows nothing.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, Write};
use std::sync::mpsc::sync_channel;
use std::time::Duration;
use std::{env, thread};

use tracing::Level;

use crate::exit::Exit;
use crate::{admin, worker};

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
    say(ERROR, text);
}

/// What a command says beside its answer, on standard error.
pub fn remark(text: &str) {
    say("<5>", text);
}

/// Has a bug complain as well, and end the process once `flush` is done. Otherwise its message would be information
/// to the journal, and wait for a reader that is stuck; and what the thread or task did would not be done any more, for
/// as long as the process runs: a watchdog is not fed, a target stays as it was.
pub fn end_with_bugs(flush: impl Fn() + Send + Sync + 'static) {
    std::panic::set_hook(Box::new(move |bug| {
        let thread = thread::current();
        let name = thread.name().unwrap_or("without a name");
        let trace = Backtrace::capture();
        let trace = match trace.status() {
            BacktraceStatus::Captured => format!("\n{trace}"),
            _ => String::new(),
        };
        complain(&format!("thread {name}: {bug}{trace}"));
        if !APART.iter().any(|apart| name.starts_with(apart)) {
            flush();
            std::process::exit(Exit::Bug.code().into());
        }
    }));
}

/// Threads with bugs of their own: when a worker has one, `Fleet` says goodbye to the peers of the others first;
/// and no page is worth a session.
const APART: [&str; 2] = [worker::THREAD, admin::THREAD];

/// Does not wait for a reader that is stuck: the log's own thread may already wait for the same one.
fn say(priority: &'static str, text: &str) {
    let marked: String = if is_reading() {
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
