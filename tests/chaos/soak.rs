//! Hours of bad networks, one after the other, on one process: does anything grow, is anything lost?

use std::time::Duration;

use tidegate_proto::sim::Conditions;

use crate::Scale;
use crate::backend::{Backend, Manner};
use crate::gate::{Gate, Setup};
use crate::players::Players;
use crate::support::{PATIENCE, wait_until};

/// Eighteen bad networks, each way.
fn conditions() -> Vec<(&'static str, Conditions)> {
    let ms = Duration::from_millis;
    let lossy = |loss| Conditions { loss, ..far(40) };
    let mut all = vec![
        ("near", far(1)),
        ("far", far(150)),
        ("1 % loss", lossy(0.01)),
        ("5 % loss", lossy(0.05)),
        ("10 % loss", lossy(0.1)),
        ("20 % loss", lossy(0.2)),
        ("30 % loss", lossy(0.3)),
    ];
    all.extend([
        (
            "short outages",
            Conditions {
                bursts: Some((ms(60), ms(1_140))),
                ..far(30)
            },
        ),
        (
            "long outages",
            Conditions {
                bursts: Some((ms(700), ms(5_000))),
                ..far(30)
            },
        ),
        (
            "jitter",
            Conditions {
                jitter: ms(40),
                ..far(60)
            },
        ),
        (
            "4 % reordered",
            Conditions {
                reorder: (0.04, ms(30)),
                ..far(50)
            },
        ),
        (
            "20 % reordered by much",
            Conditions {
                reorder: (0.2, ms(300)),
                ..far(50)
            },
        ),
        (
            "25 % twice",
            Conditions {
                duplicate: 0.25,
                ..far(40)
            },
        ),
        (
            "5 % flipped bits",
            Conditions {
                corrupt: 0.05,
                ..far(40)
            },
        ),
        (
            "200 kbit/s",
            Conditions {
                rate: 200_000,
                ..far(30)
            },
        ),
        (
            "100 kbit/s and a short queue",
            Conditions {
                rate: 100_000,
                queue: 4_000,
                ..far(30)
            },
        ),
        (
            "loss, twice and reordered",
            Conditions {
                duplicate: 0.05,
                reorder: (0.05, ms(60)),
                ..lossy(0.1)
            },
        ),
        (
            "all of it",
            Conditions {
                jitter: ms(20),
                duplicate: 0.1,
                reorder: (0.1, ms(200)),
                corrupt: 0.02,
                rate: 500_000,
                ..lossy(0.15)
            },
        ),
    ]);
    all
}

fn far(millis: u64) -> Conditions {
    Conditions {
        delay: Duration::from_millis(millis),
        ..Conditions::default()
    }
}

/// All who came are gone, and what was said was heard, once.
fn check_books(gate: &Gate, backend: &Backend, messages: u64, sessions: u64) {
    // Published four times a second.
    wait_until("the last counters", PATIENCE, || {
        (gate.metric("tidegate_peers", &[]) == 0).then_some(())
    });
    let forwarded = |direction| gate.metric("tidegate_messages_forwarded_total", &[direction]);
    let books = [
        (
            "sessions begun",
            gate.metric("tidegate_peer_sessions_total", &[]),
            sessions,
        ),
        (
            "and ended",
            gate.metric("tidegate_peer_disconnects_total", &[]),
            sessions,
        ),
        ("messages to the backend", forwarded("to_backend"), messages),
        ("heard there", backend.frames(), messages),
        ("messages to the players", forwarded("to_peer"), messages),
        (
            "messages dropped",
            gate.metric("tidegate_messages_dropped_total", &[]),
            0,
        ),
        (
            "books astray",
            gate.metric("tidegate_invariant_violations_total", &[]),
            0,
        ),
        (
            "streams left",
            gate.metric("tidegate_backend_connections", &[]),
            0,
        ),
    ];
    for (what, counted, expected) in books {
        assert_eq!(counted, expected, "{what}");
    }
}

/// `TIDEGATE_SOAK_SECONDS` is how long each of the conditions lasts. Players come and go with each.
pub fn soak(scale: Scale) {
    let span = std::env::var("TIDEGATE_SOAK_SECONDS").map(|text| text.parse().unwrap());
    let span = Duration::from_secs(span.unwrap_or(scale.pick(3, 60)));
    let gate = Gate::start("soak", &Setup::default());
    let backend = Backend::start(&gate.backend(), Manner::Echo);
    let count = scale.pick(20, 100);
    let (mut messages, mut lost, mut offered) = (0, 0, 0);
    let mut memory = Vec::new();
    for (name, conditions) in conditions() {
        let mut players = Players::new();
        for _ in 0..count {
            players.join(
                gate.dial(Duration::from_secs(20)),
                Some(Duration::from_micros(33_333)),
            );
        }
        players.play_until_seated();
        players.set_conditions(conditions);
        players.play(span, |_| false);
        players.set_conditions(Conditions::default());
        players.settle();
        messages += players
            .all()
            .iter()
            .map(|player| u64::from(player.heard))
            .sum::<u64>();
        let (of_lost, of_offered) = players.lost();
        (lost, offered) = (lost + of_lost, offered + of_offered);
        players.leave();
        let (resident, _) = gate.usage();
        memory.push(resident);
        println!(
            "  {name}: {messages} messages so far, {} KiB resident",
            resident / 1024
        );
    }
    wait_until("every session ends", PATIENCE, || {
        (gate.said(&["session_end"]) >= memory.len() * count).then_some(())
    });
    assert_eq!(
        gate.said(&["session_end", "\"peer_disconnect\""]),
        memory.len() * count
    );
    assert_eq!(gate.said(&["\"level\":\"ERROR\""]), 0);
    check_books(&gate, &backend, messages, (memory.len() * count) as u64);
    // The first conditions fill caches and tables; from the sixth on nothing may grow.
    let (early, late) = (memory[5], memory[17]);
    println!(
        "  {count} players, {} conditions of {span:?}: {messages} messages there and back, {lost} of \
         {offered} datagrams lost; {} KiB resident after six of them, {} KiB at the end",
        memory.len(),
        early / 1024,
        late / 1024,
    );
    assert!(
        late <= early + early / 20 + (1 << 20),
        "it grows: {memory:?}"
    );
    gate.stop();
}
