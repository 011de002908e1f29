//! No copy of this memory on a disk: it holds keys.

use std::io;

/// Forbids core dumps and, with them, other processes of this user looking in. Docs:
/// docs/THREAT-MODEL.md.
pub fn forbid() {
    if let Err(error) = set_no_core().and_then(|()| set_not_dumpable()) {
        tracing::warn!(event = "core_dumps", %error, "a core dump would hold keys");
    }
}

fn set_no_core() -> io::Result<()> {
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: reads one structure, which lives until the call returns.
    let result = unsafe { libc::setrlimit(libc::RLIMIT_CORE, &none) };
    check(result)
}

fn set_not_dumpable() -> io::Result<()> {
    // SAFETY: takes integers only.
    let result = unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
    check(result)
}

fn check(result: libc::c_int) -> io::Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
