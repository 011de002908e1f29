//! One rudp peer: ticks, records in and out, and how it ends.
//!
//! Rule: docs/wire/rudp.md, sections 3 to 6. An output is what the reference makes at a send tick:
//! requests, answers, new messages, packed into datagrams. Ours happens only when there is
//! something to say, so an idle session sleeps between its keep-alives.

use std::time::Duration;

use crate::inbox::Inbox;
use crate::life::Life;
use crate::presence::Owing;
use crate::rudp::incoming::{Incoming, Taken};
use crate::rudp::outgoing::{Answer, Outgoing, Requested};
use crate::rudp::wire::{self, Record};
use crate::rudp::{OnCorrupt, OnMissing, Params};
use crate::session::{
    Channel, CloseReason, Event, Identity, Message, Reject, SendError, Session as Interface,
};
use crate::stats::Stats;
use crate::time::{Deadline, Now, Timestamp, Wake};

/// Datagrams in one output. What is left over waits for the next send tick.
const DATAGRAMS_PER_OUTPUT: u32 = 32;

/// Two corrupt records count when they come within this span.
const CORRUPT_SPAN: Duration = Duration::from_secs(1);

/// Echoes of probes a dialling session gives away, in all.
const ECHOES_MAX: u8 = 32;

/// Messages from another life of the peer, with none of this life between them, that say it
/// restarted.
const OTHER_LIFE_MAX: u8 = 8;

/// How long a new session holds its own messages back while it fetches what the peer sent before
/// it was accepted: the reference ignores requests for ids below its own receive counter, so our
/// first messages would make those unfetchable (docs/wire/rudp.md, section 5).
const OPENING: Duration = Duration::from_secs(1);

/// First and longest wait before the next message is asked for although nothing says it exists.
const POLL_FIRST: Duration = Duration::from_millis(100);
const POLL_LONGEST: Duration = Duration::from_millis(500);

/// Messages asked for in one poll, at most.
const POLL_REACH_MAX: u16 = 32;

/// One peer's state.
pub struct Session {
    params: Params,
    life: Life,
    incoming: Incoming,
    outgoing: Outgoing,
    inbox: Inbox,
    stats: Stats,
    output: Output,
    poll: Poll,
    /// Until then nothing new is sent; see [`OPENING`].
    opening_until: Option<Timestamp>,
    /// Ids a probe asked for, to be echoed.
    echoes: Vec<u16>,
    echoes_left: u8,
    owing: Owing,
    corrupt_at: Option<Timestamp>,
    other_life: u8,
    /// Messages are being refused because the inbox is full.
    refusing: bool,
}

/// The output under way, and when the next one may start.
#[derive(Debug)]
struct Output {
    next_at: Timestamp,
    under_way: bool,
    datagrams_left: u32,
    /// Ids to ask for; `asked` of them were written.
    asks: Vec<u16>,
    asked: usize,
    /// The last message, to be repeated.
    tail: Option<u64>,
}

/// Asking for a message that may not exist: finds a lost last message, and is the keep-alive.
#[derive(Debug)]
struct Poll {
    at: Timestamp,
    interval: Duration,
    /// Messages asked for at once. Doubles while the answers show that there is more.
    reach: u16,
    /// The last id asked for.
    asked: Option<u16>,
    /// When anything was last asked for.
    last_asked: Timestamp,
}

impl Poll {
    fn new(at: Timestamp) -> Self {
        Self {
            at,
            interval: POLL_FIRST,
            reach: 1,
            asked: None,
            last_asked: at,
        }
    }

    fn on_message(&mut self, now: Timestamp, id: u16) {
        if self.asked == Some(id) {
            // A whole tail was lost, or refused: fetch it without waiting.
            let reach = (self.reach * 2).min(POLL_REACH_MAX);
            *self = Self {
                reach,
                ..Self::new(now)
            };
        } else {
            // Put off, but not past the time the peer should hear from us: it may time out too,
            // and our polls are all it learns about what arrived.
            self.at = (now + POLL_FIRST).min(self.last_asked + POLL_LONGEST);
            self.interval = POLL_FIRST;
        }
    }

    /// The ids of a poll, from the next message on.
    fn ask(&mut self, next: u16, ids_max: usize, ids: &mut Vec<u16>) {
        if self.asked.is_some() {
            // The last one was not answered: there was nothing.
            self.reach = 1;
        }
        let reach = usize::from(self.reach).min(ids_max) as u16;
        ids.extend((0..reach).map(|ahead| next.wrapping_add(ahead)));
        self.asked = ids.last().copied();
    }

    fn on_asked(&mut self, now: Timestamp) {
        self.last_asked = now;
        self.at = now + self.interval;
        self.interval = (self.interval * 2).min(POLL_LONGEST);
    }
}

impl Session {
    /// A session that dials a peer. It opens with a request for message 0, which a reference peer
    /// and a tidegate both answer and neither takes amiss; a heartbeat would be taken amiss.
    pub fn dial(params: Params, now: Now) -> Self {
        let life = Life::dialing(now.mono, params.idle_timeout, params.goodbyes());
        let mut session = Self::new(params, now, life);
        session.echoes_left = ECHOES_MAX;
        session.poll.at = now.mono;
        session
    }

    /// A session of a peer that answered our probe, or is trusted without one.
    pub(super) fn accept(params: Params, now: Now) -> Self {
        let life = Life::waiting(now.mono, params.idle_timeout, params.goodbyes());
        let mut session = Self::new(params, now, life);
        if params.probe {
            // What came before the probe was answered was not kept.
            session.opening_until = Some(now.mono + OPENING);
            session.poll.at = now.mono;
        }
        session
    }

    /// An accepted session that repeats another one: it begins with nothing but its rules.
    pub fn replayed(params: Params, now: Now) -> Self {
        Self::accept(params, now)
    }

    fn new(params: Params, now: Now, life: Life) -> Self {
        let params = params.sane();
        let now = now.mono;
        Self {
            life,
            incoming: Incoming::new(params.request_interval, params.request_interval_max),
            outgoing: Outgoing::new(params.limits(), now),
            inbox: Inbox::new(params.inbox_refuse_above, params.inbox_accept_below),
            stats: Stats::default(),
            output: Output {
                next_at: now + params.tick * params.send_delay,
                under_way: false,
                datagrams_left: 0,
                asks: Vec::new(),
                asked: 0,
                tail: None,
            },
            poll: Poll::new(now + POLL_FIRST),
            opening_until: None,
            echoes: Vec::new(),
            echoes_left: 0,
            owing: Owing::new(now),
            corrupt_at: None,
            other_life: 0,
            refusing: false,
            params,
        }
    }

    fn handle_records(&mut self, now: Timestamp, records: wire::Records<'_>) -> Result<(), Reject> {
        self.life.on_heard(now);
        self.note_received_below(records);
        self.refusing = !self.inbox.is_taking();
        let mut result = Ok(());
        for record in records {
            match record {
                // The reference answers a heartbeat with its receive counter, as if that were a
                // message of its own; we know better.
                Record::Heartbeat | Record::Missing(_) => {}
                Record::Corrupt => self.on_corrupt(now),
                Record::Request(id) => self.on_request(id),
                Record::Message { id, .. } if self.refusing => {
                    // Not stored, so it stays missing and will be asked for again.
                    self.incoming.on_refused(now, id);
                    result = Err(Reject::Refused);
                }
                Record::Message { id, payload } => self.on_message(now, id, payload),
            }
        }
        for record in records {
            if let Record::Missing(id) = record {
                self.incoming.on_missing(now, id);
            }
        }
        self.stats.packets_refused += u64::from(result.is_err());
        self.deliver(now);
        self.check_owing(now);
        if self.opening_until.is_some() && self.incoming.has_all_from_the_start(records) {
            self.opening_until = None;
        }
        result
    }

    /// A datagram that begins with requests begins with the oldest gap: the rest arrived.
    fn note_received_below(&mut self, records: wire::Records<'_>) {
        if let Some(Record::Request(id)) = records.into_iter().next()
            && let Some(id) = self.outgoing.oldest_gap(id)
        {
            self.stats.messages_acked += self.outgoing.on_received_below(id);
        }
    }

    fn on_request(&mut self, id: u16) {
        match self.outgoing.on_request(id) {
            Requested::Sent => {}
            Requested::NeverSent
                if self.echoes_left > 0
                    && (!self.outgoing.is_near(id) || self.outgoing.is_untouched()) =>
            {
                // A probe: only an honest *missing* proves that we receive what is sent to us. Or
                // the question what we sent before we were accepted: nothing.
                self.echoes_left -= 1;
                self.echoes.push(id);
            }
            Requested::NeverSent => {}
        }
    }

    fn on_message(&mut self, now: Timestamp, id: u16, payload: &[u8]) {
        match self.incoming.take(now, id, payload, &mut self.inbox) {
            Taken::Delivered => {
                self.stats.messages_received += 1;
                self.stats.message_bytes_received += payload.len() as u64;
            }
            Taken::New => self.stats.packets_out_of_order += 1,
            Taken::Duplicate => {
                self.stats.messages_duplicate += 1;
                return;
            }
            Taken::NoRoom => {
                self.stats.packets_refused += 1;
                return;
            }
            Taken::Ahead => {
                self.stats.packets_refused += 1;
                return;
            }
            Taken::Behind => {
                self.other_life = self.other_life.saturating_add(1);
                return;
            }
        }
        self.other_life = 0;
        self.poll.on_message(now, id);
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
            self.life.end(if self.life.is_dialing() {
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
        if delivered.is_broken {
            self.life.close(CloseReason::PeerHistoryExpired);
        } else if self.other_life >= OTHER_LIFE_MAX {
            self.life.close(CloseReason::Replaced);
        }
    }

    /// A peer that is heard and does not send what is missing is given up, unless we refuse it.
    fn check_owing(&mut self, now: Timestamp) {
        let gap = self.incoming.gap_since().filter(|_| !self.refusing);
        self.owing.on_heard(now, gap);
        if self.owing.lasted() >= self.params.gap_timeout {
            self.life.close(CloseReason::PeerGapStall);
        }
    }

    fn may_send_new(&self) -> bool {
        !self.life.is_dialing() && self.opening_until.is_none()
    }

    /// When an output has something to say; in the past when it has now.
    fn output_wanted_at(&self) -> (Timestamp, Wake) {
        if !self.echoes.is_empty() || self.outgoing.next_answer().is_some() {
            return (Timestamp::ZERO, Wake::SendSlot);
        }
        if self.may_send_new() && self.outgoing.next_unsent().is_some() {
            return (Timestamp::ZERO, Wake::SendSlot);
        }
        let mut wanted = (self.poll.at, Wake::KeepAlive);
        // While refusing, only the poll: an answer would be refused as well.
        if !self.refusing
            && let Some(at) = self.incoming.asks_at()
        {
            wanted = wanted.min((at, Wake::Resend));
        }
        if let Some(at) = self.outgoing.tail_at() {
            wanted = wanted.min((at, Wake::Resend));
        }
        wanted
    }

    fn begin_output(&mut self, now: Timestamp) {
        let output = &mut self.output;
        output.next_at = now + self.params.tick * self.params.send_delay;
        output.under_way = true;
        output.datagrams_left = DATAGRAMS_PER_OUTPUT;
        output.asks.clear();
        output.asked = 0;
        if !self.refusing {
            self.incoming.ask(now, self.params.mtu, &mut output.asks);
        }
        if output.asks.is_empty() && now >= self.poll.at {
            let next = self.incoming.next_wire_id();
            self.poll.ask(next, self.params.mtu / 3, &mut output.asks);
        }
        if !output.asks.is_empty() {
            // Any request is as good as a poll.
            self.poll.on_asked(now);
        }
        output.tail = self.outgoing.tail_due(now);
    }

    /// Writes the next datagram of the output under way; false when there is nothing left.
    ///
    /// Order of the reference: requests, answers, new messages.
    fn emit_datagram(&mut self, now: Timestamp, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        let mtu = self.params.mtu;
        let has_room = |out: &Vec<u8>, bytes| wire::fits(out.len() - start, bytes, mtu);
        while let Some(id) = self.output.asks.get(self.output.asked).copied() {
            if !has_room(out, 3) {
                return true;
            }
            wire::emit_request(out, id);
            self.output.asked += 1;
        }
        while let Some(id) = self.echoes.last().copied() {
            if !has_room(out, 3) {
                return true;
            }
            wire::emit_missing(out, id);
            self.echoes.pop();
        }
        while let Some(answer) = self.outgoing.next_answer() {
            match answer {
                Answer::Missing(id) if has_room(out, 3) => wire::emit_missing(out, id as u16),
                Answer::Message(id) if has_room(out, self.outgoing.record_bytes(id)) => {
                    self.outgoing.emit(id, out);
                    self.stats.messages_resent += 1;
                }
                Answer::Missing(_) | Answer::Message(_) => return true,
            }
            self.outgoing.on_answered();
        }
        if let Some(id) = self.output.tail {
            if !has_room(out, self.outgoing.record_bytes(id)) {
                return true;
            }
            self.outgoing.emit(id, out);
            self.outgoing.on_tail_repeated(now);
            self.stats.messages_repeated += 1;
            self.output.tail = None;
        }
        while self.may_send_new()
            && let Some(id) = self.outgoing.next_unsent()
        {
            if !has_room(out, self.outgoing.record_bytes(id)) {
                return true;
            }
            self.outgoing.emit(id, out);
            self.outgoing.on_sent(now);
            self.stats.messages_sent_reliable += 1;
        }
        out.len() > start
    }
}

impl Interface for Session {
    fn handle_datagram(&mut self, now: Now, datagram: &mut [u8]) -> Result<(), Reject> {
        if self.life.is_closed() {
            return Err(Reject::UnknownPeer);
        }
        let Ok(records) = wire::parse(datagram) else {
            return Err(Reject::Malformed);
        };
        let too_large = |record| matches!(record, Record::Message { payload, .. } if payload.len() > self.params.message_bytes_max);
        if records.into_iter().any(too_large) {
            return Err(Reject::Malformed);
        }
        self.stats.packets_received += 1;
        if datagram.is_empty() {
            // The reference sends one after each large message. It says nothing.
            return Ok(());
        }
        self.life.on_answer();
        let result = self.handle_records(now.mono, records);
        self.handle_timeout(now);
        result
    }

    fn handle_timeout(&mut self, now: Now) {
        if self.life.is_closed() {
            return;
        }
        self.outgoing.expire(now.mono);
        self.deliver(now.mono);
        self.opening_until = self.opening_until.filter(|until| now.mono < *until);
        self.life
            .check_clocks(now.mono, || self.outgoing.is_settled());
    }

    fn admit(&mut self, _now: Now) {
        self.life.admit();
    }

    fn send(&mut self, now: Now, channel: Channel, payload: &[u8]) -> Result<(), SendError> {
        if !self.life.takes_messages() {
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
        if !self.outgoing.has_room(payload.len()) {
            return Err(SendError::Full);
        }
        self.outgoing.queue(now.mono, payload);
        self.stats.message_bytes_sent += payload.len() as u64;
        self.note_outbox();
        Ok(())
    }

    fn finish(&mut self, now: Now, reason: CloseReason, linger: Duration) {
        let is_settled = || self.outgoing.is_settled();
        self.life.finish(now.mono, reason, linger, is_settled);
    }

    fn close(&mut self, _now: Now, reason: CloseReason) {
        self.life.close(reason);
    }

    fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> bool {
        if self.life.is_closed() {
            let is_due = self.life.poll_goodbye();
            if is_due {
                wire::emit_corrupt(out);
            }
            return is_due;
        }
        if !self.output.under_way {
            let (wanted_at, _) = self.output_wanted_at();
            if now.mono < self.output.next_at.max(wanted_at) {
                return false;
            }
            self.begin_output(now.mono);
        }
        if self.output.datagrams_left > 0 && self.emit_datagram(now.mono, out) {
            self.output.datagrams_left -= 1;
            self.stats.packets_sent += 1;
            self.note_outbox();
            return true;
        }
        self.output.under_way = false;
        false
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.life.poll_event()
    }

    fn poll_message(&mut self) -> Option<Message<'_>> {
        if self.refusing && self.inbox.held() < self.params.inbox_accept_below {
            // Room again: ask for what was refused, rather than wait for the next round.
            self.refusing = false;
            let heard = self.life.last_heard();
            self.incoming.ask_soon(heard);
            self.poll = Poll::new(heard);
        }
        self.inbox.pop()
    }

    fn inbox_bytes(&self) -> usize {
        self.inbox.payload_bytes()
    }

    fn has_room(&self) -> bool {
        self.outgoing.has_room(self.params.message_bytes_max)
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let life = self.life.poll_timeout()?;
        let (wanted_at, why) = self.output_wanted_at();
        let output = Deadline {
            at: wanted_at.max(self.output.next_at),
            why,
        };
        let at = |at, why| Some(Deadline { at, why });
        let grace = self.incoming.grace_ends_at(self.params.missing_grace);
        [
            Some(life),
            grace.and_then(|by| at(by, Wake::Resend)),
            self.opening_until.and_then(|by| at(by, Wake::SendSlot)),
            self.outgoing
                .expiry_due()
                .and_then(|by| at(by, Wake::Resend)),
        ]
        .into_iter()
        .fold(Some(output), Deadline::earlier)
    }

    fn identity(&self) -> Identity<'_> {
        Identity::default()
    }

    fn stats(&self) -> Stats {
        Stats {
            assembly_bytes: self.incoming.held() as u32,
            ..self.stats
        }
    }
}

impl Session {
    fn note_outbox(&mut self) {
        self.stats.outbox_messages = self.outgoing.queued() as u32;
        self.stats.outbox_bytes = self.outgoing.queued_bytes() as u32;
    }
}
