//! What a recording says of a session: each call that its owner made, and what came of it.
//!
//! ```text
//!   kind u8 | session u32 | nanoseconds u64 | what the kind says       little-endian
//! ```
//!
//! Datagrams are here without their encryption (`Session::reveal`): a replay seals them again under
//! keys of its own, so no key of a player is ever written. Reading takes any bytes.

use data_encoding::HEXLOWER;
use tidegate_proto::cursor::Reader;
use tidegate_proto::{Allowance, CloseReason, Event, Origin, Reject, SendError, Timestamp};

/// One call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Which session, counted from 0 in each recording.
    pub session: u32,
    /// The owner's clock.
    pub at: Timestamp,
    /// Which call.
    pub what: What<'a>,
}

/// A call, and what came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What<'a> {
    /// The session was accepted.
    Begin {
        /// What it began with.
        origin: Origin,
        /// Its listener, as a configuration file.
        rules: &'a str,
    },
    /// `handle_datagram`.
    Datagram {
        /// It could be opened, and is here in clear; else as it came.
        opened: bool,
        /// `None` for the one that came with the acceptance.
        outcome: Option<Result<(), Reject>>,
        /// All of it.
        bytes: &'a [u8],
    },
    /// `handle_timeout`.
    Timeout,
    /// `admit`.
    Admit,
    /// `send`.
    Send {
        /// On this channel.
        channel: u8,
        /// Whether it was queued: [`send_code`].
        outcome: u8,
        /// All of it.
        payload: &'a [u8],
    },
    /// `finish`.
    Finish {
        /// Why.
        reason: CloseReason,
        /// For how long, in nanoseconds.
        linger: u64,
    },
    /// `close`.
    Close {
        /// Why.
        reason: CloseReason,
    },
    /// `confirm_written`.
    Written,
    /// `poll_transmit`: a datagram in clear, or none.
    Transmit(Option<&'a [u8]>),
    /// `poll_event`, when there was one.
    Event(Event),
    /// `poll_message`: channel, reliable, payload, or none.
    Message(Option<(u8, bool, &'a [u8])>),
    /// `set_allowance`.
    Allowance(Allowance),
}

impl<'a> Record<'a> {
    /// Appends it.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.push(self.what.kind());
        out.extend_from_slice(&self.session.to_le_bytes());
        out.extend_from_slice(&self.at.as_nanos().to_le_bytes());
        self.what.emit(out);
    }

    /// Reads one; `None` for what is none.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let kind = reader.u8().ok()?;
        let session = reader.u32_le().ok()?;
        let at = Timestamp::from_nanos(reader.u64_le().ok()?);
        let what = What::parse(kind, reader)?;
        Some(Self { session, at, what })
    }
}

impl<'a> What<'a> {
    const fn kind(&self) -> u8 {
        match self {
            Self::Begin { .. } => 1,
            Self::Datagram { .. } => 2,
            Self::Timeout => 3,
            Self::Admit => 4,
            Self::Send { .. } => 5,
            Self::Finish { .. } => 6,
            Self::Close { .. } => 7,
            Self::Written => 8,
            Self::Transmit(_) => 9,
            Self::Event(_) => 10,
            Self::Message(_) => 11,
            Self::Allowance(_) => 12,
        }
    }

    /// What is behind the kind, the session and the time.
    fn emit(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Begin { origin, rules } => {
                for number in origin {
                    out.extend_from_slice(&number.to_le_bytes());
                }
                out.extend_from_slice(rules.as_bytes());
            }
            Self::Datagram {
                opened,
                outcome,
                bytes,
            } => {
                out.push(opened.into());
                out.push(match outcome {
                    None => UNKNOWN,
                    Some(Ok(())) => TAKEN,
                    Some(Err(reject)) => reject as u8,
                });
                out.extend_from_slice(bytes);
            }
            Self::Timeout | Self::Admit | Self::Written => {}
            Self::Send {
                channel,
                outcome,
                payload,
            } => {
                out.extend_from_slice(&[channel, outcome]);
                out.extend_from_slice(payload);
            }
            Self::Finish { reason, linger } => {
                out.push(reason as u8);
                out.extend_from_slice(&linger.to_le_bytes());
            }
            Self::Close { reason } => out.push(reason as u8),
            Self::Transmit(None) | Self::Message(None) => out.push(0),
            Self::Transmit(Some(bytes)) => {
                out.push(1);
                out.extend_from_slice(bytes);
            }
            Self::Event(event) => out.push(match event {
                Event::Authenticated => AUTHENTICATED,
                Event::Connected => CONNECTED,
                Event::Closed(reason) => reason as u8,
            }),
            Self::Message(Some((channel, reliable, payload))) => {
                out.extend_from_slice(&[1, channel, reliable.into()]);
                out.extend_from_slice(payload);
            }
            Self::Allowance(Allowance {
                inbox,
                ahead,
                pieces,
            }) => {
                for bytes in [inbox, ahead, pieces] {
                    out.extend_from_slice(&(bytes as u64).to_le_bytes());
                }
            }
        }
    }

    fn parse(kind: u8, mut reader: Reader<'a>) -> Option<Self> {
        Some(match kind {
            1 => {
                let mut origin = Origin::default();
                for number in &mut origin {
                    *number = reader.u64_le().ok()?;
                }
                Self::Begin {
                    origin,
                    rules: std::str::from_utf8(reader.rest()).ok()?,
                }
            }
            2 => Self::Datagram {
                opened: flag(&mut reader)?,
                outcome: match reader.u8().ok()? {
                    UNKNOWN => None,
                    TAKEN => Some(Ok(())),
                    code => Some(Err(*Reject::ALL.get(usize::from(code))?)),
                },
                bytes: reader.rest(),
            },
            3 => Self::Timeout,
            4 => Self::Admit,
            5 => Self::Send {
                channel: reader.u8().ok()?,
                outcome: reader.u8().ok()?,
                payload: reader.rest(),
            },
            6 => Self::Finish {
                reason: reason(reader.u8().ok()?)?,
                linger: reader.u64_le().ok()?,
            },
            7 => Self::Close {
                reason: reason(reader.u8().ok()?)?,
            },
            8 => Self::Written,
            9 => Self::Transmit(if flag(&mut reader)? {
                Some(reader.rest())
            } else {
                None
            }),
            10 => Self::Event(match reader.u8().ok()? {
                AUTHENTICATED => Event::Authenticated,
                CONNECTED => Event::Connected,
                code => Event::Closed(reason(code)?),
            }),
            11 if flag(&mut reader)? => {
                let (channel, reliable) = (reader.u8().ok()?, flag(&mut reader)?);
                Self::Message(Some((channel, reliable, reader.rest())))
            }
            11 => Self::Message(None),
            12 => Self::Allowance(Allowance {
                inbox: usize::try_from(reader.u64_le().ok()?).ok()?,
                ahead: usize::try_from(reader.u64_le().ok()?).ok()?,
                pieces: usize::try_from(reader.u64_le().ok()?).ok()?,
            }),
            _ => return None,
        })
    }

    /// For people: who said what. Empty for calls that carry no message.
    pub(super) fn comment(&self) -> String {
        match *self {
            Self::Message(Some((channel, _, payload))) => {
                format!("peer, channel {channel}, {}", readable(payload))
            }
            Self::Send {
                channel,
                outcome: 0,
                payload,
            } => format!("backend, channel {channel}, {}", readable(payload)),
            Self::Event(event) => format!("{event:?}"),
            _ => String::new(),
        }
    }
}

/// The beginning of a payload: as text where it is text, in hexadecimal where it is not.
fn readable(payload: &[u8]) -> String {
    const SHOWN: usize = 64;
    let shown = &payload[..payload.len().min(SHOWN)];
    let is_text = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
    let mut text = format!("{} bytes: ", payload.len());
    if shown.iter().all(is_text) {
        text.extend(shown.iter().copied().map(char::from));
    } else {
        HEXLOWER.encode_append(shown, &mut text);
    }
    if payload.len() > SHOWN {
        text.push_str("...");
    }
    text
}

/// What `send` said, as one byte.
pub fn send_code(outcome: Result<(), SendError>) -> u8 {
    match outcome {
        Ok(()) => 0,
        Err(SendError::Full) => 1,
        Err(SendError::TooLarge { .. }) => 2,
        Err(SendError::NoSuchChannel) => 3,
        Err(SendError::Closed) => 4,
    }
}

fn flag(reader: &mut Reader<'_>) -> Option<bool> {
    match reader.u8().ok()? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

fn reason(code: u8) -> Option<CloseReason> {
    CloseReason::ALL.get(usize::from(code)).copied()
}

// Outcomes and events share a byte with the numbers of rejects and reasons, which are small.
const TAKEN: u8 = 0xff;
const UNKNOWN: u8 = 0xfe;
const AUTHENTICATED: u8 = 0xff;
const CONNECTED: u8 = 0xfe;
