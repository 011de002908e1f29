//! How much may be under way: on a path that is long, and behind what was lost.

use std::sync::Arc;
use std::time::Duration;

use super::{
    carried, carried_between, fast, measured, ours, path, radio, stock, upload, watch, without_end,
};
use crate::sim::{Conditions, Done, Traffic};
use crate::{sender, yojimbo};

/// What is lost twice takes three round trips, and what follows it waits at the peer. The standard's
/// window of 1024 messages is over before that; between two tidegates it is 8192.
#[test]
fn two_of_ours_have_more_messages_under_way() {
    let link = Conditions {
        loss: 0.01,
        ..fast()
    };
    let (stock, _) = carried(1_000, link);
    let (carried, _) = carried_between(ours(), 1_000, link);
    let what = format!("{carried:.2} of the path, {stock:.2} before");
    assert!(carried > 0.8 && carried > stock + 0.1, "{what}");
}

/// 100 Mbit/s over 200 ms have 2.5 MB under way, and 5 MB until what was lost has come again: a queue of
/// 2 MiB was dry for half of the time. Two tidegates queue, and keep behind a gap, what the path needs.
#[test]
fn two_of_ours_fill_a_long_path() {
    for (size, loss, least) in [
        (1_000, 0.001, 0.7),
        (1_407, 0.0, 0.8),
        (1_407, 0.01, 0.7),
        (7_000, 0.001, 0.7),
        (60_000, 0.01, 0.7),
    ] {
        let (after, carried) = carried_far(ours(), size, loss);
        let what = format!("{size} bytes, {loss} lost: {carried:.2} of the path");
        assert!(carried > least, "{what}");
        let lost = after.lost as f64 / after.offered as f64;
        assert!(
            (0.8..=1.2).contains(&(lost / loss)) || loss == 0.0,
            "{lost}"
        );
    }
}

/// More may be under way than is remembered, and what is forgotten before its answer comes is sent again, at
/// whatever rate there was: nothing tells any more that it is too much.
#[test]
fn a_queue_that_holds_more_than_is_remembered_runs_nothing_over() {
    for mib in [8, 16] {
        let mut params = ours();
        let mut sender = sender::Params::clone(&params.sender);
        sender.outbox_bytes_max = mib << 20;
        params.sender = Arc::new(sender);
        let (after, carried) = carried_far(params, 7_000, 0.0);
        let overflowed = after.overflowed as f64 / after.offered as f64;
        let what = format!("{mib} MiB: {carried:.2} of the path, {overflowed:.3} run over");
        assert!(carried > 0.7 && overflowed < 0.2, "{what}");
    }
}

/// On a fast path so many packets leave while a lost one may still be late that they are three quarters of what
/// is remembered. They arrived, and no answer to them is waited for.
#[test]
fn a_fast_path_does_not_come_to_a_stop() {
    // Both lose some ten datagrams, and the older has seven times as many.
    let ours = yojimbo::Params::default().with_path_mtu(9_000, true);
    for (loss, params) in [
        (0.000_1, ours.clone().without_long_fragments()),
        (0.000_7, ours),
    ] {
        let params = Arc::new(params);
        let link = Conditions {
            delay: Duration::from_micros(50),
            loss,
            mtu: 9_000,
            ..path(0, 10_000_000_000, 4_000_000)
        };
        let up = Traffic {
            messages: 12_000,
            burst: 64,
            ..without_end(32_768)
        };
        for seed in 0..4 {
            let mut scenario = upload(params.clone(), seed, 1, link, &up);
            scenario.deliver_all_within(Duration::from_secs(20));
            let done = scenario.network().0;
            assert!(done.lost > 10, "seed {seed}: {done:?}");
        }
    }
}

/// Messages of one size over 100 Mbit/s and 200 ms: what was counted at the end, and the share of the path
/// that was carried after six seconds.
fn carried_far(params: yojimbo::Params, size: usize, loss: f64) -> (Done, f64) {
    let link = Conditions {
        loss,
        ..path(100, 100_000_000, 1_250_000)
    };
    let (watched, carried) = measured(params, size, link, 41);
    (watched.after, carried)
}

/// The start of a connection runs over a short queue, and with a little more to say than that there is nothing
/// fresh behind what was lost: at a packet each eleven milliseconds, as messages go, a megabyte took ten seconds.
#[test]
fn what_is_lost_at_the_end_goes_again_as_fast() {
    let up = Traffic {
        messages: 5_000,
        burst: 5_000,
        ..without_end(1_000)
    };
    for seed in 1..9 {
        let mut scenario = upload(ours(), seed, 1, path(50, 100_000_000, 64_000), &up);
        scenario.deliver_all_within(Duration::from_secs(60));
        let overflowed = scenario.network().0.overflowed;
        assert!(overflowed > 50, "seed {seed}: {overflowed} run over");
        let last = scenario.latencies_up(0).pop().expect("all arrived");
        assert!(last < Duration::from_millis(600), "seed {seed}: {last:?}");
    }
}

/// Between two tidegates blocks are under way together; with others each waits for the one before it.
#[test]
fn blocks_of_two_of_ours_fill_a_path() {
    let link = Conditions {
        loss: 0.01,
        ..fast()
    };
    for (size, least) in [(20_000, 0.8), (60_000, 0.8), (262_144, 0.6)] {
        let (stock, _) = carried(size, link);
        let (carried, overflowed) = carried_between(ours(), size, link);
        let what = format!("{size} bytes: {carried:.2} of the path, {stock:.2} with others");
        assert!(carried > least && stock < 0.4, "{what}");
        assert!(overflowed < 0.02, "{overflowed:.3} run over");
    }
}

/// A block waits for each of its fragments, and the next one for the block. What was lost twice took a third round trip:
/// blocks carried a seventh of such a path at 10 % loss, and a tenth at 16.
#[test]
fn blocks_wait_little_for_what_is_lost() {
    for (loss, least) in [(0.1, 0.19), (0.16, 0.14)] {
        let link = Conditions {
            loss,
            ..radio(25, 50_000_000)
        };
        let carried = [92, 93, 94].map(|seed| {
            let mut scenario = upload(stock(), seed, 1, link, &without_end(262_144));
            scenario.run_for(Duration::from_secs(20));
            let watched = watch(&mut scenario, 20);
            assert!(watched.share(|done| done.lost) > 0.9 * loss, "seed {seed}");
            watched.carried(262_144, link)
        });
        let mean = carried.iter().sum::<f64>() / 3.0;
        assert!(
            mean > least,
            "{loss} lost, seeds 92 to 94: {carried:.3?} carried"
        );
    }
}
