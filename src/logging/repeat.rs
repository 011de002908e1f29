//! Which lines have just been said: one line per event and reason in a window.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;
use tracing::Level;

/// What becomes of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is said, and so many of its kind were not since the last one.
    Say { suppressed: u64 },
    /// It is counted.
    HoldBack,
}

/// Events and reasons are closed sets in this program, so this is not reached; a dependency that
/// logs addresses as messages must not fill the memory.
const KINDS_MAX: usize = 256;

/// The kinds of lines of the last window.
pub(super) struct Repeats {
    window: Duration,
    kinds: HashMap<(Level, String, String), Said>,
}

struct Said {
    at: Instant,
    held_back: u64,
}

impl Repeats {
    /// A window of zero holds nothing back.
    pub(super) fn new(window: Duration) -> Self {
        Self {
            window,
            kinds: HashMap::new(),
        }
    }

    pub(super) fn judge(
        &mut self,
        now: Instant,
        level: Level,
        event: &str,
        reason: &str,
    ) -> Verdict {
        if self.window.is_zero() {
            return Verdict::Say { suppressed: 0 };
        }
        let kind = (level, event.to_owned(), reason.to_owned());
        if let Some(said) = self.kinds.get_mut(&kind) {
            if now.duration_since(said.at) < self.window {
                said.held_back += 1;
                return Verdict::HoldBack;
            }
            let suppressed = said.held_back;
            *said = Said {
                at: now,
                held_back: 0,
            };
            return Verdict::Say { suppressed };
        }
        if self.kinds.len() >= KINDS_MAX {
            let window = self.window;
            self.kinds
                .retain(|_, said| said.held_back > 0 || now.duration_since(said.at) < window);
        }
        if self.kinds.len() >= KINDS_MAX {
            return Verdict::HoldBack;
        }
        self.kinds.insert(
            kind,
            Said {
                at: now,
                held_back: 0,
            },
        );
        Verdict::Say { suppressed: 0 }
    }

    /// Kinds whose window ended (or `all`) with lines held back, each told once.
    pub(super) fn sweep(&mut self, now: Instant, all: bool) -> Vec<(Level, String, String, u64)> {
        let mut silent = Vec::new();
        let window = self.window;
        self.kinds.retain(|(level, event, reason), said| {
            let over = all || now.duration_since(said.at) >= window;
            if over && said.held_back > 0 {
                silent.push((*level, event.clone(), reason.clone(), said.held_back));
            }
            !over
        });
        silent.sort_by(|a, b| a.1.cmp(&b.1).then(a.2.cmp(&b.2)));
        silent
    }
}
