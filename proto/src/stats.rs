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
    /// Reliable messages put into a packet again after a loss.
    pub messages_resent: u64,
    /// Reliable messages put into a packet again before any loss was known.
    pub messages_repeated: u64,
    /// Reliable messages the peer acknowledged.
    pub messages_acked: u64,
    /// Messages of the peer given up because the peer forgot them (rudp).
    pub messages_skipped: u64,
    /// Messages accepted from the peer (into the inbox).
    pub messages_received: u64,
    /// Their bytes.
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
    /// Now: the same, smoothed; zero before the first sample.
    pub rtt: Duration,
    /// Now: smallest round trip of the recent past.
    pub rtt_min: Duration,
    /// Now: mean deviation of the time until an acknowledgement comes.
    pub rtt_variation: Duration,
    /// Now: estimated share of own packets that get lost, 0 to 1.
    pub loss: f32,
    /// Now: sending at the bad mode's rate.
    pub in_bad_mode: bool,
    /// Now: bytes of the longest datagram that bulk goes in.
    pub datagram_bytes: u16,
    /// Now: reliable messages queued or unacknowledged.
    pub outbox_messages: u32,
    /// Now: their bytes.
    pub outbox_bytes: u32,
    /// Now: bytes of the peer held until something before or beside them arrives: messages behind
    /// a gap, blocks and packets that miss fragments.
    pub assembly_bytes: u32,
}

impl Stats {
    /// What the same session counted since `before`; present values are the present ones.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            packets_sent: self.packets_sent.saturating_sub(before.packets_sent),
            packets_received: self
                .packets_received
                .saturating_sub(before.packets_received),
            packets_acked: self.packets_acked.saturating_sub(before.packets_acked),
            packets_lost: self.packets_lost.saturating_sub(before.packets_lost),
            packets_duplicate: self
                .packets_duplicate
                .saturating_sub(before.packets_duplicate),
            packets_out_of_order: self
                .packets_out_of_order
                .saturating_sub(before.packets_out_of_order),
            packets_refused: self.packets_refused.saturating_sub(before.packets_refused),
            fragments_received: self
                .fragments_received
                .saturating_sub(before.fragments_received),
            reassembly_failures: self
                .reassembly_failures
                .saturating_sub(before.reassembly_failures),
            messages_duplicate: self
                .messages_duplicate
                .saturating_sub(before.messages_duplicate),
            messages_sent_reliable: self
                .messages_sent_reliable
                .saturating_sub(before.messages_sent_reliable),
            messages_sent_unreliable: self.messages_sent_unreliable
                - before.messages_sent_unreliable,
            messages_resent: self.messages_resent.saturating_sub(before.messages_resent),
            messages_repeated: self
                .messages_repeated
                .saturating_sub(before.messages_repeated),
            messages_acked: self.messages_acked.saturating_sub(before.messages_acked),
            messages_skipped: self
                .messages_skipped
                .saturating_sub(before.messages_skipped),
            messages_received: self
                .messages_received
                .saturating_sub(before.messages_received),
            message_bytes_received: self
                .message_bytes_received
                .saturating_sub(before.message_bytes_received),
            message_bytes_sent: self
                .message_bytes_sent
                .saturating_sub(before.message_bytes_sent),
            unreliable_dropped: self
                .unreliable_dropped
                .saturating_sub(before.unreliable_dropped),
            mode_to_bad: self.mode_to_bad.saturating_sub(before.mode_to_bad),
            mode_to_good: self.mode_to_good.saturating_sub(before.mode_to_good),
            ..*self
        }
    }

    /// Adds another session's counters. Present values are left alone: they do not add up.
    pub fn absorb(&mut self, other: &Self) {
        self.packets_sent += other.packets_sent;
        self.packets_received += other.packets_received;
        self.packets_acked += other.packets_acked;
        self.packets_lost += other.packets_lost;
        self.packets_duplicate += other.packets_duplicate;
        self.packets_out_of_order += other.packets_out_of_order;
        self.packets_refused += other.packets_refused;
        self.fragments_received += other.fragments_received;
        self.reassembly_failures += other.reassembly_failures;
        self.messages_duplicate += other.messages_duplicate;
        self.messages_sent_reliable += other.messages_sent_reliable;
        self.messages_sent_unreliable += other.messages_sent_unreliable;
        self.messages_resent += other.messages_resent;
        self.messages_repeated += other.messages_repeated;
        self.messages_acked += other.messages_acked;
        self.messages_skipped += other.messages_skipped;
        self.messages_received += other.messages_received;
        self.message_bytes_received += other.message_bytes_received;
        self.message_bytes_sent += other.message_bytes_sent;
        self.unreliable_dropped += other.unreliable_dropped;
        self.mode_to_bad += other.mode_to_bad;
        self.mode_to_good += other.mode_to_good;
    }
}
