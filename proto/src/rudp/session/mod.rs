//! One rudp peer: what its records mean, and how it ends. What leaves is in `output`.
//!
//! Rule: docs/wire/rudp.md, sections 3 to 6.

mod echoes;
mod in_step;
mod output;
mod ping;
mod poll;

use std::time::Duration;

use crate::inbox::Inbox;
use crate::lifecycle::Lifecycle;
use crate::rudp::incoming::{Incoming, Taken};
use crate::rudp::outgoing::{Outgoing, Requested};
use crate::rudp::probe::is_probe_id;
use crate::rudp::wire::{self, Record};
use crate::rudp::{OnCorrupt, OnMissing, Params};
use crate::session::{
    Allowance, Channel, CloseReason, Event, Held, Identity, Message, Reject, SendError,
    Session as Interface,
};
use crate::stall::{STALL_TIMEOUT, StallTimer};
use crate::stats::Stats;
use crate::time::{Deadline, Now, Timestamp, Wake};

use echoes::Echoes;
use output::Output;
use ping::Ping;
use poll::Poll;

/// Two corrupt records count when they come within this span.
const CORRUPT_SPAN: Duration = Duration::from_secs(1);

/// Datagrams with a goodbye, of which two must arrive. A reference peer's next receive then returns -1.
const GOODBYES: u8 = 3;

/// Echoes of probes a dialling session gives away, in all.
const ECHOES_MAX: u8 = 32;

/// Messages from another incarnation of the peer, with none from this one between them, that say it
/// restarted.
const OTHER_INCARNATION_MAX: u8 = 8;

/// Until this one says nothing new for so long, they do not count: of thousands of messages said at once, what is late,
/// comes twice, or answers a question that was late itself, is as old.
const OTHER_INCARNATION_SILENCE: Duration = Duration::from_secs(1);

/// How long a new session holds its own messages back while it fetches what the peer sent before
/// it was accepted: the reference ignores requests for ids below its own receive counter, so our
/// first messages would make those unfetchable (docs/wire/rudp.md, section 5). As many as came
/// without a gap make none so.
const OPENING: Duration = Duration::from_secs(1);

/// One peer's state.
pub struct Session {
    params: Params,
    lifecycle: Lifecycle,
    incoming: Incoming,
    outgoing: Outgoing,
    inbox: Inbox,
    stats: Stats,
    output: Output,
    poll: Poll,
    ping: Ping,
    /// Until then nothing new is sent; see [`OPENING`].
    opening_until: Option<Timestamp>,
    echoes: Echoes,
    stall: StallTimer,
    corrupt_at: Option<Timestamp>,
    other_incarnation: u8,
    /// When a message of this one came.
    this_incarnation_at: Timestamp,
    /// Messages are being refused because the inbox is full.
    refusing: bool,
}

impl Session {
    /// A session that dials a peer. It opens with a request for message 0, which a reference peer
    /// and a tidegate both answer and neither takes amiss; a heartbeat would be taken amiss.
    pub fn dial(now: Now, params: Params) -> Self {
        let lifecycle = Lifecycle::dialing(now.mono, params.idle_timeout, GOODBYES);
        let mut session = Self::new(now, params, lifecycle);
        session.echoes = Echoes::new(ECHOES_MAX);
        session.poll.hurry(now.mono);
        session
    }

    /// A session of a peer that answered our probe, or is trusted without one.
    pub(super) fn accept(now: Now, params: Params) -> Self {
        let lifecycle = Lifecycle::waiting(now.mono, params.idle_timeout, GOODBYES);
        let mut session = Self::new(now, params, lifecycle);
        if params.probe {
            // What came before the probe was answered was not kept.
            session.opening_until = Some(now.mono + OPENING);
            session.poll.hurry(now.mono);
        }
        session
    }

    /// An accepted session that repeats another one: it begins with nothing but its rules.
    pub fn replayed(now: Now, params: Params) -> Self {
        Self::accept(now, params)
    }

    fn new(now: Now, params: Params, lifecycle: Lifecycle) -> Self {
        let params = params.sane();
        let now = now.mono;
        Self {
            lifecycle,
            incoming: Incoming::new(params.request_interval, params.request_interval_max),
            outgoing: Outgoing::new(now, params.limits()),
            inbox: Inbox::new(params.inbox_max),
            stats: Stats::default(),
            output: Output::new(now + params.tick * params.send_delay),
            poll: Poll::after_the_first_wait(now),
            ping: Ping::new(now),
            opening_until: None,
            echoes: Echoes::default(),
            stall: StallTimer::new(now),
            corrupt_at: None,
            other_incarnation: 0,
            this_incarnation_at: now,
            refusing: false,
            params,
        }
    }

    fn handle_records(&mut self, now: Timestamp, records: wire::Records<'_>) -> Result<(), Reject> {
        self.lifecycle.on_heard(now);
        self.note_received_below(now, records);
        self.refusing = !self.inbox.is_taking();
        let is_done = !self.lifecycle.takes_messages();
        let mut result = Ok(());
        for record in records {
            match record {
                // The reference answers a heartbeat with its receive counter, as if that were a
                // message of its own; we know better.
                Record::Heartbeat => self.outgoing.on_reference(),
                Record::Missing(_) => {}
                Record::Corrupt => self.on_corrupt(now),
                Record::Request(id) => self.on_request(now, id),
                // Nobody would take it any more. It stays missing, and so the peer knows that it did not arrive.
                Record::Message { .. } if is_done => result = Err(Reject::Refused),
                Record::Message { id, .. } if self.refusing => {
                    // Not stored, so it stays missing and will be asked for again.
                    self.incoming.on_refused(now, id, &self.inbox);
                    result = Err(Reject::Refused);
                }
                Record::Message { id, payload } => self.on_message(now, id, payload),
            }
        }
        for record in records {
            if let Record::Missing(id) = record {
                self.on_missing(now, id);
            }
        }
        self.outgoing.on_heard(now);
        self.stats.packets_refused += u64::from(result.is_err());
        self.deliver(now);
        self.check_stall(now);
        if self.opening_until.is_some() && self.incoming.has_all_from_the_start(records) {
            self.opening_until = None;
        }
        result
    }

    /// A datagram that begins with requests begins with the oldest gap: the rest arrived.
    fn note_received_below(&mut self, now: Timestamp, records: wire::Records<'_>) {
        let Some(Record::Request(id)) = records.into_iter().next() else {
            return;
        };
        let news = self.outgoing.on_oldest_gap(now, id);
        self.stats.messages_acked += news;
        if news > 0 {
            self.lifecycle.on_progress(now);
        }
    }

    fn on_request(&mut self, now: Timestamp, id: u16) {
        let answer_time = self.ping.answer_time();
        match self.outgoing.on_request(now, id, answer_time) {
            Requested::Sent => {}
            Requested::NeverSent
                if self.echoes.are_left()
                    && (is_probe_id(id) || id == 0 && self.outgoing.is_untouched()) =>
            {
                // A probe: only an honest *missing* proves that we receive what is sent to us. Or
                // the question what we sent before we were accepted: nothing.
                self.echoes.push(id);
            }
            Requested::NeverSent => {}
        }
    }

    fn on_missing(&mut self, now: Timestamp, id: u16) {
        if self.ping.on_missing(now, id) {
            self.outgoing.on_pong(id);
            self.incoming.on_answer_time(self.ping.answer_time());
            // It says nothing of a message, even where so many more go one way that the same id is in the window.
            return;
        }
        if self.incoming.is_unknown(id) {
            self.poll.on_end(id);
        }
        self.incoming.on_missing(now, id);
    }

    fn on_message(&mut self, now: Timestamp, id: u16, payload: &[u8]) {
        match self.incoming.take(now, id, payload, &mut self.inbox) {
            Taken::Delivered => {
                self.stats.messages_received += 1;
                self.stats.message_bytes_received += payload.len() as u64;
                self.on_delivered(now, 1, payload.len() as u64);
            }
            Taken::New => self.stats.packets_out_of_order += 1,
            Taken::Duplicate => {
                self.stats.messages_duplicate += 1;
                return;
            }
            Taken::NoRoom | Taken::Ahead => {
                self.stats.packets_refused += 1;
                return;
            }
            Taken::Behind => {
                if now.since(self.this_incarnation_at) >= OTHER_INCARNATION_SILENCE {
                    self.other_incarnation = self.other_incarnation.saturating_add(1);
                }
                return;
            }
        }
        self.other_incarnation = 0;
        self.this_incarnation_at = now;
        self.poll.on_message(now, id, self.ping.answer_time());
    }

    /// A message that is never taken keeps back all that follow, however often it comes.
    fn on_too_long(&mut self, now: Timestamp, id: u16) {
        if !self.lifecycle.takes_messages() {
            return;
        }
        match self.params.on_missing {
            OnMissing::Close if self.incoming.lacks(id, &self.inbox) => {
                self.lifecycle.close(CloseReason::MessageTooLarge);
            }
            OnMissing::Close => {}
            OnMissing::Skip => {
                self.incoming.on_refused(now, id, &self.inbox);
                self.incoming.on_missing(now, id);
            }
        }
    }

    fn on_corrupt(&mut self, now: Timestamp) {
        if self.params.on_corrupt == OnCorrupt::Ignore {
            return;
        }
        // A single byte is too easy to forge.
        let again = self
            .corrupt_at
            .is_some_and(|first| now.since(first) <= CORRUPT_SPAN);
        self.corrupt_at = Some(now);
        if again {
            self.lifecycle.end(if self.lifecycle.is_dialing() {
                CloseReason::Denied
            } else {
                CloseReason::PeerDisconnect
            });
        }
    }

    fn deliver(&mut self, now: Timestamp) {
        let may_skip = self.params.on_missing == OnMissing::Skip;
        let delivered =
            self.incoming
                .deliver(now, self.params.missing_grace, may_skip, &mut self.inbox);
        self.stats.messages_received += delivered.messages;
        self.stats.message_bytes_received += delivered.bytes;
        self.stats.messages_skipped += delivered.skipped;
        self.on_delivered(now, delivered.messages, delivered.bytes);
        if delivered.is_broken {
            self.lifecycle.close(CloseReason::PeerHistoryExpired);
        } else if self.other_incarnation >= OTHER_INCARNATION_MAX {
            self.lifecycle.close(CloseReason::Replaced);
        }
    }

    /// A peer that sends no more than we have room for must hear now and then how far we got.
    fn on_delivered(&mut self, now: Timestamp, messages: u64, bytes: u64) {
        if self.outgoing.peer_polls() {
            self.poll.on_delivered(now, messages, bytes);
        }
    }

    /// A peer that is heard and does not send what is missing is given up, unless we refuse it: some reference peers
    /// never do.
    fn check_stall(&mut self, now: Timestamp) {
        let gap = self.incoming.gap_since().filter(|_| !self.refusing);
        self.stall.on_heard(now, gap);
        if self.stall.lasted() >= STALL_TIMEOUT.into() {
            self.lifecycle.close(CloseReason::PeerGapStall);
        }
    }

    fn may_send_new(&self) -> bool {
        // Who has received as many messages as came from it ignores requests for these only.
        let has_opened =
            self.opening_until.is_none() || self.outgoing.unsent_id() < self.incoming.next_id();
        !self.lifecycle.is_dialing() && has_opened
    }
}

impl Interface for Session {
    fn handle_datagram(&mut self, now: Now, datagram: &mut [u8]) -> Result<(), Reject> {
        if self.lifecycle.is_closed() {
            return Err(Reject::UnknownPeer);
        }
        let Ok(records) = wire::parse(datagram) else {
            return Err(Reject::Malformed);
        };
        let longest = self.params.message_bytes_max;
        let too_long = |record| match record {
            Record::Message { id, payload } if payload.len() > longest => Some(id),
            Record::Message { .. } | Record::Heartbeat | Record::Corrupt => None,
            Record::Request(_) | Record::Missing(_) => None,
        };
        let mut too_long = records.into_iter().filter_map(too_long).peekable();
        if too_long.peek().is_some() {
            too_long.for_each(|id| self.on_too_long(now.mono, id));
            return Err(Reject::Malformed);
        }
        self.stats.packets_received += 1;
        if datagram.is_empty() {
            // The reference sends one after each large message. It says nothing.
            return Ok(());
        }
        self.lifecycle.on_answer();
        let result = self.handle_records(now.mono, records);
        self.handle_timeout(now);
        result
    }

    fn handle_timeout(&mut self, now: Now) {
        if self.lifecycle.is_closed() {
            return;
        }
        self.outgoing.expire(now.mono);
        self.deliver(now.mono);
        self.opening_until = self.opening_until.filter(|until| now.mono < *until);
        self.lifecycle
            .check_clocks(now.mono, || self.outgoing.is_settled(now.mono));
    }

    fn admit(&mut self, _now: Now) {
        self.lifecycle.admit();
    }

    fn send(&mut self, _now: Now, channel: Channel, payload: &[u8]) -> Result<(), SendError> {
        if !self.lifecycle.takes_messages() {
            return Err(SendError::Closed);
        }
        if channel != 0 {
            return Err(SendError::NoSuchChannel);
        }
        if payload.len() > self.params.message_bytes_max {
            return Err(SendError::TooLarge {
                size: payload.len(),
                max: self.params.message_bytes_max,
            });
        }
        if !self.outgoing.has_room() {
            return Err(SendError::Full);
        }
        self.outgoing.queue(payload);
        self.stats.message_bytes_sent += payload.len() as u64;
        Ok(())
    }

    fn finish(&mut self, now: Now, reason: CloseReason, linger: Duration) {
        self.incoming.release();
        let is_settled = || self.outgoing.is_settled(now.mono);
        self.lifecycle.finish(now.mono, reason, linger, is_settled);
    }

    fn close(&mut self, _now: Now, reason: CloseReason) {
        self.lifecycle.close(reason);
    }

    fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> bool {
        if self.lifecycle.is_closed() {
            let is_due = self.lifecycle.poll_goodbye();
            if is_due {
                wire::emit_corrupt(out);
            }
            return is_due;
        }
        self.poll_output(now.mono, out)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.lifecycle.poll_event()
    }

    fn poll_message(&mut self) -> Option<Message<'_>> {
        if self.refusing && self.inbox.is_taking() {
            // Room again: ask for what was refused, rather than wait for the next round.
            self.refusing = false;
            let heard = self.lifecycle.last_heard();
            self.incoming.ask_soon(heard);
            self.poll.start_over(heard);
        }
        self.inbox.pop()
    }

    fn inbox_bytes(&self) -> usize {
        self.inbox.payload_bytes()
    }

    fn held(&self) -> Held {
        Held {
            inbox: self.inbox.held(),
            ahead: self.incoming.held(),
            pieces: 0,
            outbox: self.outgoing.held(),
        }
    }

    fn set_allowance(&mut self, allowance: Allowance) {
        self.inbox.set_allowance(allowance);
    }

    fn release(&mut self) {
        self.incoming.release();
        self.outgoing.release();
    }

    fn has_room(&self) -> bool {
        !self.lifecycle.is_dialing() && self.outgoing.has_room()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let lifecycle = self.lifecycle.poll_timeout()?;
        let grace = self.incoming.grace_ends_at(self.params.missing_grace);
        Deadline::earliest([
            Some(lifecycle),
            Some(self.output_timeout()),
            Deadline::of(grace, Wake::Resend),
            Deadline::of(self.outgoing.expiry_due(), Wake::Resend),
            Deadline::of(self.opening_until, Wake::SendSlot),
        ])
    }

    fn identity(&self) -> Identity<'_> {
        Identity::default()
    }

    fn stats(&self) -> Stats {
        let rtt = self.ping.rtt();
        Stats {
            rtt_latest: rtt.latest(),
            rtt: rtt.path(),
            rtt_min: rtt.min(),
            rtt_variation: if rtt.is_known() {
                rtt.variation()
            } else {
                Duration::ZERO
            },
            datagram_bytes: self.params.mtu as u16,
            outbox_messages: self.outgoing.unsent() as u32,
            outbox_bytes: self.outgoing.queued_bytes() as u32,
            assembly_bytes: self.incoming.held() as u32,
            ..self.stats
        }
    }
}
