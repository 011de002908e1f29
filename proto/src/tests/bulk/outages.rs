//! Paths, or ways back, that carry nothing for a while.

use std::time::Duration;

use super::{fast, measured, ours, radio, stock, upload, watch, without_end};
use crate::sim::Conditions;
use crate::tests::scenario::Scenario;

/// An outage takes its time from a connection, in either direction, and what it needs to notice that it is
/// over. It is no sign of the path's end: who takes it for one has half of the path left.
#[test]
fn outages_take_little_more_than_their_time() {
    let link = Conditions {
        bursts: Some((Duration::from_millis(60), Duration::from_millis(1_140))),
        ..fast()
    };
    let shares = (42..47).map(|seed| {
        let (watched, carried) = measured(ours(), 1_000, link, seed);
        let lost = watched.share(|done| done.lost);
        assert!(lost > 0.01, "seed {seed}: {lost:.3} lost in outages");
        carried
    });
    let shares: Vec<f64> = shares.collect();
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    assert!(mean > 0.7, "of the path: {shares:.2?}");
}

/// What the peer acknowledged in an outage of the way back is told again at length once that is over, and nothing
/// is sent again for it: in each of them some hundred packets were.
#[test]
fn an_outage_on_the_way_back_costs_nothing() {
    let back = Conditions {
        bursts: Some((Duration::from_millis(60), Duration::from_millis(1_140))),
        ..fast()
    };
    let (mut all_resent, mut all_acked) = (0, 0);
    for seed in 41..46 {
        let mut scenario = upload(ours(), seed, 1, fast(), &without_end(1_000));
        scenario.run_for(Duration::from_secs(4));
        let before = scenario.client_stats(0);
        scenario.set_weather(fast(), back);
        scenario.run_for(Duration::from_secs(10));
        let told = scenario.network().1;
        assert!(told.lost * 100 > told.offered, "seed {seed}: {told:?}");
        let stats = scenario.client_stats(0).since(&before);
        let (resent, acked) = (stats.messages_resent, stats.messages_acked);
        (all_resent, all_acked) = (all_resent + resent, all_acked + acked);
    }
    // What is sent into a silence that lasts, to hear whether it is over, is.
    let what = format!("{all_resent} sent again of {all_acked}");
    assert!(
        all_acked > 500_000 && all_resent * 200 < all_acked,
        "{what}"
    );
}

/// A path may lose every second packet of the peer, as one does that spreads packets over two links of which one is dead.
/// Each acknowledgement that arrives then comes behind a gap. As none of those said how long the path takes, bulk stayed at
/// its first rate for ever, a twentieth of this path.
#[test]
fn every_second_acknowledgement_says_enough() {
    for (which, loss, size) in [(1, 0.0, 1_000), (2, 0.0, 7_000), (1, 0.01, 1_000)] {
        let link = Conditions {
            loss,
            ..radio(25, 20_000_000)
        };
        let back = Conditions {
            nth: (2, which),
            ..radio(25, 20_000_000)
        };
        let mut scenario = upload(stock(), 57, 1, link, &without_end(size));
        scenario.set_weather(link, back);
        scenario.run_for(Duration::from_secs(6));
        let carried = watch(&mut scenario, 10).carried(size, link);
        let told = scenario.network().1;
        assert!(told.lost * 2 + 2 > told.offered, "{told:?}");
        let what = format!("{size} bytes, {loss} lost: {carried:.2} of the path");
        assert!(carried > 0.6, "{what}");
    }
}

/// Nor does a way back that holds everything up for a while, as radio does, and then lets it go within milliseconds. So
/// much at once was taken for what the path carries, and three times its rate was sent.
#[test]
fn a_way_back_that_stands_still_floods_nothing() {
    let (mut resent, mut acked) = (0, 0);
    for seed in 41..45 {
        let mut scenario = upload(ours(), seed, 1, fast(), &without_end(1_000));
        scenario.run_for(Duration::from_secs(4));
        let before = scenario.client_stats(0);
        for _ in 0..6 {
            stand_still(&mut scenario, 160, 2);
            scenario.set_weather(fast(), fast());
            scenario.run_for(Duration::from_millis(1_100));
        }
        let stats = scenario.client_stats(0).since(&before);
        (resent, acked) = (resent + stats.messages_resent, acked + stats.messages_acked);
    }
    let what = format!("{resent} sent again of {acked}");
    assert!(acked > 250_000 && resent * 100 < acked, "{what}");
}

/// What the peer says in so many milliseconds arrives behind them, within so many.
fn stand_still(scenario: &mut Scenario, millis: u64, within: u64) {
    let [all, within] = [millis, within].map(|millis| millis * 1_000);
    let heard = |scenario: &Scenario| scenario.client_stats(0).packets_received;
    let mut before = None;
    for at in (0..all).step_by(500) {
        // What was under way has arrived.
        if at > fast().delay.as_micros() as u64 {
            before.get_or_insert_with(|| heard(scenario));
        }
        let held = all - at + at * within / all;
        let back = Conditions {
            delay: fast().delay + Duration::from_micros(held),
            ..fast()
        };
        scenario.set_weather(fast(), back);
        scenario.run_for(Duration::from_micros(500));
    }
    assert_eq!(before, Some(heard(scenario)));
}
