//! Blocks: what they hold while they are put together, and what ends one.

use super::*;

/// A block claims memory as its fragments arrive, and not before.
#[test]
fn a_claimed_block_costs_what_was_received() {
    let mut far = Far::new(Layout::default());
    let layout = far.layout.clone();
    let block = vec![9; 256 * 1024];
    assert_eq!(far.receive(&piece(&layout, 0, &block, 255)), Ok(()));
    assert!(far.receiver.held() < 2048, "{} held", far.receiver.held());
    for index in (0..255).rev() {
        assert_eq!(far.receive(&piece(&layout, 0, &block, index)), Ok(()));
        assert!(far.receiver.held() <= 256 * 1024 + 1024);
    }
    assert_eq!(far.pop_all(), [block]);
    assert_eq!(far.receiver.held(), 0);
}

/// Blocks begin only while all that have begun can be completed.
#[test]
fn blocks_of_many_channels_do_not_starve_each_other() {
    let reliable = ChannelLayout::new(Delivery::ReliableOrdered);
    let messages = vec![MessageType::Bytes { min: 0, max: 60 }, MessageType::Block];
    let layout = Layout::new(vec![reliable; 64], messages, Default::default()).unwrap();
    let mut far = Far::new(layout);
    let layout = far.layout.clone();
    let begin = |channel, index| {
        let mut out = Vec::new();
        let place = FragmentPlace {
            channel,
            id: 0,
            count: 256,
            index,
        };
        let mut writer = PacketWriter::new(&layout, &mut out);
        writer.fragment(place, BLOCK, (&[1; 1024], &[]));
        writer.finish();
        out
    };
    let taken: Vec<u8> = (0..64)
        .filter(|channel| far.receive(&begin(*channel, 0)).is_ok())
        .collect();
    assert_eq!(taken, [0, 1, 2, 3, 4, 5, 6, 7], "eight of 256 KiB each");
    for index in 1..256 {
        assert_eq!(far.receive(&begin(2, index)), Ok(()));
    }
    assert_eq!(far.pop_all().len(), 1);
    assert_eq!(
        far.receive(&begin(63, 0)),
        Ok(()),
        "one is done, one may begin"
    );
}

/// The count of a block's fragments is settled by the first, also inside one packet.
#[test]
fn fragments_must_agree() {
    let mut far = Far::new(Layout::default());
    let layout = far.layout.clone();
    assert_eq!(far.receive(&piece(&layout, 0, &[1; 3000], 1)), Ok(()));
    for size in [1500, 4000] {
        assert_eq!(
            far.receive(&piece(&layout, 0, &vec![1; size], 0)),
            Err(Objection::FragmentsChanged)
        );
    }
    assert_eq!(far.receive(&piece(&layout, 0, &[1; 3000], 0)), Ok(()));
    assert_eq!(far.receive(&piece(&layout, 0, &[1; 3000], 2)), Ok(()));
    assert_eq!(far.pop_all(), [vec![1; 3000]]);
    let two = |counts: [u16; 2]| {
        let mut out = Vec::new();
        let mut writer = PacketWriter::new(&layout, &mut out);
        for (index, count) in counts.into_iter().enumerate() {
            let place = FragmentPlace {
                channel: 0,
                id: 1,
                count,
                index: index as u16,
            };
            writer.fragment(place, BLOCK, (&[2; 1024], &[]));
        }
        writer.finish();
        out
    };
    assert_eq!(far.receive(&two([2, 3])), Err(Objection::FragmentsChanged));
    assert_eq!(far.receive(&two([2, 2])), Ok(()));
    assert_eq!(far.pop_all(), [vec![2; 2048]]);
}

/// Blocks of one byte, a thousand of them, one way only.
#[test]
fn many_small_blocks() {
    let mut far = Far::new(Layout::default());
    let layout = far.layout.clone();
    for id in 0..1000u16 {
        assert_eq!(far.receive(&piece(&layout, id, &[id as u8], 0)), Ok(()));
    }
    assert_eq!(far.pop_all().len(), 1000);
}

/// A tidegate may send several blocks at once and messages behind them; no more than all channels of one
/// peer may hold, and in pieces of the same number.
#[test]
fn blocks_of_a_peer_of_ours_come_together() {
    let mut far = Far::new(Layout::default());
    let layout = far.layout.clone();
    let block = |id: u16| vec![id as u8; 256 * 1024];
    let begin = |far: &mut Far, id| far.receive(&piece(&layout, id, &block(id), 0));
    assert_eq!(begin(&mut far, 1), Ok(()), "acknowledged and dropped");
    assert_eq!(far.receiver.held(), 0);
    far.receiver.widen();
    let begun: Vec<u16> = (1..40).filter(|id| begin(&mut far, *id).is_ok()).collect();
    assert!(
        begun.iter().copied().eq(1..33),
        "eight mebibytes: {begun:?}"
    );
    assert_eq!(far.receive(&frames(&layout, 0, &[(33, b"behind")])), Ok(()));
    assert_eq!(
        far.receive(&piece(&layout, 2, &[0; 4000], 1)),
        Err(Objection::FragmentsChanged)
    );
    assert_eq!(
        far.receive(&piece(&layout, WIDE_WINDOW, &[0; 4000], 1)),
        Err(Objection::WindowOverflow)
    );
    for id in begun.into_iter().rev() {
        for index in 1..256 {
            assert_eq!(far.receive(&piece(&layout, id, &block(id), index)), Ok(()));
        }
    }
    assert_eq!(far.pop_all(), Vec::<Vec<u8>>::new(), "the first is missing");
    assert_eq!(far.receive(&frames(&layout, 0, &[(0, b"first")])), Ok(()));
    let (first, behind) = (b"first".to_vec(), b"behind".to_vec());
    let all = [first]
        .into_iter()
        .chain((1..33).map(block))
        .chain([behind]);
    assert_eq!(far.pop_all(), all.collect::<Vec<_>>());
    assert_eq!((far.receiver.held(), far.stats.reassembly_failures), (0, 0));
}

/// A full store takes the last piece of the block that all wait for, and not that of one that would wait itself.
#[test]
fn a_block_that_closes_a_gap_has_room_of_its_own() {
    let mut far = Far::new(Layout::default());
    let layout = far.layout.clone();
    far.receiver.widen();
    let (payload, block) = ([7; 7000], vec![9; 40 * 1024]);
    for (id, index) in (0..39).flat_map(|index| [(0, index), (1, index)]) {
        assert_eq!(far.receive(&piece(&layout, id, &block, index)), Ok(()));
    }
    let full = (2..2000)
        .filter(|id| far.receive(&frames(&layout, 0, &[(*id, &payload)])).is_ok())
        .count();
    assert!(full > 1000, "{full}");
    let last = |id| piece(&layout, id, &block, 39);
    assert_eq!(far.receive(&last(1)), Err(Objection::WindowFull));
    assert_eq!(far.receive(&last(0)), Ok(()));
    assert_eq!(far.pop_all().len(), 1);
    assert_eq!(far.receive(&last(1)), Ok(()));
    assert_eq!(far.pop_all().len(), 1 + full);
    assert_eq!(far.receiver.held(), 0);
}

/// Where memory is short, none begins beside those under way, and these go on.
#[test]
fn blocks_begin_within_an_allowance() {
    let mut far = Far::new(Layout::default());
    let layout = far.layout.clone();
    far.receiver.widen();
    let block = vec![1; 100 * 1024];
    let mut piece_of = |id, index, pieces| {
        far.inbox.set_allowance(Allowance {
            pieces,
            ..Allowance::UNLIMITED
        });
        far.receive(&piece(&layout, id, &block, index))
    };
    assert_eq!(piece_of(1, 0, 0), Ok(()), "one may always");
    assert_eq!(piece_of(2, 0, 199 * 1024), Err(Objection::WindowFull));
    assert_eq!(piece_of(2, 0, 200 * 1024), Ok(()));
    assert_eq!(piece_of(2, 1, 0), Ok(()), "it has begun");
    assert_eq!(piece_of(3, 0, 200 * 1024), Err(Objection::WindowFull));
}

/// Pieces of what comes later are no progress towards the message that all wait for.
#[test]
fn later_blocks_do_not_keep_a_gap_open() {
    let mut far = Far::new(Layout::default());
    let layout = far.layout.clone();
    far.receiver.widen();
    assert_eq!(far.receive(&frames(&layout, 0, &[(1, b"early")])), Ok(()));
    far.now = NOW + Duration::from_secs(29);
    assert_eq!(far.receive(&piece(&layout, 2, &[3; 2000], 0)), Ok(()));
    let later = NOW + Duration::from_secs(30);
    assert!(far.receiver.is_stalled(later));
    // Those of what they wait for are.
    assert_eq!(far.receive(&piece(&layout, 0, &[3; 2000], 0)), Ok(()));
    assert!(!far.receiver.is_stalled(later));
}

/// A sender that gives an id to a block and then to a frame has lost the block, and no more.
#[test]
fn a_frame_with_the_id_of_a_block_ends_the_block() {
    let mut far = Far::new(Layout::default());
    let layout = far.layout.clone();
    assert_eq!(far.receive(&piece(&layout, 0, &[1; 3000], 0)), Ok(()));
    assert_eq!(far.receive(&frames(&layout, 0, &[(0, b"frame")])), Ok(()));
    assert_eq!(far.receiver.held(), 0);
    assert_eq!(far.stats.reassembly_failures, 1);
    for index in [1, 0] {
        assert_eq!(far.receive(&piece(&layout, 1, &[2; 1500], index)), Ok(()));
    }
    assert_eq!(far.pop_all(), [b"frame".to_vec(), vec![2; 1500]]);
}

/// A block that does not fill its last fragment, in a layout where the sizes do not divide.
#[test]
fn a_fragment_beyond_the_largest_block_is_refused() {
    let reliable = ChannelLayout {
        block_bytes_max: 100,
        block_fragment_size: 64,
        ..ChannelLayout::new(Delivery::ReliableOrdered)
    };
    let messages = vec![MessageType::Bytes { min: 0, max: 9 }, MessageType::Block];
    let layout = Layout::new(vec![reliable], messages, Limits::default()).unwrap();
    let fault = |bytes: &[u8]| {
        let packet = piece(&layout, 0, bytes, 1);
        ConnectionPacket::parse(&packet, &layout, &mut Items::default()).err()
    };
    assert_eq!(fault(&[1; 100]), None);
    assert_eq!(fault(&[1; 101]), Some(PacketError::BlockTooLarge));
}

/// In any order; a fragment of a block that is cut in another way, or has another length, is none of it.
#[test]
fn long_fragments_make_a_block() {
    let mut far = Far::new(Layout::default());
    let layout = far.layout.clone();
    far.receiver.widen();
    let block: Vec<u8> = (0..30_000u32).map(|at| (at / 100) as u8).collect();
    let last = block.len() / 1_400;
    assert_eq!(
        far.receive_long(&long_piece(0, &block, 1_400, last)),
        Ok(())
    );
    assert!(far.receiver.held() < 1_000, "{} held", far.receiver.held());
    for other in [
        long_piece(0, &block, 1_401, 1),
        long_piece(0, &block[..29_999], 1_400, 1),
    ] {
        let taken = far.receive_long(&other);
        assert_eq!(taken, Err(Objection::FragmentsChanged));
    }
    let short = far.receive(&piece(&layout, 0, &block[..22 * 1_024], 1));
    assert_eq!(short, Err(Objection::FragmentsChanged), "as many, of 1024");
    for index in (0..last).rev() {
        assert_eq!(
            far.receive_long(&long_piece(0, &block, 1_400, index)),
            Ok(())
        );
        assert!(far.receiver.held() < 30_000 + 1_000, "no more than its own");
    }
    assert_eq!(far.pop_all(), [block]);
    assert_eq!(far.receiver.held(), 0);
}

/// Whatever their fragments, blocks count for their own bytes, and no more than eight mebibytes begin.
#[test]
fn long_fragments_begin_no_more_than_others() {
    let mut far = Far::new(Layout::default());
    far.receiver.widen();
    let block = vec![1; 9_000];
    let begun =
        (1..8_000).take_while(|id| far.receive_long(&long_piece(*id, &block, 8_000, 1)).is_ok());
    assert_eq!(begun.count(), WIDE_BLOCK_BYTES_MAX / 9_000);
}
