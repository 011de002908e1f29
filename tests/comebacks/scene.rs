//! A server that takes tokens, and clients of the library's kind at sockets of their own.

use std::net::UdpSocket;
use std::time::Duration;

use tidegate_client::Clock;
use tidegate_proto::Now;
use tidegate_proto::yojimbo::netcode::{Client, ClientState, ConnectToken};

use super::support::place::Place;
use super::support::program::Program;
use super::support::token::mint;
use super::support::{PATIENCE, echo_server, wait_until};

pub(super) struct Scene {
    pub(super) server: Program,
    place: Place,
    clock: Clock,
}

impl Scene {
    /// The listener `game`, in front of a server that echoes. An address is banned once its players broke the protocol
    /// three times.
    pub(super) fn start(name: &str) -> Self {
        let place = Place::new(name);
        let mut keygen = place.start(&["keygen", "--out", "netcode.key"]);
        assert_eq!(keygen.exit_code(), Some(0));
        let config = format!(
            "version = 1\n\
             [runtime]\nworkers = 1\n\
             [admin]\nlisten = \"127.0.0.1:0\"\n\
             [listener.game]\nbind = [\"127.0.0.1:0\"]\npublic_addresses = [\"any\"]\nbackend = \"game\"\n\
             limits = {{ strikes = {{ limit = 2, window = \"1h\", ban = \"1h\" }} }}\n\
             [backend.game]\ntargets = [\"tcp://{}\"]\nframing = \"u16be\"\n",
            echo_server()
        );
        place.write("tidegate.toml", config);
        let server = place.start(&["serve", "--config", "tidegate.toml"]);
        server.address();
        Self {
            server,
            place,
            clock: Clock::start(),
        }
    }

    pub(super) fn now(&self) -> Now {
        self.clock.now()
    }

    /// A new token of this player. Silence of `timeout` ends the session.
    pub(super) fn token(&self, client_id: u64, timeout: Duration) -> ConnectToken {
        mint(&self.place, client_id, &[self.server.address()], timeout)
    }

    /// A client that got in from this socket, with a new token, and however long it had to wait for its seat.
    pub(super) fn connect(&self, socket: &UdpSocket, client_id: u64, timeout: Duration) -> Client {
        let address = self.server.address();
        let mut client = Client::new(self.now(), self.token(client_id, timeout));
        wait_until("a seat", PATIENCE, || {
            self.transmit(&mut client, socket);
            let mut answer = [0; 2048];
            if let Ok(length) = socket.recv(&mut answer) {
                // Perhaps one to whoever had this socket before.
                let _other = client.handle_datagram(self.now(), address, &mut answer[..length]);
            }
            (client.state() == ClientState::Connected).then_some(())
        });
        client
    }

    /// Sends what the client has to say now, if anything.
    pub(super) fn transmit(&self, client: &mut Client, socket: &UdpSocket) {
        let mut datagram = Vec::new();
        if client.poll_transmit(self.now(), &mut datagram) {
            socket.send_to(&datagram, self.server.address()).unwrap();
        }
    }
}

/// One that no answer is awaited from for long: the client has more to say.
pub(super) fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket
        .set_read_timeout(Some(Duration::from_millis(20)))
        .unwrap();
    socket
}
