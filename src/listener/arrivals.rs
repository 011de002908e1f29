//! How many sessions each address has opened lately. Where no token is needed, one machine may open sessions and leave as
//! often as `ip_handshakes` allows, each with two lines of the log.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use tidegate_proto::Timestamp;

use crate::admission::prefix;

/// The sources of this window, and how many sessions each has opened in it.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    since: Timestamp,
    opened: HashMap<IpNet, u32>,
}

impl Arrivals {
    /// Whether this session is one of so many from its address that it needs no lines.
    pub(super) fn note(&mut self, now: Timestamp, from: IpAddr) -> bool {
        if now.since(self.since) >= WINDOW {
            self.since = now;
            self.opened.clear();
        }
        let source = prefix(from);
        if self.opened.len() >= SOURCES_MAX && !self.opened.contains_key(&source) {
            return false;
        }
        let opened = self.opened.entry(source).or_default();
        *opened += 1;
        *opened > FEW
    }
}

const WINDOW: Duration = Duration::from_secs(10);

/// As many may play behind one address, and all come back when their game server does.
const FEW: u32 = 50;

/// Sources that are counted: some 50 KiB of them. Whoever has more has two lines for each session.
const SOURCES_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_is_many_and_its_neighbour_is_not() {
        let mut arrivals = Arrivals::default();
        let at = |millis| Timestamp::ZERO + Duration::from_millis(millis);
        let ip = |last| IpAddr::from([10, 0, 0, last]);
        let mut many = |millis, from, times: u32| {
            let noted = (0..times).filter(|_| arrivals.note(at(millis), from));
            noted.count()
        };
        assert_eq!(many(20_000, ip(1), 1_000), 950);
        assert_eq!(many(29_999, ip(1), 10), 10);
        assert_eq!(many(29_999, ip(2), 50), 0);
        assert_eq!(many(30_000, ip(1), 50), 0);
        let v6 = |last| IpAddr::from([0xfd00, 0, 0, 1, 0, 0, 0, last]);
        assert_eq!(many(30_000, v6(1), 50), 0);
        assert_eq!(many(30_000, v6(2), 1), 1, "one host may have them all");
    }

    #[test]
    fn sources_are_bounded() {
        let mut arrivals = Arrivals::default();
        for source in 0..10_000_u32 {
            arrivals.note(Timestamp::ZERO, IpAddr::from(source.to_be_bytes()));
        }
        assert_eq!(arrivals.opened.len(), 1024);
    }
}
