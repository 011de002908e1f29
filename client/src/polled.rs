//! The client for a loop that never waits: a socket and a [`Machine`], moved on by
//! [`Polled::update`].

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use ring::rand::{SecureRandom, SystemRandom};
use tidegate_proto::{Channel, Message, Now, SendError, Stats, Timestamp};

use crate::dial::Dial;
use crate::machine::{Machine, State};

/// A client that does its work inside [`Polled::update`]: call it once a frame, at least ten times a
/// second. Between two calls nothing is sent and nothing is taken.
///
/// ```no_run
/// # fn frame() {}
/// use tidegate_client::{Clock, Dial, GAFFER_PROTOCOL_ID, Polled, State};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let clock = Clock::start();
/// let dial = Dial::gaffer("10.0.0.7:40001".parse()?, GAFFER_PROTOCOL_ID);
/// let mut client = Polled::connect(clock.now(), dial)?;
/// loop {
///     let state = client.update(clock.now());
///     while let Some(message) = client.poll_message() {
///         println!("{:?}", message.payload);
///     }
///     match state {
///         State::Connected => {
///             client.send(clock.now(), b"hello").ok(); // full: try again in the next frame
///         }
///         State::Closed(ended) => break println!("over: {ended}"),
///         State::Connecting | State::Closing => {}
///     }
///     frame();
/// }
/// # Ok(())
/// # }
/// ```
pub struct Polled {
    machine: Machine,
    socket: UdpSocket,
    /// Which kind of addresses the socket reaches.
    is_ipv4: bool,
    received: Vec<u8>,
    outgoing: Vec<u8>,
}

impl fmt::Debug for Polled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Polled")
            .field("machine", &self.machine)
            .field("socket", &self.socket)
            .finish_non_exhaustive()
    }
}

impl Polled {
    /// Opens a socket and begins to dial; nothing is sent before the first update.
    pub fn connect(now: Now, dial: Dial) -> io::Result<Self> {
        let socket = bind_first(dial.server())?;
        Ok(Self {
            is_ipv4: socket.local_addr()?.is_ipv4(),
            socket,
            machine: Machine::new(now, dial, random_seed()?),
            received: vec![0; DATAGRAM_BYTES_MAX],
            outgoing: Vec::with_capacity(1_500),
        })
    }

    /// Takes what arrived, does what is due, sends what is ready. Never waits.
    pub fn update(&mut self, now: Now) -> State {
        if let Err(error) = self.turn(now) {
            self.machine.fail(error.kind());
        }
        self.state()
    }

    /// Queues a reliable message; it leaves in the next update, or sooner with [`Polled::flush`]. Sizes and errors are
    /// those of [`Machine::send`].
    pub fn send(&mut self, now: Now, payload: &[u8]) -> Result<(), SendError> {
        self.machine.send(now, payload)
    }

    /// Queues an unreliable message, of less than 1000 bytes; it leaves in the next update, or sooner with
    /// [`Polled::flush`].
    pub fn send_unreliable(&mut self, now: Now, payload: &[u8]) -> Result<(), SendError> {
        self.machine.send_unreliable(now, payload)
    }

    /// Queues a message on a channel of the layout; it leaves in the next update, or sooner with [`Polled::flush`].
    pub fn send_on(&mut self, now: Now, channel: Channel, payload: &[u8]) -> Result<(), SendError> {
        self.machine.send_on(now, channel, payload)
    }

    /// Sends what is ready, at the end of a frame that queued messages after its update.
    pub fn flush(&mut self, now: Now) {
        self.transmit(now);
    }

    /// The next message from the server.
    pub fn poll_message(&mut self) -> Option<Message<'_>> {
        self.machine.poll_message()
    }

    /// Whether the reliable channel takes another message of any legal size; it may before the client is connected, see
    /// [`Machine::has_room`].
    pub fn has_room(&self) -> bool {
        self.machine.has_room()
    }

    /// Delivers what was sent, in the updates to come, then says goodbye; gives up after `linger`
    /// without any progress.
    pub fn finish(&mut self, now: Now, linger: Duration) {
        self.machine.finish(now, linger);
        self.flush(now);
    }

    /// Says goodbye at once.
    pub fn close(&mut self, now: Now) {
        self.machine.close(now);
        self.flush(now);
    }

    /// How long until an update has something to do although nothing arrives: the longest useful
    /// wait on the socket. `None` when it is over.
    pub fn next_update(&self, now: Now) -> Option<Duration> {
        let at = self.machine.poll_timeout();
        at.map(|at: Timestamp| at.since(now.mono))
    }

    /// Where it is in its life.
    pub fn state(&self) -> State {
        self.machine.state()
    }

    /// Round trips, loss, mode, counters.
    pub fn stats(&self) -> Stats {
        self.machine.stats()
    }

    /// The server that is dialled, or talked to.
    pub fn server(&self) -> SocketAddr {
        self.machine.server()
    }

    /// The socket, to wait on. It is replaced when a token's next server has addresses of another
    /// kind (IPv4, IPv6), so do not keep it over an update.
    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// The machine inside. What is queued there leaves with the next update or flush.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The machine inside, to be changed.
    pub fn machine_mut(&mut self) -> &mut Machine {
        &mut self.machine
    }

    fn turn(&mut self, now: Now) -> io::Result<()> {
        for _ in 0..DATAGRAMS_PER_UPDATE {
            match self.socket.recv_from(&mut self.received) {
                Ok((length, from)) => {
                    let datagram = &mut self.received[..length];
                    // What it does not take was not for it, or came twice.
                    self.machine.handle_datagram(now, from, datagram).ok();
                }
                Err(error) if is_end_of_input(&error) => break,
                Err(error) if is_transient(&error) => {}
                Err(error) => return Err(error),
            }
        }
        if self.machine.poll_timeout().is_some_and(|at| at <= now.mono) {
            self.machine.handle_timeout(now);
        }
        self.transmit(now);
        Ok(())
    }

    fn transmit(&mut self, now: Now) {
        while let Some(to) = self.machine.poll_transmit(now, &mut self.outgoing) {
            self.send_datagram(to);
            self.outgoing.clear();
        }
    }

    fn send_datagram(&mut self, to: SocketAddr) {
        if self.is_ipv4 != to.is_ipv4()
            && let Ok(socket) = bind_for(to)
        {
            self.socket = socket;
            self.is_ipv4 = to.is_ipv4();
        }
        // What cannot be sent is lost, and loss is what the protocol is for: a phone between two networks, a machine
        // without IPv6. When it has been too long, the session says so; a socket that is broken, receiving.
        self.socket.send_to(&self.outgoing, to).ok();
    }
}

#[cfg(unix)]
impl std::os::fd::AsFd for Polled {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The first socket: for `server`, or for the other kind of addresses where the machine lacks this kind. The token's
/// next server may have one.
pub(crate) fn bind_first(server: SocketAddr) -> io::Result<UdpSocket> {
    let other = match server {
        SocketAddr::V4(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
    };
    bind_for(server).or_else(|error| bind_for(other).map_err(|_| error))
}

/// A socket that reaches `server` and never waits.
pub(crate) fn bind_for(server: SocketAddr) -> io::Result<UdpSocket> {
    let any: IpAddr = if server.is_ipv4() {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.set_nonblocking(true)?;
    #[cfg(target_os = "linux")]
    if server.is_ipv4() {
        let_routers_cut(&socket);
    }
    Ok(socket)
}

/// Where a link of IPv4 takes less than a full datagram, its router may cut that in IP fragments. Linux forbids it unless
/// told, and a router that says nothing then swallows every full datagram. Over IPv6 no router cuts. Parameters that try
/// longer datagrams (`yojimbo::Params::with_path_mtu`) need a socket that forbids it, around a [`Machine`].
#[cfg(target_os = "linux")]
fn let_routers_cut(socket: &UdpSocket) {
    use rustix::net::sockopt::{Ipv4PathMtuDiscovery, set_ip_mtu_discover};
    // Without it, a path as short as that is slow, and others are as fast.
    set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::DONT).ok();
}

/// Eight bytes of the system's randomness: a seed for [`Machine::new`].
pub fn random_seed() -> io::Result<u64> {
    let mut bytes = [0; 8];
    match SystemRandom::new().fill(&mut bytes) {
        Ok(()) => Ok(u64::from_le_bytes(bytes)),
        Err(_) => Err(io::Error::other("the system has no random numbers")),
    }
}

/// What networks let a socket hear although nothing is wrong with it: a host that is away for now, a message from a
/// router. The session's own timeout decides when it has been too long.
pub(crate) fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::NetworkDown
            | io::ErrorKind::Interrupted
    )
}

fn is_end_of_input(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// Any UDP payload fits: rudp puts a long message into one datagram.
pub(crate) const DATAGRAM_BYTES_MAX: usize = 65_535;

/// Datagrams of one update. What is left waits in the socket, so that a frame stays a frame whatever
/// arrives.
const DATAGRAMS_PER_UPDATE: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::ended::Ended;

    /// A client that is connected, and its server: one heartbeat is the least that shows a peer.
    fn connected() -> (Polled, UdpSocket, Now) {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let patience = Duration::from_secs(20);
        server.set_read_timeout(Some(patience)).unwrap();
        let clock = Clock::start();
        let dial = Dial::rudp(server.local_addr().unwrap());
        let mut client = Polled::connect(clock.now(), dial).unwrap();
        let due = client.next_update(clock.now()).unwrap();
        let now = clock.now().after(due);
        client.update(now);
        let (_, from) = server.recv_from(&mut [0; 64]).unwrap();
        server.send_to(&[0], from).unwrap();
        while client.update(now) != State::Connected {}
        server.set_nonblocking(true).unwrap();
        while server.recv(&mut [0; 64]).is_ok() {}
        server.set_nonblocking(false).unwrap();
        (client, server, now)
    }

    /// Both kinds of client have their sockets from there.
    #[cfg(target_os = "linux")]
    #[test]
    fn routers_may_cut_what_a_link_does_not_take() {
        use rustix::net::sockopt::{Ipv4PathMtuDiscovery, ip_mtu_discover};
        let socket = bind_for("127.0.0.1:9".parse().unwrap()).unwrap();
        assert_eq!(ip_mtu_discover(&socket), Ok(Ipv4PathMtuDiscovery::DONT));
    }

    /// A game that ends calls no update behind it.
    #[test]
    fn a_goodbye_leaves_with_the_call() {
        let (mut client, server, now) = connected();
        client.close(now);
        assert!(server.recv(&mut [0; 64]).is_ok());
        let (mut client, server, now) = connected();
        client.finish(now, Duration::from_secs(1));
        assert!(server.recv(&mut [0; 64]).is_ok());
    }

    #[test]
    #[cfg(unix)]
    fn a_broken_socket_ends_it() {
        let (mut client, _server, now) = connected();
        let none = std::fs::File::open("/dev/null").unwrap();
        client.socket = std::os::fd::OwnedFd::from(none).into();
        let state = client.update(now);
        assert!(
            matches!(state, State::Closed(Ended::Socket(_))),
            "{state:?}"
        );
    }

    /// Where the machine has both kinds of addresses.
    #[test]
    fn the_socket_changes_once_with_the_kind_of_address() {
        let Ok(other) = UdpSocket::bind("[::1]:0") else {
            return;
        };
        let (mut client, _server, _) = connected();
        client.outgoing.extend(b"hello");
        let mut ports = Vec::new();
        for _ in 0..2 {
            client.send_datagram(other.local_addr().unwrap());
            let (_, from) = other.recv_from(&mut [0; 64]).unwrap();
            ports.push(from.port());
        }
        assert_eq!(ports[0], ports[1]);
    }
}
