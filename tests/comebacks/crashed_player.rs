//! Players of yojimbo who crash and dial again while their old session is still open: what counts them, and that they
//! get in once it has timed out.

use std::net::UdpSocket;
use std::time::Duration;

use tidegate_proto::yojimbo::netcode::Client;

use super::scene::{Scene, socket};
use super::support::page::metric;
use super::support::{PATIENCE, wait_until};

/// Silence that ends the session of who is to get in again.
const TIMEOUT: Duration = Duration::from_secs(1);

const SAME_CLIENT: &str =
    "tidegate_handshakes_total{listener=\"game\",result=\"client_id_in_use\"}";
const SAME_ADDRESS: &str =
    "tidegate_udp_rejected_packets_total{listener=\"game\",reason=\"unexpected\"}";
const TIMED_OUT: &str =
    "tidegate_peer_disconnects_total{listener=\"game\",reason=\"peer_timeout\"}";

const PLAYER: u64 = 7;

impl Scene {
    /// The player gets in from this socket and says nothing from then on, not even goodbye.
    fn crash(&self, socket: &UdpSocket, timeout: Duration) {
        self.connect(socket, PLAYER, timeout);
    }

    /// The player asks for a seat from this socket until `series` has grown.
    fn ask_until_counted(&self, socket: &UdpSocket, series: &str) {
        let mut client = Client::new(self.now(), self.token(PLAYER, PATIENCE));
        let before = self.count(series);
        wait_until(series, PATIENCE, || {
            self.transmit(&mut client, socket);
            (self.count(series) > before).then_some(())
        });
    }

    fn count(&self, series: &str) -> f64 {
        metric(self.server.admin(), series).unwrap_or(0.0)
    }
}

#[test]
fn who_dials_again_from_the_same_port_is_counted_as_unexpected() {
    let scene = Scene::start("crashed-same-port");
    let socket = socket();
    scene.crash(&socket, PATIENCE);
    scene.ask_until_counted(&socket, SAME_ADDRESS);
    assert_eq!(scene.count(SAME_CLIENT), 0.0);
}

#[test]
fn who_dials_again_from_another_port_is_counted_as_a_client_in_use() {
    let scene = Scene::start("crashed-other-port");
    scene.crash(&socket(), PATIENCE);
    scene.ask_until_counted(&socket(), SAME_CLIENT);
}

#[test]
fn who_dials_again_is_let_in_once_the_old_session_has_timed_out() {
    for is_same_port in [true, false] {
        let scene = Scene::start("crashed-timed-out");
        let first = socket();
        scene.crash(&first, TIMEOUT);
        let second = if is_same_port { first } else { socket() };
        scene.crash(&second, PATIENCE);
        wait_until("the end of the old session", PATIENCE, || {
            (scene.count(TIMED_OUT) == 1.0).then_some(())
        });
    }
}
