//! Many small worlds, each drawn from its seed: what must hold in all of them.
//!
//! `TIDEGATE_SEEDS=N` runs N worlds instead of 500, `TIDEGATE_SEED=S` begins at seed S (and with
//! `TIDEGATE_SEEDS=1` replays one). Every failure names its seed.

use std::time::Duration;

use super::yojimbo::world;
use crate::session::{AckPolicy, CloseReason};
use crate::sim::{Conditions, Random, Traffic};
use crate::yojimbo::Params;

/// Worlds in a plain `cargo test`.
const WORLDS: u64 = 500;

fn number(name: &str, default: u64) -> u64 {
    #[expect(
        clippy::disallowed_methods,
        reason = "a test is told its seeds from outside"
    )]
    let text = std::env::var(name);
    text.map_or(default, |text| {
        text.parse()
            .unwrap_or_else(|e| panic!("{name}={text:?}: {e}"))
    })
}

/// Each feature is on in half of the worlds, so that rare combinations are common.
fn coin(random: &mut Random) -> bool {
    random.happens(0.5)
}

fn weather(random: &mut Random) -> Conditions {
    let mut weather = Conditions {
        delay: Duration::from_millis(random.below(150)),
        jitter: Duration::from_millis(random.below(20)),
        ..Conditions::default()
    };
    if coin(random) {
        weather.loss = random.share() * 0.3;
    }
    if coin(random) {
        let bad = Duration::from_millis(20 + random.below(300));
        weather.bursts = Some((bad, bad * (3 + random.below(20) as u32)));
    }
    if coin(random) {
        weather.duplicate = random.share() * 0.25;
    }
    if coin(random) {
        weather.reorder = (
            random.share() * 0.2,
            Duration::from_millis(random.below(1_000)),
        );
    }
    if coin(random) {
        weather.corrupt = random.share() * 0.05;
    }
    if coin(random) {
        weather.rate = 200_000 + random.below(5_000_000);
    }
    weather
}

fn traffic(random: &mut Random) -> Traffic {
    let largest = [0, 30, 300, 3_000, 20_000][random.below(5) as usize];
    Traffic {
        messages: random.below(1 + 120_000 / (largest as u64 + 200)),
        sizes: 0..=largest,
        every: Duration::from_millis(1 + random.below(60)),
        burst: 1 + random.below(10),
        unreliable: coin(random),
        reader_sleeps: coin(random).then(|| Duration::from_millis(100 + random.below(2_000))),
    }
}

/// What is promised of one world; the oracles of [`crate::sim::World`] watch the rest.
fn check_world(seed: u64) -> (u64, u64, Duration) {
    let mut random = Random::new(seed);
    let clients = 1 + random.below(4) as usize;
    let (up, down) = (traffic(&mut random), traffic(&mut random));
    let mut params = Params::default();
    if coin(&mut random) {
        params.ack = AckPolicy::Written;
    }
    if coin(&mut random) {
        params.inbox_marks = (2_000, 500);
    }
    let storm = weather(&mut random);
    let mut world = world(seed, clients, params, storm, &up, &down);
    let told = |_| (up.clone(), down.clone());
    world.run_for(Duration::from_secs(random.below(8)), told);
    // Healed, everything accepted must arrive, unless the storm was long enough to end a session.
    let calm = Conditions {
        delay: Duration::from_millis(20),
        ..Conditions::default()
    };
    world.set_weather(calm, calm);
    world.run_until(Duration::from_secs(120), told, |world| {
        (0..clients).all(|client| {
            let outcome = world.outcome(client);
            outcome.client_closed.is_some()
                || outcome.server_closed.is_some()
                || world.is_delivered(client)
        })
    });
    for client in 0..clients {
        let outcome = world.outcome(client);
        let ended = [outcome.client_closed, outcome.server_closed]
            .into_iter()
            .flatten();
        let excused = ended.map(|reason| {
            // A storm may outlast a timeout or a handshake; nothing else may end a session.
            let natural = [
                CloseReason::PeerTimeout,
                CloseReason::ConnectTimeout,
                CloseReason::PeerDisconnect,
            ];
            assert!(
                natural.contains(&reason),
                "seed {seed}: client {client} ended with {reason:?}"
            );
        });
        assert!(
            excused.count() > 0 || world.is_delivered(client),
            "seed {seed}: client {client} is stuck: {outcome:?} {:?}",
            world.client_stats(client)
        );
        assert!(
            outcome.up.1 <= outcome.up.0 && outcome.down.1 <= outcome.down.0,
            "seed {seed}: {outcome:?}"
        );
    }
    let (up, down) = world.network();
    let delivered = (0..clients)
        .map(|client| world.outcome(client).up.1 + world.outcome(client).down.1)
        .sum();
    (
        delivered,
        up.lost + down.lost,
        world.now().mono.since(crate::Timestamp::ZERO),
    )
}

#[test]
fn every_world_keeps_its_promises() {
    let first = number("TIDEGATE_SEED", 1);
    let worlds = number("TIDEGATE_SEEDS", WORLDS);
    let (mut delivered, mut lost, mut time) = (0, 0, Duration::ZERO);
    for seed in first..first + worlds {
        let world = check_world(seed);
        delivered += world.0;
        lost += world.1;
        time += world.2;
    }
    eprintln!(
        "{worlds} worlds from seed {first}: {delivered} messages, {lost} datagrams lost, {time:?} of their time"
    );
    assert!(
        worlds < 100 || (delivered > 10_000 && lost > 10_000),
        "too kind: {delivered} delivered, {lost} lost"
    );
}
