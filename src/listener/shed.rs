//! Who goes when all queues together hold more than they may.

use std::cmp::Reverse;

use tidegate_proto::{CloseReason, Endpoint, Now};

use super::Listener;
use super::peer::Peer;

impl Listener {
    /// All queues together hold more than they may: those that hold most here go until our share of
    /// it is free. What they hold is free at once; their streams still get what was accepted.
    pub(super) fn shed(&mut self, now: Now) {
        let stats = |endpoint: &Endpoint, id| endpoint.stats(id).unwrap_or_default();
        let excess = self.capacity.assembly_excess(self.assembling);
        self.close_largest(now, excess, |endpoint, peer| {
            stats(endpoint, peer.id).assembly_bytes as usize
        });
        let excess = self.capacity.excess(self.queued);
        self.close_largest(now, excess, |endpoint, peer| {
            let stats = stats(endpoint, peer.id);
            let sent = stats.outbox_bytes as usize + stats.assembly_bytes as usize;
            sent + endpoint.inbox_bytes(peer.id) + peer.stream.queued()
        });
    }

    fn close_largest(
        &mut self,
        now: Now,
        mut excess: u64,
        holds: impl Fn(&Endpoint, &Peer) -> usize,
    ) {
        if excess == 0 {
            return;
        }
        let open = self.peers.iter().filter(|peer| peer.closed.is_none());
        let mut held: Vec<_> = open
            .map(|peer| (holds(&self.endpoint, peer) as u64, peer.id))
            .collect();
        held.sort_unstable_by_key(|&(bytes, _)| Reverse(bytes));
        for (bytes, id) in held {
            if excess == 0 || bytes == 0 {
                break;
            }
            excess = excess.saturating_sub(bytes);
            self.endpoint.close(now, id, CloseReason::Overload);
            self.touch(id);
        }
    }
}
