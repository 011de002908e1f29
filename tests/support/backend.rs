//! Backends, as far as tests need any: they accept, they speak u16be frames, they echo.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use tidegate::config::Target;

use super::{PATIENCE, wait_until};

/// Echoes every stream until its end.
pub fn echo_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut reader = stream.try_clone().unwrap();
                std::io::copy(&mut reader, &mut stream).ok();
            });
        }
    });
    address
}

/// A TCP listener on a free port, as a target.
pub fn tcp_backend() -> (TcpListener, Target) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, tcp_target(port))
}

pub fn tcp_target(port: u16) -> Target {
    Target::Tcp {
        host: "127.0.0.1".into(),
        port,
    }
}

/// Accepts one stream; bounded.
pub fn accept(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).unwrap();
    let stream = wait_until("a backend stream", PATIENCE, || {
        listener.accept().ok().map(|(stream, _)| stream)
    });
    stream.set_nonblocking(false).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

pub fn read_frame(stream: &mut impl Read) -> Option<Vec<u8>> {
    let mut length = [0; 2];
    stream.read_exact(&mut length).ok()?;
    let mut payload = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut payload).ok()?;
    Some(payload)
}

pub fn write_frame(stream: &mut impl Write, payload: &[u8]) {
    let mut frame = (payload.len() as u16).to_be_bytes().to_vec();
    frame.extend_from_slice(payload);
    stream.write_all(&frame).unwrap();
}
