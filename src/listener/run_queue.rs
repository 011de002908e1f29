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
