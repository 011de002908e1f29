//! The numbers behind "when to send what" that a listener may set, with their reasons, each with those that the same part
//! of the sender goes by. A number that nobody sets is a constant beside its only user.

mod acks;
mod bulk;
mod extensions;
mod keep_alive;
mod packets;
mod path;
mod queues;
mod redundancy;

use std::time::Duration;

use crate::mode::Penalty;

pub use acks::AckTiming;
pub use bulk::BulkRates;
pub use extensions::Extensions;
pub use keep_alive::KeepAlive;
pub use packets::PacketRates;
pub use path::PathLimits;
pub use queues::{OUTBOX_FAR, QueueLimits};
pub use redundancy::Redundancy;

/// Which rule judges the path, and with it everything that hangs on that rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// Good and bad mode by the rise over the peer's own base RTT and by loss; redundancy; a byte
    /// rate for bulk.
    #[default]
    Adaptive,
    /// The 2008 article to the letter: 30 or 10 packets a second, and no redundancy (docs/wire/gaffer.md,
    /// section 5).
    Article {
        /// A smoothed round trip above this is bad: 250 ms.
        rtt_max: Duration,
        /// Messages are due again this long after they were sent, whatever was acknowledged: 0.1 s, as in the
        /// reference.
        resend_after: Duration,
    },
}

/// How a [`Sender`](super::Sender) behaves. Shared by all sessions of a listener.
#[derive(Clone, Debug, PartialEq)]
pub struct Params {
    /// The rule in force.
    pub profile: Profile,
    /// How many packets a peer gets.
    pub packets: PacketRates,
    /// How long conditions must be good before the mode is good again.
    pub penalty: Penalty,
    /// What makes the path bad.
    pub path: PathLimits,
    /// How fast bulk goes.
    pub bulk: BulkRates,
    /// What copies may cost; `None`: there are none.
    pub redundancy: Option<Redundancy>,
    /// When an acknowledgement leaves by itself.
    pub acks: AckTiming,
    /// What leaves when there is nothing to say.
    pub keep_alive: KeepAlive,
    /// What may wait to be sent.
    pub queues: QueueLimits,
    /// Messages larger than this travel as blocks on lanes that have them, where their protocol
    /// leaves that to [`Sender::push`](super::Sender::push).
    pub inline_max: usize,
    /// What goes beyond the standard wire.
    pub extensions: Extensions,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            profile: Profile::Adaptive,
            packets: PacketRates::default(),
            penalty: Penalty::default(),
            path: PathLimits::default(),
            bulk: BulkRates::default(),
            redundancy: Some(Redundancy::default()),
            acks: AckTiming::default(),
            keep_alive: KeepAlive::default(),
            queues: QueueLimits::default(),
            inline_max: 7000,
            extensions: Extensions::default(),
        }
    }
}

impl Params {
    /// The article's sender.
    pub fn article() -> Self {
        Self {
            profile: Profile::Article {
                rtt_max: Duration::from_millis(250),
                resend_after: Duration::from_millis(100),
            },
            packets: PacketRates::article(),
            redundancy: None,
            ..Self::default()
        }
    }

    /// When messages are due again, whatever was acknowledged; `None`: by the gaps in acknowledgements and by the
    /// path's own round trip.
    pub(super) fn resend_after(&self) -> Option<Duration> {
        match self.profile {
            Profile::Adaptive => None,
            Profile::Article { resend_after, .. } => Some(resend_after),
        }
    }
}
