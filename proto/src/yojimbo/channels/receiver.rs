//! The receiving end of all channels of a session: judge a packet, then apply it.
//!
//! Acknowledging is a promise, so a packet is taken whole or not at all. [`Receiver::check`] says
//! whether it is legal and fits; only then [`Receiver::apply`] changes anything, and it cannot fail.
//! The bounds here are for all channels of a session together (docs/wire/yojimbo.md, section 7).

use std::sync::Arc;

use super::connection_packet::ConnectionPacket;
use super::item::Item;
use super::layout::Layout;
use super::objection::Objection;
use super::reliable_ordered::{ReliableOrdered, Trial};
use super::sink::Sink;
use crate::inbox::Inbox;
use crate::session::Channel;
use crate::stats::Stats;
use crate::time::Timestamp;

/// Bytes of messages behind a gap, each charged with the inbox's overhead. A path of 100 Mbit/s with a
/// round trip of 50 ms has 1.3 MB behind a lost message until it has come again.
pub(super) const EARLY_BYTES_MAX: usize = 2560 * 1024;
/// Of these, kept free for packets that close a gap: four of the largest. Otherwise a store filled
/// to the brim could refuse, for the messages beside it, the very message that would empty it.
pub(super) const EARLY_BYTES_RESERVE: usize = 32 * 1024;
/// Bytes that blocks that miss fragments may grow to. One block is always allowed. A block is counted in
/// full from its first fragment, so that no two of them can starve each other half-way.
const BLOCK_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Bytes that blocks from another tidegate that miss fragments may grow to.
pub const WIDE_BLOCK_BYTES_MAX: usize = 4 * BLOCK_BYTES_MAX;

/// The receiving end of all channels.
#[derive(Debug)]
pub struct Receiver {
    layout: Arc<Layout>,
    /// By channel; `None` where the channel is unreliable and remembers nothing.
    channels: Box<[Option<ReliableOrdered>]>,
    /// By channel, for the packet under judgement alone: here so that none allocates.
    trials: Box<[Trial]>,
    bounds: Bounds,
}

/// Bytes that may wait in all channels together.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// Bytes of messages behind a gap.
    early: usize,
    /// Bytes that blocks with missing fragments may grow to.
    blocks: usize,
}

impl Bounds {
    const USUAL: Self = Self {
        early: EARLY_BYTES_MAX,
        blocks: BLOCK_BYTES_MAX,
    };
    /// From another tidegate: with a round trip of 200 ms, and some of what came again lost again, there are 7 MB behind a
    /// gap. No less than such a peer queues ([`OUTBOX_FAR`](crate::sender::OUTBOX_FAR)), with the overhead of a wide
    /// window.
    const WIDE: Self = Self {
        early: 4 * EARLY_BYTES_MAX,
        blocks: WIDE_BLOCK_BYTES_MAX,
    };
}

impl Receiver {
    /// Channels that have received nothing.
    pub fn new(layout: Arc<Layout>) -> Self {
        let channels = layout.channels().iter();
        Self {
            channels: channels
                .map(|rules| {
                    let window = rules.receive_window;
                    rules.is_reliable().then(|| ReliableOrdered::new(window))
                })
                .collect(),
            trials: vec![Trial::default(); layout.channels().len()].into(),
            bounds: Bounds::USUAL,
            layout,
        }
    }

    /// The peer runs tidegate: it may be further ahead than others, and send blocks together
    /// (docs/wire/reliable.md, section 7.3).
    pub fn widen(&mut self) {
        self.bounds = Bounds::WIDE;
        for (rules, channel) in self.layout.channels().iter().zip(&mut self.channels) {
            if let Some(channel) = channel {
                channel.widen(rules.wide_window());
            }
        }
    }

    /// Whether all of a packet, parsed with the same layout, can be taken. Changes nothing that is
    /// delivered or promised.
    pub fn check(
        &mut self,
        now: Timestamp,
        packet: &ConnectionPacket<'_>,
        inbox: &mut Inbox,
    ) -> Result<(), Objection> {
        if !packet.is_reliable() {
            return Ok(());
        }
        if !inbox.is_taking() {
            for index in packet.channels() {
                if let Some(channel) = &mut self.channels[index] {
                    channel.excuse(now);
                }
            }
            return Err(Objection::InboxFull);
        }
        for index in packet.channels() {
            if let Some(channel) = &self.channels[index] {
                self.trials[index] = channel.trial();
            }
        }
        for item in packet.items() {
            let index = usize::from(item.channel());
            let Some(channel) = &self.channels[index] else {
                continue;
            };
            let trial = &mut self.trials[index];
            match item {
                Item::Message(message) => {
                    let id = message.id.unwrap_or_default();
                    channel.check_message(trial, id, message.body.len())?;
                }
                Item::Fragment(fragment) => channel.check_fragment(trial, &fragment)?,
            }
        }
        self.check_room(packet, inbox)
    }

    fn check_room(&self, packet: &ConnectionPacket<'_>, inbox: &Inbox) -> Result<(), Objection> {
        let (mut added, mut reserved, mut progress) = (0, 0, false);
        for index in packet.channels() {
            let Some(channel) = &self.channels[index] else {
                continue;
            };
            let trial = &self.trials[index];
            added += trial.added;
            reserved += trial.reserved;
            progress |= channel.would_progress(trial);
        }
        if added > 0 {
            let early = self.early_bytes();
            let most = self.bounds.early;
            let max = if progress {
                most
            } else {
                inbox.ahead_max(most - EARLY_BYTES_RESERVE)
            };
            if early + added > max && early + added - self.freed(packet) > max {
                return Err(Objection::WindowFull);
            }
        }
        if reserved > 0 {
            let others = self.block_reserved();
            if others > 0 && others + reserved > inbox.pieces_max(self.bounds.blocks) {
                return Err(Objection::WindowFull);
            }
        }
        Ok(())
    }

    fn freed(&self, packet: &ConnectionPacket<'_>) -> usize {
        let freed = packet.channels().filter_map(|index| {
            let channel = self.channels[index].as_ref()?;
            Some(channel.freed(&self.trials[index]))
        });
        freed.sum()
    }

    fn block_reserved(&self) -> usize {
        let channels = self.channels.iter().flatten();
        channels.map(ReliableOrdered::block_reserved).sum()
    }

    /// Takes a packet that [`Receiver::check`] just found good: messages in order go straight to
    /// the inbox, what comes early is kept. The caller then acknowledges the packet.
    pub fn apply(
        &mut self,
        now: Timestamp,
        packet: &ConnectionPacket<'_>,
        inbox: &mut Inbox,
        stats: &mut Stats,
    ) {
        let mut scratch = None;
        for item in packet.items() {
            let index = item.channel();
            let mut sink = Sink {
                channel: index,
                inbox,
                stats,
            };
            match (item, &mut self.channels[usize::from(index)]) {
                (Item::Message(message), Some(channel)) => {
                    let id = message.id.unwrap_or_default();
                    let payload = message.body.read(&mut scratch);
                    channel.apply_message(now, id, payload, &mut sink);
                }
                (Item::Message(message), None) => {
                    sink.deliver_or_drop(message.body.read(&mut scratch));
                }
                (Item::Fragment(fragment), Some(channel)) => {
                    channel.apply_fragment(now, &fragment, &mut sink);
                }
                // A packet with one was not parsed.
                (Item::Fragment(_), None) => {}
            }
        }
    }

    /// Whether the message was delivered, so that nothing of it waits here any more. True for any
    /// message of a channel without order.
    pub fn is_delivered(&self, channel: Channel, id: u16) -> bool {
        let channel = self.channels.get(usize::from(channel));
        channel.is_none_or(|channel| channel.as_ref().is_none_or(|c| c.is_delivered(id)))
    }

    /// Whether the peer has left a message or the rest of a block out for too long: the session should end. Time is
    /// what passes here as elsewhere, or less: whatever the caller counts against the peer.
    pub fn is_stalled(&self, now: Timestamp) -> bool {
        let channels = self.channels.iter().flatten();
        let mut stalls = channels.filter_map(ReliableOrdered::stalls_at);
        stalls.any(|at| at <= now)
    }

    /// Messages that the peer may send ahead of those that were delivered, in all channels together.
    pub fn windows(&self) -> u64 {
        let channels = self.channels.iter().flatten();
        channels.map(|channel| u64::from(channel.window())).sum()
    }

    /// Bytes held for messages behind gaps and for blocks that miss fragments.
    pub fn held(&self) -> usize {
        self.early_bytes() + self.block_bytes()
    }

    /// Bytes held for messages behind gaps.
    pub fn early_bytes(&self) -> usize {
        let channels = self.channels.iter().flatten();
        channels.map(ReliableOrdered::early_bytes).sum()
    }

    /// Bytes held for blocks that miss fragments.
    pub fn block_bytes(&self) -> usize {
        let channels = self.channels.iter().flatten();
        channels.map(ReliableOrdered::block_bytes).sum()
    }

    /// Nothing will be taken any more: lets go of what waits for something before it.
    pub fn release(&mut self) {
        for channel in self.channels.iter_mut().flatten() {
            channel.release();
        }
    }
}
