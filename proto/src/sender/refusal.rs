//! Whether the peer takes packets, and none with messages: its inbox is full, because its owner reads slowly or not
//! at all. What it refuses is not acknowledged (docs/RELIABILITY.md, "Acknowledge what is accepted"), as if it were
//! lost; what has no messages is. No path does that for long.

/// Counts both since the peer last took messages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Refusal {
    /// Packets with reliable messages that were not acknowledged.
    refused: u8,
    /// Packets without that were.
    taken: u8,
}

impl Refusal {
    /// A packet was acknowledged.
    pub(super) fn on_acked(&mut self, with_messages: bool) {
        if with_messages {
            *self = Self::default();
        } else {
            self.taken = self.taken.saturating_add(1);
        }
    }

    /// A packet with messages was given up.
    pub(super) fn on_lost(&mut self) {
        self.refused = self.refused.saturating_add(1);
    }

    /// Whether the peer probably refuses messages. Then more of them would only fill the path.
    pub(super) fn is_likely(self) -> bool {
        self.refused >= REFUSED && self.taken >= TAKEN
    }
}

/// So many lost in a row, where each of [`TAKEN`] others arrived, are chance on no path that carries anything: even
/// where every second packet gets lost, one in a million.
const REFUSED: u8 = 16;
const TAKEN: u8 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_all_but_messages_refuses_them() {
        let mut refusal = Refusal::default();
        for _ in 0..REFUSED {
            refusal.on_lost();
        }
        assert!(!refusal.is_likely(), "nothing is heard: the path is away");
        for _ in 0..TAKEN {
            refusal.on_acked(false);
        }
        assert!(refusal.is_likely());
        refusal.on_acked(true);
        assert!(!refusal.is_likely());
        for _ in 0..1_000 {
            refusal.on_acked(false);
        }
        assert!(!refusal.is_likely(), "nothing was lost");
    }
}
