//! Plain counters and present values of one session. The daemon publishes them; nothing here does.

use std::time::Duration;

/// What a session counted since it began, and how it is now.
///
/// Counters only grow. A *packet* is a protocol unit with a sequence number, a *message* what the
/// application sent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stats {
    /// Packets with a sequence, sent (keep-alives and handshake steps are not packets).
    pub packets_sent: u64,
    /// Packets taken.
    pub packets_received: u64,
    /// Own packets the peer acknowledged.
    pub packets_acked: u64,
    /// Own packets given up.
    pub packets_lost: u64,
    /// Packets that came again.
    pub packets_duplicate: u64,
    /// Packets that came after a newer one.
    pub packets_out_of_order: u64,
    /// Packets not taken because the inbox or a window was full.
    pub packets_refused: u64,
    /// Fragments read.
    pub fragments_received: u64,
    /// Packets or blocks that never completed.
    pub reassembly_failures: u64,
    /// Reliable messages that came again (dropped).
    pub messages_duplicate: u64,
    /// Messages first put into a packet, reliable channels.
    pub messages_sent_reliable: u64,
    /// Messages first put into a packet, unreliable channels.
    pub messages_sent_unreliable: u64,
    /// Reliable messages, and fragments of long ones, put into a packet again after a loss.
    pub messages_resent: u64,
    /// Reliable messages put into a packet again before any loss was known.
    pub messages_repeated: u64,
    /// Reliable messages the peer acknowledged.
    pub messages_acked: u64,
    /// Messages of the peer given up because the peer forgot them (rudp).
    pub messages_skipped: u64,
    /// Messages accepted from the peer (into the inbox).
    pub messages_received: u64,
    /// Bytes of messages accepted from the peer.
    pub message_bytes_received: u64,
    /// Bytes of messages accepted from the owner.
    pub message_bytes_sent: u64,
    /// Unreliable messages dropped before they reached a packet or after they came out of one.
    pub unreliable_dropped: u64,
    /// Switches from good to bad mode.
    pub mode_to_bad: u64,
    /// Switches from bad to good mode.
    pub mode_to_good: u64,
    /// Now: latest round trip sampled, without what the peer may have held back.
    pub rtt_latest: Duration,
    /// Now: the same, smoothed; zero before the first sample. Of rudp the peer's tick is part of it.
    pub rtt: Duration,
    /// Now: smallest round trip of the recent past; none of the two above is smaller.
    pub rtt_min: Duration,
    /// Now: mean deviation of the time until an acknowledgement comes.
    pub rtt_variation: Duration,
    /// Now: estimated share of own packets that get lost, 0 to 1; see [`Stats::known_loss`].
    pub loss: f32,
    /// Now: sending at the bad mode's rate.
    pub in_bad_mode: bool,
    /// Now: bytes of the longest datagram that bulk goes in.
    pub datagram_bytes: u16,
    /// Now: what it is sent goes under the second cipher (docs/wire/netcode.md, section 13).
    pub second_cipher: bool,
    /// Now: reliable messages queued or unacknowledged.
    pub outbox_messages: u32,
    /// Now: their bytes.
    pub outbox_bytes: u32,
    /// Now: bytes of the peer held until something before or beside them arrives: messages behind
    /// a gap, blocks and packets that miss fragments.
    pub assembly_bytes: u32,
}

impl Stats {
    /// Whether there ever was a round trip. Without one the figures of time are not known, which is not the same as 0:
    /// before the first answer, and of a rudp peer that gives none.
    pub fn is_measured(&self) -> bool {
        !self.rtt.is_zero()
    }

    /// [`Stats::loss`], if it is known: before the first acknowledgement it is not, and rudp has none.
    pub fn known_loss(&self) -> Option<f32> {
        (self.packets_acked > 0).then_some(self.loss)
    }

    /// What the same session counted since `before`; present values are the present ones.
    pub fn since(&self, before: &Self) -> Self {
        let (mut since, mut before) = (*self, *before);
        for (counter, before) in since.counters().into_iter().zip(before.counters()) {
            *counter = counter.saturating_sub(*before);
        }
        since
    }

    /// Adds another session's counters. Present values are left alone: they do not add up.
    pub fn absorb(&mut self, other: &Self) {
        let mut other = *other;
        for (counter, more) in self.counters().into_iter().zip(other.counters()) {
            *counter += *more;
        }
    }

    /// Everything that only grows. No `..` here: a new field has to say whether it is one of these.
    fn counters(&mut self) -> [&mut u64; 22] {
        let Self {
            packets_sent,
            packets_received,
            packets_acked,
            packets_lost,
            packets_duplicate,
            packets_out_of_order,
            packets_refused,
            fragments_received,
            reassembly_failures,
            messages_duplicate,
            messages_sent_reliable,
            messages_sent_unreliable,
            messages_resent,
            messages_repeated,
            messages_acked,
            messages_skipped,
            messages_received,
            message_bytes_received,
            message_bytes_sent,
            unreliable_dropped,
            mode_to_bad,
            mode_to_good,
            rtt_latest: _,
            rtt: _,
            rtt_min: _,
            rtt_variation: _,
            loss: _,
            in_bad_mode: _,
            datagram_bytes: _,
            second_cipher: _,
            outbox_messages: _,
            outbox_bytes: _,
            assembly_bytes: _,
        } = self;
        [
            packets_sent,
            packets_received,
            packets_acked,
            packets_lost,
            packets_duplicate,
            packets_out_of_order,
            packets_refused,
            fragments_received,
            reassembly_failures,
            messages_duplicate,
            messages_sent_reliable,
            messages_sent_unreliable,
            messages_resent,
            messages_repeated,
            messages_acked,
            messages_skipped,
            messages_received,
            message_bytes_received,
            message_bytes_sent,
            unreliable_dropped,
            mode_to_bad,
            mode_to_good,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_add_up_and_present_values_do_not() {
        let mut before = Stats {
            rtt: Duration::from_millis(40),
            loss: 0.1,
            ..Stats::default()
        };
        let mut now = Stats {
            rtt: Duration::from_millis(50),
            ..before
        };
        for (number, counter) in (1..).zip(before.counters()) {
            *counter = number;
        }
        for (number, counter) in (1..).zip(now.counters()) {
            *counter = 3 * number;
        }
        let mut since = now.since(&before);
        let grown: Vec<u64> = since
            .counters()
            .into_iter()
            .map(|counter| *counter)
            .collect();
        let expected: Vec<u64> = (1..=22).map(|number| 2 * number).collect();
        assert_eq!(grown, expected);
        assert_eq!((since.rtt, since.loss), (now.rtt, now.loss));
        before.absorb(&since);
        assert_eq!(
            before,
            Stats {
                rtt: before.rtt,
                ..now
            }
        );
    }
}
