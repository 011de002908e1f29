//! One session that does again what a recorded one did.

use std::time::Duration;

use tidegate_proto::{Channel, Event, Now, Origin, Reject, Session, Timestamp, Way};

use crate::capture::record::{What, send_code};
use crate::config::Listener;
use crate::protocol;

pub(super) struct Repeated {
    session: Box<dyn Session>,
    began: Timestamp,
    latest: Timestamp,
}

impl Repeated {
    pub(super) fn new(listener: &Listener, origin: Origin, at: Timestamp) -> Self {
        Self {
            session: protocol::replayed(listener, origin, now(at)),
            began: at,
            latest: at,
        }
    }

    /// From its beginning to its latest call.
    pub(super) fn age(&self) -> Duration {
        self.latest.since(self.began)
    }

    /// The time of its next call.
    pub(super) fn move_to(&mut self, at: Timestamp) -> Result<(), &'static str> {
        if at < self.latest {
            return Err("earlier than the one before");
        }
        // A session that is told to wait for a century would do every tick of it.
        if at.since(self.latest) > LEAP_MAX {
            return Err("more than an hour after the one before");
        }
        self.latest = at;
        Ok(())
    }

    /// Does it again; an error says how it differs.
    pub(super) fn repeat(&mut self, at: Timestamp, what: What<'_>) -> Result<(), String> {
        let now = now(at);
        let session = &mut self.session;
        match what {
            What::Begin { .. } => {}
            What::Datagram {
                opened,
                outcome,
                bytes,
            } => return self.repeat_datagram(now, opened, outcome, bytes),
            What::Timeout => session.handle_timeout(now),
            What::Admit => session.admit(now),
            What::Send {
                channel,
                outcome,
                payload,
            } => {
                let repeated = send_code(session.send(now, channel, payload));
                return same("queueing a message came to", outcome, repeated);
            }
            What::Finish { reason, linger } => {
                session.finish(now, reason, Duration::from_nanos(linger));
            }
            What::Close { reason } => session.close(now, reason),
            What::Written => session.confirm_written(now),
            What::Transmit(recorded) => return self.repeat_transmit(now, recorded),
            What::Event(recorded) => {
                let repeated = session.poll_event();
                // As its owner did: a file may hold many that are over.
                if matches!(repeated, Some(Event::Closed(_))) {
                    session.release();
                }
                return same("the event was", Some(recorded), repeated);
            }
            What::Message(recorded) => return self.repeat_message(recorded),
            What::Allowance(allowance) => session.set_allowance(allowance),
        }
        Ok(())
    }

    fn repeat_datagram(
        &mut self,
        now: Now,
        opened: bool,
        outcome: Option<Result<(), Reject>>,
        bytes: &[u8],
    ) -> Result<(), String> {
        let mut datagram = Vec::with_capacity(bytes.len());
        if !opened {
            datagram.extend_from_slice(bytes);
        } else if !self.session.conceal(bytes, &mut datagram) {
            return Err("no peer could have sent this datagram".to_owned());
        }
        let repeated = self.session.handle_datagram(now, &mut datagram);
        match outcome {
            Some(recorded) => same("the datagram was", recorded, repeated),
            None => Ok(()),
        }
    }

    fn repeat_transmit(&mut self, now: Now, recorded: Option<&[u8]>) -> Result<(), String> {
        let (mut datagram, mut clear) = (Vec::new(), Vec::new());
        let repeated = self.session.poll_transmit(now, &mut datagram);
        self.session.reveal(Way::ToPeer, &datagram, &mut clear);
        let repeated = repeated.then_some(&clear);
        same_bytes("a datagram to the peer", recorded, repeated)
    }

    fn repeat_message(&mut self, recorded: Option<(Channel, bool, &[u8])>) -> Result<(), String> {
        let repeated = self.session.poll_message();
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
