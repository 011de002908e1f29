//! Whether anything leaves this host at all. An interface that is down, a route or an address that is gone: players hear
//! nothing, and time out one by one as if it were their own networks.

use std::time::Duration;

use tidegate_proto::Timestamp;

use super::Listener;
use crate::udp::{Sent, UdpError, UdpErrors};

/// Since when nothing has left, and what did not.
#[derive(Debug, Default)]
pub(super) struct Outage {
    since: Timestamp,
    /// Datagrams that had left by then.
    left: u64,
    /// And those that had not, by reason.
    failed: UdpErrors,
    /// Datagrams that a filter did not let out, and that were told of.
    denied: u64,
}

impl Outage {
    /// How many a filter did not let out since this was last asked.
    fn newly_denied(&mut self, sent: &Sent) -> u64 {
        let denied = sent.failed(UdpError::Denied);
        denied - std::mem::replace(&mut self.denied, denied)
    }

    /// Looks at what was sent so far. Once nothing has left for [`NOTHING_LEFT`]: of which kind most of what failed
    /// since then is, and how many those are.
    ///
    /// Without peers it is never an outage, and answers to strangers, who may have forged where they come from, are none
    /// of it.
    fn look(&mut self, now: Timestamp, sent: &Sent, has_peers: bool) -> Option<(UdpError, u64)> {
        let is_quiet = has_peers && sent.datagrams == self.left;
        if is_quiet && now.since(self.since) < NOTHING_LEFT {
            return None;
        }
        let failed = UdpErrors(UdpError::ALL.map(|kind| sent.failed(kind)));
        let lost = |kind: UdpError| failed.of(kind) - self.failed.of(kind);
        let worst = KINDS.map(|kind| (lost(kind), kind));
        let worst = worst.into_iter().max_by_key(|(lost, _)| *lost);
        *self = Self {
            since: now,
            left: sent.datagrams,
            failed,
            denied: self.denied,
        };
        let (lost, kind) = worst.filter(|(lost, _)| is_quiet && *lost > 0)?;
        Some((kind, lost))
    }
}

impl Listener {
    /// A line while nothing leaves, and one of what a filter does not let out.
    pub(super) fn log_outage(&mut self, now: Timestamp) {
        let denied = self.outage.newly_denied(&self.counters.sent);
        if denied > 0 {
            log_send_denied(&self.name, denied);
        }
        let has_peers = !self.endpoint.is_empty();
        let Some((kind, lost)) = self.outage.look(now, &self.counters.sent, has_peers) else {
            return;
        };
        tracing::warn!(
            event = "cannot_send",
            reason = kind.label(),
            listener = %self.name,
            lost,
            help = "nothing leaves this host: `ip address` shows whether an interface is up and has the address of the \
                    listener, `ip route get ADDRESS` whether there is a route to a peer",
        );
    }
}

/// A filter is somebody's rule on this machine, and players notice nothing but silence.
fn log_send_denied(listener: &str, lost: u64) {
    tracing::warn!(
        event = "cannot_send",
        reason = UdpError::Denied.label(),
        listener,
        lost,
        help = "a packet filter of this host, or a route that prohibits, does not let out what we send to players: \
                `nft list ruleset` or `iptables -vL OUTPUT`, and `ip route`",
    );
}

/// Twice as long as any session that is there is silent.
const NOTHING_LEFT: Duration = Duration::from_secs(2);

/// What this host is to blame for. A filter has a line of its own, and a full queue empties itself.
const KINDS: [UdpError; 3] = [
    UdpError::Unreachable,
    UdpError::Invalid,
    UdpError::NoBuffers,
];

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn sent(datagrams: u64, errors: &[(UdpError, u64)]) -> Sent {
        let mut sent = Sent {
            datagrams,
            ..Sent::default()
        };
        for (kind, count) in errors {
            sent.errors.0[*kind as usize] = *count;
        }
        sent
    }

    #[test]
    fn it_is_an_outage_once_nothing_left_for_a_while() {
        use UdpError::{Invalid, Unreachable};
        let mut outage = Outage::default();
        assert_eq!(outage.look(at(0), &sent(10, &[]), true), None);
        let fails = sent(10, &[(Invalid, 2), (Unreachable, 5)]);
        assert_eq!(outage.look(at(1_999), &fails, true), None, "may be over");
        assert_eq!(outage.look(at(2_000), &fails, true), Some((Unreachable, 5)));
        let fails = sent(10, &[(Invalid, 9), (Unreachable, 6)]);
        assert_eq!(outage.look(at(2_250), &fails, true), None, "it was said");
        assert_eq!(outage.look(at(4_000), &fails, true), Some((Invalid, 7)));
        let one_left = sent(11, &[(Invalid, 99), (Unreachable, 6)]);
        assert_eq!(outage.look(at(9_000), &one_left, true), None);
    }

    #[test]
    fn one_player_out_of_reach_is_no_outage() {
        let mut outage = Outage::default();
        for second in 0..20 {
            let some = sent(second, &[(UdpError::Unreachable, 30 * second)]);
            assert_eq!(outage.look(at(1_000 * second), &some, true), None);
        }
    }

    /// Nor is a filter, of which another line tells.
    #[test]
    fn silence_and_answers_to_strangers_are_no_outage() {
        let mut outage = Outage::default();
        for second in 0..20 {
            let mut among_peers = sent(7, &[(UdpError::Unreachable, second)]);
            among_peers.unproven = among_peers.errors;
            assert_eq!(outage.look(at(1_000 * second), &among_peers, true), None);
        }
        let mut outage = Outage::default();
        for second in 0..20 {
            let now = at(1_000 * second);
            let strangers = sent(7, &[(UdpError::Unreachable, second)]);
            assert_eq!(outage.look(now, &strangers, false), None);
        }
        for second in 20..40 {
            let now = at(1_000 * second);
            let denied = sent(
                7,
                &[(UdpError::Unreachable, 19), (UdpError::Denied, second)],
            );
            assert_eq!(outage.look(now, &denied, true), None);
        }
    }
}
