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

#[test]
fn a_dual_stack_socket_shows_ipv4_as_ipv4() {
    let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
    let mut dual = UdpSocket::bind(any, Options::default()).unwrap();
    let port = dual.local_addr().port();
    let mut v4 = UdpSocket::bind(localhost(), Options::default()).unwrap();
    let mut v6 = UdpSocket::bind(
        SocketAddr::from((Ipv6Addr::LOCALHOST, 0)),
        Options::default(),
    )
    .unwrap();
    let mut sent = Sent::default();
    v4.send(
        &outgoing(&[(SocketAddr::from(([127, 0, 0, 1], port)), b"4".to_vec())]),
        &mut sent,
    );
    v6.send(
        &outgoing(&[(SocketAddr::from((Ipv6Addr::LOCALHOST, port)), b"6".to_vec())]),
        &mut sent,
    );
    let mut received = receive(&mut dual, 2);
    received.sort_by_key(|(_, bytes)| bytes.clone());
    let ours = [
        IpAddr::from([127, 0, 0, 1]),
        IpAddr::from(Ipv6Addr::LOCALHOST),
    ];
    for ((route, _), (socket, ours)) in received.iter().zip([(&v4, ours[0]), (&v6, ours[1])]) {
        assert_eq!(route.from, socket.local_addr());
        assert_eq!(route.to, Some(ours));
    }
    let mut replies = Outgoing::default();
    for (route, bytes) in &received {
        replies.bytes().extend_from_slice(bytes);
        replies.push(route.from, route.to);
    }
    dual.send(&replies, &mut sent);
    assert_eq!(sent.datagrams, 4);
    assert_eq!(receive(&mut v4, 1)[0].1, b"4");
    assert_eq!(receive(&mut v6, 1)[0].1, b"6");
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
/// either, which the kernel lets routers cut unless told. What every path should take may, where one does not.
#[test]
fn routers_cut_what_is_short_and_nothing_that_tries_a_path() {
    let mut receiver = UdpSocket::bind(localhost(), Options::default()).unwrap();
    let to = receiver.local_addr();
    for (never_cut, of_long) in [
        (true, libc::IP_PMTUDISC_PROBE),
        (false, libc::IP_PMTUDISC_DONT),
    ] {
        let options = Options {
            never_cut,
            ..Options::default()
        };
        let mut socket = UdpSocket::bind(localhost(), options).unwrap();
        let mut sent = Sent::default();
        for (sizes, told) in [
            (&[1_232, 1_232, 9][..], libc::IP_PMTUDISC_DONT),
            (&[1_232, 1_233, 1_233], of_long),
            (&[9, 1_232], libc::IP_PMTUDISC_DONT),
        ] {
            let datagrams: Vec<_> = sizes.iter().map(|size| (to, vec![7; *size])).collect();
            socket.send(&outgoing(&datagrams), &mut sent);
            let (level, option) = (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER);
            let now = mmsg::get_option(socket.io.as_fd(), level, option).unwrap();
            assert_eq!(now, told, "never cut: {never_cut}, {sizes:?}");
            let arrived = receive(&mut receiver, sizes.len());
            let arrived: Vec<_> = arrived.iter().map(|(_, bytes)| bytes.len()).collect();
            assert_eq!(arrived, sizes);
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
