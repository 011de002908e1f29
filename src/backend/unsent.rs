//! How much of what was written to a stream the kernel still holds: ioctl_list(2), SIOCOUTQ; tcp(7) and the
//! kernel's unix_outq_len say what counts.
//!
//! Unsafe code of its own, because no crate that is here already wraps this call.

use std::io;
use std::os::fd::AsRawFd;

/// Bytes that the other end has not taken: over TCP those that its kernel did not acknowledge, over a Unix
/// socket those of whole writes that it did not read to their end, and what they take of memory.
pub(super) fn bytes(socket: &impl AsRawFd) -> io::Result<u32> {
    let mut held: libc::c_int = 0;
    // SAFETY: the descriptor is open for as long as `socket` is borrowed, and the kernel writes one c_int to
    // where the pointer leads.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut held) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(held.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_a_unix_socket_holds_is_less_after_a_read() {
        let (mut writes, mut reads) = UnixStream::pair().unwrap();
        assert_eq!(bytes(&writes).unwrap(), 0);
        writes.write_all(&[1; 4_000]).unwrap();
        writes.write_all(&[2; 4_000]).unwrap();
        let before = bytes(&writes).unwrap();
        assert!(before >= 8_000, "{before}");
        reads.read_exact(&mut [0; 4_000]).unwrap();
        let after = bytes(&writes).unwrap();
        assert!((4_000..before).contains(&after), "{after} of {before}");
        reads.read_exact(&mut [0; 4_000]).unwrap();
        assert_eq!(bytes(&writes).unwrap(), 0);
    }

    #[test]
    fn what_a_tcp_socket_holds_is_what_was_not_acknowledged() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut writes = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut reads, _) = listener.accept().unwrap();
        writes.set_nonblocking(true).unwrap();
        let mut written = 0;
        while let Ok(count) = writes.write(&[3; 65_536]) {
            written += count;
        }
        let held = bytes(&writes).unwrap();
        assert!(held > 0 && held as usize <= written, "{held} of {written}");
        reads.read_exact(&mut vec![0; written]).unwrap();
        let acknowledged = || {
            std::thread::sleep(Duration::from_millis(1));
            bytes(&writes).unwrap() == 0
        };
        assert!((0..60_000).any(|_| acknowledged()));
    }
}
