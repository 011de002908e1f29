//! Threads: what the process starts itself, and what to do where it may not.

use std::{fmt, io};

use rustix::process::{Resource, getrlimit};

use crate::exit::Unavailable;

/// A thread could not be had for this.
pub fn unavailable(what: impl fmt::Display, error: &io::Error) -> Unavailable {
    Unavailable(format!("no thread for {what}: {error}{}", help(error)))
}

/// The C library says `EAGAIN` for want of threads and of address space alike.
fn help(error: &io::Error) -> String {
    if error.raw_os_error() != Some(libc::EAGAIN) {
        return String::new();
    }
    match getrlimit(Resource::As).current {
        Some(allowed) if has_no_room(allowed, address_space()) => format!(
            "\n help: its stack does not fit: this process may have {} KiB of address space. Raise LimitAS= in a unit, \
             `ulimit -v` in a shell; MemoryMax= is the limit to use instead",
            allowed / 1024
        ),
        Some(_) | None => "\n help: as many run as may. Raise TasksMax= in a unit, `ulimit -u` in a shell, --pids-limit \
                           of a container"
            .to_owned(),
    }
}

/// Whether a process of this address space may not have a thread more; `taken` is `None` where it is not known.
fn has_no_room(allowed: u64, taken: Option<u64>) -> bool {
    taken.is_some_and(|taken| taken.saturating_add(STACK_BYTES) > allowed)
}

/// Bytes of it that this process has.
fn address_space() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let size = status
        .lines()
        .find_map(|line| line.strip_prefix("VmSize:"))?;
    let kib: u64 = size.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

/// The standard library's 2 MiB, and the pages that guard it and hold what is a thread's own.
const STACK_BYTES: u64 = (2 << 20) + (64 << 10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_fits_or_does_not() {
        let taken = address_space().unwrap();
        assert!(taken > 1 << 20, "{taken}");
        assert!(has_no_room(taken, Some(taken)));
        assert!(has_no_room(taken + (1 << 20), Some(taken)));
        assert!(!has_no_room(taken + (4 << 20), Some(taken)));
        assert!(!has_no_room(0, None), "nobody knows");
    }
}
