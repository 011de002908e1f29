//! One peer that speaks yojimbo: three layers called in order, and the life of the session.
//!
//! ```text
//!   datagram ─▶ Link::open ─▶ Incoming ─▶ inbox ─▶ poll_message
//!                                │ acks, what to acknowledge
//!                                ▼
//!   send ─────────────────▶ Outgoing ─▶ Link::seal ─▶ poll_transmit
//!
//!   Waiting ──admit──▶ Open ──finish──▶ Finishing ──all acked, or lingered──▶ Closed
//!      └──────────────── close, silence, a broken rule ────────────────────────▲
//! ```

mod closing;
mod joining;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::incoming::{Incoming, Taken, Trouble};
use super::netcode::wire::Sizes;
use super::netcode::{ClientHandshake, Link, LinkOrigin, Received, Seat, Seated};
use super::outgoing::Outgoing;
use super::params::Params;
use crate::sender::Worth;
use crate::session::{
    Allowance, Channel, CloseReason, Event, Held, Identity, Message, Origin, Reject, SendError, Way,
};
use crate::stall::{AckStall, Progress};
use crate::stats::Stats;
use crate::time::{Deadline, Now, Timestamp, Wake};

/// A session over a netcode link: a server's from the moment its client is authenticated, a client's
/// from the moment it is connected, or already from its answer to the challenge.
pub struct Session {
    params: Arc<Params>,
    link: Link,
    /// A client's until its server says that it is in: what it says leaves behind its answer, and nothing is taken.
    joining: Option<Box<ClientHandshake>>,
    phase: Phase,
    incoming: Incoming,
    outgoing: Outgoing,
    stall: AckStall,
    events: VecDeque<Event>,
    identity: ClientIdentity,
    /// Slot and client id of a server's peer, given back when the session closes.
    seat: Option<Seat>,
    /// What it began with.
    seed: u64,
    link_origin: LinkOrigin,
}

/// Where the session is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Authenticated; the backend is being opened.
    Waiting,
    /// Messages flow, once a server's client was told so: the link waits until then.
    Open,
    /// The owner has nothing more to say.
    Finishing {
        reason: CloseReason,
        since: Timestamp,
        linger: Duration,
    },
    /// Over. So many goodbyes, or one denial, are still to be sent.
    Closed { goodbyes: usize, denial: bool },
}

#[derive(Debug, Default)]
struct ClientIdentity {
    client_id: Option<u64>,
    user_data: Option<super::netcode::token::UserData>,
}

impl Session {
    /// A server's session with a client that answered its challenge. Waits to be admitted.
    pub fn seated(now: Now, params: Arc<Params>, seated: Seated, seed: u64) -> Self {
        let Seated {
            link,
            seat,
            user_data,
        } = seated;
        let identity = ClientIdentity {
            client_id: Some(seat.client_id()),
            user_data: Some(user_data),
        };
        Self {
            events: [Event::Authenticated].into(),
            identity,
            seat: Some(seat),
            ..Self::new(now, params, link, Phase::Waiting, seed)
        }
    }

    /// A server's session that repeats another one, from its [`Origin`]: under keys of its own and
    /// without a seat.
    pub fn replayed(now: Now, params: Arc<Params>, origin: Origin) -> Self {
        let [seed, link @ ..] = origin;
        let link = Link::replayed(now, LinkOrigin::from_words(link));
        Self {
            events: [Event::Authenticated].into(),
            ..Self::new(now, params, link, Phase::Waiting, seed)
        }
    }

    /// A client's session, which its server has just admitted.
    pub fn connected(now: Now, params: Arc<Params>, link: Link, seed: u64) -> Self {
        Self {
            events: [Event::Connected].into(),
            stall: AckStall::of_server(now.mono),
            ..Self::new(now, params, link, Phase::Open, seed)
        }
    }

    fn new(now: Now, params: Arc<Params>, mut link: Link, phase: Phase, seed: u64) -> Self {
        let link_origin = link.origin();
        link.go_beyond(params.beyond());
        Self {
            link,
            joining: None,
            phase,
            incoming: Incoming::new(now, &params),
            outgoing: Outgoing::new(now, &params, seed),
            stall: AckStall::of_client(now.mono),
            events: VecDeque::new(),
            identity: ClientIdentity::default(),
            seat: None,
            seed,
            link_origin,
            params,
        }
    }

    fn handle_payload(&mut self, now: Now, reliable: &[u8]) -> Result<(), Reject> {
        // Once the owner is done nothing more is taken, and so nothing more is acknowledged. What comes while it
        // opens the backend waits in the inbox.
        let is_taking = matches!(self.phase, Phase::Open | Phase::Waiting);
        let outgoing = &mut self.outgoing;
        let heard = self
            .incoming
            .handle(now, reliable, is_taking, |acks| outgoing.on_acks(now, acks));
        match heard {
            Ok(None) => Ok(()),
            Ok(Some(Taken { worth, in_order })) => {
                outgoing.sender.on_received(now.mono, worth, in_order);
                Ok(())
            }
            Err(Trouble::Reject(reject)) => {
                if matches!(reject, Reject::Stale | Reject::Refused) {
                    // The peer repeats something, or asks whether there is room again: let it hear from us soon.
                    outgoing.sender.on_received(now.mono, Worth::Repeats, true);
                }
                Err(reject)
            }
            Err(Trouble::Broken(reject)) => {
                self.end(CloseReason::ProtocolViolation);
                Err(reject)
            }
        }
    }

    /// What a peer that is heard does not do: acknowledge, or send what others wait for.
    fn judge_peer(&mut self, now: Now) {
        let sender = &self.outgoing.sender;
        let progress = Progress {
            acked: sender.packets_acked(),
            delivered: self.incoming.messages_received(),
            reliable: self.incoming.inbox.reliable_ever(),
        };
        self.stall
            .on_heard(now.mono, sender.waits_since(), progress);
        let is_open = matches!(self.phase, Phase::Open);
        let is_waited_for = is_open || matches!(self.phase, Phase::Finishing { .. });
        let queue = || self.incoming.queue_of_peer();
        if is_waited_for && self.stall.is_over(queue) {
            self.end(CloseReason::PeerStalled);
        } else if is_open && self.incoming.is_stalled() {
            self.end(CloseReason::PeerGapStall);
        }
    }

    fn transmit_payload(&mut self, now: Now, out: &mut Vec<u8>) -> bool {
        if !self.outgoing.poll(now, || self.incoming.take_ack()) {
            return false;
        }
        if self.link.preface(now, out) {
            return true;
        }
        let sealing = if self.outgoing.sender.uses_second_cipher() {
            self.link.begin_gcm(out)
        } else {
            self.link.begin(out)
        };
        let record = self.incoming.record();
        self.outgoing.write(&self.params.layout, record, out);
        self.link.seal(now, out, sealing);
        self.outgoing.on_written(now);
        true
    }
}

impl crate::session::Session for Session {
    fn handle_datagram(&mut self, now: Now, datagram: &mut [u8]) -> Result<(), Reject> {
        if matches!(self.phase, Phase::Closed { .. }) {
            return Err(Reject::UnknownPeer);
        }
        if let Some(handshake) = &mut self.joining
            && !Link::reads_as_payload(datagram)
        {
            let server = handshake.server();
            let outcome = handshake.handle_datagram(now, &mut self.link, server, datagram);
            self.follow_handshake(now);
            return outcome;
        }
        let is_large = Sizes::is_beyond_standard(datagram);
        let opened = self.link.open(now, datagram)?;
        let result = match opened {
            Received::Payload { bytes, .. } => {
                // A server that has heard us puts no keep-alive before its payloads, and its first may have got lost.
                self.on_let_in(now);
                self.outgoing
                    .sender
                    .on_datagram_heard(now.mono, bytes.len(), is_large);
                if is_large {
                    self.incoming.widen();
                }
                self.handle_payload(now, bytes)
            }
            Received::KeepAlive { .. } | Received::Handshake => {
                self.incoming.on_heard(now.mono);
                Ok(())
            }
            Received::Disconnect => {
                self.end(CloseReason::PeerDisconnect);
                Ok(())
            }
        };
        self.judge_peer(now);
        result
    }

    fn handle_timeout(&mut self, now: Now) {
        if matches!(self.phase, Phase::Closed { .. }) {
            return;
        }
        if let Some(handshake) = &mut self.joining {
            handshake.handle_timeout(now, &mut self.link);
            self.follow_handshake(now);
        }
        if let Some(reason) = self.overdue(now) {
            self.end(reason);
        }
        if matches!(self.phase, Phase::Closed { .. }) {
            return;
        }
        if self.is_held_up() {
            return;
        }
        self.incoming.handle_timeout(now);
        self.outgoing.sender.handle_timeout(now.mono);
    }

    fn admit(&mut self, _now: Now) {
        if self.phase == Phase::Waiting {
            self.phase = Phase::Open;
            self.events.push_back(Event::Connected);
        }
    }

    fn send(&mut self, now: Now, channel: Channel, payload: &[u8]) -> Result<(), SendError> {
        if !matches!(self.phase, Phase::Open) {
            return Err(SendError::Closed);
        }
        self.outgoing
            .push(now, &self.params.layout, channel, payload)
    }

    fn finish(&mut self, now: Now, reason: CloseReason, linger: Duration) {
        self.begin_to_finish(now, reason, linger);
    }

    fn close(&mut self, _now: Now, reason: CloseReason) {
        self.end(reason);
    }

    fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> bool {
        match self.phase {
            Phase::Waiting => return false,
            Phase::Closed { .. } => return self.transmit_goodbye(now, out),
            // Whatever is to be delivered: until then the client takes nothing, and is not taken from.
            Phase::Open | Phase::Finishing { .. } if self.link.is_waiting() => {
                self.link.admit(now, Some(CONFIRM_TIMEOUT), out);
                return true;
            }
            Phase::Finishing { reason, .. }
                if self.joining.is_none()
                    && self.outgoing.sender.is_drained()
                    && !self.outgoing.sender.hurry_ack(now.mono) =>
            {
                self.end(reason);
                return self.transmit_goodbye(now, out);
            }
            Phase::Open | Phase::Finishing { .. } => {}
        }
        if let Some(handshake) = &mut self.joining
            && handshake.poll_transmit(now, &mut self.link, out)
        {
            return true;
        }
        if !self.is_held_up() && self.transmit_payload(now, out) {
            return true;
        }
        let due = self.joining.is_none() && self.link.is_keep_alive_due(now);
        if due {
            self.link.keep_alive(now, out);
        }
        due
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_message(&mut self) -> Option<Message<'_>> {
        self.incoming.inbox.pop()
    }

    fn inbox_bytes(&self) -> usize {
        self.incoming.inbox.payload_bytes()
    }

    fn held(&self) -> Held {
        Held {
            outbox: self.outgoing.sender.held(),
            ..self.incoming.held()
        }
    }

    fn set_allowance(&mut self, allowance: Allowance) {
        self.incoming.inbox.set_allowance(allowance);
    }

    fn take_surcharge(&mut self) -> usize {
        std::mem::take(&mut self.incoming.surcharge)
    }

    fn release(&mut self) {
        self.incoming.release();
        self.outgoing.sender.release();
    }

    fn confirm_written(&mut self, now: Now) {
        if self.incoming.confirm_written() {
            // The peer has waited for this: let the acknowledgement leave soon.
            self.outgoing
                .sender
                .on_received(now.mono, Worth::News, false);
        }
    }

    fn has_room(&self) -> bool {
        matches!(self.phase, Phase::Open) && self.outgoing.sender.has_room()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let link = match &self.joining {
            Some(handshake) => handshake.poll_timeout(),
            None => self.link.poll_timeout(),
        };
        let until = match self.phase {
            Phase::Closed { .. } => return None,
            Phase::Waiting => return link,
            Phase::Open => None,
            Phase::Finishing { .. } => Deadline::of(self.lingers_until(), Wake::Linger),
        };
        if self.is_held_up() {
            return Deadline::earliest([link, until]);
        }
        Deadline::earliest([
            link,
            until,
            Deadline::of(self.incoming.wakes_at(), Wake::Resend),
            self.outgoing.sender.poll_timeout(),
        ])
    }

    fn piece_bytes(&self) -> usize {
        self.params.piece_bytes(self.outgoing.sender.datagram())
    }

    fn is_urgent(&self) -> bool {
        self.outgoing.sender.is_ack_urgent()
    }

    fn vouches_for(&self, datagram: &[u8]) -> bool {
        self.link.vouches_for(datagram)
    }

    fn reads_as_goodbye(&self, datagram: &[u8]) -> bool {
        Link::reads_as_goodbye(datagram)
    }

    fn identity(&self) -> Identity<'_> {
        Identity {
            client_id: self.identity.client_id,
            user_data: self
                .identity
                .user_data
                .as_ref()
                .map_or(&[], |data| data.as_bytes()),
        }
    }

    fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        self.incoming.fill_stats(&mut stats);
        self.outgoing.sender.fill_stats(&mut stats);
        stats
    }

    fn origin(&self) -> Origin {
        let mut origin = [self.seed; 5];
        origin[1..].copy_from_slice(&self.link_origin.to_words());
        origin
    }

    fn reveal(&self, way: Way, datagram: &[u8], clear: &mut Vec<u8>) -> bool {
        self.link.reveal(way, datagram, clear)
    }

    fn conceal(&self, clear: &[u8], datagram: &mut Vec<u8>) -> bool {
        self.link.conceal(clear, datagram)
    }
}

/// A server's peer that says nothing for so long after it was seated is given up (docs/wire/netcode.md, section 9).
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(5);
