//! The fourth step of a turn: the datagrams that leave, in batches.

use tidegate_proto::PeerId;

use super::{Listener, Turn};

impl Listener {
    /// Everything the sessions have to say, then goodbye to those that are over.
    pub fn transmit(&mut self, turn: &mut Turn<'_>) {
        let mut whose: Option<PeerId> = None;
        self.unsent = true;
        for _ in 0..DATAGRAMS_PER_TURN {
            let start = turn.outgoing.bytes().len();
            let Some((id, to)) = self.endpoint.poll_transmit(turn.now, turn.outgoing.bytes())
            else {
                self.unsent = false;
                break;
            };
            if self.socket.is_some() {
                let from = self.peers.get_mut(id).and_then(|peer| peer.ours);
                turn.outgoing.push(to, from);
                if turn.outgoing.is_full() {
                    self.flush(turn, None);
                }
                continue;
            }
            if whose.is_some_and(|before| before != id) || turn.outgoing.is_full() {
                let datagram = turn.outgoing.bytes().split_off(start);
                self.flush(turn, whose);
                turn.outgoing.bytes().extend_from_slice(&datagram);
            }
            turn.outgoing.push(to, None);
            whose = Some(id);
        }
        self.flush(turn, whose);
        self.say_farewell(turn);
    }

    pub(super) fn flush(&mut self, turn: &mut Turn<'_>, whose: Option<PeerId>) {
        if turn.outgoing.is_empty() {
            return;
        }
        let own = whose.and_then(|id| self.peers.get_mut(id)?.socket.as_mut());
        if let Some(socket) = own.or(self.socket.as_mut()) {
            socket.send(turn.outgoing, &mut self.counters.sent);
        }
        turn.outgoing.clear();
    }
}

/// Datagrams sent before the other steps get their turn; the rest is first in the next one.
const DATAGRAMS_PER_TURN: usize = 2048;
