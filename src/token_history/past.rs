//! What earlier processes left, and how much of it is believed.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use tidegate_proto::Now;
use tidegate_proto::yojimbo::netcode::{RosterParams, UsedToken};

use super::file::{Contents, Header};
use super::state_directory::TAKEN;

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

/// What was found.
pub(super) enum Verdict {
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
    pub(super) fn of_unclaimed(error: &io::Error) -> Self {
        match error.kind() {
            TAKEN => Self::Taken,
            io::ErrorKind::NotFound => Self::Absent, // not even a directory
            _ => Self::Unclaimed,
        }
    }

    pub(super) fn label(&self) -> &'static str {
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

pub(super) fn judge(found: io::Result<Contents>, now: Now, booted: u64) -> (Past, Verdict) {
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

pub(super) fn read(path: &Path) -> io::Result<Contents> {
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

/// Twice what a roster remembers, and some: more was not written by us.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// Clocks that are slewed, and processes that are slow to start, move the boot by less.
const BOOT_TOLERANCE_SECS: u64 = 2;
