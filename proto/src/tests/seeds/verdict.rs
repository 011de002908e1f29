//! Whether a world kept its promises.

use std::time::Duration;

use super::plan::{Act, Maker};
use super::run::Run;
use crate::session::CloseReason;
use crate::tests::games::Rules;

impl Run {
    fn happened(&self, kind: impl Fn(&Act) -> bool) -> bool {
        self.plan.acts.iter().any(|(_, act)| kind(act))
    }

    /// Whether what was done in this world explains such an end.
    fn explains(&self, client: usize, reason: CloseReason) -> bool {
        let weather = &self.plan.weather;
        let is_harsh = weather.rate > 0 || weather.bursts.is_some();
        let long_pause =
            |act: &Act| matches!(act, Act::Pause(span) if *span > Duration::from_secs(4));
        let restarted = self.happened(|act| *act == Act::Restart);
        let stepped = self.happened(|act| matches!(act, Act::StepCalendar(_)));
        let refused = self.happened(|act| matches!(act, Act::Drain | Act::BackendAway));
        let silenced = is_harsh || restarted || self.happened(long_pause);
        let outcome = self.world.outcome(client);
        let other_ended = |closed: Option<CloseReason>| closed.is_some_and(|other| other != reason);
        match reason {
            CloseReason::PeerTimeout => {
                silenced
                    || refused
                    || other_ended(outcome.client_closed)
                    || other_ended(outcome.server_closed)
            }
            // A client that is put out before it knows that it is in takes no goodbye for its own.
            CloseReason::ConnectTimeout | CloseReason::TokenExpired => {
                silenced || stepped || refused || self.ended.contains(&client)
            }
            CloseReason::PeerDisconnect => {
                self.ended.contains(&client)
                    || refused
                    || other_ended(outcome.client_closed)
                    || other_ended(outcome.server_closed)
            }
            // Who hears nothing hears no acknowledgements either; which clock ends first is chance.
            CloseReason::PeerStalled => silenced,
            // Who gave up on a server that stood still leaves its gaps open.
            CloseReason::PeerGapStall => {
                silenced && outcome.client_closed == Some(CloseReason::PeerTimeout)
            }
            CloseReason::Denied => refused,
            CloseReason::Kicked | CloseReason::BackendClosed => self.ended.contains(&client),
            CloseReason::Shutdown => restarted,
            _ => false,
        }
    }

    pub(super) fn judge(&mut self, seed: u64) {
        for client in (0..self.world.clients()).filter(|client| !self.bad.contains(client)) {
            let outcome = self.world.outcome(client);
            let ends = [outcome.client_closed, outcome.server_closed];
            for reason in ends.into_iter().flatten() {
                assert!(
                    self.explains(client, reason),
                    "seed {seed}: client {client} ended with {reason:?}: {outcome:?} {:?}",
                    self.plan.acts
                );
            }
            assert!(
                outcome.client_closed.is_some() || self.world.is_delivered(client),
                "seed {seed}: client {client} is stuck: {outcome:?} {:?}",
                self.world.client_stats(client)
            );
            assert!(
                outcome.up.1 <= outcome.up.0 && outcome.down.1 <= outcome.down.0,
                "seed {seed}: {outcome:?}"
            );
            let stats = self.world.client_stats(client);
            // What is acknowledged behind a gap is counted and still kept.
            let kept = u64::from(stats.outbox_messages);
            let (acked, said) = (stats.messages_acked, outcome.up.0);
            // The model of the library counts no messages.
            assert!(
                outcome.client_closed.is_some()
                    || matches!(self.plan.rules, Rules::Rudp(_))
                    || self.plan.made_by == Maker::LibraryClients
                    || (acked <= said && said <= acked + kept),
                "seed {seed}: client {client} lost or invented messages: {outcome:?} {stats:?}"
            );
        }
        self.world.drain_and_check();
    }
}
