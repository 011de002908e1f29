//! What a session holds in memory for others, and what it may.

/// Bytes in a session's queues, each message charged with
/// [`MESSAGE_OVERHEAD`](crate::inbox::MESSAGE_OVERHEAD) beside its payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Messages from the peer that nobody has polled yet.
    pub inbox: usize,
    /// Whole messages from the peer behind one that is missing, and the places of those that are.
    pub ahead: usize,
    /// Packets and messages of which pieces are missing.
    pub pieces: usize,
    /// Messages for the peer, until it has acknowledged them or they are forgotten.
    pub outbox: usize,
}

/// What a session may hold of its peer's messages, where that is less than its own limits. What it
/// holds already it keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Packets with messages are refused once [`Held::inbox`] is this much: 0 refuses all of them, 1
    /// takes one into an empty inbox.
    pub inbox: usize,
    /// A message that would make [`Held::ahead`] more than this is refused, unless its packet also
    /// brings one that the others wait for. Messages and their places may each take as much.
    pub ahead: usize,
    /// A block that would make those under way more than this, were they complete, is refused, unless it is
    /// the only one. What has begun goes on, since else it could never be completed.
    pub pieces: usize,
}

impl Allowance {
    /// The session's own limits are enough.
    pub const UNLIMITED: Self = Self {
        inbox: usize::MAX,
        ahead: usize::MAX,
        pieces: usize::MAX,
    };
}
