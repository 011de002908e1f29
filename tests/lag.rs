//! `tidegate lag` as it is built: what it does to datagrams, what it says it did, and that it does
//! something else when told to.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot get a socket has failed"
)]

mod support;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use serde_json::Value;
use socket2::{Domain, Protocol, Socket, Type};
use support::place::Place;
use support::{PATIENCE, wait_until};
use tidegate::lag::{Impairments, Lag, Setup};

/// The program between this test and `to`; killed when dropped.
struct Running {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<Value>,
    address: SocketAddr,
}

impl Running {
    fn start(to: SocketAddr, arguments: &[&str]) -> Self {
        Self::start_by(Command::new(env!("CARGO_BIN_EXE_tidegate")), to, arguments)
    }

    /// Starts it by a command that takes its arguments.
    fn start_by(mut command: Command, to: SocketAddr, arguments: &[&str]) -> Self {
        let to = to.to_string();
        let mut child = command
            .args(["lag", "--listen", "127.0.0.1:0", "--json", "--to", &to])
            .args(arguments)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let object = serde_json::from_str(&line).expect(&line);
                if sender.send(object).is_err() {
                    return;
                }
            }
        });
        let mut running = Self {
            stdin: child.stdin.take().unwrap(),
            child,
            lines,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
        };
        let listening = running.next();
        assert_eq!(listening["event"], "listening");
        running.address = listening["address"].as_str().unwrap().parse().unwrap();
        running
    }

    fn next(&self) -> Value {
        self.lines.recv_timeout(PATIENCE).unwrap()
    }

    fn say(&mut self, line: &str) -> Value {
        writeln!(self.stdin, "{line}").unwrap();
        self.next()
    }

    fn stats(&mut self) -> Value {
        self.say("stats")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn count(stats: &Value, path: &str) -> u64 {
    stats.pointer(path).and_then(Value::as_u64).unwrap()
}

/// Sends numbered datagrams of 40 bytes, in portions that no socket buffer overflows at.
fn send_numbers(client: &UdpSocket, to: SocketAddr, numbers: std::ops::Range<u32>) {
    for number in numbers {
        let datagram: Vec<u8> = number.to_be_bytes().repeat(10);
        client.send_to(&datagram, to).unwrap();
        if number % 64 == 63 {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Takes what comes as it comes: a socket's own buffer would not hold all of it.
fn receive(server: &UdpSocket) -> Receiver<Vec<u8>> {
    let server = server.try_clone().unwrap();
    let (sender, received) = channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 2048];
        while let Ok(length) = server.recv(&mut buffer) {
            if sender.send(buffer[..length].to_vec()).is_err() {
                return;
            }
        }
    });
    received
}

/// Everything that arrives until the link says that nothing is under way.
fn receive_all(
    arrivals: &Receiver<Vec<u8>>,
    lag: &mut Running,
    sent: u64,
    received: &mut Vec<Vec<u8>>,
) {
    wait_until("everything arrives", PATIENCE, || {
        let stats = lag.stats();
        let delivered = count(&stats, "/up/delivered");
        while (received.len() as u64) < delivered {
            received.push(arrivals.recv_timeout(PATIENCE).unwrap());
        }
        let settled = count(&stats, "/up/datagrams") + count(&stats, "/up/duplicated")
            - count(&stats, "/up/lost")
            - count(&stats, "/up/dropped_by_queue");
        (delivered == settled && count(&stats, "/up/datagrams") == sent).then_some(())
    });
}

/// What arrives at the server is what the counts say: no less, no more, and as damaged.
#[test]
fn it_does_what_it_says_it_did() {
    let (client, server) = (socket(), socket());
    let mut lag = Running::start(
        server.local_addr().unwrap(),
        &[
            "--seed",
            "7",
            "delay=20ms",
            "jitter=5ms",
            "loss=5%",
            "burst=5ms/50ms",
            "reorder=5%/10ms",
            "duplicate=5%",
            "corrupt=5%",
        ],
    );
    let arrivals = receive(&server);
    // A few at a time: a busy machine may not read for so long that the socket's buffer, which holds
    // some 90, would lose what the link delivered.
    let mut received = Vec::new();
    for first in (0..4_000).step_by(80) {
        send_numbers(&client, lag.address, first..first + 80);
        let so_far = u64::from(first) + 80;
        receive_all(&arrivals, &mut lag, so_far, &mut received);
    }
    let stats = lag.stats();
    let up = |what: &str| count(&stats, &format!("/up/{what}"));
    assert!(up("lost") > 150, "too kind: {stats}");
    assert!(up("reordered") > 100, "too kind: {stats}");
    assert!(up("duplicated") > 100, "too kind: {stats}");
    assert!(up("corrupted") > 100, "too kind: {stats}");
    assert_eq!(count(&stats, "/dropped_before_the_link"), 0);
    let whole = |datagram: &&Vec<u8>| datagram.chunks(4).all(|chunk| chunk == &datagram[..4]);
    let numbers: Vec<u32> = received
        .iter()
        .filter(whole)
        .map(|datagram| u32::from_be_bytes(datagram[..4].try_into().unwrap()))
        .collect();
    // One bit of 320 is flipped, so a damaged one cannot look whole. A copy is damaged with it.
    let damaged = (received.len() - numbers.len()) as u64;
    assert!((up("corrupted")..up("corrupted") * 2).contains(&damaged));
    let different: BTreeSet<u32> = numbers.iter().copied().collect();
    let missing = 4_000 - different.len() as u64;
    assert_eq!(missing, up("lost") + up("corrupted"));
    assert!(numbers.windows(2).any(|pair| pair[0] > pair[1] + 1));
    assert_eq!(count(&stats, "/clients"), 1);
}

/// A datagram takes as long as it says, and comes back to where it came from.
#[test]
fn both_ways_take_their_time() {
    let (client, server) = (socket(), socket());
    let mut lag = Running::start(
        server.local_addr().unwrap(),
        &["up.delay=30ms", "down.delay=60ms"],
    );
    #[expect(clippy::disallowed_methods, reason = "a test runs in real time")]
    let start = std::time::Instant::now();
    client.send_to(b"there", lag.address).unwrap();
    let mut buffer = [0; 16];
    let (length, outer) = server.recv_from(&mut buffer).unwrap();
    let there = start.elapsed();
    assert_eq!(&buffer[..length], b"there");
    server.send_to(b"back", outer).unwrap();
    let (length, from) = client.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..length], from), (&b"back"[..], lag.address));
    assert!(there >= Duration::from_millis(30), "{there:?}");
    let back = start.elapsed() - there;
    assert!(back >= Duration::from_millis(60), "{back:?}");
    assert_eq!(count(&lag.stats(), "/down/delivered"), 1);
}

/// What a rate lets through in a second, and what its queue holds; the rest is dropped and counted.
#[test]
fn a_queue_is_bounded() {
    let (client, server) = (socket(), socket());
    // 68 bytes each with headers: 16 KiB hold 240 of them.
    // So slow that the first one is still leaving when the last one came, on any machine.
    let mut lag = Running::start(server.local_addr().unwrap(), &["rate=1bit", "queue=16KiB"]);
    // In portions, as above.
    for first in (0..400).step_by(80) {
        send_numbers(&client, lag.address, first..first + 80);
        wait_until("all came", PATIENCE, || {
            let came = count(&lag.stats(), "/up/datagrams");
            (came == u64::from(first) + 80).then_some(())
        });
    }
    let stats = lag.stats();
    let dropped = count(&stats, "/up/dropped_by_queue");
    assert!((155..=165).contains(&dropped), "{stats}");
}

/// What is above a rate that lets nothing through for minutes is dropped, and what passes has not waited for it.
#[test]
fn a_policer_drops_and_delays_nothing() {
    let (client, server) = (socket(), socket());
    let mut lag = Running::start(
        server.local_addr().unwrap(),
        &["rate=1bit", "queue=4KiB", "police=on"],
    );
    let arrivals = receive(&server);
    send_numbers(&client, lag.address, 0..80);
    // The burst holds 60 of 68 bytes, and some room comes back only after minutes.
    let mut received = Vec::new();
    receive_all(&arrivals, &mut lag, 80, &mut received);
    let first = (0..60u32).map(|number| number.to_be_bytes().repeat(10));
    assert_eq!(received, first.collect::<Vec<_>>());
    assert_eq!(count(&lag.stats(), "/up/dropped_by_queue"), 20);
}

/// It is given the name of a key, say, by somebody who mistakes one option for another.
#[test]
fn a_control_socket_takes_the_place_of_no_file() {
    let place = Place::new("precious");
    let path = place.write("netcode.key", "precious");
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["lag", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:9"])
        .args(["--for", "1s", "--control", path.to_str().unwrap()])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(69), "{said}");
    assert!(said.contains("something else than a socket"), "{said}");
    assert_eq!(std::fs::read_to_string(path).unwrap(), "precious");
}

/// Standard input and the socket change what happens; mistakes change nothing and say what to write.
#[test]
fn it_changes_while_it_runs() {
    let (client, server) = (socket(), socket());
    let place = Place::new("changes");
    let path = place.path("lag.sock");
    let mut lag = Running::start(
        server.local_addr().unwrap(),
        &["loss=100%", "--control", path.to_str().unwrap()],
    );
    send_numbers(&client, lag.address, 0..10);
    wait_until("ten lost", PATIENCE, || {
        (count(&lag.stats(), "/up/lost") == 10).then_some(())
    });
    let refused = lag.say("loss=none");
    assert_eq!(refused["ok"], false);
    assert!(refused["error"].as_str().unwrap().contains("per cent"));
    assert_eq!(lag.say("loss=0 down.delay=5ms")["answer"], "down.delay=5ms");
    send_numbers(&client, lag.address, 10..11);
    let mut buffer = [0; 64];
    let (_, before) = server.recv_from(&mut buffer).unwrap();
    assert_eq!(buffer[..4], 10_u32.to_be_bytes(), "the others are lost");

    let mut socket = UnixStream::connect(&path).unwrap();
    let mut answers = BufReader::new(socket.try_clone().unwrap()).lines();
    let mut ask = |line: &str| {
        writeln!(socket, "{line}").unwrap();
        serde_json::from_str::<Value>(&answers.next().unwrap().unwrap()).unwrap()
    };
    assert_eq!(ask("rebind")["ok"], true);
    send_numbers(&client, lag.address, 11..12);
    let (_, after) = server.recv_from(&mut buffer).unwrap();
    assert_eq!(before.ip(), after.ip());
    assert_ne!(before.port(), after.port(), "a new source port");
    assert_eq!(count(&ask("stats"), "/rebound"), 1);
    // The new way leads back to the same client.
    server.send_to(b"back", after).unwrap();
    let (_, from) = client.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..4], from), (&b"back"[..], lag.address));
    assert_eq!(ask("quit")["ok"], true);
    let end = wait_until("its last words", PATIENCE, || {
        lag.lines.recv().ok().filter(|line| line["event"] == "end")
    });
    assert_eq!(count(&end, "/up/datagrams"), 12);
    let status = lag.child.wait().unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(!path.exists());
}

#[test]
fn a_line_that_is_no_text_is_a_mistake_like_any_other() {
    let place = Place::new("text");
    let path = place.path("lag.sock");
    let nobody = SocketAddr::from(([127, 0, 0, 1], 9));
    let mut lag = Running::start(nobody, &["--control", path.to_str().unwrap()]);
    lag.stdin.write_all(b"loss=5%\xff\n").unwrap();
    assert_eq!(lag.next()["ok"], false);
    assert_eq!(lag.say("loss=6%")["answer"], "loss=6%");

    let mut socket = UnixStream::connect(&path).unwrap();
    socket.write_all(b"\xff\nloss=7%\n").unwrap();
    let mut answers = BufReader::new(socket).lines().map(Result::unwrap);
    assert!(answers.next().unwrap().contains("error"));
    assert!(answers.next().unwrap().contains("loss=7%"));
}

#[test]
fn clients_are_bounded() {
    let server = socket();
    let mut lag = Running::start(server.local_addr().unwrap(), &["--clients", "3"]);
    let clients: Vec<_> = (0..5).map(|_| socket()).collect();
    for client in &clients {
        client.send_to(b"hello", lag.address).unwrap();
    }
    let stats = wait_until("two refused", PATIENCE, || {
        let stats = lag.stats();
        (count(&stats, "/refused") == 2).then_some(stats)
    });
    assert_eq!(count(&stats, "/clients"), 3);
    assert_eq!(count(&stats, "/up/datagrams"), 3);
}

/// With no descriptor left, a client that should get a new port keeps its own, and the relay goes on.
#[test]
fn who_cannot_be_rebound_stays() {
    let server = socket();
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "ulimit -n 24; exec \"$0\" \"$@\""]);
    command.arg(env!("CARGO_BIN_EXE_tidegate"));
    let mut lag = Running::start_by(command, server.local_addr().unwrap(), &[]);
    let clients: Vec<_> = (0..24).map(|_| socket()).collect();
    for client in &clients {
        client.send_to(b"hello", lag.address).unwrap();
    }
    let stats = wait_until("all came", PATIENCE, || {
        let stats = lag.stats();
        let came = count(&stats, "/refused") + count(&stats, "/clients");
        (came == 24).then_some(stats)
    });
    let inside = count(&stats, "/clients");
    assert!((1..24).contains(&inside), "{stats}");
    assert_eq!(lag.say("rebind")["ok"], true);
    let stats = lag.stats();
    assert_eq!(count(&stats, "/not_rebound"), inside, "{stats}");
    clients[0].send_to(b"again", lag.address).unwrap();
    wait_until("it goes on", PATIENCE, || {
        (count(&lag.stats(), "/up/delivered") == inside + 1).then_some(())
    });
}

/// A seed loses the same datagrams of the same client each time, whatever others do meanwhile.
#[test]
fn a_seed_repeats_itself() {
    let lost = |seed: u64, others: u32| {
        let (client, server) = (socket(), socket());
        let mut impairments = Impairments::default();
        impairments.change(["up.loss=50%"]).unwrap();
        let setup = Setup {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            to: server.local_addr().unwrap(),
            impairments,
            seed,
            clients_max: 16,
            idle: Duration::from_secs(60),
        };
        let lag = Lag::start(setup).unwrap();
        send_numbers(&client, lag.address(), 0..1);
        wait_until("the first one", PATIENCE, || {
            (lag.report().unwrap().up.offered == 1).then_some(())
        });
        let other = socket();
        send_numbers(&other, lag.address(), 1_000..1_000 + others);
        send_numbers(&client, lag.address(), 1..200);
        // One that was offered a moment ago may still be under way.
        let delivered = wait_until("all of them", PATIENCE, || {
            let up = lag.report().unwrap().up;
            let all = 200 + u64::from(others);
            (up.offered == all && up.delivered + up.lost == all).then_some(up.delivered)
        });
        let mut buffer = [0; 64];
        let mut numbers = BTreeSet::new();
        for _ in 0..delivered {
            server.recv(&mut buffer).unwrap();
            numbers.insert(u32::from_be_bytes(buffer[..4].try_into().unwrap()));
        }
        numbers.retain(|number| *number < 1_000);
        numbers
    };
    let first = lost(3, 0);
    assert!((60..140).contains(&first.len()), "half: {}", first.len());
    assert_eq!(first, lost(3, 40));
    assert_ne!(first, lost(4, 0));
}

/// A router that says no says it of one datagram: what came behind that is delivered at once, whatever the router said.
#[test]
fn what_waits_behind_an_error_is_delivered() {
    let Ok(router) = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4)) else {
        support::skipped("errors from a router: raw sockets cannot be had here");
        return;
    };
    let (client, server) = (socket(), socket());
    let mut lag = Running::start(server.local_addr().unwrap(), &[]);
    client.send_to(b"hello", lag.address).unwrap();
    let mut buffer = [0; 64];
    let (_, client_of_server) = server.recv_from(&mut buffer).unwrap();
    let lag_process = Pid::from_child(&lag.child);
    // The port is closed; a filter forbids it (RFC 792; RFC 1812, section 5.2.7.1).
    for code in [3, 13] {
        kill_process(lag_process, Signal::STOP).unwrap();
        waitpid(Some(lag_process), WaitOptions::UNTRACED).unwrap();
        let error = unreachable(code, client_of_server, server.local_addr().unwrap());
        let to = SocketAddr::from(([127, 0, 0, 1], 0));
        router.send_to(&error, &to.into()).unwrap();
        server.send_to(&[code], client_of_server).unwrap();
        kill_process(lag_process, Signal::CONT).unwrap();
        let length = client.recv(&mut buffer).unwrap();
        assert_eq!(buffer[..length], [code]);
    }
    let stats = lag.stats();
    assert_eq!(count(&stats, "/server_unreachable"), 1, "too kind: {stats}");
}

/// "Destination unreachable", about a datagram of UDP between these addresses of IPv4.
fn unreachable(code: u8, from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let mut message = vec![3, code, 0, 0, 0, 0, 0, 0];
    message.extend([
        0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1,
    ]);
    message.extend(from.port().to_be_bytes());
    message.extend(to.port().to_be_bytes());
    message.extend([0, 8, 0, 0]);
    let words = message
        .chunks(2)
        .map(|word| u16::from_be_bytes([word[0], word[1]]));
    let sum: u32 = words.map(u32::from).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let check = !(((folded & 0xffff) + (folded >> 16)) as u16);
    message[2..4].copy_from_slice(&check.to_be_bytes());
    message
}

/// A command line that means nothing says what would; the exit code is 2, or 69 without a socket.
#[test]
fn mistakes_on_the_command_line_speak() {
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .arg("lag")
            .args(arguments)
            .env_clear()
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        (output.status.code().unwrap(), said)
    };
    let to = ["--to", "127.0.0.1:9"];
    for (words, hint) in [
        (
            ["loss=5"],
            "\"loss=5\": a share is written in per cent, such as 5%",
        ),
        (["latency=5ms"], "did you mean delay=25ms?"),
        (["jitter=5ms"], "more than the delay of 0s"),
    ] {
        let (code, said) = run(&[&to[..], &words[..]].concat());
        assert_eq!(code, 2, "{said}");
        assert!(said.contains(hint), "{said}");
    }
    let (code, said) = run(&["--to", "somewhere"]);
    assert_eq!(
        (code, said.contains("write HOST:PORT")),
        (2, true),
        "{said}"
    );
    let taken = socket();
    let address = taken.local_addr().unwrap().to_string();
    let (code, said) = run(&["--to", "127.0.0.1:9", "--listen", &address]);
    assert_eq!(code, 69, "{said}");
    assert!(said.contains(&format!("cannot bind {address}")));
}
