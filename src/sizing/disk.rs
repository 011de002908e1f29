//! Room on a disk: where there is none, a write fails, and the process goes on.

use std::io;

/// What to do about an error that says so.
pub fn help(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        io::ErrorKind::StorageFull => Some(
            "the disk has no room, or no inodes (`df`, `df -i`); make some, or write elsewhere",
        ),
        io::ErrorKind::QuotaExceeded => {
            Some("this user may not have more on the disk (`quota`); make room, or write elsewhere")
        }
        io::ErrorKind::ReadOnlyFilesystem => Some("nothing can be written there; write elsewhere"),
        _ => None,
    }
}
