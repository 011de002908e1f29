//! Listeners that acknowledge only what was written, and clients of the library's make, which repeat by the clock what
//! is not acknowledged.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use super::games::{Game, Rules};
use super::scenario::{Scenario, bad_weather, path};
use crate::session::AckPolicy;
use crate::sim::{Traffic, World};
use crate::yojimbo::Params;

const TICKS: [u32; 3] = [20, 30, 60];

fn strict() -> Rules {
    Rules::Yojimbo(Arc::new(Params {
        ack: AckPolicy::Strict,
        ..Params::default()
    }))
}

/// As many as the library queues, nearly, and all at once.
fn backlog(sizes: RangeInclusive<usize>) -> Traffic {
    Traffic {
        messages: 1_000,
        sizes,
        burst: 1_000,
        ..Traffic::default()
    }
}

/// Until everything is delivered; and at any time what stands before the client's oldest unacknowledged message is
/// written.
fn deliver(scenario: &mut Scenario, what: &str) {
    let is_over = |world: &World| {
        let outcome = world.outcome(0);
        let acked = world.client_stats(0).messages_acked;
        assert!(acked <= outcome.up.1, "{what}: {acked} of {outcome:?}");
        let ended = outcome.client_closed.or(outcome.server_closed);
        world.all_delivered() || ended.is_some()
    };
    scenario.run_until(Duration::from_secs(600), is_over);
    assert!(
        scenario.all_delivered(),
        "{what}: {:?}",
        scenario.outcome(0)
    );
}

/// Two tidegates lose nothing by it, both ways.
#[test]
fn acknowledgements_wait_for_the_write() {
    let traffic = Traffic {
        messages: 300,
        sizes: 0..=300,
        ..Traffic::default()
    };
    let mut game = Game::new(strict(), 11);
    let mut scenario = Scenario::new(&mut game, 1, bad_weather(), &traffic, &traffic);
    scenario.deliver_all_within(Duration::from_secs(60));
    assert!(scenario.network().0.lost > 10);
}

/// The library fills its packets with messages from far behind. Where those were not acknowledged before what is
/// between them was written, it repeated its oldest packets for ever and did not send that.
#[test]
fn a_backlog_is_delivered() {
    let paths = [(0.0, 0..2), (0.01, 2..4), (0.05, 4..6), (0.2, 6..8)];
    for sizes in [0..=200, 0..=2_000, 0..=7_000] {
        for ticks in TICKS {
            for (loss, seeds) in paths.clone() {
                for seed in seeds {
                    let mut game = Game::new(strict(), seed)
                        .with_library_clients()
                        .with_ticks(ticks);
                    let (says, silent) = (backlog(sizes.clone()), Traffic::silent());
                    let mut scenario = Scenario::new(&mut game, 1, path(25, loss), &says, &silent);
                    let what = format!("{sizes:?} at {ticks} Hz, loss {loss}, seed {seed}");
                    deliver(&mut scenario, &what);
                }
            }
        }
    }
}

/// Nor does it send that while the oldest wait for a backend that reads nothing, for longer than a gap may last.
#[test]
fn a_gap_is_not_held_against_who_waits_for_a_write() {
    let nap = Duration::from_secs(45);
    let says = Traffic {
        begins: nap + Duration::from_millis(100),
        ..backlog(0..=2_000)
    };
    let naps = Traffic {
        reader_sleeps: Some(nap),
        ..Traffic::silent()
    };
    for ticks in TICKS {
        for seed in 0..4 {
            let mut game = Game::new(strict(), seed)
                .with_library_clients()
                .with_ticks(ticks);
            let mut scenario = Scenario::new(&mut game, 1, path(25, 0.05), &says, &naps);
            deliver(&mut scenario, &format!("{ticks} Hz, seed {seed}"));
        }
    }
}

/// Between two tidegates a loss costs hardly more than where it is not waited for: what is behind a gap does not look
/// lost as well.
#[test]
fn what_waits_for_a_loss_is_not_repeated() {
    for seed in 0..4 {
        let says = Traffic {
            messages: 2_000,
            sizes: 0..=7_000,
            burst: 40,
            every: Duration::from_millis(100),
            ..Traffic::default()
        };
        let mut game = Game::new(strict(), seed);
        let mut scenario = Scenario::new(&mut game, 1, path(25, 0.05), &says, &Traffic::silent());
        scenario.deliver_all_within(Duration::from_secs(12));
        let lost = scenario.network().0.lost;
        assert!(lost > 100, "seed {seed}: {lost} were lost");
    }
}
