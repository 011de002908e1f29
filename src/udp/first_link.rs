//! What the kernel knows of the ways to peers: the MTU of the first link, or less where a router said so.
//!
//! The kernel cuts a datagram that is longer than that into IP fragments, and then all of it is lost with
//! any of them. Sessions that try larger datagrams (RFC 8899) take what arrives for what fits, so one
//! that would be cut is not sent: to its session it is lost, as on any other link that is too small. What
//! must be cut, such as a long message of rudp, leaves alone and not as a part of a segmented send.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use tidegate_proto::ip::{IPV4_UDP_HEADER_BYTES, IPV6_UDP_HEADER_BYTES};

use super::mmsg;

/// MTUs by destination, each asked for again after some uses, since routes and routers' words change.
#[derive(Debug, Default)]
pub(super) struct FirstLinks {
    known: HashMap<IpAddr, Known>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    /// Bytes of an IP packet; 0 when the kernel would not say.
    mtu: usize,
    uses_left: u32,
}

impl FirstLinks {
    /// Whether a datagram of `length` bytes leaves uncut. `connected` is the socket, if it has only this
    /// peer, and is asked each time; else another one is connected for the question, which costs as much
    /// as a send, and its answer is kept for a while.
    pub(super) fn take(
        &mut self,
        connected: Option<BorrowedFd<'_>>,
        to: SocketAddr,
        length: usize,
    ) -> bool {
        if length <= ALWAYS_SENT {
            return true;
        }
        let ip = to.ip();
        if let Some(socket) = connected {
            return length + header_bytes(ip) <= mtu_of(socket, ip).unwrap_or(0);
        }
        let known = match self.known.get_mut(&ip) {
            Some(known) if known.uses_left > 0 => {
                known.uses_left -= 1;
                *known
            }
            Some(_) | None => self.ask(to),
        };
        length + header_bytes(ip) <= known.mtu
    }

    /// The kernel is asked again the next time.
    pub(super) fn forget(&mut self, to: SocketAddr) {
        self.known.remove(&to.ip());
    }

    fn ask(&mut self, to: SocketAddr) -> Known {
        let known = Known {
            mtu: mtu_to(to).unwrap_or(0),
            uses_left: USES,
        };
        tracing::trace!(%to, mtu = known.mtu, "first link");
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        self.known.insert(to.ip(), known);
        known
    }
}

/// Whether the kernel has no smaller MTU for the way to this peer, of a datagram of any length.
pub(super) fn fits(to: SocketAddr, length: usize) -> bool {
    mtu_to(to).is_ok_and(|mtu| length + header_bytes(to.ip()) <= mtu)
}

fn header_bytes(ip: IpAddr) -> usize {
    match ip {
        IpAddr::V4(_) => IPV4_UDP_HEADER_BYTES,
        IpAddr::V6(_) => IPV6_UDP_HEADER_BYTES,
    }
}

/// A connected socket's: ip(7), IP_MTU, and ipv6(7), IPV6_MTU.
fn mtu_of(socket: BorrowedFd<'_>, ip: IpAddr) -> io::Result<usize> {
    let (level, option) = match ip {
        IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU),
        IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU),
    };
    let mtu = mmsg::get_option(socket, level, option)?;
    Ok(usize::try_from(mtu).unwrap_or(0))
}

fn mtu_to(to: SocketAddr) -> io::Result<usize> {
    let socket = Socket::new(Domain::for_address(to), Type::DGRAM, Some(Protocol::UDP))?;
    socket.connect(&SockAddr::from(to))?;
    mtu_of(socket.as_fd(), to.ip())
}

/// Datagrams up to this are sent in any case, as they always were: every link of IPv6 takes 1280 bytes.
pub(super) const ALWAYS_SENT: usize = 1232;

/// Sends, each of up to 64 KiB, before the kernel is asked again. Few: what a router said a moment ago must
/// be known before the next length is tried, or its fragments arrive and pass for a datagram that fits.
const USES: u32 = 16;

/// Peers whose first link is known, at most; beyond it all are forgotten.
const KNOWN_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_takes_what_an_ethernet_does_not() {
        let mut links = FirstLinks::default();
        for peer in ["127.0.0.1:9", "[::1]:9"] {
            let peer: SocketAddr = peer.parse().unwrap();
            if peer.is_ipv6() && mtu_to(peer).is_err() {
                continue; // A machine without IPv6.
            }
            assert!(links.take(None, peer, 8_226), "{peer}");
            assert!(!links.take(None, peer, 70_000), "{peer}");
            assert_eq!(
                [100, 70_000].map(|length| fits(peer, length)),
                [true, false]
            );
        }
    }

    #[test]
    fn small_datagrams_are_nobodys_question() {
        let mut links = FirstLinks::default();
        let nowhere = SocketAddr::from(([240, 0, 0, 1], 9));
        assert!(links.take(None, nowhere, ALWAYS_SENT));
        assert!(links.known.is_empty());
    }

    #[test]
    fn answers_are_used_for_a_while_and_bounded() {
        let mut links = FirstLinks::default();
        for last in 0..=u16::MAX {
            let [a, b] = last.to_be_bytes();
            let peer = SocketAddr::from(([127, 1, a, b], 9));
            links.take(None, peer, 2_000);
            assert!(links.known.len() <= KNOWN_MAX);
            if last == 5_000 {
                break;
            }
        }
        let peer = SocketAddr::from(([127, 0, 0, 1], 9));
        links.take(None, peer, 2_000);
        links.take(None, peer, 2_000);
        assert_eq!(links.known[&peer.ip()].uses_left, USES - 1);
    }
}
