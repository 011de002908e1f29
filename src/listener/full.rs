//! Which limit keeps newcomers out. They hear "denied" at most; whoever runs the server has three
//! keys that could be meant.

use tidegate_proto::Reject;

use super::Listener;
use crate::capacity::Limit;

impl Listener {
    /// A line when somebody was refused since the last time: a few times a second at most, however
    /// many knock.
    pub(super) fn say_what_is_full(&mut self) {
        let refused = self.counters.rejects[Reject::Full as usize];
        let before = std::mem::replace(&mut self.full_said, refused);
        if refused == before {
            return;
        }
        let (key, limit) = match self.capacity.limit_met() {
            Some(Limit::Peers(max)) => ("runtime.max_peers".to_owned(), max as u64),
            Some(Limit::QueueMemory(max)) => ("runtime.queue_memory".to_owned(), max),
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
            refused = refused - before,
            help = "nobody new is let in while this limit is met: raise the key if the machine and the \
                    game server have room",
        );
    }
}
