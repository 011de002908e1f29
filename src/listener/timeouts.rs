//! The second step of a turn: clocks of sessions, and of streams and their connects.

use super::{Listener, Turn};

impl Listener {
    /// Clocks after datagrams, so that a packet that came in time counts however late we look.
    pub fn handle_timeouts(&mut self, turn: &mut Turn<'_>) {
        if self.gathers_at().is_some_and(|at| at <= turn.now.mono) {
            self.gather(turn.now);
        }
        self.shed(turn);
        if let Some(at) = self.endpoint.poll_timeout()
            && at <= turn.now.mono
        {
            let late = turn.now.mono.since(at);
            self.counters.tick_lag.record_duration(late);
            self.endpoint.handle_timeout(turn.now);
        }
        while let Some((at, id)) = self.run_queue.pop_due(turn.now.mono) {
            let peer = self.peers.get_mut(id);
            if !peer.is_some_and(|peer| peer.entry.take(at)) {
                continue;
            }
            self.handle_attempt_timeout(turn, id);
            self.with_stream(turn, id, |stream, side| stream.handle_timeout(side));
            // Its pump schedules the next one: what was decided here takes effect only there.
            self.touch(id);
        }
    }
}
