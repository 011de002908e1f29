//! Channels of messages inside yojimbo's connection packets.
//!
//! ```text
//!   packet ─▶ ConnectionPacket::parse ─▶ Receiver::check ─▶ Receiver::apply ─▶ Inbox
//!                all of it or nothing       room? legal?      cannot fail
//!
//!   messages ─▶ PacketWriter ─▶ packet            PacketSize: how large it gets
//! ```
//!
//! Rule: docs/wire/yojimbo.md. What rides in which packet, and when, is the sender's decision.

mod connection_packet;
mod emit;
mod incomplete_blocks;
mod item;
mod layout;
mod long_fragment;
mod objection;
mod receiver;
mod reliable_ordered;
mod sink;
mod size;

pub use connection_packet::{ConnectionPacket, Items, PacketError};
pub use emit::PacketWriter;
pub use item::{BlockFragment, Body, BodyScratch, FragmentPlace, Item, Message};
pub use layout::{
    CHANNELS_MAX, Carriage, ChannelLayout, Delivery, FIXED_BITS_MAX, Layout, LayoutError,
    MessageType, WIDE_WINDOW,
};
pub use long_fragment::{LONG_FRAGMENT_HEADER_BYTES, emit_long_fragment, parse_long_fragment};
pub use objection::Objection;
pub use receiver::{Receiver, WIDE_BLOCK_BYTES_MAX};
pub use size::{Overhead, PacketSize};

pub use crate::ring::Split;

#[cfg(test)]
mod tests;
