//! One gaffer peer: the virtual connection. What its packets bring is `incoming.rs`, what ours carry `output.rs`.
//!
//! Rule: docs/wire/gaffer.md, sections 2 to 6.

mod incoming;
mod other_incarnation;
mod output;

use std::time::Duration;

use crate::gaffer::acks::{Received, Sent};
use crate::gaffer::numbering::{Numbering, Place};
use crate::gaffer::receiver::Receiver;
use crate::gaffer::wire::{self, Header, KEEP_ALIVE, Record};
use crate::gaffer::{Params, Payload};
use crate::inbox::Inbox;
use crate::lifecycle::Lifecycle;
use crate::sender::Sender;
use crate::session::{
    Allowance, Channel, CloseReason, Event, Held, Identity, Message, Origin, Reject, SendError,
    Session as Interface,
};
use crate::stall::{AckStall, HeardClock};
use crate::stats::Stats;
use crate::time::{Deadline, Now, Timestamp, Wake};

use other_incarnation::OtherIncarnation;

/// How often a dialling session says hello, until it is answered.
const HELLO_INTERVAL: Duration = Duration::from_millis(100);

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
                self.on_alive(now.mono);
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
            self.expire(now.mono);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A peer that is heard and never says what came: each of its packets is answered in time.
    #[test]
    fn what_nobody_acknowledges_and_nobody_waits_for_is_forgotten() {
        let at = |millis| Now {
            mono: Timestamp::from_millis(millis),
            unix_secs: 0,
        };
        let mut session = Session::accept(at(0), &Params::default(), 1, 7);
        session.admit(at(0));
        let mut most = 0;
        for n in 0..20_000 {
            let now = at(u64::from(n) * 100);
            let mut datagram = Vec::new();
            let header = Header {
                protocol_id: session.params.protocol_id,
                sequence: 1 + n,
                ack: 0,
                ack_bits: 0,
            };
            header.emit(&mut datagram);
            datagram.push(KEEP_ALIVE);
            session.handle_datagram(now, &mut datagram).ok();
            while session.poll_transmit(now, &mut Vec::new()) {}
            most = most.max(session.sent.pending());
        }
        assert!(!session.lifecycle.is_closed());
        assert!((2..32).contains(&most), "{most} packets");
    }
}
