//! Which messages under way get one more copy in the packet that leaves now, and what pays for it.

use std::time::Duration;

use crate::sender::in_flight::{Fate, InFlight};
use crate::sender::outbox::Entry;
use crate::time::Timestamp;

use super::budget::{CopyBudget, OutageBudget};
use super::path_loss::PathLoss;
use super::rate::CopyRate;

/// Selects the copies for one packet, and charges them.
#[derive(Debug)]
pub(in crate::sender) struct CopySelector<'a> {
    pub(super) now: Timestamp,
    /// The packet's, as far as is known: no less.
    pub(super) number: u64,
    pub(super) in_flight: &'a InFlight,
    pub(super) loss: &'a PathLoss,
    /// The least gain worth a copy.
    pub(super) gain_min: f32,
    pub(super) budget: &'a mut CopyBudget,
    /// From the first loss on.
    pub(super) rate: Option<&'a mut CopyRate>,
    /// In an outage.
    pub(super) outage_budget: Option<&'a mut OutageBudget>,
}

/// What pays for a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sender) enum Source {
    Budget,
    OutageBudget,
}

impl CopySelector<'_> {
    /// What would pay for a copy of this message that takes so many bytes.
    pub(in crate::sender) fn source_for(&mut self, entry: &Entry, bytes: usize) -> Option<Source> {
        let is_wanted = self.budget.affords(bytes) && self.is_worth_a_copy(entry);
        if is_wanted && self.rate.as_mut().is_none_or(|rate| rate.allows()) {
            Some(Source::Budget)
        } else {
            self.outage_budget.is_some().then_some(Source::OutageBudget)
        }
    }

    /// Takes the bytes out of the outage budget, if that is to pay. False if it has fewer, or the path less room.
    pub(in crate::sender) fn draw(&mut self, source: Source, bytes: usize) -> bool {
        match (source, &mut self.outage_budget) {
            (Source::Budget, _) => true,
            (Source::OutageBudget, Some(outage_budget)) => {
                let rate = self.rate.as_ref();
                rate.is_none_or(|rate| rate.allows_in_outage()) && outage_budget.pays(bytes)
            }
            (Source::OutageBudget, None) => false,
        }
    }

    /// The copy goes into the packet.
    pub(in crate::sender) fn on_copied(&mut self, source: Source, bytes: usize) {
        if source == Source::Budget {
            self.budget.spend(bytes);
        }
        match (source, &mut self.rate) {
            (Source::Budget, Some(rate)) => rate.spend(self.now, bytes),
            (Source::OutageBudget, Some(rate)) => rate.spend_in_outage(self.now, bytes),
            (_, None) => {}
        }
    }

    /// Whether one more copy has a fair chance to be the one that arrives, and first.
    fn is_worth_a_copy(&self, entry: &Entry) -> bool {
        let loss = self.loss;
        let (mut missing, mut last) = (1.0, None);
        for carrier in entry.carriers() {
            if let Some(sent) = self.in_flight.get(carrier)
                && sent.fate == Fate::Unknown
            {
                // What is known of its neighbours counts as well as the fate of the copy before it.
                let given = last.map_or(0.0, |last| loss.after(1.0, carrier - last));
                let given = if sent.missed > 0 {
                    loss.overdue(given, u32::from(sent.missed))
                } else {
                    given
                };
                missing *= given.max(sent.loss_chance);
                if self.now.since(sent.at) < COPY_GAP_MIN {
                    return false;
                }
            }
            last = Some(carrier);
        }
        let arrives = 1.0 - loss.after(1.0, last.map_or(1, |last| self.number - last));
        // In an outage the next packet shares the last one's fate: wait until it is half as likely to arrive
        // as packets in general, unless it looks as if the message is indeed missing.
        missing * arrives >= self.gain_min
            && (arrives >= 0.5 * (1.0 - loss.share()) || missing >= 0.25)
    }
}

/// Packets closer together than this share their fate.
const COPY_GAP_MIN: Duration = Duration::from_millis(4);
