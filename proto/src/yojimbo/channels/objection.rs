//! What a receiver has against a packet, or against its peer.

/// Why a packet is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objection {
    /// The inbox waits for its owner. The packet must not be acknowledged; it comes again.
    InboxFull,
    /// Too much waits behind a gap, or too many blocks at once. This packet, too, must not be acknowledged.
    WindowFull,
    /// A message id beyond the receive window: a protocol error.
    WindowOverflow,
    /// Two fragments of a block do not agree on how it is cut: a protocol error.
    FragmentsChanged,
}

impl Objection {
    /// Whether the peer broke the protocol; otherwise the packet is merely refused.
    pub const fn is_violation(self) -> bool {
        match self {
            Self::InboxFull | Self::WindowFull => false,
            Self::WindowOverflow | Self::FragmentsChanged => true,
        }
    }
}
