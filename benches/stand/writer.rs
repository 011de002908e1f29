//! A local program that writes frames as fast as its stream takes them.

use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The program; it ends when stopped.
pub struct Writer {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Writer {
    /// Frames of so many bytes, their length in two bytes before them.
    pub fn start(to: SocketAddr, size: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let own = stop.clone();
        let thread = std::thread::spawn(move || write(to, size, &own));
        Self { stop, thread }
    }

    pub fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
    }
}

fn write(to: SocketAddr, size: usize, stop: &AtomicBool) {
    let mut stream = TcpStream::connect(to).unwrap();
    let timeout = Some(Duration::from_millis(200));
    stream.set_write_timeout(timeout).unwrap();
    let mut frame = u16::try_from(size).unwrap().to_be_bytes().to_vec();
    frame.resize(2 + size, 0x5a);
    let frames = frame.repeat((64 * 1024 / frame.len()).max(1));
    let mut rest = &frames[..];
    while !stop.load(Ordering::Relaxed) {
        match stream.write(rest) {
            Ok(count) => rest = &rest[count..],
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => return,
        }
        if rest.is_empty() {
            rest = &frames;
        }
    }
}
