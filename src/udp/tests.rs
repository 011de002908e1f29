use std::io::Read;
use std::net::Ipv6Addr;
use std::time::Duration;

use super::*;

fn localhost() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// Receives until `count` datagrams came; bounded.
fn receive(socket: &mut UdpSocket, count: usize) -> Vec<(Route, Vec<u8>)> {
    let mut received = Received::default();
    let mut all = Vec::new();
    for _ in 0..2_000 {
        match socket.receive(&mut received) {
            Ok(()) => {
                for index in 0..received.len() {
                    let (route, datagrams) = received.take(index);
                    all.extend(datagrams.map(|datagram| (route, datagram.to_vec())));
                }
            }
            Err(UdpError::Blocked) => std::thread::sleep(Duration::from_millis(1)),
            Err(error) => panic!("{error:?}"),
        }
        if all.len() >= count {
            break;
        }
    }
    all
}

fn outgoing(datagrams: &[(SocketAddr, Vec<u8>)]) -> Outgoing {
    let mut outgoing = Outgoing::default();
    for (to, bytes) in datagrams {
        outgoing.bytes().extend_from_slice(bytes);
        outgoing.push(*to, None);
    }
    outgoing
}

/// Sizes, peers and empty datagrams in any mix arrive as they were made, also where the kernel does not
/// cut for us.
#[test]
fn batches_arrive_whole() {
    let mut sender = UdpSocket::bind(localhost(), Options::default()).unwrap();
    let mut one = UdpSocket::bind(localhost(), Options::default()).unwrap();
    let mut two = UdpSocket::bind(localhost(), Options::default()).unwrap();
    let mut datagrams = Vec::new();
    for round in 0..10u8 {
        for size in [100, 100, 100, 40, 0, 100, 1200, 1200, 9] {
            datagrams.push((one.local_addr(), vec![round; size]));
        }
        datagrams.push((two.local_addr(), vec![round; 100]));
    }
    for is_cut_for_us in [true, false] {
        sender.segmentation &= is_cut_for_us;
        let mut sent = Sent::default();
        sender.send(&outgoing(&datagrams), &mut sent);
        assert_eq!(sent.datagrams, 100);
        assert_eq!(sent.errors, UdpErrors::default());
        for socket in [&mut one, &mut two] {
            let here = socket.local_addr();
            let ours = datagrams.iter().filter(|(to, _)| *to == here);
            let expected: Vec<_> = ours.map(|(_, bytes)| bytes.clone()).collect();
            let received = receive(socket, expected.len());
            let from = sender.local_addr();
            assert!(received.iter().all(|(route, _)| route.from == from));
            let received: Vec<_> = received.into_iter().map(|(_, bytes)| bytes).collect();
            assert_eq!(received, expected);
        }
    }
}

/// One destination that cannot be sent to costs its own datagram and nothing else.
#[test]
fn a_bad_destination_loses_its_own_datagram_only() {
    let mut sender = UdpSocket::bind(localhost(), Options::default()).unwrap();
    let mut good = UdpSocket::bind(localhost(), Options::default()).unwrap();
    let bad = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut sent = Sent::default();
    let mut datagrams = Vec::new();
    for _ in 0..20 {
        datagrams.push((good.local_addr(), vec![1; 50]));
        datagrams.push((bad, vec![2; 50]));
        datagrams.push((bad, vec![2; 50]));
        datagrams.push((good.local_addr(), vec![3; 50]));
    }
    sender.send(&outgoing(&datagrams), &mut sent);
    assert_eq!(sent.datagrams, 40);
    assert_eq!(sent.errors.of(UdpError::Invalid), 40);
    assert_eq!(receive(&mut good, 40).len(), 40);
    assert!(
        sender.segmentation,
        "a bad destination turned segmentation off"
    );
}

/// Who may have forged its address is counted, and apart, so that nobody is told that this host cannot send.
#[test]
fn answers_that_nobody_can_get_are_counted_apart() {
    let mut sender = UdpSocket::bind(localhost(), Options::default()).unwrap();
    let (bad, forged) = ([127, 0, 0, 1].into(), [127, 0, 0, 2].into());
    let mut sent = Sent::default();
    let mut outgoing = outgoing(&[(SocketAddr::new(bad, 0), b"peer".to_vec())]);
    for _ in 0..2 {
        outgoing.bytes().extend_from_slice(b"?");
        outgoing.push_unproven(SocketAddr::new(forged, 0), None);
    }
    sender.send(&outgoing, &mut sent);
    let counts = (
        sent.errors.of(UdpError::Invalid),
        sent.failed(UdpError::Invalid),
    );
    assert_eq!(counts, (3, 1));
    outgoing.clear();
    outgoing.bytes().extend_from_slice(b"in");
    outgoing.push(SocketAddr::new(forged, 0), None);
    sender.send(&outgoing, &mut sent);
    assert_eq!(sent.failed(UdpError::Invalid), 2, "a peer by now");
}

/// From each kind of address that this machine has.
#[test]
fn a_dual_stack_socket_shows_ipv4_as_ipv4() {
    let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
    if std::net::UdpSocket::bind(any).is_err() {
        return; // Its kernel has IPv4 only.
    }
    let mut dual = UdpSocket::bind(any, Options::default()).unwrap();
    let port = dual.local_addr().port();
    let mut clients = vec![UdpSocket::bind(localhost(), Options::default()).unwrap()];
    let six = SocketAddr::from((Ipv6Addr::LOCALHOST, 0));
    if std::net::UdpSocket::bind(six).is_ok() {
        clients.push(UdpSocket::bind(six, Options::default()).unwrap());
    }
    let mut sent = Sent::default();
    for (name, client) in clients.iter_mut().enumerate() {
        let asked = SocketAddr::new(client.local_addr().ip(), port);
        client.send(&outgoing(&[(asked, vec![name as u8])]), &mut sent);
    }
    let received = receive(&mut dual, clients.len());
    assert_eq!(received.len(), clients.len());
    let mut replies = Outgoing::default();
    for (route, bytes) in &received {
        let client = clients[usize::from(bytes[0])].local_addr();
        assert_eq!((route.from, route.to), (client, Some(client.ip())));
        replies.bytes().extend_from_slice(bytes);
        replies.push(route.from, route.to);
    }
    dual.send(&replies, &mut sent);
    assert_eq!(sent.datagrams, 2 * clients.len() as u64);
    for (name, client) in clients.iter_mut().enumerate() {
        assert_eq!(receive(client, 1)[0].1, [name as u8]);
    }
}

/// A socket on all addresses answers from the one that was asked, not from the kernel's choice.
#[test]
fn the_reply_leaves_from_the_address_that_was_asked() {
    let mut server =
        UdpSocket::bind(SocketAddr::from(([0, 0, 0, 0], 0)), Options::default()).unwrap();
    let asked = SocketAddr::from(([127, 0, 0, 2], server.local_addr().port()));
    let mut client = UdpSocket::bind(localhost(), Options::default()).unwrap();
    let mut sent = Sent::default();
    client.send(&outgoing(&[(asked, b"?".to_vec())]), &mut sent);
    let (route, _) = receive(&mut server, 1)[0];
    assert_eq!(route.to, Some(asked.ip()));
    let mut reply = Outgoing::default();
    reply.bytes().extend_from_slice(b"!");
    reply.push(route.from, route.to);
    server.send(&reply, &mut sent);
    assert_eq!(receive(&mut client, 1)[0].0.from, asked);
}

#[test]
fn a_connected_socket_hears_that_nobody_is_there() {
    // Somebody has the port, and hears from one peer only, who is not us.
    let holder = std::net::UdpSocket::bind(localhost()).unwrap();
    holder.connect((Ipv4Addr::LOCALHOST, 9)).unwrap();
    let closed = holder.local_addr().unwrap();
    let mut socket = UdpSocket::connect(closed, Options::default()).unwrap();
    let mut sent = Sent::default();
    socket.send(&outgoing(&[(closed, b"?".to_vec())]), &mut sent);
    let mut received = Received::default();
    let refused = (0..1_000).any(|_| {
        std::thread::sleep(Duration::from_millis(1));
        socket.receive(&mut received) == Err(UdpError::Refused)
    });
    assert!(refused);
    socket.send(&outgoing(&[(closed, b"?".to_vec())]), &mut sent);
    assert_eq!(sent.datagrams, 2, "the socket stays usable");
}

/// Anybody may make an ICMP error for a connected socket, and a server that starts again makes them: nothing is lost by one
/// that waited, and what leaves together goes on to leave together.
#[test]
fn an_error_that_waited_costs_nothing() {
    let holder = std::net::UdpSocket::bind(localhost()).unwrap();
    holder.connect((Ipv4Addr::LOCALHOST, 9)).unwrap();
    let closed = holder.local_addr().unwrap();
    let mut socket = UdpSocket::connect(closed, Options::default()).unwrap();
    let (one, many) = (vec![(closed, vec![7; 50])], vec![(closed, vec![7; 50]); 40]);
    let segmentation = socket.segmentation;
    for (waits, leaves) in [(&many, &one), (&one, &many)] {
        // Errors come when they come: one that waited, and none that comes between the attempts.
        let lost_nothing = (0..1_000).any(|_| {
            let mut sent = Sent::default();
            socket.send(&outgoing(waits), &mut sent);
            std::thread::sleep(Duration::from_millis(1));
            socket.new_refusals();
            let mut sent = Sent::default();
            socket.send(&outgoing(leaves), &mut sent);
            socket.new_refusals() == 1
                && (sent.datagrams, sent.errors.total()) == (leaves.len() as u64, 0)
                && sent.calls == 1
        });
        // An old kernel sends one by one, and hears of each.
        assert!(lost_nothing || !segmentation, "{} at once", leaves.len());
    }
    assert_eq!(socket.segmentation, segmentation, "one error turned it off");
}

/// What the kernel says twice is about the datagram itself, and ends the attempts.
#[test]
fn what_a_connected_socket_cannot_send_is_lost_after_a_second_try() {
    let mut receiver = UdpSocket::bind(localhost(), Options::default()).unwrap();
    let to = receiver.local_addr();
    let mut socket = UdpSocket::connect(to, Options::default()).unwrap();
    let mut sent = Sent::default();
    let long = (to, vec![7; 65_508]);
    socket.send(&outgoing(&[long, (to, b"short".to_vec())]), &mut sent);
    assert_eq!((sent.datagrams, sent.errors.of(UdpError::TooLarge)), (1, 1));
    assert_eq!(receive(&mut receiver, 1)[0].1, b"short");
}

/// None of what the kernel makes of ICMP, or says of this host's own troubles; and of what fits nowhere, nothing.
#[test]
fn segmentation_is_blamed_for_what_is_about_the_whole() {
    let blamed = |errno, segment| {
        let departure = Departure {
            to: localhost(),
            segment,
            ..NOTHING
        };
        blames_segmentation(&io::Error::from_raw_os_error(errno), &departure)
    };
    for errno in [
        libc::ENETUNREACH,
        libc::EHOSTUNREACH,
        libc::ENOPROTOOPT,
        libc::ECONNREFUSED,
        libc::EMSGSIZE,
        libc::EOPNOTSUPP,
        libc::EHOSTDOWN,
        libc::ENONET,
        libc::EPROTO,
        libc::ENOBUFS,
        libc::EPERM,
    ] {
        assert!(!blamed(errno, 50), "errno {errno}");
    }
    assert!(blamed(libc::EIO, 50));
    assert!(blamed(libc::EINVAL, 50));
    assert!(!blamed(libc::EINVAL, u16::MAX), "more than the path takes");
}

#[test]
fn the_kernels_drops_are_counted() {
    let small = Options {
        receive_buffer: 2_048,
        ..Options::default()
    };
    let mut receiver = UdpSocket::bind(localhost(), small).unwrap();
    let sender = std::net::UdpSocket::bind(localhost()).unwrap();
    for _ in 0..200 {
        sender.send_to(&[0; 500], receiver.local_addr()).unwrap();
    }
    let got = receive(&mut receiver, 200).len() as u64;
    assert!(got < 200, "the buffer was too large to prove anything");
    sender.send_to(b"after", receiver.local_addr()).unwrap();
    let mut received = Received::default();
    while receiver.receive(&mut received) == Err(UdpError::Blocked) {}
    assert_eq!(receiver.new_drops(&received), 200 - got);
    assert_eq!(receiver.new_drops(&received), 0);
}

/// To an address that no link leads to, where the kernel's word is an error: only a socket that said so leaves
/// it unasked about a long datagram. A message of rudp that is longer than the link depends on being cut.
#[test]
fn long_datagrams_are_the_kernels_to_cut_unless_said_otherwise() {
    let nowhere = SocketAddr::from(([240, 0, 0, 1], 9));
    let long = outgoing(&[(nowhere, vec![0; 1_472]), (nowhere, vec![0; 1_472])]);
    for never_cut in [false, true] {
        let options = Options {
            never_cut,
            ..Options::default()
        };
        let mut socket = UdpSocket::bind(localhost(), options).unwrap();
        let mut sent = Sent::default();
        socket.send(&long, &mut sent);
        assert_eq!(sent.datagrams, 0);
        assert_eq!(sent.errors == UdpErrors::default(), never_cut, "{sent:?}");
    }
}

/// What a path takes is learned from long datagrams, so none may arrive in pieces: not those that leave together
/// either, which the kernel lets routers cut unless told. What every path should take may, where one does not. Before,
/// between and after sends the kernel believes nobody who says that a path takes less.
#[test]
fn routers_cut_what_is_short_and_nothing_that_tries_a_path() {
    // An address that no other test sends to.
    let alone = SocketAddr::from(([127, 83, 11, 5], 0));
    let mut receiver = UdpSocket::bind(alone, Options::default()).unwrap();
    let to = receiver.local_addr();
    // Sees what comes there with its IP header; not for everybody.
    let wire = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::UDP)).ok();
    if let Some(wire) = &wire {
        wire.bind(&alone.into()).unwrap();
        wire.set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
    }
    let seen = |wire: &Socket| {
        let mut packet = vec![0; 65_536];
        loop {
            let length = (&*wire).read(&mut packet).unwrap();
            let header = 4 * usize::from(packet[0] & 15);
            if packet[header + 2..header + 4] == to.port().to_be_bytes() {
                return (length - header - 8, packet[6] & 0x40 != 0);
            }
        }
    };
    for never_cut in [true, false] {
        let options = Options {
            never_cut,
            ..Options::default()
        };
        let mut socket = UdpSocket::bind(localhost(), options).unwrap();
        let mut sent = Sent::default();
        for sizes in [
            &[][..],
            &[1_232, 1_232, 9],
            &[1_232, 1_233, 1_233],
            &[9, 1_232],
        ] {
            let datagrams: Vec<_> = sizes.iter().map(|size| (to, vec![7; *size])).collect();
            socket.send(&outgoing(&datagrams), &mut sent);
            let (level, option) = (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER);
            let now = mmsg::get_option(socket.io.as_fd(), level, option).unwrap();
            assert_eq!(
                now,
                libc::IP_PMTUDISC_OMIT,
                "never cut: {never_cut}, {sizes:?}"
            );
            let arrived = receive(&mut receiver, sizes.len());
            let arrived: Vec<_> = arrived.iter().map(|(_, bytes)| bytes.len()).collect();
            assert_eq!(arrived, sizes);
            let mut left: usize = sizes.iter().sum();
            while let Some(wire) = &wire
                && left > 0
            {
                let (length, whole) = seen(wire);
                let is_long = length > 1_232 && length.is_multiple_of(1_233);
                assert_eq!(
                    whole,
                    never_cut && is_long,
                    "never cut: {never_cut}, {length} of {sizes:?}"
                );
                left -= length;
            }
        }
        assert_eq!((sent.datagrams, sent.errors), (8, UdpErrors::default()));
    }
}

#[test]
fn a_port_that_is_taken_is_an_error() {
    let first = UdpSocket::bind(localhost(), Options::default()).unwrap();
    let second = UdpSocket::bind(first.local_addr(), Options::default());
    assert_eq!(second.unwrap_err().kind(), io::ErrorKind::AddrInUse);
}
