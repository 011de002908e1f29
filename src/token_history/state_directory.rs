//! The directory whose files outlive the process: which of them are ours, and what it is worth.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::clock;

/// Where files are kept that outlive the process, and since when the machine has run.
#[derive(Clone, Debug)]
pub struct StateDirectory {
    pub(super) path: PathBuf,
    pub(super) booted: u64,
    /// The listeners whose files are this process's, for as long as it lives: a reload may bring one back whose
    /// predecessor has not gone yet.
    pub(super) claims: Arc<Mutex<BTreeMap<String, File>>>,
}

impl StateDirectory {
    /// Early in the life of the process: when the machine began is told from the age of the process.
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            booted: clock::boot_unix(),
            claims: Arc::default(),
        }
    }

    /// Keeps other processes from a listener's file: each would write what it knows over what the other does, and the
    /// next start would believe it. The lock ends with the process, its file stays.
    pub(super) fn claim(&self, listener: &str) -> io::Result<()> {
        let mut claims = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.path.join(format!("{listener}.lock"));
        if claims.get(listener).is_some_and(|held| is_at(held, &path)) {
            return Ok(());
        }
        let lock = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(&path)
            .map_err(|error| {
                // The caller knows of the file that the lock is for, and of no other.
                io::Error::new(
                    error.kind(),
                    format!("cannot open {}: {error}", path.display()),
                )
            })?;
        // File systems that know no locks have one process at a time.
        if flock(&lock, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            return Err(io::Error::new(
                TAKEN,
                "another process that runs has a listener of this name here: give each a state_directory of its own",
            ));
        }
        claims.insert(listener.to_owned(), lock);
        Ok(())
    }

    pub(super) fn has_claimed(&self, listener: &str) -> bool {
        let claims = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
        claims.contains_key(listener)
    }

    /// Says at the start that a disk may stand still.
    pub fn warn_of_disk(&self) {
        if is_on_disk(&self.path) {
            tracing::warn!(
                event = "state_directory_on_disk",
                path = %self.path.display(),
                help = ON_DISK
            );
        }
    }
}

/// Whether writes to this directory may have to wait for a disk; not of one that cannot be looked at.
pub fn is_on_disk(directory: &Path) -> bool {
    const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6]; // tmpfs and ramfs, in statfs(2)
    rustix::fs::statfs(directory).is_ok_and(|found| !IN_MEMORY.contains(&(found.f_type as u64)))
}

/// What to do about a directory on a disk.
pub const ON_DISK: &str = "a disk that stands still stops every session while somebody joins: put state_directory in \
                           memory, below /run or on a tmpfs; across boots it is of no use";

/// What to do about a directory in which no file can be written; `None` where `error` says it all.
pub fn help(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        io::ErrorKind::NotFound => {
            Some("make the directory and let the user who runs tidegate write there")
        }
        io::ErrorKind::NotADirectory => {
            Some("a file has the name of the directory, or of one above it: choose another name")
        }
        io::ErrorKind::PermissionDenied => Some("let the user who runs tidegate write there"),
        io::ErrorKind::ReadOnlyFilesystem => {
            Some("put state_directory where this process may write: below /run or on a tmpfs")
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Some(
            "make room there: a listener's file takes up to 4 MiB, twice that while it is written anew",
        ),
        _ => None,
    }
}

/// Whether this file is still the one of that name: whatever tidies up may have removed it.
fn is_at(file: &File, path: &Path) -> bool {
    let (held, there) = (file.metadata(), fs::symlink_metadata(path));
    matches!((held, there), (Ok(held), Ok(there)) if held.ino() == there.ino())
}

/// The file is another process's.
pub(super) const TAKEN: io::ErrorKind = io::ErrorKind::ResourceBusy;
