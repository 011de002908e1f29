//! Which connect tokens opened a session, in a file: what a restart must not forget.
//!
//! Rule: docs/wire/netcode.md, section 8, "Restart". A start without this file refuses every token that
//! could have been used before it; a start with it, those that were.
//!
//! ```text
//!   response ──▶ seat taken ──▶ record written ──▶ backend dialled ──▶ the client hears it is seated
//! ```
//!
//! Written and not synced: the kernel has it, so the end of this process does not lose it. The end of
//! the machine may, so a file from before another boot admits nobody. A write that fails, or is slow,
//! costs the file and not the players: it is removed, because one with a hole would be believed, and
//! written anew later from memory. One that does not return holds up its worker, so the place for the
//! file is memory.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use tidegate_proto::yojimbo::netcode::{RosterParams, UsedToken};
use tidegate_proto::{Now, Timestamp};

use crate::board::Board;
use crate::clock;

pub mod file;

use file::{Contents, HEADER_BYTES, Header, RECORD_BYTES};

/// Where files are kept that outlive the process, and since when the machine has run.
#[derive(Clone, Debug)]
pub struct StateDirectory {
    path: PathBuf,
    booted: u64,
    /// The listeners whose files are this process's, for as long as it lives: a reload may bring one back whose
    /// predecessor has not gone yet.
    claims: Arc<Mutex<BTreeMap<String, File>>>,
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
    fn claim(&self, listener: &str) -> io::Result<()> {
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
                // Whoever reports it knows of the file that the lock is for, and of no other.
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

    fn has_claimed(&self, listener: &str) -> bool {
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

/// The file of one listener.
pub struct TokenHistory {
    directory: StateDirectory,
    listener: String,
    path: PathBuf,
    header: Header,
    /// `None` after a failure, until a rewrite succeeds.
    file: Option<File>,
    /// What is in the file, or would be.
    records: Vec<UsedToken>,
    /// So many records are worth writing the file anew without those whose tokens have expired.
    rewrite_at: usize,
    retry_at: Timestamp,
    has_failed: bool,
    /// Another process has it, and may have used tokens of which we know nothing.
    was_taken: bool,
    board: Arc<Board>,
}

/// What earlier processes left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Past {
    /// Every token used from this unix second on is known.
    pub since: u64,
    /// When this process began, unix seconds, and later than every earlier one says it did.
    pub started: u64,
    /// The tokens used whose time is not over.
    pub used: Vec<UsedToken>,
}

impl Past {
    /// Of a process that begins without a file.
    pub fn unknown(now_unix: u64) -> Self {
        Self {
            since: now_unix,
            started: now_unix,
            used: Vec::new(),
        }
    }
}

impl TokenHistory {
    /// Reads what is there, and begins a file of our own with it. Nothing that is found, and nothing
    /// that is missing, is in the way of a start.
    pub fn open(
        directory: &StateDirectory,
        listener: &str,
        now: Now,
        board: Arc<Board>,
    ) -> (Self, Past) {
        let path = directory.path.join(format!("{listener}.tokens"));
        let (mut past, verdict) = match directory.claim(listener) {
            Ok(()) => judge(read(&path), now, directory.booted),
            Err(error) => (Past::unknown(now.unix_secs), Verdict::of_unclaimed(&error)),
        };
        let mut history = Self {
            directory: directory.clone(),
            listener: listener.to_owned(),
            header: Header {
                since: past.since,
                started: past.started,
                booted: directory.booted,
            },
            file: None,
            records: past.used.clone(),
            rewrite_at: 0,
            retry_at: Timestamp::ZERO,
            has_failed: false,
            was_taken: false,
            path,
            board,
        };
        if let Verdict::Unreadable(why) = &verdict {
            history.count_failure();
            history.warn_of_unreadable(why);
        }
        // A file that cannot be written may be old: another process could not write it either.
        if let Err(error) = history.rewrite(now) {
            past.since = now.unix_secs;
            history.header.since = past.since;
            history.give_up(now, &error);
        }
        history.say_what_was_found(&past, &verdict);
        (history, past)
    }

    fn warn_of_unreadable(&self, why: &io::Error) {
        tracing::warn!(
            event = "token_history_unreadable",
            listener = %self.listener,
            path = %self.path.display(),
            error = %why,
            "tokens from before this start are refused for max_token_lifetime, as without the file"
        );
    }

    fn say_what_was_found(&self, past: &Past, verdict: &Verdict) {
        tracing::info!(
            event = "token_history",
            listener = %self.listener,
            path = %self.path.display(),
            since = past.since,
            tokens = past.used.len(),
            found = verdict.label(),
        );
    }

    /// A token opened its session. Returns when the kernel has the record, or the file is given up.
    pub fn record(&mut self, now: Now, used: UsedToken) {
        self.records.push(used);
        let is_full = self.records.len() >= self.rewrite_at;
        if self.file.is_none() && now.mono < self.retry_at {
            if is_full {
                self.forget_expired(now);
            }
            return;
        }
        let began = clock::now();
        let outcome = if is_full || self.file.is_none() {
            self.rewrite(now)
        } else {
            self.append(&used)
        };
        match outcome.and_then(|()| check_pace(began.elapsed())) {
            Err(error) => self.give_up(now, &error),
            Ok(()) if self.has_failed => {
                self.has_failed = false;
                tracing::info!(event = "token_history_again", listener = %self.listener);
            }
            Ok(()) => {}
        }
    }

    fn append(&mut self, used: &UsedToken) -> io::Result<()> {
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        // Two processes with one directory would each lose what the other wrote.
        let here = fs::symlink_metadata(&self.path)?;
        if here.ino() != file.metadata()?.ino() {
            return Err(io::Error::other("somebody else writes a file in its place"));
        }
        let mut record = Vec::with_capacity(RECORD_BYTES);
        file::emit_record(used, &mut record);
        file.write_all(&record)
    }

    /// The whole file, complete before it has its name.
    fn rewrite(&mut self, now: Now) -> io::Result<()> {
        self.forget_expired(now);
        self.directory.claim(&self.listener)?;
        if std::mem::take(&mut self.was_taken) {
            // What the other one used until now is not among what follows.
            self.header.since = now.unix_secs + 1;
        }
        let mut bytes = Vec::with_capacity(HEADER_BYTES + RECORD_BYTES * self.records.len());
        self.header.emit(&mut bytes);
        for used in &self.records {
            file::emit_record(used, &mut bytes);
        }
        let unfinished = self.path.with_extension("tokens.new");
        match fs::remove_file(&unfinished) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(&unfinished)?;
        file.write_all(&bytes)?;
        fs::rename(&unfinished, &self.path)?;
        self.file = Some(file);
        Ok(())
    }

    fn forget_expired(&mut self, now: Now) {
        self.records.retain(|used| used.end > now.unix_secs);
        self.rewrite_at = self.records.len() * 2 + RECORDS_SPARE;
    }

    /// What is in the file now has a hole, and must not be believed.
    fn give_up(&mut self, now: Now, error: &io::Error) {
        self.file = None;
        self.retry_at = now.mono + RETRY;
        self.was_taken |= error.kind() == TAKEN;
        // A file that was not claimed may be another's.
        if !self.was_taken && self.directory.has_claimed(&self.listener) {
            // Where even that is refused, nothing was written after the start either.
            fs::remove_file(&self.path).ok();
        }
        self.count_failure();
        if !self.has_failed {
            tracing::warn!(
                event = "token_history_failed",
                listener = %self.listener,
                path = %self.path.display(),
                %error,
                help = help(error),
                "players notice nothing; without the file, a restart refuses tokens from before it"
            );
        }
        self.has_failed = true;
    }

    fn count_failure(&self) {
        self.board
            .update_process(|process| process.token_history_failures += 1);
    }
}

/// A write that takes long holds up everybody's packets: as bad as one that fails.
fn check_pace(took: Duration) -> io::Result<()> {
    if took <= SLOW {
        return Ok(());
    }
    let took = took.as_millis();
    Err(io::Error::other(format!(
        "a write took {took} ms: use a directory in memory"
    )))
}

/// Whether this file is still the one of that name: whatever tidies up may have removed it.
fn is_at(file: &File, path: &Path) -> bool {
    let (held, there) = (file.metadata(), fs::symlink_metadata(path));
    matches!((held, there), (Ok(held), Ok(there)) if held.ino() == there.ino())
}

/// The file is another process's.
const TAKEN: io::ErrorKind = io::ErrorKind::ResourceBusy;
/// A slow disk may hold up a worker this long, once in [`RETRY`]. A busy processor may take some of it,
/// and any of it where tests are run.
const SLOW: Duration = Duration::from_millis(if cfg!(test) { 10_000 } else { 250 });
const RETRY: Duration = Duration::from_secs(10);
/// Expired records that are not worth a rewrite: 32 KiB.
const RECORDS_SPARE: usize = 1024;
/// Twice what a roster remembers, and some: more was not written by us.
const FILE_BYTES_MAX: u64 = 8 << 20;
/// Clocks that are slewed, and processes that are slow to start, move the boot by less.
const BOOT_TOLERANCE_SECS: u64 = 2;

/// What was found.
enum Verdict {
    Believed,
    Absent,
    /// The machine was started since, or its clock was set; or it does not say when it was started.
    OtherBoot,
    TooMany,
    /// Told of where it is to be written.
    Taken,
    /// Not looked at, for want of the lock: told there as well.
    Unclaimed,
    Unreadable(io::Error),
}

impl Verdict {
    fn of_unclaimed(error: &io::Error) -> Self {
        match error.kind() {
            TAKEN => Self::Taken,
            io::ErrorKind::NotFound => Self::Absent, // not even a directory
            _ => Self::Unclaimed,
        }
    }

    fn label(&self) -> &'static str {
        match self {
            Self::Believed => "complete",
            Self::Absent => "nothing",
            Self::OtherBoot => "another boot's",
            Self::TooMany => "more than fits",
            Self::Taken => "another process's",
            Self::Unclaimed => "no lock",
            Self::Unreadable(error) if error.kind() == io::ErrorKind::InvalidData => "damage",
            Self::Unreadable(_) => "an error",
        }
    }
}

fn judge(found: io::Result<Contents>, now: Now, booted: u64) -> (Past, Verdict) {
    let unknown = Past::unknown(now.unix_secs);
    let contents = match found {
        Ok(contents) => contents,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return (unknown, Verdict::Absent),
        Err(error) => return (unknown, Verdict::Unreadable(error)),
    };
    let Header {
        since,
        started,
        booted: then,
    } = contents.header;
    let mut used = contents.used;
    used.retain(|used| used.end > now.unix_secs);
    let verdict = if contents.damaged > 0 {
        let what = format!("{} records are damaged", contents.damaged);
        Verdict::Unreadable(io::Error::new(io::ErrorKind::InvalidData, what))
    } else if booted == 0 || then.abs_diff(booted) > BOOT_TOLERANCE_SECS || since > now.unix_secs {
        Verdict::OtherBoot
    } else if used.len() > RosterParams::default().history {
        Verdict::TooMany
    } else {
        Verdict::Believed
    };
    // What is certain to have been used is refused whatever else the file is worth.
    let past = match verdict {
        Verdict::Believed => Past {
            since,
            started: now.unix_secs.max(started.saturating_add(1)),
            used,
        },
        _ => Past { used, ..unknown },
    };
    (past, verdict)
}

fn read(path: &Path) -> io::Result<Contents> {
    let damage = |what| io::Error::new(io::ErrorKind::InvalidData, what);
    // Not followed and not waited for: a link or a pipe is nothing of ours.
    if !fs::symlink_metadata(path)?.is_file() {
        return Err(damage("it is not a plain file"));
    }
    let mut bytes = Vec::new();
    let file = File::open(path)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(damage("it is larger than it can be"));
    }
    Contents::parse(&bytes).ok_or_else(|| damage("it does not begin as it should"))
}

#[cfg(test)]
mod tests;
