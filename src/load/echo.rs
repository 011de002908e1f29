//! A TCP game server that sends back what it reads, byte for byte: one thread for all streams.

use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use socket2::{Domain, Socket, Type};

/// Starts it, and says where. It runs as long as the process.
pub fn start(listen: SocketAddr) -> io::Result<SocketAddr> {
    let poll = Poll::new()?;
    let mut listener = bind(listen)?;
    poll.registry()
        .register(&mut listener, LISTENER, Interest::READABLE)?;
    let address = listener.local_addr()?;
    let echo = Echo {
        poll,
        listener,
        streams: HashMap::new(),
        next: 0,
        ready: VecDeque::new(),
        buffer: vec![0; BUFFER_BYTES],
    };
    std::thread::Builder::new()
        .name("echo".into())
        .spawn(move || echo.run())?;
    Ok(address)
}

fn bind(listen: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(listen), Type::STREAM, None)?;
    // After a restart at once, although streams of the process before linger.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&listen.into())?;
    socket.listen(BACKLOG)?;
    Ok(TcpListener::from_std(socket.into()))
}

struct Echo {
    poll: Poll,
    listener: TcpListener,
    streams: HashMap<usize, Stream>,
    next: usize,
    /// Streams to look at.
    ready: VecDeque<usize>,
    buffer: Vec<u8>,
}

struct Stream {
    io: TcpStream,
    /// Read and not yet written. While there is any, nothing more is read.
    pending: Vec<u8>,
}

impl Echo {
    fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        loop {
            let wait = (!self.ready.is_empty()).then_some(std::time::Duration::ZERO);
            match self.poll.poll(&mut events, wait) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                Ok(()) | Err(_) => {}
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.accept(),
                    Token(number) => self.ready.push_back(number),
                }
            }
            for _ in 0..self.ready.len() {
                if let Some(number) = self.ready.pop_front() {
                    self.serve(number);
                }
            }
        }
    }

    fn accept(&mut self) {
        // An error is one stream's, or a lack of descriptors, which later streams will find mended.
        while let Ok((mut io, _)) = self.listener.accept() {
            let number = self.next;
            self.next += 1;
            let interest = Interest::READABLE | Interest::WRITABLE;
            let registered = self
                .poll
                .registry()
                .register(&mut io, Token(number), interest);
            if io.set_nodelay(true).and(registered).is_ok() {
                let pending = Vec::new();
                self.streams.insert(number, Stream { io, pending });
            }
        }
    }

    fn serve(&mut self, number: usize) {
        let Some(stream) = self.streams.get_mut(&number) else {
            return;
        };
        match stream.pump(&mut self.buffer) {
            Ok(true) => self.ready.push_back(number),
            Ok(false) => {}
            // Closed or broken: over, either way.
            Err(_) => {
                self.streams.remove(&number);
            }
        }
    }
}

impl Stream {
    /// True when it stopped before the kernel had nothing more, to let others have their turn.
    fn pump(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        for _ in 0..READS_PER_TURN {
            if !self.flush()? {
                return Ok(false);
            }
            let read = match self.io.read(buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            self.pending.extend_from_slice(&buffer[..read]);
        }
        Ok(true)
    }

    /// Whether everything was written.
    fn flush(&mut self) -> io::Result<bool> {
        while !self.pending.is_empty() {
            match self.io.write(&self.pending) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => {
                    self.pending.drain(..written);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

const LISTENER: Token = Token(usize::MAX - 1);
const BUFFER_BYTES: usize = 64 * 1024;
const READS_PER_TURN: usize = 4;

/// Streams that wait in the kernel. Where that is full, it resets streams that their client takes for open: as many
/// players as join at once must fit.
const BACKLOG: i32 = 4096;

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use super::*;

    /// Nobody takes a stream, as while the thread has no processor, and each of them is open all the same.
    #[test]
    fn a_crowd_that_comes_at_once_is_let_in() {
        let listener = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let mut crowd = Vec::new();
        while crowd.len() < 400 {
            match std::net::TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(stream) => crowd.push(stream),
                Err(why) => panic!("after {}: {why}", crowd.len()),
            }
        }
    }

    /// Only who is not let in waits for so long.
    const PATIENCE: Duration = Duration::from_secs(5);
}
