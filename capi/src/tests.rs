//! Two clients without sockets who take each other for the server, and one with a socket: what a C caller sees.

use std::ffi::CString;
use std::net::{SocketAddr, UdpSocket};
use std::ptr::{null, null_mut};
use std::time::Duration;

use crate::address::Address;
use crate::border::Client;
use crate::datagram::*;
use crate::dial::*;
use crate::goodbye::*;
use crate::handle::*;
use crate::message::*;
use crate::socket::*;
use crate::state::*;
use crate::{TIDEGATE_ERROR_CLOSED, TIDEGATE_OK};

const MILLI: u64 = 1_000_000;

/// A client of the server at `server`, freed with this.
struct Handle(*mut Client);

impl Handle {
    fn gaffer(server: SocketAddr) -> Self {
        let text = CString::new(server.to_string()).unwrap();
        let mut client = null_mut();
        // SAFETY: a string, and a place for a pointer.
        let made = unsafe {
            tidegate_client_gaffer(text.as_ptr(), 0, TIDEGATE_NO_SOCKET, 0, &raw mut client)
        };
        assert_eq!(made, TIDEGATE_OK);
        Self(client)
    }

    fn rudp(server: SocketAddr) -> Self {
        let text = CString::new(server.to_string()).unwrap();
        let mut client = null_mut();
        // SAFETY: a string, and a place for a pointer.
        let made =
            unsafe { tidegate_client_rudp(text.as_ptr(), TIDEGATE_SOCKET, 0, &raw mut client) };
        assert_eq!(made, TIDEGATE_OK);
        Self(client)
    }

    fn send(&self, now: u64, payload: &[u8]) -> i32 {
        // SAFETY: a live handle, and bytes of that length.
        unsafe { tidegate_client_send(self.0, now, payload.as_ptr(), payload.len()) }
    }

    fn message(&self) -> Option<(Vec<u8>, u8, u8)> {
        let mut message = Message {
            payload: null(),
            length: 0,
            channel: 0,
            reliable: 0,
        };
        // SAFETY: a live handle and a place for a message, whose payload is good until the next one.
        unsafe {
            (tidegate_client_poll_message(self.0, &raw mut message) == 1).then(|| {
                let payload = std::slice::from_raw_parts(message.payload, message.length);
                (payload.to_vec(), message.channel, message.reliable)
            })
        }
    }

    /// Carries to `other` what this one has to send; `from` is where the other one dialled.
    fn speak(&self, now: u64, from: SocketAddr, other: &Self) {
        let from = Address::from(from);
        let mut datagram = Datagram {
            bytes: null(),
            length: 0,
            to: from,
        };
        // SAFETY: live handles and a place for a datagram, whose bytes are good until the next call of this handle.
        unsafe {
            tidegate_client_handle_timeout(self.0, now);
            while tidegate_client_poll_transmit(self.0, now, &raw mut datagram) == 1 {
                let (bytes, length) = (datagram.bytes, datagram.length);
                tidegate_client_handle_datagram(other.0, now, &raw const from, bytes, length);
            }
        }
    }

    fn state(&self) -> i32 {
        // SAFETY: a live handle.
        unsafe { tidegate_client_state(self.0) }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: a live handle, and nobody else has it.
        unsafe { tidegate_client_free(self.0) };
    }
}

/// Two who hear each other, and the time by which they do.
fn pair() -> (Handle, Handle, u64) {
    let [a, b] = [1, 2].map(|last| SocketAddr::from(([10, 0, 0, last], 7)));
    let (left, right) = (Handle::gaffer(b), Handle::gaffer(a));
    for now in (0..40).map(|tick| tick * 50 * MILLI) {
        left.speak(now, a, &right);
        right.speak(now, b, &left);
        if [left.state(), right.state()] == [TIDEGATE_CONNECTED; 2] {
            return (left, right, now);
        }
    }
    panic!("they do not hear each other");
}

#[test]
fn an_address_stays_what_it_was() {
    for text in ["10.1.2.3:40000", "[fd00::7]:40001"] {
        let address: SocketAddr = text.parse().unwrap();
        let shown = Address::from(address);
        assert_eq!(shown.is_ipv6 == 1, address.is_ipv6());
        assert_eq!(SocketAddr::from(shown), address);
    }
}

#[test]
fn a_message_says_how_it_came_and_counts_once() {
    let (left, right, now) = pair();
    assert_eq!(left.send(now, b"surely"), TIDEGATE_OK);
    // SAFETY: a live handle and six bytes.
    let sent = unsafe { tidegate_client_send_unreliable(left.0, now, b"maybe".as_ptr(), 5) };
    assert_eq!(sent, TIDEGATE_OK);
    left.speak(now, SocketAddr::from(([10, 0, 0, 1], 7)), &right);
    let mut heard = [right.message().unwrap(), right.message().unwrap()];
    heard.sort();
    let maybe = (b"maybe".to_vec(), 1, 0);
    assert_eq!(heard, [maybe, (b"surely".to_vec(), 0, 1)]);
    let mut stats = Stats::default();
    // SAFETY: a live handle and a place for them.
    unsafe { tidegate_client_stats(left.0, &raw mut stats, size_of::<Stats>()) };
    assert_eq!((stats.messages_sent, stats.outbox_messages), (2, 1));
}

/// A clock that steps back stands still: what is due next is not due in the past's future.
#[test]
fn time_does_not_step_back() {
    let (left, _right, _) = pair();
    let next = |now| {
        // SAFETY: a live handle.
        unsafe { tidegate_client_next_update(left.0, now) }
    };
    assert_eq!((next(10_000 * MILLI), next(0)), (0, 0), "overdue");
}

#[test]
fn what_was_not_confirmed_is_told_at_the_end() {
    let (left, _right, now) = pair();
    assert_eq!(left.send(now, b"into the void"), TIDEGATE_OK);
    // SAFETY: a live handle.
    unsafe {
        tidegate_client_close(left.0, now);
        assert_eq!(tidegate_client_unconfirmed(left.0), 1);
    }
    assert_eq!(left.state(), TIDEGATE_CLOSED);
    assert_eq!(left.send(now, b"more"), TIDEGATE_ERROR_CLOSED);
}

/// A program that closes or frees a client calls nothing behind it: the goodbye leaves with the call.
#[test]
fn a_goodbye_leaves_with_the_call() {
    for frees in [false, true] {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        server
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let client = Handle::rudp(server.local_addr().unwrap());
        let mut buffer = [0; 64];
        // SAFETY: a live handle.
        unsafe { tidegate_client_update(client.0, 1_000 * MILLI) };
        let (_, from) = server.recv_from(&mut buffer).unwrap();
        server.send_to(&[0], from).unwrap(); // a heartbeat, the least that shows a peer
        let mut now = 1_000 * MILLI;
        while client.state() != TIDEGATE_CONNECTED {
            // SAFETY: a live handle.
            unsafe { tidegate_client_update(client.0, now) };
            now += 1;
        }
        server.set_nonblocking(true).unwrap();
        while server.recv_from(&mut buffer).is_ok() {}
        server.set_nonblocking(false).unwrap();
        if frees {
            drop(client);
        } else {
            // SAFETY: a live handle.
            unsafe { tidegate_client_close(client.0, now) };
        }
        assert!(server.recv_from(&mut buffer).is_ok(), "frees: {frees}");
    }
}
