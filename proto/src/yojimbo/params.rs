//! Everything a yojimbo session is told when it begins. One copy for all sessions of a listener.

use std::sync::Arc;
use std::time::Duration;

use super::channels::{Delivery, Layout, Profile};
use crate::sender::{self, Framing, Lane};
use crate::session::AckPolicy;

/// How sessions behave.
#[derive(Clone, Debug)]
pub struct Params {
    /// What both sides must agree on.
    pub profile: Arc<Profile>,
    /// When to send what.
    pub sender: Arc<sender::Params>,
    /// When a packet counts as received.
    pub ack: AckPolicy,
    /// Bytes in the inbox above which packets are refused, and below which they are taken again.
    pub inbox_marks: (usize, usize),
    /// A server's peer that says nothing for so long after it was seated is given up; `None` leaves
    /// it to the token's timeout.
    pub confirm_timeout: Option<Duration>,
    /// No acknowledgement of anything outstanding for so long, while the peer is heard, ends the
    /// session.
    pub peer_stall_timeout: Duration,
}

impl Default for Params {
    fn default() -> Self {
        Self::new(Profile::default(), sender::Params::default())
    }
}

impl Params {
    /// Sessions of this profile. What the profile decides is taken from it: `sender` need not repeat
    /// it.
    pub fn new(profile: Profile, mut sender: sender::Params) -> Self {
        let inline = profile.messages().iter().map(|layout| match *layout {
            Layout::Bytes { max, .. } => usize::from(max),
            Layout::Bits(bits) => usize::from(bits).div_ceil(8),
            Layout::Block => 0,
        });
        sender.inline_max = inline.max().unwrap_or(0);
        let blocks = profile
            .channels()
            .iter()
            .filter(|channel| !channel.disable_blocks);
        sender.block_max = blocks
            .map(|channel| channel.block_bytes_max as usize)
            .max()
            .unwrap_or(0);
        // netcode's own keep-alives do.
        sender.keeps_alive = false;
        Self {
            profile: Arc::new(profile),
            sender: Arc::new(sender),
            ack: AckPolicy::default(),
            // A quarter of a megabyte rides out a backend that pauses for seconds; the low mark keeps
            // a peer from being refused and taken packet by packet.
            inbox_marks: (256 * 1024, 64 * 1024),
            confirm_timeout: Some(Duration::from_secs(5)),
            peer_stall_timeout: Duration::from_secs(10),
        }
    }

    /// The channels, as the sender sees them.
    pub(super) fn lanes(&self) -> Vec<Lane> {
        let lane = |channel: &super::channels::ChannelProfile| match channel.delivery {
            Delivery::ReliableOrdered => Lane::Reliable {
                blocks: !channel.disable_blocks,
            },
            Delivery::UnreliableUnordered => Lane::Unreliable,
        };
        self.profile.channels().iter().map(lane).collect()
    }

    /// What messages cost on this wire.
    pub(super) fn framing(&self) -> Framing {
        let profile = &self.profile;
        let overhead = profile.overhead();
        let channels = profile.channels().iter();
        let fragment = channels
            .clone()
            .find(|channel| channel.is_reliable() && !channel.disable_blocks);
        Framing {
            datagram: profile.limits().fragment_above as u16,
            packet: profile.limits().packet_bytes_max as u16,
            packet_overhead: overhead.packet,
            lane_overhead: overhead.list,
            message_overhead: overhead.message,
            fragment_overhead: overhead.fragment,
            fragment: fragment.map_or(1, |channel| channel.block_fragment_size),
            messages_max: channels
                .map(|channel| channel.messages_per_packet_max)
                .min()
                .unwrap_or(1),
            below: BELOW as u16,
        }
    }
}

/// Bytes under a connection packet: IPv4 and UDP headers, netcode's prefix and tag, reliable's header.
pub(super) const BELOW: usize = 28 + 4 + 16 + 9;
