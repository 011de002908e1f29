//! The server over loopback, with a board that a test fills.

mod figures;
mod server;

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};

use tidegate_proto::{CloseReason, Reject, Stats};

use super::*;
use crate::backend::Pool;
use crate::board::{ListenerInfo, PeerRow, Reporter, State, WorkerSocket, WorstPeers};
use crate::capacity::Capacity;
use crate::counters::WorkerCounters;

struct Scene {
    board: Arc<Board>,
    pool: Arc<Pool>,
    reporters: Vec<Reporter>,
    clock: Clock,
    admin: Admin,
}

fn scene(name: &str) -> Scene {
    scene_at(name, "127.0.0.1:0", &[])
}

fn scene_at(name: &str, listen: &str, allowed_hosts: &[&str]) -> Scene {
    let mut clock = Clock::start();
    let board = Arc::new(Board::new(clock.now(), Capacity::new(64, 1 << 20).into()));
    let pool = Arc::new(Pool::with_two_targets());
    board.add_backend("game", pool.clone());
    let reporters = board.add_listener(
        ListenerInfo {
            name: name.into(),
            protocol: "gaffer",
            bind: vec!["127.0.0.1:40000".parse().unwrap()],
            backend: "game".into(),
            peers_max: 64,
        },
        &WorkerSocket::one_each(1),
    );
    board.update_process(|process| process.state = State::Serving);
    let listen = listen.parse().unwrap();
    let allowed: Vec<String> = allowed_hosts.iter().map(ToString::to_string).collect();
    let admin = Admin::start(listen, &allowed, Arc::clone(&board), clock.clone()).unwrap();
    Scene {
        board,
        pool,
        reporters,
        clock,
        admin,
    }
}

impl Scene {
    fn get(&self, path: &str) -> (u16, String) {
        probe(self.admin.address(), path, PATIENCE).unwrap()
    }

    /// The status of the answer to a request by these names.
    fn asked_by(&self, target: &str, hosts: &[&str]) -> String {
        let hosts: String = hosts
            .iter()
            .map(|host| format!("Host: {host}\r\n"))
            .collect();
        let answer = self.raw(&format!(
            "GET {target} HTTP/1.1\r\n{hosts}Connection: close\r\n\r\n"
        ));
        answer.split(' ').nth(1).unwrap_or("").to_owned()
    }

    fn raw(&self, request: &str) -> String {
        let loopback = (Ipv4Addr::LOCALHOST, self.admin.address().port());
        let mut stream = TcpStream::connect(loopback).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        if let Err(error) = stream.read_to_string(&mut answer) {
            assert_ne!(error.kind(), ErrorKind::WouldBlock, "it is still open");
        }
        answer
    }
}

/// Many times what a request may take, so that the machine may be busy, and yet less than the life of a
/// connection.
const PATIENCE: Duration = Duration::from_secs(40);
const _: () = assert!(PATIENCE.as_secs() < CONNECTION_LIFE.as_secs());
