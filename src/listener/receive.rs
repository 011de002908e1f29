//! What arrives: batches of datagrams, to their peers at once, and strangers' to a queue (`strangers.rs`).

use std::net::SocketAddr;

use tidegate_proto::{Handled, Now, PeerId, Reject, Stats};

use super::{Listener, Turn};
use crate::udp::{Outgoing, Route};

impl Listener {
    /// Datagrams first: they carry the acknowledgements that make room for everything else, and a
    /// packet that waits in the socket must count before its session times out.
    pub fn receive(&mut self, turn: &mut Turn<'_>) {
        self.open_or_shut();
        self.read_letters(turn);
        if self.is_readable() {
            self.receive_by(turn, None);
        }
        self.intake.on_turn(self.is_readable());
        for id in std::mem::take(&mut self.readable_peers) {
            if self.receive_by(turn, Some(id)) {
                self.readable_peers.push(id);
            }
            // What was urgent goes out by this very socket: the far end knows the peer by it.
            self.flush(turn, Some(id));
        }
    }

    /// What came to this peer's own socket, or to the one that all share; whether more may be left there.
    fn receive_by(&mut self, turn: &mut Turn<'_>, whose: Option<PeerId>) -> bool {
        for _ in 0..BATCHES_PER_TURN {
            let Some(socket) = self.peers.socket(whose, &mut self.socket) else {
                return false;
            };
            let batch = socket.receive(turn.received);
            let may_have_left = socket.is_readable();
            if let Some(drops) = batch {
                self.counters.kernel_drops += drops;
                self.handle_batch(turn, whose);
            }
            if !may_have_left {
                return false;
            }
        }
        true
    }

    fn handle_batch(&mut self, turn: &mut Turn<'_>, whose: Option<PeerId>) {
        self.counters.receive_calls += 1;
        // The address that stands for a peer whose socket is its own.
        let dialled = whose.and_then(|id| Some(self.peers.get(id)?.dialled.as_ref()?.local));
        for index in 0..turn.received.len() {
            self.handle_buffer(turn, index, dialled);
        }
        // Replies and urgent packets of this batch need not wait for the next.
        if turn.outgoing.is_full() {
            self.flush(turn, whose);
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
        let (mut known, mut refusals, mut unseen) = (None, 0, None);
        for datagram in datagrams {
            if let Some(reject) = unseen {
                self.refuse_unseen(reject, datagram);
                continue;
            }
            match self.handle_datagram(turn.now, turn.outgoing, route, datagram) {
                Ok(id) => known = id,
                Err(reject) => {
                    refusals += 1;
                    unseen = (refusals == REFUSALS_LOOKED_AT).then_some(reject);
                }
            }
        }
        if let Some(id) = known {
            self.relieve(turn, id);
        }
    }

    /// One of a stranger who was refused often enough just now.
    fn refuse_unseen(&mut self, reject: Reject, datagram: &[u8]) {
        self.on_received(datagram);
        self.counters.on_reject(reject);
    }

    fn on_received(&mut self, datagram: &[u8]) {
        self.counters.datagrams_received += 1;
        self.counters.datagram_bytes_received += datagram.len() as u64;
        self.intake.on_bytes(datagram.len());
    }

    /// One datagram: to the peer that it is from, which is returned; without one, to the strangers. An error is what a
    /// stranger was refused for at once.
    fn handle_datagram(
        &mut self,
        now: Now,
        outgoing: &mut Outgoing,
        route: Route,
        datagram: &mut [u8],
    ) -> Result<Option<PeerId>, Reject> {
        self.on_received(datagram);
        let known = self.endpoint.find(route.from);
        let charged = match self.judge(now, route.from, known, datagram) {
            Ok(charged) => charged,
            Err(reject) => {
                self.counters.on_reject(reject);
                if known.is_none() {
                    self.log_refused(now.mono, route.from, reject);
                    return Err(reject);
                }
                return Ok(known);
            }
        };
        let Some(id) = known else {
            if !self.strangers.queue.take_in(route, datagram) {
                self.counters.on_reject(Reject::ListenerLimited);
            }
            return Ok(None);
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
        Ok(touched(handled))
    }

    /// Keeps what one turn receives within bounds. A turn may read megabytes from one peer, whose inbox would then
    /// refuse packets, and the peer would take that for loss: so its messages are written to the backend in between.
    /// And all peers together may send more than there is memory: so once a turn has received much, the memory of each
    /// peer is counted with its datagrams, and not only when it has its turn.
    fn relieve(&mut self, turn: &mut Turn<'_>, id: PeerId) {
        if self.endpoint.inbox_bytes(id) > INBOX_BYTES_SOON {
            self.with_stream(turn, id, |stream, side| stream.relieve(side));
        } else if self.intake.is_large() || self.memory.is_short() {
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
        self.intake.on_datagram(known.map(PeerId::slot));
        match known {
            Some(id) => self.charge(now, id, datagram.len()),
            None => self
                .strangers
                .judge(&mut self.endpoint, now, from, datagram)
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
            Err(_) if !quota.is_strict() && !self.intake.is_contended() => Ok(Charged::NOTHING),
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
            && !self.intake.is_contended()
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
                    peer.notes.has_misfit_fragments = true;
                }
                // Only what was proved to be the peer's own doing may count against its address.
                if matches!(reject, Reject::ProtocolError | Reject::BadAck)
                    && !self.has_moved_on(id, reject)
                {
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

    /// Whether the very first that a peer sent acknowledges packets of another server. Clients of yojimbo's library do
    /// that when a server tells them to go and their token names a next one: they go on there with what they had. A
    /// drain sends all of its players on together, many from one address, and they will be back with new tokens.
    fn has_moved_on(&mut self, id: PeerId, reject: Reject) -> bool {
        let is_first = |stats: Stats| stats.packets_received == 0;
        let has_moved_on =
            reject == Reject::BadAck && self.endpoint.stats(id).is_some_and(is_first);
        if let (true, Some(peer)) = (has_moved_on, self.peers.get_mut(id)) {
            peer.notes.has_moved_on = true;
        }
        has_moved_on
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

/// A stranger's datagrams of one buffer that may be refused before the others are, unseen. The kernel joins 64 of one
/// byte, whose places in its queue cost next to nothing: looked at one by one, a queue full of them takes a worker a tenth
/// of a second. No client says so much at once before it is in; one that was in, and that a NAT gave another port, is found
/// by the first of them.
const REFUSALS_LOOKED_AT: usize = 8;
