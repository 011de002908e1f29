//! Changing a bad network while it runs: one line, one answer, on standard input and over a Unix
//! socket.
//!
//! Lines are the words of the command line (`loss=20% up.delay=50ms`), and:
//!
//! ```text
//!   rebind     every client gets a new source port now
//!   stats      counts so far
//!   quit       the end
//! ```
//!
//! Standard input is for a person, and for whatever starts the program and keeps its end of the pipe.
//! The socket is for scripts that come and go.

use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;
use serde_json::json;

use super::Lag;
use crate::exit::Unavailable;
use crate::socket_file::{self, SocketFile};

/// Carries out what is typed on standard input, or sent over the control socket.
#[derive(Clone)]
pub struct Control {
    lag: Arc<Lag>,
    json: bool,
    quit: Arc<dyn Fn() + Send + Sync>,
}

impl Control {
    /// `quit` is called when a line says so.
    pub fn new(lag: Arc<Lag>, json: bool, quit: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            lag,
            json,
            quit: Arc::new(quit),
        }
    }

    /// Does what a line says, all but to end.
    pub fn obey(&self, line: &str) -> String {
        let answer = match line.trim() {
            QUIT => Ok("bye".to_owned()),
            "rebind" => self.lag.rebind().map(|()| "rebound".to_owned()),
            "" | "stats" => self.lag.report().map(|report| match self.json {
                true => report.json().to_string(),
                false => report.table().trim_end().to_owned(),
            }),
            words => self
                .lag
                .change(words)
                .map(|impairments| impairments.to_string()),
        };
        match (answer, self.json) {
            (Ok(answer), true) if answer.starts_with('{') => answer,
            (Ok(answer), true) => json!({"ok": true, "answer": answer}).to_string(),
            (Ok(answer), false) => answer,
            (Err(error), true) => json!({"ok": false, "error": error.to_string()}).to_string(),
            (Err(error), false) => format!("error: {error}"),
        }
    }

    /// Ends the program if the line says so; after its answer, which would be lost with the program.
    fn end_if_told(&self, line: &str) {
        if line.trim() == QUIT {
            (self.quit)();
        }
    }

    /// Takes lines from standard input until its end, in a thread of its own.
    pub fn follow_stdin(self) -> io::Result<()> {
        let follow = move || {
            let stdin = io::stdin();
            loop {
                wait_for_foreground();
                // An end, or an error, says nothing about the network: it goes on.
                let Ok(Some(line)) = read_line(&mut stdin.lock()) else {
                    return;
                };
                // Standard output that is gone ends the program elsewhere.
                writeln!(io::stdout(), "{}", self.obey(&line)).ok();
                self.end_if_told(&line);
            }
        };
        std::thread::Builder::new()
            .name("stdin".into())
            .spawn(follow)?;
        Ok(())
    }

    /// Takes lines from those who connect to a socket at `path`, one connection at a time, for as long as its
    /// file is kept.
    pub fn follow_socket(self, path: &Path) -> anyhow::Result<SocketFile> {
        let (listener, file) = socket_file::listen_blocking(path, 0o600)
            .map_err(|why| Unavailable(format!("control socket {}: {why}", path.display())))?;
        let follow = move || {
            for stream in listener.incoming().flatten() {
                // One that breaks off is over.
                self.serve(stream).ok();
            }
        };
        std::thread::Builder::new()
            .name("control".into())
            .spawn(follow)?;
        Ok(file)
    }

    fn serve(&self, mut stream: UnixStream) -> io::Result<()> {
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        stream.set_write_timeout(Some(SILENCE_MAX))?;
        let mut reader = BufReader::new(stream.try_clone()?);
        while let Some(line) = read_line(&mut reader)? {
            let answered = writeln!(stream, "{}", self.obey(&line));
            self.end_if_told(&line);
            answered?;
        }
        Ok(())
    }
}

/// The next line, or as much of it as any could need: a client that sends no line ends must not fill the
/// memory. What is no text is a mistake like any other, and the answer says so.
fn read_line(reader: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    reader.take(LINE_MAX).read_until(b'\n', &mut line)?;
    let text = || String::from_utf8_lossy(&line).into_owned();
    Ok((!line.is_empty()).then(text))
}

/// A program in the background that reads from its terminal is stopped by it, and a stopped link
/// carries nothing.
fn wait_for_foreground() {
    let stdin = io::stdin();
    while stdin.is_terminal() && tcgetpgrp(&stdin) != Ok(getpgrp()) {
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// The line that ends the program.
const QUIT: &str = "quit";

/// Bytes of a line: all the words of both directions take a tenth of it.
const LINE_MAX: u64 = 4096;

/// A connection that says nothing for so long makes room for the next one.
const SILENCE_MAX: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_an_end_is_cut() {
        let mut endless = BufReader::new(io::repeat(b'x'));
        assert_eq!(read_line(&mut endless).unwrap().unwrap().len(), 4096);
        let mut short = BufReader::new(&b"loss=5%\nstats"[..]);
        let mut next = || read_line(&mut short).unwrap();
        assert_eq!(next().as_deref(), Some("loss=5%\n"));
        assert_eq!(next().as_deref(), Some("stats"));
        assert_eq!(next(), None);
    }
}
