//! Losses that are the path's own, however fast somebody goes.

use std::time::Duration;

use super::{carried, fast, measured, ours, path, radio, stock, upload, watch, without_end};
use crate::sim::{Conditions, Traffic};
use crate::yojimbo;

/// The start overruns a slow line, and much is lost until the queue is gone. There was nobody else: a queue that begins
/// a few seconds later is ours, and not one to be filled as a TCP connection would.
#[test]
fn losses_of_the_start_are_nobody_to_compete_with() {
    let link = Conditions {
        jitter: Duration::from_millis(15),
        // A second.
        ..path(25, 200_000, 25_000)
    };
    for seed in 0..24 {
        let mut scenario = upload(stock(), seed, 1, link, &without_end(1_000));
        scenario.run_for(Duration::from_secs(10));
        let mut round_trip = || {
            scenario.run_for(Duration::from_millis(500));
            scenario.client_stats(0).rtt
        };
        let mean = (0..20).map(|_| round_trip()).sum::<Duration>() / 20;
        assert!(mean < Duration::from_millis(450), "seed {seed}: {mean:?}");
    }
}

/// Losses that come together, some milliseconds of them now and then, vary more from one round trip to the
/// next than others of the same share. That is chance, and not the path's end.
#[test]
fn losses_come_together() {
    let ms = Duration::from_millis;
    for (bad, good, least) in [(2, 98, 0.7), (2, 48, 0.6)] {
        let link = Conditions {
            bursts: Some((ms(bad), ms(good))),
            ..fast()
        };
        let shares = (41..46).map(|seed| {
            let (watched, carried) = measured(ours(), 1_000, link, seed);
            let lost = watched.share(|done| done.lost);
            assert!(lost > 0.01, "seed {seed}: {lost:.3} lost");
            carried
        });
        let shares: Vec<f64> = shares.collect();
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        assert!(mean > least, "{bad} of {good} ms: {shares:.2?} of the path");
    }
}

/// A block's fragments fill datagrams, and each is lost and goes again by itself: where many datagrams get lost, frames
/// that no datagram holds get no slower for it.
#[test]
fn long_fragments_carry_no_less_where_datagrams_get_lost() {
    for (size, loss) in [
        (4_000, 0.05),
        (7_000, 0.05),
        (60_000, 0.05),
        (4_000, 0.1),
        (7_000, 0.1),
    ] {
        let link = Conditions { loss, ..fast() };
        // What one path loses by chance is more than what the two differ by.
        let mean = |params: &yojimbo::Params| {
            let carried = (41..45).map(|seed| measured(params.clone(), size, link, seed).1);
            carried.sum::<f64>() / 4.0
        };
        let carried = mean(&ours());
        let before = mean(&ours().without_long_fragments());
        let what =
            format!("{size} bytes, {loss} lost: {before:.3} of the path before, now {carried:.3}");
        assert!(carried > before - 0.005, "{what}");
    }
}

/// Of packets of four and seven datagrams a fifth and a third are lost where one datagram in twenty is: the
/// path is no worse for that than for small ones. To clients of other make long messages go in such packets.
#[test]
fn what_several_datagrams_lose_together_is_no_heavy_loss() {
    for (size, least) in [(4_000, 0.4), (7_000, 0.25)] {
        let link = Conditions {
            loss: 0.05,
            ..fast()
        };
        let (carried, _) = carried(size, link);
        assert!(carried > least, "{size} bytes: {carried:.2} of the path");
    }
}

/// Between two tidegates each datagram of a long message is lost by itself, and goes again by itself.
#[test]
fn long_messages_lose_no_more_than_short_ones() {
    let bad = |loss, bursts| Conditions {
        loss,
        bursts,
        ..fast()
    };
    let outages = (Duration::from_millis(20), Duration::from_millis(480));
    for (link, least) in [(bad(0.1, None), 0.6), (bad(0.0, Some(outages)), 0.65)] {
        for size in [1_000, 4_000, 7_000] {
            let (watched, carried) = measured(ours(), size, link, 43);
            let lost = watched.share(|done| done.lost);
            assert!(lost > 0.01, "{lost:.3} lost");
            assert!(carried > least, "{size} bytes: {carried:.2} of {link:?}");
        }
    }
}

/// A packet of seven datagrams arrives one time in twelve where three in ten are lost, and what follows it
/// waits: for longer than a session waits for a gap.
#[test]
fn three_in_ten_lost_end_no_session() {
    let link = Conditions {
        delay: Duration::from_millis(5),
        loss: 0.3,
        mtu: 1_500,
        ..Conditions::default()
    };
    let up = Traffic {
        messages: 300,
        sizes: 1_000..=7_000,
        burst: 64,
        ..without_end(0)
    };
    for seed in 0..3 {
        let mut scenario = upload(ours(), seed, 1, link, &up);
        scenario.deliver_all_within(Duration::from_secs(60));
        let stats = scenario.client_stats(0);
        assert!(stats.packets_lost > stats.packets_sent / 5, "{stats:?}");
        assert!(stats.messages_resent > 300, "{stats:?}");
    }
}

/// A radio that loses a fifth of everything loses it at any rate. Who takes that for the path's end has a hundredth of it
/// left.
#[test]
fn heavy_loss_that_is_the_paths_own_leaves_most_of_it() {
    for seed in 51..55 {
        let link = Conditions {
            loss: 0.2,
            ..radio(25, 50_000_000)
        };
        heavy_loss_leaves_most(link, seed);
    }
}

/// One of four is always the first of two packets, or always the second, unless something comes between them. Whatever the
/// turn is, it takes no part in a queue that slow start makes: that one has an end, and says nothing of pairs.
#[test]
fn heavy_loss_in_turn_leaves_most_of_a_path() {
    for of in 4..=6 {
        for which in 1..=of {
            let link = Conditions {
                nth: (of, which),
                ..radio(25, 50_000_000)
            };
            heavy_loss_leaves_most(link, 56);
        }
    }
}

/// More than is learned as usual, and less than 15 %: where little is under way, it was taken for the losses of many, and
/// hardly a datagram a round trip was left.
#[test]
fn loss_that_is_not_quite_heavy_leaves_most_of_a_path() {
    for seed in 61..64 {
        let link = Conditions {
            loss: 0.125,
            ..radio(10, 10_000_000)
        };
        heavy_loss_leaves_most(link, seed);
    }
}

/// What the first packets lose is luck. Who heard of no loss among them took a loss of one in twenty for the path's end, again
/// and again.
#[test]
fn a_lucky_beginning_costs_no_path() {
    // Those of 91 to 310 who were left with half of the path, or less.
    for seed in [142, 178, 254, 273, 303, 310] {
        let link = Conditions {
            loss: 0.05,
            ..radio(60, 4_000_000)
        };
        let mut scenario = upload(stock(), seed, 1, link, &without_end(1_000));
        scenario.run_for(Duration::from_secs(5));
        let watched = watch(&mut scenario, 20);
        let lost = watched.share(|done| done.lost);
        let carried = watched.carried(1_000, link);
        let what = format!("seed {seed}: {lost:.3} lost, {carried:.3} carried");
        assert!(lost > 0.04, "{what}");
        assert!(carried > 0.65, "{what}");
    }
}

fn heavy_loss_leaves_most(link: Conditions, seed: u64) {
    let mut scenario = upload(ours(), seed, 1, link, &without_end(1_000));
    scenario.run_for(Duration::from_secs(30));
    let watched = watch(&mut scenario, 5);
    let lost = watched.share(|done| done.lost);
    let carried = watched.carried(1_000, link);
    let what = format!("seed {seed}, {link:?}: {lost:.3} lost, {carried:.3} carried");
    let meant = match link.nth.0 {
        0 => link.loss,
        of => 1.0 / f64::from(of),
    };
    assert!(lost > 0.9 * meant, "{what}");
    assert!(carried > 0.3, "{what}");
}

/// A queue of five datagrams, and messages of seven, whose fragments leave together. The last two were dropped each time:
/// a fiftieth of the path was carried, and between two tidegates nothing at all, as what is sent before they know each other
/// held up the rest.
#[test]
fn messages_pass_a_queue_that_is_shorter_than_they_are() {
    for (params, millis, least) in [(stock(), 15, 0.15), (ours(), 15, 0.8), (ours(), 80, 0.8)] {
        let short = path(millis, 1_670_000, 6_000);
        let (watched, carried) = measured(params, 7_000, short, 28);
        assert!(watched.share(|done| done.overflowed) > 0.0);
        assert!(carried > least, "{millis} ms: {carried:.3}");
    }
}
