//! What goes beyond the standard wire, to a peer that is found to take it: another tidegate.

/// Larger datagrams, and what follows once they are taken. By default there is nothing of this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extensions {
    /// Payload of the largest packet that is tried as one datagram, where much waits to be sent: fewer
    /// and larger datagrams cost both ends less. Not above [`Framing::datagram`](crate::sender::Framing::datagram): none
    /// is tried.
    pub mtu_payload_max: u16,
    /// Larger datagrams are tried before one was heard from the peer. A peer other than a tidegate may
    /// not take them; one that sends them does.
    pub mtu_asks_first: bool,
    /// The wire has a second cipher, faster than the one that all peers know: a peer that takes larger
    /// datagrams is asked whether it opens that.
    pub second_cipher: bool,
    /// What a fragment of a block adds to its bytes that is as long as a datagram takes, beside
    /// [`Framing::packet_overhead`](crate::sender::Framing::packet_overhead). 0: the wire has none, and all fragments
    /// are as long as the lane's [`Blocks`](crate::sender::Blocks) say.
    pub long_fragment_overhead: u16,
    /// Messages under way on each lane, to a peer that was found to take larger datagrams; no less than
    /// what the lane's [`window`](crate::sender::Lane::Reliable::window) says.
    pub wide_window: u16,
}
