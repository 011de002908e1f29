//! The upper bounds of every distribution; seconds unless said.

/// The longest of the lists below.
pub const MAX: usize = 16;

/// The first three tell the machine, the house and the town apart. 0.25 is where the article's bad mode begins.
pub const RTT: &[f64] = &[
    0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.35, 0.5, 1.0, 2.0,
];
pub const JITTER: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3];
/// A ratio, 0 to 1.
pub const LOSS: &[f64] = &[0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5];
pub const SESSION: &[f64] = &[
    10.0, 60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0, 14400.0, 28800.0,
];
pub const HANDSHAKE: &[f64] = &[0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0];
pub const FORWARD: &[f64] = &[
    0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
];
pub const CONNECT: &[f64] = &[0.0002, 0.0005, 0.001, 0.005, 0.02, 0.1, 0.5, 2.0];
pub const TICK_LAG: &[f64] = &[0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.2];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_grow_and_fit() {
        for bounds in [
            RTT, JITTER, LOSS, SESSION, HANDSHAKE, FORWARD, CONNECT, TICK_LAG,
        ] {
            assert!(bounds.is_sorted() && bounds.len() <= MAX);
        }
    }
}
