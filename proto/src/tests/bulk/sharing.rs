//! Several on one path, none of whom knows of the others.

use std::time::Duration;

use super::{path, radio, stock, upload, watch, without_end};
use crate::sim::Conditions;

/// Eight who share 10 Mbit/s and a queue of 10 ms cannot tell, each by himself, that what is lost is their
/// doing: whoever takes it for the path's own goes on, and of all that they send a quarter gets lost.
#[test]
fn many_lose_little_to_each_other() {
    let link = Conditions {
        jitter: Duration::from_millis(1),
        ..path(25, 10_000_000, 12_500)
    };
    let mut scenario = upload(stock(), 47, 8, link, &without_end(1_000));
    scenario.run_for(Duration::from_secs(10));
    let watched = watch(&mut scenario, 20);
    let overflowed = watched.share(|done| done.overflowed);
    let carried = watched.carried(1_000, link);
    let what = format!("{overflowed:.3} run over, {carried:.2} carried");
    assert!(overflowed < 0.12 && carried > 0.8, "{what}");
}

/// A policer drops what is too much and delays nothing. Whoever takes that for what the path loses anyway keeps his rate,
/// and the others, who do not, lose theirs to him.
#[test]
fn those_behind_a_policer_get_alike() {
    for (rate, seed) in [(10_000_000, 48), (50_000_000, 49)] {
        let link = Conditions {
            jitter: Duration::from_millis(1),
            polices: true,
            ..path(25, rate, rate as usize / 800)
        };
        let mut scenario = upload(stock(), seed, 8, link, &without_end(1_000));
        scenario.run_for(Duration::from_secs(10));
        let watched = watch(&mut scenario, 20);
        let (fairness, carried) = (watched.fairness(), watched.carried(1_000, link));
        let heard = watched.heard;
        let what = format!("{heard:?}: {fairness:.2}, {carried:.2} carried, seed {seed}");
        assert!(fairness > 0.75 && carried > 0.8, "{what}");
    }
}

/// Who finds out late that a radio loses a fifth of everything finds it full of those who did before.
#[test]
fn several_share_a_path_with_heavy_loss() {
    let link = Conditions {
        jitter: Duration::from_millis(1),
        loss: 0.2,
        ..radio(25, 50_000_000)
    };
    let least = [71, 72, 73, 74].map(|seed| {
        let mut scenario = upload(stock(), seed, 4, link, &without_end(1_000));
        scenario.run_for(Duration::from_secs(60));
        let heard = watch(&mut scenario, 10).heard;
        let least = heard.into_iter().min().unwrap_or(0);
        least as f64 * 800.0 / link.rate as f64
    });
    let mean = least.iter().sum::<f64>() / 4.0;
    assert!(
        mean > 0.03,
        "the least of four, seeds 71 to 74: {least:.4?}"
    );
}

/// Where the delay swings, packets close to each other are as late as the latest, and single ones are not. Who goes slowly
/// beside others must not take that for their queue, nor who goes fast their queue for that.
#[test]
fn four_share_a_path_whose_delay_swings() {
    let link = Conditions {
        jitter: Duration::from_millis(15),
        ..path(25, 10_000_000, 125_000)
    };
    let fairness = [81, 82, 83, 84].map(|seed| {
        let mut scenario = upload(stock(), seed, 4, link, &without_end(1_000));
        scenario.run_for(Duration::from_secs(15));
        watch(&mut scenario, 25).fairness()
    });
    let mean = fairness.iter().sum::<f64>() / 4.0;
    assert!(mean > 0.6, "seeds 81 to 84: {fairness:.3?}");
}

/// Many at a policer make each other lose much, and none of them can change that alone. Nobody may take it for the path's
/// own and go on.
#[test]
fn sixteen_at_a_policer_do_not_take_their_losses_for_the_paths() {
    let link = Conditions {
        polices: true,
        ..path(25, 10_000_000, 12_500)
    };
    for seed in [61, 62] {
        let mut scenario = upload(stock(), seed, 16, link, &without_end(1_000));
        scenario.run_for(Duration::from_secs(10));
        let overflowed = watch(&mut scenario, 20).share(|done| done.overflowed);
        let what = format!("seed {seed}: {overflowed:.3} dropped");
        assert!((0.05..0.14).contains(&overflowed), "{what}");
    }
}
