//! Clients of the library's make on thin paths. They repeat everything that is not acknowledged within 0.1 s: a
//! queue that copies fill on the way down makes them fill the way up, for good.

use std::sync::Arc;
use std::time::Duration;

use super::games::{Game, Rules};
use super::scenario::Scenario;
use crate::sim::{Conditions, Traffic};
use crate::yojimbo;

const SPAN: Duration = Duration::from_secs(40);

/// 256 kbit/s, with a queue of a third of a second.
fn line(millis: u64, loss: f64) -> Conditions {
    Conditions {
        delay: Duration::from_millis(millis),
        loss,
        rate: 256_000,
        queue: 10_000,
        ..Conditions::default()
    }
}

/// What a game says, either way: half of such a line.
fn says() -> Traffic {
    Traffic {
        messages: u64::MAX,
        sizes: 40..=300,
        every: Duration::from_secs(1) / 60,
        unreliable: true,
        ..Traffic::default()
    }
}

/// The least share of what was said that was heard, either way.
fn share_heard(mut game: Game, link: Conditions, traffic: &Traffic) -> f64 {
    let mut scenario = Scenario::new(&mut game, 1, link, traffic, traffic);
    scenario.run_for(SPAN);
    assert_lossy(&scenario, link);
    let outcome = scenario.outcome(0);
    let share = |(said, heard): (u64, u64)| heard as f64 / said.max(1) as f64;
    share(outcome.up).min(share(outcome.down))
}

fn assert_lossy(scenario: &Scenario, link: Conditions) {
    let (up, _) = scenario.network();
    let lost = up.lost as f64 / (up.offered - up.overflowed) as f64;
    assert!(lost > 0.6 * link.loss, "{lost:.3} lost");
}

/// Half of the line is taken without a single copy. From a round trip of about 0.1 s on, the library sends
/// everything twice, which still fits.
#[test]
fn copies_leave_a_thin_line_open() {
    let says = says();
    for (millis, loss) in [(25, 0.02), (35, 0.02), (45, 0.02), (40, 0.05)] {
        let link = line(millis, loss);
        for seed in 0..4 {
            let library = Game::of_library_clients(seed).with_library_server();
            let library = share_heard(library, link, &says);
            let ours = share_heard(Game::of_library_clients(seed), link, &says);
            assert!(
                ours > 0.98,
                "seed {seed}, {link:?}: {ours:.3}, with the library's server {library:.3}"
            );
        }
    }
}

/// A line with room for a sixth more than what is said. Each end hears the other's queue as well as its own, and takes
/// it for somebody else's: what its copies add to it is its own all the same.
#[test]
fn copies_do_not_hide_in_the_queue_of_another() {
    let says = Traffic {
        messages: u64::MAX,
        sizes: 256..=256,
        every: Duration::from_secs(1) / 60,
        ..Traffic::default()
    };
    let link = Conditions {
        delay: Duration::from_millis(25),
        jitter: Duration::from_millis(5),
        loss: 0.03,
        rate: 180_000,
        // Almost three seconds.
        queue: 64_000,
        ..Conditions::default()
    };
    for seed in 0..16 {
        let rules = Rules::Yojimbo(Arc::new(yojimbo::Params::default()));
        let mut game = Game::new(rules, seed);
        let mut scenario = Scenario::new(&mut game, 1, link, &says, &says);
        scenario.run_for(SPAN);
        assert_lossy(&scenario, link);
        let mut took = scenario.latencies_up(0);
        took.sort();
        let slow = took[took.len() * 99 / 100];
        assert!(slow < Duration::from_millis(700), "seed {seed}: {slow:?}");
    }
}

/// A server that echoes sends more at once after each loss on the way up: a queue that begins then is as good a reason
/// to hold copies back. From here on, some of the library's clients come to fill their uplinks with any server.
#[test]
fn copies_hold_back_where_answers_come_in_heaps() {
    let says = says();
    let shares: Vec<_> = (0..24)
        .map(|seed| {
            let mut game = Game::of_library_clients(seed);
            let link = line(25, 0.05);
            let mut scenario = Scenario::echoed(&mut game, link, &says);
            scenario.run_for(SPAN);
            assert_lossy(&scenario, link);
            let outcome = scenario.outcome(0);
            outcome.down.1 as f64 / outcome.up.0 as f64
        })
        .collect();
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    assert!(mean > 0.85, "{mean:.3}: {shares:.2?}");
}
