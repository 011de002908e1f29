//! Whether there is a seat for newcomers, in the process and at this listener, and who found none. They hear "denied" at
//! most; the operator has three keys that could be meant.

use std::sync::Arc;

use tidegate_proto::{CloseReason, Reject};

use super::Listener;
use super::peer_count::{Counted, PeerCount};
use crate::capacity::{Capacity, Limit};
use crate::sizing::open_files;

/// Seats for peers.
#[derive(Debug)]
pub(super) struct Seats {
    /// Of the process.
    capacity: Arc<Capacity>,
    /// Taken at this listener, by all of its workers.
    taken: PeerCount,
    /// The limit of the process that is in force.
    limit: Option<Limit>,
    /// Newcomers refused since the last line.
    refused: u64,
    /// What kept the last of them out; none for the listener's own limit. By the time of the line a place
    /// may be free again, so that it would be too late to ask.
    met: Option<Limit>,
    /// Newcomers for whose stream there was no descriptor, since the last line of those.
    unopened: u64,
    /// Newcomers whose genuine token could not be remembered, since the last line of those.
    unremembered: u64,
}

impl Seats {
    pub(super) fn new(capacity: Arc<Capacity>, taken: PeerCount) -> Self {
        Self {
            capacity,
            taken,
            limit: None,
            refused: 0,
            met: None,
            unopened: 0,
            unremembered: 0,
        }
    }

    /// A peer takes a seat of the listener until its session is over, and one of the process until it is gone.
    pub(super) fn take(&self) -> Counted {
        self.capacity.on_arrival();
        self.taken.add_one()
    }

    /// A peer is gone.
    pub(super) fn on_gone(&self) {
        self.capacity.on_departure();
    }

    /// Whether all seats are taken just now; the listener has this many.
    fn are_taken(&mut self, peers_max: usize) -> bool {
        self.limit = self.capacity.limit_met();
        self.limit.is_some() || self.taken.now() >= peers_max
    }

    pub(super) fn on_unopened(&mut self) {
        self.unopened += 1;
    }

    fn on_refused(&mut self) {
        self.refused += 1;
        self.met = self.limit;
    }

    /// How many were refused since the last time, and why the last one was.
    fn take_refused(&mut self) -> Option<(u64, Option<Limit>)> {
        let refused = std::mem::take(&mut self.refused);
        (refused > 0).then_some((refused, self.met))
    }
}

impl Listener {
    /// Newcomers are taken from now on, or they are not: before a turn, and before each of them.
    pub(super) fn open_or_shut(&mut self) {
        let is_full = self.seats.are_taken(self.endpoint.peers_max());
        let refusing = match (self.stage.takes_newcomers(), is_full) {
            (false, _) => Some(Reject::Draining),
            (true, true) => Some(Reject::Full),
            (true, false) => None,
        };
        self.endpoint.set_refusing(refusing);
    }

    /// Somebody was refused for this.
    pub(super) fn note_refused(&mut self, why: Reject) {
        match why {
            Reject::Full => self.seats.on_refused(),
            Reject::TokenHistoryFull => self.seats.unremembered += 1,
            _ => {}
        }
    }

    /// A line when somebody was refused since the last time: a few times a second at most, however
    /// many knock.
    pub(super) fn log_seats(&mut self) {
        self.log_files_used_up();
        self.log_tokens_unremembered();
        let Some((refused, met)) = self.seats.take_refused() else {
            return;
        };
        let (key, limit) = match met {
            Some(met @ Limit::Peers(max)) => (met.key().to_owned(), max as u64),
            Some(met @ Limit::QueueMemory(max)) => (met.key().to_owned(), max),
            None => {
                let max = self.endpoint.peers_max();
                (format!("listener.{}.max_peers", self.name), max as u64)
            }
        };
        tracing::warn!(
            event = "newcomers_refused",
            reason = Reject::Full.label(),
            listener = %self.name,
            key,
            limit,
            refused,
            help = "nobody new is let in while this limit is met: raise the key if the machine and the \
                    game server have room",
        );
    }

    /// Says how many were let in and found no descriptor for their stream since the last line.
    fn log_files_used_up(&mut self) {
        let refused = std::mem::take(&mut self.seats.unopened);
        if refused == 0 {
            return;
        }
        tracing::warn!(
            event = "newcomers_refused",
            reason = CloseReason::Overload.label(),
            listener = %self.name,
            key = "LimitNOFILE",
            limit = open_files::allowed(),
            refused,
            help = "all open files that streams may have are in use: raise the hard limit (LimitNOFILE= in a \
                    unit, `ulimit -Hn` in a shell, --ulimit nofile= of a container) and restart, or lower \
                    max_peers",
        );
    }

    /// Says how many came whose tokens there was no room to remember. They were made with our key, so these are
    /// somebody's players.
    fn log_tokens_unremembered(&mut self) {
        let refused = std::mem::take(&mut self.seats.unremembered);
        if refused == 0 {
            return;
        }
        tracing::warn!(
            event = "newcomers_refused",
            reason = Reject::TokenHistoryFull.label(),
            listener = %self.name,
            key = format!("listener.{}.netcode.max_token_lifetime", self.name),
            refused,
            help = "as many connect tokens are remembered as can be, and each until it expires: have the token \
                    service make fewer of them, or give them a shorter lifetime and lower this key with it",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who was refused has left again before the line is written.
    #[test]
    fn the_limit_that_was_met_is_named_though_it_is_met_no_more() {
        let capacity = Arc::new(Capacity::new(1, 1 << 20));
        let mut seats = Seats::new(capacity, PeerCount::default());
        assert!(!seats.are_taken(2));
        let counted = seats.take();
        assert!(seats.are_taken(2), "the only one of the process");
        seats.on_refused();
        seats.on_refused();
        seats.on_gone();
        assert!(!seats.are_taken(2));
        let refused = seats.take_refused();
        assert_eq!(refused, Some((2, Some(Limit::Peers(1)))));
        assert_eq!(seats.take_refused(), None);
        assert!(seats.are_taken(1), "the only one of the listener");
        seats.on_refused();
        assert_eq!(seats.take_refused(), Some((1, None)));
        drop(counted);
        assert!(!seats.are_taken(1), "its session is over");
    }
}
