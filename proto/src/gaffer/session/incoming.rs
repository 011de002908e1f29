//! What a packet of the peer brings: acknowledgements, messages, or proof that the peer is another one.

use std::time::Duration;

use super::Session;
use super::other_incarnation::OtherIncarnation;
use crate::gaffer::acks::{Order, Received};
use crate::gaffer::numbering::FalseAck;
use crate::gaffer::receiver::{self, Brought};
use crate::gaffer::wire::{self, Header, KEEP_ALIVE, is_more_recent};
use crate::gaffer::{Late, Payload};
use crate::sender::{Heard, Worth};
use crate::session::{CloseReason, Reject};
use crate::stall::{Progress, STALL_TIMEOUT};
use crate::time::{Span, Timestamp};

impl Session {
    pub(super) fn handle_packet(
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
        if let Err(ack) = self.numbering.judge(&header) {
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

    /// Wherever a peer begins to count, it is followed. Peers without messages are those of the article, which follows
    /// only what is newer than 0.
    fn begins_anywhere(&self) -> bool {
        matches!(self.params.payload, Payload::Messages)
    }

    /// The peer is there.
    pub(super) fn on_alive(&mut self, now: Timestamp) {
        self.lifecycle.on_heard(now);
        self.heard_clock.on_heard(now, PACKET_EVERY_MAX);
    }

    /// A packet of the peer's, taken or not.
    fn on_heard(&mut self, now: Timestamp, header: &Header, is_newer: bool) {
        self.on_alive(now);
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
        let is_recent = self.numbering.is_recent(header);
        if self
            .other_incarnation
            .is_shown_by(header.sequence, is_recent)
            && is_alone
        {
            // It has heard packets of this session, and takes them for the beginning of its own.
            self.lifecycle.close(CloseReason::Replaced);
        }
        Reject::Stale
    }

    /// Where there are no messages nobody waits for a packet, and the article's rule is all there is.
    pub(super) fn expire(&mut self, now: Timestamp) {
        let remembered = match self.params.payload {
            Payload::Messages => self.sender.remembered_from(),
            Payload::Raw { .. } => u64::MAX,
        };
        self.sent.expire(now, remembered);
    }

    fn on_acks(&mut self, now: Timestamp, header: &Header, in_order: bool) {
        self.expire(now);
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
    pub(super) fn check_stall(&mut self, now: Timestamp) {
        let progress = Progress {
            acked: self.sender.packets_acked(),
            delivered: self.stats.messages_received,
            reliable: self.inbox.reliable_ever(),
        };
        self.stall
            .on_heard(now, self.sender.waits_since(), progress);
        if self.stall.is_over(|| receiver::WINDOW.into()) {
            self.lifecycle.close(CloseReason::PeerStalled);
        }
    }

    /// A peer that leaves out a message, or a fragment of one, and goes on is given up as well.
    pub(super) fn check_gap(&mut self) {
        let heard = self.heard_clock.now();
        if !self.is_taking() {
            self.receiver.excuse(heard);
        }
        let since = self.receiver.waits_since();
        if since.is_some_and(|since| heard.since(since) >= STALL_TIMEOUT) {
            self.lifecycle.close(CloseReason::PeerGapStall);
        }
    }
}

/// How long this incarnation has said nothing when one from outside the window is believed.
const OTHER_INCARNATION_SILENCE: Duration = Duration::from_secs(1);

/// Packets further apart than this count against a gap as if they were not: ten seconds of it are at
/// least forty packets that could have closed it.
const PACKET_EVERY_MAX: Span = Span::from_millis(250);
