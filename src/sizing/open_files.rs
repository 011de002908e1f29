//! Open files: as many as the system lets the process have, held against what the configuration takes.

use std::os::fd::AsRawFd;
use std::{fmt, io};

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::Config;

use super::peers_max;

/// Raises the limit to what the system allows. Shells and containers start programs with 1024, for the
/// sake of select(2), which is not used here.
pub fn raise() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    if limit.current != limit.maximum
        && let Err(error) = setrlimit(Resource::Nofile, raised)
    {
        tracing::debug!(%error, "the limit of open files stays");
    }
}

/// How many files this process may have open; none is no limit.
pub fn allowed() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Refuses a stream whose descriptor is one of the last: those are for the pages, probes, `ctl`, health checks and
/// look-ups, which are wanted most when sessions have taken all others. A new descriptor has the lowest number
/// that is free.
pub fn leave_some(stream: &impl AsRawFd) -> io::Result<()> {
    let number = u64::try_from(stream.as_raw_fd()).unwrap_or(0);
    match allowed() {
        Some(allowed) if number + RESERVE >= allowed => Err(Errno::MFILE.into()),
        Some(_) | None => Ok(()),
    }
}

/// Whether an error says that no file can be opened, by this process or by any.
pub fn are_used_up(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// What to do about an error that says so.
pub fn help(error: &io::Error) -> Option<String> {
    match error.raw_os_error()? {
        libc::EMFILE => Some(format!(
            "this process may have {} files open at once. Raise the hard limit (LimitNOFILE= in a unit, \
             `ulimit -Hn` in a shell, --ulimit nofile= of a container)",
            allowed().map_or_else(|| "no more".to_owned(), |allowed| allowed.to_string())
        )),
        libc::ENFILE => Some(
            "the whole machine has as many files open as it may: raise fs.file-max (`sysctl fs.file-nr` says what \
             is open)"
                .to_owned(),
        ),
        _ => None,
    }
}

/// The process may not open as many files as the configuration lets peers come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    needed: u64,
    allowed: u64,
    /// What decides how many may come.
    key: &'static str,
}

impl Shortage {
    /// Of this process, as it is now.
    pub fn find(config: &Config) -> Option<Self> {
        // None at all is no limit.
        Self::below(config, allowed()?)
    }

    fn below(config: &Config, allowed: u64) -> Option<Self> {
        let needed = needed(config);
        let key = match config.listeners.is_empty() {
            true => "max_streams",
            false => "max_peers",
        };
        (needed > allowed).then_some(Self {
            needed,
            allowed,
            key,
        })
    }

    pub(super) fn warn(self) {
        tracing::warn!(
            event = "open_files_limit",
            needed = self.needed,
            allowed = self.allowed,
            "{self}"
        );
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            needed,
            allowed,
            key,
        } = self;
        write!(
            f,
            "{allowed} open files are allowed, and as many peers as may come take {needed}: the last ones would be \
             denied. Raise the hard limit (LimitNOFILE= in a unit, `ulimit -Hn {needed}` in a shell, --ulimit nofile= \
             of a container), or lower {key}"
        )
    }
}

/// The sum of docs/OPERATIONS.md, "Descriptors".
fn needed(config: &Config) -> u64 {
    let [served, dialled] = peers_max(config);
    let sockets: usize = config.listeners.iter().map(|it| it.bind.len()).sum();
    // A stream for each peer; a tunnel's peers have a UDP socket each besides.
    let files = served + 2 * dialled + sockets * config.runtime.workers;
    files as u64 + OTHERS
}

/// Polls, wakers and files of the process itself, and the reserve.
const OTHERS: u64 = 40;

/// Descriptors that no stream gets.
const RESERVE: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{self, Input};

    fn config(max_peers: usize) -> Config {
        let text = format!(
            "version = 1\n\
             [runtime]\nworkers = 2\nmax_peers = 100\n\
             [listener.game]\nprotocol = \"gaffer\"\nbind = [\"127.0.0.1:0\", \"[::1]:0\"]\nbackend = \"game\"\n\
             max_peers = {max_peers}\n\
             [backend.game]\ntargets = [\"tcp://127.0.0.1:1\"]\nframing = \"raw\"\n"
        );
        loaded(text)
    }

    fn loaded(text: String) -> Config {
        let file = Some(("test.toml".into(), text));
        let input = Input {
            file,
            ..Input::default()
        };
        config::load(&input).unwrap().config
    }

    #[test]
    fn the_sum_of_the_operators_page_is_held_against_the_limit() {
        // Two workers on two addresses are four sockets.
        assert_eq!(Shortage::below(&config(50), 50 + 4 + 40), None);
        let short = Shortage::below(&config(50), 50 + 4 + 39).unwrap();
        assert!(short.to_string().contains("`ulimit -Hn 94`"), "{short}");
        let most = Shortage::below(&config(200), 143);
        assert_eq!(
            most.map(|it| it.needed),
            Some(144),
            "runtime.max_peers is over all"
        );
    }

    #[test]
    fn the_key_that_helps_is_named() {
        let said = |config: &Config| Shortage::below(config, 1).map(|it| it.to_string());
        assert!(said(&config(50)).is_some_and(|said| said.ends_with("or lower max_peers")));
        let tunnel = "version = 1\n\
             [tunnel.home]\nprotocol = \"gaffer\"\nlisten = [\"tcp://127.0.0.1:1\"]\nremote = \"127.0.0.1:2\"\n\
             framing = \"raw\"\n";
        let tunnel = loaded(tunnel.to_owned());
        assert!(said(&tunnel).is_some_and(|said| said.ends_with("or lower max_streams")));
    }

    #[test]
    fn what_the_system_allows_is_taken() {
        raise();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
    }
}
