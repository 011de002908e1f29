//! A session that is written down while it lives.

use std::time::Duration;

use tidegate_proto::{
    Allowance, Channel, CloseReason, Deadline, Event, Held, Identity, Message, Now, Origin, Reject,
    SendError, Session, Stats, Timestamp, Way,
};

use super::record::{What, send_code};
use super::track::Track;

/// Passes every call on, and tells the track what was asked and answered. What changes nothing is
/// not told.
pub(super) struct Recorded {
    session: Box<dyn Session>,
    track: Track,
    /// The last reading of the clock, for calls that come without one.
    at: Timestamp,
    /// Nothing has happened since `poll_message` last had nothing.
    is_quiet: bool,
    clear: Vec<u8>,
}

impl Recorded {
    /// From when it was accepted; `first` is the datagram that it has already taken.
    pub(super) fn new(
        session: Box<dyn Session>,
        mut track: Track,
        now: Now,
        rules: &str,
        first: Option<&[u8]>,
    ) -> Self {
        let origin = session.origin();
        track.tell(now.mono, What::Begin { origin, rules });
        if let Some(bytes) = first {
            track.tell(
                now.mono,
                What::Datagram {
                    opened: true,
                    outcome: None,
                    bytes,
                },
            );
        }
        Self {
            session,
            track,
            at: now.mono,
            is_quiet: false,
            clear: Vec::new(),
        }
    }

    fn tell(&mut self, now: Now, what: What<'_>) {
        self.at = now.mono;
        self.is_quiet = false;
        self.track.tell(now.mono, what);
    }
}

#[deny(
    clippy::missing_trait_methods,
    reason = "what is not passed on would have the answer of a session that cannot do it"
)]
impl Session for Recorded {
    fn handle_datagram(&mut self, now: Now, datagram: &mut [u8]) -> Result<(), Reject> {
        if !self.track.is_live() {
            return self.session.handle_datagram(now, datagram);
        }
        self.track.wire(now.mono, Way::FromPeer, datagram);
        let mut bytes = std::mem::take(&mut self.clear);
        bytes.clear();
        // Before the call: it decrypts in place.
        let opened = self.session.reveal(Way::FromPeer, datagram, &mut bytes);
        if !opened {
            bytes.extend_from_slice(datagram);
        }
        let outcome = self.session.handle_datagram(now, datagram);
        self.tell(
            now,
            What::Datagram {
                opened,
                outcome: Some(outcome),
                bytes: &bytes,
            },
        );
        self.clear = bytes;
        outcome
    }

    fn handle_timeout(&mut self, now: Now) {
        self.session.handle_timeout(now);
        self.tell(now, What::Timeout);
    }

    fn admit(&mut self, now: Now) {
        self.session.admit(now);
        self.tell(now, What::Admit);
    }

    fn send(&mut self, now: Now, channel: Channel, payload: &[u8]) -> Result<(), SendError> {
        let outcome = self.session.send(now, channel, payload);
        self.tell(
            now,
            What::Send {
                channel,
                outcome: send_code(outcome),
                payload,
            },
        );
        outcome
    }

    fn finish(&mut self, now: Now, reason: CloseReason, linger: Duration) {
        self.session.finish(now, reason, linger);
        let linger = u64::try_from(linger.as_nanos()).unwrap_or(u64::MAX);
        self.tell(now, What::Finish { reason, linger });
    }

    fn close(&mut self, now: Now, reason: CloseReason) {
        self.session.close(now, reason);
        self.tell(now, What::Close { reason });
    }

    fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> bool {
        let from = out.len();
        let transmitted = self.session.poll_transmit(now, out);
        if !self.track.is_live() {
            return transmitted;
        }
        if !transmitted {
            // Also asking changes a session: it may plan.
            self.tell(now, What::Transmit(None));
            return false;
        }
        let datagram = &out[from..];
        self.track.wire(now.mono, Way::ToPeer, datagram);
        let mut bytes = std::mem::take(&mut self.clear);
        bytes.clear();
        if self.session.reveal(Way::ToPeer, datagram, &mut bytes) {
            self.tell(now, What::Transmit(Some(&bytes)));
        } else {
            // Not to be written as it is, and without it the rest cannot be repeated.
            self.track.cut();
        }
        self.clear = bytes;
        true
    }

    fn poll_event(&mut self) -> Option<Event> {
        let event = self.session.poll_event()?;
        self.track.tell(self.at, What::Event(event));
        Some(event)
    }

    fn poll_message(&mut self) -> Option<Message<'_>> {
        match self.session.poll_message() {
            None => {
                if !std::mem::replace(&mut self.is_quiet, true) {
                    self.track.tell(self.at, What::Message(None));
                }
                None
            }
            Some(message) => {
                self.is_quiet = false;
                let told = (message.channel, message.reliable, message.payload);
                self.track.tell(self.at, What::Message(Some(told)));
                Some(message)
            }
        }
    }

    fn inbox_bytes(&self) -> usize {
        self.session.inbox_bytes()
    }

    fn held(&self) -> Held {
        self.session.held()
    }

    fn set_allowance(&mut self, allowance: Allowance) {
        self.session.set_allowance(allowance);
        self.track.tell(self.at, What::Allowance(allowance));
    }

    /// Not recorded: it is between the session and its quota.
    fn take_surcharge(&mut self) -> usize {
        self.session.take_surcharge()
    }

    /// Not recorded: a session that is over does nothing with it.
    fn release(&mut self) {
        self.session.release();
    }

    fn confirm_written(&mut self, now: Now) {
        self.session.confirm_written(now);
        self.tell(now, What::Written);
    }

    fn has_room(&self) -> bool {
        self.session.has_room()
    }

    fn piece_bytes(&self) -> usize {
        self.session.piece_bytes()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        self.session.poll_timeout()
    }

    fn is_urgent(&self) -> bool {
        self.session.is_urgent()
    }

    fn vouches_for(&self, datagram: &[u8]) -> bool {
        self.session.vouches_for(datagram)
    }

    fn reads_as_goodbye(&self, datagram: &[u8]) -> bool {
        self.session.reads_as_goodbye(datagram)
    }

    fn identity(&self) -> Identity<'_> {
        self.session.identity()
    }

    fn stats(&self) -> Stats {
        self.session.stats()
    }

    fn origin(&self) -> Origin {
        self.session.origin()
    }

    fn reveal(&self, way: Way, datagram: &[u8], clear: &mut Vec<u8>) -> bool {
        self.session.reveal(way, datagram, clear)
    }

    fn conceal(&self, clear: &[u8], datagram: &mut Vec<u8>) -> bool {
        self.session.conceal(clear, datagram)
    }
}
