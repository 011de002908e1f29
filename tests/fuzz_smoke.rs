//! The daemon's fuzz targets, for a moment, on the stable compiler. The protocols' targets run in
//! `proto/tests/fuzz_smoke.rs`; `just fuzz TARGET SECONDS` goes deeper.

#![expect(
    unreachable_pub,
    reason = "the bodies are shared with fuzz/bins, where they are public"
)]

use proptest::prelude::*;

mod framing {
    include!("../fuzz/targets/framing.rs");
}

mod capture_file {
    include!("../fuzz/targets/capture_file.rs");
}

mod replay {
    include!("../fuzz/targets/replay.rs");
}

/// The longest wait that is believed, again and again: three bytes of a recording are half an hour of
/// a session's clocks.
#[test]
fn a_replay_does_not_wait_as_long_as_it_is_told() {
    for protocol in 0..3 {
        let mut input = vec![protocol, 6, 3, 0];
        for _ in 0..5_000 {
            input.extend([4, 31, 0]);
        }
        replay::run(&input);
    }
}

mod token_history {
    include!("../fuzz/targets/token_history.rs");
}

/// A seed with some bytes changed, and noise.
type Bytes = (Vec<u8>, Vec<u8>);

fn bytes(seeds: Vec<Vec<u8>>) -> impl Strategy<Value = Bytes> {
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6);
    let noise = prop::collection::vec(any::<u8>(), 0..200);
    (prop::sample::select(seeds), changes, noise).prop_map(|(mut seed, changes, noise)| {
        for (at, byte) in changes {
            let at = at.index(seed.len());
            seed[at] = byte;
        }
        (seed, noise)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn framing_takes_any_bytes((seed, noise) in bytes(framing::seeds())) {
        framing::run(&seed);
        framing::run(&noise);
    }

    #[test]
    fn a_capture_file_may_hold_any_bytes((seed, noise) in bytes(capture_file::seeds())) {
        capture_file::run(&seed);
        capture_file::run(&noise);
    }

    #[test]
    fn a_replay_takes_any_calls((seed, noise) in bytes(replay::seeds())) {
        replay::run(&seed);
        replay::run(&noise);
    }

    #[test]
    fn a_token_history_may_hold_any_bytes((seed, noise) in bytes(token_history::seeds())) {
        token_history::run(&seed);
        token_history::run(&noise);
    }
}
