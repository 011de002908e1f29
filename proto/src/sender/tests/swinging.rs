//! A path whose delay swings so much that a slow start meets what looks like a queue.

use super::*;

/// The share of 10 Mbit/s, over 50 ms that swing by 15 ms each way, that a backlog without end has in its second
/// ten seconds.
fn carried(seed: u64) -> f64 {
    let link = Conditions {
        delay: Duration::from_millis(25),
        jitter: Duration::from_millis(15),
        rate: 10_000_000,
        queue: 125_000,
        ..Conditions::default()
    };
    let mut pair = Pair::new(Params::default(), link, seed);
    let mut run = |millis: u64| {
        let before = pair.got[1].len();
        for _ in 0..millis {
            while pair.peers[0].sender.push(pair.now, 0, &[7; 1_000]).is_ok() {}
            pair.run_for(1);
        }
        pair.got[1].len() - before
    };
    run(10_000);
    run(10_000) as f64 * 8_000.0 / 10.0 / link.rate as f64
}

/// At a low rate, packets that jitter holds up look like a queue, and who cuts his rate for that as fast as it grows
/// stays there: of these twenty, four had a tenth of the path. Some still take seconds to find it.
#[test]
fn jitter_holds_nobody_at_a_low_rate() {
    for seed in 0..20 {
        let carried = carried(2 * seed);
        assert!(carried > 0.3, "seed {seed}: {carried:.2} of the path");
    }
}
