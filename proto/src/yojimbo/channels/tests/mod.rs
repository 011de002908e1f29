//! The receiving end against a sender that keeps to the rules, and against some that do not.

mod blocks;
mod layout;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::receiver::{EARLY_BYTES_MAX, EARLY_BYTES_RESERVE};
use super::*;
use crate::inbox::{Inbox, MESSAGE_OVERHEAD};
use crate::sender::LongFragment;
use crate::session::Allowance;
use crate::stats::Stats;
use crate::time::Timestamp;
use crate::yojimbo::reliable::Limits;

const FRAME: u8 = 0;
const BLOCK: u8 = 1;
const NOW: Timestamp = Timestamp::ZERO;

/// A receiver, its inbox, and everything that came out of it.
struct Far {
    layout: Arc<Layout>,
    receiver: Receiver,
    inbox: Inbox,
    stats: Stats,
    now: Timestamp,
}

impl Far {
    fn new(layout: Layout) -> Self {
        let layout = Arc::new(layout);
        Self {
            receiver: Receiver::new(layout.clone()),
            layout,
            inbox: Inbox::new(256 * 1024),
            stats: Stats::default(),
            now: NOW,
        }
    }

    fn receive(&mut self, packet: &[u8]) -> Result<(), Objection> {
        let (layout, mut items) = (self.layout.clone(), Items::default());
        let packet = ConnectionPacket::parse(packet, &layout, &mut items);
        self.take(&packet.expect("a good packet"))
    }

    fn receive_long(&mut self, fragment: &[u8]) -> Result<(), Objection> {
        let (layout, mut items) = (self.layout.clone(), Items::default());
        let packet = parse_long_fragment(fragment, &layout, &mut items);
        self.take(&packet.expect("a good packet"))
    }

    fn take(&mut self, packet: &ConnectionPacket<'_>) -> Result<(), Objection> {
        self.receiver.check(self.now, packet, &mut self.inbox)?;
        self.receiver
            .apply(self.now, packet, &mut self.inbox, &mut self.stats);
        Ok(())
    }

    fn pop(&mut self) -> Option<Vec<u8>> {
        self.inbox.pop().map(|message| message.payload.to_vec())
    }

    fn pop_all(&mut self) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| self.pop()).collect()
    }
}

fn frames(layout: &Layout, channel: u8, messages: &[(u16, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = PacketWriter::new(layout, &mut out);
    if !messages.is_empty() {
        writer.reliable(channel, messages.iter().map(|(id, _)| *id));
    }
    for (_, payload) in messages {
        writer.message(FRAME, (payload, &[]));
    }
    writer.finish();
    out
}

fn piece(layout: &Layout, id: u16, block: &[u8], index: usize) -> Vec<u8> {
    let size = usize::from(layout.channels()[0].block_fragment_size);
    let place = FragmentPlace {
        channel: 0,
        id,
        count: block.len().div_ceil(size) as u16,
        index: index as u16,
    };
    let data = block.chunks(size).nth(index).expect("a fragment");
    let mut out = Vec::new();
    let mut writer = PacketWriter::new(layout, &mut out);
    writer.fragment(place, BLOCK, (data, &[]));
    writer.finish();
    out
}

/// A piece of a block that is cut into fragments of `size` bytes.
fn long_piece(id: u16, block: &[u8], size: u16, index: usize) -> Vec<u8> {
    let long = LongFragment {
        length: block.len() as u32,
        size,
    };
    let place = FragmentPlace {
        channel: 0,
        id,
        count: block.len().div_ceil(size.into()) as u16,
        index: index as u16,
    };
    let data = block.chunks(size.into()).nth(index).expect("a fragment");
    let mut out = Vec::new();
    emit_long_fragment(place, long, (data, &[]), &mut out);
    out
}

/// The reference's rules for senders, as simple as they can be: resend what is not acked, within
/// the window, and let a block go alone; or ours among ourselves, where it need not.
struct Near {
    messages: Vec<Vec<u8>>,
    /// Unacked ids; a block is unacked until each of its fragments is acked.
    unacked: BTreeSet<usize>,
    /// Unacked fragments of blocks that began to leave.
    unacked_pieces: BTreeMap<usize, BTreeSet<usize>>,
    together: bool,
}

/// What a packet carried, so that its ack can be processed.
#[derive(Clone, Debug)]
enum Carried {
    Frames(Vec<usize>),
    Piece(usize, usize),
}

impl Near {
    fn is_block(&self, layout: &Layout, id: usize) -> bool {
        layout.carriage(0, (&self.messages[id], &[])) == Some(Carriage::Block(BLOCK))
    }

    /// The block of which a piece leaves next, if one does.
    fn block(&self, layout: &Layout, choice: usize) -> Option<usize> {
        let oldest = *self.unacked.first()?;
        if !self.together {
            return self.is_block(layout, oldest).then_some(oldest);
        }
        let window = oldest..oldest + usize::from(WIDE_WINDOW);
        let ids = self.unacked.range(window).copied();
        let blocks: Vec<_> = ids.filter(|id| self.is_block(layout, *id)).collect();
        let wants = choice.is_multiple_of(2) || blocks.len() == self.unacked.len();
        blocks
            .get(choice / 2 % blocks.len().max(1))
            .copied()
            .filter(|_| wants)
    }

    fn packet(&mut self, layout: &Layout, choice: usize) -> Option<(Vec<u8>, Carried)> {
        let oldest = *self.unacked.first()?;
        if let Some(id) = self.block(layout, choice) {
            let size = usize::from(layout.channels()[0].block_fragment_size);
            let block = &self.messages[id];
            let all = || (0..block.len().div_ceil(size)).collect();
            let pieces = self.unacked_pieces.entry(id).or_insert_with(all);
            let index = *pieces.iter().nth(choice % pieces.len())?;
            let packet = piece(layout, id as u16, block, index);
            return Some((packet, Carried::Piece(id, index)));
        }
        let window = usize::from(match self.together {
            true => WIDE_WINDOW,
            false => layout.channels()[0].receive_window,
        });
        let ids: Vec<usize> = self
            .unacked
            .iter()
            .copied()
            .take_while(|id| *id < oldest + window)
            .take_while(|id| self.together || !self.is_block(layout, *id))
            .filter(|id| !self.is_block(layout, *id))
            .skip(choice % 5)
            .step_by(1 + choice / 5 % 3)
            .take(1 + choice / 15 % 20)
            .collect();
        let list: Vec<_> = ids
            .iter()
            .map(|id| (*id as u16, self.messages[*id].as_slice()))
            .collect();
        Some((frames(layout, 0, &list), Carried::Frames(ids)))
    }

    fn on_acked(&mut self, carried: &Carried) {
        match carried {
            Carried::Frames(ids) => ids.iter().for_each(|id| {
                self.unacked.remove(id);
            }),
            Carried::Piece(id, index) => {
                if let Some(pieces) = self.unacked_pieces.get_mut(id)
                    && pieces.remove(index)
                    && pieces.is_empty()
                {
                    self.unacked.remove(id);
                }
            }
        }
    }
}

fn small_layout() -> Layout {
    let reliable = ChannelLayout {
        block_bytes_max: 400,
        block_fragment_size: 64,
        receive_window: 32,
        ..ChannelLayout::new(Delivery::ReliableOrdered)
    };
    let messages = vec![MessageType::Bytes { min: 0, max: 60 }, MessageType::Block];
    Layout::new(vec![reliable], messages, Default::default()).expect("a good layout")
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 2000, ..Default::default() })]

    /// Loss, duplicates and any order on the way, refusals by a slow owner: what comes out is what
    /// went in, in order and once.
    #[test]
    fn a_bad_network_is_invisible(
        sizes in prop::collection::vec(prop_oneof![4 => 0usize..61, 1 => 61usize..400], 1..150),
        choices in prop::collection::vec(any::<(u8, u16)>(), 200..1500),
        together: bool,
    ) {
        let layout = small_layout();
        let mut near = Near {
            messages: sizes
                .iter()
                .enumerate()
                .map(|(id, size)| (0..*size).map(|at| (id * 31 + at) as u8).collect())
                .collect(),
            unacked: (0..sizes.len()).collect(),
            unacked_pieces: BTreeMap::new(),
            together,
        };
        let mut far = Far::new(layout.clone());
        if together {
            far.receiver.widen();
        }
        far.inbox = Inbox::new(1000);
        let mut network: Vec<(Vec<u8>, Carried)> = Vec::new();
        let mut out = Vec::new();
        for (action, choice) in choices {
            let choice = usize::from(choice);
            match action % 8 {
                0..3 => network.extend(near.packet(&layout, choice)),
                3 if !network.is_empty() => drop(network.swap_remove(choice % network.len())),
                4 => out.extend(far.pop()),
                _ if network.is_empty() => {}
                arrival => {
                    let at = choice % network.len();
                    let (packet, carried) = network[at].clone();
                    if arrival < 7 {
                        network.swap_remove(at);
                    }
                    match far.receive(&packet) {
                        Ok(()) => near.on_acked(&carried),
                        Err(objection) => prop_assert!(!objection.is_violation(), "{:?}", objection),
                    }
                }
            }
        }
        // The network heals: all of it arrives, and then nothing is missing.
        for _ in 0..5000 {
            out.extend(far.pop_all());
            let Some((packet, carried)) = near.packet(&layout, 0) else {
                break;
            };
            prop_assert_eq!(far.receive(&packet), Ok(()));
            near.on_acked(&carried);
        }
        out.extend(far.pop_all());
        prop_assert_eq!(out, near.messages);
        prop_assert_eq!(far.receiver.held(), 0);
        prop_assert!(!far.receiver.is_stalled(Timestamp::MAX));
    }
}

#[test]
fn nothing_of_a_bad_packet_is_applied() {
    let mut far = Far::new(Layout::default());
    let layout = far.layout.clone();
    let packet = frames(&layout, 0, &[(0, b"good"), (5000, b"beyond the window")]);
    assert_eq!(far.receive(&packet), Err(Objection::WindowOverflow));
    assert_eq!(far.pop_all(), Vec::<Vec<u8>>::new());
    assert_eq!(far.receiver.held(), 0);
    assert_eq!(far.receive(&frames(&layout, 0, &[(0, b"good")])), Ok(()));
    assert_eq!(far.pop_all(), [b"good"]);
}

/// What others may not use ends their session; a tidegate may, and no more than that.
#[test]
fn a_peer_of_ours_may_be_further_ahead() {
    let mut far = Far::new(Layout::default());
    let layout = far.layout.clone();
    let receive = |far: &mut Far, id| far.receive(&frames(&layout, 0, &[(id, b"ahead")]));
    assert_eq!(receive(&mut far, 1023), Ok(()));
    assert_eq!(receive(&mut far, 1024), Err(Objection::WindowOverflow));
    far.receiver.widen();
    assert_eq!(receive(&mut far, WIDE_WINDOW - 1), Ok(()));
    assert_eq!(
        receive(&mut far, WIDE_WINDOW),
        Err(Objection::WindowOverflow)
    );
}

/// Withhold the first message and send everything else the window allows, again and again: memory
/// stops growing, nothing beyond is taken, and the first message releases them all.
#[test]
fn a_gap_holds_no_more_than_its_bound() {
    let mut far = Far::new(Layout::default());
    let layout = far.layout.clone();
    let payload = [7; 4000];
    let mut kept = BTreeSet::new();
    for round in 0..3 {
        for id in 1..1024 {
            match far.receive(&frames(&layout, 0, &[(id, &payload)])) {
                Ok(()) => drop(kept.insert(id)),
                Err(objection) => assert_eq!(objection, Objection::WindowFull),
            }
        }
        assert!(
            far.receiver.held() <= EARLY_BYTES_MAX - EARLY_BYTES_RESERVE,
            "round {round}"
        );
    }
    assert!(kept.len() > 150 && kept.len() < 1023, "{} kept", kept.len());
    assert_eq!(
        far.receive(&frames(&layout, 0, &[(1024, &payload)])),
        Err(Objection::WindowOverflow)
    );
    // With the gap's message in the packet there is room for what comes with it.
    let first = frames(&layout, 0, &[(0, b""), (700, &payload)]);
    assert_eq!(far.receive(&first), Ok(()));
    assert_eq!(far.pop_all().len(), kept.len() + 1);
    assert_eq!(far.receiver.held(), payload.len() + MESSAGE_OVERHEAD);
}

#[test]
fn a_full_inbox_refuses_what_is_reliable_and_drops_what_is_not() {
    let mut far = Far::new(Layout::default());
    far.inbox = Inbox::new(100);
    let layout = far.layout.clone();
    assert_eq!(far.receive(&frames(&layout, 0, &[(0, &[1; 200])])), Ok(()));
    let second = frames(&layout, 0, &[(1, b"second")]);
    assert_eq!(far.receive(&second), Err(Objection::InboxFull));
    assert_eq!(far.receive(&[0]), Ok(()), "acks alone are always taken");
    let mut unreliable = Vec::new();
    let mut writer = PacketWriter::new(&layout, &mut unreliable);
    writer.unreliable(1, 1);
    writer.message(FRAME, (b"late", &[]));
    writer.finish();
    assert_eq!(far.receive(&unreliable), Ok(()));
    assert_eq!(far.stats.unreliable_dropped, 1);
    assert_eq!(far.pop_all(), [vec![1; 200]]);
    assert_eq!(far.receive(&second), Ok(()));
    assert_eq!(far.receive(&unreliable), Ok(()));
    assert_eq!(far.pop_all(), [b"second".to_vec(), b"late".to_vec()]);
}

#[test]
fn stalls_are_the_peers_only() {
    let mut far = Far::new(Layout::default());
    let layout = far.layout.clone();
    let after = |secs| NOW + Duration::from_secs(secs);
    assert!(!far.receiver.is_stalled(after(100)));
    assert_eq!(far.receive(&frames(&layout, 0, &[(1, b"early")])), Ok(()));
    assert!(!far.receiver.is_stalled(after(29)));
    assert!(far.receiver.is_stalled(after(30)));
    // While our own inbox is full, the peer cannot close the gap.
    far.now = after(29);
    far.inbox = Inbox::new(10);
    far.inbox.push(0, true, b"not polled");
    let missing = frames(&layout, 0, &[(0, b"first")]);
    assert_eq!(far.receive(&missing), Err(Objection::InboxFull));
    assert!(!far.receiver.is_stalled(after(58)));
    assert!(far.receiver.is_stalled(after(59)));
    far.inbox.pop();
    assert_eq!(far.receive(&missing), Ok(()));
    assert!(!far.receiver.is_stalled(after(100)));
    assert_eq!(far.pop_all(), [b"first", b"early"]);
    assert_eq!(far.receive(&piece(&layout, 2, &[3; 2000], 1)), Ok(()));
    assert!(!far.receiver.is_stalled(after(58)));
    assert!(far.receiver.is_stalled(after(59)));
}

#[test]
fn idle_channels_are_small() {
    let each = size_of::<Option<reliable_ordered::ReliableOrdered>>();
    assert!(size_of::<Receiver>() + 2 * each <= 384, "{each} each");
    assert_eq!(Receiver::new(Arc::new(Layout::default())).held(), 0);
}

/// A store filled to the brim still takes what brings it closer to being empty.
#[test]
fn a_packet_that_closes_a_gap_has_room_of_its_own() {
    let mut far = Far::new(Layout::default());
    let layout = far.layout.clone();
    let payload = [7; 7000];
    let fill = |far: &mut Far, ids: std::ops::Range<u16>| {
        ids.filter(|id| far.receive(&frames(&layout, 0, &[(*id, &payload)])).is_ok())
            .count()
    };
    let full = (EARLY_BYTES_MAX - EARLY_BYTES_RESERVE) / (7000 + MESSAGE_OVERHEAD);
    assert_eq!(fill(&mut far, 10..400), full);
    // The first of ten missing messages frees nothing, and may bring another early one.
    assert_eq!(far.receive(&frames(&layout, 0, &[(0, b"")])), Ok(()));
    let with_more = frames(&layout, 0, &[(1, b""), (900, &payload)]);
    assert_eq!(far.receive(&with_more), Ok(()));
    assert_eq!(fill(&mut far, 400..440), 0, "still full for all others");
    let rest: Vec<(u16, &[u8])> = (2..9).map(|id| (id, &b""[..])).collect();
    assert_eq!(far.receive(&frames(&layout, 0, &rest)), Ok(()));
    // The last one frees everything, so what comes with it may be more than the reserve.
    let mut last: Vec<(u16, &[u8])> = vec![(9, b"")];
    last.extend((500..510).map(|id| (id, &payload[..])));
    assert_eq!(far.receive(&frames(&layout, 0, &last)), Ok(()));
    assert_eq!(far.pop_all().len(), 10 + full);
    assert_eq!(far.receiver.held(), 11 * (7000 + MESSAGE_OVERHEAD));
}

/// What the reference lets pass although it cannot mean anything good.
#[test]
fn stricter_than_the_reference() {
    let blocks_everywhere = Layout::new(
        vec![
            ChannelLayout::new(Delivery::ReliableOrdered),
            ChannelLayout::new(Delivery::UnreliableUnordered),
        ],
        vec![MessageType::Bytes { min: 0, max: 7000 }, MessageType::Block],
        Limits::default(),
    )
    .unwrap();
    let default = Layout::default();
    let fragment = |layout: &Layout, channel, count, length| {
        let mut out = Vec::new();
        let place = FragmentPlace {
            channel,
            id: 0,
            count,
            index: 0,
        };
        let mut writer = PacketWriter::new(layout, &mut out);
        writer.fragment(place, BLOCK, (&vec![1; length], &[]));
        writer.finish();
        out
    };
    let message = |layout: &Layout, channel: u8| {
        let mut out = Vec::new();
        let mut writer = PacketWriter::new(layout, &mut out);
        if channel == 0 {
            writer.reliable(0, [0].into_iter());
            writer.inline_block(0, BLOCK, (b"block", &[]));
        } else {
            writer.unreliable(1, 1);
            writer.inline_block(1, BLOCK, (b"block", &[]));
        }
        writer.finish();
        out
    };
    let cases = [
        (&default, fragment(&default, 0, 2, 1024), None),
        (
            &default,
            fragment(&default, 0, 2, 1023),
            Some(PacketError::ShortFragment),
        ),
        (&default, fragment(&default, 0, 1, 1023), None),
        (
            &default,
            fragment(&default, 1, 1, 9),
            Some(PacketError::BlocksDisabled),
        ),
        (
            &blocks_everywhere,
            fragment(&default, 1, 1, 9),
            Some(PacketError::BlocksDisabled),
        ),
        (
            &default,
            message(&default, 0),
            Some(PacketError::BlockMissing),
        ),
        (
            &default,
            message(&default, 1),
            Some(PacketError::InlineBlock),
        ),
        (&blocks_everywhere, message(&default, 1), None),
        (&default, vec![], Some(PacketError::Empty)),
        (&default, vec![0], None),
    ];
    for (index, (layout, packet, expected)) in cases.iter().enumerate() {
        let outcome = ConnectionPacket::parse(packet, layout, &mut Items::default()).err();
        assert_eq!(outcome, *expected, "case {index}");
    }
}
