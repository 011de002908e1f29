//! One connection with more to say than its path carries.

use std::sync::Arc;
use std::time::Duration;

use super::games::{Game, Rules};
use super::scenario::Scenario;
use crate::sim::{Conditions, Traffic};
use crate::yojimbo;

/// 20 Mbit/s over 50 ms with a queue of 6 ms, too short to be felt as one.
fn short_queue(loss: f64) -> Conditions {
    Conditions {
        delay: Duration::from_millis(25),
        loss,
        rate: 20_000_000,
        queue: 16 * 1024,
        ..Conditions::default()
    }
}

/// Messages of 7000 bytes are seven datagrams each, and broken by the loss of one of them: a sender that
/// runs the queue over sends little but repairs, and must find its way back from them.
#[test]
fn a_queue_too_short_to_be_felt_is_not_run_over_for_ever() {
    // Shares of the path after headers and the losses that repairs cost.
    for (size, loss, least) in [
        (1000, 0.0, 0.8),
        (1000, 0.01, 0.8),
        (7000, 0.0, 0.65),
        (7000, 0.01, 0.55),
    ] {
        let up = Traffic {
            messages: u64::MAX,
            sizes: size..=size,
            burst: 8,
            every: Duration::from_millis(1),
            ..Traffic::default()
        };
        let mut game = Game::new(Rules::Yojimbo(Arc::new(yojimbo::Params::default())), 41);
        let mut scenario = Scenario::new(&mut game, 1, short_queue(loss), &up, &Traffic::silent());
        scenario.run_for(Duration::from_secs(6));
        let (before, heard) = (scenario.network().0, scenario.outcome(0).up.1);
        scenario.run_for(Duration::from_secs(10));
        let (after, heard) = (scenario.network().0, scenario.outcome(0).up.1 - heard);
        let carried = heard as f64 * size as f64 * 8.0 / 10.0 / 20e6;
        let overflowed =
            (after.overflowed - before.overflowed) as f64 / (after.offered - before.offered) as f64;
        let what = format!(
            "{size} bytes, {loss} lost: {carried:.2} of the path, {overflowed:.3} run over"
        );
        assert!(carried > least && overflowed < 0.05, "{what}");
    }
}
