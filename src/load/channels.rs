//! Which of a protocol's channels the messages go out on, and how long they may be there.

use tidegate_proto::Channel;
use tidegate_proto::yojimbo::channels::Delivery;

use crate::config::{GafferMode, Protocol};

/// The channels that messages go out on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Channels {
    pub(super) reliable: Option<Channel>,
    pub(super) unreliable: Option<Channel>,
}

impl Channels {
    pub(super) fn of(protocol: &Protocol) -> Self {
        match protocol {
            Protocol::Yojimbo(own) => {
                let find = |delivery| {
                    let mut channels = own.layout.channels().iter();
                    channels
                        .position(|channel| channel.delivery == delivery)
                        .and_then(|index| Channel::try_from(index).ok())
                };
                Self {
                    reliable: find(Delivery::ReliableOrdered),
                    unreliable: find(Delivery::UnreliableUnordered),
                }
            }
            Protocol::Gaffer(own) if own.mode == GafferMode::Raw => Self {
                reliable: None,
                unreliable: Some(0),
            },
            Protocol::Gaffer(_) | Protocol::Rudp(_) => Self {
                reliable: Some(0),
                unreliable: None,
            },
        }
    }

    /// The longest message, when this share of them goes unreliably.
    pub(super) fn size_max(self, protocol: &Protocol, unreliable: f64) -> usize {
        match protocol {
            Protocol::Yojimbo(own) => {
                let used = [
                    self.reliable.filter(|_| unreliable < 1.0),
                    self.unreliable
                        .filter(|_| unreliable > 0.0 || self.reliable.is_none()),
                ];
                let sizes = used.into_iter().flatten();
                sizes
                    .filter_map(|channel| own.layout.payload_bytes_max(channel))
                    .min()
                    .unwrap_or(0)
            }
            Protocol::Gaffer(own) => own.max_message,
            Protocol::Rudp(own) => own.max_message,
        }
    }
}
