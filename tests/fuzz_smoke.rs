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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn framing_takes_any_bytes(
        seed in prop::sample::select(framing::seeds()),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        noise in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut input = seed;
        for (at, byte) in changes {
            let at = at.index(input.len());
            input[at] = byte;
        }
        framing::run(&input);
        framing::run(&noise);
    }

    #[test]
    fn a_capture_file_may_hold_any_bytes(
        seed in prop::sample::select(capture_file::seeds()),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        noise in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut input = seed;
        for (at, byte) in changes {
            let at = at.index(input.len());
            input[at] = byte;
        }
        capture_file::run(&input);
        capture_file::run(&noise);
    }
}
