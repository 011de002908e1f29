//! The demo's game server: an ordinary TCP server that sends back what it reads.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

/// Starts it on a free port. It runs as long as the process.
pub(super) fn start() -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    let address = listener.local_addr()?;
    let accept = move || {
        for stream in listener.incoming().flatten() {
            // One thread a player, as simple game servers do; a stream that fails is over.
            let serve = move || echo(stream).unwrap_or_default();
            if std::thread::Builder::new()
                .stack_size(STACK_BYTES)
                .spawn(serve)
                .is_err()
            {
                return;
            }
        }
    };
    std::thread::Builder::new()
        .name("echo".into())
        .spawn(accept)?;
    Ok(address)
}

fn echo(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = [0; 16 * 1024];
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            length => stream.write_all(&buffer[..length])?,
        }
    }
}

const STACK_BYTES: usize = 128 * 1024;
