//! `tidegate replay`: runs recorded sessions again, with the recorded clock, and compares.
//!
//! Each session is made again from its rules and origin, under keys of its own: what it decides
//! depends on what its peer said and when, and on sizes, never on keys. Every call is repeated in
//! the recorded order and at the recorded time; what comes of it must be what came of it then.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use tidegate_proto::Timestamp;

use crate::capture::pcapng::{self, Packets};
use crate::capture::record::{Record, What};
use crate::config;

mod repeated;

use repeated::Repeated;

/// What a replay found.
#[derive(Debug, Default)]
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

/// Repeats everything in the file until it ends, or until the first difference. An error is why there is nothing to
/// compare.
pub fn replay(file: &[u8]) -> anyhow::Result<Report> {
    let mut packets = Packets::new(file)?;
    let mut replay = Replay::default();
    while let Some(packet) = packets.read()? {
        if packet.interface != pcapng::RECORDS {
            continue;
        }
        let number = packet.number;
        let record = Record::parse(packet.bytes)
            .with_context(|| format!("packet {number}: not a session record"))?;
        replay.take(number, record)?;
        if replay.report.difference.is_some() {
            break;
        }
    }
    if replay.report.sessions == 0 {
        bail!("there are no session records in it, only datagrams: record with content to replay");
    }
    Ok(replay.report)
}

/// How far it has come.
#[derive(Default)]
struct Replay {
    first: Option<Timestamp>,
    /// All of them, since nothing says which will be heard of again. As many as the file, which is in memory too, begins
    /// with a record of their rules.
    sessions: BTreeMap<u32, Repeated>,
    report: Report,
}

impl Replay {
    fn take(&mut self, packet: u64, record: Record<'_>) -> anyhow::Result<()> {
        let trouble = |what: &str| anyhow!("packet {packet}: {what}");
        let first = *self.first.get_or_insert(record.at);
        self.report.span = self.report.span.max(record.at.since(first));
        if let What::Begin { origin, rules } = record.what {
            let listener = config::load_recorded(rules)
                // Not a cause: those rules are no configuration of this process.
                .map_err(|refusal| anyhow!("the recorded rules: {refusal}"))?;
            let repeated = Repeated::new(&listener, origin, record.at);
            if self.sessions.insert(record.session, repeated).is_some() {
                return Err(trouble("a session that has already begun"));
            }
            self.report.sessions += 1;
            return Ok(());
        }
        let session = self.sessions.get_mut(&record.session);
        let session = session.ok_or_else(|| trouble("a session that has not begun"))?;
        session.move_to(record.at).map_err(trouble)?;
        self.report.calls += 1;
        self.report.difference = match session.repeat(record.at, record.what) {
            Ok(()) => None,
            Err(what) => Some(Difference {
                packet,
                session: record.session,
                at: session.age(),
                what,
            }),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tidegate_proto::{CloseReason, Event, Origin};

    use super::*;
    use crate::config::{Input, load};

    /// What is said of a file with these records: the session, the second, and what it did, or that it began.
    fn said(records: &[(u32, u64, Option<What<'_>>)]) -> String {
        let text = "version = 1\n[backend.game]\ntargets = [\"tcp://127.0.0.1:9\"]\nframing = \"raw\"\n\
                    [listener.game]\nprotocol = \"gaffer\"\nbind = [\"127.0.0.1:0\"]\nbackend = \"game\"\n";
        let input = Input {
            file: Some(("game.toml".into(), text.to_owned())),
            ..Input::default()
        };
        let listeners = load(&input).unwrap().config.listeners;
        let begin = What::Begin {
            origin: Origin::default(),
            rules: &listeners[0].recorded,
        };
        let mut file = Vec::new();
        pcapng::begin(&mut file);
        for &(session, secs, what) in records {
            let at = Timestamp::from_millis(secs * 1_000);
            let what = what.unwrap_or(begin);
            let mut bytes = Vec::new();
            Record { session, at, what }.emit(&mut bytes);
            pcapng::packet(&mut file, pcapng::RECORDS, 0, &bytes, "");
        }
        match replay(&file).map(|report| (report.sessions, report.difference)) {
            Ok((sessions, None)) => format!("{sessions} sessions"),
            Ok((_, Some(difference))) => difference.to_string(),
            Err(error) => error.to_string(),
        }
    }

    const BEGUN: (u32, u64, Option<What<'_>>) = (3, 5, None);
    const WRITTEN: Option<What<'_>> = Some(What::Written);

    #[test]
    fn what_cannot_have_happened_is_named() {
        for (records, expected) in [
            (
                &[BEGUN, (3, 3_605, WRITTEN), (4, 5, None)][..],
                "2 sessions",
            ),
            (&[(3, 5, WRITTEN)], "packet 1: a session that has not begun"),
            (
                &[BEGUN, BEGUN],
                "packet 2: a session that has already begun",
            ),
            (
                &[BEGUN, (3, 4, WRITTEN)],
                "packet 2: earlier than the one before",
            ),
            (
                &[BEGUN, (3, 3_606, WRITTEN)],
                "packet 2: more than an hour after the one before",
            ),
        ] {
            assert_eq!(said(records), expected);
        }
    }

    /// A join that is denied makes a short session, and there may be a storm of them.
    #[test]
    fn a_recording_may_have_any_number_of_sessions() {
        let reason = CloseReason::Kicked;
        let denied = [
            None,
            Some(What::Event(Event::Authenticated)),
            Some(What::Close { reason }),
            Some(What::Event(Event::Closed(reason))),
        ];
        let records: Vec<_> = (0..11_000)
            .flat_map(|session| denied.map(|what| (session, 5, what)))
            .collect();
        assert_eq!(said(&records), "11000 sessions");
    }

    #[test]
    fn what_does_not_come_again_is_a_difference() {
        let ended = What::Event(Event::Closed(CloseReason::Kicked));
        let heard = What::Message(Some((0, true, b"hello")));
        for (what, expected) in [
            (ended, "the event was Some(Closed(Kicked)), now "),
            (heard, "the message's channel was Some((0, true)), now None"),
            (What::Transmit(Some(b"hello")), "a datagram to the peer"),
        ] {
            let found = said(&[BEGUN, (3, 6, Some(what))]);
            let place = "packet 2, session 3, 1.000000 s after it began: ";
            let came_to = found.strip_prefix(place).unwrap_or_default();
            assert!(came_to.starts_with(expected), "{found}");
        }
    }
}
