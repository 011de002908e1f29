//! Removes peers whose session and stream are over from every table, and logs how their sessions ended.

use super::{Listener, Turn};

impl Listener {
    /// The worker ends and waits for no stream any more. Sessions whose backend has not closed yet are logged as well.
    pub fn remove_all(&mut self, turn: &mut Turn<'_>) {
        self.finished = self.ids();
        self.remove_finished(turn);
    }

    pub(super) fn remove_finished(&mut self, turn: &mut Turn<'_>) {
        let finished = std::mem::take(&mut self.finished);
        for id in finished {
            self.release_target(id);
            let target = self.target_of(id);
            let stats = self.endpoint.stats(id).unwrap_or_default();
            let identity = self.endpoint.identity(id).unwrap_or_default();
            let client_id = identity.client_id;
            self.endpoint.let_go(id);
            let Some(mut peer) = self.peers.remove(id) else {
                continue;
            };
            self.memory.on_gone(&peer.accounted);
            self.capacity.on_departure();
            let target = target.as_deref();
            peer.log_end(&self.name, target, client_id, turn.now.mono, &stats);
            peer.log_causes(&self.name, target, client_id, &stats);
            if let Some(target) = peer.attempt.target() {
                let by = peer.stream.ended_by();
                self.counters.target(target).closes[by as usize] += 1;
            }
            if let Some(socket) = &mut peer.socket
                && let Err(error) = socket.deregister(turn.registry)
            {
                tracing::debug!(%error, "socket was not registered");
            }
        }
    }
}
