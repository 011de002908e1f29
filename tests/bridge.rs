//! The built program, both ends of it: a TCP client, `tidegate connect`, a bad network, `tidegate
//! serve`, a TCP server. Nobody but tidegate knows that there is UDP in between.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot get a socket has failed"
)]

mod support;

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::time::Duration;

use serde_json::Value;
use support::lossy::{Lossy, bad_network, worse_network};
use support::page;
use support::place::Place;
use support::program::Program;
use support::{PATIENCE, echo_server, wait_until, write_frame};
use tidegate_proto::sim::{Conditions, Random};
use tidegate_proto::yojimbo::netcode::gcm;

struct Bridge {
    serve: Program,
    connect: Program,
    lossy: Lossy,
}

impl Bridge {
    /// Both programs around a network under these conditions.
    fn build(place: &Place, protocol: &str, framing: &str, conditions: Conditions) -> Self {
        let serve = place.serve(protocol, framing, echo_server(), &[]);
        let server = serve.address();
        let lossy = Lossy::start(server, conditions, 7);
        let remote = format!("{protocol}://{}", lossy.address);
        let mut options = vec!["--framing", framing];
        if protocol == "yojimbo" {
            options.extend(["--key", "netcode.key"]);
        }
        let connect = connect(place, &remote, &options);
        Self {
            serve,
            connect,
            lossy,
        }
    }

    fn stream(&mut self) -> TcpStream {
        let stream = TcpStream::connect(self.connect.address()).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }
}

/// `tidegate connect` to `remote`, on a port of its own.
fn connect(place: &Place, remote: &str, options: &[&str]) -> Program {
    let common = [
        "connect",
        "--listen",
        "tcp://127.0.0.1:0",
        "--remote",
        remote,
        "--admin",
        "",
    ];
    place.start(&[&common, options].concat())
}

fn random_bytes(seed: u64, count: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..count).map(|_| random.below(256) as u8).collect()
}

/// Writes all of `bytes` and reads as many back.
fn round_trip(mut stream: TcpStream, bytes: &[u8]) -> Vec<u8> {
    let mut writer = stream.try_clone().unwrap();
    std::thread::scope(|scope| {
        // No half-close: the protocols have none, so the end of one direction ends the session.
        scope.spawn(move || writer.write_all(bytes).unwrap());
        let mut back = vec![0; bytes.len()];
        let mut got = 0;
        while got < back.len() {
            match stream.read(&mut back[got..]) {
                Ok(0) => break,
                Ok(count) => got += count,
                // So ends a wait with a timeout in a process that was stopped and goes on.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!("after {got} bytes: {error}"),
            }
        }
        back.truncate(got);
        back
    })
}

/// Frames as an application would write them: small ones, up to `size_max` bytes each.
fn frames(seed: u64, size_max: u64, total: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut frames = Vec::new();
    while frames.len() < total {
        let payload: Vec<u8> = (0..1 + random.below(size_max))
            .map(|_| random.below(256) as u8)
            .collect();
        write_frame(&mut frames, &payload);
    }
    frames
}

/// What a client writes comes back byte for byte, though the network did its worst.
fn bytes_survive(protocol: &str, framing: &str, bytes: &[u8]) {
    let place = Place::new(&format!("bridge-{protocol}-{framing}"));
    let mut bridge = Bridge::build(&place, protocol, framing, worse_network());
    assert!(
        round_trip(bridge.stream(), bytes) == bytes,
        "the bytes differ"
    );
    let done = bridge.lossy.done();
    assert!(
        done.lost > 30 && done.reordered > 30 && done.duplicated > 10,
        "the network was too kind to prove anything: {done:?}"
    );
    // The local program has left, and so does the session at the far side.
    bridge.serve.wait_for("\"event\":\"session_end\"");
    // What came twice was refused, and moved nobody.
    let dialled = bridge.connect.logged("session_end")["peer"].clone();
    assert_eq!(dialled, bridge.lossy.address.to_string());
    let warns = bridge.serve.has_said("\"event\":\"insecure_listener\"");
    assert_eq!(warns, protocol != "yojimbo");
}

#[test]
fn a_raw_stream_survives_over_yojimbo() {
    bytes_survive("yojimbo", "raw", &random_bytes(1, 400_000));
}

#[test]
fn frames_survive_over_yojimbo() {
    bytes_survive("yojimbo", "u16be", &frames(2, 1_000, 400_000));
}

#[test]
fn a_raw_stream_survives_over_gaffer() {
    bytes_survive("gaffer", "raw", &random_bytes(3, 400_000));
}

#[test]
fn frames_survive_over_gaffer() {
    bytes_survive("gaffer", "u16be", &frames(4, 900, 400_000));
}

#[test]
fn a_raw_stream_survives_over_rudp() {
    bytes_survive("rudp", "raw", &random_bytes(5, 400_000));
}

#[test]
fn frames_survive_over_rudp() {
    bytes_survive("rudp", "u16be", &frames(6, 1_400, 400_000));
}

/// Many bytes, so that both ends find out what the path takes: an Ethernet's 1500 bytes, and not more. And,
/// where the processor has the instructions, another cipher.
#[test]
fn a_fast_stream_fills_the_datagrams_that_the_path_takes() {
    let place = Place::new("bridge-mtu");
    let ethernet = Conditions {
        delay: Duration::from_millis(2),
        mtu: 1_500,
        ..Conditions::default()
    };
    let mut bridge = Bridge::build(&place, "yojimbo", "raw", ethernet);
    let bytes = random_bytes(4, 12_000_000);
    assert!(round_trip(bridge.stream(), &bytes) == bytes);
    let done = bridge.lossy.done();
    assert!(done.too_long >= 3, "something longer was tried: {done:?}");
    assert!(done.too_long <= 20, "and given up: {done:?}");
    // Each byte went there and back; datagrams of the standard's length would be 20,000.
    let payload = done.offered_bytes / done.offered;
    assert!(payload > 1_000, "{payload} bytes a datagram: {done:?}");
    let full = 2 * bytes.len() as u64 / 1_407;
    assert!(done.delivered < full * 5 / 4, "{done:?}, {full} full ones");
    let cipher = format!("\"aes_gcm\":{}", gcm::has_instructions());
    for end in [&mut bridge.connect, &mut bridge.serve] {
        let said = end.wait_for("session_end");
        assert!(said.contains(&cipher), "{said}");
    }
}

/// With `ack = "strict"` nothing is acknowledged before the backend's socket took it. Were a write not told of, no packet
/// would ever be, and what the client's queue holds would be all that gets through.
#[test]
fn a_stream_goes_on_where_only_what_was_written_is_acknowledged() {
    let place = Place::new("bridge-strict");
    place.start(&["keygen", "--out", "netcode.key"]).exit_code();
    let config = format!(
        "version = 1\n[admin]\nlisten = \"\"\ncontrol_socket = \"\"\n\
         [listener.game]\nbind = [\"127.0.0.1:0\"]\nbackend = \"game\"\nack = \"strict\"\n\
         netcode = {{ key_file = \"netcode.key\" }}\n\
         [backend.game]\ntargets = [\"tcp://{}\"]\nframing = \"raw\"\n",
        echo_server()
    );
    place.write("strict.toml", config);
    let serve = place.start(&["serve", "--config", "strict.toml"]);
    let remote = format!("yojimbo://{}", serve.address());
    let options = ["--framing", "raw", "--key", "netcode.key"];
    let connect = connect(&place, &remote, &options);
    let stream = TcpStream::connect(connect.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let bytes = random_bytes(5, 12_000_000);
    assert!(round_trip(stream, &bytes) == bytes);
}

/// Many connections at once, each a session of its own.
#[test]
fn streams_do_not_mix() {
    let place = Place::new("bridge-many");
    let mut bridge = Bridge::build(&place, "yojimbo", "raw", bad_network());
    let streams: Vec<_> = (0..20).map(|_| bridge.stream()).collect();
    std::thread::scope(|scope| {
        for (seed, stream) in (100..).zip(streams) {
            scope.spawn(move || {
                let bytes = random_bytes(seed, 5_000);
                assert!(round_trip(stream, &bytes) == bytes);
            });
        }
    });
    assert!(bridge.lossy.lost() > 20);
}

/// Local programs that leave at once are gone at the far end at once: each goodbye leaves, although they are more than are
/// sent in one turn, and through the socket of its own session.
#[test]
fn a_crowd_that_leaves_at_once_is_heard() {
    let place = Place::new("bridge-crowd");
    let mut bridge = Bridge::build(&place, "yojimbo", "raw", Conditions::default());
    let crowd: Vec<_> = (0..CROWD)
        .map(|_| {
            let mut stream = bridge.stream();
            stream.write_all(b"hello").unwrap();
            stream.read_exact(&mut [0; 5]).unwrap();
            stream
        })
        .collect();
    drop(crowd);
    let ends = wait_until("the end of every session", PATIENCE, || {
        let ends = bridge.serve.all_logged("session_end");
        (ends.len() == CROWD).then_some(ends)
    });
    let told = |end: &&Value| end["reason"] == "peer_disconnect";
    assert_eq!(ends.iter().filter(told).count(), CROWD);
}

/// A worker sends the goodbyes of twenty-five in one turn.
const CROWD: usize = 250;

/// When the far end goes away, the local connection ends: it does not hang.
#[test]
fn a_server_that_is_not_there_closes_the_local_connection() {
    let place = Place::new("bridge-nobody");
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
    let remote = format!("gaffer://{}", nobody.local_addr().unwrap());
    let connect = connect(&place, &remote, &[]);
    let mut stream = TcpStream::connect(connect.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(stream.read(&mut [0; 16]).unwrap_or(0), 0, "closed");
    connect.wait_for("session_end");
}

/// Each session has a socket of its own there, and what that does not hold is missing on the way like everything else.
#[test]
fn what_the_kernel_drops_at_a_tunnels_socket_is_counted() {
    let place = Place::new("bridge-drops");
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let remote = format!("gaffer://{}", server.local_addr().unwrap());
    let listen = ["connect", "--listen", "tcp://127.0.0.1:0", "--remote"];
    let connect = place.start(&[&listen[..], &[&remote, "--admin", "127.0.0.1:0"]].concat());
    let _stream = TcpStream::connect(connect.address()).unwrap();
    let (_, dialled) = server.recv_from(&mut [0; 2_048]).unwrap();
    connect.signal("STOP");
    for _ in 0..20_000 {
        server.send_to(&[0; 1_000], dialled).unwrap();
    }
    connect.signal("CONT");
    let counted = "\ntidegate_udp_socket_dropped_packets_total{listener=\"default\"} ";
    wait_until("what was dropped", PATIENCE, || {
        // The kernel says it with what comes after.
        server.send_to(b"after", dialled).unwrap();
        let metrics = page::ask(connect.admin(), "/metrics").1;
        let (_, count) = metrics.split_once(counted).unwrap();
        (!count.starts_with('0')).then_some(())
    });
}

/// A server refuses a token in silence; what is wrong with it can be seen at this end.
#[test]
fn a_token_for_another_game_is_told_of() {
    let place = Place::new("bridge-doubt");
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
    let server = nobody.local_addr().unwrap().to_string();
    let mut keygen = place.start(&["keygen", "--out", "key"]);
    assert_eq!(keygen.exit_code(), Some(0));
    let mint = [
        "token",
        "mint",
        "--key",
        "key",
        "--client-id",
        "7",
        "--server",
    ];
    let for_another = [&server, "--protocol-id", "0x1122", "--out", "token"];
    let mut mint = place.start(&[&mint[..], &for_another].concat());
    assert_eq!(mint.exit_code(), Some(0));
    let remote = format!("yojimbo://{server}");
    let connect = connect(&place, &remote, &["--token-file", "token"]);
    let _stream = TcpStream::connect(connect.address()).unwrap();
    let line = connect.wait_for("\"event\":\"token_doubtful\"");
    for part in [
        "\"reason\":\"wrong_protocol\"",
        "the token is for protocol id 0x0000000000001122, this end has 0x3174616765646974",
        "\"help\":",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
}

/// SIGTERM: what was accepted arrives, both sides hear of it, the exit code is 0.
#[test]
fn a_drain_ends_in_order() {
    let place = Place::new("bridge-drain");
    let mut bridge = Bridge::build(&place, "yojimbo", "raw", Conditions::default());
    let mut stream = bridge.stream();
    stream.write_all(b"hello").unwrap();
    let mut back = [0; 5];
    stream.read_exact(&mut back).unwrap();
    let Bridge {
        mut serve,
        mut connect,
        ..
    } = bridge;
    serve.signal("TERM");
    assert_eq!(serve.exit_code(), Some(0));
    assert_eq!(
        stream.read(&mut back).unwrap_or(0),
        0,
        "the client hears of it"
    );
    connect.signal("INT");
    assert_eq!(connect.exit_code(), Some(0));
    serve.wait_for("\"reason\":\"drain\"");
}

/// A port that somebody has is a clear error, not a share of the players.
#[test]
fn a_port_that_is_taken_is_refused() {
    let place = Place::new("bridge-taken");
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let listen = format!("gaffer://{}", taken.local_addr().unwrap());
    let mut serve = place.start(&[
        "serve",
        "--listen",
        &listen,
        "--backend",
        "tcp://127.0.0.1:9",
        "--admin",
        "",
    ]);
    assert_eq!(serve.exit_code(), Some(69));
    wait_until("the reason", PATIENCE, || {
        serve.has_said("cannot bind").then_some(())
    });
}

/// Its players' programs come back at once. Two lines for each time would fill their disks.
#[test]
fn a_server_that_sends_everybody_off_fills_no_log() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let remote = format!("gaffer://{}", server.local_addr().unwrap());
    std::thread::spawn(move || {
        let mut packet = [0; 2048];
        while let Ok((length, from)) = server.recv_from(&mut packet) {
            if length < 16 {
                continue;
            }
            // Welcome, and goodbye: the client's packet is acknowledged, and the kind of the record follows.
            for (sequence, kind) in [(1, 0), (2, 4)] {
                let mut answer = packet[..4].to_vec();
                answer.extend(u32::to_be_bytes(sequence));
                answer.extend(&packet[4..8]);
                answer.extend([0, 0, 0, 0, kind]);
                server.send_to(&answer, from).ok();
            }
        }
    });
    let place = Place::new("sent-off");
    let connect = connect(&place, &remote, &["--framing", "raw"]);
    let entrance = connect.address();
    let calls_many = connect.calls_many(|| {
        let come = || TcpStream::connect(entrance).unwrap();
        let streams: Vec<_> = std::iter::repeat_with(come).take(64).collect();
        for mut stream in streams {
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.read_to_end(&mut Vec::new()).ok();
        }
        64
    });
    assert!(calls_many);
}
