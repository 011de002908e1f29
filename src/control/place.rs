//! Where control sockets are when nobody says so: one for each process of a login session, found by
//! `tidegate ctl`.

use std::fs::{DirBuilder, Metadata};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use super::own_uid;

/// A place for this process's socket below `$XDG_RUNTIME_DIR`, whose directory is made. `None` where
/// `session` is not ours: `su` leaves the variable as it was.
pub fn in_session(session: &Path) -> Option<PathBuf> {
    let is_ours = |found: &Metadata| found.uid() == own_uid();
    session.metadata().ok().filter(is_ours)?;
    let directory = session.join(DIRECTORY);
    // An error shows below: most often it is there.
    DirBuilder::new().mode(0o700).create(&directory).ok();
    let name = format!("{}.{EXTENSION}", std::process::id());
    directory.is_dir().then(|| directory.join(name))
}

/// The sockets below `$XDG_RUNTIME_DIR` and, before them, the service's, where somebody answers.
pub fn answering(service: &Path, session: Option<&Path>) -> Vec<PathBuf> {
    let listed = session.and_then(|session| session.join(DIRECTORY).read_dir().ok());
    let entries = listed.into_iter().flatten().flatten();
    let mut ours: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|it| it == EXTENSION))
        .collect();
    ours.sort();
    std::iter::once(service.to_owned())
        .chain(ours)
        .filter(|path| UnixStream::connect(path).is_ok())
        .collect()
}

const DIRECTORY: &str = "tidegate";
const EXTENSION: &str = "sock";
