//! The size of files: where none may grow beyond a limit, a write fails, and the process goes on.

use std::io;
use std::sync::Arc;

use signal_hook::consts::SIGXFSZ;
use signal_hook::flag;

/// Where files may not grow beyond a limit (`ulimit -f`), the kernel ends a program that writes more, unless this is caught:
/// then it is an error of that write, as on a full disk. Ignoring it would do, but programs that we start would inherit
/// that.
pub fn outlive() {
    // Nobody asks for the flag: the error of the write is what counts. Where this cannot be had, a limit ends the
    // process as before.
    flag::register(SIGXFSZ, Arc::default()).ok();
}

/// What to do about an error that says so.
pub fn help(error: &io::Error) -> Option<String> {
    (error.raw_os_error()? == libc::EFBIG).then(|| {
        "a file may not grow so large here. Raise the limit (LimitFSIZE= in a unit, `ulimit -f` in a shell, \
         --ulimit fsize= of a container)"
            .to_owned()
    })
}
