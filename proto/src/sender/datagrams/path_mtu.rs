//! How large a datagram the path and the peer take, found out by trying: datagram packetization layer
//! path MTU discovery (RFC 8899). Sizes are payloads of packets, in bytes, without all that is below.
//!
//! ```text
//!   base ──1452 acknowledged──▶ 1452 ──largest acknowledged──▶ largest      (bytes of a datagram)
//!     │ three lost                │ large packets lost in a row, a small one arrives
//!     ▼                           ▼
//!   1412, then 1372             base, and the search begins again
//! ```
//!
//! A probe is a packet of padding, so its loss costs nobody anything and says nothing about the path's
//! rate. It leaves only while much waits to be sent: a session that sends little gains nothing by it.

use std::time::Duration;

use crate::time::Timestamp;

/// The search, and what it found.
#[derive(Clone, Debug)]
pub(super) struct PathMtu {
    /// Ascending; the first needs no proof.
    sizes: Vec<u16>,
    /// Index of the largest size that was acknowledged.
    taken: usize,
    /// Index of the smallest size that was given up, or one more than the last.
    refused: usize,
    /// The probe under way: packet and time.
    probe: Option<(u64, Timestamp)>,
    /// Probes of the present size that were lost.
    lost_probes: u8,
    /// No probe before.
    not_before: Timestamp,
    /// Newest large packet that was acknowledged.
    newest_acked: u64,
    /// How many were since the search began.
    acked: u32,
    /// Large packets after that, lost in a row.
    lost: u8,
    /// Searches in a row that ended in a black hole before much went through.
    black_holes: u8,
}

impl PathMtu {
    /// Payloads up to `base` need no proof; `max` is the largest to try, and `overhead` what a datagram
    /// adds to a payload at most. `None` when there is nothing to look for.
    pub(super) fn new(base: u16, max: u16, overhead: u16) -> Option<Self> {
        let steps = DATAGRAMS.map(|bytes| bytes - overhead);
        let mut sizes = vec![base];
        sizes.extend(steps.into_iter().filter(|&size| base < size && size < max));
        sizes.extend((base < max).then_some(max));
        (sizes.len() > 1).then(|| Self::begin(sizes))
    }

    /// A search through these sizes that knows nothing.
    fn begin(sizes: Vec<u16>) -> Self {
        Self {
            refused: sizes.len(),
            sizes,
            taken: 0,
            probe: None,
            lost_probes: 0,
            not_before: Timestamp::ZERO,
            newest_acked: 0,
            acked: 0,
            lost: 0,
            black_holes: 0,
        }
    }

    /// The largest payload that is known to arrive in one datagram, of those up to `limit`.
    pub(super) fn payload(&self, limit: u16) -> u16 {
        let taken = &self.sizes[..=self.taken];
        let fitting = taken.iter().rev().find(|&&size| size <= limit);
        *fitting.unwrap_or(&self.sizes[0])
    }

    /// Something larger than the base arrived, so the peer takes more than the wire's own.
    pub(super) fn has_proof(&self) -> bool {
        self.taken > 0
    }

    /// The size to try now, if any, and if it is none above `limit`. A probe that was not acknowledged
    /// within `patience` is lost.
    pub(super) fn due(&mut self, now: Timestamp, patience: Duration, limit: u16) -> Option<u16> {
        if let Some((_, at)) = self.probe {
            if now.since(at) < patience {
                return None;
            }
            self.on_probe_lost(now);
        }
        if now < self.not_before {
            return None;
        }
        if self.candidate().is_none() {
            // The search ended a while ago, and routes change.
            self.refused = self.sizes.len();
        }
        let size = self.sizes[self.candidate()?];
        (size <= limit).then_some(size)
    }

    /// The next size: what most of the Internet takes, then more, or less, step by step.
    fn candidate(&self) -> Option<usize> {
        let last = self.sizes.len() - 1;
        let next = if self.refused > last.min(ETHERNET) {
            (self.taken + 1).max(last.min(ETHERNET))
        } else {
            self.refused - 1
        };
        (self.taken < next && next < self.refused).then_some(next)
    }

    /// What [`PathMtu::due`] asked for left under this number.
    pub(super) fn on_probe_sent(&mut self, now: Timestamp, number: u64) {
        self.probe = Some((number, now));
    }

    fn on_probe_lost(&mut self, now: Timestamp) {
        self.probe = None;
        self.lost_probes += 1;
        if self.lost_probes >= PROBES {
            self.lost_probes = 0;
            self.refused = self.candidate().unwrap_or(self.refused);
            self.rest_at_end(now);
        }
    }

    fn rest_at_end(&mut self, now: Timestamp) {
        if self.candidate().is_none() {
            self.not_before = now + AGAIN_AFTER;
        }
    }

    /// Packet `number` was acknowledged; whether it was the probe.
    pub(super) fn on_probe_acked(&mut self, now: Timestamp, number: u64) -> bool {
        if self.probe.is_none_or(|(probe, _)| probe != number) {
            return false;
        }
        self.probe = None;
        self.lost_probes = 0;
        self.taken = self.candidate().unwrap_or(self.taken);
        self.rest_at_end(now);
        true
    }

    /// A packet that is larger than the base, and one datagram, was acknowledged.
    pub(super) fn on_large_acked(&mut self, number: u64) {
        self.newest_acked = self.newest_acked.max(number);
        self.acked = self.acked.saturating_add(1);
        self.lost = 0;
        if self.acked >= MUCH {
            self.black_holes = 0;
        }
    }

    /// Such a packet was lost. Where newer ones arrive, that says nothing about sizes.
    pub(super) fn on_large_lost(&mut self, now: Timestamp, number: u64) {
        if number < self.newest_acked || self.taken == 0 {
            return;
        }
        self.lost += 1;
        if self.lost >= LOST_IN_A_ROW {
            self.on_black_hole(now);
        }
    }

    /// Large packets do not arrive any more, or nothing did for a while: the search tells which. Where
    /// it finds again and again what then does not hold, it waits longer each time.
    fn on_black_hole(&mut self, now: Timestamp) {
        let pause = match self.black_holes {
            0 => Duration::ZERO,
            n => Duration::from_secs(1 << n.min(9)),
        };
        *self = Self {
            not_before: now + pause,
            newest_acked: self.newest_acked,
            black_holes: self.black_holes.saturating_add(1),
            ..Self::begin(std::mem::take(&mut self.sizes))
        };
    }
}

/// Bytes of datagrams that are tried below the largest, ascending: what tunnels and overlays leave of
/// 1420, 1450 or 1460 bytes, and what IPv6 and UDP leave of Ethernet's 1500.
const DATAGRAMS: [u16; 3] = [1372, 1412, 1452];

/// Index of the last of these among the sizes.
const ETHERNET: usize = 3;

/// Probes of one size before it is given up (RFC 8899, section 5.1.2: MAX_PROBES).
pub(super) const PROBES: u8 = 3;

/// A search that ended is begun again after this long (the same, section 5.1.1: PMTU_RAISE_TIMER).
pub(super) const AGAIN_AFTER: Duration = Duration::from_secs(600);

/// Large packets in a row, none of them nor any after them acknowledged, that are a black hole.
const LOST_IN_A_ROW: u8 = 4;

/// Large packets that prove a size for good.
const MUCH: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_millis(100);
    const MAX: u16 = 8192;
    const OVERHEAD: u16 = 34;

    /// A path that takes payloads up to `limit`.
    struct Path {
        limit: u16,
        now: Timestamp,
        number: u64,
        probes: Vec<u16>,
    }

    impl Path {
        fn new(limit: u16) -> Self {
            Self {
                limit,
                now: Timestamp::ZERO,
                number: 0,
                probes: Vec::new(),
            }
        }

        /// Lets the search run for so long.
        fn search(&mut self, mtu: &mut PathMtu, span: Duration) {
            let end = self.now + span;
            while self.now < end {
                if let Some(size) = mtu.due(self.now, PATIENCE, u16::MAX) {
                    self.number += 1;
                    self.probes.push(size);
                    mtu.on_probe_sent(self.now, self.number);
                    if size <= self.limit {
                        assert!(mtu.on_probe_acked(self.now, self.number));
                    }
                }
                self.now += Duration::from_millis(10);
            }
        }

        /// Sends large packets, if that is what the search found.
        fn send(&mut self, mtu: &mut PathMtu, count: u64) {
            for _ in 0..count {
                self.number += 1;
                if mtu.payload(u16::MAX) <= 1152 {
                    return;
                }
                if mtu.payload(u16::MAX) <= self.limit {
                    mtu.on_large_acked(self.number);
                } else {
                    mtu.on_large_lost(self.now, self.number);
                }
            }
        }
    }

    fn searched(limit: u16) -> (PathMtu, Path) {
        let mut mtu = PathMtu::new(1152, MAX, OVERHEAD).unwrap();
        let mut path = Path::new(limit);
        path.search(&mut mtu, Duration::from_secs(10));
        (mtu, path)
    }

    #[test]
    fn the_search_ends_below_what_the_path_takes() {
        for (limit, found, probes) in [
            (u16::MAX, MAX, vec![1418, MAX]),
            (1418, 1418, vec![1418, MAX, MAX, MAX]),
            (1417, 1378, vec![1418, 1418, 1418, 1378]),
            (1338, 1338, vec![1418, 1418, 1418, 1378, 1378, 1378, 1338]),
            (1200, 1152, [[1418; 3], [1378; 3], [1338; 3]].concat()),
        ] {
            let (mtu, path) = searched(limit);
            assert_eq!(mtu.payload(u16::MAX), found, "of a path that takes {limit}");
            assert_eq!(path.probes, probes, "of a path that takes {limit}");
        }
    }

    #[test]
    fn only_sizes_between_base_and_largest_are_tried() {
        assert!(PathMtu::new(1152, 1152, OVERHEAD).is_none());
        assert!(PathMtu::new(1152, 0, OVERHEAD).is_none());
        let mut mtu = PathMtu::new(1152, 1400, OVERHEAD).unwrap();
        let mut path = Path::new(u16::MAX);
        path.search(&mut mtu, Duration::from_secs(1));
        assert_eq!((mtu.payload(u16::MAX), path.probes.len()), (1400, 1));
    }

    #[test]
    fn a_slow_sender_keeps_to_what_leaves_soon() {
        let (mtu, _) = searched(MAX);
        assert_eq!(mtu.payload(2_000), 1418);
        assert_eq!(mtu.payload(100), 1152, "never less than that");
        let mut mtu = PathMtu::new(1152, MAX, OVERHEAD).unwrap();
        assert_eq!(mtu.due(Timestamp::ZERO, PATIENCE, 1_400), None);
        assert_eq!(mtu.due(Timestamp::ZERO, PATIENCE, 1_500), Some(1418));
    }

    #[test]
    fn a_finished_search_begins_again_after_ten_minutes() {
        let (mut mtu, mut path) = searched(1418);
        path.limit = MAX;
        path.search(&mut mtu, Duration::from_secs(580));
        assert_eq!(mtu.payload(u16::MAX), 1418);
        path.search(&mut mtu, Duration::from_secs(30));
        assert_eq!(mtu.payload(u16::MAX), MAX);
        let (mut mtu, mut path) = searched(1200);
        path.limit = 1500;
        path.search(&mut mtu, Duration::from_secs(610));
        assert_eq!(mtu.payload(u16::MAX), 1418);
    }

    #[test]
    fn a_path_that_shrinks_is_searched_again() {
        let (mut mtu, mut path) = searched(MAX);
        path.send(&mut mtu, 100);
        path.limit = 1400;
        path.send(&mut mtu, 4);
        assert_eq!(
            mtu.payload(u16::MAX),
            1152,
            "at once what certainly arrives"
        );
        path.search(&mut mtu, Duration::from_secs(2));
        assert_eq!(mtu.payload(u16::MAX), 1378);
    }

    #[test]
    fn losses_among_packets_that_arrive_are_no_black_hole() {
        let (mut mtu, mut path) = searched(MAX);
        for _ in 0..100 {
            path.number += 10;
            mtu.on_large_acked(path.number);
            for behind in 1..10 {
                mtu.on_large_lost(path.now, path.number - behind);
            }
        }
        assert_eq!(mtu.payload(u16::MAX), MAX);
    }

    /// Probes pass and packets do not: each search may promise what does not hold, so there are few.
    #[test]
    fn a_path_that_lies_is_asked_ever_more_rarely() {
        let (mut mtu, mut path) = searched(MAX);
        path.probes.clear();
        let end = path.now + Duration::from_secs(3600);
        while path.now < end {
            for _ in 0..4 {
                path.number += 1;
                mtu.on_large_lost(path.now, path.number);
            }
            path.search(&mut mtu, Duration::from_millis(50));
        }
        assert!(path.probes.len() < 40, "{} probes", path.probes.len());
    }
}
