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

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tidegate_proto::yojimbo::netcode::UsedToken;
use tidegate_proto::{Now, Timestamp};

use crate::board::Board;
use crate::clock;

pub mod file;
mod past;
mod state_directory;

use file::{HEADER_BYTES, Header, RECORD_BYTES};
pub use past::Past;
use past::Verdict;
use state_directory::TAKEN;
pub use state_directory::{ON_DISK, StateDirectory, help, is_on_disk};

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
            Ok(()) => past::judge(past::read(&path), now, directory.booted),
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
        history.log_what_was_found(&past, &verdict);
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

    fn log_what_was_found(&self, past: &Past, verdict: &Verdict) {
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
                self.board
                    .update_process(|process| process.token_histories_given_up -= 1);
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
            // Where even that is refused, as in a directory that became read-only, the operator's page says what to do.
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
            self.board
                .update_process(|process| process.token_histories_given_up += 1);
        }
        self.has_failed = true;
    }

    fn count_failure(&self) {
        self.board
            .update_process(|process| process.token_history_failures += 1);
    }
}

/// A listener that goes needs no file.
impl Drop for TokenHistory {
    fn drop(&mut self) {
        if self.has_failed {
            self.board
                .update_process(|process| process.token_histories_given_up -= 1);
        }
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

/// A slow disk may hold up a worker this long, once in [`RETRY`]. A busy processor may take some of it,
/// and any of it where tests are run.
const SLOW: Duration = Duration::from_millis(if cfg!(test) { 10_000 } else { 250 });
const RETRY: Duration = Duration::from_secs(10);
/// Expired records that are not worth a rewrite: 32 KiB.
const RECORDS_SPARE: usize = 1024;
#[cfg(test)]
mod tests;
