//! What a game says at once now and then: where everybody is, a map.

use std::time::Duration;

use super::games::{Game, Rules};
use super::scenario::{Scenario, path};
use crate::sender::{BulkRates, Params};
use crate::sim::{Conditions, Traffic};

/// How long thirty messages of `size` bytes took there and back, one a second, and the datagrams that a full queue dropped.
fn round_trips(size: usize, params: &Params, path: Conditions) -> (Vec<Duration>, u64) {
    round_trips_of(1, size, params, path)
}

fn round_trips_of(
    seed: u64,
    size: usize,
    params: &Params,
    path: Conditions,
) -> (Vec<Duration>, u64) {
    let says = Traffic {
        messages: u64::MAX,
        sizes: size..=size,
        every: Duration::from_secs(1),
        ..Traffic::default()
    };
    let mut game = Game::new(Rules::yojimbo(params), seed);
    let mut scenario = Scenario::echoed(&mut game, path, &says);
    scenario.run_for(Duration::from_secs(30));
    let (up, down) = scenario.network();
    (scenario.round_trips(0), up.overflowed + down.overflowed)
}

/// A path of 50 ms.
fn line(mbits: u64, queue_kib: usize) -> Conditions {
    Conditions {
        rate: mbits * 1_000_000,
        queue: queue_kib << 10,
        ..path(25, 0.0)
    }
}

/// The rate of bulk never learned from volleys, which are over before it can: of 30,000 bytes, 18,000 waited for a
/// rate that nobody had measured, each time, and took 135 ms.
#[test]
fn what_went_through_before_leaves_at_once() {
    for (size, mbits, most) in [
        (14_000, 100, 54),
        (30_000, 100, 58),
        (60_000, 100, 64),
        (30_000, 20, 80),
    ] {
        let (took, _) = round_trips(size, &Params::default(), line(mbits, 64));
        let most = Duration::from_millis(most);
        assert!(
            took[6..].iter().all(|took| *took <= most),
            "{size} at {mbits}: {took:?}"
        );
    }
}

/// What is said first waited for a rate that was half a megabit until 50 ms of it were acknowledged: 30,000 bytes took
/// 384 ms. Now what leaves at once says what the path carries at least.
#[test]
fn the_first_shows_what_the_path_carries() {
    for (size, mbits, most) in [
        (14_000, 100, 120),
        (30_000, 100, 220),
        (100_000, 100, 440),
        (30_000, 20, 230),
    ] {
        let (took, _) = round_trips(size, &Params::default(), line(mbits, 64));
        let most = Duration::from_millis(most);
        assert!(took[0] <= most, "{size} at {mbits}: {:?}", took[0]);
    }
}

/// A queue of 16 KiB does not hold what may leave at once. That is found out once, and costs once.
#[test]
fn a_short_queue_overflows_once() {
    let cautious = Params {
        bulk: BulkRates {
            window_max: BulkRates::default().window,
            ..BulkRates::default()
        },
        ..Params::default()
    };
    for mbits in [20, 100] {
        let short = line(mbits, 16);
        let (before, usual) = round_trips(60_000, &cautious, short);
        let (took, dropped) = round_trips(60_000, &Params::default(), short);
        assert!(
            (usual + 1..usual + 60).contains(&dropped),
            "{mbits} Mbit/s: {dropped} dropped, else {usual}"
        );
        let longest = |took: &[Duration]| took.iter().max().copied().unwrap_or_default();
        assert!(
            longest(&took[8..]) <= longest(&before[8..]),
            "{took:?}, else {before:?}"
        );
        assert!(
            longest(&took[1..]) <= 2 * longest(&before[1..]),
            "{took:?}, else {before:?}"
        );
    }
}

/// Losses now and then are no sign that too much left at once, nor that the path carries no more than what is repaired in a
/// round trip. They were taken for both, so that messages left in parts: with 5 % loss half of them took 250 ms.
#[test]
fn losses_now_and_then_keep_no_volley_back() {
    for (loss, half, most) in [(0.01, 110, 190), (0.05, 190, 270)] {
        let path = Conditions {
            loss,
            ..line(100, 256)
        };
        let mut took = Vec::new();
        for seed in 1..5 {
            let (trips, _) = round_trips_of(seed, 45_000, &Params::default(), path);
            took.extend_from_slice(&trips[6..]);
        }
        took.sort_unstable();
        let share = |of_ten: usize| took[took.len() * of_ten / 10].as_millis();
        let what = format!("{loss} lost: {} and {} ms", share(5), share(9));
        assert!(share(5) <= half && share(9) <= most, "{what}");
        assert!(share(9) > 100, "nothing was lost: {what}");
    }
}

/// Twenty who speak in step fill the path for a quarter of each second, and make each other lose. Who takes that for losses
/// now and then, and says as much at once again, must not make it worse for all.
#[test]
fn a_crowd_in_step_comes_through() {
    let says = Traffic {
        messages: u64::MAX,
        sizes: 30_000..=30_000,
        every: Duration::from_secs(1),
        ..Traffic::default()
    };
    let answers = Traffic {
        echoes: true,
        ..says.clone()
    };
    let mut game = Game::new(Rules::yojimbo(&Params::default()), 3);
    let mut scenario = Scenario::new(&mut game, 20, line(20, 64), &says, &answers);
    scenario.run_for(Duration::from_secs(40));
    let (up, down) = scenario.network();
    let dropped = (up.overflowed + down.overflowed) as f64 / (up.offered + down.offered) as f64;
    let trips = (0..20).flat_map(|client| scenario.round_trips(client).split_off(6));
    let mut took: Vec<_> = trips.collect();
    took.sort_unstable();
    let late = took[took.len() * 9 / 10];
    let what = format!("{dropped:.3} dropped, 90 % within {late:?}");
    assert!(dropped > 0.05, "all has room: {what}");
    assert!(
        dropped < 0.14 && late < Duration::from_millis(700),
        "{what}"
    );
    assert!(took.len() > 20 * 30, "{} came back", took.len());
}

/// Who has nothing to answer is silent, and whose acknowledgements reach no further than the standard's is told no more
/// than they reach between two of his. The silence was taken for how seldom he answers: 60,000 bytes took 175 ms, or after
/// five seconds 250.
#[test]
fn a_silence_says_nothing_of_what_is_answered() {
    for every in [1, 5].map(Duration::from_secs) {
        for (size, burst) in [(60_000, 1), (1_000, 60)] {
            let says = Traffic {
                messages: 12 * burst,
                sizes: size..=size,
                burst,
                every,
                ..Traffic::default()
            };
            let mut game = Game::new(Rules::yojimbo(&Params::default()), 1);
            let up = line(20, 256);
            let mut scenario = Scenario::new(&mut game, 1, up, &says, &Traffic::silent());
            scenario.deliver_all_within(Duration::from_secs(90));
            let took = scenario.latencies_up(0).split_off(2 * burst as usize);
            let longest = took.iter().max().copied().unwrap_or_default();
            let what = format!("{burst} x {size} each {every:?}: {longest:?}");
            assert!(longest < Duration::from_millis(60), "{what}");
        }
    }
}
