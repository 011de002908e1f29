//! Runs a fuzz target for a moment on the stable compiler. A module of each package's `tests/fuzz_smoke.rs`, which
//! lists its targets.
//!
//! A target gets random bytes and mutated seeds. The seed of the run is printed
//! and can be given again with `TIDEGATE_SEED=N`; `just fuzz-all SECONDS` gives every target so long,
//! `just fuzz TARGET SECONDS` goes deeper.
//!
//! What an input may cost is bounded too: memory in proportion to its length, and time. A number in a
//! packet that sizes an allocation or a loop shows here, whether or not anything panics.

#![expect(
    clippy::disallowed_methods,
    reason = "a fresh seed per run comes from the clock, and is printed"
)]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tidegate_proto::random::Random;

/// Inputs per target.
const RUNS: u64 = 20_000;

/// Bytes that a run may hold at once beside what its input pays for: the state machines that targets set up.
const HELD_BASE: usize = 128 * 1024;
/// Bytes held for each byte of input.
const HELD_PER_BYTE: usize = 64;
/// No input takes so long, but when the machine stands still meanwhile: which it does not do each time.
const LONGEST: Duration = Duration::from_secs(5);
const TRIES: usize = 3;

/// A module and a test for each of these targets. `$targets` is the way to their folder from the file that lists them.
macro_rules! targets {
    ($targets:literal, $($name:ident),* $(,)?) => {
        $(
            mod $name {
                include!(concat!($targets, stringify!($name), ".rs"));
            }
            #[test]
            fn $name() {
                smoke::smoke(stringify!($name), &$name::seeds(), $name::run);
            }
        )*
    };
}

/// Runs one target on its seeds, and on what is made of them.
pub(crate) fn smoke(name: &str, seeds: &[Vec<u8>], run: fn(&[u8])) {
    let mut random = random(name);
    let mut costs = Costs::new(name);
    for seed in seeds {
        costs.run(run, seed);
    }
    let began = Instant::now();
    let span = std::env::var("TIDEGATE_FUZZ_SECONDS").ok();
    let span = span.map(|text| Duration::from_secs(text.parse().expect("a number of seconds")));
    while span.map_or(costs.runs < RUNS, |span| began.elapsed() < span) {
        let mut input = match random.below(4) {
            0 => (0..random.below(1500))
                .map(|_| random.next() as u8)
                .collect(),
            _ if seeds.is_empty() => (0..random.below(64)).map(|_| random.next() as u8).collect(),
            _ => seeds[random.below(seeds.len() as u64) as usize].clone(),
        };
        for _ in 0..random.below(6) {
            mutate(&mut input, &mut random);
        }
        costs.run(run, &input);
    }
    eprintln!(
        "{name}: {} executions in {:.1} s, at most {} bytes held",
        costs.runs,
        began.elapsed().as_secs_f64(),
        costs.held_most
    );
}

/// What inputs cost.
struct Costs<'a> {
    name: &'a str,
    runs: u64,
    held_most: usize,
}

impl<'a> Costs<'a> {
    fn new(name: &'a str) -> Self {
        Self {
            name,
            runs: 0,
            held_most: 0,
        }
    }

    fn run(&mut self, run: fn(&[u8]), input: &[u8]) {
        let mut held = 0;
        let mut takes_long = || {
            let began = Instant::now();
            held = allocation_counter::measure(|| run(input)).bytes_max as usize;
            began.elapsed() >= LONGEST
        };
        let always = (0..TRIES).all(|_| takes_long());
        self.runs += 1;
        self.held_most = self.held_most.max(held);
        let name = self.name;
        assert!(
            held <= HELD_BASE + HELD_PER_BYTE * input.len(),
            "{name}: {held} bytes held for {} bytes: {input:?}",
            input.len()
        );
        assert!(!always, "{name}: more than {LONGEST:?} for {input:?}");
    }
}

fn mutate(input: &mut Vec<u8>, random: &mut Random) {
    if input.is_empty() {
        input.push(random.next() as u8);
        return;
    }
    let at = random.below(input.len() as u64) as usize;
    match random.below(5) {
        0 => input[at] ^= 1 << random.below(8),
        1 => input[at] = random.next() as u8,
        2 => input.truncate(at),
        3 => input.insert(at, random.next() as u8),
        _ => input[at] = [0, 0xff, 0x7f, 0x80][random.below(4) as usize],
    }
}

/// Another one in each run, unless it was said which.
fn random(name: &str) -> Random {
    let seed = match std::env::var("TIDEGATE_SEED") {
        Ok(text) => text.parse().expect("TIDEGATE_SEED is a number"),
        Err(_) => SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(1, |d| d.as_nanos() as u64),
    };
    eprintln!("{name}: TIDEGATE_SEED={seed}");
    Random::new(seed)
}
