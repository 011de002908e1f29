//! The client without a socket and without a clock.
//!
//! ```text
//!   datagram + where from ──▶ handle_datagram ┐                 ┌▶ poll_transmit ──▶ datagram + where to
//!                  a time ──▶ handle_timeout  ├──▶ Machine ─────┼▶ poll_message
//!                 message ──▶ send            ┘                 └▶ poll_timeout ──▶ when to come back
//!
//!   Connecting ──▶ Connected ──finish──▶ Closing ──▶ Closed(how)
//!        └──────────────┴── denied, silence, goodbye ───▲
//! ```

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use tidegate_proto::yojimbo::netcode::wire::is_same_address;
use tidegate_proto::{
    Channel, CloseReason, Event, Message, Now, Reject, SendError, Stats, Timestamp,
};

use crate::dial::{Dial, Dialled};
use crate::ended::Ended;

/// One attempt to reach a server, and the session that follows.
///
/// After any call that changes it, poll [`Machine::poll_transmit`] until it is dry, then read
/// [`Machine::poll_timeout`]. Messages that are not polled stay where they are, in bounded memory:
/// the server is then told to wait, and nothing is lost.
pub struct Machine {
    dialled: Dialled,
    state: State,
    /// We asked for the end.
    closing: bool,
    /// The owner's socket failed.
    failed: bool,
    reliable: Option<Channel>,
    unreliable: Option<Channel>,
}

/// Where a machine is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The handshake is under way. Messages can be sent once they may leave with it: see
    /// [`Machine::has_room`].
    Connecting,
    /// Messages go both ways.
    Connected,
    /// What was sent is being delivered; then it closes.
    Closing,
    /// Over. Messages that came before can still be polled, and goodbyes be transmitted.
    Closed(Ended),
}

/// Nothing of what the session holds: that would be keys, and what players say.
impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine")
            .field("server", &self.server())
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl Machine {
    /// Dials. `seed` must be unpredictable: in gaffer, who guesses it can forge acknowledgements.
    pub fn new(now: Now, dial: Dial, seed: u64) -> Self {
        let (reliable, unreliable) = dial.channels();
        Self {
            dialled: dial.begin(now, seed),
            state: State::Connecting,
            closing: false,
            failed: false,
            reliable,
            unreliable,
        }
    }

    /// A datagram arrived. What does not come from [`Machine::server`] is refused; the others may be
    /// decrypted in place. A refusal needs no action: it is normal on a network.
    pub fn handle_datagram(
        &mut self,
        now: Now,
        from: SocketAddr,
        datagram: &mut [u8],
    ) -> Result<(), Reject> {
        if !is_same_address(&from, &self.server()) {
            return Err(Reject::UnknownPeer);
        }
        let outcome = self.dialled.session_mut().handle_datagram(now, datagram);
        self.follow_events(now);
        outcome
    }

    /// Does what time decides. Harmless when called early or often.
    pub fn handle_timeout(&mut self, now: Now) {
        self.dialled.session_mut().handle_timeout(now);
        self.follow_events(now);
    }

    /// Queues a message on the protocol's reliable channel: it arrives once and in order, or the
    /// session ends. With the default layout it has up to 262,144 bytes, of which up to 7000 travel as one
    /// message and more as a block, which is slower.
    ///
    /// # Errors
    ///
    /// Nothing was queued:
    ///
    /// - [`SendError::Full`]: try again later, while connecting once [`Machine::has_room`];
    /// - [`SendError::TooLarge`]: send it in parts, the error has what fits;
    /// - [`SendError::NoSuchChannel`]: the layout has no reliable channel;
    /// - [`SendError::Closed`]: the session is over, or ends; [`Machine::state`] says how.
    pub fn send(&mut self, now: Now, payload: &[u8]) -> Result<(), SendError> {
        let channel = self.reliable.ok_or(SendError::NoSuchChannel)?;
        self.send_on(now, channel, payload)
    }

    /// Queues a message on the protocol's unreliable channel: it arrives soon, or never. Keep it under 1000 bytes.
    /// Errors are those of [`Machine::send`]; rudp has no such channel.
    pub fn send_unreliable(&mut self, now: Now, payload: &[u8]) -> Result<(), SendError> {
        let channel = self.unreliable.ok_or(SendError::NoSuchChannel)?;
        self.send_on(now, channel, payload)
    }

    /// Queues a message on a channel of the layout, by its index. Errors are those of [`Machine::send`].
    pub fn send_on(&mut self, now: Now, channel: Channel, payload: &[u8]) -> Result<(), SendError> {
        match self.state {
            State::Connected => {}
            State::Connecting if self.has_room() => {}
            State::Connecting => return Err(SendError::Full),
            State::Closing | State::Closed(_) => return Err(SendError::Closed),
        }
        let session = self.dialled.session_mut();
        let outcome = session.send(now, channel, payload);
        self.follow_events(now);
        outcome
    }

    /// Whether the reliable channel takes another message of any legal size. In yojimbo true already while
    /// connecting, from the challenge of the token's last server on: what is said then leaves behind the answer to it,
    /// and is there a round trip earlier than what waits for [`State::Connected`].
    pub fn has_room(&self) -> bool {
        let may_speak = matches!(self.state, State::Connecting | State::Connected);
        may_speak && self.dialled.session().has_room()
    }

    /// Delivers what was sent, then says goodbye; gives up after `linger` without any progress.
    pub fn finish(&mut self, now: Now, linger: Duration) {
        if matches!(self.state, State::Connecting | State::Connected) {
            self.closing = true;
            self.state = State::Closing;
            let session = self.dialled.session_mut();
            session.finish(now, CloseReason::Shutdown, linger);
            self.follow_events(now);
        }
    }

    /// Says goodbye at once. Poll [`Machine::poll_transmit`] once more, or the server finds out by
    /// its timeout.
    pub fn close(&mut self, now: Now) {
        self.closing = true;
        self.dialled.session_mut().close(now, CloseReason::Shutdown);
        self.follow_events(now);
    }

    /// The socket failed for good: there is nothing more to say, and nobody to say it to.
    pub fn fail(&mut self, kind: std::io::ErrorKind) {
        if !matches!(self.state, State::Closed(_)) {
            self.state = State::Closed(Ended::Socket(kind));
        }
        self.failed = true;
    }

    /// Appends one datagram to `out` and says where it goes, until there is none.
    pub fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> Option<SocketAddr> {
        if self.failed {
            return None;
        }
        let to = self.server();
        let transmitted = self.dialled.session_mut().poll_transmit(now, out);
        // What is sent last may be what ends a session that was finishing.
        self.follow_events(now);
        transmitted.then_some(to)
    }

    /// The next message from the server.
    pub fn poll_message(&mut self) -> Option<Message<'_>> {
        self.dialled.session_mut().poll_message()
    }

    /// When [`Machine::handle_timeout`] has something to do, if nothing happens before; `None` when
    /// it is over.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        if self.failed {
            return None;
        }
        let deadline = self.dialled.session().poll_timeout();
        deadline.map(|deadline| deadline.at)
    }

    /// Where it is in its life.
    pub fn state(&self) -> State {
        self.state
    }

    /// The server that is dialled, or talked to. Moves on to the token's next one when one does not
    /// answer.
    pub fn server(&self) -> SocketAddr {
        self.dialled.server()
    }

    /// Round trips, loss, mode, counters.
    pub fn stats(&self) -> Stats {
        self.dialled.session().stats()
    }

    fn follow_events(&mut self, now: Now) {
        while let Some(event) = self.dialled.session_mut().poll_event() {
            match event {
                // The server proved that it hears us; there is no backend to wait for.
                Event::Authenticated => self.dialled.session_mut().admit(now),
                Event::Connected if self.state == State::Connecting => {
                    self.state = State::Connected;
                }
                Event::Connected => {}
                Event::Closed(_) if self.failed => {}
                Event::Closed(reason) => self.state = State::Closed(self.ended(reason)),
            }
        }
    }

    fn ended(&self, reason: CloseReason) -> Ended {
        match reason {
            CloseReason::Shutdown if self.closing => Ended::Here {
                unconfirmed: self.stats().outbox_messages,
            },
            other => Ended::Session(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use data_encoding::BASE64;
    use tidegate_proto::yojimbo::netcode::wire::Kind;
    use tidegate_proto::yojimbo::netcode::{
        ConnectToken, Key, Mint, PrivateToken, UserData, packet,
    };

    use super::*;

    fn now(millis: u64) -> Now {
        Now {
            mono: Timestamp::from_millis(millis),
            unix_secs: 0,
        }
    }

    fn transmitted(machine: &mut Machine, now: Now) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        let mut datagram = Vec::new();
        while machine.poll_transmit(now, &mut datagram).is_some() {
            all.push(std::mem::take(&mut datagram));
        }
        all
    }

    #[test]
    fn only_the_server_is_listened_to() {
        let server = SocketAddr::from(([10, 0, 0, 7], 40002));
        let mut machine = Machine::new(now(0), Dial::rudp(server), 1);
        let due = machine.poll_timeout().expect("it will knock");
        let due = Now {
            mono: due,
            ..now(0)
        };
        machine.handle_timeout(due);
        assert!(!transmitted(&mut machine, due).is_empty(), "it knocks");
        // A heartbeat of rudp: the least that shows a peer.
        let other = SocketAddr::from(([10, 0, 0, 8], 40002));
        let outcome = machine.handle_datagram(due, other, &mut [0]);
        assert_eq!(outcome, Err(Reject::UnknownPeer));
        assert_eq!(machine.state(), State::Connecting);
        machine.handle_datagram(due, server, &mut [0]).unwrap();
        assert_eq!(machine.state(), State::Connected);
    }

    #[test]
    fn what_a_protocol_cannot_do_is_refused() {
        let server = SocketAddr::from(([10, 0, 0, 7], 40002));
        let mut machine = Machine::new(now(0), Dial::rudp(server), 1);
        assert_eq!(machine.send(now(0), b"early"), Err(SendError::Full));
        machine.handle_datagram(now(1), server, &mut [0]).unwrap();
        assert_eq!(machine.send(now(1), b"in time"), Ok(()));
        let unreliable = machine.send_unreliable(now(1), b"x");
        assert_eq!(unreliable, Err(SendError::NoSuchChannel));
    }

    /// Nor what players say. The keys of the token are in the machine, and those of its packets.
    #[test]
    fn keys_never_print() {
        let server = SocketAddr::from(([10, 0, 0, 7], 40000));
        let private = PrivateToken {
            client_id: 1,
            timeout_seconds: 5,
            servers: vec![server],
            client_to_server: Key::new([0xa1; 32]),
            server_to_client: Key::new([0xa2; 32]),
            user_data: UserData::empty(),
        };
        let mint = Mint::new(1, 0..=30, [1; 24], private);
        let token = ConnectToken::mint(mint, &Key::new([7; 32])).unwrap();
        let dial = Dial::yojimbo(&token.to_bytes()).unwrap();
        let printed = [
            format!("{dial:?}"),
            format!("{:?}", Machine::new(now(0), dial, 1)),
        ];
        for form in ["161, 161", "162, 162", "a1a1", "a2a2"] {
            assert!(
                !printed.concat().to_lowercase().contains(form),
                "{printed:?}"
            );
        }
        assert!(printed[1].contains("10.0.0.7:40000"), "{}", printed[1]);
        assert!(printed[1].contains("Connecting"), "{}", printed[1]);
    }

    fn server_key() -> Key {
        Key::new([2; 32])
    }

    fn dial_with_token(servers: Vec<SocketAddr>) -> Dial {
        let private = PrivateToken {
            client_id: 1,
            timeout_seconds: 5,
            servers,
            client_to_server: Key::new([1; 32]),
            server_to_client: server_key(),
            user_data: UserData::empty(),
        };
        let mint = Mint::new(1, 0..=30, [1; 24], private);
        let token = ConnectToken::mint(mint, &Key::new([7; 32])).unwrap();
        Dial::yojimbo(&token.to_bytes()).unwrap()
    }

    #[test]
    fn a_token_comes_as_bytes_or_as_text() {
        let server = SocketAddr::from(([10, 0, 0, 7], 40000));
        let Dial::Yojimbo { token, .. } = dial_with_token(vec![server]) else {
            panic!("another protocol");
        };
        let text = BASE64.encode(&token.to_bytes());
        let dial = Dial::yojimbo(format!(" {text}\n").as_bytes()).unwrap();
        assert_eq!(dial.server(), server);
        assert!(Dial::yojimbo(&text.as_bytes()[4..]).is_err());
    }

    /// A packet that the server sealed: of a challenge the client sends back what is in it, whatever that is.
    fn sealed(kind: Kind, sequence: u64, plain: &[u8]) -> Vec<u8> {
        let mut datagram = Vec::new();
        packet::emit(&mut datagram, &server_key(), 1, kind, sequence, plain);
        datagram
    }

    #[test]
    fn what_is_said_behind_the_answer_to_the_challenge_leaves_with_it() {
        let [server, other] = [7, 8].map(|last| SocketAddr::from(([10, 0, 0, last], 40000)));
        let mut machine = Machine::new(now(0), dial_with_token(vec![server]), 1);
        assert_eq!(transmitted(&mut machine, now(0)).len(), 1, "a request");
        assert!(!machine.has_room());
        assert_eq!(machine.send(now(0), b"hello"), Err(SendError::Full));

        let mut challenge = sealed(Kind::Challenge, 0, &[0; 308]);
        machine
            .handle_datagram(now(50), server, &mut challenge.clone())
            .unwrap();
        assert!(machine.has_room());
        assert_eq!(machine.send(now(50), b"hello"), Ok(()));
        assert_eq!(machine.state(), State::Connecting);
        assert_eq!(transmitted(&mut machine, now(50)).len(), 2, "and hello");
        let mut seated = sealed(Kind::KeepAlive, 1, &[0; 8]);
        machine
            .handle_datagram(now(100), server, &mut seated)
            .unwrap();
        assert_eq!(machine.state(), State::Connected);
        machine.close(now(100));
        let ended = State::Closed(Ended::Here { unconfirmed: 1 });
        assert_eq!(machine.state(), ended, "nobody has confirmed hello");
        machine.fail(std::io::ErrorKind::Other);
        assert_eq!(machine.state(), ended, "it was over before");

        // What one server is told is not for the next.
        let mut machine = Machine::new(now(0), dial_with_token(vec![server, other]), 1);
        transmitted(&mut machine, now(0));
        machine
            .handle_datagram(now(50), server, &mut challenge)
            .unwrap();
        assert_eq!(machine.send(now(50), b"hello"), Err(SendError::Full));
    }

    #[test]
    fn giving_up_before_an_answer_is_our_own_end() {
        let server = SocketAddr::from(([10, 0, 0, 7], 40001));
        let mut machine = Machine::new(now(0), Dial::gaffer(server, 7), 1);
        machine.finish(now(5), Duration::from_secs(1));
        transmitted(&mut machine, now(5));
        machine.handle_timeout(now(1_100));
        let ended = State::Closed(Ended::Here { unconfirmed: 0 });
        assert_eq!(machine.state(), ended);
        assert_eq!(machine.poll_timeout(), None);
    }

    #[test]
    fn an_end_claims_no_delivery_that_rudp_cannot_know_of() {
        let server = SocketAddr::from(([10, 0, 0, 7], 40002));
        for (is_sent, text) in [
            (false, "closed here, 1 messages not confirmed"),
            (true, "closed here"),
        ] {
            let mut machine = Machine::new(now(0), Dial::rudp(server), 1);
            machine.handle_datagram(now(1), server, &mut [0]).unwrap();
            machine.send(now(1), b"last words").unwrap();
            if is_sent {
                machine.handle_timeout(now(2_000));
                transmitted(&mut machine, now(2_000));
            }
            machine.close(now(2_000));
            let State::Closed(ended) = machine.state() else {
                panic!("closed");
            };
            assert_eq!(ended.to_string(), text);
        }
    }

    #[test]
    fn nothing_is_taken_behind_a_finish() {
        let server = SocketAddr::from(([10, 0, 0, 7], 40002));
        let mut machine = Machine::new(now(0), Dial::rudp(server), 1);
        machine.handle_datagram(now(1), server, &mut [0]).unwrap();
        machine.send(now(1), b"last words").unwrap();
        machine.finish(now(1), Duration::from_secs(1));
        assert_eq!(machine.state(), State::Closing);
        assert!(!machine.has_room());
        assert_eq!(machine.send(now(1), b"more"), Err(SendError::Closed));
    }

    #[test]
    fn a_failed_socket_ends_it_for_good() {
        let server = SocketAddr::from(([10, 0, 0, 7], 40002));
        let mut machine = Machine::new(now(0), Dial::rudp(server), 1);
        machine.handle_datagram(now(0), server, &mut [0]).unwrap();
        machine.fail(std::io::ErrorKind::AddrNotAvailable);
        assert_eq!(machine.poll_timeout(), None);
        machine.close(now(1));
        let ended = Ended::Socket(std::io::ErrorKind::AddrNotAvailable);
        assert_eq!(machine.state(), State::Closed(ended));
        assert!(transmitted(&mut machine, now(1)).is_empty());
    }
}
