//! The fourth step of a turn: the datagrams that leave, in batches.

use std::net::SocketAddr;

use tidegate_proto::{Endpoint, Now, PeerId};

use super::{Listener, Turn};

/// Appends a datagram and says whose it is and where it goes.
type Poll = fn(&mut Endpoint, Now, &mut Vec<u8>) -> Option<(PeerId, SocketAddr)>;

impl Listener {
    /// Everything the sessions have to say, then goodbye to those that are over.
    pub fn transmit(&mut self, turn: &mut Turn<'_>) {
        let goodbyes = self.stage.partings(GOODBYES_PER_TURN);
        let goodbyes = goodbyes.min(DATAGRAMS_PER_TURN);
        let all_said = self.transmit_some(turn, DATAGRAMS_PER_TURN, Endpoint::poll_playing);
        let all_parted = self.transmit_some(turn, goodbyes, Endpoint::poll_goodbye);
        self.unsent = !(all_said && all_parted);
        self.remove_finished(turn);
    }

    /// At most so many datagrams, and no more than half a megabyte; whether they were all.
    fn transmit_some(&mut self, turn: &mut Turn<'_>, most: usize, poll: Poll) -> bool {
        let mut whose: Option<PeerId> = None;
        let mut is_dry = false;
        let mut bytes_left = BYTES_PER_TURN;
        for _ in 0..most {
            if bytes_left == 0 {
                break;
            }
            let start = turn.outgoing.bytes().len();
            let Some((id, to)) = poll(&mut self.endpoint, turn.now, turn.outgoing.bytes()) else {
                is_dry = true;
                break;
            };
            bytes_left = bytes_left.saturating_sub(turn.outgoing.bytes().len() - start);
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
        is_dry
    }

    pub(super) fn flush(&mut self, turn: &mut Turn<'_>, whose: Option<PeerId>) {
        if turn.outgoing.is_empty() {
            return;
        }
        if let Some(polled) = self.peers.socket(whose, &mut self.socket) {
            polled.socket.send(turn.outgoing, &mut self.counters.sent);
        }
        turn.outgoing.clear();
    }
}

/// Datagrams sent before the other steps get their turn, and bytes of them, of either kind; the rest is first in the next
/// one. Datagrams of bulk are up to 8 KiB, and other listeners wait meanwhile.
const DATAGRAMS_PER_TURN: usize = 2048;
const BYTES_PER_TURN: usize = 512 * 1024;

/// Goodbyes sent before the other steps get their turn, a fifth of a millisecond's: ten thousand peers that are kicked
/// have ten each.
const GOODBYES_PER_TURN: usize = 256;
