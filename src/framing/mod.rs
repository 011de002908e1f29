//! Frames on the backend's stream: where one message ends and the next begins. A pure codec.
//!
//! ```text
//!   u16be u16le u32be u32le   | length | channel? | payload ...        |
//!   varint                    | length, 7 bits a byte, low bits first  | channel? | payload ... |
//!   line                      | channel? | payload ... | \n |
//!   raw                       | payload ...
//! ```
//!
//! The length counts what follows it (the channel byte, where there is one, and the payload), and
//! itself as well with `length_includes_header`. A `line` is passed on as it is, a carriage return
//! included; only the newline is ours. `raw` has no frames: the stream is cut where it happens to
//! be cut and joined as it comes, which suits any stream protocol and needs an ordered channel.
//!
//! Knows nothing of sockets and queues. Both ends of a stream are judged by the same limits: a
//! message that fits no frame and a frame that fits no message are errors with their sizes.

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_proto::Channel;

/// How messages are told apart on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Framing {
    /// 16-bit length, big-endian.
    U16Be,
    /// 16-bit length, little-endian.
    U16Le,
    /// 32-bit length, big-endian.
    U32Be,
    /// 32-bit length, little-endian.
    U32Le,
    /// Length in 7-bit groups, low group first, as in Protocol Buffers; five bytes at most.
    Varint,
    /// Text up to a newline.
    Line,
    /// No frames at all.
    Raw,
}

impl Framing {
    /// Every framing, in the order of the documentation.
    pub const ALL: [Self; 7] = [
        Self::U16Be,
        Self::U16Le,
        Self::U32Be,
        Self::U32Le,
        Self::Varint,
        Self::Line,
        Self::Raw,
    ];

    /// The word for it in configuration, logs and errors.
    pub const fn label(self) -> &'static str {
        match self {
            Self::U16Be => "u16be",
            Self::U16Le => "u16le",
            Self::U32Be => "u32be",
            Self::U32Le => "u32le",
            Self::Varint => "varint",
            Self::Line => "line",
            Self::Raw => "raw",
        }
    }

    /// Bytes of a fixed-size length field.
    const fn fixed_header(self) -> Option<usize> {
        match self {
            Self::U16Be | Self::U16Le => Some(2),
            Self::U32Be | Self::U32Le => Some(4),
            Self::Varint | Self::Line | Self::Raw => None,
        }
    }

    /// The largest number a length field can say.
    const fn largest_length(self) -> u64 {
        match self {
            Self::U16Be | Self::U16Le => u16::MAX as u64,
            Self::U32Be | Self::U32Le | Self::Varint => u32::MAX as u64,
            Self::Line | Self::Raw => u64::MAX,
        }
    }
}

/// The frames of one stream: framing, its options and its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameCodec {
    framing: Framing,
    /// Bytes of the length field that the length itself counts.
    counted_header: usize,
    channel_byte: bool,
    /// The channel of frames that do not name one.
    channel: Channel,
    /// The longest payload that the length field can say.
    sayable: usize,
    max_message: usize,
}

/// One frame at the start of a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Bytes of the buffer this frame took.
    pub consumed: usize,
    /// What the channel byte said or, on streams without one, the codec's.
    pub channel: Channel,
    /// Where in the buffer the message is.
    pub payload: Range<usize>,
}

impl FrameCodec {
    /// `max_message` is the longest payload taken in either direction; with [`Framing::Raw`] it is
    /// the size of the largest piece. `length_includes_header` concerns fixed-size lengths only,
    /// and `channel_byte` does nothing on a raw stream.
    pub fn new(
        framing: Framing,
        length_includes_header: bool,
        channel_byte: bool,
        max_message: usize,
    ) -> Self {
        let channel_byte = channel_byte && framing != Framing::Raw;
        let counted_header = match framing.fixed_header() {
            Some(size) if length_includes_header => size,
            Some(_) | None => 0,
        };
        let extra = counted_header + usize::from(channel_byte);
        let sayable = framing.largest_length().saturating_sub(extra as u64);
        Self {
            framing,
            counted_header,
            channel_byte,
            channel: 0,
            sayable: usize::try_from(sayable).unwrap_or(usize::MAX),
            max_message: max_message.max(1),
        }
    }

    /// Frames that do not say their channel are for this one.
    #[must_use]
    pub fn on_channel(self, channel: Channel) -> Self {
        Self { channel, ..self }
    }

    /// A raw stream is cut into pieces of at most so many bytes; frames stay what they are.
    #[must_use]
    pub fn cut_to(self, piece: usize) -> Self {
        match self.framing {
            Framing::Raw => Self {
                max_message: self.max_message.min(piece.max(1)),
                ..self
            },
            _ => self,
        }
    }

    pub fn framing(&self) -> Framing {
        self.framing
    }

    /// The longest payload this stream can carry: the limit it was given, or less when the length
    /// field cannot say that much.
    pub fn max_message(&self) -> usize {
        self.sayable.min(self.max_message)
    }

    /// The most bytes one frame can take on the stream; a read buffer never needs to hold more.
    pub fn max_frame(&self) -> usize {
        let header = self.framing.fixed_header().unwrap_or(match self.framing {
            Framing::Varint => VARINT_BYTES_MAX,
            Framing::Line => 1,
            Framing::Raw | Framing::U16Be | Framing::U16Le | Framing::U32Be | Framing::U32Le => 0,
        });
        header + usize::from(self.channel_byte) + self.max_message()
    }

    /// The most of `bytes` that a full read should bring. A raw stream that has more to say is read in
    /// whole pieces: the rest of one would be a short message, in a datagram of its own.
    pub fn read_bytes(&self, bytes: usize) -> usize {
        match self.framing {
            Framing::Raw if bytes >= self.max_message => bytes - bytes % self.max_message,
            _ => bytes,
        }
    }

    /// Appends one frame to `out`, which is left alone on an error.
    pub fn encode(
        &self,
        channel: Channel,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), FrameError> {
        self.check_size(payload.len() as u64)?;
        let body = payload.len() + usize::from(self.channel_byte);
        let length = (body + self.counted_header) as u64;
        match self.framing {
            Framing::U16Be => out.extend_from_slice(&(length as u16).to_be_bytes()),
            Framing::U16Le => out.extend_from_slice(&(length as u16).to_le_bytes()),
            Framing::U32Be => out.extend_from_slice(&(length as u32).to_be_bytes()),
            Framing::U32Le => out.extend_from_slice(&(length as u32).to_le_bytes()),
            Framing::Varint => emit_varint(length, out),
            Framing::Line => self.check_line(channel, payload)?,
            Framing::Raw => {}
        }
        if self.channel_byte {
            out.push(channel);
        }
        out.extend_from_slice(payload);
        if self.framing == Framing::Line {
            out.push(b'\n');
        }
        Ok(())
    }

    /// The frame at the start of `buffer`, or `None` while it is incomplete.
    ///
    /// Takes any prefix of the stream, so bytes may arrive one by one. A length above the limit is
    /// an error as soon as it can be read, before a byte of the message has come.
    pub fn decode(&self, buffer: &[u8]) -> Result<Option<Decoded>, FrameError> {
        self.decode_from(0, buffer)
    }

    /// [`decode`](Self::decode), of a buffer whose first `searched` bytes were decoded before and were incomplete: a long
    /// line that comes in small pieces is not searched from its beginning for each of them.
    pub fn decode_from(
        &self,
        searched: usize,
        buffer: &[u8],
    ) -> Result<Option<Decoded>, FrameError> {
        match self.framing {
            Framing::Raw => Ok(self.decode_piece(buffer)),
            Framing::Line => self.decode_line(searched, buffer),
            Framing::U16Be | Framing::U16Le | Framing::U32Be | Framing::U32Le | Framing::Varint => {
                self.decode_counted(buffer)
            }
        }
    }

    fn decode_piece(&self, buffer: &[u8]) -> Option<Decoded> {
        let size = buffer.len().min(self.max_message);
        (size > 0).then_some(Decoded {
            consumed: size,
            channel: self.channel,
            payload: 0..size,
        })
    }

    fn decode_line(&self, searched: usize, buffer: &[u8]) -> Result<Option<Decoded>, FrameError> {
        let prefix = usize::from(self.channel_byte);
        // A newline in here ends a message that is not too long.
        let longest = &buffer[..buffer.len().min(self.max_frame())];
        let new = longest.get(searched..).unwrap_or_default();
        let Some(end) = new.iter().position(|&byte| byte == b'\n') else {
            // Without a newline where the longest line would have had it, this line is too long.
            if longest.len() == self.max_frame() {
                self.check_size((longest.len() - prefix) as u64)?;
            }
            return Ok(None);
        };
        let end = searched + end;
        if end < prefix {
            return Err(FrameError::MissingChannel);
        }
        Ok(Some(Decoded {
            consumed: end + 1,
            channel: self.channel_at(buffer, 0),
            payload: prefix..end,
        }))
    }

    fn decode_counted(&self, buffer: &[u8]) -> Result<Option<Decoded>, FrameError> {
        let Some((header, length)) = self.parse_length(buffer)? else {
            return Ok(None);
        };
        let counted = self.counted_header as u64;
        let Some(body) = length.checked_sub(counted) else {
            return Err(FrameError::LengthBelowHeader {
                length,
                header: counted,
            });
        };
        let prefix = usize::from(self.channel_byte);
        let Some(size) = body.checked_sub(prefix as u64) else {
            return Err(FrameError::MissingChannel);
        };
        self.check_size(size)?;
        let start = header + prefix;
        let end = start + size as usize;
        if buffer.len() < end {
            return Ok(None);
        }
        Ok(Some(Decoded {
            consumed: end,
            channel: self.channel_at(buffer, header),
            payload: start..end,
        }))
    }

    fn channel_at(&self, buffer: &[u8], index: usize) -> Channel {
        if self.channel_byte {
            buffer[index]
        } else {
            self.channel
        }
    }

    /// Size of the length field and what it says; `None` while it is incomplete.
    fn parse_length(&self, buffer: &[u8]) -> Result<Option<(usize, u64)>, FrameError> {
        let Some(size) = self.framing.fixed_header() else {
            return parse_varint(buffer);
        };
        let Some(field) = buffer.get(..size) else {
            return Ok(None);
        };
        let big_endian = matches!(self.framing, Framing::U16Be | Framing::U32Be);
        let append = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        let length = if big_endian {
            field.iter().fold(0, append)
        } else {
            field.iter().rev().fold(0, append)
        };
        Ok(Some((size, length)))
    }

    fn check_size(&self, size: u64) -> Result<(), FrameError> {
        let max = self.max_message();
        if self.framing != Framing::Raw && size > max as u64 {
            return Err(FrameError::TooLong {
                size,
                max,
                framing: self.framing,
                by_field: max < self.max_message,
            });
        }
        Ok(())
    }

    fn check_line(&self, channel: Channel, payload: &[u8]) -> Result<(), FrameError> {
        if self.channel_byte && channel == b'\n' {
            return Err(FrameError::NewlineInLine { at: 0 });
        }
        match payload.iter().position(|&byte| byte == b'\n') {
            Some(at) => Err(FrameError::NewlineInLine { at }),
            None => Ok(()),
        }
    }
}

/// A 32-bit length takes five groups of seven bits.
const VARINT_BYTES_MAX: usize = 5;

fn emit_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Longer forms of small numbers are taken: other writers pad them.
fn parse_varint(buffer: &[u8]) -> Result<Option<(usize, u64)>, FrameError> {
    let mut value = 0;
    for (index, byte) in buffer.iter().take(VARINT_BYTES_MAX).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return if value <= u64::from(u32::MAX) {
                Ok(Some((index + 1, value)))
            } else {
                Err(FrameError::VarintTooLong)
            };
        }
    }
    if buffer.len() >= VARINT_BYTES_MAX {
        return Err(FrameError::VarintTooLong);
    }
    Ok(None)
}

/// Why a message is no frame, or a frame no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// More bytes than `max_message`, or than the length field can say.
    #[error("a message of {size} bytes, and {} frames {}", framing.label(), longest(*max, *by_field))]
    TooLong {
        /// Bytes of the message, as offered or announced; for a line, those seen so far.
        size: u64,
        /// Bytes it may have.
        max: usize,
        /// On which kind of stream.
        framing: Framing,
        /// Whether the length field sets the limit, rather than `max_message`.
        by_field: bool,
    },
    /// A `line` cannot hold a newline.
    #[error("a newline at byte {at} of a message for line framing: choose a framing with a length")]
    NewlineInLine {
        /// Its position in the message.
        at: usize,
    },
    /// With `length_includes_header`, a length smaller than the header it counts.
    #[error(
        "a frame of length {length}, less than its own {header} bytes of header: does the backend set \
         length_includes_header = false?"
    )]
    LengthBelowHeader {
        /// What the length field said.
        length: u64,
        /// Bytes of the length field.
        header: u64,
    },
    /// A varint of more than five bytes or 32 bits.
    #[error("a varint length of more than five bytes or 32 bits")]
    VarintTooLong,
    /// An empty frame on a stream whose frames start with a channel byte.
    #[error("an empty frame, and channel_byte = true wants at least the channel")]
    MissingChannel,
}

/// What to do about a message that is longer than that.
fn longest(max: usize, by_field: bool) -> String {
    match by_field {
        true => format!("can say at most {max}: choose a 32-bit framing"),
        false => format!("take at most {max} here: raise max_message"),
    }
}

#[cfg(test)]
mod tests;
