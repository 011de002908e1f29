//! Which peers a listener looks at, and when: those that something happened to, behind them those whose sessions are over,
//! and each when its own clock rings.

use std::collections::VecDeque;

use tidegate_proto::endpoint::{Scheduled, Timers};
use tidegate_proto::{PeerId, Timestamp};

#[derive(Debug, Default)]
pub(super) struct RunQueue {
    /// Peers that something happened to this turn.
    pub(super) pending: Vec<PeerId>,
    /// Of these, those whose session is over.
    pub(super) parting: VecDeque<PeerId>,
    /// Streams' and attempts' clocks.
    timers: Timers<PeerId>,
    /// Peers whose session and stream are over. They are removed once their last datagrams have left.
    pub(super) finished: Vec<PeerId>,
}

/// What the queue knows of one peer.
#[derive(Debug, Default)]
pub(super) struct Entry {
    /// It is among those that are pending, or parting.
    queued: bool,
    /// When its stream or its connect is woken.
    scheduled: Scheduled,
    /// When its stream is looked at again although nothing happened to it: it had used up its messages, or memory is short.
    paused_until: Option<Timestamp>,
    /// It is among those that are finished.
    is_finished: bool,
}

impl RunQueue {
    /// Something happened to this peer: it gets its pump this turn.
    pub(super) fn touch(&mut self, id: PeerId, entry: &mut Entry) {
        if !std::mem::replace(&mut entry.queued, true) {
            self.pending.push(id);
        }
    }

    /// This peer wants to be woken at this time, or when its pause is over.
    pub(super) fn schedule(&mut self, id: PeerId, at: Option<Timestamp>, entry: &mut Entry) {
        if let Some(at) = at.into_iter().chain(entry.paused_until).min() {
            self.timers.schedule(id, at, &mut entry.scheduled);
        }
    }

    /// The session and the stream of this peer are over.
    pub(super) fn finish(&mut self, id: PeerId, entry: &mut Entry) {
        if !std::mem::replace(&mut entry.is_finished, true) {
            self.finished.push(id);
        }
    }

    /// Whether peers wait for their pump.
    pub(super) fn has_work(&self) -> bool {
        !self.pending.is_empty() || !self.parting.is_empty()
    }

    /// When the next of them is woken.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.timers.next()
    }

    /// The next whose clock may have rung; [`Entry::take`] says whether it has.
    pub(super) fn pop_due(&mut self, now: Timestamp) -> Option<(Timestamp, PeerId)> {
        self.timers.pop_due(now)
    }
}

impl Entry {
    /// Its turn has come: what is paused goes on, and what happens from now on queues it again.
    pub(super) fn begin(&mut self) {
        self.queued = false;
        self.paused_until = None;
    }

    /// Whether it was to be woken at this time, and no other.
    pub(super) fn take(&mut self, at: Timestamp) -> bool {
        self.scheduled.take(at)
    }

    /// It is looked at again then, or before.
    pub(super) fn pause(&mut self, until: Timestamp) {
        let sooner = self.paused_until.map_or(until, |at| at.min(until));
        self.paused_until = Some(sooner);
    }

    /// Nothing keeps its stream waiting.
    pub(super) fn go_on(&mut self) {
        self.paused_until = None;
    }

    /// It comes into the queue of another worker.
    pub(super) fn on_moved(&mut self) {
        self.queued = false;
        self.scheduled = Scheduled::default();
    }
}

#[cfg(test)]
mod tests {
    use tidegate_proto::{Endpoint, Now, endpoint, rudp};

    use super::*;
    use crate::protocol::RejectAll;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    /// Nobody else tells that it may go on: it would wait until its backend or its peer says the next word.
    #[test]
    fn who_pauses_is_woken_at_the_first_of_its_clocks() {
        let mut endpoint = Endpoint::new(Box::new(RejectAll), endpoint::Params::default());
        let session = rudp::Session::dial(Now::default(), rudp::Params::default());
        let address = ([127, 0, 0, 1], 1).into();
        let id = endpoint.dial(Now::default(), address, Box::new(session));
        let pauses: [(&[u64], Option<u64>, Option<u64>); 6] = [
            (&[], None, None),
            (&[], Some(30), Some(30)),
            (&[10], None, Some(10)),
            (&[10, 100], None, Some(10)),
            (&[100, 10], Some(30), Some(10)),
            (&[100], Some(30), Some(30)),
        ];
        for (pauses, clock, woken) in pauses {
            let (mut queue, mut entry) = (RunQueue::default(), Entry::default());
            pauses.iter().for_each(|&until| entry.pause(at(until)));
            queue.schedule(id, clock.map(at), &mut entry);
            assert_eq!(queue.next(), woken.map(at), "{pauses:?} {clock:?}");
            let Some(woken) = woken.map(at) else {
                continue;
            };
            assert_eq!(queue.pop_due(woken), Some((woken, id)));
            assert!(entry.take(woken));
            entry.begin();
            queue.schedule(id, None, &mut entry);
            assert_eq!(queue.next(), None, "its pause is over");
        }
    }
}
