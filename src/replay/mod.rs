//! `tidegate replay`: runs recorded sessions again, with the recorded clock, and compares.
//!
//! Each session is made again from its rules and origin, under keys of its own: what it decides
//! depends on what its peer said and when, and on sizes, never on keys. Every call is repeated in
//! the recorded order and at the recorded time; what comes of it must be what came of it then.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_proto::{Now, Session, Timestamp, Way};

use crate::capture::pcapng::{self, FileError, Packets};
use crate::capture::record::{Record, What, send_code};
use crate::config::{self, Refusal};
use crate::protocol;

/// What a replay found.
#[derive(Debug)]
pub struct Report {
    /// Sessions that were made again.
    pub sessions: usize,
    /// Calls that were repeated.
    pub calls: u64,
    /// From the first to the last.
    pub span: Duration,
    /// Where it went another way than recorded, first.
    pub difference: Option<Difference>,
}

/// The first call that came to something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The packet of the file that recorded it, as Wireshark counts.
    pub packet: u64,
    /// Which session.
    pub session: u32,
    /// When, from the session's beginning.
    pub at: Duration,
    /// What was recorded, and what came of it now.
    pub what: String,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            packet,
            session,
            at,
            what,
        } = self;
        write!(
            f,
            "packet {packet}, session {session}, {:.6} s after it began: {what}",
            at.as_secs_f64()
        )
    }
}

/// Why there is nothing to compare.
#[derive(Debug)]
pub enum Trouble {
    /// The file is no recording.
    File(FileError),
    /// A packet is no record, or one that cannot be here.
    Record {
        /// Which packet.
        packet: u64,
        /// What about it.
        what: &'static str,
    },
    /// The rules of a session are not understood (any more).
    Rules(Refusal),
    /// There are datagrams only: it was recorded without content.
    NoContent,
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(error) => error.fmt(f),
            Self::Record { packet, what } => write!(f, "packet {packet}: {what}"),
            Self::Rules(refusal) => write!(f, "the recorded rules: {refusal}"),
            Self::NoContent => f.write_str(
                "there are no session records in it, only datagrams: record with content to replay",
            ),
        }
    }
}

impl std::error::Error for Trouble {}

/// Repeats everything in the file until it ends, or until the first difference.
pub fn replay(file: &[u8]) -> Result<Report, Trouble> {
    let mut packets = Packets::new(file).map_err(Trouble::File)?;
    let mut sessions: BTreeMap<u32, Repeated> = BTreeMap::new();
    let mut report = Report {
        sessions: 0,
        calls: 0,
        span: Duration::ZERO,
        difference: None,
    };
    let mut first: Option<Timestamp> = None;
    while let Some(packet) = packets.read().map_err(Trouble::File)? {
        if packet.interface != pcapng::RECORDS {
            continue;
        }
        let trouble = |what| Trouble::Record {
            packet: packet.number,
            what,
        };
        let record = Record::parse(packet.bytes).ok_or(trouble("not a session record"))?;
        let first = *first.get_or_insert(record.at);
        report.span = report.span.max(record.at.since(first));
        if let What::Begin { origin, rules } = record.what {
            if sessions.len() >= SESSIONS_MAX {
                return Err(trouble("too many sessions at a time"));
            }
            let listener = config::load_recorded(rules).map_err(Trouble::Rules)?;
            let repeated = Repeated {
                session: protocol::replayed(&listener, origin, now(record.at)),
                began: record.at,
                latest: record.at,
            };
            if sessions.insert(record.session, repeated).is_some() {
                return Err(trouble("a session that has already begun"));
            }
            report.sessions += 1;
            continue;
        }
        let session = sessions.get_mut(&record.session);
        let session = session.ok_or(trouble("a session that has not begun"))?;
        if record.at < session.latest {
            return Err(trouble("earlier than the one before"));
        }
        // A session that is told to wait for a century would do every tick of it.
        if record.at.since(session.latest) > LEAP_MAX {
            return Err(trouble("more than an hour after the one before"));
        }
        session.latest = record.at;
        report.calls += 1;
        if let Err(what) = session.repeat(record.at, record.what) {
            report.difference = Some(Difference {
                packet: packet.number,
                session: record.session,
                at: record.at.since(session.began),
                what,
            });
            return Ok(report);
        }
    }
    if report.sessions == 0 {
        return Err(Trouble::NoContent);
    }
    Ok(report)
}

struct Repeated {
    session: Box<dyn Session>,
    began: Timestamp,
    latest: Timestamp,
}

impl Repeated {
    /// Does it again; an error says how it differs.
    fn repeat(&mut self, at: Timestamp, what: What<'_>) -> Result<(), String> {
        let now = now(at);
        let session = &mut self.session;
        match what {
            What::Begin { .. } => Ok(()),
            What::Datagram {
                opened,
                outcome,
                bytes,
            } => {
                let mut datagram = Vec::with_capacity(bytes.len());
                if !opened {
                    datagram.extend_from_slice(bytes);
                } else if !session.conceal(bytes, &mut datagram) {
                    return Err("no peer could have sent this datagram".to_owned());
                }
                let repeated = session.handle_datagram(now, &mut datagram);
                match outcome {
                    Some(recorded) => same("the datagram was", recorded, repeated),
                    None => Ok(()),
                }
            }
            What::Timeout => {
                session.handle_timeout(now);
                Ok(())
            }
            What::Admit => {
                session.admit(now);
                Ok(())
            }
            What::Send {
                channel,
                outcome,
                payload,
            } => {
                let repeated = send_code(session.send(now, channel, payload));
                same("queueing a message came to", outcome, repeated)
            }
            What::Finish { reason, linger } => {
                session.finish(now, reason, Duration::from_nanos(linger));
                Ok(())
            }
            What::Close { reason } => {
                session.close(now, reason);
                Ok(())
            }
            What::Written => {
                session.confirm_written(now);
                Ok(())
            }
            What::Transmit(recorded) => {
                let (mut datagram, mut clear) = (Vec::new(), Vec::new());
                let repeated = session.poll_transmit(now, &mut datagram);
                session.reveal(Way::ToPeer, &datagram, &mut clear);
                same_bytes(
                    "a datagram to the peer",
                    recorded,
                    repeated.then_some(&clear),
                )
            }
            What::Event(recorded) => same("the event was", Some(recorded), session.poll_event()),
            What::Message(recorded) => {
                let repeated = session.poll_message();
                same(
                    "the message's channel was",
                    recorded.map(|(channel, reliable, _)| (channel, reliable)),
                    repeated.map(|message| (message.channel, message.reliable)),
                )?;
                same_bytes(
                    "a message from the peer",
                    recorded.map(|(_, _, payload)| payload),
                    repeated.map(|message| message.payload),
                )
            }
        }
    }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, recorded: T, now: T) -> Result<(), String> {
    if recorded == now {
        return Ok(());
    }
    Err(format!("{what} {recorded:?}, now {now:?}"))
}

fn same_bytes(
    what: &str,
    recorded: Option<&[u8]>,
    now: Option<impl AsRef<[u8]>>,
) -> Result<(), String> {
    let now = now.as_ref().map(AsRef::as_ref);
    match (recorded, now) {
        (None, None) => Ok(()),
        (Some(recorded), None) => Err(format!("{what} of {} bytes, now none", recorded.len())),
        (None, Some(now)) => Err(format!("{what}: none, now one of {} bytes", now.len())),
        (Some(recorded), Some(now)) if recorded == now => Ok(()),
        (Some(recorded), Some(now)) => {
            let at = recorded.iter().zip(now).take_while(|(a, b)| a == b).count();
            Err(format!(
                "{what}: recorded {} bytes, now {}, the first difference at byte {at}",
                recorded.len(),
                now.len()
            ))
        }
    }
}

/// Sessions do not look at the calendar; handshakes do, and they are over.
fn now(at: Timestamp) -> Now {
    Now {
        mono: at,
        unix_secs: 0,
    }
}

/// The longest silence of a session that is believed: they all keep themselves alive.
const LEAP_MAX: Duration = Duration::from_secs(3600);

/// Sessions of one file, at most: each takes memory.
const SESSIONS_MAX: usize = 10_000;
