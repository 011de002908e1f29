//! Whether the peer says how far it got, and so how far ahead of that we may send.
//!
//! A tidegate asks for its next message several times a second, sent or not. A reference peer asks only for
//! what it knows to be missing, so that one that misses nothing shows nothing; but it keeps whatever comes,
//! and heartbeats whenever it has nothing to say. Rule: docs/wire/rudp.md, section 6, 5.

use std::time::Duration;

use crate::stall::StallTimer;
use crate::time::Timestamp;

/// A peer that is heard for so long and asks for nothing shows nothing. A tidegate asks three times in that. One whose
/// questions all got lost is sent too much; a reference peer waits for so long once, at its first burst, if it never has
/// nothing to say.
const SHOWS_NOTHING_AFTER: Duration = Duration::from_millis(1_500);

/// A peer that once asked for what was not sent yet shows nothing after this long. It is more, since while its inbox is
/// full its next question, which is for what it refused, does not restore the bound; and not for ever, since one datagram,
/// which anybody can forge, would stop a reference peer.
const SHOWS_NO_MORE_AFTER: Duration = Duration::from_secs(6);

#[derive(Debug)]
pub(super) struct Lead {
    shows: Shows,
    shown_at: Timestamp,
    silence: StallTimer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shows {
    /// Taken for one that shows it.
    Unknown,
    /// It asked for what was not sent yet, which no reference peer does.
    Everything,
    /// It keeps what comes, and says nothing of it.
    Nothing,
}

impl Lead {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            shows: Shows::Unknown,
            shown_at: now,
            silence: StallTimer::new(now),
        }
    }

    /// Whether nothing may be sent that the peer has no room for.
    pub(super) fn is_bounded(&self) -> bool {
        self.shows != Shows::Nothing
    }

    /// Whether the peer is known to say how far it got.
    pub(super) fn is_shown(&self) -> bool {
        self.shows == Shows::Everything
    }

    /// The peer asked for something.
    pub(super) fn on_shown(&mut self, now: Timestamp) {
        self.shown_at = now;
    }

    /// The peer asked for its next message before it was sent.
    pub(super) fn on_poll(&mut self) {
        self.shows = Shows::Everything;
    }

    /// It said what no tidegate says.
    pub(super) fn on_reference(&mut self) {
        self.shows = Shows::Nothing;
    }

    /// It answers as a reference peer does. One that showed what it has dialled us, and repeats its probes.
    pub(super) fn on_pong(&mut self) {
        if self.shows == Shows::Unknown {
            self.shows = Shows::Nothing;
        }
    }

    /// The peer was heard, while we do or do not hold messages back for it.
    pub(super) fn on_heard(&mut self, now: Timestamp, holds_back: bool) {
        self.silence
            .on_heard(now, holds_back.then_some(self.shown_at));
        let patience = match self.shows {
            Shows::Everything => SHOWS_NO_MORE_AFTER,
            Shows::Unknown | Shows::Nothing => SHOWS_NOTHING_AFTER,
        };
        if self.silence.lasted() >= patience.into() {
            self.shows = Shows::Nothing;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An older tidegate that dials repeats the first sixteen probes, of any id; it has asked for a message before.
    #[test]
    fn who_answers_as_a_reference_peer_does_is_one_unless_it_showed_what_it_has() {
        let mut lead = Lead::new(Timestamp::ZERO);
        lead.on_poll();
        lead.on_pong();
        assert!(lead.is_bounded());
        let mut lead = Lead::new(Timestamp::ZERO);
        lead.on_pong();
        assert!(!lead.is_bounded());
    }

    /// A full inbox asks twice a second, for what it refused: three lost questions are nothing unusual.
    #[test]
    fn who_showed_what_it_has_is_believed_for_longer() {
        let at = Timestamp::from_millis;
        for (polls, bounded_for) in [(false, 1_500), (true, 6_000)] {
            let mut lead = Lead::new(at(0));
            if polls {
                lead.on_poll();
            }
            lead.on_shown(at(100));
            let is_bounded = |millis: &u64| {
                lead.on_heard(at(*millis), true);
                lead.is_bounded()
            };
            let last = (100..10_000).step_by(10).take_while(is_bounded).last();
            assert_eq!(last, Some(100 + bounded_for - 10), "polls: {polls}");
        }
    }
}
