//! A protocol small enough to read at a glance, with everything a backend stream can feel: ordered
//! messages, a bounded inbox that refuses, a bounded outbox, a goodbye with a reason.
//!
//! ```text
//!   peer                                          session
//!   H  hello                    ──▶               accepted, authenticated
//!                               ◀──  W            admitted ("welcome")
//!   M  number(4) payload        ──▶               message, taken when it is the next one
//!   U  payload                  ──▶               unreliable message
//!   N  anything                 ──▶               answered at once, and not at the end of the turn
//!                               ◀──  A number(4)  next number expected
//!                               ◀──  M number(4) payload
//!   A  number(4)                ──▶               next number expected
//!   V                           ──▶               the session's, wherever it comes from
//!   V number(4) payload         ──▶               such a message
//!   F  bytes                    ──▶               a piece of something that never becomes whole
//!   T  bytes                    ──▶               as many messages that are no news, and are to be paid for
//!   P                           ──▶               a bug: it panics
//!   B                           ──▶               goodbye
//!                               ◀──  B reason     goodbye
//! ```

use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use super::PATIENCE;
use tidegate_proto::inbox::{Inbox, MESSAGE_OVERHEAD};
use tidegate_proto::{
    Acceptor, Allowance, Channel, CloseReason, Deadline, Event, Held, Identity, Message, Now,
    Reject, SendError, Session, Stats, Stranger, StrangerClass, Timestamp, Verdict, Wake,
};

/// Gives a session to everybody who says hello.
pub struct ToyAcceptor;

impl Acceptor for ToyAcceptor {
    fn classify(
        &mut self,
        _now: Now,
        _from: SocketAddr,
        datagram: &[u8],
    ) -> Result<StrangerClass, Reject> {
        Ok(match datagram.first() {
            Some(b'M') => StrangerClass::Early,
            _ => StrangerClass::Unproven,
        })
    }

    fn handle_unknown(&mut self, _now: Now, stranger: Stranger<'_>) -> Verdict {
        match &*stranger.datagram {
            b"H" => Verdict::Accept(Box::new(Toy::new())),
            _ => Verdict::Reject(Reject::UnknownPeer),
        }
    }
}

pub struct Toy {
    inbox: Inbox,
    pieces: usize,
    surcharge: usize,
    expected: u32,
    owes_ack: bool,
    is_urgent: bool,
    outbox: VecDeque<Vec<u8>>,
    /// Number of the first in the outbox; how many of it were sent.
    first: u32,
    sent: usize,
    resend_at: Timestamp,
    /// Longer each time in vain: ten peers that hear nothing would keep a slow machine from all else.
    patience: Duration,
    open: bool,
    welcome: bool,
    goodbye: Option<CloseReason>,
    /// With which reason it finishes, how long it lingers without progress, and until when that is.
    finishing: Option<(CloseReason, Duration, Timestamp)>,
    closed: bool,
    events: VecDeque<Event>,
    stats: Stats,
}

const OUTBOX: usize = 256;
const RESEND: Duration = Duration::from_millis(50);

impl Toy {
    fn new() -> Self {
        Self {
            inbox: Inbox::new(64 * 1024),
            pieces: 0,
            surcharge: 0,
            expected: 0,
            owes_ack: false,
            is_urgent: false,
            outbox: VecDeque::new(),
            first: 0,
            sent: 0,
            resend_at: Timestamp::MAX,
            patience: RESEND,
            open: false,
            welcome: false,
            goodbye: None,
            finishing: None,
            closed: false,
            events: [Event::Authenticated].into(),
            stats: Stats::default(),
        }
    }

    fn take_message(&mut self, numbered: &[u8]) -> Result<(), Reject> {
        let (number, payload) = number(numbered).ok_or(Reject::Malformed)?;
        self.owes_ack = true;
        if number != self.expected {
            return Err(Reject::Stale);
        }
        if !self.inbox.is_taking() {
            return Err(Reject::Refused);
        }
        self.inbox.push(0, true, payload);
        self.expected += 1;
        self.stats.messages_received += 1;
        Ok(())
    }

    fn take_ack(&mut self, now: Now, numbered: &[u8]) -> Result<(), Reject> {
        let (next, _) = number(numbered).ok_or(Reject::Malformed)?;
        let acked = next.wrapping_sub(self.first) as usize;
        if acked > self.outbox.len() {
            return Err(Reject::BadAck);
        }
        self.outbox.drain(..acked);
        self.first = next;
        self.sent = self.sent.saturating_sub(acked);
        self.stats.messages_acked += acked as u64;
        if acked > 0 {
            self.patience = RESEND;
            self.resend_at = now.mono + self.patience;
        }
        if let Some((reason, linger, until)) = &mut self.finishing {
            let reason = *reason;
            if acked > 0 {
                *until = now.mono + *linger;
            }
            if self.outbox.is_empty() {
                self.close(now, reason);
            }
        }
        Ok(())
    }
}

fn number(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u32::from_be_bytes(*number), rest))
}

impl Session for Toy {
    fn handle_datagram(&mut self, now: Now, datagram: &mut [u8]) -> Result<(), Reject> {
        if self.closed {
            return Err(Reject::UnknownPeer);
        }
        match datagram.split_first() {
            Some((b'H' | b'V', [])) => Ok(()),
            Some((b'P', [])) => panic!("a bug in the toy"),
            Some((b'M' | b'V', rest)) => self.take_message(rest),
            Some((b'U', rest)) if self.inbox.is_taking() => {
                self.inbox.push(1, false, rest);
                Ok(())
            }
            Some((b'N', _)) => {
                (self.owes_ack, self.is_urgent) = (true, true);
                Ok(())
            }
            Some((b'F', rest)) => {
                self.pieces += rest.len();
                Ok(())
            }
            Some((b'T', rest)) => {
                self.surcharge += rest.len() * MESSAGE_OVERHEAD;
                Ok(())
            }
            Some((b'A', rest)) => self.take_ack(now, rest),
            Some((b'B', [])) => {
                self.closed = true;
                self.events
                    .push_back(Event::Closed(CloseReason::PeerDisconnect));
                Ok(())
            }
            _ => Err(Reject::Malformed),
        }
    }

    fn vouches_for(&self, datagram: &[u8]) -> bool {
        datagram.starts_with(b"V")
    }

    fn handle_timeout(&mut self, now: Now) {
        if let Some((reason, _, until)) = self.finishing
            && now.mono >= until
        {
            self.close(now, reason);
        }
        if now.mono >= self.resend_at {
            self.sent = 0;
            self.resend_at = Timestamp::MAX;
            self.patience = (self.patience * 2).min(16 * RESEND);
        }
    }

    fn take_surcharge(&mut self) -> usize {
        std::mem::take(&mut self.surcharge)
    }

    fn admit(&mut self, _now: Now) {
        self.open = true;
        self.welcome = true;
        self.events.push_back(Event::Connected);
    }

    fn send(&mut self, _now: Now, _channel: Channel, payload: &[u8]) -> Result<(), SendError> {
        if !self.open || self.closed || self.finishing.is_some() {
            return Err(SendError::Closed);
        }
        if payload.len() > 1000 {
            return Err(SendError::TooLarge {
                size: payload.len(),
                max: 1000,
            });
        }
        if self.outbox.len() >= OUTBOX {
            return Err(SendError::Full);
        }
        self.outbox.push_back(payload.to_vec());
        Ok(())
    }

    fn finish(&mut self, now: Now, reason: CloseReason, linger: Duration) {
        if self.outbox.is_empty() {
            self.close(now, reason);
        } else if self.finishing.is_none() {
            self.finishing = Some((reason, linger, now.mono + linger));
        }
    }

    fn close(&mut self, _now: Now, reason: CloseReason) {
        if !self.closed {
            self.closed = true;
            self.goodbye = Some(reason);
            self.events.push_back(Event::Closed(reason));
        }
    }

    fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> bool {
        if std::mem::take(&mut self.welcome) {
            out.push(b'W');
            return true;
        }
        if std::mem::take(&mut self.owes_ack) {
            self.is_urgent = false;
            out.push(b'A');
            out.extend_from_slice(&self.expected.to_be_bytes());
            return true;
        }
        if let Some(payload) = self.outbox.get(self.sent).filter(|_| !self.closed) {
            out.push(b'M');
            out.extend_from_slice(&(self.first + self.sent as u32).to_be_bytes());
            out.extend_from_slice(payload);
            self.sent += 1;
            self.resend_at = now.mono + self.patience;
            return true;
        }
        if let Some(reason) = self.goodbye.take() {
            out.push(b'B');
            out.extend_from_slice(reason.label().as_bytes());
            return true;
        }
        false
    }

    fn is_urgent(&self) -> bool {
        self.is_urgent
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_message(&mut self) -> Option<Message<'_>> {
        self.inbox.pop()
    }

    fn inbox_bytes(&self) -> usize {
        self.inbox.payload_bytes()
    }

    fn held(&self) -> Held {
        Held {
            inbox: self.inbox.held(),
            pieces: self.pieces,
            outbox: self.outbox.iter().map(Vec::len).sum(),
            ..Held::default()
        }
    }

    fn set_allowance(&mut self, allowance: Allowance) {
        self.inbox.set_allowance(allowance);
    }

    fn release(&mut self) {
        self.outbox.clear();
        self.pieces = 0;
    }

    fn has_room(&self) -> bool {
        self.open && !self.closed && self.finishing.is_none() && self.outbox.len() < OUTBOX
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        if self.closed {
            return None;
        }
        let linger = self.finishing.map_or(Timestamp::MAX, |(_, _, until)| until);
        let resend = if self.outbox.is_empty() {
            Timestamp::MAX
        } else {
            self.resend_at
        };
        Some(Deadline {
            at: linger.min(resend),
            why: Wake::Resend,
        })
    }

    fn identity(&self) -> Identity<'_> {
        Identity::default()
    }

    fn stats(&self) -> Stats {
        Stats {
            outbox_messages: self.outbox.len() as u32,
            ..self.stats
        }
    }
}

/// The peer's end: blocking, in the test's own thread.
pub struct Client {
    pub socket: UdpSocket,
    pub welcome: bool,
    pub received: Vec<Vec<u8>>,
    pub goodbye: Option<String>,
    /// Messages the session acknowledged.
    pub acked: u32,
    next: u32,
    unacked: VecDeque<(u32, Vec<u8>)>,
    /// Turns that brought no acknowledgement, one after the other.
    vain: u32,
    /// When false, nothing that arrives is acknowledged.
    pub acknowledges: bool,
}

impl Client {
    pub fn new(server: SocketAddr) -> Self {
        let any = if server.is_ipv4() {
            "127.0.0.1:0"
        } else {
            "[::1]:0"
        };
        let socket = UdpSocket::bind(any).unwrap();
        socket.connect(server).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(5)))
            .unwrap();
        socket.send(b"H").unwrap();
        Self {
            socket,
            welcome: false,
            received: Vec::new(),
            goodbye: None,
            acked: 0,
            next: 0,
            unacked: VecDeque::new(),
            vain: 0,
            acknowledges: true,
        }
    }

    /// A client that has been let in.
    pub fn connected(server: SocketAddr) -> Self {
        let mut client = Self::new(server);
        client.run_until("welcome", |client| client.welcome);
        client
    }

    /// Sends a reliable message; it goes out now and again until it is acknowledged.
    pub fn send(&mut self, payload: &[u8]) {
        self.unacked.push_back((self.next, payload.to_vec()));
        self.next += 1;
        if self.unacked.len() <= WINDOW {
            self.transmit(self.unacked.len() - 1);
        }
    }

    pub fn send_unreliable(&self, payload: &[u8]) {
        let mut datagram = vec![b'U'];
        datagram.extend_from_slice(payload);
        self.socket.send(&datagram).unwrap();
    }

    pub fn say_goodbye(&self) {
        self.socket.send(b"B").unwrap();
    }

    pub fn unacked(&self) -> usize {
        self.unacked.len()
    }

    /// Handles what arrives, and resends, until this holds.
    pub fn run_until(&mut self, what: &str, is: impl Fn(&Self) -> bool) {
        self.run(what, PATIENCE, is);
    }

    pub fn run(&mut self, what: &str, patience: Duration, is: impl Fn(&Self) -> bool) {
        #[expect(clippy::disallowed_methods, reason = "a test waits in real time")]
        let start = Instant::now();
        while !is(self) {
            assert!(
                start.elapsed() < patience,
                "waited too long: {what}; received {}, unacked {}, goodbye {:?}",
                self.received.len(),
                self.unacked.len(),
                self.goodbye
            );
            self.turn();
        }
    }

    /// Handles one datagram, or resends when none came for a while. Who is held back resends ever more
    /// seldom: a machine that is slow already would have nothing else to do.
    pub fn turn(&mut self) {
        let mut datagram = [0; 2048];
        let Ok(length) = self.socket.recv(&mut datagram) else {
            self.vain += 1;
            if self.vain.is_power_of_two() || self.vain.is_multiple_of(16) {
                for index in 0..self.unacked.len().min(WINDOW) {
                    self.transmit(index);
                }
            }
            return;
        };
        let datagram = &datagram[..length];
        match datagram.split_first() {
            Some((b'W', _)) => self.welcome = true,
            Some((b'A', rest)) => {
                let (next, _) = number(rest).unwrap();
                let before = self.unacked.len();
                while self
                    .unacked
                    .front()
                    .is_some_and(|(number, _)| *number < next)
                {
                    self.unacked.pop_front();
                    self.acked += 1;
                    self.vain = 0;
                }
                let freed = before - self.unacked.len();
                let held = self.unacked.len().min(WINDOW);
                for index in held.saturating_sub(freed)..held {
                    self.transmit(index);
                }
            }
            Some((b'M', rest)) => {
                let (number, payload) = number(rest).unwrap();
                if !self.acknowledges {
                    return;
                }
                if number as usize == self.received.len() {
                    self.received.push(payload.to_vec());
                }
                let mut ack = vec![b'A'];
                ack.extend_from_slice(&(self.received.len() as u32).to_be_bytes());
                self.socket.send(&ack).unwrap();
            }
            Some((b'B', reason)) => {
                self.goodbye = Some(String::from_utf8_lossy(reason).into_owned());
            }
            _ => {}
        }
    }

    fn transmit(&self, index: usize) {
        let (number, payload) = &self.unacked[index];
        let mut datagram = vec![b'M'];
        datagram.extend_from_slice(&number.to_be_bytes());
        datagram.extend_from_slice(payload);
        self.socket.send(&datagram).unwrap();
    }
}

const WINDOW: usize = 64;
