//! Threads: what the process starts itself, and what to do where it may not.

use std::{fmt, io};

use crate::exit::Unavailable;

/// A thread could not be had for this.
pub fn unavailable(what: impl fmt::Display, error: &io::Error) -> Unavailable {
    Unavailable(format!("no thread for {what}: {error}{}", help(error)))
}

fn help(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EAGAIN) => {
            "\n help: as many run as may. Raise TasksMax= in a unit, `ulimit -u` in a shell, --pids-limit of a container"
        }
        _ => "",
    }
}
