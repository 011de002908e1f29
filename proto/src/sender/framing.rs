//! What a packet's place on the wire costs.

/// What the protocol around the sender adds to messages, as upper bounds in bytes, so that a plan
/// always fits; and how large its packets may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    /// Payload of a packet that stays one datagram on every path.
    pub datagram: u16,
    /// Payload in each datagram of a packet that is cut into several; no less than `datagram` where none is cut.
    pub piece: u16,
    /// Payload of the largest packet; only messages that do not fit one datagram use it.
    pub packet: u16,
    /// Beside everything, once a packet.
    pub packet_overhead: u16,
    /// Once for each lane that has something in the packet.
    pub lane_overhead: u16,
    /// For each message.
    pub message_overhead: u16,
    /// For a block's fragment.
    pub fragment_overhead: u16,
    /// IP, UDP, encryption and header of a packet in one datagram, as byte rates count them.
    pub wire_overhead: u16,
    /// What a datagram adds to the payload of a packet at most, without IP and UDP.
    pub datagram_overhead: u16,
    /// A packet of several datagrams may go again under its number, and is put together from all that came of
    /// it, while fewer numbers than this followed; 0 where that is not so.
    pub again_within: u16,
}

impl Framing {
    /// The largest message that fits any packet: a larger one would wait for ever.
    pub(super) fn message_max(&self) -> usize {
        let overhead = self.packet_overhead + self.lane_overhead + self.message_overhead;
        usize::from(self.packet.saturating_sub(overhead))
    }
}
