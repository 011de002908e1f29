//! Memory: what the configuration lets the process take, beside what the control group leaves.

use std::fmt;

use crate::cgroup::{self, Beyond, Limit};
use crate::config::{Config, Listener};

use super::peers_max;

/// The memory limit around the process is below what the configuration allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// Bytes it may come to.
    at_most: u64,
    /// Of those, bytes of `runtime.queue_memory`.
    queues: u64,
    /// Where the kernel steps in.
    limit: Limit,
}

impl Shortage {
    /// Where the process runs now.
    pub fn find(config: &Config) -> Option<Self> {
        Self::below(config, cgroup::memory_limit()?)
    }

    fn below(config: &Config, limit: Limit) -> Option<Self> {
        let queues = config.runtime.queue_memory as u64;
        let at_most = apart_from_queues(config) + queues;
        (at_most > limit.bytes).then_some(Self {
            at_most,
            queues,
            limit,
        })
    }

    pub(super) fn warn(self) {
        tracing::warn!(
            event = "memory_limit",
            limit_bytes = self.limit.bytes,
            at_most_bytes = self.at_most,
            "{self}"
        );
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes.div_ceil(MIB);
        let apart = self.at_most - self.queues;
        let Limit { bytes, beyond } = self.limit;
        let (limit, would) = match beyond {
            Beyond::Killed => ("leaves", "end it and every session"),
            Beyond::HeldUp => (
                "holds up (memory.high) what takes",
                "stop every session, again and again",
            ),
        };
        write!(
            f,
            "the control group {limit} {} MiB, and with runtime.queue_memory full it may come to {} MiB: \
             the kernel would {would}. ",
            bytes / MIB,
            mib(self.at_most),
        )?;
        // A quarter of the limit stays free, as "Sizing" has it.
        match (bytes / 5 * 4).checked_sub(apart) {
            Some(left) if left >= MIB => write!(
                f,
                "Give it {} MiB, or set runtime.queue_memory to {} MiB",
                mib(self.at_most / 4 * 5),
                left / MIB
            ),
            Some(_) | None => write!(
                f,
                "Give it {} MiB, or lower max_peers and runtime.workers",
                mib(self.at_most / 4 * 5)
            ),
        }
    }
}

/// Bytes of the program, its workers and its sessions.
fn apart_from_queues(config: &Config) -> u64 {
    let sessions: usize = peers_max(config).into_iter().sum();
    let sessions = sessions.min(config.runtime.max_peers);
    let loops = config.runtime.workers * (config.listeners.len() + config.tunnels.len());
    PROGRAM + WORKER * loops as u64 + tables(config) + SESSION * sessions as u64
}

/// Bytes of the tables of addresses: each socket has one for handshakes and, where there are strikes, one for those.
fn tables(config: &Config) -> u64 {
    let of_listener = |listener: &Listener| {
        let sockets = config.runtime.workers * listener.bind.len();
        let tables = 1 + usize::from(listener.limits.strikes.is_some());
        (sockets * tables * listener.limits.table_size) as u64 * ENTRY
    };
    config.listeners.iter().map(of_listener).sum()
}

const MIB: u64 = 1 << 20;

/// Bytes, measured: docs/OPERATIONS.md, "Sizing", and docs/PERFORMANCE.md.
const PROGRAM: u64 = 10 * MIB;
/// A worker of a listener, without its tables.
const WORKER: u64 = MIB;
/// Of a table of addresses: a time and a tag.
const ENTRY: u64 = 8 + 2;
/// A session that plays.
const SESSION: u64 = 10 << 10;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::{self, Input, Strikes};

    fn config(queue_memory: &str, max_peers: usize) -> Config {
        let text = format!(
            "version = 1\n\
             [runtime]\nworkers = 2\nmax_peers = {max_peers}\nqueue_memory = \"{queue_memory}\"\n\
             [listener.game]\nprotocol = \"gaffer\"\nbind = [\"127.0.0.1:0\"]\nbackend = \"game\"\n\
             max_peers = 4096\n\
             [backend.game]\ntargets = [\"tcp://127.0.0.1:1\"]\nframing = \"raw\"\n"
        );
        let file = Some(("test.toml".into(), text));
        let input = Input {
            file,
            ..Input::default()
        };
        config::load(&input).unwrap().config
    }

    const fn killed_at(bytes: u64) -> Limit {
        Limit {
            bytes,
            beyond: Beyond::Killed,
        }
    }

    /// 10 MiB, two workers, their tables and 1024 sessions are 23.25 MiB, the queues come on top.
    #[test]
    fn the_sum_of_the_operators_page_is_held_against_the_limit() {
        let config = config("256MiB", 1024);
        let sum = 279 * MIB + MIB / 4;
        assert_eq!(Shortage::below(&config, killed_at(sum)), None);
        let short = Shortage::below(&config, killed_at(sum - 1)).unwrap();
        assert_eq!(short.at_most, sum);
    }

    /// For each worker, each address and each purpose.
    #[test]
    fn every_table_of_addresses_is_counted() {
        let mut config = config("256MiB", 1024);
        let one = 65_536 * 10;
        assert_eq!(tables(&config), 2 * one);
        let listener = &mut config.listeners[0];
        listener.bind.push("[::1]:0".parse().unwrap());
        listener.limits.table_size = 1 << 24;
        listener.limits.strikes = Some(Strikes {
            limit: 20,
            window: Duration::from_secs(60),
            ban: Duration::from_secs(60),
        });
        assert_eq!(tables(&config), 8 * 256 * one);
        assert!(Shortage::below(&config, killed_at(1 << 30)).is_some());
    }

    #[test]
    fn what_is_said_would_be_enough() {
        let said_of = |limit| {
            let short = Shortage::below(&config("256MiB", 1024), limit);
            short.unwrap().to_string()
        };
        let said = |bytes| said_of(killed_at(bytes));
        let text = said(128 * MIB);
        assert!(text.contains("leaves 128 MiB"), "{text}");
        assert!(text.contains("may come to 280 MiB"), "{text}");
        assert!(text.contains("Give it 350 MiB"), "{text}");
        assert!(text.contains("runtime.queue_memory to 79 MiB"), "{text}");
        assert_eq!(
            Shortage::below(&config("79MiB", 1024), killed_at(128 * MIB)),
            None,
            "the advice"
        );
        let text = said(24 * MIB);
        assert!(text.contains("lower max_peers"), "{text}");
        let text = said_of(Limit {
            bytes: 128 * MIB,
            beyond: Beyond::HeldUp,
        });
        assert!(
            text.contains("holds up (memory.high) what takes 128 MiB"),
            "{text}"
        );
        assert!(text.contains("stop every session"), "{text}");
    }
}
