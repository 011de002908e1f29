//! As in the program: epoll says once per change what can be read; each read and each write is a call.

use std::io::{Read, Write};
use std::time::Duration;

use mio::{Events, Poll, Token};
use tidegate::backend::Socket;

use super::Way;

/// Streams in a poll of their own.
pub(super) struct Polled {
    streams: Vec<Socket>,
    poll: Poll,
    events: Events,
    buffer: Vec<u8>,
}

impl Polled {
    pub(super) fn new(mut streams: Vec<Socket>) -> Self {
        let poll = Poll::new().unwrap();
        for (index, stream) in streams.iter_mut().enumerate() {
            stream.register(poll.registry(), Token(index)).unwrap();
        }
        let mut polled = Self {
            streams,
            poll,
            events: Events::with_capacity(1024),
            buffer: vec![0; 64 * 1024],
        };
        polled.forget_first_events();
        polled
    }

    pub(super) fn into_streams(mut self) -> Vec<Socket> {
        for stream in &mut self.streams {
            stream.deregister(self.poll.registry()).unwrap();
        }
        self.streams
    }

    /// That each can be written.
    fn forget_first_events(&mut self) {
        let mut told = 0;
        while told < self.streams.len() {
            self.poll
                .poll(&mut self.events, Some(Duration::ZERO))
                .unwrap();
            told += self.events.iter().count();
        }
    }
}

impl Way for Polled {
    fn turn(&mut self, streams: &[usize], message: &[u8]) -> usize {
        for &stream in streams {
            let written = self.streams[stream].write(message).unwrap();
            assert_eq!(written, message.len());
        }
        self.poll
            .poll(&mut self.events, Some(Duration::ZERO))
            .unwrap();
        let mut heard = 0;
        for event in self.events.iter().filter(|event| event.is_readable()) {
            heard += self.streams[event.token().0]
                .read(&mut self.buffer)
                .unwrap();
        }
        heard
    }
}
