// Sequences of packets into one long-lived receiver, so that gaps open and close and blocks
// complete. Reliable messages must come out once and in order whatever the order of packets, memory
// must stay inside its bounds, and a packet that is not taken must change nothing.

use std::sync::Arc;
use std::time::Duration;

use tidegate_proto::inbox::Inbox;
use tidegate_proto::yojimbo::channels::{
    ChannelLayout, ConnectionPacket, Delivery, FragmentPlace, Items, MessageType, PacketWriter, Layout,
    Receiver,
};
use tidegate_proto::yojimbo::reliable::Limits;
use tidegate_proto::{Stats, Timestamp};

const FRAGMENT: u16 = 16;
const MESSAGE: u8 = 0;
const BLOCK: u8 = 1;

fn layout() -> Layout {
    let reliable = ChannelLayout {
        block_bytes_max: 100,
        block_fragment_size: FRAGMENT,
        receive_window: 64,
        ..ChannelLayout::new(Delivery::ReliableOrdered)
    };
    let unreliable = ChannelLayout::new(Delivery::UnreliableUnordered);
    Layout::new(
        vec![reliable, unreliable, reliable],
        vec![MessageType::Bytes { min: 3, max: 7000 }, MessageType::Block],
        Limits::default(),
    )
    .expect("the layout above is fine")
}

struct Fuzzed {
    layout: Arc<Layout>,
    receiver: Receiver,
    inbox: Inbox,
    stats: Stats,
    now: Timestamp,
    /// The id to come out next, by channel.
    next: [u16; 3],
}

pub fn run(data: &[u8]) {
    let Some((&mode, data)) = data.split_first() else {
        return;
    };
    let layout = Arc::new(layout());
    let mut fuzzed = Fuzzed {
        receiver: Receiver::new(layout.clone()),
        layout,
        inbox: Inbox::new(4096),
        stats: Stats::default(),
        now: Timestamp::ZERO,
        next: [0; 3],
    };
    if mode & 2 == 2 {
        fuzzed.receiver.widen();
    }
    if mode & 1 == 1 {
        fuzzed.run_bytes(data);
    } else {
        fuzzed.run_steps(data);
    }
}

impl Fuzzed {
    /// Any bytes, each packet behind its length. Nobody knows what should be delivered.
    fn run_bytes(&mut self, mut data: &[u8]) {
        while let Some((&length, rest)) = data.split_first() {
            let (packet, rest) = rest.split_at(usize::from(length).min(rest.len()));
            data = rest;
            let mut items = Items::default();
            if ConnectionPacket::parse(packet, &self.layout, &mut items).is_ok() {
                self.receive(packet);
            }
            while self.inbox.len() > 40 {
                self.inbox.pop();
            }
        }
    }

    /// Packets made from four bytes each, with payloads that tell their ids.
    fn run_steps(&mut self, data: &[u8]) {
        let mut steps = data.chunks_exact(4);
        while let Some(step) = steps.next() {
            self.now += Duration::from_millis(u64::from(step[0]));
            if step[0] < 32 {
                // The peer may turn out to be of our make at any time.
                if step[0] == 31 {
                    self.receiver.widen();
                }
                self.drain();
                continue;
            }
            let mut packet = Vec::new();
            self.write(step, &mut steps, &mut packet);
            self.receive(&packet);
        }
        self.drain();
    }

    /// A packet of one to three entries, ids near what each channel waits for.
    fn write<'d>(
        &self,
        first: &[u8],
        steps: &mut impl Iterator<Item = &'d [u8]>,
        packet: &mut Vec<u8>,
    ) {
        let mut writer = PacketWriter::new(&self.layout, packet);
        let mut step = first;
        for _ in 0..3 {
            let [choice, ahead, length, more] = *step else {
                return;
            };
            let channel = choice % 3;
            let id = self.next[usize::from(channel)].wrapping_add_signed(i16::from(ahead as i8));
            if channel == 1 {
                writer.unreliable(channel, 1);
                writer.message(MESSAGE, (&[0, 0, 0], &[]));
            } else if choice & 0x40 == 0 {
                let body = body(id, 3 + usize::from(length) * 20);
                writer.reliable(channel, [id, id.wrapping_add(1)].into_iter());
                writer.message(MESSAGE, (&body, &[]));
                let body = self::body(id.wrapping_add(1), 3);
                writer.message(MESSAGE, (&body, &[]));
            } else {
                let count = u16::from(length >> 4) % 6 + 1;
                let index = u16::from(length) % count;
                let place = FragmentPlace {
                    channel,
                    id,
                    count,
                    index,
                };
                let whole = body(id, usize::from(count * FRAGMENT) - 9);
                let piece = whole.chunks(usize::from(FRAGMENT)).nth(usize::from(index));
                writer.fragment(place, BLOCK, (piece.unwrap_or(&[0]), &[]));
            }
            match steps.next() {
                Some(next) if more & 3 == 0 => step = next,
                _ => break,
            }
        }
        writer.finish();
    }

    fn receive(&mut self, bytes: &[u8]) {
        let mut items = Items::default();
        let packet = ConnectionPacket::parse(bytes, &self.layout, &mut items).expect("parses");
        let before = (self.receiver.held(), self.inbox.len(), self.stats);
        let verdict = self.receiver.check(self.now, &packet, &mut self.inbox);
        if verdict.is_err() {
            let after = (self.receiver.held(), self.inbox.len(), self.stats);
            assert_eq!(
                before, after,
                "a packet that was not taken changed something"
            );
            return;
        }
        self.receiver
            .apply(self.now, &packet, &mut self.inbox, &mut self.stats);
        assert!(self.receiver.held() <= 256 * 1024 + 1024);
        assert_eq!(
            self.receiver.held() > 0,
            self.receiver.is_stalled(Timestamp::MAX)
        );
    }

    fn drain(&mut self) {
        while let Some(message) = self.inbox.pop() {
            if !message.reliable {
                continue;
            }
            let next = &mut self.next[usize::from(message.channel)];
            assert_eq!(message.payload, body(*next, message.payload.len()));
            *next = next.wrapping_add(1);
        }
    }
}

/// The payload that belongs to an id.
fn body(id: u16, length: usize) -> Vec<u8> {
    let [low, high] = id.to_le_bytes();
    let mut body = vec![low ^ 0x5a; length];
    for (byte, value) in body.iter_mut().zip([low, high]) {
        *byte = value;
    }
    body
}

pub fn seeds() -> Vec<Vec<u8>> {
    vec![
        // In order on two channels; a gap and its end; a block in three pieces, behind a gap too.
        vec![0, 32, 0, 1, 1, 34, 0, 1, 1, 33, 2, 9, 1],
        // Pieces of two blocks and the message between them, from a peer of ours.
        vec![
            2, 99, 2, 0x11, 1, 99, 0, 0x11, 1, 36, 1, 3, 1, 99, 2, 0x10, 1, 99, 0, 0x10, 1,
        ],
        vec![0, 35, 2, 200, 1, 35, 4, 200, 1, 35, 0, 200, 1, 35, 0, 3, 1],
        vec![
            0, 99, 0, 0x20, 1, 99, 0, 0x22, 1, 99, 0, 0x21, 1, 1, 0, 0, 0, 35, 0, 3, 1,
        ],
        vec![
            0, 101, 0, 0x30, 0, 99, 0, 0x31, 0, 100, 0, 0x32, 1, 1, 0, 0, 0,
        ],
        // One frame each for both reliable channels, as bytes.
        vec![
            1, 8, 0x41, 0x80, 0, 0, 0, 0, 1, 2, 3, 8, 0x49, 0x80, 0, 0, 0, 0, 1, 2, 3,
        ],
    ]
}
