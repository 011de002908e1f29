//! The async client: a [`Machine`] and its socket in a task of their own.
//!
//! A task, and not something the caller has to poll: acknowledgements and keep-alives must leave in
//! time whatever the game is doing, and a game that awaits its database would else be disconnected.
//! No queue stands between the caller and the session, only a lock that is held for one call: what
//! `send` refuses the session refused, and what `recv` does not take holds the server back.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_proto::{Channel, SendError, Stats};
use tokio::net::UdpSocket;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::clock::Clock;
use crate::dial::Dial;
use crate::ended::Ended;
use crate::machine::{Machine, State};
use crate::polled::{DATAGRAM_BYTES_MAX, bind_first, bind_for, is_transient, random_seed};

/// A session with a server. Dropping it says goodbye at once, without waiting for what was sent;
/// [`Client::close`] waits.
///
/// All calls take `&self`: put it into an `Arc` to send from one task and receive in another.
pub struct Client {
    shared: Arc<Shared>,
}

/// One message from the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The channel it came on.
    pub channel: Channel,
    /// Whether that channel is reliable and ordered.
    pub reliable: bool,
    /// What the server sent.
    pub payload: Vec<u8>,
}

/// What the caller and the task share.
struct Shared {
    machine: Mutex<Machine>,
    clock: Clock,
    /// The task has sent the last goodbye, or given up.
    silent: AtomicBool,
    /// For the task: there may be something to transmit.
    spoken: Notify,
    /// For callers: a message, room, another state.
    heard: Notify,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("machine", &*self.shared.machine())
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Connects, trying a token's servers in order. Must be called within a tokio runtime.
    ///
    /// Dropping the future gives up. There is no other time limit than the protocol's: the token's
    /// timeout for each of its servers, or the idle timeout.
    pub async fn connect(dial: Dial) -> Result<Self, ConnectError> {
        let client = Self::dial(dial).map_err(ConnectError::Socket)?;
        let outcome = client.connected().await;
        outcome.map(|()| client).map_err(ConnectError::Refused)
    }

    /// Begins to connect, for who has something to say at once: what is sent before it is connected arrives a
    /// round trip earlier (see [`Machine::has_room`]). Must be called within a tokio runtime.
    ///
    /// ```no_run
    /// # async fn play(token: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
    /// use tidegate_client::{Client, Dial};
    ///
    /// let client = Client::dial(Dial::yojimbo(token)?)?;
    /// client.send(b"who I am").await?; // waits until it may leave
    /// client.connected().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn dial(dial: Dial) -> io::Result<Self> {
        let clock = Clock::start();
        let socket = UdpSocket::from_std(bind_first(dial.server())?)?;
        let seed = random_seed()?;
        let shared = Arc::new(Shared {
            machine: Mutex::new(Machine::new(clock.now(), dial, seed)),
            clock,
            silent: AtomicBool::new(false),
            spoken: Notify::new(),
            heard: Notify::new(),
        });
        tokio::spawn(run(shared.clone(), socket));
        Ok(Self { shared })
    }

    /// Waits until the server lets us in, or says why it is over.
    pub async fn connected(&self) -> Result<(), Ended> {
        let decided = self.shared.wait_for(|machine| match machine.state() {
            State::Connected => Some(Ok(())),
            // Another task may have closed it before that.
            State::Connecting | State::Closing => None,
            State::Closed(ended) => Some(Err(ended)),
        });
        decided.await
    }

    /// Sends a reliable message: once, in order, or the session ends. Waits for room, so it never answers
    /// [`SendError::Full`]; sizes and other errors are those of [`Machine::send`]. A future that is dropped
    /// before it is done has sent nothing.
    pub async fn send(&self, payload: &[u8]) -> Result<(), SendError> {
        let sent =
            self.shared.wait_for(
                |machine| match machine.send(self.shared.clock.now(), payload) {
                    Err(SendError::Full) => None,
                    decided => Some(decided),
                },
            );
        let outcome = sent.await;
        self.shared.spoken.notify_one();
        outcome
    }

    /// Sends a reliable message, or says [`SendError::Full`] at once.
    pub fn try_send(&self, payload: &[u8]) -> Result<(), SendError> {
        self.tell(|machine, clock| machine.send(clock.now(), payload))
    }

    /// Sends an unreliable message: it arrives soon, or never. See [`Machine::send_unreliable`].
    pub fn send_unreliable(&self, payload: &[u8]) -> Result<(), SendError> {
        self.tell(|machine, clock| machine.send_unreliable(clock.now(), payload))
    }

    /// Sends a message on a channel of the layout, or says [`SendError::Full`] at once.
    pub fn try_send_on(&self, channel: Channel, payload: &[u8]) -> Result<(), SendError> {
        self.tell(|machine, clock| machine.send_on(clock.now(), channel, payload))
    }

    /// The next message; after the last one, how the session ended.
    ///
    /// Safe to drop: a message is taken when it is returned. Messages that nobody takes fill a
    /// bounded queue, and then hold the server back.
    pub async fn recv(&self) -> Result<Message, Ended> {
        let next = |machine: &mut Machine| match take_message(machine) {
            Some(message) => Some(Ok(message)),
            None => over(machine).map(Err),
        };
        self.shared.wait_for(next).await
    }

    /// The next message, if it is here: for a loop that runs at its own pace.
    pub fn try_recv(&self) -> Result<Option<Message>, Ended> {
        let mut machine = self.shared.machine();
        match take_message(&mut machine) {
            Some(message) => Ok(Some(message)),
            None => over(&mut machine).map_or(Ok(None), Err),
        }
    }

    /// Delivers what was sent, then says goodbye; gives up after five seconds without any progress.
    /// Messages that come meanwhile can still be received, if another task does.
    pub async fn close(&self) -> Ended {
        self.close_within(LINGER).await
    }

    /// Delivers what was sent, then says goodbye; gives up after `linger` without any progress. See [`Client::close`].
    pub async fn close_within(&self, linger: Duration) -> Ended {
        self.tell(|machine, clock| machine.finish(clock.now(), linger));
        // Not before the goodbye has left: the caller may end the runtime, or the process, next.
        let silent = |machine: &mut Machine| {
            let is_silent = self.shared.silent.load(Ordering::Acquire);
            over(machine).filter(|_| is_silent)
        };
        self.shared.wait_for(silent).await
    }

    /// Where it is in its life.
    pub fn state(&self) -> State {
        self.shared.machine().state()
    }

    /// Round trips, loss, mode, counters.
    pub fn stats(&self) -> Stats {
        self.shared.machine().stats()
    }

    /// The server it talks to.
    pub fn server(&self) -> SocketAddr {
        self.shared.machine().server()
    }

    /// Changes the machine, then lets the task transmit.
    fn tell<T>(&self, act: impl FnOnce(&mut Machine, &Clock) -> T) -> T {
        let outcome = act(&mut self.shared.machine(), &self.shared.clock);
        self.shared.spoken.notify_one();
        outcome
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.tell(|machine, clock| machine.close(clock.now()));
    }
}

impl Shared {
    /// A panic while the lock was held is a bug in the session; going on would hide it no better
    /// than stopping, and callers would hang.
    fn machine(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks again whenever the task has heard something, until there is an answer.
    async fn wait_for<T>(&self, mut ask: impl FnMut(&mut Machine) -> Option<T>) -> T {
        loop {
            // Registered before asking, so that what happens in between is not missed.
            let heard: Notified<'_> = self.heard.notified();
            let mut heard = std::pin::pin!(heard);
            heard.as_mut().enable();
            let answer = ask(&mut self.machine());
            match answer {
                Some(answer) => return answer,
                None => heard.await,
            }
        }
    }
}

fn take_message(machine: &mut Machine) -> Option<Message> {
    machine.poll_message().map(|message| Message {
        channel: message.channel,
        reliable: message.reliable,
        payload: message.payload.to_vec(),
    })
}

fn over(machine: &mut Machine) -> Option<Ended> {
    match machine.state() {
        State::Closed(ended) => Some(ended),
        State::Connecting | State::Connected | State::Closing => None,
    }
}

/// The task: until the session is over and its goodbyes have left.
async fn run(shared: Arc<Shared>, mut socket: UdpSocket) {
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    loop {
        transmit(&shared, &mut socket).await;
        let now = shared.clock.now();
        let next = shared.machine().poll_timeout();
        shared.silent.store(next.is_none(), Ordering::Release);
        shared.heard.notify_waiters();
        let Some(next) = next else {
            return;
        };
        let wait = next.since(now.mono);
        let failure = tokio::select! {
            readable = socket.readable() => {
                readable.and_then(|()| receive(&shared, &socket, &mut buffer)).err()
            }
            () = tokio::time::sleep(wait) => None,
            () = shared.spoken.notified() => None,
        };
        let mut machine = shared.machine();
        let now = shared.clock.now();
        if machine.poll_timeout().is_some_and(|at| at <= now.mono) {
            machine.handle_timeout(now);
        }
        if let Some(error) = failure {
            machine.fail(error.kind());
        }
    }
}

/// Takes what has arrived, up to a bound: what is owed for it should leave soon.
fn receive(shared: &Shared, socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<()> {
    let mut machine = shared.machine();
    for _ in 0..DATAGRAMS_PER_TURN {
        match socket.try_recv_from(buffer) {
            Ok((length, from)) => {
                let datagram = &mut buffer[..length];
                // What it does not take was not for it, or came twice.
                machine
                    .handle_datagram(shared.clock.now(), from, datagram)
                    .ok();
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if is_transient(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

async fn transmit(shared: &Shared, socket: &mut UdpSocket) {
    let mut datagram = Vec::with_capacity(1_500);
    loop {
        datagram.clear();
        let to = shared
            .machine()
            .poll_transmit(shared.clock.now(), &mut datagram);
        let Some(to) = to else {
            return;
        };
        let is_other_kind = |local: SocketAddr| local.is_ipv4() != to.is_ipv4();
        if socket.local_addr().is_ok_and(is_other_kind)
            && let Ok(other) = bind_for(to).and_then(UdpSocket::from_std)
        {
            *socket = other;
        }
        // What cannot be sent is lost: see `Polled`.
        socket.send_to(&datagram, to).await.ok();
    }
}

/// Why there is no client.
#[derive(Debug)]
pub enum ConnectError {
    /// No socket could be had.
    Socket(io::Error),
    /// The session ended before it began.
    Refused(Ended),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(error) => write!(f, "no socket: {error}"),
            Self::Refused(ended) => ended.fmt(f),
        }
    }
}

impl std::error::Error for ConnectError {}

/// How long a closing client waits without any progress.
const LINGER: Duration = Duration::from_secs(5);

/// Datagrams taken before what is owed for them leaves.
const DATAGRAMS_PER_TURN: usize = 64;
