//! A game server that answers what it hears at once. Where a message got lost on the way up, all that waited behind
//! it is answered in one go: a backlog, on a path that could carry much more.

use std::time::Duration;

use super::games::Game;
use super::scenario::Scenario;
use crate::sim::{Conditions, Traffic};

const SEEDS: u64 = 4;

/// What is lost is lost on the way up; both ways, packets take 15 to 35 ms.
fn paths() -> (Conditions, Conditions) {
    let down = Conditions {
        delay: Duration::from_millis(25),
        jitter: Duration::from_millis(10),
        ..Conditions::default()
    };
    (Conditions { loss: 0.05, ..down }, down)
}

/// How long messages took there and back.
fn round_trips(mut game: Game, says: &Traffic) -> Vec<Duration> {
    let (up, down) = paths();
    let mut scenario = Scenario::echoed(&mut game, up, says);
    scenario.set_weather(up, down);
    scenario.run_for(Duration::from_secs(25));
    let done = scenario.network().0;
    assert!(done.lost as f64 > 0.6 * up.loss * done.offered as f64);
    scenario.round_trips(0)
}

fn p99(of_seeds: impl Fn(u64) -> Vec<Duration>) -> Duration {
    let mut took: Vec<_> = (0..SEEDS).flat_map(of_seeds).collect();
    took.sort_unstable();
    took[took.len() * 99 / 100]
}

/// A rate for bulk that a backlog met once was too low to be rid of it: it grew to seconds.
#[test]
fn a_backlog_is_answered_as_soon_as_by_the_library() {
    for (sizes, a_second) in [(200..=400, 120), (400..=800, 120), (200..=400, 240)] {
        let says = Traffic {
            messages: u64::MAX,
            sizes,
            every: Duration::from_secs(1) / a_second,
            ..Traffic::default()
        };
        let library =
            p99(|seed| round_trips(Game::of_library_clients(seed).with_library_server(), &says));
        let ours = p99(|seed| round_trips(Game::of_library_clients(seed), &says));
        assert!(
            ours <= library.mul_f64(1.05),
            "{says:?}: {ours:?}, with the library's server {library:?}"
        );
    }
}
