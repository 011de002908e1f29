//! Strangers who were refused, for an operator who asks for them: `tidegate ctl log info,tidegate::listener=debug`
//! while a player tries. Anybody can send anything from any address, so the lines are few however many
//! are refused, and at any other level they cost nothing.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tidegate_proto::{Reject, Timestamp};
use tracing::Level;

use super::Listener;

/// The addresses that were named in this second.
#[derive(Debug, Default)]
pub(super) struct RefusalLog {
    since: Timestamp,
    named: Vec<(IpAddr, Reject)>,
    /// Refused since the last line, and not named.
    unnamed: u64,
}

impl RefusalLog {
    /// Whether there is a line for this one, and how many there was none for since the last.
    fn note(&mut self, now: Timestamp, from: IpAddr, why: Reject) -> Option<u64> {
        if now.since(self.since) >= SECOND {
            self.since = now;
            self.named.clear();
        }
        if self.named.len() >= LINES_A_SECOND || self.named.contains(&(from, why)) {
            self.unnamed += 1;
            return None;
        }
        self.named.push((from, why));
        Some(std::mem::take(&mut self.unnamed))
    }
}

impl Listener {
    /// A stranger was not let in, or not even listened to.
    pub(super) fn log_refused(&mut self, now: Timestamp, from: SocketAddr, why: Reject) {
        if !tracing::enabled!(Level::DEBUG) {
            return;
        }
        if let Some(unnamed) = self.strangers.refusal_log.note(now, from.ip(), why) {
            tracing::debug!(
                event = "refused",
                listener = %self.name,
                peer = %from,
                reason = why.label(),
                unnamed,
            );
        }
    }
}

const SECOND: Duration = Duration::from_secs(1);

/// Each address once for each reason. A player who tries is found in so many, unless there is a flood.
const LINES_A_SECOND: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    /// Addresses are forged at will.
    #[test]
    fn a_flood_is_a_few_lines_a_second() {
        let mut log = RefusalLog::default();
        let at = |millis| Timestamp::ZERO + Duration::from_millis(millis);
        let mut lines = |millis, sources: u32| {
            let addresses = (0..sources).map(|source| IpAddr::from(source.to_be_bytes()));
            let named = addresses.filter_map(|ip| log.note(at(millis), ip, Reject::Malformed));
            named.collect::<Vec<u64>>()
        };
        assert_eq!(lines(5_000, 10_000).len(), 32);
        assert_eq!(lines(5_999, 10_000).len(), 0);
        assert_eq!(lines(6_000, 1), [19_968], "who was not named is counted");
        assert!(lines(6_001, 1).is_empty(), "once a second");
        assert_eq!(lines(7_000, 2), [1, 0]);
    }
}
