//! What leaves when there is nothing to say.

use std::time::Duration;

/// When a packet leaves that carries nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// Packets that brought nothing are acknowledged this long after anything was last sent, if
    /// there were at least two of them, so that the peer's estimate of the path stays fresh. One
    /// may itself be such an acknowledgement: two ends would answer each other for ever.
    pub interval: Duration,
    /// Something is sent that often in any case. False where the protocol below has keep-alives of its
    /// own, as netcode does.
    pub always: bool,
}

impl Default for KeepAlive {
    fn default() -> Self {
        Self {
            interval: Duration::from_millis(250),
            always: true,
        }
    }
}
