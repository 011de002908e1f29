//! When to send what.

use std::time::Duration;

use tidegate_proto::mode::Penalty;

/// When to send what.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// The rule that tells good from bad.
    pub profile: RateProfile,
    /// Packets a second in good mode.
    pub good_rate: u32,
    /// Packets a second in bad mode.
    pub bad_rate: u32,
    /// Packets that may leave at once after a pause.
    pub burst: u32,
    /// How long conditions must be good before good mode returns.
    pub penalty: Penalty,
    /// Whether messages are sent again before any loss is known.
    pub redundancy: bool,
}

/// The rule that tells good from bad, with what only it has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RateProfile {
    /// By the rise over the peer's own base RTT, and by loss.
    Adaptive(Adaptive),
    /// By a fixed RTT, as the 2008 article says.
    Article(Article),
}

/// When a path is bad by its own measure, and what bulk may take. Bytes are a second's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adaptive {
    /// Packets a second in good mode at most, for a game that ticks faster than `good_rate`.
    pub good_rate_max: u32,
    /// Rise over the base that is a queue while bulk is sent.
    pub queue_max: Duration,
    /// And while only messages are.
    pub queue_max_messages: Duration,
    /// How long the base is believed.
    pub base_window: Duration,
    /// Share of the packets above which loss may be bad.
    pub loss_max: f64,
    /// Bulk on a path that was not measured yet.
    pub bulk_start: f64,
    /// Bulk at least.
    pub bulk_min: f64,
    /// Bulk at most.
    pub bulk_max: f64,
}

/// The 2008 article's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Article {
    /// Bad above this smoothed round trip.
    pub rtt_max: Duration,
    /// A message is due again after this.
    pub resend_after: Duration,
}
