//! Whether the peer opens packets under the wire's second cipher, found out by asking, as the path's MTU
//! is (path_mtu.rs): a packet of padding under it, whose acknowledgement is the proof. A peer that does
//! not know the cipher takes it for noise, and everything stays as it was.

use std::time::Duration;

use crate::time::Timestamp;

use super::path_mtu::{AGAIN_AFTER, PROBES};

/// The question, and its answer.
#[derive(Clone, Debug, Default)]
pub(super) struct SecondCipher {
    is_taken: bool,
    /// The probe under way: packet and time.
    probe: Option<(u64, Timestamp)>,
    /// Probes lost in a row.
    lost: u8,
    /// No probe before.
    not_before: Timestamp,
}

impl SecondCipher {
    /// The peer opened a packet under it.
    pub(super) fn is_taken(&self) -> bool {
        self.is_taken
    }

    /// Whether a probe leaves now. One that was not acknowledged within `patience` is lost.
    pub(super) fn is_due(&mut self, now: Timestamp, patience: Duration) -> bool {
        if let Some((_, at)) = self.probe {
            if now.since(at) < patience {
                return false;
            }
            self.on_probe_lost(now);
        }
        !self.is_taken && self.not_before <= now
    }

    fn on_probe_lost(&mut self, now: Timestamp) {
        self.probe = None;
        self.lost += 1;
        if self.lost >= PROBES {
            self.lost = 0;
            self.not_before = now + AGAIN_AFTER;
        }
    }

    /// The probe left under this number.
    pub(super) fn on_probe_sent(&mut self, now: Timestamp, number: u64) {
        self.probe = Some((number, now));
    }

    /// Packet `number` was acknowledged; whether it was the probe.
    pub(super) fn on_probe_acked(&mut self, number: u64) -> bool {
        let is_probe = self.probe.is_some_and(|(probe, _)| probe == number);
        if is_probe {
            self.probe = None;
            self.is_taken = true;
        }
        is_probe
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_millis(100);

    /// Numbers of the probes that leave in so many seconds.
    fn probes(cipher: &mut SecondCipher, seconds: std::ops::Range<u64>) -> Vec<u64> {
        let mut sent = Vec::new();
        for number in seconds.start * 100..seconds.end * 100 {
            let now = Timestamp::from_millis(number * 10);
            if cipher.is_due(now, PATIENCE) {
                cipher.on_probe_sent(now, number);
                sent.push(number);
            }
        }
        sent
    }

    #[test]
    fn one_answer_is_enough() {
        let mut cipher = SecondCipher::default();
        assert_eq!(probes(&mut cipher, 0..1).len(), 3);
        let mut cipher = SecondCipher::default();
        let now = Timestamp::ZERO;
        assert!(cipher.is_due(now, PATIENCE));
        cipher.on_probe_sent(now, 7);
        assert!(!cipher.on_probe_acked(6) && !cipher.is_taken());
        assert!(cipher.on_probe_acked(7) && cipher.is_taken());
        assert!(!cipher.on_probe_acked(7), "no probe any more");
        assert_eq!(probes(&mut cipher, 1..2_000), [0; 0]);
    }

    #[test]
    fn a_peer_that_does_not_know_it_is_asked_three_times_in_ten_minutes() {
        let mut cipher = SecondCipher::default();
        assert_eq!(probes(&mut cipher, 0..590), [0, 10, 20]);
        assert_eq!(probes(&mut cipher, 590..1_190).len(), 3);
    }
}
