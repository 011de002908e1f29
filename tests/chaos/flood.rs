//! A flood of connection requests with forged addresses, while players play and others join.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use tidegate_client::State;

use crate::Scale;
use crate::backend::{Backend, Manner};
use crate::gate::{Gate, SERVER, Setup, address};
use crate::players::{Player, Players};

/// A1: 100,000 requests a second from 65,536 addresses, half of them with all that lies in the clear
/// right. No session is lost, who has a token gets in, nobody else is told anything, nothing grows.
pub fn spoofed_flood(scale: Scale) {
    let gate = Gate::start("flood", &Setup::default());
    let _backend = Backend::start(&gate.backend(), Manner::Echo);
    let (live, joining) = scale.pick((40, 40), (200, 200));
    let mut players = Players::new();
    for _ in 0..live {
        let every = Duration::from_micros(scale.pick(50_000, 16_667));
        players.join(gate.dial(Duration::from_secs(10)), Some(every));
    }
    players.play_until_seated();
    players.play(Duration::from_millis(scale.pick(300, 1_000)), |_| false);
    players.round_trips.clear();
    players.play(Duration::from_secs(scale.pick(1, 2)), |_| false);
    let calm = players.quantile(0.99);
    let (memory_before, cpu_before) = gate.usage();
    let told_before = told_strangers();
    let flood = Flood::start(100_000);
    let span = Duration::from_secs(scale.pick(4, 60));
    // Those who join come in ten groups.
    for _ in 0..10 {
        for _ in 0..joining / 10 {
            players.join(
                gate.dial(Duration::from_secs(10)),
                Some(Duration::from_millis(50)),
            );
        }
        players.play(span / 10, |_| false);
    }
    // The last ones have their five seconds too.
    let seated = |all: &[Player]| all.iter().all(|player| player.seated_after.is_some());
    players.play(Duration::from_secs(5), seated);
    let rate = flood.stop();
    let stormy = players.quantile(0.99);
    let (memory_after, cpu_after) = gate.usage();
    let told = told_strangers() - told_before;
    let took = || players.all()[live..].iter().filter_map(|p| p.seated_after);
    let joined = took()
        .filter(|after| *after <= Duration::from_secs(5))
        .count();
    let slowest = took().max().unwrap_or_default();
    let lost = players.all()[..live]
        .iter()
        .filter(|p| p.state() != State::Connected)
        .count();
    let grown = memory_after.saturating_sub(memory_before);
    println!(
        "  {rate:.0} requests/s reached it for {:.0} s; {lost} of {live} sessions lost; {joined} of \
         {joining} joined within 5 s, the last after {slowest:.1?}; p99 of the round trip {calm:.1?} before and {stormy:.1?} \
         during it; {} KiB grown; {told} packets to strangers; {:.1} s of CPU; {} log lines",
        span.as_secs_f64() + 2.0,
        grown / 1024,
        (cpu_after - cpu_before).as_secs_f64(),
        gate.log().len() - gate.said(&["session_start"]),
    );
    assert_eq!(lost, 0, "sessions are lost");
    assert!(
        joined * 100 >= joining * 99,
        "{joined} of {joining} joined within 5 s"
    );
    assert_eq!(told, 0, "strangers are told something");
    // What those who joined cost, and no more.
    assert!(grown < (8 << 20) + joining as u64 * 40_000, "{grown} bytes");
    players.settle();
    players.leave();
    gate.stop();
}

/// Packets that came to addresses that nobody has here: answers to forged ones.
fn told_strangers() -> u64 {
    let text = std::fs::read_to_string("/proc/self/net/snmp").unwrap();
    let mut lines = text.lines().filter(|line| line.starts_with("Ip:"));
    let names = lines.next().unwrap().split_whitespace();
    let values = lines.next().unwrap().split_whitespace();
    let mut both = names.zip(values);
    let (_, value) = both.find(|(name, _)| *name == "InAddrErrors").unwrap();
    value.parse().unwrap()
}

struct Flood {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: JoinHandle<()>,
    began: Instant,
}

impl Flood {
    #[expect(clippy::disallowed_methods, reason = "a rate is measured in real time")]
    fn start(per_second: u64) -> Self {
        let (stop, sent) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let began = Instant::now();
        let thread = {
            let (stop, sent) = (stop.clone(), sent.clone());
            std::thread::spawn(move || {
                let socket =
                    Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(255))).unwrap();
                let to = SockAddr::from(address());
                let mut packets = [request(true), request(false)];
                let (mut number, mut made) = (0u64, began);
                while !stop.load(Relaxed) {
                    // Their tokens must not grow too old to be worth a look.
                    if made.elapsed() > Duration::from_secs(10) {
                        (packets, made) = ([request(true), request(false)], Instant::now());
                    }
                    let due = (began.elapsed().as_secs_f64() * per_second as f64) as u64;
                    for _ in 0..due.saturating_sub(number).min(500) {
                        let packet = &mut packets[(number % 2) as usize];
                        forge(packet, number);
                        if socket.send_to(packet, &to).is_ok() {
                            sent.fetch_add(1, Relaxed);
                        }
                        number += 1;
                    }
                    if number >= due {
                        std::thread::sleep(Duration::from_micros(500));
                    } else if due - number > per_second / 10 {
                        // Too slow for the rate: what is missed is not caught up.
                        number = due;
                    }
                }
            })
        };
        Self {
            stop,
            sent,
            thread,
            began,
        }
    }

    /// Ends it; requests a second that really left.
    fn stop(self) -> f64 {
        self.stop.store(true, Relaxed);
        let span = self.began.elapsed().as_secs_f64();
        self.thread.join().unwrap();
        self.sent.load(Relaxed) as f64 / span
    }
}

/// IPv4, UDP and a connection request (docs/wire/netcode.md, section 4) whose token is garbage. With
/// `is_plausible`, all that can be checked without a key is right.
fn request(is_plausible: bool) -> Vec<u8> {
    let body = 1_078;
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0];
    packet[2..4].copy_from_slice(&(28 + body as u16).to_be_bytes());
    packet.extend([0; 4]);
    packet.extend(SERVER.parse::<Ipv4Addr>().unwrap().octets());
    packet.extend([0; 2]);
    packet.extend(address().port().to_be_bytes());
    packet.extend((8 + body as u16).to_be_bytes());
    packet.extend([0; 2]);
    packet.push(0);
    packet.extend(if is_plausible {
        b"NETCODE 1.02\0"
    } else {
        b"NETCODE 9.99\0"
    });
    packet.extend(b"tidegat1");
    let expire = tidegate::clock::wall_secs() + 25;
    packet.extend(expire.to_le_bytes());
    packet.resize(28 + body, 0x5a);
    packet
}

/// Another address, another port, another token.
fn forge(packet: &mut [u8], number: u64) {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let host = (mixed >> 48) as u16;
    packet[12..14].copy_from_slice(&[11, 22]);
    packet[14..16].copy_from_slice(&host.to_be_bytes());
    packet[20..22].copy_from_slice(&(1_024 + (mixed >> 33) as u16 % 60_000).to_be_bytes());
    let end = packet.len();
    packet[end - 8..].copy_from_slice(&mixed.to_le_bytes());
}
