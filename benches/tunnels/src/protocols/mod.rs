//! The neighbours, and what all of them can at most. Their settings are those that somebody would choose who runs a game through them:
//! the least delay, and windows that a fast connection does not meet.

pub(crate) mod kcp;
pub(crate) mod quic;
pub(crate) mod sealed_tcp;
pub(crate) mod tcp;
