//! One connection with more to say than its path carries.

mod delay;
mod loss;
mod outages;
mod sharing;
mod under_way;

use std::sync::Arc;
use std::time::Duration;

use super::games::{Game, Rules};
use super::scenario::Scenario;
use crate::sim::{Conditions, Done, Traffic};
use crate::yojimbo;

/// A path of so many ms each way and bits a second, with a queue of so many bytes and the MTU of an Ethernet.
fn path(millis: u64, rate: u64, queue: usize) -> Conditions {
    Conditions {
        delay: Duration::from_millis(millis),
        rate,
        queue,
        mtu: 1_500,
        ..Conditions::default()
    }
}

/// A path with a queue of 50 ms.
fn radio(millis: u64, rate: u64) -> Conditions {
    path(millis, rate, rate as usize / 160)
}

/// 50 ms there and back, 100 Mbit/s, and a queue as long.
fn fast() -> Conditions {
    path(25, 100_000_000, 625_000)
}

/// The rules of a tidegate and a third-party client.
fn stock() -> yojimbo::Params {
    yojimbo::Params::default()
}

/// The rules of two tidegates on such a path.
fn ours() -> yojimbo::Params {
    stock().with_path_mtu(1_500, true)
}

/// So many clients that say this and are told nothing.
fn upload(
    params: impl Into<Arc<yojimbo::Params>>,
    seed: u64,
    clients: usize,
    link: Conditions,
    up: &Traffic,
) -> Scenario {
    let mut game = Game::new(Rules::Yojimbo(params.into()), seed);
    Scenario::new(&mut game, clients, link, up, &Traffic::silent())
}

/// What happened on the way up in a span of time.
struct Watched {
    secs: u64,
    before: Done,
    after: Done,
    /// Messages of each client that arrived.
    heard: Vec<u64>,
}

impl Watched {
    /// Share of the datagrams that this was counted of.
    fn share(&self, counted: fn(&Done) -> u64) -> f64 {
        let since = |count: fn(&Done) -> u64| (count(&self.after) - count(&self.before)) as f64;
        since(counted) / since(|done| done.offered)
    }

    /// Share of the path's rate that messages of one size took.
    fn carried(&self, size: usize, link: Conditions) -> f64 {
        let bits = self.heard.iter().sum::<u64>() as f64 * size as f64 * 8.0;
        bits / self.secs as f64 / link.rate as f64
    }

    /// 1 where all clients are equal (Jain).
    fn fairness(&self) -> f64 {
        let heard = self.heard.iter().map(|&heard| heard as f64);
        let (sum, squares) = (heard.clone().sum::<f64>(), heard.map(|it| it * it));
        sum * sum / (self.heard.len() as f64 * squares.sum::<f64>())
    }
}

fn watch(scenario: &mut Scenario, secs: u64) -> Watched {
    let count = |scenario: &Scenario| -> (Done, Vec<u64>) {
        let clients = 0..scenario.clients();
        let heard = clients.map(|client| scenario.outcome(client).up.1);
        (scenario.network().0, heard.collect())
    };
    let (before, heard_before) = count(scenario);
    scenario.run_for(Duration::from_secs(secs));
    let (after, heard) = count(scenario);
    let heard = heard.iter().zip(heard_before);
    Watched {
        secs,
        before,
        after,
        heard: heard.map(|(after, before)| after - before).collect(),
    }
}

/// Messages of one size over a path that carries less, with third-party clients: the share of it that was carried, and the
/// share of datagrams that ran the queue over.
fn carried(size: usize, link: Conditions) -> (f64, f64) {
    carried_between(stock(), size, link)
}

/// What [`carried`] measures, between two with these rules.
fn carried_between(params: yojimbo::Params, size: usize, link: Conditions) -> (f64, f64) {
    let (watched, carried) = measured(params, size, link, 41);
    (carried, watched.share(|done| done.overflowed))
}

/// Messages of one size over any path: what happened in seconds 6 to 16, and the share of its rate that was carried then.
fn measured(params: yojimbo::Params, size: usize, link: Conditions, seed: u64) -> (Watched, f64) {
    let mut scenario = upload(params, seed, 1, link, &without_end(size));
    scenario.run_for(Duration::from_secs(6));
    let watched = watch(&mut scenario, 10);
    let carried = watched.carried(size, link);
    (watched, carried)
}

/// Messages of one size, as fast as they are taken.
fn without_end(size: usize) -> Traffic {
    Traffic {
        messages: u64::MAX,
        sizes: size..=size,
        burst: 32,
        every: Duration::from_millis(1),
        ..Traffic::default()
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
        // 20 Mbit/s with a queue of 6 ms.
        let (carried, overflowed) = carried(
            size,
            Conditions {
                loss,
                ..path(25, 20_000_000, 16 * 1024)
            },
        );
        let what = format!(
            "{size} bytes, {loss} lost: {carried:.2} of the path, {overflowed:.3} run over"
        );
        assert!(carried > least && overflowed < 0.05, "{what}");
    }
}

/// A packet of seven datagrams takes 1 Mbit/s 60 ms, and three of them fill a queue of 200 ms. Who goes
/// on at a rate at which every packet breaks hears nothing, and must not take that for leave to go on.
#[test]
fn a_slow_path_carries_large_packets() {
    for (size, least) in [(1000, 0.8), (4000, 0.8), (7000, 0.4)] {
        let (carried, overflowed) = carried(size, path(25, 1_000_000, 25_000));
        let what = format!("{size} bytes: {carried:.2} of the path, {overflowed:.3} run over");
        assert!(carried > least && overflowed < 0.2, "{what}");
    }
}
