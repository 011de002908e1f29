//! Numbers that wrap: which of two 16-bit sequences is newer, and which full number one stands for.
//!
//! Rule: reliable 1.0, "Sequence numbers" (docs/wire/reliable.md, section 3).

/// Whether `a` is newer than `b`: at most half the circle ahead of it.
pub const fn is_newer(a: u16, b: u16) -> bool {
    let ahead = a.wrapping_sub(b);
    // At exactly half the circle the larger number is the newer one.
    ahead != 0 && (ahead < 32768 || (ahead == 32768 && a > b))
}

/// The full number that `wire`, its low 16 bits, stands for: the one nearest to `reference`.
///
/// Numbers below zero do not exist, so near the start the nearest number from zero up is meant.
pub const fn nearest(reference: u64, wire: u16) -> u64 {
    let ahead = wire.wrapping_sub(reference as u16);
    if ahead < 32768 {
        return reference + ahead as u64;
    }
    let behind = 65536 - ahead as u64;
    if reference >= behind {
        reference - behind
    } else {
        reference + ahead as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_wraps_at_half_the_circle() {
        for (a, b, newer) in [
            (1, 0, true),
            (0, 1, false),
            (0, 0, false),
            (0, 65535, true),
            (65535, 0, false),
            (32768, 0, true),
            (0, 32768, false),
            (32769, 0, false),
        ] {
            assert_eq!(is_newer(a, b), newer, "{a} newer than {b}");
        }
    }

    #[test]
    fn the_nearest_full_number_is_found() {
        for (reference, wire, full) in [
            (0, 5, 5),
            (0, 65535, 65535),
            (65535, 0, 65536),
            (65536, 65535, 65535),
            (1 << 32, 65535, (1 << 32) - 1),
            (100_000, (99_000u32 & 0xffff) as u16, 99_000),
        ] {
            assert_eq!(nearest(reference, wire), full, "{wire} near {reference}");
        }
    }
}
