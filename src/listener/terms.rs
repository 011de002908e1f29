//! What a listener's peers begin with. A reload changes it for those who come later.

use std::sync::Arc;

use super::{Destination, PeerLimits};
use crate::admission;
use crate::backend::StreamRules;

/// What a new session gets, and keeps.
#[derive(Clone, Debug)]
pub struct Terms {
    /// Where streams are opened; `None` when they come with the peer.
    pub destination: Option<Destination>,
    /// How streams work. A stream is framed by those that it began with.
    pub rules: Arc<StreamRules>,
    /// What a peer may send; `None` where peers are the servers we dialled.
    pub limits: Option<PeerLimits>,
    /// Sessions may come and go without end: no token is asked for, or anybody can make one.
    pub is_open: bool,
}

/// What new sessions and strangers of a listener get.
#[derive(Clone, Debug)]
pub struct Policy {
    pub terms: Terms,
    pub peers_max: usize,
    pub admission: admission::Params,
}
