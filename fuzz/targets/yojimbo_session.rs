// A whole yojimbo session, its peer's key known: packets, fragments, blocks, false acknowledgements,
// keep-alives and goodbyes, sends, reads and waits in any order. Bounded, and one end.

use std::time::Duration;

use tidegate_proto::yojimbo::channels::{
    ChannelLayout, Delivery, FragmentPlace, Layout, MessageType, PacketWriter,
};
use tidegate_proto::yojimbo::netcode::wire::{Kind, Prefix};
use tidegate_proto::yojimbo::reliable::{Header, Limits};
use tidegate_proto::yojimbo::{Params, Session};
use tidegate_proto::{AckPolicy, Event, Now, Session as _, Stats, Timestamp, Way};

const PROTOCOL_ID: u64 = 1;
const TAG: [u8; 16] = [0; 16];

/// The session, and what its peer knows.
struct Fuzzed {
    session: Session,
    now: Now,
    /// Of the link's packets.
    sealed: u64,
    /// Of the reliable layer's packets, the peer's newest and ours.
    theirs: u16,
    ours: Option<u16>,
    closed: bool,
    /// Bytes that our side may still say: they are held, and no input of a few bytes pays for them.
    to_say: usize,
    /// The cipher of the peer's payloads.
    payload: Kind,
    /// Bytes of the longest datagram there may be.
    datagram_max: usize,
}

/// A packet of an input is at most 255 bytes: too short for the default layout's fragments but the last. So in half of the
/// sessions those of packets and of blocks are short enough to be put together.
fn layout(config: u8) -> Layout {
    if config & 32 == 0 {
        return Layout::default();
    }
    let reliable = ChannelLayout {
        block_bytes_max: 200,
        block_fragment_size: 32,
        receive_window: 64,
        ..ChannelLayout::new(Delivery::ReliableOrdered)
    };
    let unreliable = ChannelLayout::new(Delivery::UnreliableUnordered);
    let layout = Layout::new(
        vec![reliable, unreliable],
        vec![MessageType::Bytes { min: 0, max: 400 }, MessageType::Block],
        SHORT,
    );
    layout.expect("the layout above is fine")
}

const SHORT: Limits = Limits {
    packet_bytes_max: 512,
    fragment_size: 64,
    fragments_max: 8,
    fragment_above: 128,
};

pub fn run(data: &[u8]) {
    play(data);
}

/// What the session counted in the end.
pub fn play(data: &[u8]) -> Stats {
    let Some((&config, mut data)) = data.split_first() else {
        return Stats::default();
    };
    let mut fuzzed = Fuzzed::new(config);
    while let Some((&op, rest)) = data.split_first() {
        let (&length, rest) = rest.split_first().unwrap_or((&0, rest));
        let (argument, rest) = rest.split_at(usize::from(length).min(rest.len()));
        data = rest;
        fuzzed.step(op, length, argument);
        fuzzed.drain();
    }
    fuzzed.session.stats()
}

impl Fuzzed {
    fn new(config: u8) -> Self {
        let params = Params {
            ack: [AckPolicy::Queued, AckPolicy::Strict][usize::from(config & 1)],
            inbox_max: 4096,
            ..Params::new(layout(config), Default::default())
        };
        // Half of them take and send datagrams and a cipher beyond the standard, some without having
        // heard such a datagram.
        let params = match config & 2 {
            0 => params,
            _ => params.with_path_mtu(9_000, config & 4 != 0).with_second_cipher(true),
        };
        let now = Now {
            mono: Timestamp::from_millis(1000),
            unix_secs: 0,
        };
        let timeout = Duration::from_secs(12).as_nanos() as u64;
        let origin = [u64::from(config), PROTOCOL_ID, timeout, 0, 16];
        let mut session = Session::replayed(now, params.into(), origin);
        assert_eq!(session.poll_event(), Some(Event::Authenticated));
        // Some take what their peer says before they are admitted.
        if config & 16 == 0 {
            session.admit(now);
        }
        Self {
            session,
            now,
            sealed: 0,
            theirs: 0,
            ours: None,
            closed: false,
            to_say: 20_000,
            payload: [Kind::Payload, Kind::GcmPayload][usize::from(config >> 3 & 1)],
            datagram_max: if config & 2 == 0 { 1273 } else { 8226 },
        }
    }

    fn step(&mut self, op: u8, length: u8, argument: &[u8]) {
        let now = self.now;
        match op % 8 {
            // A packet near the window, whose messages are the input.
            0 | 1 => {
                self.theirs = self.theirs.wrapping_add(u16::from(op >> 6));
                let mut payload = Vec::new();
                let (ack, ack_bits) = self.ack(op >> 3 & 3, length);
                let header = Header {
                    sequence: self.theirs,
                    ack,
                    ack_bits,
                };
                header.emit(&mut payload);
                payload.extend_from_slice(argument);
                self.receive(self.payload, &payload);
            }
            // Headers and fragments are the input too.
            2 => self.receive(self.payload, &argument.repeat(1 + 16 * usize::from(op >> 6))),
            3 => {
                let kinds = [
                    Kind::KeepAlive,
                    Kind::Response,
                    Kind::Disconnect,
                    Kind::Denied,
                ];
                self.receive(kinds[usize::from(op >> 6)], argument);
            }
            // Nothing was sealed by the peer.
            4 => drop(self.session.handle_datagram(now, &mut argument.to_vec())),
            5 => {
                // Large ones are frames of several packets, or blocks.
                let repeated = argument.repeat(1 + 40 * usize::from(op >> 4 & 7));
                if repeated.len() <= self.to_say {
                    self.to_say -= repeated.len();
                    self.session.send(now, op >> 7, &repeated).ok();
                }
            }
            6 => {
                self.session.admit(now);
                while self.session.poll_message().is_some() {}
                self.session.confirm_written(now);
            }
            _ => {
                let span = u64::from(op) * u64::from(length) / 8;
                self.now = now.after(Duration::from_millis(span));
                self.session.handle_timeout(self.now);
            }
        }
    }

    /// What a peer may say that it received; lies are among what [`Fuzzed::step`] takes as it is.
    fn ack(&self, behind: u8, pattern: u8) -> (u16, u32) {
        let ack = self.ours.and_then(|ours| ours.checked_sub(behind.into()));
        let sent = ack.map_or(0, |ack| u32::MAX >> (31 - ack.min(31)));
        let bits = u32::from(pattern).wrapping_mul(0x0101_0101);
        (ack.unwrap_or(u16::MAX), bits & sent)
    }

    /// A packet that the peer sealed.
    fn receive(&mut self, kind: Kind, plain: &[u8]) {
        let mut clear = Vec::new();
        Prefix::new(kind, self.sealed).emit(&mut clear);
        clear.extend_from_slice(plain);
        clear.extend_from_slice(&TAG);
        self.sealed += 1;
        let mut datagram = Vec::new();
        if self.session.conceal(&clear, &mut datagram) {
            self.session.handle_datagram(self.now, &mut datagram).ok();
        }
    }

    fn drain(&mut self) {
        while let Some(event) = self.session.poll_event() {
            assert!(!self.closed, "{event:?} after the end");
            self.closed = matches!(event, Event::Closed(_));
        }
        let (mut out, mut clear, mut datagrams) = (Vec::new(), Vec::new(), 0);
        while self.session.poll_transmit(self.now, &mut out) {
            let length = out.len();
            assert!(length <= self.datagram_max, "{length} bytes in one datagram");
            assert!(self.session.reveal(Way::ToPeer, &out, &mut clear));
            if let Ok(prefix) = Prefix::parse(&out)
                && matches!(prefix.kind, Kind::Payload | Kind::GcmPayload)
                && let [0 | 2.., low, high, ..] = clear[prefix.size()..]
                && clear[prefix.size()] & 1 == 0
            {
                self.ours = Some(u16::from_le_bytes([low, high]));
            }
            out.clear();
            clear.clear();
            datagrams += 1;
            assert!(datagrams <= 128, "one turn is bounded");
        }
        assert!(self.session.inbox_bytes() < 4096 + 512 * 1024);
        match self.session.poll_timeout() {
            None => assert!(self.closed),
            Some(deadline) => assert!(deadline.at > self.now.mono, "{deadline:?}"),
        }
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    vec![
        // One frame, read; a frame sent, acknowledged; a keep-alive, and time.
        vec![
            0, 64, 16, 0, 0x11, 0, 0, 0x40, 2, 0, 0x13, 0xbc, 0x80, 0x48, 0x82, 0x10, 0x23, 0x49,
            0x72, 6, 0, 5, 4, 1, 2, 3, 4, 64, 1, 0, 3, 8, 0, 0, 0, 0, 16, 0, 0, 0, 7, 200,
        ],
        // Large ones, time for probes, acknowledgements late and early, a goodbye.
        vec![
            1, 0x75, 250, 9, 9, 9, 9, 0x75, 8, 1, 2, 3, 4, 5, 6, 7, 8, 7, 50, 7, 50, 64, 255, 0,
            72, 255, 0, 88, 255, 0, 15, 255, 0x83, 0,
        ],
        // The same under the second cipher, from who takes it and from who does not.
        vec![14, 0, 64, 16, 0, 0x11, 0, 0, 0x40, 2, 0, 0x13, 0xbc, 0x80, 0x48, 0x82, 0x10, 5, 250, 9, 9],
        vec![8, 0, 64, 16, 0, 0x11, 0, 0, 0x40, 2, 0, 0x13, 0xbc, 0x80, 0x48, 0x82, 0x10, 5, 250, 9, 9],
        // A frame that is there before the backend is.
        vec![16, 64, 16, 0, 0x11, 0, 0, 0x40, 2, 0, 0x13, 0xbc, 0x80, 0x48, 0x82, 0x10, 0x23, 0x49, 0x72, 6, 0, 7, 200],
        long_acks(),
        long_fragments(),
        probe_beside_a_block(),
        messages_and_a_gap(),
        a_full_inbox(),
        a_block_in_fragments(),
        a_packet_in_fragments(),
        a_gap_for_ever(),
        // First fragments of ever new packets, and a stranger's noise.
        vec![
            0, 2, 12, 1, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 2, 12, 1, 1, 0, 0, 3, 0, 1, 0, 0, 0, 0,
            0, 4, 5, 0x15, 1, 2, 3, 4, 15, 255,
        ],
    ]
}

/// A datagram beyond the standard, forty packets with a gap, which are told of at length, and forty of ours,
/// of which a long acknowledgement tells.
fn long_acks() -> Vec<u8> {
    let mut input = vec![6, 0x42, 100, 0x3e, 0, 0, 1];
    input.extend([0; 96]);
    for step in [64, 0xc0, 64] {
        for _ in 0..20 {
            input.extend([step, 1, 0]);
        }
    }
    for _ in 0..40 {
        input.extend([5, 4, 1, 2, 3, 4, 255, 1, 0]);
    }
    input.extend([64, 8, 0, 1, 3, 2, 1, 255, 0, 255]);
    input
}

/// A datagram beyond the standard that says that long fragments are read, a block of one, the second of another's
/// three, a large one to send, and an acknowledgement.
fn long_fragments() -> Vec<u8> {
    let mut input = vec![6, 0x42, 100, 0x3e, 0, 0, 1, 0, 0, 0, 0, 0, 2];
    input.extend([0; 90]);
    input.extend([64, 63, 0, 4, 0, 0, 0, 50, 0, 0, 0, 0, 4, 0, 0]);
    input.extend([9; 50]);
    input.extend([64, 63, 0, 4, 0, 1, 0, 0x32, 8, 0, 0, 0, 4, 2, 0]);
    input.extend([9; 50]);
    input.extend([0x75, 250]);
    input.extend([8; 250]);
    input.extend([7, 50, 64, 255, 0, 15, 255, 64, 255, 0]);
    input
}

/// Two short frames and a block; some acknowledgements, and so long without one that a probe is due while all
/// that is whole left lately, and fragments wait for their turn.
fn probe_beside_a_block() -> Vec<u8> {
    let mut input = vec![6, 5, 2, 3, 4, 255, 1, 0, 5, 2, 3, 4, 93, 93];
    input.extend([1; 93]);
    input.extend([72, 1, 0, 255, 3, 0, 0, 0, 1, 0, 64, 1, 0, 255, 2, 0, 0]);
    input.extend([255, 4, 0, 0, 0, 0, 255, 3, 0, 0, 0]);
    input
}

/// What makes the session do this with these bytes.
fn step(op: u8, argument: &[u8]) -> Vec<u8> {
    [&[op, argument.len() as u8], argument].concat()
}

/// The next packet, with these empty messages on the reliable channel.
fn messages(config: u8, ids: &[u16]) -> Vec<u8> {
    let (layout, mut packet) = (layout(config), Vec::new());
    let mut writer = PacketWriter::new(&layout, &mut packet);
    writer.reliable(0, ids.iter().copied());
    ids.iter().for_each(|_| writer.message(0, (&[], &[])));
    writer.finish();
    step(64, &packet)
}

const READ: [u8; 2] = [6, 0];

/// In one packet and in several, behind a gap, known, and in an entry after another of the same channel.
fn messages_and_a_gap() -> Vec<u8> {
    let (layout, mut twice) = (layout(0), Vec::new());
    let mut writer = PacketWriter::new(&layout, &mut twice);
    for id in [7, 8] {
        writer.reliable(0, [id].into_iter());
        writer.message(0, (b"twice", &[]));
    }
    writer.finish();
    let packets = [&[0, 1, 2][..], &[5, 6], &[3], &[4, 5], &[0]];
    let packets = packets.map(|ids| messages(0, ids)).concat();
    [vec![0], packets, READ.to_vec(), step(64, &twice), READ.to_vec()].concat()
}

/// A packet that is refused, and taken once there is room.
fn a_full_inbox() -> Vec<u8> {
    let ids: Vec<u16> = (0..70).collect();
    let refused = messages(0, &[70]);
    [vec![0], messages(0, &ids), refused.clone(), READ.to_vec(), refused, READ.to_vec()].concat()
}

/// The fragments of a block, out of order.
fn a_block_in_fragments() -> Vec<u8> {
    let layout = layout(32);
    let mut input = vec![32];
    for index in [1, 0, 2, 2, 3] {
        let mut packet = Vec::new();
        let mut writer = PacketWriter::new(&layout, &mut packet);
        let place = FragmentPlace {
            channel: 0,
            id: 0,
            count: 4,
            index,
        };
        let length = if index == 3 { 5 } else { 32 };
        writer.fragment(place, 1, (&[index as u8; 32][..length], &[]));
        writer.finish();
        input.extend(step(64, &packet));
    }
    [input, READ.to_vec()].concat()
}

/// A packet that comes in fragments, and one of which a fragment is missing for too long.
fn a_packet_in_fragments() -> Vec<u8> {
    let layout = layout(32);
    let mut packet = Vec::new();
    let mut writer = PacketWriter::new(&layout, &mut packet);
    writer.reliable(0, [0].into_iter());
    writer.message(0, (&[7; 150], &[]));
    writer.finish();
    let mut input = vec![32];
    for (sequence, index) in [(0, 1), (1, 0), (0, 0), (0, 2), (1, 2)] {
        let mut datagram = Vec::new();
        let (ack, ack_bits) = (u16::MAX, 0);
        let header = Header { sequence, ack, ack_bits };
        SHORT.emit(header, &packet, index, &mut datagram);
        input.extend(step(2, &datagram));
    }
    input.extend(READ);
    (0..10).for_each(|_| input.extend(step(247, &[0; 8])));
    input
}

/// A message that never comes, while the peer is heard four times a second.
fn a_gap_for_ever() -> Vec<u8> {
    let mut input = vec![0];
    input.extend(messages(0, &[1]));
    for _ in 0..130 {
        input.extend(step(247, &[0; 8]));
        input.extend(step(3, &[0; 8]));
    }
    input
}
