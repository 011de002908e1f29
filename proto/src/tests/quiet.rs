//! What is measured of a path on which little is said is true all the same.

use std::sync::Arc;
use std::time::Duration;

use super::games::{Game, Rules};
use super::scenario::Scenario;
use crate::sim::{Conditions, Traffic};
use crate::stats::Stats;
use crate::{gaffer, rudp, sender};

const CLIENTS: usize = 3;

/// 50 ms there and back, of which 16 swing each way, and 4 % are lost: no queue anywhere.
fn weather() -> Conditions {
    Conditions {
        delay: Duration::from_millis(25),
        jitter: Duration::from_millis(8),
        loss: 0.04,
        ..Conditions::default()
    }
}

fn every_game() -> [Rules; 3] {
    let adaptive = gaffer::Params {
        sender: sender::Params::default(),
        ..gaffer::Params::default()
    };
    [
        Rules::Yojimbo(Arc::default()),
        Rules::Gaffer(Arc::new(adaptive)),
        Rules::Rudp(rudp::Params::default()),
    ]
}

/// So many reliable messages a second, without end.
fn says(rate: u64) -> Traffic {
    if rate == 0 {
        return Traffic::silent();
    }
    Traffic {
        messages: u64::MAX,
        sizes: 64..=64,
        every: Duration::from_millis(1000 / rate),
        ..Traffic::default()
    }
}

/// What both ends of every session say of it, once a second, after some time.
fn looks(scenario: &mut Scenario, warm_up: Duration) -> Vec<Stats> {
    scenario.run_for(warm_up);
    let mut looks = Vec::new();
    for _ in 0..60 {
        scenario.run_for(Duration::from_secs(1));
        for client in 0..CLIENTS {
            looks.push(scenario.client_stats(client));
            let peer = scenario.server_peers_of(client)[0];
            looks.extend(scenario.server().stats(peer));
        }
    }
    looks
}

#[test]
fn thin_traffic_over_a_lossy_path_is_no_queue() {
    for rules in every_game() {
        for (up, down) in [0, 1, 2, 5, 10]
            .into_iter()
            .flat_map(|rate| [(rate, 0), (0, rate), (rate, rate)])
        {
            let what = format!("{up} messages a second up, {down} down, {rules:?}");
            let mut game = Game::new(rules.clone(), 31);
            let mut scenario = Scenario::new(&mut game, CLIENTS, weather(), &says(up), &says(down));
            // Few messages take their time to say what share of them gets lost.
            let looks = looks(
                &mut scenario,
                Duration::from_secs(300 / (up.max(down)).max(1)),
            );
            let (sent, back) = scenario.network();
            let lost = (sent.lost + back.lost) as f64 / (sent.offered + back.offered) as f64;
            assert!(
                (0.02..0.06).contains(&lost),
                "a kind network lost {lost}: {what}"
            );
            for look in &looks {
                assert!(
                    !look.in_bad_mode && look.mode_to_bad == 0,
                    "{what}: {look:?}"
                );
            }
            let known: Vec<&Stats> = looks.iter().filter(|look| !look.rtt.is_zero()).collect();
            // Nobody acknowledges what an idle peer or rudp sends: then nothing is said of the path.
            let acknowledged = up + down > 0 && !matches!(rules, Rules::Rudp(_));
            assert_eq!(acknowledged, !known.is_empty(), "{what}");
            for look in &known {
                let path = look.rtt.as_millis();
                // The quickest that this weather has is 34.
                assert!((34..95).contains(&path), "{path} ms of 50: {what}");
            }
            let loss =
                known.iter().map(|look| f64::from(look.loss)).sum::<f64>() / known.len() as f64;
            assert!(
                known.is_empty() || (0.4 * lost..2.0 * lost).contains(&loss),
                "{loss} of {lost}: {what}"
            );
        }
    }
}
