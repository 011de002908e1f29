//! Bugs: what a panic says, and what it ends.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::thread;

use crate::exit::Exit;
use crate::{admin, stderr, worker};

/// Has every bug complain, and end the process once `flush` is done. Otherwise its message would be information
/// to the journal, and wait for a reader that is stuck; and what the thread or task did would not be done any more, for
/// as long as the process runs: a watchdog is not fed, a target stays as it was.
pub fn make_fatal(flush: impl Fn() + Send + Sync + 'static) {
    std::panic::set_hook(Box::new(move |bug| {
        let thread = thread::current();
        let name = thread.name().unwrap_or("without a name");
        let trace = Backtrace::capture();
        let trace = match trace.status() {
            BacktraceStatus::Captured => format!("\n{trace}"),
            _ => String::new(),
        };
        stderr::complain(&format!("thread {name}: {bug}{trace}"));
        if !APART.iter().any(|apart| name.starts_with(apart)) {
            flush();
            std::process::exit(Exit::Bug.code().into());
        }
    }));
}

/// Threads with bugs of their own: when a worker has one, `Fleet` says goodbye to the peers of the others first;
/// and no page is worth a session.
const APART: [&str; 2] = [worker::THREAD, admin::THREAD];
