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
