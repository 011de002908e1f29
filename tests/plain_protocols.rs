//! gaffer and rudp as the built program serves them, over real sockets: clients that are not ours, silence,
//! strangers, and all three protocols in one process. Both ends of ours: `bridge.rs`.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot get a socket has failed"
)]

mod support;

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

use support::lossy::{Lossy, worse_network};
use support::place::Place;
use support::program::Program;
use support::{PATIENCE, accept, echo_server, page, read_frame, wait_until, write_frame};
use tidegate_client::{Clock, Dial, GAFFER_PROTOCOL_ID, Polled, State};

/// `tidegate serve` with a file of its own.
struct Serve {
    program: Program,
    admin: SocketAddr,
}

impl Serve {
    fn start(place: &Place, file: &str) -> Self {
        place.write("serve.toml", file);
        let arguments = ["serve", "-c", "serve.toml", "--admin", "127.0.0.1:0"];
        let program = place.start(&arguments);
        let admin = program.admin();
        Self { program, admin }
    }

    /// Where this listener's socket is.
    fn address(&self, listener: &str) -> SocketAddr {
        let line = (self.program).logged_where("listening", |line| line["listener"] == listener);
        line["address"].as_str().unwrap().parse().unwrap()
    }

    /// One series now.
    fn metric(&self, series: &str) -> u64 {
        page::metric(self.admin, series).expect(series) as u64
    }

    /// Waits until a series has this value; figures are published four times a second.
    fn wait_for_metric(&self, series: &str, value: u64) {
        let what = format!("{series} {value}");
        wait_until(&what, PATIENCE, || {
            (self.metric(series) >= value).then_some(())
        });
        assert_eq!(self.metric(series), value, "{series}");
    }
}

/// A listener and its backend, without the checks that would connect to it uninvited.
fn file(name: &str, protocol: &str, more: &str, backend: SocketAddr) -> String {
    format!(
        r#"
        version = 1
        [backend.game]
        targets = ["tcp://{backend}"]
        framing = "u16be"
        health = {{ kind = "off" }}
        [listener.{name}]
        protocol = "{protocol}"
        bind = ["127.0.0.1:0"]
        backend = "game"
        {more}
        "#
    )
}

/// A gaffer client from the article's packets: four numbers, big-endian, and the payload.
struct Article {
    socket: UdpSocket,
    sequence: u32,
    /// The newest sequence received, once there is one.
    heard: u32,
}

impl Article {
    fn new(server: SocketAddr) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(server).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self {
            socket,
            sequence: 0,
            heard: 0,
        }
    }

    fn send(&mut self, payload: &[u8]) {
        let mut datagram = Vec::new();
        for number in [PROTOCOL_ID, self.sequence, self.heard, 0] {
            datagram.extend_from_slice(&number.to_be_bytes());
        }
        datagram.extend_from_slice(payload);
        self.socket.send(&datagram).unwrap();
        self.sequence += 1;
    }

    /// The payload of the next datagram, if one comes.
    fn receive(&mut self) -> Option<Vec<u8>> {
        let mut datagram = [0; 2048];
        let length = self.socket.recv(&mut datagram).ok()?;
        let (header, payload) = datagram[..length].split_at(16);
        assert_eq!(&header[..4], &PROTOCOL_ID.to_be_bytes());
        self.heard = u32::from_be_bytes(header[4..8].try_into().unwrap());
        Some(payload.to_vec())
    }
}

const PROTOCOL_ID: u32 = 0x1122_3344;

const RAW: &str = r#"gaffer = { protocol_id = "0x11223344", mode = "raw" }"#;

/// The first packets of a stranger are answered and nothing else; the packet that acknowledges the
/// answer opens a backend stream, and its payload is the first frame there.
#[test]
fn a_gaffer_stranger_must_answer_before_a_backend_hears_of_it() {
    let place = Place::new("plain-gaffer-stranger");
    let backend = TcpListener::bind("127.0.0.1:0").unwrap();
    backend.set_nonblocking(true).unwrap();
    let file = file("legacy", "gaffer", RAW, backend.local_addr().unwrap());
    let serve = Serve::start(&place, &file);
    let mut client = Article::new(serve.address("legacy"));
    for _ in 0..20 {
        client.heard = 0;
        client.send(b"not yet");
        assert_eq!(client.receive(), Some(vec![0]), "a keep-alive");
    }
    assert!(backend.accept().is_err(), "a stranger has a backend stream");
    assert_eq!(
        serve.metric("tidegate_peer_sessions_total{listener=\"legacy\"}"),
        0
    );

    client.send(b"first");
    let mut stream = accept(&backend);
    assert_eq!(read_frame(&mut stream), Some(b"first".to_vec()));
    for number in 0..100u32 {
        client.send(&number.to_be_bytes());
        assert_eq!(
            read_frame(&mut stream),
            Some(number.to_be_bytes().to_vec()),
            "one payload is one frame"
        );
    }
    write_frame(&mut stream, b"from the server");
    wait_until("the server's message", PATIENCE, || {
        (client.receive()? == b"from the server").then_some(())
    });
}

/// `max_peers` is for the listener, over all of its sockets: each has an endpoint of its own.
#[test]
fn a_listener_is_full_over_all_of_its_sockets() {
    let place = Place::new("plain-seats");
    let backend = echo_server();
    let more = "max_peers = 1";
    let file = file("game", "gaffer", more, backend)
        .replace("[\"127.0.0.1:0\"]", "[\"127.0.0.1:0\", \"127.0.0.2:0\"]");
    let serve = Serve::start(&place, &file);
    let servers = ["127.0.0.1", "127.0.0.2"].map(|ip| {
        let line = serve.program.wait_for(&format!("\"address\":\"{ip}:"));
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        let address = line["address"].as_str().unwrap();
        address.parse::<SocketAddr>().unwrap()
    });
    let clock = Clock::start();
    let dial = |server| {
        let dial = Dial::gaffer(server, GAFFER_PROTOCOL_ID);
        Polled::connect(clock.now(), dial).unwrap()
    };
    let mut first = dial(servers[0]);
    wait_until("a seat", PATIENCE, || {
        (first.update(clock.now()) == State::Connected).then_some(())
    });
    // The client is connected once the server is heard, which may be before it is accepted.
    wait_until("a session", PATIENCE, || {
        first.update(clock.now());
        let accepted =
            serve.metric("tidegate_handshakes_total{listener=\"game\",result=\"accepted\"}");
        (accepted > 0).then_some(())
    });
    let mut second = dial(servers[1]);
    wait_until("a refusal", PATIENCE, || {
        first.update(clock.now());
        assert_ne!(second.update(clock.now()), State::Connected);
        let refused = serve.metric("tidegate_handshakes_total{listener=\"game\",result=\"full\"}");
        (refused > 0).then_some(())
    });
    first.close(clock.now());
    wait_until("the seat", PATIENCE, || {
        (second.update(clock.now()) == State::Connected).then_some(())
    });
}

/// The article's rule: ten seconds without a packet end the virtual connection; another listener of
/// the same process can have it shorter.
#[test]
fn silence_ends_a_gaffer_session() {
    let place = Place::new("plain-gaffer-silence");
    let backend = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = backend.local_addr().unwrap();
    let quick = format!(
        "{RAW}\n[listener.quick]\nprotocol = \"gaffer\"\nbind = [\"127.0.0.1:0\"]\nbackend = \"game\"\n\
         idle_timeout = \"1s\"\n{RAW}"
    );
    let serve = Serve::start(&place, &file("legacy", "gaffer", &quick, address));
    let mut silent = Vec::new();
    for (listener, timeout) in [("legacy", 10), ("quick", 1)] {
        let mut client = Article::new(serve.address(listener));
        client.send(b"hello");
        client.receive().expect("a keep-alive");
        let last = now();
        client.send(b"hello");
        silent.push((listener, timeout, last, accept(&backend)));
    }
    for (listener, timeout, last, mut stream) in silent.into_iter().rev() {
        assert_eq!(read_frame(&mut stream), Some(b"hello".to_vec()));
        assert_eq!(stream.read(&mut [0; 16]).unwrap(), 0, "the stream ends");
        let lasted = last.elapsed();
        assert!(
            lasted >= Duration::from_secs(timeout),
            "{listener}: {lasted:?}"
        );
        let series = format!(
            "tidegate_peer_disconnects_total{{listener=\"{listener}\",reason=\"peer_timeout\"}}"
        );
        serve.wait_for_metric(&series, 1);
    }
    // It began last.
    let first = serve.program.wait_for("\"event\":\"session_end\"");
    assert!(first.contains("\"listener\":\"quick\""), "{first}");
}

/// A forged source makes us send that source six bytes five times a second, at most.
#[test]
fn a_rudp_stranger_is_answered_little_and_seldom() {
    let place = Place::new("plain-rudp-stranger");
    let backend = TcpListener::bind("127.0.0.1:0").unwrap();
    backend.set_nonblocking(true).unwrap();
    let file = file("skynet", "rudp", "", backend.local_addr().unwrap());
    let serve = Serve::start(&place, &file);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(serve.address("skynet")).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_millis(5)))
        .unwrap();
    let (start, mut sent, mut replies) = (now(), 0, Vec::new());
    // For a while, and until there is something to judge by.
    while start.elapsed() < Duration::from_millis(900) || sent <= 50 || replies.is_empty() {
        assert!(start.elapsed() < PATIENCE, "{sent} sent, {replies:?}");
        // "Send me your message 0", as the first datagram of a peer may say.
        socket.send(&[2, 0, 0]).unwrap();
        sent += 1;
        let mut datagram = [0; 2048];
        if let Ok(length) = socket.recv(&mut datagram) {
            replies.push(length);
        }
    }
    let most = 1 + start.elapsed().as_millis() as usize / 200;
    assert!(replies.len() <= most, "{replies:?}");
    assert!(replies.iter().all(|length| *length <= 6), "{replies:?}");
    let unproven = "tidegate_handshakes_total{listener=\"skynet\",result=\"unproven\"}";
    wait_until("all are counted", PATIENCE, || {
        (serve.metric(unproven) as usize + replies.len() >= sent).then_some(())
    });
    assert!(backend.accept().is_err(), "a stranger has a backend stream");
    assert_eq!(
        serve.metric("tidegate_peer_sessions_total{listener=\"skynet\"}"),
        0
    );
}

/// The C code sends an empty datagram after each large message, and does so while it is still a
/// stranger. Counted as malformed, an honest player passed for somebody with another protocol.
#[test]
fn an_empty_datagram_of_a_rudp_stranger_is_no_nonsense() {
    let place = Place::new("plain-rudp-empty");
    let backend = TcpListener::bind("127.0.0.1:0").unwrap();
    let file = file("skynet", "rudp", "", backend.local_addr().unwrap());
    let serve = Serve::start(&place, &file);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(serve.address("skynet")).unwrap();
    // Message 0, of 125 bytes, with its length in two bytes.
    let mut large = vec![0x80, 125 + 4, 0, 0];
    large.resize(4 + 125, b'a');
    for datagram in [&large[..], &[]] {
        socket.send(datagram).unwrap();
    }
    let rejected = |reason: &str| {
        format!("tidegate_udp_rejected_packets_total{{listener=\"skynet\",reason=\"{reason}\"}}")
    };
    serve.wait_for_metric(&rejected("unexpected"), 1);
    assert_eq!(serve.metric(&rejected("malformed")), 0);
    // A record cut short still is.
    socket.send(&large[..large.len() - 1]).unwrap();
    serve.wait_for_metric(&rejected("malformed"), 1);
}

/// A rudp peer that says a message is gone: the next ones arrive, and the hole is in the books.
#[test]
fn a_message_that_a_rudp_peer_forgot_is_reported() {
    let place = Place::new("plain-rudp-forgot");
    let backend = TcpListener::bind("127.0.0.1:0").unwrap();
    let more = "rudp = { on_missing = \"skip\" }";
    let file = file("skynet", "rudp", more, backend.local_addr().unwrap());
    let serve = Serve::start(&place, &file);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(serve.address("skynet")).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    // Messages 0 and 2, of one byte each; every request for another one is answered with "gone".
    let messages = [5, 0, 0, b'a', 5, 0, 2, b'c'];
    socket.send(&messages).unwrap();
    let mut stream = None;
    backend.set_nonblocking(true).unwrap();
    wait_until("both messages", PATIENCE, || {
        let mut datagram = [0; 2048];
        let length = socket.recv(&mut datagram).unwrap_or(0);
        let mut answer = Vec::new();
        for request in datagram[..length].chunks_exact(3) {
            match *request {
                [2, 0, 0 | 2] => answer.extend_from_slice(&messages),
                [2, high, low] => answer.extend_from_slice(&[3, high, low]),
                _ => {}
            }
        }
        if !answer.is_empty() {
            socket.send(&answer).unwrap();
        }
        stream = stream.take().or_else(|| backend.accept().ok());
        let (stream, _) = stream.as_mut()?;
        stream.set_nonblocking(true).unwrap();
        let mut peeked = [0; 16];
        (stream.peek(&mut peeked).ok()? == 6).then(|| assert_eq!(peeked[..6], *b"\0\x01a\0\x01c"))
    });
    serve.wait_for_metric("tidegate_messages_skipped_total{listener=\"skynet\"}", 1);
}

/// An allow list is asked before anything is answered.
#[test]
fn who_is_not_allowed_hears_nothing() {
    let place = Place::new("plain-denied");
    let more = format!("{RAW}\nlimits = {{ allow = [\"10.0.0.0/8\"] }}");
    let nobody = SocketAddr::from(([127, 0, 0, 1], 9));
    let serve = Serve::start(&place, &file("legacy", "gaffer", &more, nobody));
    let mut client = Article::new(serve.address("legacy"));
    client.send(b"hello");
    serve.wait_for_metric(
        "tidegate_udp_rejected_packets_total{listener=\"legacy\",reason=\"source_denied\"}",
        1,
    );
    let brief = Some(Duration::from_millis(50));
    client.socket.set_read_timeout(brief).unwrap();
    assert_eq!(client.receive(), None);
    let sources = serve.program.wait_for("insecure_listener");
    assert!(sources.contains("\"sources\":\"10.0.0.0/8\""), "{sources}");
}

/// One process, one listener of each protocol: each counts its own.
#[test]
fn three_protocols_live_side_by_side() {
    let place = Place::new("plain-three");
    assert_eq!(
        place.start(&["keygen", "--out", "netcode.key"]).exit_code(),
        Some(0)
    );
    let protocols = ["yojimbo", "gaffer", "rudp"];
    let mut config = format!(
        "version = 1\n[backend.game]\ntargets = [\"tcp://{}\"]\nframing = \"u16be\"\n",
        echo_server()
    );
    for name in protocols {
        config += &format!(
            "[listener.{name}-door]\nprotocol = \"{name}\"\nbind = [\"127.0.0.1:0\"]\nbackend = \"game\"\n"
        );
    }
    let serve = Serve::start(&place, &config);
    // Kept running to the end: each still has to tell its peer that the program's stream closed.
    let mut connects = Vec::new();
    for (count, name) in (3u64..).zip(protocols) {
        let remote = format!("{name}://{}", serve.address(&format!("{name}-door")));
        let mut arguments = vec!["connect", "--listen", "tcp://127.0.0.1:0"];
        arguments.extend(["--remote", &remote, "--framing", "u16be"]);
        if name == "yojimbo" {
            arguments.extend(["--key", "netcode.key"]);
        }
        let connect = place.start(&arguments);
        let mut stream = TcpStream::connect(connect.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        for number in 0..count {
            write_frame(&mut stream, name.as_bytes());
            assert_eq!(
                read_frame(&mut stream).as_deref(),
                Some(name.as_bytes()),
                "message {number}"
            );
        }
        connects.push(connect);
    }
    for (count, name) in (3..).zip(protocols) {
        for direction in ["to_backend", "to_peer"] {
            let series = format!(
                "tidegate_messages_forwarded_total{{listener=\"{name}-door\",direction=\"{direction}\"}}"
            );
            serve.wait_for_metric(&series, count);
        }
        let left = format!(
            "tidegate_peer_disconnects_total{{listener=\"{name}-door\",reason=\"peer_disconnect\"}}"
        );
        serve.wait_for_metric(&left, 1);
        let sessions = format!("tidegate_peer_sessions_total{{listener=\"{name}-door\"}}");
        assert_eq!(serve.metric(&sessions), 1);
    }
}

/// The client that stands in the documentation, written from the wire page alone: its messages come
/// back in order through loss on both sides, and once it is killed, silence ends its session.
#[test]
fn the_documented_gaffer_client_is_served() {
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("python3 is not here, so docs/examples/gaffer_client.py was NOT run");
        return;
    }
    let place = Place::new("plain-python");
    let more = "idle_timeout = \"2s\"\ngaffer = { protocol_id = \"0x11223344\" }";
    let serve = Serve::start(&place, &file("legacy", "gaffer", more, echo_server()));
    let lossy = Lossy::start(serve.address("legacy"), worse_network(), 5);
    // Long enough to need a hundred packets each way.
    let words = "again and ".repeat(30);
    let texts: Vec<String> = (0..200).map(|number| format!("{words} {number}")).collect();
    let client = |seconds: &str| {
        let mut command = Command::new("python3");
        let script = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/docs/examples/gaffer_client.py"
        );
        command
            .args([script, "127.0.0.1", &lossy.address.port().to_string()])
            .args(["--loss", "0.1", "--seconds", seconds]);
        command
    };
    let output = client("60").args(&texts).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}");
    assert!(said.lines().eq(&texts), "{said}");
    assert!(lossy.done().lost > 5, "too kind: {:?}", lossy.done());
    serve.program.wait_for("\"reason\":\"peer_disconnect\"");

    // It is killed while it waits for an answer to a message that is never the last.
    let endless = ["--expect", "1000", "still here"];
    let mut killed = client("60").args(endless).spawn().unwrap();
    serve.wait_for_metric(
        "tidegate_handshakes_total{listener=\"legacy\",result=\"accepted\"}",
        2,
    );
    let ended = "\"reason\":\"peer_timeout\"";
    assert!(
        !serve.program.has_said(ended),
        "it is there, so it is heard"
    );
    killed.kill().unwrap();
    killed.wait().unwrap();
    serve.program.wait_for(ended);
}

#[expect(clippy::disallowed_methods, reason = "a test runs in real time")]
fn now() -> Instant {
    Instant::now()
}
