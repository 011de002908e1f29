//! A layout in text, for people who look for where two sides differ, and as a number.

use std::fmt;
use std::fmt::Write as _;

use super::{ChannelLayout, Delivery, Layout};

impl Layout {
    /// The whole layout in text, line by line the same on both sides if they agree.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        let limits = &self.limits;
        // Writing to a String cannot fail.
        let mut line = |arguments: fmt::Arguments<'_>| {
            let written = text.write_fmt(arguments);
            debug_assert!(written.is_ok());
            text.push('\n');
        };
        line(format_args!(
            "packets: up to {} bytes, in up to {} fragments of {} bytes{}",
            limits.packet_bytes_max,
            limits.fragments_max,
            limits.fragment_size,
            if self.has_check_word {
                ", each with a check word"
            } else {
                ""
            }
        ));
        for (index, channel) in self.channels.iter().enumerate() {
            let delivery = match channel.delivery {
                Delivery::ReliableOrdered => "reliable-ordered",
                Delivery::UnreliableUnordered => "unreliable-unordered",
            };
            line(format_args!(
                "channel {index}: {delivery}, up to {} messages a packet, {}, {}",
                channel.messages_per_packet_max,
                Blocks(channel),
                Window(channel),
            ));
        }
        for (kind, message_type) in self.messages.iter().enumerate() {
            line(format_args!("message {kind}: {message_type}"));
        }
        text
    }

    /// A number that is the same on both sides if the layouts are: FNV-1a, 64 bits, over
    /// [`Layout::describe`].
    pub fn fingerprint(&self) -> u64 {
        self.describe()
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
            })
    }
}

struct Blocks<'a>(&'a ChannelLayout);

impl fmt::Display for Blocks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let channel = self.0;
        let (max, size) = (channel.block_bytes_max, channel.block_fragment_size);
        if channel.disable_blocks {
            write!(f, "no blocks")
        } else if channel.is_reliable() {
            write!(f, "blocks up to {max} bytes in fragments of {size}")
        } else {
            write!(f, "blocks up to {max} bytes")
        }
    }
}

struct Window<'a>(&'a ChannelLayout);

impl fmt::Display for Window<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_reliable() {
            write!(f, "receive window {}", self.0.receive_window)
        } else {
            write!(f, "no ids")
        }
    }
}
