//! What operators are told of targets, and what to do about it.

use std::fmt::Display;
use std::io;
use std::os::unix::fs::FileTypeExt;

use super::{Pick, Pool, Shut, Turned};
use crate::config::Target;

/// Logs that an address is up or down: a warning if the target goes down with it.
pub fn log_turned(turned: &Turned, error: Option<&io::Error>) {
    let Turned {
        backend, target, ..
    } = turned;
    let address = turned.address.as_ref().map(ToString::to_string);
    let address = address.filter(|_| target.has_name());
    let help = error.and_then(|error| help(target, error));
    let error = error.map(ToString::to_string);
    match (turned.up, turned.whole) {
        (true, true) => tracing::info!(event = "target_up", %backend, %target, address),
        (true, false) => tracing::info!(event = "address_up", %backend, %target, address),
        (false, true) => {
            tracing::warn!(event = "target_down", %backend, %target, address, error, help);
            if turned.shut == Some(Shut::DownOrDrained) {
                warn_of_shut(backend, Some(target), Shut::DownOrDrained);
            }
        }
        (false, false) => {
            tracing::info!(event = "address_down", %backend, %target, address, error, help);
        }
    }
}

/// Warns that the last target that took newcomers is gone, where another one is drained: it looks as if one were
/// left. None if it is not listed any more.
pub fn warn_of_shut(backend: &str, target: Option<&dyn Display>, why: Shut) {
    tracing::warn!(
        event = "no_target_left",
        backend,
        target = target.map(tracing::field::display),
        help = "newcomers are denied until a target is up and not drained: `tidegate ctl backends` lists them, and \
                `tidegate ctl backend enable TARGET` takes one back in",
        "no target {}",
        why.text()
    );
}

/// Warns of a target that ended many streams and was not there right after, although it may be back by now.
pub(super) fn warn_of_crash(pool: &Pool, pick: Pick, error: &io::Error) {
    tracing::warn!(
        event = "target_crashed",
        backend = %pool.name(),
        target = %pool.target(pick.target),
        address = pool.address_of(pick).map(tracing::field::display),
        %error,
        help = "look at the game server's own log: it crashed, or was restarted under its players",
        "it ended many sessions at once, and took no connection right after"
    );
}

/// Warns of a player who could not be connected to a target that is up as far as is known: nobody else would say so.
pub fn warn_of_connect(pool: &Pool, pick: Pick, reason: &str, error: &io::Error) {
    let target = pool.target(pick.target);
    // That one was told of when it went down.
    if !pool.states()[pick.target].up {
        return;
    }
    tracing::warn!(
        event = "connect_failed",
        backend = %pool.name(),
        %target,
        address = pool.address_of(pick).map(tracing::field::display),
        reason,
        %error,
        help = help(&target, error),
        "a player could not be connected, although the target is up as far as is known"
    );
}

/// What to do about a target that cannot be reached.
pub fn help(target: &Target, error: &io::Error) -> Option<&'static str> {
    match (error.kind(), target) {
        (io::ErrorKind::ConnectionRefused, Target::Tcp { .. }) => {
            Some("nothing listens there; start the game server")
        }
        // The kernel says the same of a socket whose program has ended and of any other file.
        (io::ErrorKind::ConnectionRefused, Target::Unix(path)) => match path.metadata() {
            Ok(found) if !found.file_type().is_socket() => Some("this file is no socket"),
            Ok(_) | Err(_) => Some(
                "the file is there, but nobody listens any more; start the game server, which makes it \
                 anew",
            ),
        },
        (io::ErrorKind::NotFound, Target::Unix(_)) => {
            Some("the game server makes this file when it starts")
        }
        (io::ErrorKind::PermissionDenied, Target::Unix(_)) => {
            Some("the socket's mode keeps out the user that runs this")
        }
        (io::ErrorKind::NotFound, Target::Tcp { .. }) => Some(
            "the warning dns_failed says why; correct the name in targets, or what resolves it",
        ),
        (io::ErrorKind::InvalidInput, Target::Unix(_)) => {
            Some("paths of sockets have at most 107 bytes; name a shorter one")
        }
        (io::ErrorKind::NotADirectory, Target::Unix(_)) => {
            Some("a part of this path is a file and no directory; correct it in targets")
        }
        // Over TCP the same looks like the next.
        (io::ErrorKind::WouldBlock, Target::Unix(_)) => {
            Some("the game server does not accept: its queue of connections is full")
        }
        (io::ErrorKind::TimedOut, _) => {
            Some("a firewall, or a server whose queue of connections is full")
        }
        (
            io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable,
            Target::Tcp { .. },
        ) => Some(
            "no route leads there, or its interface is down; `ip route get ADDRESS` says which",
        ),
        (io::ErrorKind::AddrNotAvailable, Target::Tcp { .. }) => Some(
            "this host has no address or no free port to connect from: IPv6 is off, or all of \
             net.ipv4.ip_local_port_range is taken towards it (`ss -s`)",
        ),
        _ => None,
    }
}

/// Warns of a name that does not resolve, and says whether players feel it.
pub(super) fn warn_of_name(pool: &Pool, index: usize, error: &io::Error) {
    let Target::Tcp { host, .. } = pool.target(index) else {
        return;
    };
    let is_known = pool.addresses(index).iter().any(|(_, it)| it.is_some());
    let help = if is_known {
        "players are still sent where it led before; correct the name in targets, or what resolves it"
    } else {
        "nobody can be sent there until it leads somewhere; correct the name in targets, or what resolves it"
    };
    tracing::warn!(event = "dns_failed", backend = %pool.name(), target = %host, %error, help);
}

/// For the operator who reloads: a target whose name was not found, although the file is right.
pub fn never_found(backend: &str, target: &Target) -> String {
    format!(
        "the name of target {target} of backend {backend} was not found, and nobody can be sent there until it is; \
         dns_failed in the log says why. Correct it in targets and reload, or mend what resolves it"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_of_a_target_comes_with_what_to_do() {
        let tcp = Target::Tcp {
            host: "::1".to_owned(),
            port: 7000,
        };
        let unix = Target::Unix("/run/game/server.sock".into());
        for (errno, target, hint) in [
            (libc::ECONNREFUSED, &tcp, "start the game server"),
            (libc::ENETUNREACH, &tcp, "`ip route get ADDRESS`"),
            (libc::EHOSTUNREACH, &tcp, "`ip route get ADDRESS`"),
            (libc::EADDRNOTAVAIL, &tcp, "IPv6 is off"),
            (libc::ETIMEDOUT, &tcp, "a firewall"),
            (libc::ENOENT, &unix, "when it starts"),
            (libc::ENOTDIR, &unix, "no directory"),
            (libc::EAGAIN, &unix, "queue of connections is full"),
            (libc::EACCES, &unix, "mode"),
        ] {
            let error = io::Error::from_raw_os_error(errno);
            let said = help(target, &error).unwrap_or_default();
            assert!(said.contains(hint), "{error}: {said}");
        }
    }
}
