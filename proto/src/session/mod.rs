//! The two interfaces everything hangs on: [`Session`], one peer's protocol state, and
//! [`Acceptor`], which decides what a datagram from a stranger is worth. What can go wrong is in
//! two closed lists, [`Reject`] for a datagram and [`CloseReason`] for a session.
//!
//! ```text
//!            handle_datagram  handle_timeout  admit  send  finish  close
//!                   │               │           │     │      │      │      what happened
//!                   ▼               ▼           ▼     ▼      ▼      ▼
//!            ┌───────────────────────────────────────────────────────────┐
//!            │                         Session                           │
//!            └───────────────────────────────────────────────────────────┘
//!                   │               │                 │         │          what to do about it
//!                   ▼               ▼                 ▼         ▼
//!             poll_transmit    poll_event       poll_message  poll_timeout
//! ```
//!
//! The life of a session, whatever its protocol:
//!
//! ```text
//!   new ──▶ proving ──Event::Authenticated──▶ waiting ──admit()──▶ open ──Event::Connected
//!              │                                 │                  │
//!              │                                 │ close()          │ finish(): flush what was sent,
//!              ▼                                 ▼                  ▼ then say goodbye
//!           closed ◀──────────────────────── Event::Closed(reason) ─┘
//! ```

mod acceptor;
mod close_reason;
mod held;
mod reject;

use std::time::Duration;

use crate::stats::Stats;
use crate::time::{Deadline, Now};

pub use acceptor::{Acceptor, Stranger, StrangerClass, Verdict};
pub use close_reason::CloseReason;
pub use held::{Allowance, Held};
pub use reject::Reject;

/// One peer's protocol state.
///
/// Contract: after any call that changes it (`handle_*`, `admit`, `send`, `finish`, `close`), the
/// owner polls `poll_transmit` and `poll_event` until they are dry and then reads `poll_timeout`.
/// `poll_message` is different: it is polled only while the far side of the relay has room, and
/// not polling it is the back-pressure (see [`Session::poll_message`]).
pub trait Session: Send {
    /// A datagram arrived from this session's address. May decrypt it in place.
    fn handle_datagram(&mut self, now: Now, datagram: &mut [u8]) -> Result<(), Reject>;

    /// A deadline has passed. Harmless when called early or often.
    fn handle_timeout(&mut self, now: Now);

    /// The backend of an authenticated peer is there: seat it. Does nothing in any other state.
    fn admit(&mut self, now: Now);

    /// Queues one message for the peer. Nothing is queued when an error is returned.
    fn send(&mut self, now: Now, channel: Channel, payload: &[u8]) -> Result<(), SendError>;

    /// Takes nothing more from the owner, delivers what was sent, then closes with `reason`; after
    /// `linger` without any progress it closes even if some of it was not acknowledged.
    fn finish(&mut self, now: Now, reason: CloseReason, linger: Duration);

    /// Says goodbye in whatever way the protocol has and is over. A session that was never admitted
    /// denies instead, where its protocol can.
    fn close(&mut self, now: Now, reason: CloseReason);

    /// Appends exactly one datagram to `out` and returns true, or leaves it alone and returns false.
    fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> bool;

    /// The next thing the owner should know. [`Event::Closed`] is the last one, and comes once.
    fn poll_event(&mut self) -> Option<Event>;

    /// The next message from the peer, in order, at most once. Taken when returned.
    ///
    /// What is not polled stays in the session's bounded inbox; when that is full the session
    /// stops acknowledging, so that the peer keeps what we cannot. That is the whole back-pressure.
    /// Still polled after `Event::Closed`: what the peer was told we have must be delivered.
    fn poll_message(&mut self) -> Option<Message<'_>>;

    /// Bytes of payload that `poll_message` still holds: [`Held::inbox`] without what each message is charged beside.
    fn inbox_bytes(&self) -> usize;

    /// What its queues hold now. Asked for whenever something moved, so it must be cheap.
    fn held(&self) -> Held;

    /// What of the peer's messages it may hold from now on, besides its own limits. What goes beyond
    /// is refused and so not acknowledged; what it holds already, it keeps.
    fn set_allowance(&mut self, allowance: Allowance);

    /// Bytes that its peer owes, beyond the length of its datagrams, for what has arrived since this was last asked: of a
    /// packet full of tiny messages, each takes as much work as a longer one.
    fn take_surcharge(&mut self) -> usize {
        0
    }

    /// Lets go of all that a session which is over has no use for: what waits for the peer or for
    /// something before it. What `poll_message` holds stays. The owner calls it after
    /// `Event::Closed`.
    fn release(&mut self);

    /// Everything polled so far was written to where it goes, or dropped: to be said whenever that was
    /// something. Only sessions that acknowledge after the write ([`AckPolicy::Strict`]) care.
    fn confirm_written(&mut self, _now: Now) {}

    /// Whether [`Session::send`] on the reliable channel would take another message of any legal
    /// size now. While it is false, the owner stops reading from the backend. True before
    /// [`Event::Connected`] where what is said then leaves at once, and never before the peer can take it.
    fn has_room(&self) -> bool;

    /// The longest message that fills one datagram now: what a stream without messages of its own is
    /// best cut into. A limit on top of whoever asks.
    fn piece_bytes(&self) -> usize {
        usize::MAX
    }

    /// When this session next wants `handle_timeout`; `None` only after it closed.
    fn poll_timeout(&self) -> Option<Deadline>;

    /// True while datagrams should leave before more are handled: an acknowledgement would come too
    /// late for the peer's window. The owner then polls `poll_transmit` between two datagrams.
    fn is_urgent(&self) -> bool {
        false
    }

    /// True if this datagram, which came from another address, was certainly made by this
    /// session's peer (it carries a proof under the session's key). Changes nothing.
    fn vouches_for(&self, _datagram: &[u8]) -> bool {
        false
    }

    /// True if this datagram, should its proof hold, is the peer's goodbye. Reads its kind, and proves nothing.
    fn reads_as_goodbye(&self, _datagram: &[u8]) -> bool {
        false
    }

    /// Who the peer says it is, or, for protocols with authentication, who it is.
    fn identity(&self) -> Identity<'_>;

    /// Plain counters and present values, gathered when asked for.
    fn stats(&self) -> Stats;

    /// What it began with, for a recording.
    fn origin(&self) -> Origin {
        Origin::default()
    }

    /// For a recording: appends what a datagram of this session says, without its encryption and
    /// as long as it is; false for one that it cannot open. Changes nothing.
    fn reveal(&self, _way: Way, datagram: &[u8], clear: &mut Vec<u8>) -> bool {
        clear.extend_from_slice(datagram);
        true
    }

    /// For a replay: appends the datagram by which this session's peer would say what was revealed;
    /// false when no peer would. Changes nothing.
    fn conceal(&self, clear: &[u8], datagram: &mut Vec<u8>) -> bool {
        datagram.extend_from_slice(clear);
        true
    }
}

/// Which way a datagram goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It arrived.
    FromPeer,
    /// It leaves.
    ToPeer,
}

/// What an accepted session began with, besides its rules and the time: numbers that only its
/// protocol reads, each in an order of its own (see its session's `replayed`). There are no keys
/// among them: with them and its rules, a session under keys of its own repeats what the recorded
/// one did.
pub type Origin = [u64; 5];

/// A channel of messages with one ordering rule: its index among the protocol's channels.
pub type Channel = u8;

/// One message from the peer, whole, borrowed from the session's inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The channel it came on.
    pub channel: Channel,
    /// Whether that channel is reliable and ordered.
    pub reliable: bool,
    /// What the application sent.
    pub payload: &'a [u8],
}

/// What the owner of a session should know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The peer proved who it is (yojimbo) or that it receives what we send (gaffer, rudp). The
    /// owner opens the backend and then calls [`Session::admit`] or [`Session::close`].
    Authenticated,
    /// Messages can flow both ways.
    Connected,
    /// The session is over; drain `poll_message` and `poll_transmit`, then drop it.
    Closed(CloseReason),
}

/// Who a peer is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity<'a> {
    /// The token's client id; `None` where the protocol has no authentication.
    pub client_id: Option<u64>,
    /// The token's user data, 256 bytes; empty where there is none.
    pub user_data: &'a [u8],
}

/// When a packet counts as received, that is, when its sender may forget it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AckPolicy {
    /// When its messages were taken by the bounded inbox.
    #[default]
    Queued,
    /// When its messages were written to the backend's socket, but for those behind a missing one, which cannot be
    /// before it comes: with these at once, and with that one once all of them were written. For yojimbo.
    Strict,
}

/// Why a message was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The queue for this peer is full, or nothing can leave yet; wait until [`Session::has_room`].
    Full,
    /// Longer than the channel can carry.
    TooLarge {
        /// Bytes offered.
        size: usize,
        /// Bytes the channel takes at most.
        max: usize,
    },
    /// The channel does not exist in this protocol's configuration.
    NoSuchChannel,
    /// The session is not open (any more).
    Closed,
}

impl std::fmt::Display for SendError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Full => f.write_str("the queue for the peer is full: try again once it has room"),
            Self::TooLarge { size, max } => write!(
                f,
                "the message has {size} bytes, and the channel takes {max}: send it in parts"
            ),
            Self::NoSuchChannel => f.write_str("the protocol has no such channel in its layout"),
            Self::Closed => f.write_str("the session is not open: nothing more is sent"),
        }
    }
}

impl std::error::Error for SendError {}
