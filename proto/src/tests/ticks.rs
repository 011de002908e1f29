//! Games that tick fast: what they say does not wait for a packet.

use std::time::Duration;

use super::games::{Game, Rules};
use super::scenario::{Scenario, path};
use crate::sender::{PacketRates, Params};
use crate::sim::{Conditions, Traffic};

/// How long messages took there and back, sorted.
fn round_trips(ticks: u32, params: &Params, path: Conditions, seed: u64) -> Vec<Duration> {
    let says = Traffic {
        messages: u64::MAX,
        sizes: 40..=300,
        every: Duration::from_secs(1) / ticks,
        ..Traffic::default()
    };
    let mut game = Game::new(Rules::yojimbo(params), seed);
    let mut scenario = Scenario::echoed(&mut game, path, &says);
    scenario.run_for(Duration::from_secs(20));
    let mut took = scenario.round_trips(0);
    took.sort_unstable();
    took
}

/// With 90 packets a second and more messages than that, each message waited for the packet after the next, and so did
/// its answer: 16 ms in all, at 128 a second.
#[test]
fn nothing_waits_for_a_packet() {
    for ticks in [30, 60, 100, 128] {
        let took = round_trips(ticks, &Params::default(), path(25, 0.0), 1);
        let median = took[took.len() / 2];
        assert!(
            median <= Duration::from_millis(51),
            "{ticks} Hz: {median:?}"
        );
    }
}

/// Where a queue shows, a fast game gets no more packets than others: their headers are bytes too.
#[test]
fn a_thin_line_is_not_filled_with_packets() {
    let thin = Conditions {
        rate: 288_000,
        ..path(25, 0.01)
    };
    let p99 = |params: &Params| {
        let seeds = (0..8).flat_map(|seed| round_trips(128, params, thin, seed));
        let mut took: Vec<_> = seeds.collect();
        took.sort_unstable();
        took[took.len() * 99 / 100]
    };
    let usual = Params {
        packets: PacketRates {
            good_max: PacketRates::default().good,
            ..PacketRates::default()
        },
        ..Params::default()
    };
    let (usual, ours) = (p99(&usual), p99(&Params::default()));
    assert!(
        usual > Duration::from_millis(150),
        "it is not thin: {usual:?}"
    );
    assert!(ours < usual.mul_f64(1.2), "{ours:?}, usually {usual:?}");
}
