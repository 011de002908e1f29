//! Where control sockets are when nobody says so: one for each process of a login session, found by
//! `tidegate ctl`.

use std::fs::{DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::socket_file::{knock, own_uid};

/// A place for this process's socket below `$XDG_RUNTIME_DIR`, whose directory is made, and swept of what
/// killed processes left there. `None` where `session` is not ours: `su` leaves the variable as it was.
pub fn in_session(session: &Path) -> Option<PathBuf> {
    let is_ours = |found: &Metadata| found.uid() == own_uid();
    session.metadata().ok().filter(is_ours)?;
    let directory = session.join(DIRECTORY);
    // An error shows below: most often it is there.
    DirBuilder::new().mode(0o700).create(&directory).ok();
    let name = format!("{}.{EXTENSION}", std::process::id());
    directory.is_dir().then(|| {
        sweep(&directory);
        directory.join(name)
    })
}

/// Removes the sockets of processes that were killed: each has a name of its own, so that no later start
/// takes its place. What cannot be removed stays; nothing depends on it.
fn sweep(directory: &Path) {
    for path in sockets(directory) {
        if is_left_behind(&path) {
            std::fs::remove_file(&path).ok();
        }
    }
}

/// Whether nobody answers and the process is gone. Either alone is not enough: one that starts has bound its
/// socket a moment before it listens, and one in another container has a number that is nobody's here.
fn is_left_behind(path: &Path) -> bool {
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    let Some(pid) = stem.and_then(|stem| Pid::from_raw(stem.parse().ok()?)) else {
        return false;
    };
    let is_socket = path
        .symlink_metadata()
        .is_ok_and(|found| found.file_type().is_socket());
    let refused = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    is_socket
        && test_kill_process(pid) == Err(Errno::SRCH)
        && knock(path).as_ref().is_err_and(refused)
}

/// The sockets below `$XDG_RUNTIME_DIR` and, before them, the service's, where somebody answers.
pub fn answering(service: &Path, session: Option<&Path>) -> Vec<PathBuf> {
    let ours = session.map(|session| sockets(&session.join(DIRECTORY)));
    std::iter::once(service.to_owned())
        .chain(ours.into_iter().flatten())
        .filter(|path| knock(path).is_ok())
        .collect()
}

/// What has the name of a control socket, in order; nothing where there is no such directory.
fn sockets(directory: &Path) -> Vec<PathBuf> {
    let entries = directory.read_dir().into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|it| it == EXTENSION))
        .collect();
    found.sort();
    found
}

const DIRECTORY: &str = "tidegate";
const EXTENSION: &str = "sock";
