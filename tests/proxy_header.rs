//! What the running program tells a backend that asks who plays: the PROXY header in front of each stream.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the answer")]

mod support;

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};

use ppp::v2;
use support::accept;
use support::place::Place;
use support::program::Program;

/// The header that this stream begins with, and nothing behind it.
fn header_of(stream: &mut TcpStream) -> Vec<u8> {
    let mut header = vec![0; 16];
    stream.read_exact(&mut header).unwrap();
    let length = usize::from(u16::from_be_bytes([header[14], header[15]]));
    header.resize(16 + length, 0);
    stream.read_exact(&mut header[16..]).unwrap();
    header
}

/// A server whose backend wants a header.
fn serve(place: &Place, backend: &TcpListener) -> Program {
    let target = backend.local_addr().unwrap();
    place.write(
        "server.toml",
        format!(
            "version = 1\n[admin]\nlisten = \"\"\ncontrol_socket = \"\"\n\
             [listener.game]\nbind = [\"127.0.0.1:0\"]\nbackend = \"game\"\n\
             netcode = {{ key_file = \"key\" }}\n\
             [backend.game]\ntargets = [\"tcp://{target}\"]\nframing = \"raw\"\nproxy_protocol = \"v2\"\n"
        ),
    );
    place.start(&["serve", "--config", "server.toml"])
}

fn tunnel(place: &Place, remote: SocketAddr) -> Program {
    place.write(
        "tunnel.toml",
        format!(
            "version = 1\n[admin]\nlisten = \"\"\ncontrol_socket = \"\"\n\
             [tunnel.home]\nlisten = [\"tcp://127.0.0.1:0\"]\nremote = \"{remote}\"\nframing = \"raw\"\n\
             netcode = {{ key_file = \"key\", client_id = \"77\" }}\n"
        ),
    );
    place.start(&["connect", "--config", "tunnel.toml"])
}

/// A health check says that it is nobody's. A player's stream says where the player is, and whose session it is, as the log
/// does.
#[test]
fn a_backend_is_told_who_plays() {
    let place = Place::new("proxy-header");
    assert_eq!(
        place.start(&["keygen", "--out", "key"]).exit_code(),
        Some(0)
    );
    let backend = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = serve(&place, &backend);
    let check = header_of(&mut accept(&backend));
    let check = v2::Header::try_from(check.as_slice()).unwrap();
    assert_eq!(check.command, v2::Command::Local);

    let tunnel = tunnel(&place, server.address());
    let _player = TcpStream::connect(tunnel.address()).unwrap();
    // Checks go on meanwhile.
    let header = std::iter::repeat_with(|| header_of(&mut accept(&backend)))
        .find(|header| header.len() > 16)
        .unwrap();
    let header = v2::Header::try_from(header.as_slice()).unwrap();
    assert_eq!(header.command, v2::Command::Proxy);
    let started = server.logged("session_start");
    let v2::Addresses::IPv4(addresses) = header.addresses else {
        panic!("not IPv4: {:?}", header.addresses);
    };
    let source = SocketAddr::from((addresses.source_address, addresses.source_port));
    let destination = SocketAddr::from((addresses.destination_address, addresses.destination_port));
    assert_eq!(started["peer"], source.to_string());
    assert_eq!(destination, server.address());
    let tlv = |kind: u8| {
        let mut all = header.tlvs().map(Result::unwrap);
        all.find(|tlv| tlv.kind == kind)
            .map(|tlv| tlv.value.to_vec())
    };
    let session = started["session"].as_str().unwrap();
    assert_eq!(tlv(0x05).unwrap(), session.as_bytes());
    assert_eq!(tlv(0xe0).unwrap(), b"game");
    assert_eq!(tlv(0xe1).unwrap(), 77u64.to_be_bytes());
    assert_eq!(tlv(0xe3).unwrap(), b"yojimbo");
}
