//! Players of yojimbo who crash and dial again while their old session is still open: what counts them, and that they
//! get in once it has timed out.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot get a socket has failed"
)]

mod support;

use std::net::UdpSocket;
use std::time::Duration;

use support::page::metric;
use support::place::Place;
use support::program::Program;
use support::token::mint;
use support::{PATIENCE, echo_server, wait_until};
use tidegate_client::Clock;
use tidegate_proto::yojimbo::netcode::{Client, ClientState};

/// Silence that ends the session of who is to get in again.
const TIMEOUT: Duration = Duration::from_secs(1);

const SAME_CLIENT: &str =
    "tidegate_handshakes_total{listener=\"game\",result=\"client_id_in_use\"}";
const SAME_ADDRESS: &str =
    "tidegate_udp_rejected_packets_total{listener=\"game\",reason=\"unexpected\"}";
const TIMED_OUT: &str =
    "tidegate_peer_disconnects_total{listener=\"game\",reason=\"peer_timeout\"}";

struct Scene {
    place: Place,
    server: Program,
    clock: Clock,
}

impl Scene {
    fn start(name: &str) -> Self {
        let place = Place::new(name);
        let mut keygen = place.start(&["keygen", "--out", "netcode.key"]);
        assert_eq!(keygen.exit_code(), Some(0));
        let config = format!(
            "version = 1\n\
             [runtime]\nworkers = 1\n\
             [admin]\nlisten = \"127.0.0.1:0\"\n\
             [listener.game]\nbind = [\"127.0.0.1:0\"]\npublic_addresses = [\"any\"]\nbackend = \"game\"\n\
             [backend.game]\ntargets = [\"tcp://{}\"]\nframing = \"u16be\"\n",
            echo_server()
        );
        place.write("tidegate.toml", config);
        let server = place.start(&["serve", "--config", "tidegate.toml"]);
        server.address();
        Self {
            place,
            server,
            clock: Clock::start(),
        }
    }

    /// Connects from this socket, waiting for a seat, and says nothing from then on, not even goodbye. Silence of
    /// `timeout` ends the session.
    fn connect_and_crash(&self, socket: &UdpSocket, timeout: Duration) {
        let address = self.server.address();
        let mut client = self.client(timeout);
        wait_until("a seat", PATIENCE, || {
            let now = self.clock.now();
            let mut datagram = Vec::new();
            if client.poll_transmit(now, &mut datagram) {
                socket.send_to(&datagram, address).unwrap();
            }
            let mut answer = [0; 2048];
            if let Ok(length) = socket.recv(&mut answer) {
                let _old = client.handle_datagram(now, address, &mut answer[..length]);
            }
            (client.state() == ClientState::Connected).then_some(())
        });
    }

    /// Asks for a seat from this socket until `series` has grown.
    fn ask_until_counted(&self, socket: &UdpSocket, series: &str) {
        let mut client = self.client(PATIENCE);
        let before = self.count(series);
        wait_until(series, PATIENCE, || {
            let mut datagram = Vec::new();
            if client.poll_transmit(self.clock.now(), &mut datagram) {
                socket.send_to(&datagram, self.server.address()).unwrap();
            }
            (self.count(series) > before).then_some(())
        });
    }

    /// The player, with a new token.
    fn client(&self, timeout: Duration) -> Client {
        let token = mint(&self.place, 7, &[self.server.address()], timeout);
        Client::new(self.clock.now(), token)
    }

    fn count(&self, series: &str) -> f64 {
        metric(self.server.admin(), series).unwrap_or(0.0)
    }
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket
        .set_read_timeout(Some(Duration::from_millis(20)))
        .unwrap();
    socket
}

#[test]
fn who_dials_again_from_the_same_port_is_counted_as_unexpected() {
    let scene = Scene::start("crashed-same-port");
    let socket = socket();
    scene.connect_and_crash(&socket, PATIENCE);
    scene.ask_until_counted(&socket, SAME_ADDRESS);
    assert_eq!(scene.count(SAME_CLIENT), 0.0);
}

#[test]
fn who_dials_again_from_another_port_is_counted_as_a_client_in_use() {
    let scene = Scene::start("crashed-other-port");
    scene.connect_and_crash(&socket(), PATIENCE);
    scene.ask_until_counted(&socket(), SAME_CLIENT);
}

#[test]
fn who_dials_again_is_let_in_once_the_old_session_has_timed_out() {
    for is_same_port in [true, false] {
        let scene = Scene::start("crashed-timed-out");
        let first = socket();
        scene.connect_and_crash(&first, TIMEOUT);
        let second = if is_same_port { first } else { socket() };
        scene.connect_and_crash(&second, PATIENCE);
        wait_until("the end of the old session", PATIENCE, || {
            (scene.count(TIMED_OUT) == 1.0).then_some(())
        });
    }
}
