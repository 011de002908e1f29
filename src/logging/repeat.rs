//! Which lines have just been said: one line in a window for each event, reason, and listener or backend, or a few where
//! each has something of its own to tell.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;
use tracing::Level;

/// What becomes of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is said, and these of its kind were not since the last one.
    Say(HeldBack),
    /// It is counted.
    HoldBack,
}

/// Lines of one kind that were not said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HeldBack {
    pub(super) lines: u64,
    /// What they would have counted, all together.
    pub(super) counted: u64,
}

/// What two lines have in common when the second says nothing new.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Kind {
    pub(super) event: String,
    pub(super) reason: String,
    /// What it happened to, as far as the configuration names it: two listeners are two stories.
    pub(super) subjects: Vec<(&'static str, String)>,
    pub(super) level: Level,
}

/// Events, reasons and what the configuration names are closed sets, so this is hardly reached; a
/// dependency that logs addresses as messages must not fill the memory.
const KINDS_MAX: usize = 512;

/// The kinds of lines of the last window.
pub(super) struct Repeats {
    window: Duration,
    kinds: HashMap<Kind, Said>,
}

struct Said {
    /// The first line of the window.
    at: Instant,
    lines: u32,
    held_back: HeldBack,
}

impl Said {
    fn first(at: Instant) -> Self {
        Self {
            at,
            lines: 1,
            held_back: HeldBack::default(),
        }
    }
}

impl Repeats {
    /// A window of zero holds nothing back.
    pub(super) fn new(window: Duration) -> Self {
        Self {
            window,
            kinds: HashMap::new(),
        }
    }

    /// So many `lines` of this kind may be said in a window. This one has `counted` so much since the one before.
    pub(super) fn judge(&mut self, now: Instant, kind: Kind, lines: u32, counted: u64) -> Verdict {
        let alone = Verdict::Say(HeldBack::default());
        if self.window.is_zero() {
            return alone;
        }
        if let Some(said) = self.kinds.get_mut(&kind) {
            if now.duration_since(said.at) < self.window {
                if said.lines < lines {
                    said.lines += 1;
                    return alone;
                }
                said.held_back.lines += 1;
                said.held_back.counted += counted;
                return Verdict::HoldBack;
            }
            return Verdict::Say(std::mem::replace(said, Said::first(now)).held_back);
        }
        if self.kinds.len() >= KINDS_MAX {
            let window = self.window;
            self.kinds
                .retain(|_, said| said.held_back.lines > 0 || now.duration_since(said.at) < window);
        }
        if self.kinds.len() >= KINDS_MAX {
            return Verdict::HoldBack;
        }
        self.kinds.insert(kind, Said::first(now));
        alone
    }

    /// Kinds whose window ended (or `all`) with lines held back, each told once.
    pub(super) fn sweep(&mut self, now: Instant, all: bool) -> Vec<(Kind, HeldBack)> {
        let mut silent = Vec::new();
        let window = self.window;
        self.kinds.retain(|kind, said| {
            let over = all || now.duration_since(said.at) >= window;
            if over && said.held_back.lines > 0 {
                silent.push((kind.clone(), said.held_back));
            }
            !over
        });
        silent.sort_by(|(one, _), (other, _)| one.cmp(other));
        silent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    fn held_back(lines: u64) -> HeldBack {
        let counted = 0;
        HeldBack { lines, counted }
    }

    fn said(suppressed: u64) -> Verdict {
        Verdict::Say(held_back(suppressed))
    }

    fn kind(event: &str) -> Kind {
        Kind {
            event: event.to_owned(),
            reason: String::new(),
            subjects: Vec::new(),
            level: Level::WARN,
        }
    }

    #[test]
    fn a_window_ends() {
        let mut repeats = Repeats::new(Duration::from_secs(10));
        let start = clock::now();
        let at = |secs| start + Duration::from_secs(secs);
        let mut judge = |secs| repeats.judge(at(secs), kind("event"), 1, 0);
        assert_eq!(judge(0), said(0));
        assert_eq!(judge(9), Verdict::HoldBack);
        assert_eq!(judge(10), said(1));
        assert_eq!(judge(11), Verdict::HoldBack);
        assert_eq!(repeats.sweep(at(12), false), []);
        let told = [(kind("event"), held_back(1))];
        assert_eq!(repeats.sweep(at(20), false), told);
        assert_eq!(repeats.sweep(at(40), true), [], "told once");
    }

    /// Messages of a dependency that differ each time take a bounded memory.
    #[test]
    fn kinds_are_bounded() {
        let mut repeats = Repeats::new(Duration::from_secs(60));
        let now = clock::now();
        let said = (0..10_000)
            .filter(|n| repeats.judge(now, kind(&format!("{n}")), 1, 0) != Verdict::HoldBack)
            .count();
        assert_eq!(said, 512);
    }

    /// But for those of which something has to be told yet.
    #[test]
    fn kinds_of_which_nothing_was_said_for_a_window_make_room() {
        let mut repeats = Repeats::new(Duration::from_secs(10));
        let start = clock::now();
        let mut judge = |secs, n: u32| {
            let now = start + Duration::from_secs(secs);
            repeats.judge(now, kind(&format!("{n}")), 1, 0)
        };
        for n in 0..512 {
            assert_eq!(judge(u64::from(n) / 511, n), said(0));
        }
        assert_eq!(judge(1, 0), Verdict::HoldBack, "for the second time");
        assert_eq!(judge(9, 512), Verdict::HoldBack, "no room");
        for n in 512..1_022 {
            assert_eq!(judge(10, n), said(0), "{n}");
        }
        assert_eq!(judge(10, 1_022), Verdict::HoldBack, "no room");
        assert_eq!(judge(10, 0), said(1), "it was not forgotten");
    }

    #[test]
    fn a_window_has_as_many_lines_as_are_allowed() {
        let mut repeats = Repeats::new(Duration::from_secs(10));
        let start = clock::now();
        let mut judge =
            |secs| repeats.judge(start + Duration::from_secs(secs), kind("event"), 2, 0);
        assert_eq!(judge(0), said(0));
        assert_eq!(judge(1), said(0));
        assert_eq!(judge(9), Verdict::HoldBack);
        assert_eq!(judge(10), said(1));
        assert_eq!(judge(11), said(0));
        assert_eq!(judge(12), Verdict::HoldBack);
    }
}
