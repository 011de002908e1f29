//! Removes peers whose session and stream are over from every table, and logs how their sessions ended.

use tidegate_proto::PeerId;

use super::{Listener, Turn};

impl Listener {
    /// The worker ends and waits for no stream any more. Sessions whose backend has not closed yet are logged as well.
    pub fn remove_all(&mut self, turn: &mut Turn<'_>) {
        self.run_queue.finished.clear();
        for id in self.ids() {
            self.remove(turn, id);
        }
    }

    /// Those who have goodbyes left stay: these leave through the peer's own socket, or from the address that it knows.
    pub(super) fn remove_finished(&mut self, turn: &mut Turn<'_>) {
        let finished = std::mem::take(&mut self.run_queue.finished);
        for id in finished {
            if self.endpoint.is_in_turn(id) {
                self.run_queue.finished.push(id);
            } else {
                self.remove(turn, id);
            }
        }
    }

    fn remove(&mut self, turn: &mut Turn<'_>, id: PeerId) {
        self.release_target(id);
        let target = self.target_of(id);
        let stats = self.endpoint.stats(id).unwrap_or_default();
        let identity = self.endpoint.identity(id).unwrap_or_default();
        let client_id = identity.client_id;
        self.endpoint.let_go(id);
        let Some(mut peer) = self.peers.remove(id) else {
            return;
        };
        self.memory.on_gone(&peer.accounted);
        self.seats.on_gone();
        let target = target.as_deref();
        peer.log_end(&self.name, target, client_id, turn.now.mono, &stats);
        peer.log_causes(&self.name, target, client_id, &stats);
        if let Some(target) = peer.attempt.target() {
            let by = peer.stream.ended_by();
            self.counters.target(target).closes[by as usize] += 1;
        }
        if let Some(dialled) = &mut peer.dialled {
            dialled.socket.deregister(turn.registry);
        }
    }
}
