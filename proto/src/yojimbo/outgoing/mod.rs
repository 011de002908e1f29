//! The way out of a session: what the sender planned becomes a numbered packet and its datagrams.
//!
//! ```text
//!   Sender::poll_packet ─▶ plan ─▶ connection packet ─▶ one datagram, or its fragments in turn
//! ```
//!
//! Packet numbers are counted in 64 bits here; their low 16 go on the wire.

use std::ops::Range;

use super::acks::{Acks, FalseAck};
use super::channels::{
    Carriage, FragmentPlace, Layout, MessageType, PacketWriter, emit_long_fragment,
};
use super::long_ack::{LongAck, Record};
use super::params::{Params, WIRE_OVERHEAD};
use super::postscript::{LONG_ACK_OF_READER, LONG_FRAGMENT, NO_ENTRIES, PROBE_OF_READER};
use super::reliable::{Header, Limits, acked};
use crate::sender::{Form, Fragment, Heard, Hearing, LongFragment, Planned, Sender};
use crate::sequence;
use crate::session::{Channel, SendError};
use crate::skipped::SkippedNumbers;
use crate::time::Now;

/// What leaves one session as the payload of netcode packets.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) sender: Sender,
    /// Number of the next packet.
    next: u64,
    skipped: SkippedNumbers,
    /// The newest acknowledgement taken, and the bits that came with it or before.
    acked: (u16, u32),
    /// A packet is planned and waits to be written.
    planned: Option<(u16, u32)>,
    /// The packet just written, until it is reported to the sender: its number and bytes.
    written: Option<(u64, usize)>,
    large: Option<Box<Large>>,
}

/// A packet too large for one datagram, while its fragments leave.
#[derive(Debug)]
struct Large {
    header: Header,
    packet: Vec<u8>,
    /// How it is cut.
    limits: Limits,
    order: Order,
    /// Fragments that left.
    left: usize,
}

impl Outgoing {
    pub(super) fn new(now: Now, params: &Params, seed: u64) -> Self {
        let sender = Sender::new(
            now.mono,
            params.sender.clone(),
            params.framing(),
            &params.lanes(),
        );
        Self {
            sender,
            next: 0,
            skipped: SkippedNumbers::new(seed),
            acked: (0, 0),
            planned: None,
            written: None,
            large: None,
        }
    }

    /// Queues a message.
    pub(super) fn push(
        &mut self,
        now: Now,
        layout: &Layout,
        channel: Channel,
        payload: &[u8],
    ) -> Result<(), SendError> {
        if layout.channel(channel).is_none() {
            return Err(SendError::NoSuchChannel);
        }
        let form = match layout.carriage(channel, (payload, &[])) {
            Some(Carriage::Message(_)) => Form::Inline,
            Some(Carriage::Block(_)) => Form::Block,
            None => {
                let max = layout.payload_bytes_max(channel).unwrap_or(0);
                return Err(SendError::TooLarge {
                    size: payload.len(),
                    max,
                });
            }
        };
        self.sender.push_as(now.mono, channel, payload, form)
    }

    /// Takes the acknowledgements of a packet that arrived.
    pub(super) fn on_acks(&mut self, now: Now, acks: Acks<'_>) -> Result<(), FalseAck> {
        let Acks {
            header,
            postscript,
            in_order,
            mut record,
        } = acks;
        let heard = Heard {
            in_order,
            is_of_older: header.ack.wrapping_sub(self.acked.0) >= 0x8000,
        };
        let newly_acked = self.newly_acked(header);
        let (next, skipped) = (self.next, &self.skipped);
        self.sender.hear(now.mono, heard, |hearing| {
            for sequence in newly_acked {
                let number = sequence::nearest(next.saturating_sub(1), sequence);
                let was_sent = number < next && !skipped.contains(number);
                if !was_sent || !hearing.acked(number) {
                    return Err(FalseAck);
                }
                if let Some(record) = &mut record {
                    record.on_acked(number);
                }
            }
            let Some(postscript) = postscript else {
                return Ok(());
            };
            if postscript.is_of_reader() {
                hearing.reads_long_fragments();
            }
            // Other implementations may leave any bytes behind the last field.
            let long = postscript.long_ack(header);
            match long.filter(|_| hearing.is_peer_tidegate()) {
                Some(long) => hear_long(hearing, long, next, skipped),
                None => Ok(()),
            }
        })
    }

    /// The packets of `header` that the one before it did not acknowledge already: each of them is
    /// repeated up to 31 times, and was looked at when it was new. Oldest first: it says most of how
    /// long the path is.
    fn newly_acked(&mut self, header: Header) -> impl Iterator<Item = u16> + use<> {
        let Header { ack, ack_bits, .. } = header;
        let ahead = ack.wrapping_sub(self.acked.0);
        let known = match ahead {
            0..32 => self.acked.1 << ahead,
            // Long after it, or late itself: nothing is assumed.
            _ => 0,
        };
        if ahead < 0x8000 {
            self.acked = (ack, ack_bits | known);
        }
        acked(ack, ack_bits & !known).rev()
    }

    /// Whether a datagram is to be written now. `take_ack`: what a packet that is written will acknowledge.
    pub(super) fn poll(&mut self, now: Now, take_ack: impl FnOnce() -> (u16, u32)) -> bool {
        if self.large.is_some() || self.planned.is_some() {
            return true;
        }
        let due = self.sender.poll_packet(now.mono);
        if due {
            self.planned = Some(take_ack());
        }
        due
    }

    /// Appends the datagram that [`Outgoing::poll`] announced.
    /// `record`: what arrived lately, if the peer runs tidegate.
    pub(super) fn write(
        &mut self,
        layout: &Layout,
        record: Option<&mut Record>,
        out: &mut Vec<u8>,
    ) {
        if self.write_next_of_large(out) {
            return;
        }
        let Some((ack, ack_bits)) = self.planned.take() else {
            return;
        };
        let number = self.take_number();
        let again = self.sender.planned().again;
        let header = Header {
            sequence: again.map_or(number, |again| again.number) as u16,
            ack,
            ack_bits,
        };
        let start = out.len();
        header.emit(out);
        let body = out.len();
        self.write_body(layout, record, (number, ack), out);
        let length = out.len() - body;
        self.written = Some((number, length + WIRE_OVERHEAD));
        if length > self.sender.planned().datagram.into() {
            self.cut(layout, header, start, body, out);
        }
    }

    /// What was appended from `start` on, its contents from `body` on, leaves in fragments: the first of them takes its place.
    /// Padding that tries a path stays whole.
    #[cold]
    fn cut(
        &mut self,
        layout: &Layout,
        header: Header,
        start: usize,
        body: usize,
        out: &mut Vec<u8>,
    ) {
        let plan = self.sender.planned();
        if plan.is_empty() {
            return;
        }
        let packet = out.split_off(body);
        out.truncate(start);
        self.large = Some(Box::new(Large {
            header,
            packet,
            limits: layout.limits().in_pieces(),
            order: Order::after(plan.again.map_or(0, |again| again.times.get())),
            left: 0,
        }));
        self.write_next_of_large(out);
    }

    /// Appends the next datagram of a packet that is too large for one, if there is such a packet.
    #[inline]
    fn write_next_of_large(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(large) = &mut self.large else {
            return false;
        };
        let count = large.limits.datagrams(large.packet.len());
        let index = large.order.at(large.left, count);
        large.limits.emit(large.header, &large.packet, index, out);
        large.left += 1;
        if large.left == count {
            self.large = None;
        }
        true
    }

    /// The datagram just written has left.
    pub(super) fn on_written(&mut self, now: Now) {
        if let Some((number, bytes)) = self.written.take() {
            self.sender.on_sent(now.mono, number, bytes);
        }
    }

    /// Appends what our packet `number`, which acknowledges `ack`, has behind its header.
    fn write_body(
        &self,
        layout: &Layout,
        record: Option<&mut Record>,
        (number, ack): (u64, u16),
        out: &mut Vec<u8>,
    ) {
        let plan = self.sender.planned();
        if plan.is_empty() && !layout.has_check_word() {
            let room = layout.limits().fragment_above;
            self.write_postscript(record, (number, ack), room, out);
        } else if let Some(fragment) = plan.fragment
            && let Some(long) = self.sender.long_fragment(fragment)
        {
            self.write_long_fragment(fragment, long, out);
        } else {
            self.write_packet(layout, out);
        }
    }

    /// Appends a packet that carries nothing, and what may stand behind that: padding, or a long acknowledgement of
    /// `room` bytes at most in our packet `number`.
    fn write_postscript(
        &self,
        record: Option<&mut Record>,
        (number, ack): (u64, u16),
        room: usize,
        out: &mut Vec<u8>,
    ) {
        let body = out.len();
        let plan = self.sender.planned();
        out.push(NO_ENTRIES);
        if let Some(padding) = plan.padding {
            out.resize(body + usize::from(padding.bytes), 0);
            if self.sender.reads_long_fragments() {
                out[body + 1] = PROBE_OF_READER;
            }
        } else if let Some(record) = record {
            record.emit(number, ack, room - 1, out);
            if self.sender.reads_long_fragments() && self.sender.are_long_fragments_read() {
                out[body + 1] = LONG_ACK_OF_READER;
            }
        }
    }

    fn write_long_fragment(&self, fragment: Fragment, long: LongFragment, out: &mut Vec<u8>) {
        out.extend([NO_ENTRIES, LONG_FRAGMENT]);
        let data = self.sender.fragment_payload(fragment);
        emit_long_fragment(place(fragment), long, data, out);
    }

    fn write_packet(&self, layout: &Layout, out: &mut Vec<u8>) {
        let plan = self.sender.planned();
        let mut writer = PacketWriter::new(layout, out);
        // Entries ascend by channel; a fragment has its channel to itself.
        let mut fragment = plan.fragment.as_ref();
        for list in plan.messages.chunk_by(|one, next| one.lane == next.lane) {
            if fragment.is_some_and(|fragment| fragment.lane < list[0].lane) {
                self.write_fragment(layout, &mut writer, fragment.take());
            }
            self.write_list(layout, &mut writer, list);
        }
        self.write_fragment(layout, &mut writer, fragment);
        writer.finish();
    }

    fn write_list(&self, layout: &Layout, writer: &mut PacketWriter<'_>, list: &[Planned]) {
        let channel = list[0].lane;
        if layout.channels()[usize::from(channel)].is_reliable() {
            writer.reliable(channel, list.iter().map(|message| message.id));
        } else {
            writer.unreliable(channel, list.len());
        }
        for message in list {
            let payload = self.sender.payload(*message);
            let Some(Carriage::Message(kind)) = layout.carriage(channel, payload) else {
                debug_assert!(false, "push has checked that it travels inline");
                continue;
            };
            match layout.messages()[usize::from(kind)] {
                MessageType::Block => writer.inline_block(channel, kind, payload),
                MessageType::Bytes { .. } | MessageType::Bits(_) => writer.message(kind, payload),
            }
        }
    }

    fn write_fragment(
        &self,
        layout: &Layout,
        writer: &mut PacketWriter<'_>,
        fragment: Option<&Fragment>,
    ) {
        let Some(&fragment) = fragment else { return };
        let data = self.sender.fragment_payload(fragment);
        let kind = layout
            .messages()
            .iter()
            .position(|message_type| *message_type == MessageType::Block)
            .unwrap_or(0) as u8;
        writer.fragment(place(fragment), kind, data);
    }

    fn take_number(&mut self) -> u64 {
        self.next += u64::from(self.skipped.is_next(self.next));
        self.next += 1;
        self.next - 1
    }
}

/// Where the wire says that a fragment belongs.
fn place(fragment: Fragment) -> FragmentPlace {
    FragmentPlace {
        channel: fragment.lane,
        id: fragment.id,
        count: fragment.count,
        index: fragment.index,
    }
}

/// In which order the fragments of a packet leave.
#[derive(Clone, Copy, Debug)]
struct Order {
    first: usize,
    is_reversed: bool,
}

impl Order {
    /// Of a packet that left so many `times` before.
    ///
    /// A queue that is too short for all of them drops the last, so the next time these leave first. A path may lose every
    /// second datagram, or third: in the same order the same fragments would be lost each time, and so they would if each
    /// time began one later and another datagram came between. With two from each first one, one of the two helps.
    fn after(times: u8) -> Self {
        Self {
            first: usize::from(times / 2),
            is_reversed: !times.is_multiple_of(2),
        }
    }

    /// The fragment, of so many, that leaves when so many have left.
    fn at(self, left: usize, count: usize) -> usize {
        let place = if self.is_reversed {
            count - 1 - left
        } else {
            left
        };
        (self.first + place) % count
    }
}

/// Takes what a packet says at length of those before `next`, some of which were `skipped`.
fn hear_long(
    hearing: &mut Hearing<'_>,
    long: LongAck<'_>,
    next: u64,
    skipped: &SkippedNumbers,
) -> Result<(), FalseAck> {
    let remembered = hearing.remembered_from();
    let received = || {
        let runs = long.received(next.saturating_sub(1));
        let runs = runs.map(|run| run.start.max(remembered)..run.end);
        runs.filter(|run| !run.is_empty())
    };
    let is_false = |run: Range<u64>| run.end > next || skipped.among(run).next().is_some();
    if received().any(is_false) || !hearing.long_acked(received()) {
        return Err(FalseAck);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
