//! Sessions that `tidegate connect` begins: each for a stream that a local program opened, over a UDP socket of its own.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tidegate_proto::{Reject, Session};
use tokio::sync::OwnedSemaphorePermit;

use super::attempt::Attempt;
use super::polled_socket::PolledSocket;
use super::wakes::{Wakes, poll_token};
use super::{Listener, Turn};
use crate::backend::{Socket, Stream};
use crate::udp::UdpSocket;

/// One session that `tidegate connect` begins.
pub struct Dial {
    /// Where the far end is.
    pub remote: SocketAddr,
    /// Connected to it.
    pub udp: UdpSocket,
    /// The local program's stream.
    pub stream: Socket,
    /// The session, just begun.
    pub session: Box<dyn Session>,
    /// How long the far end may take to let us in.
    pub timeout: Duration,
    /// Where the local program's stream comes from, if that has an address.
    pub client: Option<SocketAddr>,
    /// Who the server takes the client for, where the token was made here.
    pub client_id: Option<u64>,
    /// The local stream's place among those of its tunnel, held until it is over.
    pub stream_permit: OwnedSemaphorePermit,
}

/// What only a peer has that we dialled, for a local program.
#[derive(Debug)]
pub(super) struct Dialled {
    pub(super) socket: PolledSocket,
    /// Our end of its socket: the server's log calls the peer so, unless something on the way translates.
    pub(super) local: SocketAddr,
    /// Where the local program's stream comes from, if that has an address.
    pub(super) client: Option<SocketAddr>,
    /// Who the server takes it for, where the token was made here.
    pub(super) client_id: Option<u64>,
    /// Its local stream's place among those of its tunnel, held until it is over.
    pub(super) _stream_permit: OwnedSemaphorePermit,
}

impl Listener {
    /// Begins a session over its own UDP socket for a stream that a local program opened.
    pub fn dial(&mut self, turn: &mut Turn<'_>, dial: Dial) -> io::Result<()> {
        // It began before the drain did.
        if !self.stage.takes_newcomers() {
            log_dial_refused(&self.name);
            return Ok(());
        }
        let Dial {
            remote,
            mut udp,
            mut stream,
            session,
            timeout,
            client,
            client_id,
            stream_permit,
        } = dial;
        // The endpoint tells peers apart by address; with a socket each, that is our own.
        let local = udp.local_addr();
        let id = self.endpoint.dial(turn.now, local, session);
        let slot = id.slot();
        let registered = udp
            .register(
                turn.registry,
                poll_token(self.index, Wakes::PeerSocket(slot)),
            )
            .and_then(|()| {
                stream.register(turn.registry, poll_token(self.index, Wakes::Stream(slot)))
            });
        if let Err(error) = registered {
            self.endpoint.let_go(id);
            return Err(error);
        }
        let mut peer = self.new_peer(id, remote, turn.now.mono);
        peer.dialled = Some(Box::new(Dialled {
            socket: PolledSocket::new(udp),
            local,
            client,
            client_id,
            _stream_permit: stream_permit,
        }));
        peer.stream = Stream::accepted(stream);
        peer.attempt = Attempt::dialled(turn.now.mono + timeout);
        self.peers.insert(Box::new(peer));
        self.touch(id);
        Ok(())
    }
}

/// Says that a local connection was closed because nobody is taken.
pub fn log_dial_refused(tunnel: &str) {
    tracing::info!(
        event = "dial_refused",
        tunnel,
        reason = Reject::Draining.label(),
        "a local connection was closed at once"
    );
}
