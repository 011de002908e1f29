// Long fragments (proto/src/yojimbo/channels/long_fragment.rs): what is read from any bytes is written as the same
// bytes; and sequences of them, among fragments of the wire's own size and messages, into one long-lived receiver.
// Messages must come out once and in order, memory must stay inside its bounds, and a packet that is not taken must
// change nothing.

use std::sync::Arc;

use tidegate_proto::inbox::Inbox;
use tidegate_proto::sender::LongFragment;
use tidegate_proto::yojimbo::channels::{
    ChannelLayout, ConnectionPacket, Delivery, FragmentPlace, Item, Items, Layout, MessageType, PacketWriter,
    Receiver, emit_long_fragment, parse_long_fragment,
};
use tidegate_proto::yojimbo::reliable::Limits;
use tidegate_proto::{Stats, Timestamp};

const FRAGMENT: u16 = 16;
const BLOCK_MAX: u16 = 100;
const MESSAGE: u8 = 0;
const BLOCK: u8 = 1;

fn layout() -> Layout {
    let reliable = ChannelLayout {
        block_bytes_max: BLOCK_MAX.into(),
        block_fragment_size: FRAGMENT,
        receive_window: 64,
        ..ChannelLayout::new(Delivery::ReliableOrdered)
    };
    let unreliable = ChannelLayout::new(Delivery::UnreliableUnordered);
    let messages = vec![MessageType::Bytes { min: 3, max: 7000 }, MessageType::Block];
    Layout::new(vec![reliable, unreliable], messages, Limits::default()).expect("the layout above is fine")
}

pub fn run(data: &[u8]) {
    let Some((&mode, data)) = data.split_first() else {
        return;
    };
    match mode % 3 {
        0 => read(data, &layout()),
        1 => read(data, &Layout::default()),
        _ => Fuzzed::new().run(data),
    }
}

/// Any bytes.
fn read(bytes: &[u8], layout: &Layout) {
    let mut items = Items::default();
    let Ok(packet) = parse_long_fragment(bytes, layout, &mut items) else {
        return;
    };
    let items: Vec<Item<'_>> = packet.items().collect();
    let [Item::Fragment(fragment)] = items[..] else {
        panic!("{items:?}");
    };
    let rules = &layout.channels()[usize::from(fragment.place.channel)];
    assert!(fragment.place.index < fragment.place.count);
    assert!(u32::from(fragment.place.count) <= rules.block_fragments_max());
    assert!(fragment.whole_max <= rules.block_bytes_max);
    let long = LongFragment {
        length: fragment.whole_max,
        size: fragment.size,
    };
    let mut again = Vec::new();
    emit_long_fragment(fragment.place, long, (fragment.data, &[]), &mut again);
    assert_eq!(again, bytes);
}

struct Fuzzed {
    layout: Arc<Layout>,
    receiver: Receiver,
    inbox: Inbox,
    stats: Stats,
    /// The id to come out next.
    next: u16,
}

impl Fuzzed {
    fn new() -> Self {
        let layout = Arc::new(layout());
        let mut receiver = Receiver::new(layout.clone());
        receiver.widen();
        Self {
            receiver,
            layout,
            inbox: Inbox::new(4096),
            stats: Stats::default(),
            next: 0,
        }
    }

    /// Packets made from four bytes each, with payloads that tell their ids.
    fn run(&mut self, data: &[u8]) {
        for step in data.chunks_exact(4) {
            let [choice, ahead, cut, index] = *step else {
                return;
            };
            let id = self.next.wrapping_add_signed(i16::from(ahead as i8));
            // Blocks of one id are cut in the same way, but for one choice in sixteen.
            let changed = u16::from(choice >= 240) * u16::from(cut);
            let length = 1 + (id.wrapping_mul(29).wrapping_add(changed)) % BLOCK_MAX;
            let long = LongFragment {
                length: length.into(),
                size: FRAGMENT + id % 40 + changed % 3,
            };
            match choice % 4 {
                0 => self.drain(),
                1 => self.message(id, 3 + usize::from(cut)),
                2 => self.short(id, length, u16::from(index)),
                _ => self.long(id, long, u16::from(index)),
            }
        }
        self.drain();
    }

    fn message(&mut self, id: u16, length: usize) {
        let (layout, mut packet) = (self.layout.clone(), Vec::new());
        let mut writer = PacketWriter::new(&layout, &mut packet);
        writer.reliable(0, [id].into_iter());
        writer.message(MESSAGE, (&body(id, length), &[]));
        writer.finish();
        let mut items = Items::default();
        let packet = ConnectionPacket::parse(&packet, &layout, &mut items).expect("parses");
        self.receive(&packet);
    }

    fn short(&mut self, id: u16, length: u16, index: u16) {
        let (layout, mut packet) = (self.layout.clone(), Vec::new());
        let whole = body(id, length.into());
        let pieces: Vec<&[u8]> = whole.chunks(FRAGMENT.into()).collect();
        let place = place(id, pieces.len(), index);
        let mut writer = PacketWriter::new(&layout, &mut packet);
        writer.fragment(place, BLOCK, (pieces[usize::from(place.index)], &[]));
        writer.finish();
        let mut items = Items::default();
        let packet = ConnectionPacket::parse(&packet, &layout, &mut items).expect("parses");
        self.receive(&packet);
    }

    fn long(&mut self, id: u16, long: LongFragment, index: u16) {
        let (layout, mut bytes) = (self.layout.clone(), Vec::new());
        let whole = body(id, long.length as usize);
        let pieces: Vec<&[u8]> = whole.chunks(long.size.into()).collect();
        let place = place(id, pieces.len(), index);
        emit_long_fragment(place, long, (pieces[usize::from(place.index)], &[]), &mut bytes);
        let mut items = Items::default();
        let packet = parse_long_fragment(&bytes, &layout, &mut items).expect("what we write, we read");
        self.receive(&packet);
    }

    fn receive(&mut self, packet: &ConnectionPacket<'_>) {
        let before = (self.receiver.held(), self.inbox.len(), self.stats);
        let verdict = self.receiver.check(Timestamp::ZERO, packet, &mut self.inbox);
        if verdict.is_err() {
            let after = (self.receiver.held(), self.inbox.len(), self.stats);
            assert_eq!(before, after, "a packet that was not taken changed something");
            return;
        }
        self.receiver
            .apply(Timestamp::ZERO, packet, &mut self.inbox, &mut self.stats);
        assert!(self.receiver.held() <= 256 * 1024);
    }

    fn drain(&mut self) {
        while let Some(message) = self.inbox.pop() {
            assert_eq!(message.payload, body(self.next, message.payload.len()));
            self.next = self.next.wrapping_add(1);
        }
    }
}

fn place(id: u16, count: usize, index: u16) -> FragmentPlace {
    FragmentPlace {
        channel: 0,
        id,
        count: count as u16,
        index: index % count as u16,
    }
}

/// The payload that belongs to an id: each byte tells where it is.
fn body(id: u16, length: usize) -> Vec<u8> {
    (0..length).map(|at| (usize::from(id) * 7 + at) as u8).collect()
}

pub fn seeds() -> Vec<Vec<u8>> {
    vec![
        // One, and the second of three, as bytes.
        vec![0, 0, 1, 0, 20, 0, 0, 0, 16, 0, 1, 0, 9, 8, 7, 6],
        vec![0, 0, 1, 0, 40, 0, 0, 0, 16, 0, 1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16],
        // Of the blocks 0 to 3 all pieces, late ones first; a message between, and one that is cut in another way.
        vec![
            2, 3, 3, 0, 5, 3, 3, 0, 4, 3, 3, 0, 3, 3, 3, 0, 2, 3, 3, 0, 1, 3, 3, 0, 0, 3, 2, 0, 1, 3, 2, 0, 2, 3, 2, 0,
            0, 3, 2, 0, 3, 3, 1, 0, 1, 243, 1, 9, 0, 3, 1, 0, 0, 1, 0, 5, 0, 0, 0, 0, 0,
        ],
        vec![2, 2, 1, 0, 0, 3, 1, 0, 0, 2, 0, 0, 0, 2, 1, 0, 1, 0, 0, 0, 0],
    ]
}
