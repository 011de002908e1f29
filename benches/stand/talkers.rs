//! Those who say messages and hear them come back, whatever carries them.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use mio::{Poll, Token};
use tidegate::udp::{Options, UdpSocket};

/// Many players in one thread.
pub trait Talkers {
    /// A player says something. It leaves with the next turn; one that has no room says nothing.
    fn say(&mut self, player: usize, message: &[u8]);

    /// Waits so long at most for something to happen, and deals with it.
    fn turn(&mut self, wait: Duration, heard: impl FnMut(&[u8]));
}

/// What all of them talk through: one socket with room for them all, and what wakes it. Bound to any address,
/// since each of them has one of 127/8 of its own, and is answered there.
pub fn socket() -> (UdpSocket, Poll) {
    let options = Options {
        receive_buffer: 64 << 20,
        send_buffer: 64 << 20,
        ..Options::default()
    };
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let mut socket = UdpSocket::bind(any, options).unwrap();
    let poll = Poll::new().unwrap();
    socket.register(poll.registry(), Token(0)).unwrap();
    (socket, poll)
}
