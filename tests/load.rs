//! `tidegate load` as it is built, against `tidegate serve` as it is built: over bad networks all is
//! well, and when something is not, it says so.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot get a socket has failed"
)]

mod support;

use std::fs::Permissions;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use support::lossy::Lossy;
use support::place::Place;
use support::program::Program;
use support::{NO_HOST, closed_port, read_frame, write_frame};
use tidegate_proto::sim::Conditions;

impl Place {
    fn run(&self, arguments: &str) -> Output {
        Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(arguments.split_whitespace())
            .current_dir(self.dir())
            .env_clear()
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// What people read at the end of a load.
    fn summary(&self, arguments: &str) -> String {
        let said = String::from_utf8(self.run(&format!("load {arguments}")).stdout).unwrap();
        let (_, summary) = said.split_once("\nclients ").expect(&said);
        format!("clients {summary}")
    }

    /// A file with a key, each of its bytes written as these two digits.
    fn write_key(&self, name: &str, digits: &str) {
        let path = self.write(name, digits.repeat(32));
        std::fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
    }

    /// A yojimbo server with the key in `netcode.key`, and these lines more in its listener and its
    /// backend.
    fn serve_yojimbo(&self, listener: &str, backend: &str) -> Program {
        self.serve_yojimbo_before(echo_server(), listener, backend)
    }

    /// A yojimbo server in front of this backend.
    fn serve_yojimbo_before(&self, target: SocketAddr, listener: &str, backend: &str) -> Program {
        let config = format!(
            r#"
            version = 1
            [admin]
            listen = ""
            [listener.game]
            protocol = "yojimbo"
            bind = ["127.0.0.1:0"]
            backend = "echo"
            netcode.key_file = "netcode.key"
            {listener}
            [backend.echo]
            targets = ["tcp://{target}"]
            framing = "u16be"
            {backend}
            "#
        );
        self.write("serve.toml", &config);
        self.start(&["serve", "--config", "serve.toml"])
    }

    /// A tunnel to this server in `tunnel.toml`, with these other words of its table.
    fn write_tunnel(&self, server: SocketAddr, words: &str) {
        let config = format!(
            r#"
            version = 1
            [tunnel.home]
            listen = ["tcp://127.0.0.1:0"]
            remote = "{server}"
            framing = "u16be"
            netcode.key_file = "netcode.key"
            {words}
            "#
        );
        self.write("tunnel.toml", &config);
    }

    /// One whose layout is not the server's: messages of 1000 bytes at most, and these channels behind the first.
    fn write_other_layout(&self, server: SocketAddr, channels: &str) {
        let layout = format!(
            r#"
            [[tunnel.home.yojimbo.channel]]
            type = "reliable-ordered"
            {channels}
            [[tunnel.home.yojimbo.message]]
            name = "Frame"
            body = "bytes"
            length = [0, 1000]
            [[tunnel.home.yojimbo.message]]
            name = "BlockFrame"
            body = "block"
            "#
        );
        self.write_tunnel(server, &layout);
    }

    /// With these arguments, as they would be typed: the exit code, the result, and what it complained about.
    fn load(&self, arguments: &str) -> (i32, Value, String) {
        let output = self.run(&format!("load --json {arguments}"));
        let said = String::from_utf8(output.stdout).unwrap();
        let result = said
            .lines()
            .last()
            .map_or(Value::Null, |line| serde_json::from_str(line).expect(line));
        let complaint = String::from_utf8(output.stderr).unwrap();
        (output.status.code().unwrap(), result, complaint)
    }
}

fn echo_server() -> SocketAddr {
    tidegate::load::echo::start(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap()
}

fn count(result: &Value, path: &str) -> u64 {
    let value = result.pointer(path).and_then(Value::as_u64);
    value.unwrap_or_else(|| panic!("no {path} in {result}"))
}

fn bad_network() -> Conditions {
    Conditions {
        delay: Duration::from_millis(10),
        jitter: Duration::from_millis(5),
        loss: 0.05,
        reorder: (0.02, Duration::from_millis(20)),
        duplicate: 0.02,
        ..Conditions::default()
    }
}

/// How a server of this protocol is found, and got into.
fn dial(protocol: &str, address: SocketAddr) -> String {
    let key = match protocol {
        "yojimbo" => "--key netcode.key",
        _ => "",
    };
    format!("--remote {protocol}://{address} {key}")
}

/// Long enough for what gets in, and soon over for what does not.
const BRIEFLY: &str = "--ramp 0s --for 1s --connect-timeout 2s";

/// Every protocol, frames and a raw stream, through a network that loses, repeats and reorders.
#[test]
fn all_of_it_comes_back_over_a_bad_network() {
    for (protocol, framing) in [
        ("yojimbo", "u16be"),
        ("yojimbo", "raw"),
        ("gaffer", "u16be"),
        ("rudp", "u16be"),
    ] {
        let place = Place::new(&format!("good-{protocol}-{framing}"));
        let echo = echo_server();
        let serve = place.serve(protocol, framing, echo, &[]);
        let server = serve.address();
        let lossy = Lossy::start(server, bad_network(), 13);
        let dial = dial(protocol, lossy.address);
        let load = format!("{dial} --clients 20 --rate 20 --size 12-700 --ramp 200ms --for 3s");
        let (code, result, complaint) = place.load(&load);
        let what = format!("{protocol} {framing}: {result} {complaint}");
        assert_eq!(code, 0, "{what}");
        assert_eq!(count(&result, "/connected"), 20, "{what}");
        let (sent, back) = (
            count(&result, "/reliable/sent"),
            count(&result, "/reliable/back"),
        );
        assert_eq!(sent, count(&result, "/due") - count(&result, "/unsent"));
        assert_eq!(
            (sent, count(&result, "/reliable/missing")),
            (back, 0),
            "{what}"
        );
        assert!(sent > 600, "{what}");
        assert_eq!(count(&result, "/wrong"), 0, "{what}");
        let fastest = result["round_trip_ms"]["p50"].as_f64().unwrap();
        assert!(fastest >= 20.0, "the way is longer than that: {what}");
        let done = lossy.done();
        assert!(done.lost > 50 && done.duplicated > 10, "too kind: {done:?}");
    }
}

/// Between two reports nobody looks.
#[test]
fn a_load_that_is_shorter_than_a_report_knows_what_it_cost() {
    let place = Place::new("cost");
    let serve = place.serve("gaffer", "u16be", echo_server(), &[]);
    let dial = dial("gaffer", serve.address());
    let (code, result, complaint) = place.load(&format!("{dial} --clients 5 {BRIEFLY} --every 1h"));
    assert_eq!(code, 0, "{result} {complaint}");
    assert!(count(&result, "/resident_bytes") > 0, "{result}");
    assert!(result["cores"].as_f64().unwrap() > 0.0, "{result}");
}

/// Unreliable messages go and come on a channel of their own; some get lost, and that is no mistake.
#[test]
fn unreliable_messages_are_counted_apart() {
    let place = Place::new("unreliable");
    place.write_key("netcode.key", "11");
    let any = r#"public_addresses = ["any"]"#;
    let serve = place.serve_yojimbo(any, "channel_byte = true");
    let lossy = Lossy::start(serve.address(), bad_network(), 17);
    let dial = dial("yojimbo", lossy.address);
    let load = format!("{dial} --clients 10 --rate 40 --unreliable 50 --ramp 100ms --for 3s");
    let (code, result, complaint) = place.load(&load);
    assert_eq!(code, 0, "{result} {complaint}");
    let (sent, back) = (
        count(&result, "/unreliable/sent"),
        count(&result, "/unreliable/back"),
    );
    assert!(sent > 300 && back > sent / 2, "{result}");
    assert!(back < sent, "the network loses some: {result}");
    assert_eq!(sent - back, count(&result, "/unreliable/missing"));
    let reliable = count(&result, "/reliable/sent");
    assert!(reliable.abs_diff(sent) <= 10, "half and half: {result}");
    assert_eq!(count(&result, "/reliable/missing"), 0, "{result}");
}

/// A backend that echoes frames, but does this to every tenth of each stream.
fn bad_backend(harm: fn(Vec<u8>) -> Vec<Vec<u8>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || echo_badly(stream, harm));
        }
    });
    address
}

fn echo_badly(mut stream: TcpStream, harm: fn(Vec<u8>) -> Vec<Vec<u8>>) {
    let mut frames = 0;
    while let Some(frame) = read_frame(&mut stream) {
        frames += 1;
        let answers = if frames % 10 == 0 {
            harm(frame)
        } else {
            vec![frame]
        };
        for answer in answers {
            let length = (answer.len() as u16).to_be_bytes();
            // Where the other end has gone, this one goes too.
            if stream.write_all(&[&length[..], &answer].concat()).is_err() {
                return;
            }
        }
    }
}

/// The checks can fail: each kind of harm is found, and named.
#[test]
fn a_backend_that_does_harm_is_found_out() {
    let flip: fn(Vec<u8>) -> Vec<Vec<u8>> = |mut frame| {
        let last = frame.len() - 1;
        frame[last] ^= 1;
        vec![frame]
    };
    let cut: fn(Vec<u8>) -> Vec<Vec<u8>> = |mut frame| {
        frame.pop();
        vec![frame]
    };
    let swallow: fn(Vec<u8>) -> Vec<Vec<u8>> = |_| Vec::new();
    let repeat: fn(Vec<u8>) -> Vec<Vec<u8>> = |frame| vec![frame.clone(), frame];
    for (name, harm, counter) in [
        ("flip", flip, "/wrong"),
        ("cut", cut, "/wrong"),
        ("swallow", swallow, "/reliable/missing"),
        ("repeat", repeat, "/reliable/duplicated"),
    ] {
        let place = Place::new(name);
        let serve = place.serve("yojimbo", "u16be", bad_backend(harm), &[]);
        let server = serve.address();
        let dial = dial("yojimbo", server);
        let load = format!("{dial} --clients 4 --rate 50 --ramp 50ms --for 1s --settle 2s");
        let (code, result, complaint) = place.load(&load);
        assert_eq!(code, 1, "{name}: {result} {complaint}");
        assert_eq!(result["ok"], false);
        assert_eq!(count(&result, "/connected"), 4, "{name}: {result}");
        // Four streams of some fifty messages, of which every tenth is harmed.
        let found = count(&result, counter);
        assert!((12..=40).contains(&found), "{name}: {found}: {result}");
        let back = count(&result, "/reliable/back");
        assert!(back > 100, "{name}: the others are right: {result}");
    }
}

/// A backend that turns two messages round: both come, one too late.
#[test]
fn the_wrong_order_is_found_out() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let backend = listener.local_addr().unwrap();
    let turn_round = |mut stream: TcpStream| {
        while let (Some(first), Some(second)) = (read_frame(&mut stream), read_frame(&mut stream)) {
            write_frame(&mut stream, &second);
            write_frame(&mut stream, &first);
        }
    };
    std::thread::spawn(move || {
        // The health check connects too.
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || turn_round(stream));
        }
    });
    let place = Place::new("order");
    let serve = place.serve("gaffer", "u16be", backend, &[]);
    let server = serve.address();
    let dial = dial("gaffer", server);
    let (code, result, _) = place.load(&format!("{dial} --clients 1 --window 8 --for 1s"));
    assert_eq!(code, 1, "{result}");
    assert!(count(&result, "/reliable/out_of_order") > 5, "{result}");
    assert_eq!(count(&result, "/wrong"), 0, "{result}");
}

/// Nobody there, the wrong key, no backend: the code says "not available", and a sentence says why.
#[test]
fn clients_that_do_not_get_in_say_why() {
    let place = Place::new("outside");
    let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let three = |dial: &str| place.load(&format!("{dial} --clients 3 {BRIEFLY}"));
    let nowhere = dial("rudp", nobody.local_addr().unwrap());
    let (code, result, _) = three(&nowhere);
    assert_eq!(code, 69, "{result}");
    assert_eq!(count(&result, "/refused/connect_timeout"), 3, "{result}");
    let summary = place.summary(&format!("{nowhere} --clients 1 {BRIEFLY}"));
    assert!(
        summary.contains("clients      0 of 1 connected\n"),
        "{summary}"
    );
    for of_those_within in ["handshakes took", "does the backend echo?", "round trip "] {
        assert!(!summary.contains(of_those_within), "{summary}");
    }
    let said = place.run(&format!(
        "load {nowhere} --clients 1 {BRIEFLY} --every 200ms"
    ));
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(said.contains(" ramp "), "{said}");
    assert!(!said.contains(" measure "), "of whom? {said}");

    let (_closed, closed) = closed_port();
    let serve = place.serve("yojimbo", "u16be", closed, &[]);
    let server = serve.address();
    let (code, result, _) = three(&dial("yojimbo", server));
    assert_eq!(code, 69, "{result}");
    let refused = count(&result, "/refused/denied");
    assert_eq!(refused, 3, "{result}");
    assert!(count(&result, "/redials") >= 1, "they try again: {result}");

    place.write_key("other.key", "22");
    let (code, result, _) = three(&format!("--remote yojimbo://{server} --key other.key"));
    assert_eq!(code, 69, "{result}");
    assert_eq!(count(&result, "/refused/connect_timeout"), 3, "{result}");
}

/// A denial takes its time where the server tries its backend again, so a client's patience ends in the middle of a try.
#[test]
fn who_was_denied_and_tried_again_was_not_met_with_silence() {
    let place = Place::new("denied-late");
    let (_closed, closed) = closed_port();
    place.write_key("netcode.key", "11");
    let slow =
        "connect_attempts = 2\nretry_backoff = [\"2s\", \"2s\"]\nhealth = { kind = \"off\" }";
    let serve = place.serve_yojimbo_before(closed, "", slow);
    let dial = dial("yojimbo", serve.address());
    // Denied after one to two seconds, dialled again a second later, and denied again after three at the earliest.
    let (code, result, _) = place.load(&format!(
        "{dial} --clients 3 --ramp 0s --for 1s --connect-timeout 3s"
    ));
    assert_eq!(code, 69, "{result}");
    assert_eq!(count(&result, "/refused/denied"), 3, "{result}");
}

/// Who is turned away hears "denied" and no more; the log has the key to raise.
#[test]
fn a_full_server_names_the_limit_that_was_met() {
    let place = Place::new("full");
    let echo = echo_server();
    for (key, runtime, listener) in [
        ("runtime.max_peers", "max_peers = 1", ""),
        ("listener.game.max_peers", "", "max_peers = 1"),
    ] {
        place.write(
            "full.toml",
            format!(
                r#"
                version = 1
                [runtime]
                {runtime}
                [admin]
                listen = ""
                [listener.game]
                protocol = "gaffer"
                bind = ["127.0.0.1:0"]
                backend = "echo"
                {listener}
                [backend.echo]
                targets = ["tcp://{echo}"]
                framing = "u16be"
                "#
            ),
        );
        let serve = place.start(&["serve", "--config", "full.toml"]);
        let dial = dial("gaffer", serve.address());
        let load = format!("load {dial} --clients 3 --for 2s --connect-timeout 2s");
        let load: Vec<&str> = load.split_whitespace().collect();
        let load = place.start(&load);
        let line = serve.wait_for("newcomers_refused");
        for part in [
            format!("\"key\":\"{key}\""),
            "\"limit\":1,".to_owned(),
            "\"reason\":\"full\"".to_owned(),
        ] {
            assert!(line.contains(&part), "no {part} in {line}");
        }
        drop(load);
    }
}

/// Tokens name another place than the server believes to be at: its log says so.
#[test]
fn a_public_address_that_differs_is_named_in_the_servers_log() {
    let place = Place::new("elsewhere");
    place.write_key("netcode.key", "33");
    let address = r#"public_addresses = ["203.0.113.7:40000"]"#;
    let serve = place.serve_yojimbo(address, "");
    let dial = dial("yojimbo", serve.address());
    let (code, result, _) = place.load(&format!("{dial} --clients 2 {BRIEFLY}"));
    assert_eq!(code, 69, "{result}");
    let line = serve.wait_for("token_refused");
    assert!(
        line.contains("token_address") && line.contains("public_addresses"),
        "{line}"
    );
    assert!(line.contains("\"peer\":\"127.0.0.1:"), "whose? {line}");
    let line = serve.wait_for("\"listening\"");
    let taken = "\"public_addresses\":\"203.0.113.7:40000\"";
    assert!(line.contains(taken), "{line}");
}

/// Two sides with different layouts: the server's log says so.
#[test]
fn a_layout_that_differs_is_named_in_the_servers_log() {
    let place = Place::new("layout");
    place.write_key("netcode.key", "33");
    let any = r#"public_addresses = ["any"]"#;
    let serve = place.serve_yojimbo(any, "");
    let unreliable = r#"
        [[tunnel.home.yojimbo.channel]]
        type = "unreliable-unordered"
        disable_blocks = true
        "#;
    place.write_other_layout(serve.address(), unreliable);
    let load = format!("--config tunnel.toml --clients 2 {BRIEFLY}");
    let (code, result, complaint) = place.load(&load);
    assert_eq!(code, 1, "{result} {complaint}");
    assert_eq!(count(&result, "/ended/peer_disconnect"), 2, "{result}");
    let line = serve.wait_for("unreadable_peer");
    assert!(
        line.contains("first_message") && line.contains("tidegate check"),
        "{line}"
    );
}

/// Nothing is wrong with the client until it says much at once.
#[test]
fn fragments_of_another_size_are_named_in_the_servers_log() {
    let place = Place::new("fragments");
    place.write_key("netcode.key", "33");
    let any = r#"public_addresses = ["any"]"#;
    let serve = place.serve_yojimbo(any, "");
    // With datagrams as short as a standard client's, which has no others.
    let sizes = r#"yojimbo = { packet_fragment_size = "512B", path_mtu_max = "1280B" }"#;
    place.write_tunnel(serve.address(), sizes);
    let load = "--config tunnel.toml --clients 1 --rate 10 --size 3000 --ramp 0s --for 20s";
    let (code, result, complaint) = place.load(load);
    assert_eq!(code, 1, "{result} {complaint}");
    let end = serve.wait_for("session_end");
    assert!(end.contains("peer_gap_stall"), "{end}");
    let line = serve.wait_for("unreadable_peer");
    assert!(
        line.contains("\"fragments\"") && line.contains("packet_fragment_size"),
        "{line}"
    );
}

/// The kernel spreads one address over the workers by its ports; what it did counts at all of them, and at an address
/// that the listener gets later, but at no other listener, one that comes later included.
#[test]
fn strikes_keep_an_address_out_of_every_worker() {
    let place = Place::new("strikes");
    place.write_key("netcode.key", "33");
    let strikes = r#"
        public_addresses = ["any"]
        limits = { strikes = { limit = 10, window = "1h", ban = "1h" } }
        "#;
    let serve = place.serve_yojimbo(strikes, "[runtime]\nworkers = 2");
    let config = std::fs::read_to_string(place.path("serve.toml")).unwrap();
    let address = serve.address();
    place.write_other_layout(address, "");
    place.load(&format!("--config tunnel.toml --clients 12 {BRIEFLY}"));
    let line = serve.wait_for("source_banned");
    for part in [
        "\"level\":\"warn\"",
        "\"peer\":\"127.0.0.1:",
        "\"range\":\"127.0.0.1/32\"",
        "\"for_s\":3600",
        "ctl unban",
    ] {
        assert!(line.contains(part), "no {part} in {line}");
    }
    let dial = dial("yojimbo", address);
    let (code, result, _) = place.load(&format!("{dial} --clients 8 {BRIEFLY}"));
    assert_eq!(code, 69, "{result}");
    assert_eq!(count(&result, "/connected"), 0, "{result}");

    let arena =
        "[listener.arena]\nprotocol = \"gaffer\"\nbind = [\"127.0.0.1:0\"]\nbackend = \"echo\"\n";
    place.write("serve.toml", format!("{config}\n{arena}"));
    serve.signal("HUP");
    let line = serve.logged_where("listening", |line| line["listener"] == "arena");
    let added = line["address"].as_str().unwrap();
    let load = format!("--remote gaffer://{added} --clients 8 {BRIEFLY}");
    let (code, result, _) = place.load(&load);
    assert_eq!(code, 0, "they did nothing there: {result}");

    let bind = "bind = [\"127.0.0.1:0\"]";
    let wider = config.replacen(bind, "bind = [\"127.0.0.1:0\", \"127.0.0.2:0\"]", 1);
    place.write("serve.toml", format!("{wider}\n{arena}"));
    serve.signal("HUP");
    let is_added = |line: &Value| {
        let address = line["address"].as_str().unwrap_or_default();
        address.starts_with("127.0.0.2:")
    };
    let line = serve.logged_where("listening", is_added);
    let added = format!("--remote yojimbo://{}", line["address"].as_str().unwrap());
    let load = format!("{added} --key netcode.key --clients 8 {BRIEFLY}");
    let (code, result, _) = place.load(&load);
    assert_eq!(code, 69, "it is the same listener: {result}");
}

/// With the key of yojimbo's samples anybody can make tokens, whatever client ids are in them. Of one address no more
/// sessions have their lines than where no token is asked for.
#[test]
fn who_can_make_tokens_fills_no_log() {
    let place = Place::new("many");
    place.write_key("netcode.key", "00");
    let open = "netcode.insecure = true";
    let often = "limits = { ip_handshakes = { rate = 5000, burst = 5000 } }";
    let serve = place.serve_yojimbo(&format!("{open}\n{often}"), "");
    place.write_tunnel(serve.address(), open);
    // Each takes a descriptor, of which some machines allow a program 1024.
    let load = "--config tunnel.toml --clients 500 --ramp 1s --rate 1 --for 100ms";
    let calls_many = serve.calls_many(|| {
        let (_, result, _) = place.load(load);
        count(&result, "/connected")
    });
    assert!(calls_many);
}

/// All of them are refused, before half of them have begun.
#[test]
fn more_clients_than_open_files_are_refused() {
    let program = env!("CARGO_BIN_EXE_tidegate");
    let load =
        format!("ulimit -n 100; exec {program} load --remote gaffer://127.0.0.1:9 --clients 200");
    let output = Command::new("sh").args(["-c", &load]).output().unwrap();
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(69), "{complaint}");
    assert!(
        complaint.contains("no more than 100 open files are allowed"),
        "{complaint}"
    );
}

#[test]
fn mistakes_on_the_command_line_speak() {
    let place = Place::new("mistakes");
    for (arguments, code, hint) in [
        ("", 2, "give --remote URL, --config FILE or --echo ADDRESS"),
        ("--remote 127.0.0.1:9", 2, "write yojimbo://HOST:PORT"),
        ("--remote yojimbo://127.0.0.1:9", 78, "--key"),
        (
            "--remote rudp://127.0.0.1:9 --size 5000",
            2,
            "has 1468 bytes",
        ),
        (
            "--remote gaffer://127.0.0.1:9 --size 4",
            2,
            "12 bytes at least",
        ),
        (
            "--remote gaffer://127.0.0.1:9 --size 9-3",
            2,
            "the smaller one comes first",
        ),
        ("--remote gaffer://127.0.0.1:9 --rate 0", 2, "above 0"),
        (
            "--remote gaffer://127.0.0.1:9 --unreliable 10",
            2,
            "gaffer has reliable messages only",
        ),
        (
            &format!("--remote gaffer://{NO_HOST}:9"),
            69,
            &format!("cannot find {NO_HOST}"),
        ),
    ] {
        let (got, result, complaint) = place.load(arguments);
        assert_eq!(got, code, "{arguments:?}: {result} {complaint}");
        assert!(complaint.contains(hint), "{arguments:?}: {complaint}");
    }
}

/// A backend that puts each player out who has said five things: what was due after that is counted, and so is
/// what had left and was not echoed any more.
#[test]
fn what_was_never_sent_is_counted() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let backend = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                for _ in 0..5 {
                    let Some(frame) = read_frame(&mut stream) else {
                        return;
                    };
                    write_frame(&mut stream, &frame);
                }
            });
        }
    });
    let place = Place::new("unsent");
    let serve = place.serve("gaffer", "u16be", backend, &[]);
    let dial = dial("gaffer", serve.address());
    let load = format!("{dial} --clients 2 --rate 50 --ramp 0s --for 1s --settle 2s");
    let (code, result, complaint) = place.load(&load);
    assert_ne!(code, 0, "{result} {complaint}");
    assert_eq!(count(&result, "/connected"), 2, "{result}");
    assert_eq!(count(&result, "/due"), 100, "{result}");
    let (sent, back) = (
        count(&result, "/reliable/sent"),
        count(&result, "/reliable/back"),
    );
    assert_eq!(count(&result, "/unsent"), 100 - sent, "{result}");
    assert!(sent < 100, "they were out long before: {result}");
    assert_eq!(count(&result, "/reliable/missing"), sent - back, "{result}");
    let summary = place.summary(&load);
    assert!(
        summary.contains("of 100 that were due were not sent"),
        "{summary}"
    );
}

/// A backend that reads all and answers nothing. Unreliable messages may get lost, but not every one: such a run
/// shows nothing, and is not called good. More are sent than a client remembers, and all of them are missing.
#[test]
fn a_run_in_which_nothing_came_back_is_not_good() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mute = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || std::io::copy(&mut stream, &mut std::io::sink()));
        }
    });
    let place = Place::new("mute");
    place.write_key("netcode.key", "11");
    let any = r#"public_addresses = ["any"]"#;
    let serve = place.serve_yojimbo_before(mute, any, "channel_byte = true");
    let dial = dial("yojimbo", serve.address());
    let load = format!(
        "{dial} --clients 1 --rate 8000 --size 12 --unreliable 100 --ramp 0s --for 1s --settle 2s"
    );
    let (code, result, complaint) = place.load(&load);
    assert_eq!(code, 1, "{result} {complaint}");
    assert_eq!(result["ok"], false, "{result}");
    assert_eq!(count(&result, "/reliable/sent"), 0, "{result}");
    let sent = count(&result, "/unreliable/sent");
    assert!(sent > 4_096, "a client remembers so many: {result}");
    assert_eq!(count(&result, "/unreliable/missing"), sent, "{result}");
    assert!(
        place.summary(&load).contains("does the backend echo?"),
        "{result}"
    );
}

/// A token is good for one try: who was denied with it does not come back with the same one.
#[test]
fn a_token_that_was_used_is_not_dialled_with_again() {
    let place = Place::new("once");
    let (_closed, closed) = closed_port();
    let serve = place.serve("yojimbo", "u16be", closed, &[]);
    let server = serve.address();
    let mint = format!("token mint --client-id 7 --server {server} --lifetime 30s --out token.bin");
    let minted = place.run(&format!("{mint} --key netcode.key"));
    assert!(minted.status.success(), "{minted:?}");
    let load = format!("--remote yojimbo://{server} --token-file token.bin --clients 1 {BRIEFLY}");
    let (code, result, complaint) = place.load(&load);
    assert_eq!(code, 69, "{result} {complaint}");
    assert_eq!(count(&result, "/refused/denied"), 1, "{result}");
    assert_eq!(count(&result, "/redials"), 0, "{result}");
}

/// Said before the file is read, or anybody dials.
#[test]
fn one_token_is_for_one_client() {
    let place = Place::new("crowd");
    place.write("token.bin", [0; 8]);
    let load = "--remote yojimbo://127.0.0.1:9 --token-file token.bin --clients 2";
    let (code, _, complaint) = place.load(load);
    assert_eq!(code, 2, "{complaint}");
    assert!(
        complaint.contains("a connect token lets one client in: give --clients 1"),
        "{complaint}"
    );
}
