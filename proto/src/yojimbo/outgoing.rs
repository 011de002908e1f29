//! The way out of a session: what the sender planned becomes a numbered packet and its datagrams.
//!
//! ```text
//!   Sender::poll_packet ─▶ plan ─▶ connection packet ─▶ one datagram, or its fragments in turn
//! ```
//!
//! Packet numbers are counted in 64 bits here; their low 16 go on the wire. Now and then one is left
//! out: to the peer it looks lost, and a peer that acknowledges it acknowledges without looking
//! (RFC 9000, section 21.4, has the same defence).

use super::channels::{Carriage, FragmentPlace, Layout, PacketWriter, Profile};
use super::long_ack::{LongAck, Record, Told};
use super::params::{Params, WIRE_OVERHEAD};
use super::reliable::{Header, acked};
use crate::sender::{Form, Planned, Sender};
use crate::sequence;
use crate::session::{Channel, SendError};
use crate::time::Now;

/// What leaves one session as the payload of netcode packets.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) sender: Sender,
    /// Number of the next packet.
    next: u64,
    /// The number last left out, and the one to leave out next.
    skipped: Option<u64>,
    skip_at: u64,
    seed: u64,
    /// The newest acknowledgement taken, and the bits that came with it or before.
    acked: (u16, u32),
    told: Told,
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
    next_fragment: usize,
}

/// The peer acknowledged what was never sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FalseAck;

impl Outgoing {
    pub(super) fn new(now: Now, params: &Params, seed: u64) -> Self {
        let sender = Sender::new(
            now.mono,
            params.sender.clone(),
            params.framing(),
            &params.lanes(),
        );
        let mut outgoing = Self {
            sender,
            next: 0,
            skipped: None,
            skip_at: 0,
            seed,
            acked: (0, 0),
            told: Told::default(),
            planned: None,
            written: None,
            large: None,
        };
        outgoing.choose_skip();
        outgoing
    }

    /// Queues a message.
    pub(super) fn push(
        &mut self,
        now: Now,
        profile: &Profile,
        channel: Channel,
        payload: &[u8],
    ) -> Result<(), SendError> {
        if profile.channel(channel).is_none() {
            return Err(SendError::NoSuchChannel);
        }
        let form = match profile.carriage(channel, (payload, &[])) {
            Some(Carriage::Message(_)) => Form::Inline,
            Some(Carriage::Block(_)) => Form::Block,
            None => {
                let max = profile.payload_bytes_max(channel).unwrap_or(0);
                return Err(SendError::TooLarge {
                    size: payload.len(),
                    max,
                });
            }
        };
        self.sender.push_as(now.mono, channel, payload, form)
    }

    /// Takes the acknowledgements of a packet that arrived; `in_order`: none is missing before it.
    pub(super) fn on_acks(
        &mut self,
        now: Now,
        header: Header,
        long: Option<LongAck<'_>>,
        in_order: bool,
    ) -> Result<(), FalseAck> {
        let is_of_older = header.ack.wrapping_sub(self.acked.0) >= 0x8000;
        self.sender.on_heard(now.mono, in_order, is_of_older);
        for sequence in self.newly_acked(header) {
            let number = sequence::nearest(self.next.saturating_sub(1), sequence);
            if number >= self.next
                || self.skipped == Some(number)
                || self.sender.went_as_another(number)
            {
                return Err(FalseAck);
            }
            self.told.on_acked(number);
            self.sender.on_acked(now.mono, number);
        }
        if let Some(long) = long {
            self.on_long_ack(now, long)?;
        }
        self.sender.on_ack_end(now.mono);
        Ok(())
    }

    fn on_long_ack(&mut self, now: Now, long: LongAck<'_>) -> Result<(), FalseAck> {
        let received = || long.received(self.next.saturating_sub(1));
        let is_told = |skipped| received().any(|run| run.contains(&skipped));
        if self.skipped.is_some_and(is_told) {
            return Err(FalseAck);
        }
        self.sender.on_long_ack(now.mono, received());
        Ok(())
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
    /// `record`: what arrived lately, if the peer is of our make.
    pub(super) fn write(&mut self, profile: &Profile, record: Option<&Record>, out: &mut Vec<u8>) {
        if let Some(large) = &mut self.large {
            let limits = profile.limits();
            limits.emit(large.header, &large.packet, large.next_fragment, out);
            large.next_fragment += 1;
            if large.next_fragment == limits.datagrams(large.packet.len()) {
                self.large = None;
            }
            return;
        }
        let Some((ack, ack_bits)) = self.planned.take() else {
            return;
        };
        let number = self.take_number();
        let again = self.sender.planned().again;
        let header = Header {
            sequence: again.unwrap_or(number) as u16,
            ack,
            ack_bits,
        };
        let start = out.len();
        header.emit(out);
        let body = out.len();
        self.write_packet(profile, out);
        let plan = self.sender.planned();
        out.resize(out.len().max(body + usize::from(plan.padded_to)), 0);
        if let Some(record) = record.filter(|_| plan.is_empty() && plan.padded_to == 0) {
            let room = profile.limits().fragment_above - (out.len() - body);
            record.emit(ack, self.told.known(), room, out);
            self.told.on_told(number, ack);
        }
        let length = out.len() - body;
        self.written = Some((number, length + WIRE_OVERHEAD));
        if length > profile.limits().fragment_above.max(plan.datagram.into()) {
            let packet = out.split_off(body);
            out.truncate(start);
            self.large = Some(Box::new(Large {
                header,
                packet,
                next_fragment: 0,
            }));
            self.write(profile, None, out);
        }
    }

    /// The datagram just written has left.
    pub(super) fn on_written(&mut self, now: Now) {
        if let Some((number, bytes)) = self.written.take() {
            self.sender.on_sent(now.mono, number, bytes);
        }
    }

    fn write_packet(&self, profile: &Profile, out: &mut Vec<u8>) {
        let plan = self.sender.planned();
        let mut writer = PacketWriter::new(profile, out);
        // Entries ascend by channel; a fragment has its channel to itself.
        let mut fragment = plan.fragment;
        let mut rest = plan.messages.as_slice();
        while let Some(first) = rest.first() {
            if fragment.is_some_and(|fragment| fragment.lane < first.lane) {
                self.write_fragment(profile, &mut writer, fragment.take());
            }
            let count = rest
                .iter()
                .take_while(|message| message.lane == first.lane)
                .count();
            let (list, others) = rest.split_at(count);
            self.write_list(profile, &mut writer, list);
            rest = others;
        }
        self.write_fragment(profile, &mut writer, fragment);
        writer.finish();
    }

    fn write_list(&self, profile: &Profile, writer: &mut PacketWriter<'_>, list: &[Planned]) {
        let channel = list[0].lane;
        if profile.channels()[usize::from(channel)].is_reliable() {
            writer.reliable(channel, list.iter().map(|message| message.id));
        } else {
            writer.unreliable(channel, list.len());
        }
        for message in list {
            let payload = self.sender.payload(*message);
            let Some(Carriage::Message(kind)) = profile.carriage(channel, payload) else {
                debug_assert!(false, "push has checked that it travels inline");
                continue;
            };
            match profile.messages()[usize::from(kind)] {
                Layout::Block => writer.inline_block(channel, kind, payload),
                Layout::Bytes { .. } | Layout::Bits(_) => writer.message(kind, payload),
            }
        }
    }

    fn write_fragment(
        &self,
        profile: &Profile,
        writer: &mut PacketWriter<'_>,
        fragment: Option<crate::sender::Fragment>,
    ) {
        let Some(fragment) = fragment else { return };
        let data = self.sender.fragment_payload(fragment);
        let kind = profile
            .messages()
            .iter()
            .position(|layout| *layout == Layout::Block)
            .unwrap_or(0) as u8;
        let place = FragmentPlace {
            channel: fragment.lane,
            id: fragment.id,
            count: fragment.count,
            index: fragment.index,
        };
        writer.fragment(place, kind, data);
    }

    fn take_number(&mut self) -> u64 {
        if self.next == self.skip_at {
            self.skipped = Some(self.next);
            self.next += 1;
            self.choose_skip();
        }
        self.next += 1;
        self.next - 1
    }

    /// 50 to 305 packets from here: often enough to catch a liar within seconds, rarely enough to
    /// look like a very good network.
    fn choose_skip(&mut self) {
        self.seed = self
            .seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.skip_at = self.next + 50 + (self.seed >> 56);
    }
}
