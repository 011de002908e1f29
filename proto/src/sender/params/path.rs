//! What makes a path bad under [`Profile::Adaptive`](super::Profile::Adaptive).

use std::time::Duration;

/// Delay and loss that are too much.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathLimits {
    /// The round trip's rise over the path's own that is a queue, while bulk is sent: what a player
    /// does not notice.
    pub queue_max: Duration,
    /// The rise that is a queue while only messages are sent: they are not what fills one, so doubt is in
    /// their favour.
    pub queue_max_messages: Duration,
    /// How long a smallest round trip is believed to be the path's own: routes change.
    pub base_window: Duration,
    /// Loss above this, and clearly above what is usual on the path, is bad too.
    pub loss_max: f64,
}

impl Default for PathLimits {
    fn default() -> Self {
        Self {
            queue_max: Duration::from_millis(20),
            queue_max_messages: Duration::from_millis(40),
            base_window: Duration::from_secs(30),
            loss_max: 0.15,
        }
    }
}
