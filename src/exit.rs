//! How the process ends: exit codes, in one place.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done, also after a drained SIGTERM |
//! | 1 | something failed while running, or the answer is no |
//! | 2 | the command line is wrong |
//! | 69 | a socket could not be had, or a file read or made, or no more of them, or (`load`) a server |
//! | 70 | a bug: panic |
//! | 78 | the configuration was refused; nothing was started |
//!
//! A service manager should not restart after 2 and 78: a wrong file does not get better by it.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::{fmt, io};

use crate::config::Refusal;
use crate::given_file::Unread;
use crate::sizing::open_files::{self, are_used_up};
use crate::sizing::{disk, file_size};

/// One of the codes above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0
    Done,
    /// 1
    Failure,
    /// 2
    Usage,
    /// 69
    Unavailable,
    /// 70
    Bug,
    /// 78
    Configuration,
}

impl Exit {
    /// The number.
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failure => 1,
            Self::Usage => 2,
            Self::Unavailable => 69,
            Self::Bug => 70,
            Self::Configuration => 78,
        }
    }

    /// What an error means for the process: the first cause that says so decides.
    pub fn of(error: &anyhow::Error) -> Self {
        let decided = error.chain().find_map(|cause| {
            if cause.is::<Refusal>() {
                Some(Self::Configuration)
            } else if cause.is::<Misused>() {
                Some(Self::Usage)
            } else if cause.is::<Unavailable>()
                || cause
                    .downcast_ref::<Unread>()
                    .is_some_and(Unread::is_unavailable)
                || kernels(cause).is_some_and(are_used_up)
            {
                Some(Self::Unavailable)
            } else {
                None
            }
        });
        decided.unwrap_or(Self::Failure)
    }
}

/// What to do about an error that is the kernel's own, where it says so nowhere else.
pub fn help(error: &anyhow::Error) -> Option<String> {
    error.chain().filter_map(kernels).find_map(help_with)
}

/// The error of the kernel that a cause is.
fn kernels<'a>(cause: &'a (dyn std::error::Error + 'static)) -> Option<&'a io::Error> {
    let unread = || cause.downcast_ref::<Unread>().and_then(Unread::io);
    cause.downcast_ref().or_else(unread)
}

/// What to do about an error, if that is known: the line below it.
pub fn help_line(help: Option<impl fmt::Display>) -> String {
    help.map_or_else(String::new, |help| format!("\n help: {help}"))
}

/// What to do about this one error of the kernel.
pub fn help_with(error: &io::Error) -> Option<String> {
    let of_disk = || disk::help(error).map(str::to_owned);
    open_files::help(error)
        .or_else(|| file_size::help(error))
        .or_else(of_disk)
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// A socket or file could not be had. Says which, why, and what to do.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);

/// What an address was wanted for.
#[derive(Clone, Copy, Debug)]
pub enum Transport {
    /// Players.
    Udp,
    /// Local programs, browsers, Prometheus.
    Tcp,
}

impl Transport {
    /// Why an address could not be had, and what to do about it.
    pub fn cannot_bind(self, address: SocketAddr, error: &io::Error) -> String {
        let kind = match self {
            Self::Udp => 'u',
            Self::Tcp => 't',
        };
        let port = address.port();
        let help = match error.raw_os_error() {
            // Those that do not listen too: the kernel gives ports of its range to any program that sends (ip_local_port_range).
            Some(libc::EADDRINUSE) => {
                format!(
                    "\n help: another program has it; `ss -{kind}apn sport = :{port}` says which"
                )
            }
            Some(libc::EADDRNOTAVAIL) => {
                "\n help: this machine has no such address; `ip address` lists those it has"
                    .to_owned()
            }
            Some(libc::EAFNOSUPPORT) => {
                "\n help: the kernel runs without IPv6 (`ipv6.disable=1`); leave this address out".to_owned()
            }
            // In a user namespace of its own, as the unit has it, a capability is none over the host's ports.
            Some(libc::EACCES) => "\n help: ports below 1024 need the capability CAP_NET_BIND_SERVICE; in the unit \
                 (`systemctl edit tidegate`), AmbientCapabilities= and CapabilityBoundingSet= name it and PrivateUsers=no"
                .to_owned(),
            Some(libc::ENOBUFS | libc::ENOMEM) => {
                "\n help: the kernel has no memory for another socket; `free -m` and the limit of the control group \
                 say how much there is"
                    .to_owned()
            }
            _ => help_line(open_files::help(error)),
        };
        format!("cannot bind {address}: {error}{help}")
    }
}

/// The command line asks for something that does not go together.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Misused(pub String);

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn the_cause_decides_the_code() {
        let refused = Refusal::of_all(Vec::new());
        let error = anyhow::Error::new(refused).context("while starting");
        assert_eq!(Exit::of(&error), Exit::Configuration);
        let taken = Err::<(), _>(Unavailable("port 40000 is taken".to_owned()));
        let error = taken.context("listener game").expect_err("an error");
        assert_eq!(Exit::of(&error), Exit::Unavailable);
        assert_eq!(Exit::of(&anyhow::anyhow!("anything else")), Exit::Failure);
    }

    #[test]
    fn what_the_kernel_says_comes_with_what_to_do() {
        let address = SocketAddr::from(([0, 0, 0, 0], 443));
        let cannot =
            |code| Transport::Udp.cannot_bind(address, &io::Error::from_raw_os_error(code));
        for (code, hint) in [
            (libc::EADDRINUSE, "`ss -uapn sport = :443`"),
            (libc::EADDRNOTAVAIL, "`ip address`"),
            (libc::EAFNOSUPPORT, "without IPv6"),
            (libc::EACCES, "PrivateUsers=no"),
            (libc::ENOBUFS, "no memory"),
            (libc::EMFILE, "LimitNOFILE="),
            (libc::ENFILE, "fs.file-max"),
        ] {
            let said = cannot(code);
            assert!(said.contains("\n help: ") && said.contains(hint), "{said}");
        }
    }
}
