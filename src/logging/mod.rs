//! Lines on standard error: for people on a terminal, one JSON object each elsewhere.
//!
//! ```text
//!   tracing::info!(event = "...", ...)
//!        │ level filter (reloadable)
//!        ▼
//!   repeat.rs   one line per event, reason and listener or backend in a window, or a few, the rest counted
//!        ▼
//!   line.rs     stable keys first: ts level event listener peer session client_id backend target reason
//!        ▼
//!   bounded queue ──▶ writer thread ──▶ standard error
//!        └── full, or the reader is stuck: the line is dropped and counted, nobody waits
//! ```
//!
//! Where standard error is the journal, each line begins with its priority (`stderr.rs`).
//!
//! A line is about an `event` (a snake case id). Without that field, its message is the event.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::Registry;
use tracing_subscriber::reload;

use crate::board::{Board, LOG_LEVELS};
use crate::clock;
use crate::config::{Log, LogFormat};
use crate::sizing::threads;
use crate::stderr;

mod level;
mod line;
mod queue;
mod repeat;

use level::{Levels, parse_level};
pub use level::{Loan, check_level};
use line::{Fields, Style};
use queue::{Job, Jobs, Queue, queue};
use repeat::{HeldBack, Repeats, Verdict};

/// Starts logging for the whole process. Once.
pub fn install(log: &Log) -> Result<Logging, String> {
    let json = match log.format {
        LogFormat::Auto => !io::stderr().is_terminal(),
        LogFormat::Text => false,
        LogFormat::Json => true,
    };
    let style = if json { Style::Json } else { Style::Text };
    let (subscriber, logging) = build(log, style, stderr::is_journal(), Box::new(io::stderr()))?;
    tracing::subscriber::set_global_default(subscriber).map_err(|error| error.to_string())?;
    Ok(logging)
}

/// What can be done about logging while the program runs. Clones are the same.
#[derive(Clone)]
pub struct Logging {
    filter: reload::Handle<Targets, Registry>,
    shared: Arc<Shared>,
    queue: Queue,
}

impl Logging {
    /// What is logged now.
    pub fn level(&self) -> String {
        self.levels().in_force().to_owned()
    }

    /// Changes what is logged.
    pub fn set_level(&self, level: &str) -> Result<(), String> {
        let mut levels = self.levels();
        self.filter_by(level)?;
        levels.set(level);
        Ok(())
    }

    /// Changes what is logged for a while: until the loan is given back.
    pub fn lend_level(&self, level: &str) -> Result<Loan, String> {
        let mut levels = self.levels();
        self.filter_by(level)?;
        Ok(levels.lend(level))
    }

    /// Logs what was logged before the loan, unless another level was set since.
    pub fn give_back(&self, loan: &Loan) -> Result<(), String> {
        let mut levels = self.levels();
        let before = levels.give_back(loan);
        before.map_or(Ok(()), |level| self.filter_by(level))
    }

    fn levels(&self) -> MutexGuard<'_, Levels> {
        let levels = &self.shared.levels;
        levels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn filter_by(&self, level: &str) -> Result<(), String> {
        let targets = parse_level(level)?;
        self.filter
            .reload(targets)
            .map_err(|error| error.to_string())
    }

    /// Lines held back because the same was said a moment ago, in the order of
    /// [`LOG_LEVELS`].
    pub fn lines_suppressed(&self) -> [u64; LOG_LEVELS.len()] {
        let counters = &self.shared.suppressed;
        std::array::from_fn(|level| counters[level].load(Ordering::Relaxed))
    }

    /// Lines lost because nobody read the old ones fast enough.
    pub fn lines_dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// Keeps the board told of what was held back and what was lost. Never ends.
    pub async fn publish(self, board: Arc<Board>) {
        let mut losses = Losses::default();
        loop {
            let (suppressed, dropped) = (self.lines_suppressed(), self.lines_dropped());
            let told = self.shared.dropped_told.load(Ordering::Relaxed);
            let lately = losses.are_recent(clock::now(), dropped, told);
            board.update_process(|process| {
                process.log_lines_suppressed = suppressed;
                process.log_lines_dropped = dropped;
                process.log_loses_lines = lately;
            });
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// Waits until what was logged is written, but not long: before the process ends.
    pub fn flush(&self) {
        let (done, written) = sync_channel(1);
        let end = clock::now() + FLUSH_TIME;
        if !self.queue.flush(done) {
            return;
        }
        self.wait_while_it_moves(|| {
            let timeout = Err(RecvTimeoutError::Timeout);
            written.recv_timeout(FLUSH_PATIENCE) == timeout && clock::now() < end
        });
    }

    /// `goes_on` waits for a while, and then says whether there is more to wait for.
    fn wait_while_it_moves(&self, mut goes_on: impl FnMut() -> bool) {
        let mut waiting = self.queue.bytes();
        while goes_on() {
            let left = self.queue.bytes();
            // A reader that is stuck must not keep us from leaving; one that is slow, not for long.
            if left >= waiting {
                return;
            }
            waiting = left;
        }
    }
}

/// Events whose lines differ in what no window looks at: an address, a target, an answer.
const EACH_TIME: [&str; 9] = [
    "listening",
    "insecure_listener",
    "listener_closed",
    "reload",
    "reload_refused",
    "needs_restart",
    "drain",
    "target_up",
    "target_down",
];

/// Sessions that ended before they were let in, or of which many came at once, in a window and of one kind: enough to find a
/// player who has just complained among them, and 5 MB an hour of an outage.
const TRIES: u32 = 32;

/// Before a process ends, its log may stand still for so long ...
const FLUSH_PATIENCE: Duration = Duration::from_millis(500);

/// ... and take so long while it moves: a drain's grace, the stop behind it and this are less than the 30 s after which
/// Kubernetes kills.
const FLUSH_TIME: Duration = Duration::from_secs(2);

/// When lines were lost.
#[derive(Default)]
struct Losses {
    known: u64,
    last: Option<Instant>,
}

impl Losses {
    /// Whether some were lost in the last minute; or before it, if the log has not been able to tell: a full disk loses
    /// few lines of a quiet server.
    fn are_recent(&mut self, now: Instant, dropped: u64, told: u64) -> bool {
        if dropped > self.known.min(told) {
            (self.known, self.last) = (dropped, Some(now));
        }
        self.last.is_some_and(|at| now.duration_since(at) < LATELY)
    }
}

const LATELY: Duration = Duration::from_secs(60);

struct Shared {
    style: Style,
    levels: Mutex<Levels>,
    repeats: Mutex<Repeats>,
    suppressed: [AtomicU64; LOG_LEVELS.len()],
    dropped: AtomicU64,
    /// Of these, what the log itself has told.
    dropped_told: AtomicU64,
}

fn build(
    log: &Log,
    style: Style,
    for_journal: bool,
    sink: Box<dyn Write + Send>,
) -> Result<(impl Subscriber + Send + Sync + use<>, Logging), String> {
    let (filter, handle) = reload::Layer::new(parse_level(&log.level)?);
    let (queue, jobs) = queue();
    let shared = Arc::new(Shared {
        style,
        levels: Mutex::new(Levels::new(&log.level)),
        repeats: Mutex::new(Repeats::new(log.repeat_window)),
        suppressed: Default::default(),
        dropped: AtomicU64::new(0),
        dropped_told: AtomicU64::new(0),
    });
    let writer = Writer {
        shared: Arc::clone(&shared),
        for_journal,
        sink,
        is_torn: false,
    };
    std::thread::Builder::new()
        .name("log".to_owned())
        .spawn(move || writer.run(&jobs))
        .map_err(|error| threads::unavailable("the log", &error).0)?;
    let lines = Lines {
        shared: Arc::clone(&shared),
        queue: queue.clone(),
    };
    let logging = Logging {
        filter: handle,
        shared,
        queue,
    };
    Ok((Registry::default().with(lines.with_filter(filter)), logging))
}

/// The place of a level among [`LOG_LEVELS`]; what is finer than the last counts there.
fn rank(level: Level) -> usize {
    match level {
        Level::ERROR => 0,
        Level::WARN => 1,
        Level::INFO => 2,
        _ => 3,
    }
}

/// The layer that turns events into lines, on the thread that logs.
struct Lines {
    shared: Arc<Shared>,
    queue: Queue,
}

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let level = *event.metadata().level();
        let held_back = match self.judge(level, &fields) {
            Verdict::Say(held_back) => held_back,
            Verdict::HoldBack => {
                self.shared.suppressed[rank(level)].fetch_add(1, Ordering::Relaxed);
                return;
            }
        };
        fields.count_too(held_back.counted);
        let nanos = clock::wall_nanos();
        let line = fields.line(self.shared.style, nanos, level, held_back.lines);
        if !self.queue.push(level, line) {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Lines {
    /// What a session says about itself at info is said once a session and replaces per-peer metrics. Not so for one that
    /// was never let in, as a player who finds no game server tries again and again; nor for those that strangers open by
    /// the thousand. What a start or a reload says, and of the targets' health, is said once for each address or target, as
    /// often as somebody made it happen; and at debug everything is wanted. All else can repeat without end.
    fn judge(&self, level: Level, fields: &Fields) -> Verdict {
        let is_one_of_many = fields.has("seated") || fields.has("many");
        let ledger = level == Level::INFO && (fields.has("session") || fields.has("uid"));
        let each = EACH_TIME.contains(&fields.event());
        if (ledger && !is_one_of_many) || each || level > Level::INFO {
            return Verdict::Say(HeldBack::default());
        }
        let lines = if is_one_of_many { TRIES } else { 1 };
        match self.shared.repeats.try_lock() {
            Ok(mut repeats) => {
                repeats.judge(clock::now(), fields.kind(level), lines, fields.counted())
            }
            // Somebody else is logging at this very moment. Waiting is not an option here.
            Err(_) => Verdict::Say(HeldBack::default()),
        }
    }
}

/// The thread that may wait for standard error.
struct Writer {
    shared: Arc<Shared>,
    for_journal: bool,
    sink: Box<dyn Write + Send>,
    /// The last line was cut off in its middle: the disk was full.
    is_torn: bool,
}

impl Writer {
    fn run(mut self, jobs: &Jobs) {
        let mut looked = clock::now();
        loop {
            let patience = LOOK_EVERY.saturating_sub(clock::now().duration_since(looked));
            match jobs.next(patience) {
                Ok(Job::Line(level, line)) => {
                    // A disk that is full or a pipe that is closed costs the line, and nothing else.
                    if self.write(level, &line).is_err() {
                        self.shared.dropped.fetch_add(1, Ordering::Relaxed);
                    }
                }
                Ok(Job::Flush(done)) => {
                    self.tell_held_back(true);
                    // The caller may have stopped waiting.
                    done.try_send(()).ok();
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            // Not only when nothing is said: where players come and go all the time, something is.
            if clock::now().duration_since(looked) >= LOOK_EVERY {
                looked = clock::now();
                self.tell_held_back(false);
            }
        }
    }

    fn write(&mut self, level: Level, line: &str) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(line.len() + 8);
        if self.is_torn {
            bytes.push(b'\n');
        }
        if self.for_journal {
            bytes.extend_from_slice(stderr::priority(level).as_bytes());
        }
        bytes.extend_from_slice(line.as_bytes());
        // In one piece; and it may be that only half of it fits.
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            match self.sink.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    rest = &rest[written..];
                    self.is_torn = !rest.is_empty();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// What was held back and not told with a later line of its kind; and what was lost.
    fn tell_held_back(&mut self, all: bool) {
        let silent = match self.shared.repeats.lock() {
            Ok(mut repeats) => repeats.sweep(clock::now(), all),
            Err(_) => Vec::new(),
        };
        for (kind, held_back) in silent {
            let fields = Fields::summary(&kind, held_back);
            let nanos = clock::wall_nanos();
            let line = fields.line(self.shared.style, nanos, kind.level, held_back.lines);
            if self.write(kind.level, &line).is_err() {
                self.shared.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
        let dropped = self.shared.dropped.load(Ordering::Relaxed);
        let told = &self.shared.dropped_told;
        let untold = dropped - told.load(Ordering::Relaxed);
        if untold > 0 {
            let fields = Fields::lost(untold);
            let line = fields.line(self.shared.style, clock::wall_nanos(), Level::WARN, 0);
            // Not counted when it is lost itself, and tried again: it would count its own tries.
            if self.write(Level::WARN, &line).is_ok() {
                self.shared.dropped_told.store(dropped, Ordering::Relaxed);
            }
        }
    }
}

/// How often the writer looks for what was held back, or lost.
const LOOK_EVERY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
