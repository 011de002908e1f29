//! Recordings of sessions, for bugs from the field: what came, what was decided, what left.
//!
//! ```text
//!   Acceptor ── accepts ──▶ Tap::join ──▶ Recorded (a Session around the session)
//!                                             │ records, bounded
//!                                             ▼
//!                                        writer thread ──▶ file (pcapng)
//! ```
//!
//! Somebody has to ask for it, by flag or over the control socket. A session is recorded from its
//! beginning or not at all: a replay needs the whole of it. Keys are never written; the messages are,
//! when the order says so. The data path does not wait for the disk: a session whose records do not
//! fit the queue is cut there, and what was written of it is still good.

mod headers;
pub mod pcapng;
pub mod record;
mod recorded;
mod track;
mod writer;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{self, Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;

use anyhow::bail;
use serde::{Deserialize, Serialize};
use tidegate_proto::{Now, Session};

use crate::clock;
use crate::exit::{self, Unavailable};
use crate::sizing::threads;
use recorded::Recorded;
use track::Track;
use writer::Writer;

/// What is to be recorded.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// Where to, as this process sees the path; must not exist.
    pub file: PathBuf,
    /// Only sessions of this listener.
    pub listener: Option<String>,
    /// Only sessions from this address.
    pub peer: Option<IpAddr>,
    /// Also the decrypted messages and decisions, which a replay needs.
    pub content: bool,
    /// Where the file ends.
    pub bytes_max: u64,
}

/// What was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    pub sessions: u64,
    /// Sessions whose end is missing, because they were faster than the disk.
    pub cut: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Why the file ends before the recording did, if the disk did not take all of it.
    pub failed: Option<String>,
}

/// A recording that somebody asked for and nobody stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Recording {
    /// Where to, in full.
    pub file: PathBuf,
    /// With the decrypted messages.
    pub content: bool,
    /// Sessions so far.
    pub sessions: u64,
    /// Bytes of the file so far.
    pub bytes: u64,
    /// Why nothing more is written, if so.
    pub ended: Option<String>,
}

/// A process's one recording, if there is one. Looked at whenever a session is accepted.
#[derive(Clone, Debug, Default)]
pub struct Tap {
    running: Arc<Mutex<Option<Running>>>,
    /// Whether there is one, so that a flood of strangers takes no lock while there is none.
    is_on: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Running {
    order: Order,
    records: Sender<Vec<u8>>,
    shared: Arc<Shared>,
    writer: JoinHandle<()>,
}

/// What a recording's tracks and its writer share.
#[derive(Debug, Default)]
struct Shared {
    /// What to add to the owner's clock to get the calendar's, for the times that people see.
    epoch_nanos: u64,
    over: AtomicBool,
    /// Bytes on their way to the writer.
    queued: AtomicUsize,
    sessions: AtomicU64,
    cut: AtomicU64,
    bytes: AtomicU64,
    failed: OnceLock<String>,
}

fn cannot_make(file: &Path, error: &io::Error) -> Unavailable {
    let help = match error.kind() {
        io::ErrorKind::AlreadyExists => {
            "\n help: a recording is written over no other file; choose a new name".to_owned()
        }
        io::ErrorKind::NotFound => {
            "\n help: its directory is not there, as the process that records sees it".to_owned()
        }
        _ => exit::help_line(exit::help_with(error)),
    };
    Unavailable(format!("cannot make {}: {error}{help}", file.display()))
}

/// A new file with what it begins with, and how long that is.
fn make(path: &Path) -> io::Result<(File, u64)> {
    let mut head = Vec::new();
    pcapng::begin(&mut head);
    let mut options = OpenOptions::new();
    // It may hold what players said.
    let options = options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(path)?;
    // A full disk takes a name and no more. The caller is told, and may ask again by that name.
    if let Err(error) = file.write_all(&head) {
        fs::remove_file(path).ok();
        return Err(error);
    }
    Ok((file, head.len() as u64))
}

impl Tap {
    /// Begins a recording of sessions that begin from now on, and says where to, in full. `now` says how the owner's
    /// clock and the calendar belong together.
    pub fn start(&self, mut order: Order, now: Now) -> anyhow::Result<PathBuf> {
        let before = self.recording().filter(|before| before.ended.is_none());
        if let Some(Recording { file, .. }) = before {
            bail!(
                "a recording is under way, to {}: stop it first",
                file.display()
            );
        }
        // The caller may stand in another directory than this process does.
        order.file = path::absolute(&order.file)?;
        let (file, bytes) = make(&order.file).map_err(|error| cannot_make(&order.file, &error))?;
        let shared = Arc::new(Shared {
            epoch_nanos: clock::wall_nanos().saturating_sub(now.mono.as_nanos()),
            bytes: bytes.into(),
            ..Shared::default()
        });
        let (records, inbox) = channel();
        let left = order.bytes_max.saturating_sub(bytes);
        let writer = Writer::new(file, left, shared.clone());
        let writer = std::thread::Builder::new()
            .name("capture".to_owned())
            .spawn(move || writer.run(&inbox))
            .map_err(|error| {
                // Nothing will ever be in it, and its name could not be asked for again.
                fs::remove_file(&order.file).ok();
                threads::unavailable("the recording", &error)
            })?;
        tracing::info!(
            event = "capture_started",
            file = %order.file.display(),
            listener = order.listener,
            content = order.content,
        );
        let place = order.file.clone();
        // Not locked before: the disk may take its time, and a worker that accepts a session waits for the lock.
        *self.running() = Some(Running {
            order,
            records,
            shared,
            writer,
        });
        self.is_on.store(true, Relaxed);
        Ok(place)
    }

    /// Ends the recording, once everything told so far is in the file; `None` when there was none.
    pub fn stop(&self) -> Option<Taken> {
        let running = {
            let mut running = self.running();
            self.is_on.store(false, Relaxed);
            running.take()?
        };
        // An empty record is the last one.
        running.records.send(Vec::new()).ok();
        running.writer.join().ok();
        let taken = running.shared.taken();
        tracing::info!(
            event = "capture_ended",
            file = %running.order.file.display(),
            sessions = taken.sessions,
            cut = taken.cut,
            bytes = taken.bytes,
        );
        Some(taken)
    }

    /// The recording, until it is stopped.
    pub fn recording(&self) -> Option<Recording> {
        let running = self.running();
        let running = running.as_ref()?;
        let Taken {
            sessions,
            bytes,
            failed,
            ..
        } = running.shared.taken();
        let full = || (!running.is_under_way()).then(|| FULL.to_owned());
        Some(Recording {
            file: running.order.file.clone(),
            content: running.order.content,
            sessions,
            bytes,
            ended: failed.or_else(full),
        })
    }

    /// Whether sessions of this listener and address are to be recorded.
    pub(crate) fn wants(&self, listener: &str, peer: SocketAddr) -> bool {
        if !self.is_on.load(Relaxed) {
            return false;
        }
        let running = self.running();
        running
            .as_ref()
            .is_some_and(|running| running.wants(listener, peer))
    }

    /// The session, recorded from here if it is to be.
    pub(crate) fn join(&self, session: Box<dyn Session>, joining: Joining<'_>) -> Box<dyn Session> {
        let running = self.running();
        let Some(running) = running
            .as_ref()
            .filter(|running| running.wants(joining.listener, joining.peer))
        else {
            return session;
        };
        let track = Track {
            session: running.shared.sessions.fetch_add(1, Relaxed) as u32,
            peer: joining.peer,
            local: joining.local,
            content: running.order.content,
            is_live: true,
            records: running.records.clone(),
            shared: running.shared.clone(),
        };
        let Joining {
            now, rules, first, ..
        } = joining;
        Box::new(Recorded::new(session, track, now, rules, first))
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session at its beginning.
pub(crate) struct Joining<'a> {
    pub(crate) now: Now,
    pub(crate) listener: &'a str,
    /// The listener as a configuration file.
    pub(crate) rules: &'a str,
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
    /// The datagram that came with the acceptance and that the session has already taken.
    pub(crate) first: Option<&'a [u8]>,
}

impl Running {
    fn is_under_way(&self) -> bool {
        !self.shared.over.load(Relaxed)
    }

    fn wants(&self, listener: &str, peer: SocketAddr) -> bool {
        let Order {
            listener: only,
            peer: from,
            ..
        } = &self.order;
        self.is_under_way()
            && only.as_ref().is_none_or(|only| only == listener)
            && from.is_none_or(|from| from.to_canonical() == peer.ip().to_canonical())
    }
}

impl Shared {
    fn taken(&self) -> Taken {
        Taken {
            sessions: self.sessions.load(Relaxed),
            cut: self.cut.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            failed: self.failed.get().cloned(),
        }
    }
}

const FULL: &str = "the file has its full size (--size)";

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn an_order_says_whose_sessions_are_recorded() {
        let place = std::env::temp_dir().join(format!("tidegate-tap-{}", std::process::id()));
        let tap = Tap::default();
        let order = Order {
            file: place.clone(),
            listener: Some("game".to_owned()),
            peer: Some([10, 0, 0, 7].into()),
            content: true,
            bytes_max: 1 << 20,
        };
        let peer = SocketAddr::from(([10, 0, 0, 7], 5));
        assert!(!tap.wants("game", peer), "nobody asked");
        assert_eq!(tap.recording(), None);
        assert_eq!(tap.start(order.clone(), Now::default()).unwrap(), place);
        let refused = tap.start(order, Now::default()).expect_err("one at a time");
        let running = place.display().to_string();
        assert!(refused.to_string().contains(&running), "{refused}");
        let recording = tap.recording().unwrap();
        assert_eq!((&recording.file, recording.content), (&place, true));
        assert_eq!(recording.ended, None);
        let mode = fs::metadata(&place).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "what players say is not for everybody");
        assert!(tap.wants("game", peer));
        let same = "[::ffff:10.0.0.7]:5".parse().unwrap();
        assert!(
            tap.wants("game", same),
            "a socket of both families has it so"
        );
        assert!(!tap.wants("lobby", peer));
        assert!(!tap.wants("game", SocketAddr::from(([10, 0, 0, 8], 5))));
        let taken = tap.stop().unwrap();
        assert_eq!(taken.sessions, 0);
        assert_eq!(taken.bytes, fs::metadata(&place).unwrap().len());
        assert!(!tap.wants("game", peer));
        assert_eq!(tap.stop(), None);
        assert_eq!(tap.recording(), None);
        fs::remove_file(place).unwrap();
    }

    /// The last bytes leave when a recording is stopped: that is when a full disk may show.
    #[test]
    fn a_full_disk_is_told_to_whoever_stops() {
        let shared = Arc::new(Shared::default());
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let (records, inbox) = channel();
        shared.queued.fetch_add(100, Relaxed);
        records.send(vec![1; 100]).unwrap();
        records.send(Vec::new()).unwrap();
        Writer::new(full, 1 << 20, shared.clone()).run(&inbox);
        let taken = shared.taken();
        let failed = taken.failed.unwrap();
        assert!(failed.contains("No space left"), "{failed}");
        assert_eq!(taken.bytes, 0, "none of them is in the file");
    }
}
