//! The way into a session: a netcode payload becomes acks, a packet, and messages in the inbox.
//!
//! ```text
//!   payload ─▶ acks ─▶ reliable ─▶ connection packet ─▶ may it be taken? ─▶ inbox
//!               │ false   │ a fragment waits  │ broken         │ no
//!               │         ▼                   │                ▼
//!               │     nothing yet             │        not acknowledged: it comes again
//!               └────── end of session ◀──────┘
//! ```

use std::sync::Arc;

use super::acks::{Acks, FalseAck};
use super::channels::{
    self, BlockFragment, ConnectionPacket, Item, Items, Layout, parse_long_fragment,
};
use super::long_ack::{self, Record};
use super::mismatched::MismatchedFragments;
use super::params::Params;
use super::postscript::Postscript;
use super::reliable::{self, Arrival, Datagram, DatagramError};
use super::unwritten::Unwritten;
use crate::inbox::{Inbox, MESSAGE_OVERHEAD};
use crate::sender::{AWAITED_MESSAGES, LARGE_PACKET_BYTES, Worth};
use crate::sequence;
use crate::session::{AckPolicy, Held, Reject};
use crate::stall::HeardClock;
use crate::stats::Stats;
use crate::time::{Now, Span, Timestamp};

/// What arrives at one session.
#[derive(Debug)]
pub(super) struct Incoming {
    layout: Arc<Layout>,
    reliable: reliable::Receiver,
    /// What another tidegate is told in long acknowledgements; `None` as long as the peer may be something else.
    record: Option<Box<Record>>,
    /// Another tidegate may send long fragments, once it was heard.
    reads_long_fragments: bool,
    channels: channels::Receiver,
    pub(super) inbox: Inbox,
    /// Bytes that packets with many messages count beyond their own ([`crate::session::Session::take_surcharge`]).
    pub(super) surcharge: usize,
    ack: AckPolicy,
    unwritten: Unwritten,
    /// Something was delivered that is to be written before it is acknowledged.
    owes_write: bool,
    /// The time that counts against gaps.
    heard_clock: HeardClock,
    mismatched: MismatchedFragments,
    /// Newest packet heard, refused ones too: what its successor acknowledges is not late.
    newest_heard: Option<u16>,
    /// Newest packet taken.
    newest_taken: Option<u16>,
    stats: Stats,
}

/// What a good packet was, for the timing of its acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub(super) worth: Worth,
    /// No packet is missing before it.
    pub(super) in_order: bool,
}

/// Why a payload brought nothing.
#[derive(Clone, Copy, Debug)]
pub(super) enum Trouble {
    /// It changed nothing.
    Reject(Reject),
    /// The peer broke the protocol: the session ends.
    Broken(Reject),
}

impl Incoming {
    pub(super) fn new(now: Now, params: &Params) -> Self {
        Self {
            layout: params.layout.clone(),
            reliable: reliable::Receiver::new(*params.layout.limits()),
            record: None,
            reads_long_fragments: params.reads_long_fragments(),
            channels: channels::Receiver::new(params.layout.clone()),
            inbox: Inbox::new(params.inbox_max),
            surcharge: 0,
            ack: params.ack,
            unwritten: Unwritten::default(),
            owes_write: false,
            heard_clock: HeardClock::new(now.mono),
            mismatched: MismatchedFragments::default(),
            newest_heard: None,
            newest_taken: None,
            stats: Stats::default(),
        }
    }

    /// The peer sent what only a tidegate does.
    pub(super) fn widen(&mut self) {
        if self.record.is_none() {
            self.channels.widen();
            let (newest, _) = self.reliable.ack();
            self.record = Some(Box::new(Record::new(newest)));
        }
    }

    /// Reads one payload. Acks are reported in any case, even when the packet is refused, or incomplete: they are
    /// authentic, and it does no harm to hear them twice. Without `is_taking`, messages are refused.
    /// `None`: a fragment, and the packet is not complete.
    pub(super) fn handle(
        &mut self,
        now: Now,
        payload: &[u8],
        is_taking: bool,
        on_acks: impl FnOnce(Acks<'_>) -> Result<(), FalseAck>,
    ) -> Result<Option<Taken>, Trouble> {
        let is_fragment = reliable::is_fragment(payload);
        self.stats.fragments_received += u64::from(is_fragment);
        self.on_heard(now.mono);
        let datagram = match self.reliable.parse(payload) {
            Ok(datagram) => datagram,
            Err(error) => return Err(self.on_datagram_error(error)),
        };
        if let Some(acks) = self.acks(&datagram) {
            on_acks(acks).map_err(|FalseAck| Trouble::Broken(Reject::BadAck))?;
        }
        let arrival = match self.reliable.receive(now.mono, datagram) {
            Ok(arrival) => arrival,
            Err(error) => return Err(self.on_datagram_error(error)),
        };
        let Arrival::Packet { header, payload } = arrival else {
            return Ok(None);
        };
        if is_fragment {
            self.mismatched = MismatchedFragments::default();
        }
        let postscript = Postscript::parse(payload, self.reads_long_fragments);
        let mut items = Items::default();
        let of_tidegate = postscript.filter(|_| self.record.is_some());
        let long_fragment = of_tidegate.and_then(Postscript::long_fragment);
        let packet = packet(payload, long_fragment, &self.layout, &mut items)?;
        self.surcharge += surcharge(&packet, payload.len());
        let heard = self.heard_clock.now();
        let (channels, inbox) = (&mut self.channels, &mut self.inbox);
        if let Err(trouble) = check(&packet, is_taking, heard, channels, inbox) {
            let is_refused = matches!(trouble, Trouble::Reject(_));
            self.stats.packets_refused += u64::from(is_refused);
            return Err(trouble);
        }
        let (known, received) = (self.stats.messages_duplicate, self.stats.messages_received);
        if is_taking {
            channels.apply(heard, &packet, inbox, &mut self.stats);
        }
        let repeats = self.stats.messages_duplicate - known;
        let delivered = self.stats.messages_received - received;
        let worth = worth(&packet, payload.len(), repeats, delivered);
        self.owes_write |= self.ack == AckPolicy::Strict && delivered > 0;
        let awaits_write = self.owes_write && brings_delivered(&packet, &self.channels);
        self.acknowledge(header.sequence, awaits_write);
        let in_order = self.note_order(header.sequence);
        Ok(Some(Taken { worth, in_order }))
    }

    /// Acknowledges a packet that was taken, at once or when what it delivered is written.
    fn acknowledge(&mut self, sequence: u16, awaits_write: bool) {
        if awaits_write {
            let most = match self.record {
                Some(_) => long_ack::NUMBERS,
                None => reliable::WINDOW,
            };
            self.unwritten.push(sequence, most);
        } else {
            accept(&mut self.reliable, &mut self.record, sequence);
        }
    }

    /// What a datagram says of our packets, unless it is a later fragment.
    fn acks<'a>(&'a mut self, datagram: &Datagram<'a>) -> Option<Acks<'a>> {
        let header = datagram.header()?;
        let postscript = match *datagram {
            Datagram::Whole { payload, .. } => {
                Postscript::parse(payload, self.reads_long_fragments)
            }
            Datagram::Fragment(_) => None,
        };
        Some(Acks {
            header,
            postscript,
            in_order: advance(&mut self.newest_heard, header.sequence) == Step::Next,
            record: self.record.as_deref_mut(),
        })
    }

    /// Any datagram came from the peer, a keep-alive or a duplicate too: it could have brought what is missing, so the
    /// time since the one before counts against an open gap. It does not while packets wait for a write before they
    /// are acknowledged: the peer may be repeating just those, and have no room for what is missing.
    #[inline]
    pub(super) fn on_heard(&mut self, now: Timestamp) {
        let counted = if self.owes_write {
            Span::ZERO
        } else {
            PACKET_EVERY_MAX
        };
        self.heard_clock.on_heard(now, counted);
    }

    /// The layer below takes nothing from this datagram.
    fn on_datagram_error(&mut self, error: DatagramError) -> Trouble {
        let late = matches!(error, DatagramError::Stale | DatagramError::Duplicate);
        self.stats.packets_duplicate += u64::from(late);
        if error == DatagramError::BadFragment {
            self.mismatched.note(self.heard_clock.now());
        }
        Trouble::Reject(error.into())
    }

    /// `ack` and `ack_bits` of a packet that leaves now.
    pub(super) fn take_ack(&mut self) -> (u16, u32) {
        self.reliable.take_ack()
    }

    /// What arrived lately, if the peer runs tidegate.
    pub(super) fn record(&mut self) -> Option<&mut Record> {
        self.record.as_deref_mut()
    }

    /// Everything polled was written. What waited for that is acknowledged now, unless something was delivered that is
    /// still to be polled; true if that was something.
    pub(super) fn confirm_written(&mut self) -> bool {
        if !self.inbox.is_empty() {
            return false;
        }
        self.owes_write = false;
        let mut any = false;
        while let Some(sequence) = self.unwritten.pop() {
            accept(&mut self.reliable, &mut self.record, sequence);
            any = true;
        }
        any
    }

    /// Gives up packets whose fragments stopped coming.
    pub(super) fn handle_timeout(&mut self, now: Now) {
        self.reliable.expire(now.mono);
    }

    /// When [`Incoming::handle_timeout`] has something to do.
    pub(super) fn wakes_at(&self) -> Option<Timestamp> {
        self.reliable.next_expiry()
    }

    /// Whether the peer has left a gap open for too long, although its packets arrive; or cuts large
    /// ones in another way than we put them together, and so never closes one.
    pub(super) fn is_stalled(&self) -> bool {
        self.mismatched.is_over() || self.channels.is_stalled(self.heard_clock.now())
    }

    /// Reliable messages that the peer may have queued.
    pub(super) fn queue_of_peer(&self) -> u64 {
        self.channels.windows()
    }

    /// Messages that were delivered so far.
    pub(super) fn messages_received(&self) -> u64 {
        self.stats.messages_received
    }

    pub(super) fn fill_stats(&self, stats: &mut Stats) {
        *stats = self.stats;
        stats.reassembly_failures += self.reliable.reassembly_failures();
        let Held { ahead, pieces, .. } = self.held();
        stats.assembly_bytes = (ahead + pieces) as u32;
    }

    pub(super) fn held(&self) -> Held {
        Held {
            inbox: self.inbox.held(),
            ahead: self.channels.early_bytes(),
            pieces: self.channels.block_bytes() + self.reliable.held(),
            outbox: 0,
        }
    }

    /// Lets go of all but the inbox.
    pub(super) fn release(&mut self) {
        self.channels.release();
        self.reliable.release();
    }

    /// Counts a packet; whether no other is missing before it.
    fn note_order(&mut self, sequence: u16) -> bool {
        self.stats.packets_received += 1;
        let step = advance(&mut self.newest_taken, sequence);
        self.stats.packets_out_of_order += u64::from(step == Step::Late);
        step == Step::Next
    }
}

/// Of each silence between two datagrams, this much counts against an open gap at most. So a gap that is given up after
/// thirty seconds was left open by at least 120 datagrams that arrived.
const PACKET_EVERY_MAX: Span = Span::from_millis(250);

/// What a packet carries: entries, or a long fragment behind none.
fn packet<'a>(
    payload: &'a [u8],
    long_fragment: Option<&'a [u8]>,
    layout: &'a Layout,
    items: &'a mut Items<'a>,
) -> Result<ConnectionPacket<'a>, Trouble> {
    let packet = match long_fragment {
        Some(bytes) => parse_long_fragment(bytes, layout, items),
        None => ConnectionPacket::parse(payload, layout, items),
    };
    packet.map_err(|_| Trouble::Broken(Reject::ProtocolError))
}

/// Known messages and refused ones as well: they were read, and looked for among those that wait. A channel may be named
/// twice, and where a message is a few bits, a datagram has thousands of them.
fn surcharge(packet: &ConnectionPacket<'_>, payload_bytes: usize) -> usize {
    let charged = packet.messages() as usize * MESSAGE_OVERHEAD;
    charged.saturating_sub(payload_bytes)
}

/// Whether all of a packet can be taken now; nothing of it is, otherwise. One that reads as something else than was
/// written ends the session.
fn check(
    packet: &ConnectionPacket<'_>,
    is_taking: bool,
    heard: Timestamp,
    channels: &mut channels::Receiver,
    inbox: &mut Inbox,
) -> Result<(), Trouble> {
    if packet.is_misread() {
        return Err(Trouble::Broken(Reject::ProtocolError));
    }
    if !is_taking && packet.is_reliable() {
        return Err(Trouble::Reject(Reject::Refused));
    }
    match channels.check(heard, packet, inbox) {
        Ok(()) => Ok(()),
        Err(objection) if objection.is_violation() => Err(Trouble::Broken(Reject::ProtocolError)),
        Err(_) => Err(Trouble::Reject(Reject::Refused)),
    }
}

/// Whether a packet brings a reliable message that was delivered to the inbox, by this packet or an earlier one.
/// Messages behind a gap were not, nor fragments of an incomplete block: they need not wait for a write, because their
/// sender keeps the message until the packet that fills the gap, or completes the block, is acknowledged as well.
fn brings_delivered(packet: &ConnectionPacket<'_>, channels: &channels::Receiver) -> bool {
    packet.items().any(|item| match item {
        Item::Message(message) => message
            .id
            .is_some_and(|id| channels.is_delivered(message.channel, id)),
        Item::Fragment(BlockFragment { place, .. }) => {
            channels.is_delivered(place.channel, place.id)
        }
    })
}

/// The packet is acknowledged from now on.
fn accept(reliable: &mut reliable::Receiver, record: &mut Option<Box<Record>>, sequence: u16) {
    reliable.accept(sequence);
    if let Some(record) = record {
        record.accept(sequence);
    }
}

/// What a packet that was taken is worth to the timing of its acknowledgement: `repeats` of its messages
/// were known, and `delivered` messages went on because of it.
fn worth(
    packet: &ConnectionPacket<'_>,
    payload_bytes: usize,
    repeats: u64,
    delivered: u64,
) -> Worth {
    if packet.is_empty() {
        return Worth::Nothing;
    }
    let carried = u64::from(packet.messages());
    // Nothing but a fragment, and yet something was delivered; or much more than was carried.
    let awaited = if carried > 0 {
        AWAITED_MESSAGES as u64
    } else {
        0
    };
    if repeats > 0 && repeats >= carried {
        Worth::Repeats
    } else if delivered > carried + awaited {
        Worth::Awaited
    } else if payload_bytes > LARGE_PACKET_BYTES {
        Worth::LargeNews
    } else {
        Worth::News
    }
}

/// Where a packet stands among those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Right behind the newest, or the first.
    Next,
    /// Others are missing before it.
    Ahead,
    /// Overtaken.
    Late,
}

fn advance(newest: &mut Option<u16>, sequence: u16) -> Step {
    let step = match *newest {
        Some(newest) if sequence::is_newer(newest, sequence) => return Step::Late,
        Some(newest) if sequence != newest.wrapping_add(1) => Step::Ahead,
        Some(_) | None => Step::Next,
    };
    *newest = Some(sequence);
    step
}

#[cfg(test)]
mod tests;
