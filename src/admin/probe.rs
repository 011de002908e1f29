//! One question to a running admin server, for `tidegate health`: an image without a shell has no
//! other way to ask.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Asks for `path`; the status code and the text of the answer.
pub fn probe(server: SocketAddr, path: &str, timeout: Duration) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&server, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    let read = stream.take(ANSWER_MAX).read_to_string(&mut answer);
    read.map_err(|error| in_time(error, timeout))?;
    parse(&answer).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not an HTTP answer"))
}

/// The kernel calls it a resource that is unavailable, and people then think of descriptors.
fn in_time(error: io::Error, timeout: Duration) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => {
            io::Error::new(io::ErrorKind::TimedOut, format!("no answer in {timeout:?}"))
        }
        _ => error,
    }
}

/// More than any answer of ours.
const ANSWER_MAX: u64 = 1 << 20;

fn parse(answer: &str) -> Option<(u16, String)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let code = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    Some((code, body.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_called_that() {
        let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let server = mute.local_addr().unwrap();
        let error = probe(server, "/livez", Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.to_string(), "no answer in 20ms");
    }

    #[test]
    fn answers_are_told_from_noise() {
        let answer = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 3\r\n\r\nno\n";
        assert_eq!(parse(answer), Some((503, "no\n".into())));
        for noise in [
            "",
            "HTTP/1.1 200 OK\r\n",
            "SSH-2.0\r\n\r\n",
            "HTTP/1.1 \r\n\r\n",
        ] {
            assert_eq!(parse(noise), None, "{noise:?}");
        }
    }
}
