//! What concerns the process as a whole.

use tidegate_proto::{Now, Timestamp};

use crate::clock::Pause;

#[derive(Clone, Debug)]
pub struct Process {
    pub state: State,
    /// When the drain under way ends whatever is left. Not by the calendar, which may be set meanwhile.
    pub drain_deadline: Option<Timestamp>,
    /// The process ends, and nothing takes that back.
    pub stopping: bool,
    pub reloads_ok: u64,
    pub reloads_refused: u64,
    /// Why the last reload was refused, on one line; `None` if it was not.
    pub reload_error: Option<String>,
    /// Paths of values that were read at a reload and wait for a restart.
    pub needs_restart: Vec<String>,
    /// When the configuration in force was loaded.
    pub loaded_unix: u64,
    /// Log lines held back because they repeat, in the order of [`LOG_LEVELS`].
    pub log_lines_suppressed: [u64; LOG_LEVELS.len()],
    /// Log lines that could not be written.
    pub log_lines_dropped: u64,
    /// Some of them in the last minute, or the log has not been able to say so since.
    pub log_loses_lines: bool,
    /// Token histories that could not be read or written.
    pub token_history_failures: u64,
    /// Listeners whose file of used tokens is given up for now: a restart would know nothing of them.
    pub token_histories_given_up: usize,
    /// When this process last did not run for a while.
    pub last_pause: Option<Pause>,
    /// Periods in which the control group's CPU limit stopped the process.
    pub cpu_throttled: u64,
    /// Those of the last [`LATELY`](crate::sizing::cpu::LATELY).
    pub cpu_throttled_lately: u64,
}

impl Process {
    pub(super) fn starting(started: Now) -> Self {
        Self {
            state: State::Starting,
            drain_deadline: None,
            stopping: false,
            reloads_ok: 0,
            reloads_refused: 0,
            reload_error: None,
            needs_restart: Vec::new(),
            loaded_unix: started.unix_secs,
            log_lines_suppressed: [0; LOG_LEVELS.len()],
            log_lines_dropped: 0,
            log_loses_lines: false,
            token_history_failures: 0,
            token_histories_given_up: 0,
            last_pause: None,
            cpu_throttled: 0,
            cpu_throttled_lately: 0,
        }
    }

    /// A reload was tried, and refused if there is an error.
    pub fn on_reload(&mut self, now: Now, error: Option<String>) {
        if error.is_none() {
            self.reloads_ok += 1;
            self.loaded_unix = now.unix_secs;
        } else {
            self.reloads_refused += 1;
        }
        self.reload_error = error;
    }
}

/// The levels whose lines may be held back.
pub const LOG_LEVELS: [&str; 4] = ["error", "warn", "info", "debug"];

/// Where in its life the process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Starting,
    Serving,
    Draining,
}

impl State {
    pub const ALL: [Self; 3] = [Self::Starting, Self::Serving, Self::Draining];

    pub const fn label(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Serving => "serving",
            Self::Draining => "draining",
        }
    }
}
