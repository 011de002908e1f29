//! What a packet on its way in says of those that went out: read by `incoming`, judged by `outgoing`.

use super::long_ack::Record;
use super::postscript::Postscript;
use super::reliable::Header;

/// What a packet says of the packets that we sent.
#[derive(Debug)]
pub(super) struct Acks<'a> {
    pub(super) header: Header,
    /// What follows, if it carries nothing.
    pub(super) postscript: Option<Postscript<'a>>,
    /// None is missing right before the packet.
    pub(super) in_order: bool,
    /// What long acknowledgements tell of the peer's packets, if it runs tidegate.
    pub(super) record: Option<&'a mut Record>,
}

/// The peer acknowledged what was never sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FalseAck;
