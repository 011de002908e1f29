//! Programs behind `tidegate connect`, or behind any other tunnel: frames over a TCP stream each, all
//! of them in one thread.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use mio::{Events, Interest, Poll, Token};

use super::talkers::Talkers;

/// All of them; a player's number is its stream's token.
pub struct TcpPlayers {
    poll: Poll,
    events: Events,
    players: Vec<Player>,
    buffer: Vec<u8>,
}

struct Player {
    stream: mio::net::TcpStream,
    /// What the stream has not taken yet.
    unsent: Vec<u8>,
    /// The beginning of a frame.
    unheard: Vec<u8>,
}

impl TcpPlayers {
    /// So many, all connected.
    pub fn connect(to: SocketAddr, count: usize) -> Self {
        let poll = Poll::new().unwrap();
        let players = (0..count).map(|number| {
            let stream = TcpStream::connect(to).unwrap();
            stream.set_nodelay(true).unwrap();
            stream.set_nonblocking(true).unwrap();
            let mut stream = mio::net::TcpStream::from_std(stream);
            let interests = Interest::READABLE | Interest::WRITABLE;
            let token = Token(number);
            poll.registry()
                .register(&mut stream, token, interests)
                .unwrap();
            Player {
                stream,
                unsent: Vec::new(),
                unheard: Vec::new(),
            }
        });
        let players = players.collect();
        Self {
            poll,
            events: Events::with_capacity(1024),
            players,
            buffer: vec![0; 64 * 1024],
        }
    }
}

impl Talkers for TcpPlayers {
    fn say(&mut self, player: usize, message: &[u8]) {
        let player = &mut self.players[player];
        let length = u16::try_from(message.len()).unwrap();
        player.unsent.extend_from_slice(&length.to_be_bytes());
        player.unsent.extend_from_slice(message);
        player.send();
    }

    fn turn(&mut self, wait: Duration, mut heard: impl FnMut(&[u8])) {
        self.poll.poll(&mut self.events, Some(wait)).ok();
        for event in &self.events {
            let player = &mut self.players[event.token().0];
            player.send();
            if event.is_readable() {
                player.receive(&mut self.buffer, &mut heard);
            }
        }
    }
}

impl Player {
    fn send(&mut self) {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(count) => drop(self.unsent.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => panic!("the tunnel broke a stream: {error}"),
            }
        }
    }

    fn receive(&mut self, buffer: &mut [u8], heard: &mut impl FnMut(&[u8])) {
        loop {
            let held = self.unheard.len();
            buffer[..held].copy_from_slice(&self.unheard);
            self.unheard.clear();
            let count = match self.stream.read(&mut buffer[held..]) {
                Ok(0) => panic!("the tunnel ended a stream"),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
                Err(error) => panic!("the tunnel broke a stream: {error}"),
            };
            let mut rest = &buffer[..held + count];
            while let Some((head, more)) = rest.split_first_chunk()
                && let Some((frame, more)) =
                    more.split_at_checked(usize::from(u16::from_be_bytes(*head)))
            {
                heard(frame);
                rest = more;
            }
            self.unheard.extend_from_slice(rest);
            if held + count < buffer.len() {
                return;
            }
        }
    }
}
