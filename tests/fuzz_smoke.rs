//! The daemon's fuzz targets, for a moment, on the stable compiler: `cargo test --test fuzz_smoke`.

#![expect(
    unreachable_pub,
    reason = "the bodies are shared with fuzz/bins, where they are public"
)]

#[macro_use]
#[path = "../fuzz/smoke.rs"]
mod smoke;

targets!(
    "../fuzz/targets/",
    capture_file,
    framing,
    replay,
    token_history,
);

/// Calls of a seed that come to something else than recorded, or rules that are refused, would be all that is fuzzed.
#[test]
fn the_calls_of_each_seed_of_a_replay_are_repeated_to_the_last() {
    for seed in replay::seeds() {
        let report = replay::play(&seed).expect("sessions to replay");
        assert_eq!(report.difference, None);
        assert_eq!(report.calls, 11);
    }
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
