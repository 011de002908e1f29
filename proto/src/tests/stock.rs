//! Peers that know no more than the standard of yojimbo, on paths that lose much: to them a long message goes in
//! one packet of several datagrams, which is lost with any of them.

use std::sync::Arc;
use std::time::Duration;

use super::games::{Game, Rules};
use super::scenario::Scenario;
use crate::sim::{Conditions, Done, Traffic};
use crate::yojimbo;

fn game(seed: u64) -> Game {
    Game::new(Rules::Yojimbo(Arc::new(yojimbo::Params::default())), seed)
}

/// Over 50 ms and 20 Mbit/s.
fn path(loss: f64, bursts: Option<(Duration, Duration)>) -> Conditions {
    Conditions {
        delay: Duration::from_millis(25),
        loss,
        bursts,
        rate: 20_000_000,
        queue: 250_000,
        mtu: 1_500,
        ..Conditions::default()
    }
}

fn bulk(messages: u64, sizes: std::ops::RangeInclusive<usize>) -> Traffic {
    Traffic {
        messages,
        sizes,
        burst: 64,
        every: Duration::from_millis(1),
        ..Traffic::default()
    }
}

/// What a client of a game says meanwhile; its acknowledgements go with it.
fn frames() -> Traffic {
    Traffic {
        messages: u64::MAX,
        sizes: 40..=60,
        every: Duration::from_millis(16),
        ..Traffic::default()
    }
}

fn share_lost(done: Done) -> f64 {
    done.lost as f64 / done.offered as f64
}

/// Everything arrives, whoever sends it, and whether the peer says anything or only acknowledges.
#[test]
fn heavy_loss_ends_no_session() {
    let outages = (Duration::from_millis(60), Duration::from_millis(180));
    let paths = [
        (path(0.2, None), 150),
        (path(0.3, None), 150),
        (path(0.0, Some(outages)), 600),
    ];
    for (link, messages) in paths {
        for size in [2_000, 4_000, 7_000] {
            let what = format!("{size} bytes over {link:?}");
            let traffic = bulk(messages, size..=size);
            let mut both = [Done::default(), Done::default()];
            for seed in 0..4 {
                let mut game = game(seed);
                let mut scenario = Scenario::new(&mut game, 1, link, &traffic, &traffic);
                scenario.deliver_all_within(Duration::from_secs(600));
                assert_eq!(scenario.ends(), [None, None], "seed {seed}, {what}");
                let (up, down) = scenario.network();
                for (all, done) in both.iter_mut().zip([up, down]) {
                    all.lost += done.lost;
                    all.offered += done.offered;
                }
            }
            let lost = both.map(share_lost);
            assert!(
                lost.iter().all(|lost| *lost > 0.1),
                "{what}: {lost:.2?} lost"
            );
        }
    }
}

/// A peer that has nothing to say itself: what it acknowledges is all that is heard of it.
#[test]
fn who_only_listens_is_served_as_well() {
    for loss in [0.2, 0.3] {
        for seed in 0..8 {
            let (silent, down) = (Traffic::silent(), bulk(60, 7_000..=7_000));
            let mut game = game(seed);
            let mut scenario = Scenario::new(&mut game, 1, path(loss, None), &silent, &down);
            scenario.deliver_all_within(Duration::from_secs(600));
            let lost = share_lost(scenario.network().1);
            assert!(lost > 0.8 * loss, "seed {seed}: {lost:.2} lost");
            assert_eq!(scenario.ends(), [None, None], "seed {seed}");
        }
    }
}

/// How much of it arrives after the first ten seconds, in Mbit/s, and how many datagrams each message took.
fn carried(size: usize, loss: f64, seed: u64) -> (f64, f64) {
    let mut game = game(seed);
    let down = bulk(u64::MAX, size..=size);
    let mut scenario = Scenario::new(&mut game, 1, path(loss, None), &frames(), &down);
    let count = |scenario: &Scenario| (scenario.outcome(0).down.1, scenario.network().1);
    scenario.run_for(Duration::from_secs(10));
    let (heard_before, before) = count(&scenario);
    scenario.run_for(Duration::from_secs(10));
    let (heard, done) = count(&scenario);
    let lost = (done.lost - before.lost) as f64;
    let offered = (done.offered - before.offered) as f64;
    assert!(lost > 0.8 * loss * offered, "{lost} of {offered} lost");
    let heard = (heard - heard_before) as f64;
    (heard * size as f64 * 8.0 / 10.0 / 1e6, offered / heard)
}

/// Four of them differ by a third.
const SEEDS: u64 = 16;

/// What came of a packet is not sent for nothing.
#[test]
fn long_messages_get_through() {
    // The least, in Mbit/s, and the most datagrams for a message: without what stays of a packet, 7000 bytes
    // would take 33 at two in ten.
    for (size, loss, least, most) in [
        (4_000, 0.1, 7.0, 7.0),
        (7_000, 0.1, 5.0, 13.0),
        (4_000, 0.2, 0.6, 10.0),
        (7_000, 0.2, 0.4, 20.0),
    ] {
        let of_seeds: Vec<_> = (0..SEEDS).map(|seed| carried(size, loss, seed)).collect();
        // One that carries next to nothing, as some do, is no more than that of all messages.
        let sum = |of: fn(&(f64, f64)) -> f64| of_seeds.iter().map(of).sum::<f64>();
        let (rates, datagrams) = (sum(|one| one.0), sum(|one| one.0 * one.1));
        let (rate, datagrams) = (rates / SEEDS as f64, datagrams / rates);
        let what = format!("{size} bytes at {loss}: {of_seeds:.1?}");
        assert!(rate > least && datagrams < most, "{what}");
    }
}
