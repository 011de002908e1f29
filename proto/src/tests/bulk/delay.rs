//! Paths that take longer at times, which is no queue of ours.

use std::time::Duration;

use super::{fast, measured, ours, path, stock, upload, watch, without_end};
use crate::sim::{Conditions, Traffic};

/// What a wireless link delays now and then is no queue, and who takes it for one at the start, when the
/// rate is still low, takes seconds for a megabyte.
#[test]
fn jitter_at_the_start_is_no_queue() {
    // The second is as bad as wireless links get, and a few still take their time over it.
    for (jitter, most) in [(5, [0.9, 1.5]), (15, [1.5, 6.0])] {
        let seconds = first_megabytes(Duration::from_millis(jitter));
        let what = format!("{jitter} ms of jitter: {seconds:?}");
        assert!(seconds[11] < most[0] && seconds[15] < most[1], "{what}");
    }
}

/// Packets of bulk follow each other closely and cannot overtake: where jitter delays one, it delays those behind it,
/// and more the more there are. That is no queue, and going slower does not shorten it.
#[test]
fn jitter_takes_little_from_what_a_path_carries() {
    for millis in [10, 15] {
        let jitter = Duration::from_millis(millis);
        let link = Conditions {
            jitter,
            ..path(30, 100_000_000, 625_000)
        };
        let shares = (0..8).map(|seed| {
            let mut scenario = upload(ours(), seed, 1, link, &without_end(1_000));
            scenario.run_for(Duration::from_secs(6));
            let watched = watch(&mut scenario, 10);
            let stats = scenario.client_stats(0);
            let varied = stats.rtt.saturating_sub(stats.rtt_min);
            assert!(varied > jitter / 4, "{varied:?}");
            watched.carried(1_000, link)
        });
        let mut shares: Vec<_> = shares.collect();
        shares.sort_by(f64::total_cmp);
        assert!(shares[2] > 0.85, "{millis} ms of jitter: {shares:.2?}");
    }
}

/// How long the first megabyte of a connection takes over 50 ms and 100 Mbit/s, in seconds, sixteen times,
/// ascending.
fn first_megabytes(jitter: Duration) -> Vec<f64> {
    let link = Conditions {
        delay: Duration::from_millis(25),
        jitter,
        rate: 100_000_000,
        ..Conditions::default()
    };
    let up = Traffic {
        messages: 1_000,
        burst: 64,
        ..without_end(1_000)
    };
    let seconds = (0..16).map(|seed| {
        let mut scenario = upload(stock(), seed, 1, link, &up);
        scenario.deliver_all_within(Duration::from_secs(30));
        let stats = scenario.client_stats(0);
        let varied = stats.rtt.saturating_sub(stats.rtt_min);
        assert!(varied > Duration::from_millis(1), "{varied:?}");
        let latencies = scenario.latencies_up(0);
        latencies.last().expect("it was heard").as_secs_f64()
    });
    let mut seconds: Vec<_> = seconds.collect();
    seconds.sort_by(f64::total_cmp);
    seconds
}

/// Acknowledgements reach 32 packets back, and what a link holds back for 10 ms is passed by three times as
/// many. It arrived, and who takes it for lost sends a third of everything twice.
#[test]
fn what_arrives_late_is_not_lost() {
    let link = Conditions {
        reorder: (0.3, Duration::from_millis(10)),
        ..fast()
    };
    for size in [1_000, 60_000] {
        let (watched, carried) = measured(ours(), size, link, 41);
        let reordered = watched.share(|done| done.reordered);
        assert!(
            reordered > 0.25,
            "{reordered:.2} of the datagrams came late"
        );
        assert!(carried > 0.8, "{size} bytes: {carried:.2} of the path");
    }
}

/// Another route that takes longer is no queue. Bulk was cut to its floor for it, and followed loss for ten seconds and more:
/// of 10 Mbit/s, 0.6 were carried five seconds later, on each of these paths.
#[test]
fn another_route_takes_little_from_bulk() {
    let mut slow = Vec::new();
    for (rate, from, to) in [
        (10_000_000, 10, 35),
        (10_000_000, 10, 150),
        (50_000_000, 20, 25),
        (50_000_000, 20, 32),
        (2_000_000, 10, 60),
    ] {
        for (loss, jitter) in [(0.0, 0), (0.0, 5), (0.01, 5)] {
            for seed in 0..2 {
                let near = Conditions {
                    loss,
                    jitter: Duration::from_millis(jitter),
                    ..path(from, rate, rate as usize / 80)
                };
                let far = Conditions {
                    delay: Duration::from_millis(to),
                    ..near
                };
                let mut scenario = upload(ours(), seed, 1, near, &without_end(1_000));
                scenario.run_for(Duration::from_secs(10));
                scenario.set_weather(far, far);
                let first = watch(&mut scenario, 2).carried(1_000, far);
                let then = watch(&mut scenario, 8).carried(1_000, far);
                if first < 0.45 || then < 0.7 {
                    slow.push((rate, from, to, loss, jitter, seed, first, then));
                }
            }
        }
    }
    assert!(slow.len() <= 3, "{slow:#?}");
}

/// The last acknowledgements of a block prove nothing, as the peer held them back until the next one. They were taken for
/// the end of the queue that the longer way looks like, and bad mode ended and began with each block: a sixth of the path.
#[test]
fn another_route_takes_little_from_blocks() {
    let mut slow = Vec::new();
    for longer in [15, 25] {
        for seed in 0..3 {
            let near = path(30, 10_000_000, 125_000);
            let far = Conditions {
                delay: near.delay + Duration::from_millis(longer),
                ..near
            };
            let mut scenario = upload(stock(), seed, 1, near, &without_end(262_144));
            scenario.run_for(Duration::from_secs(20));
            scenario.set_weather(far, far);
            let carried = watch(&mut scenario, 10).carried(262_144, far);
            if carried < 0.5 {
                slow.push((longer, seed, carried));
            }
        }
    }
    assert_eq!(slow, []);
}
