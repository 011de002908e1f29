//! yojimbo with layouts of all kinds, and between ends whose layouts differ.

use std::sync::Arc;
use std::time::Duration;

use super::games::{Game, Rules};
use super::scenario::{Scenario, bad_weather, path};
use super::yojimbo::game;
use crate::session::CloseReason;
use crate::sim::Traffic;
use crate::yojimbo::Params;
use crate::yojimbo::channels::{ChannelLayout, Delivery, Layout, MessageType};
use crate::yojimbo::reliable::Limits;

/// Both ways over a little loss, between two ends with this layout.
fn deliver(channel: ChannelLayout, messages: Vec<MessageType>, traffic: &Traffic) {
    let layout = Layout::new(vec![channel], messages, Limits::default()).unwrap();
    let params = Params::new(layout, crate::sender::Params::default());
    let weather = path(20, 0.05);
    let mut scenario = Scenario::new(&mut game(params, 17), 1, weather, traffic, traffic);
    scenario.deliver_all_within(Duration::from_secs(100));
    assert!(scenario.network().0.lost > 0);
}

/// As yojimbo 1.2.1 has it. Nothing of what tidegates tell each other has a place behind it, so nobody asks.
#[test]
fn packets_with_a_check_word_carry_frames_of_all_sizes_and_blocks() {
    let layout = Layout::default().with_check_word().unwrap();
    let params = Params::new(layout, crate::sender::Params::default()).with_path_mtu(9_000, true);
    let traffic = Traffic {
        messages: 60,
        sizes: 0..=20_000,
        ..Traffic::default()
    };
    for seed in 0..4 {
        let mut game = game(params.clone(), seed);
        let mut scenario = Scenario::new(&mut game, 1, bad_weather(), &traffic, &traffic);
        scenario.deliver_all_within(Duration::from_secs(200));
        let stats = scenario.client_stats(0);
        assert!(stats.datagram_bytes <= 1_186, "{stats:?}");
    }
    let frames = Traffic {
        sizes: 0..=3_000,
        ..traffic
    };
    let mut game = game(params, 4).with_library_clients();
    let mut scenario = Scenario::new(&mut game, 1, path(20, 0.02), &frames, &frames);
    scenario.deliver_all_within(Duration::from_secs(200));
}

/// A client whose code has this layout, before a server of the default one: how the session ends.
fn misfit(layout: Layout, says: &Traffic) -> [Option<CloseReason>; 2] {
    let client = Params::new(layout, crate::sender::Params::default());
    let mut game = game(Params::default(), 23).dialled_by(Rules::Yojimbo(Arc::new(client)));
    let silent = Traffic::silent();
    let mut scenario = Scenario::new(&mut game, 1, path(5, 0.0), says, &silent);
    scenario.run_for(Duration::from_secs(2));
    scenario.ends()
}

/// The fields of its packets shift in such a way that most can be read, and say nothing.
#[test]
fn another_number_of_channels_is_noticed() {
    let default = Layout::default();
    for count in [1, 3, 4] {
        let mut channels = default.channels().to_vec();
        channels.resize(count, default.channels()[1]);
        let messages = default.messages().to_vec();
        let layout = Layout::new(channels, messages, Limits::default()).unwrap();
        let ends = misfit(layout, &Traffic::default());
        let violation = Some(CloseReason::ProtocolViolation);
        assert!(ends.contains(&violation), "{count} channels: {ends:?}");
    }
}

/// Of yojimbo 1.2.1, whose first packet in most games carries nothing yet; and the other way round.
#[test]
fn a_check_word_on_one_side_only_is_noticed() {
    let with = || Layout::default().with_check_word().unwrap();
    let violation = Some(CloseReason::ProtocolViolation);
    let ends = misfit(with(), &Traffic::default());
    assert!(ends.contains(&violation), "{ends:?}");
    let plain = |layout| Arc::new(Params::new(layout, crate::sender::Params::default()));
    for (client, server) in [(with(), Layout::default()), (Layout::default(), with())] {
        let mut game = Game::new(Rules::Yojimbo(plain(server)), 5)
            .dialled_by(Rules::Yojimbo(plain(client)))
            .with_library_clients();
        let silent = Traffic::silent();
        let mut scenario = Scenario::new(&mut game, 1, path(5, 0.0), &silent, &silent);
        scenario.run_for(Duration::from_secs(2));
        let [_, server] = scenario.ends();
        assert_eq!(server, violation);
    }
}

/// A message between the lengths of two types is a block, although a longer one is none.
#[test]
fn what_no_type_of_message_takes_is_a_block() {
    let short = MessageType::Bytes { min: 0, max: 20 };
    let long = MessageType::Bytes {
        min: 200,
        max: 1000,
    };
    let traffic = Traffic {
        messages: 100,
        sizes: 0..=1500,
        ..Traffic::default()
    };
    let channel = ChannelLayout::new(Delivery::ReliableOrdered);
    deliver(channel, vec![short, MessageType::Block, long], &traffic);
}

/// Two bytes whose upper four bits are not zero are no message of 12 bits.
#[test]
fn bits_that_do_not_travel_are_not_cut_off() {
    let traffic = Traffic {
        messages: 200,
        sizes: 2..=2,
        ..Traffic::default()
    };
    let bytes = MessageType::Bytes { min: 0, max: 9 };
    let channel = ChannelLayout::new(Delivery::ReliableOrdered);
    deliver(channel, vec![MessageType::Bits(12), bytes], &traffic);
}

/// A client with a short `messageReceiveQueueSize` ends the connection when an id goes beyond it.
#[test]
fn a_short_receive_queue_is_not_run_over() {
    let channel = ChannelLayout {
        receive_window: 64,
        ..ChannelLayout::new(Delivery::ReliableOrdered)
    };
    let traffic = Traffic {
        messages: 2_000,
        burst: 500,
        sizes: 0..=4,
        ..Traffic::default()
    };
    let frame = MessageType::Bytes { min: 0, max: 7000 };
    deliver(channel, vec![frame], &traffic);
}

#[test]
fn a_block_may_have_more_than_256_fragments() {
    let channel = ChannelLayout {
        block_fragment_size: 64,
        ..ChannelLayout::new(Delivery::ReliableOrdered)
    };
    let traffic = Traffic {
        messages: 5,
        sizes: 20_000..=40_000,
        ..Traffic::default()
    };
    deliver(channel, vec![MessageType::Block], &traffic);
}

#[test]
fn a_fragment_of_a_block_may_be_longer_than_a_datagram() {
    let channel = ChannelLayout {
        block_fragment_size: 3000,
        ..ChannelLayout::new(Delivery::ReliableOrdered)
    };
    let traffic = Traffic {
        messages: 10,
        sizes: 100..=20_000,
        ..Traffic::default()
    };
    let frame = MessageType::Bytes { min: 0, max: 100 };
    deliver(channel, vec![frame, MessageType::Block], &traffic);
}
