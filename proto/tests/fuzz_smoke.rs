//! Every fuzz target, for a moment, on the stable compiler: `cargo test --test fuzz_smoke`.
//!
//! Each body in `fuzz/targets/` gets random bytes and mutated seeds. The seed of the run is printed
//! and can be given again with `TIDEGATE_SEED=N`; `just fuzz TARGET SECONDS` goes deeper.

#![expect(
    clippy::disallowed_methods,
    reason = "a fresh seed per run comes from the clock, and is printed"
)]
#![expect(
    unreachable_pub,
    reason = "the bodies are shared with fuzz/bins, where they are public"
)]

use std::time::{SystemTime, UNIX_EPOCH};

/// Inputs per target.
const RUNS: u64 = 20_000;

/// One line per target: its module by path, and its name.
macro_rules! targets {
    ($($name:ident),* $(,)?) => {
        $(
            mod $name {
                include!(concat!("../../fuzz/targets/", stringify!($name), ".rs"));
            }
            #[test]
            fn $name() {
                smoke(stringify!($name), &$name::seeds(), $name::run);
            }
        )*
    };
}

targets!(
    bit_reader,
    channel_receiver,
    connection_packet,
    gaffer_datagram,
    gaffer_session,
    netcode_challenge,
    netcode_client,
    netcode_packet,
    netcode_request,
    netcode_server,
    reliable_receiver,
    rudp_datagram,
    rudp_session,
    sequence_window,
);

fn smoke(name: &str, seeds: &[Vec<u8>], run: fn(&[u8])) {
    let mut random = Random::for_run(name);
    for seed in seeds {
        run(seed);
    }
    for _ in 0..RUNS {
        let mut input = match random.below(4) {
            0 => (0..random.below(1500))
                .map(|_| random.next() as u8)
                .collect(),
            _ if seeds.is_empty() => (0..random.below(64)).map(|_| random.next() as u8).collect(),
            _ => seeds[random.below(seeds.len())].clone(),
        };
        for _ in 0..random.below(6) {
            mutate(&mut input, &mut random);
        }
        run(&input);
    }
}

fn mutate(input: &mut Vec<u8>, random: &mut Random) {
    if input.is_empty() {
        input.push(random.next() as u8);
        return;
    }
    let at = random.below(input.len());
    match random.below(5) {
        0 => input[at] ^= 1 << random.below(8),
        1 => input[at] = random.next() as u8,
        2 => input.truncate(at),
        3 => input.insert(at, random.next() as u8),
        _ => input[at] = [0, 0xff, 0x7f, 0x80][random.below(4)],
    }
}

/// SplitMix64: small, seeded, good enough to shake a parser.
struct Random(u64);

impl Random {
    fn for_run(name: &str) -> Self {
        let seed = match std::env::var("TIDEGATE_SEED") {
            Ok(text) => text.parse().expect("TIDEGATE_SEED is a number"),
            Err(_) => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(1, |d| d.as_nanos() as u64),
        };
        eprintln!("{name}: TIDEGATE_SEED={seed}");
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}
