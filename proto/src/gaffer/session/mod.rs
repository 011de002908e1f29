//! One gaffer peer: the virtual connection, and packets to and from the layers below it.
//!
//! Rule: docs/wire/gaffer.md, sections 2 to 6.

use std::time::Duration;

use crate::gaffer::acks::{Order, Received, Sent};
use crate::gaffer::numbering::{FalseAck, Numbering, Place};
use crate::gaffer::receiver::{self, Brought, Receiver};
use crate::gaffer::wire::{self, Header, KEEP_ALIVE, Record, is_more_recent};
use crate::gaffer::{Late, Params, Payload};
use crate::inbox::Inbox;
use crate::lifecycle::Lifecycle;
use crate::sender::{Heard, Planned, Sender, Worth};
use crate::session::{
    Allowance, Channel, CloseReason, Event, Held, Identity, Message, Origin, Reject, SendError,
    Session as Interface,
};
use crate::stall::{AckStall, Done, HeardClock};
use crate::stats::Stats;
use crate::time::{Deadline, Now, Span, Timestamp, Wake};

/// How often a dialling session says hello, until it is answered.
const HELLO_INTERVAL: Duration = Duration::from_millis(100);

/// Packets in a row, each the one after the last, that show another incarnation of the peer; believed only
/// when they acknowledge what we sent lately, which a forger off the path can only guess, and, from outside
/// the window, when this one has been silent for a while.
const OTHER_INCARNATION_RUN: u8 = 4;
const OTHER_INCARNATION_SILENCE: Duration = Duration::from_secs(1);

/// Packets further apart than this count against a gap as if they were not: ten seconds of it are at
/// least forty packets that could have closed it.
const PACKET_EVERY_MAX: Span = Span::from_millis(250);

/// One peer's state.
pub struct Session {
    params: Params,
    lifecycle: Lifecycle,
    numbering: Numbering,
    received: Received,
    sent: Sent,
    sender: Sender,
    receiver: Receiver,
    inbox: Inbox,
    stats: Stats,
    stall: AckStall,
    /// The time that counts against gaps.
    heard_clock: HeardClock,
    /// While dialling: when the next hello leaves. Once after that: at once, because the peer waits for
    /// the acknowledgement of its first packet.
    hello_at: Option<Timestamp>,
    /// What the newest packet acknowledged.
    newest_ack: u32,
    other_incarnation: OtherIncarnation,
    /// What an accepted session was seeded with.
    seed: u64,
}

#[derive(Debug, Default)]
struct OtherIncarnation {
    next: u32,
    run: u8,
}

impl Session {
    /// A session that dials a peer. `seed` makes its first sequence and must be unpredictable:
    /// whoever can guess it can forge acknowledgements.
    pub fn dial(now: Now, params: &Params, seed: u64) -> Self {
        let lifecycle = Lifecycle::dialing(now.mono, params.idle_timeout, params.goodbyes());
        Self {
            hello_at: Some(now.mono),
            stall: AckStall::of_server(now.mono),
            ..Self::new(now, params, Numbering::drawn(seed), lifecycle)
        }
    }

    /// A session of a peer that is known to receive what we send, or trusted to.
    pub(super) fn accept(now: Now, params: &Params, first_sequence: u32, seed: u64) -> Self {
        let numbering = Numbering::starting_at(first_sequence, seed);
        let lifecycle = Lifecycle::waiting(now.mono, params.idle_timeout, params.goodbyes());
        Self {
            seed,
            ..Self::new(now, params, numbering, lifecycle)
        }
    }

    /// An accepted session that repeats another one, from its [`Origin`].
    pub fn replayed(now: Now, params: &Params, origin: Origin) -> Self {
        let [first_sequence, seed, ..] = origin;
        Self::accept(now, params, first_sequence as u32, seed)
    }

    fn new(now: Now, params: &Params, numbering: Numbering, lifecycle: Lifecycle) -> Self {
        let now = now.mono;
        Self {
            lifecycle,
            numbering,
            received: Received::default(),
            sent: Sent::default(),
            sender: Sender::new(now, params.sender(), params.framing(), &params.lanes()),
            receiver: Receiver::new(now, params.message_max()),
            inbox: Inbox::new(params.inbox_max),
            stats: Stats::default(),
            stall: AckStall::of_client(now),
            heard_clock: HeardClock::new(now),
            hello_at: None,
            newest_ack: 0,
            other_incarnation: OtherIncarnation::default(),
            seed: 0,
            params: params.clone(),
        }
    }

    /// Wherever a peer begins to count, it is followed. Peers without messages are those of the article, which follows
    /// only what is newer than 0.
    fn begins_anywhere(&self) -> bool {
        matches!(self.params.payload, Payload::Messages)
    }

    fn handle_packet(
        &mut self,
        now: Timestamp,
        header: Header,
        payload: &[u8],
    ) -> Result<(), Reject> {
        let is_first = self.begins_anywhere() && !self.received.is_some();
        let order = if is_first {
            Order::Newer { in_order: true }
        } else {
            self.received.order(header.sequence)
        };
        if order == Order::Outside {
            let was_silent = now.since(self.lifecycle.last_heard()) > OTHER_INCARNATION_SILENCE;
            return Err(self.on_other_incarnation(&header, was_silent));
        }
        if let Err(ack) = self.numbering.judge(now, &header) {
            if ack == FalseAck::Invented {
                self.lifecycle.close(CloseReason::ProtocolViolation);
            }
            return Err(Reject::BadAck);
        }
        let is_newer = matches!(order, Order::Newer { .. });
        if !is_newer && self.knows_too_much(&header) {
            return Err(self.on_other_incarnation(&header, true));
        }
        // From here on the packet is the peer's, whatever becomes of its payload.
        self.on_heard(now, &header, is_newer);
        let in_order = order == Order::Newer { in_order: true };
        self.on_acks(now, &header, in_order);
        if order == Order::Duplicate {
            self.stats.packets_duplicate += 1;
            return Err(Reject::Stale);
        }
        self.stats.packets_out_of_order += u64::from(order == Order::Late);
        let brought = match self.params.payload {
            Payload::Raw { late } => self.take_raw(payload, order, late)?,
            Payload::Messages => self.take_messages(now, payload)?,
        };
        if is_first {
            self.received = Received::starting_at(header.sequence.wrapping_sub(1));
        }
        self.received.insert(header.sequence);
        self.count(&brought);
        self.sender.on_received(now, brought.worth(), in_order);
        if brought.is_goodbye {
            self.lifecycle.end(CloseReason::PeerDisconnect);
        }
        Ok(())
    }

    /// A packet of the peer's, taken or not.
    fn on_heard(&mut self, now: Timestamp, header: &Header, is_newer: bool) {
        self.lifecycle.on_heard(now);
        self.heard_clock.on_heard(now, PACKET_EVERY_MAX);
        self.received.on_heard(header.sequence);
        self.other_incarnation = OtherIncarnation::default();
        if is_newer {
            self.newest_ack = header.ack;
        }
    }

    /// A packet was taken.
    fn count(&mut self, brought: &Brought) {
        self.stats.packets_received += 1;
        self.stats.messages_received += brought.messages;
        self.stats.message_bytes_received += brought.bytes;
        self.stats.messages_duplicate += brought.duplicates;
        self.stats.fragments_received += brought.fragments;
    }

    fn take_messages(&mut self, now: Timestamp, payload: &[u8]) -> Result<Brought, Reject> {
        let records = wire::parse(payload).map_err(|wire::Malformed| Reject::Malformed)?;
        let is_taking = self.is_taking();
        if let Err(reject) = self.receiver.judge(records, is_taking, &self.inbox) {
            if reject == Reject::Refused {
                self.stats.packets_refused += 1;
                // It asks for room: let it hear that we are there.
                self.sender.on_received(now, Worth::Repeats, true);
            }
            let is_blocked = reject == Reject::Malformed && self.receiver.is_blocked_by(records);
            if is_blocked && self.lifecycle.takes_messages() {
                self.lifecycle.close(CloseReason::MessageTooLarge);
            }
            return Err(reject);
        }
        let heard = self.heard_clock.now();
        Ok(self.receiver.apply(heard, records, &mut self.inbox))
    }

    /// Each packet is one message. Nobody sends it again, so one that has no room is lost.
    fn take_raw(&mut self, payload: &[u8], order: Order, late: Late) -> Result<Brought, Reject> {
        let mut brought = Brought::default();
        if payload == [KEEP_ALIVE] {
            return Ok(brought);
        }
        if payload.len() > self.params.message_bytes_max {
            return Err(Reject::Malformed);
        }
        brought.has_content = true;
        brought.has_news = true;
        if order == Order::Late && late == Late::Drop && self.received.is_some() {
            self.stats.unreliable_dropped += 1;
        } else if !self.inbox.is_taking() {
            self.stats.packets_refused += 1;
            self.stats.unreliable_dropped += 1;
            return Err(Reject::Refused);
        } else {
            self.inbox.push(0, false, payload);
            brought.messages = 1;
            brought.bytes = payload.len() as u64;
        }
        Ok(brought)
    }

    /// Whether a packet of an old number acknowledges more than the newest one did, as only that of a
    /// peer can that began to count again. Without messages that does no harm.
    fn knows_too_much(&self, header: &Header) -> bool {
        self.params.payload == Payload::Messages
            && self.newest_ack != 0
            && header.ack != 0
            && is_more_recent(header.ack, self.newest_ack)
    }

    /// A packet that is forged, or from another incarnation of the peer: from far away, or of an old number
    /// and with new acknowledgements.
    fn on_other_incarnation(&mut self, header: &Header, is_alone: bool) -> Reject {
        let other = &mut self.other_incarnation;
        other.run = match self.numbering.is_recent(header) {
            true if other.run > 0 && header.sequence == other.next => other.run + 1,
            is_recent => is_recent.into(),
        };
        other.next = header.sequence.wrapping_add(1);
        if other.run >= OTHER_INCARNATION_RUN && is_alone {
            // It has heard packets of this session, and takes them for the beginning of its own.
            self.lifecycle.close(CloseReason::Replaced);
        }
        Reject::Stale
    }

    fn on_acks(&mut self, now: Timestamp, header: &Header, in_order: bool) {
        self.sent.expire(now);
        let heard = Heard {
            in_order,
            is_of_older: false,
        };
        self.sender.hear(now, heard, |hearing| {
            self.sent.on_header(header, |number| {
                hearing.acked(number);
            });
        });
        if let Some(since) = self.sender.waits_since() {
            self.lifecycle.on_progress(since);
        }
    }

    /// Whether messages are taken: there is room for them, and the owner is not done.
    fn is_taking(&mut self) -> bool {
        self.inbox.is_taking() && self.lifecycle.takes_messages()
    }

    /// A peer that is heard and acknowledges no reliable message is given up.
    fn check_stall(&mut self, now: Timestamp) {
        let done = Done {
            acked: self.sender.packets_acked(),
            delivered: self.stats.messages_received,
            reliable: self.inbox.reliable_ever(),
        };
        self.stall.on_heard(now, self.sender.waits_since(), done);
        if self
            .stall
            .is_over(self.params.stall_timeout, || receiver::WINDOW.into())
        {
            self.lifecycle.close(CloseReason::PeerStalled);
        }
    }

    /// A peer that leaves out a message, or a fragment of one, and goes on is given up as well.
    fn check_gap(&mut self) {
        let heard = self.heard_clock.now();
        if !self.is_taking() {
            self.receiver.excuse(heard);
        }
        let since = self.receiver.waits_since();
        if since.is_some_and(|since| heard.since(since) >= self.params.stall_timeout) {
            self.lifecycle.close(CloseReason::PeerGapStall);
        }
    }

    /// Begins a packet: takes the next place and writes its header.
    fn begin_packet(&mut self, out: &mut Vec<u8>) -> Place {
        let place = self.numbering.take();
        let (ack, ack_bits) = self.received.acks();
        let header = Header {
            protocol_id: self.params.protocol_id,
            sequence: place.sequence,
            ack,
            ack_bits,
        };
        header.emit(out);
        place
    }

    fn emit_planned(&self, out: &mut Vec<u8>) {
        let plan = self.sender.planned();
        for message in &plan.messages {
            self.emit_message(*message, out);
        }
        if let Some(fragment) = plan.fragment {
            let bytes = self.sender.fragment_payload(fragment);
            let (index, last) = (fragment.index as u8, (fragment.count - 1) as u8);
            wire::emit_fragment(fragment.id, index, last, bytes, out);
        }
        if plan.messages.is_empty() && plan.fragment.is_none() {
            out.push(KEEP_ALIVE);
        }
    }

    fn emit_message(&self, message: Planned, out: &mut Vec<u8>) {
        let payload = self.sender.payload(message);
        match (self.params.payload, message.lane) {
            (Payload::Raw { .. }, _) => {
                out.extend_from_slice(payload.0);
                out.extend_from_slice(payload.1);
            }
            (Payload::Messages, receiver::RELIABLE) => {
                wire::emit_reliable(message.id, payload, out);
            }
            (Payload::Messages, _) => wire::emit_unreliable(payload, out),
        }
    }
}

impl Interface for Session {
    fn handle_datagram(&mut self, now: Now, datagram: &mut [u8]) -> Result<(), Reject> {
        if self.lifecycle.is_closed() {
            return Err(Reject::UnknownPeer);
        }
        let id = self.params.protocol_id.to_be_bytes();
        if !datagram.starts_with(&id) {
            return Err(Reject::WrongProtocol);
        }
        let parsed = Header::parse(datagram).filter(|(_, payload)| !payload.is_empty());
        if parsed.is_some() && self.lifecycle.on_answer() {
            self.hello_at = Some(now.mono);
        }
        let result = match parsed {
            Some((header, payload)) => self.handle_packet(now.mono, header, payload),
            // Without a payload a packet is alive and nothing else; less than a header as well.
            None if datagram.len() > id.len() => {
                self.lifecycle.on_heard(now.mono);
                self.heard_clock.on_heard(now.mono, PACKET_EVERY_MAX);
                Ok(())
            }
            None => Err(Reject::Malformed),
        };
        if self.lifecycle.last_heard() == now.mono && !self.lifecycle.is_closed() {
            self.check_stall(now.mono);
            self.check_gap();
        }
        self.handle_timeout(now);
        result
    }

    fn handle_timeout(&mut self, now: Now) {
        if !self.lifecycle.is_closed() {
            self.sent.expire(now.mono);
            self.sender.handle_timeout(now.mono);
            self.lifecycle
                .check_clocks(now.mono, || self.sender.is_drained());
        }
    }

    fn admit(&mut self, _now: Now) {
        self.lifecycle.admit();
    }

    fn send(&mut self, now: Now, channel: Channel, payload: &[u8]) -> Result<(), SendError> {
        if !self.lifecycle.takes_messages() {
            return Err(SendError::Closed);
        }
        if let Payload::Raw { .. } = self.params.payload
            && (payload.is_empty() || payload == [KEEP_ALIVE])
        {
            // Such a packet means "nothing" to every receiver, so it would never be delivered.
            self.stats.unreliable_dropped += 1;
            return Ok(());
        }
        self.sender.push(now.mono, channel, payload)
    }

    fn finish(&mut self, now: Now, reason: CloseReason, linger: Duration) {
        let is_settled = || self.sender.is_drained();
        self.lifecycle.finish(now.mono, reason, linger, is_settled);
    }

    fn close(&mut self, _now: Now, reason: CloseReason) {
        self.lifecycle.close(reason);
    }

    fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> bool {
        if self.lifecycle.is_closed() {
            let is_due = self.lifecycle.poll_goodbye();
            if is_due {
                self.begin_packet(out);
                wire::emit(Record::Goodbye, out);
            }
            return is_due;
        }
        if self.hello_at.is_some_and(|at| at <= now.mono) {
            let again = self.lifecycle.is_dialing();
            self.hello_at = again.then(|| now.mono + HELLO_INTERVAL);
            self.begin_packet(out);
            out.push(KEEP_ALIVE);
            return true;
        }
        if self.lifecycle.is_dialing() || !self.sender.poll_packet(now.mono) {
            return false;
        }
        let start = out.len();
        let Place { sequence, number } = self.begin_packet(out);
        self.emit_planned(out);
        self.sender.on_sent(now.mono, number, out.len() - start);
        self.sent.on_sent(now.mono, sequence, number);
        true
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.lifecycle.poll_event()
    }

    fn poll_message(&mut self) -> Option<Message<'_>> {
        self.inbox.pop()
    }

    fn inbox_bytes(&self) -> usize {
        self.inbox.payload_bytes()
    }

    fn held(&self) -> Held {
        let (ahead, pieces) = self.receiver.held();
        Held {
            inbox: self.inbox.held(),
            ahead,
            pieces,
            outbox: self.sender.held(),
        }
    }

    fn set_allowance(&mut self, allowance: Allowance) {
        self.inbox.set_allowance(allowance);
    }

    fn release(&mut self) {
        self.receiver.release();
        self.sender.release();
    }

    fn has_room(&self) -> bool {
        !self.lifecycle.is_dialing() && self.sender.has_room()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let lifecycle = self.lifecycle.poll_timeout()?;
        let sending = match self.lifecycle.is_dialing() {
            true => None,
            false => self.sender.poll_timeout(),
        };
        Deadline::earliest([
            Some(lifecycle),
            Deadline::of(self.hello_at, Wake::Handshake),
            sending,
        ])
    }

    fn is_urgent(&self) -> bool {
        self.sender.is_ack_urgent()
    }

    fn identity(&self) -> Identity<'_> {
        Identity::default()
    }

    fn stats(&self) -> Stats {
        let mut stats = self.stats;
        let dropped = stats.unreliable_dropped;
        self.sender.fill_stats(&mut stats);
        stats.unreliable_dropped += dropped;
        let (ahead, pieces) = self.receiver.held();
        stats.assembly_bytes = (ahead + pieces) as u32;
        stats
    }

    fn origin(&self) -> Origin {
        [self.numbering.first_sequence().into(), self.seed, 0, 0, 0]
    }
}
