//! Many small worlds, each drawn from its seed: what must hold in all of them. One kind has the default options and few
//! others; the other kind is `odd`.
//!
//! `TIDEGATE_SEEDS=N` runs N worlds of each kind instead of 500, `TIDEGATE_SEED=S` begins at seed S (and with
//! `TIDEGATE_SEEDS=1` replays one). Every failure names its seed; the ones that found something are
//! kept in `kept_seeds.txt` and replayed by every run.
//!
//! What a protocol cannot promise is left out of its worlds:
//! - gaffer and rudp have no integrity: no flipped bits, and nobody uses a player's address;
//! - rudp has no sessions on its wire: its server is not replaced and ends no session of itself,
//!   because when the goodbyes are lost nothing tells a peer that it now talks to another session;
//! - rudp forgets messages that were never asked for: it keeps them longer than any storm here;
//! - a path that loses one in so many datagrams for ever carries no packet of as many.

mod odd;
mod plan;
mod run;
mod verdict;

use std::time::Duration;

use self::run::Run;

/// Worlds in a plain `cargo test`.
const WORLDS: u64 = 500;

/// Seeds that found something, one a line, with what it was.
const KEPT: &str = include_str!("../kept_seeds.txt");

/// What worlds were like.
#[derive(Debug, Default)]
struct Figures {
    worlds: u64,
    delivered: u64,
    lost: u64,
    faults: u64,
    shots: u64,
    /// Packets that were not taken.
    refused: u64,
    sessions: u64,
    time: Duration,
    session_time: Duration,
}

/// Says which seed it was when a world panics.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "seed {} failed: TIDEGATE_SEED={} TIDEGATE_SEEDS=1",
                self.0, self.0
            );
        }
    }
}

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

impl Figures {
    fn add(&mut self, other: &Self) {
        self.worlds += other.worlds;
        self.delivered += other.delivered;
        self.lost += other.lost;
        self.faults += other.faults;
        self.shots += other.shots;
        self.refused += other.refused;
        self.sessions += other.sessions;
        self.time += other.time;
        self.session_time += other.session_time;
    }
}

/// What is promised of one world; the oracles of [`crate::sim::World`] watch the rest.
fn check(seed: u64, begin: impl FnOnce(u64) -> Run) -> Figures {
    let _named = Named(seed);
    let mut run = begin(seed);
    if number("TIDEGATE_SEEDS", WORLDS) == 1 {
        eprintln!("{:#?}", run.plan);
    }
    run.storm();
    run.calm();
    run.judge(seed);
    run.figures()
}

#[test]
fn every_world_keeps_its_promises() {
    check_many(Run::new);
}

#[test]
fn every_world_of_odd_options_keeps_its_promises() {
    check_many(Run::odd);
}

fn check_many(begin: fn(u64) -> Run) {
    let first = number("TIDEGATE_SEED", 1);
    let worlds = number("TIDEGATE_SEEDS", WORLDS);
    #[expect(
        clippy::disallowed_methods,
        reason = "how fast worlds go by, for whoever runs many; nothing depends on it"
    )]
    let began = std::time::Instant::now();
    let (mut all, mut failed) = (Figures::default(), Vec::new());
    for seed in first..first + worlds {
        // One that fails says why and does not keep the others from being seen.
        match std::panic::catch_unwind(|| check(seed, begin)) {
            Ok(figures) => all.add(&figures),
            Err(_) => failed.push(seed),
        }
    }
    // Of a processor that others use as well.
    let spent = processor_time().unwrap_or(began.elapsed()).as_secs_f64();
    eprintln!("from seed {first}: {all:?}");
    eprintln!(
        "{:.0} worlds in a core-second, {:.0} session-hours in a core-hour",
        all.worlds as f64 / spent,
        all.session_time.as_secs_f64() / spent
    );
    assert!(failed.is_empty(), "failed: {failed:?}");
    assert!(
        worlds < 100 || (all.delivered > 10_000 && all.lost > 10_000 && all.shots > 1_000),
        "too kind: {all:?}"
    );
}

/// Who may hold nothing now and much in a moment loses nothing by it.
#[test]
fn worlds_short_of_memory_keep_their_promises() {
    let first = number("TIDEGATE_SEED", 1);
    let mut all = Figures::default();
    for seed in first..first + number("TIDEGATE_SEEDS", WORLDS / 5) {
        all.add(&check(seed, Run::short_of_memory));
    }
    assert!(
        all.worlds < 100 || all.refused > 1_000,
        "too much memory: {all:?}"
    );
}

/// What this thread has had of a processor, where the system says so.
fn processor_time() -> Option<Duration> {
    let all = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanos = all.split_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}

#[test]
fn kept_seeds_stay_good() {
    let lines = KEPT.lines().filter(|line| !line.starts_with('#'));
    for line in lines {
        let (begin, line): (fn(u64) -> Run, _) = match line.strip_prefix("odd ") {
            Some(line) => (Run::odd, line),
            None => (Run::new, line),
        };
        let seed = line.split_whitespace().next().expect("a seed first");
        let seed = seed.parse().unwrap_or_else(|e| panic!("{line:?}: {e}"));
        check(seed, begin);
    }
}
