//! What arrives: batches of datagrams, to their peers at once, and strangers' to a queue (`strangers.rs`).

use std::net::SocketAddr;

use tidegate_proto::{Handled, Now, PeerId, Reject};

use super::{Listener, Turn};
use crate::udp::{Outgoing, Route, UdpError};

impl Listener {
    /// Datagrams first: they carry the acknowledgements that make room for everything else, and a
    /// packet that waits in the socket must count before its session times out.
    pub fn receive(&mut self, turn: &mut Turn<'_>) {
        self.open_or_shut();
        self.received_bytes = 0;
        self.read_letters(turn);
        if self.readable {
            self.receive_shared(turn);
        }
        self.contention.on_turn(self.readable);
        let ready = std::mem::take(&mut self.readable_peers);
        for &id in &ready {
            self.receive_own(turn, id);
        }
    }

    fn receive_shared(&mut self, turn: &mut Turn<'_>) {
        let Some(mut socket) = self.socket.take() else {
            self.readable = false;
            return;
        };
        for _ in 0..BATCHES_PER_TURN {
            match socket.receive(turn.received) {
                Ok(()) => {
                    self.counters.kernel_drops += socket.new_drops(turn.received);
                    self.handle_batch(turn, None);
                    self.readable = turn.received.may_have_left();
                }
                Err(UdpError::Blocked) => self.readable = false,
                Err(UdpError::Broken) => {
                    (self.broken, self.readable) = (true, false);
                }
                // An error that waited in the socket: it has been taken, and tells us nothing.
                Err(_) => {}
            }
            if !self.readable {
                break;
            }
        }
        self.socket = Some(socket);
    }

    fn receive_own(&mut self, turn: &mut Turn<'_>, id: PeerId) {
        let Some(mut socket) = self.peers.get_mut(id).and_then(|peer| peer.socket.take()) else {
            return;
        };
        let from = socket.local_addr();
        let mut left = true;
        for _ in 0..BATCHES_PER_TURN {
            match socket.receive(turn.received) {
                Ok(()) => {
                    self.handle_batch(turn, Some(from));
                    left = turn.received.may_have_left();
                }
                Err(UdpError::Blocked | UdpError::Broken) => left = false,
                // Nobody listens there yet, or any more: the handshake, or the timeout, will tell.
                Err(_) => {}
            }
            if !left {
                break;
            }
        }
        if let Some(peer) = self.peers.get_mut(id) {
            peer.socket = Some(socket);
            peer.readable = left;
        }
        // What was urgent goes out by this very socket: the far end knows the peer by it.
        self.flush(turn, Some(id));
        if left {
            self.readable_peers.push(id);
        }
    }

    /// `dialled` is the address that stands for the peer, when the socket is its own.
    fn handle_batch(&mut self, turn: &mut Turn<'_>, dialled: Option<SocketAddr>) {
        self.counters.receive_calls += 1;
        for index in 0..turn.received.len() {
            self.handle_buffer(turn, index, dialled);
        }
        // Replies and urgent packets of this batch leave now; a peer's own socket sends its own.
        if dialled.is_none() && turn.outgoing.is_full() {
            self.flush(turn, None);
        }
    }

    /// The datagrams of one buffer, all from one address.
    fn handle_buffer(&mut self, turn: &mut Turn<'_>, index: usize, dialled: Option<SocketAddr>) {
        let (route, datagrams) = turn.received.take(index);
        let route = Route {
            from: dialled.unwrap_or(route.from),
            to: route.to,
        };
        if self.memory.is_short()
            && let Some(id) = self.endpoint.find(route.from)
        {
            self.account(id);
        }
        let mut known = None;
        for datagram in datagrams {
            known = self.handle_datagram(turn.now, turn.outgoing, route, datagram);
        }
        if let Some(id) = known {
            self.relieve(turn, id);
        }
    }

    /// One datagram: to the peer that it is from, which is returned; without one, to the strangers.
    fn handle_datagram(
        &mut self,
        now: Now,
        outgoing: &mut Outgoing,
        route: Route,
        datagram: &mut [u8],
    ) -> Option<PeerId> {
        self.counters.datagrams_received += 1;
        self.counters.datagram_bytes_received += datagram.len() as u64;
        self.received_bytes += datagram.len();
        let known = self.endpoint.find(route.from);
        let charged = match self.judge(now, route.from, known, datagram) {
            Ok(charged) => charged,
            Err(reject) => {
                self.counters.on_reject(reject);
                if known.is_none() {
                    self.log_refused(now.mono, route.from, reject);
                }
                return known;
            }
        };
        let Some(id) = known else {
            if !self.strangers.take_in(route, datagram) {
                self.counters.on_reject(Reject::ListenerLimited);
            }
            return None;
        };
        let handled = self.endpoint.handle_datagram_of(now, id, datagram);
        self.surcharge(id, charged);
        if let Handled::PeerRejected(_, reject) = handled {
            self.refund(id, reject, charged);
            if self.endpoint.may_be_elsewhere(now, id, reject) {
                self.ask_siblings(now, route, datagram);
            }
        }
        self.after_datagram(now, outgoing, route, handled);
        touched(handled)
    }

    /// Keeps what one turn receives within bounds. A turn may read megabytes from one peer, whose inbox would then
    /// refuse packets, and the peer would take that for loss: so its messages are written to the backend in between.
    /// And all peers together may send more than there is memory: so once a turn has received much, the memory of each
    /// peer is counted with its datagrams, and not only when it has its turn.
    fn relieve(&mut self, turn: &mut Turn<'_>, id: PeerId) {
        if self.endpoint.inbox_bytes(id) > INBOX_BYTES_SOON {
            self.with_stream(turn, id, |stream, side| stream.relieve(side));
        } else if self.received_bytes > UNACCOUNTED_MAX || self.memory.is_short() {
            self.account(id);
        }
    }

    /// What a datagram changed, and the packets that cannot wait for the end of the turn.
    pub(super) fn after_datagram(
        &mut self,
        now: Now,
        outgoing: &mut Outgoing,
        route: Route,
        handled: Handled,
    ) {
        self.on_handled(now, route, handled);
        while let Some(id) = touched(handled)
            && let Some(to) = self.endpoint.poll_urgent(now, id, outgoing.bytes())
        {
            outgoing.push(to, route.to);
        }
    }

    /// Whether a datagram goes on to the endpoint: peers have quotas, strangers need to be admitted.
    fn judge(
        &mut self,
        now: Now,
        from: SocketAddr,
        known: Option<PeerId>,
        datagram: &[u8],
    ) -> Result<Charged, Reject> {
        self.contention.on_datagram(known.map(PeerId::slot));
        match known {
            Some(id) => self.charge(now, id, datagram.len()),
            None => self
                .judge_stranger(now, from, datagram)
                .map(|()| Charged::NOTHING),
        }
    }

    /// Takes a peer's datagram of so many bytes from its quota.
    pub(super) fn charge(
        &mut self,
        now: Now,
        id: PeerId,
        length: usize,
    ) -> Result<Charged, Reject> {
        let Some(quota) = self.peers.get_mut(id).and_then(|peer| peer.quota.as_mut()) else {
            return Ok(Charged::NOTHING);
        };
        match quota.take_datagram(now.mono, length) {
            Ok(()) => Ok(Charged(Some(length))),
            Err(_) if !quota.is_strict() && !self.contention.is_contended() => Ok(Charged::NOTHING),
            Err(reject) => Err(reject),
        }
    }

    /// Takes from a peer's quota what its datagram turned out to carry, if it paid for the datagram.
    fn surcharge(&mut self, id: PeerId, charged: Charged) {
        let bytes = self.endpoint.take_surcharge(id);
        if bytes > 0
            && let Charged(Some(_)) = charged
            && let Some(quota) = self.peers.get_mut(id).and_then(|peer| peer.quota.as_mut())
        {
            quota.owe(bytes);
        }
    }

    /// Gives a peer back what a datagram took from its quota, if anybody could have sent that datagram. Otherwise a
    /// stranger who forges the peer's address would use the quota up and so silence the peer. Nothing is given back
    /// while peers wait for each other: the time that forged datagrams take is then taken from other peers.
    pub(super) fn refund(&mut self, id: PeerId, reject: Reject, charged: Charged) {
        if let Charged(Some(length)) = charged
            && reject.proves_no_sender()
            && !self.contention.is_contended()
            && let Some(quota) = self.peers.get_mut(id).and_then(|peer| peer.quota.as_mut())
        {
            quota.give_back(length);
        }
    }

    pub(super) fn on_handled(&mut self, now: Now, route: Route, handled: Handled) {
        match handled {
            Handled::Accepted(id) => self.insert(now.mono, id, route),
            Handled::Moved(id) => self.on_moved(id, route),
            Handled::Peer(id) => self.touch(id),
            Handled::PeerRejected(id, reject) => {
                // A session that takes nothing now may be that of a peer that has moved here all the same.
                if (self.peers.get(id)).is_some_and(|peer| peer.has_moved_to(route.from)) {
                    self.on_moved(id, route);
                }
                self.counters.on_reject(reject);
                if let (Reject::BadFragment, Some(peer)) = (reject, self.peers.get_mut(id)) {
                    peer.has_misfit_fragments = true;
                }
                // Only what was proved to be the peer's own doing may count against its address.
                if matches!(reject, Reject::ProtocolError | Reject::BadAck) {
                    self.strike(now.mono, route.from);
                }
                self.touch(id);
            }
            Handled::Rejected(reject) => {
                self.counters.on_reject(reject);
                self.note_refused(reject);
                self.log_wrong_address(reject, route.from);
                self.log_refused(now.mono, route.from, reject);
            }
            Handled::Replied => {}
        }
    }

    /// One that was here, and silent, is now where the peer was.
    pub(super) fn on_moved(&mut self, id: PeerId, route: Route) {
        self.counters.address_moves += 1;
        if let Some(peer) = self.peers.get_mut(id) {
            let was_at = std::mem::replace(&mut peer.remote, route.from);
            peer.ours = route.to;
            if let Some(other) = self.endpoint.find(was_at) {
                self.on_put(other);
            }
        }
        self.touch(id);
    }

    /// A silent peer was put to where one was that is at its address now.
    pub(super) fn on_put(&mut self, id: PeerId) {
        if let Some(peer) = self.peers.get_mut(id)
            && let Some(address) = self.endpoint.address(id)
        {
            peer.remote = address;
        }
    }
}

/// Bytes of a datagram that a peer's quota paid for, if it did.
#[derive(Clone, Copy)]
pub(super) struct Charged(Option<usize>);

impl Charged {
    /// It was a stranger's, or of a peer that may send what it likes.
    pub(super) const NOTHING: Self = Self(None);
}

fn touched(handled: Handled) -> Option<PeerId> {
    match handled {
        Handled::Peer(id)
        | Handled::Moved(id)
        | Handled::PeerRejected(id, _)
        | Handled::Accepted(id) => Some(id),
        Handled::Replied | Handled::Rejected(_) => None,
    }
}

/// Batches received before the other steps get their turn: 8 of up to 32 buffers.
const BATCHES_PER_TURN: usize = 8;

/// Most of what one write to the backend takes, and less than an inbox of 64 KiB refuses, which is small.
const INBOX_BYTES_SOON: usize = 48 * 1024;

/// What comes in a turn before each peer is accounted for with its datagrams, and not when it has its turn: a
/// few hundred packets of players.
const UNACCOUNTED_MAX: usize = 64 * 1024;
