//! Ends sessions when the queues together hold more than they may. Shares (`memory.rs`) keep messages far
//! below that; what is left are pieces of messages that nobody completes, and whatever nobody thought of.

use std::cmp::Reverse;
use std::time::Duration;

use tidegate_proto::{CloseReason, Now, PeerId};

use super::peer::Peer;
use super::{Listener, Turn};
use crate::counters::DropReason;

impl Listener {
    /// Frees our part of what is too much. First the streams of sessions that are over, those that have
    /// waited longest for their backend: nobody plays there. Then the sessions that hold most; their
    /// streams still get what was accepted.
    pub(super) fn shed(&mut self, turn: &mut Turn<'_>) {
        let own = self.memory.queued();
        let pieces = self.memory.capacity.excess_of_pieces(own);
        if (pieces == 0 && self.memory.capacity.excess(own) == 0)
            || turn.now.mono < self.memory.sheds_at
        {
            return;
        }
        self.memory.sheds_at = turn.now.mono + PAUSE;
        // Our part may be small, and the sessions that fill the memory elsewhere: who holds little is not ended for them.
        let mean = self.memory.capacity.mean_of_pieces();
        self.close_largest(turn.now, pieces, mean, |peer| {
            peer.accounted.queued().pieces
        });
        let excess = self.memory.capacity.excess(self.memory.queued());
        let left = self.give_up_oldest(turn, excess);
        let mean = self.memory.capacity.mean();
        self.close_largest(turn.now, left, mean, |peer| peer.accounted.queued().all());
    }

    /// Returns what is still too much.
    fn give_up_oldest(&mut self, turn: &mut Turn<'_>, mut excess: u64) -> u64 {
        if excess == 0 {
            return 0;
        }
        let mut flushing: Vec<_> = self
            .peers
            .iter()
            .filter_map(|peer| Some((peer.stream.flushes_until()?, peer.id)))
            .collect();
        flushing.sort_unstable();
        for (_, id) in flushing {
            if excess == 0 {
                break;
            }
            excess = excess.saturating_sub(self.all_of(id));
            self.with_stream(turn, id, |stream, side| {
                stream.give_up(side, DropReason::Overload);
            });
            self.touch(id);
        }
        excess
    }

    fn all_of(&self, id: PeerId) -> u64 {
        let peer = self.peers.get(id);
        peer.map_or(0, |peer| peer.accounted.queued().all())
    }

    /// Nobody who holds nothing, or less than `least`: what is still too much then is freed where those are who hold more.
    fn close_largest(
        &mut self,
        now: Now,
        mut excess: u64,
        least: u64,
        holds: impl Fn(&Peer) -> u64,
    ) {
        if excess == 0 {
            return;
        }
        let open = self.peers.iter().filter(|peer| !peer.phase.is_over());
        let mut held: Vec<_> = open.map(|peer| (holds(peer), peer.id)).collect();
        held.sort_unstable_by_key(|&(bytes, _)| Reverse(bytes));
        for (bytes, id) in held {
            if excess == 0 || bytes < least.max(1) {
                break;
            }
            excess = excess.saturating_sub(bytes);
            self.endpoint.close(now, id, CloseReason::Overload);
            self.touch(id);
        }
    }
}

/// All peers are visited for it, so not in every turn.
const PAUSE: Duration = Duration::from_millis(50);
