//! What a bad network did: the proof that it was bad.

use std::fmt::Write;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_proto::sim::Done;

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub elapsed: Duration,
    /// Now.
    pub clients: usize,
    /// Since the start; one that was silent for long and came again counts again.
    pub clients_seen: u64,
    /// From clients to the server.
    pub up: Done,
    /// From the server to clients.
    pub down: Done,
    /// New source ports given.
    pub rebound: u64,
    /// Times a client kept its source port because no other could be had.
    pub not_rebound: u64,
    /// Datagrams of clients for whom there was no place.
    pub refused: u64,
    /// Datagrams that the kernel dropped in front of the link, because the relay was late.
    pub overrun: u64,
    /// Times the server's host said that nobody listens there.
    pub unreachable: u64,
    /// Datagrams that the kernel did not send.
    pub unsent: u64,
}

impl Report {
    /// Both ways together.
    pub fn both(&self) -> Done {
        let mut both = self.up;
        both += self.down;
        both
    }

    /// A table of counts, and below it what was not the link's doing.
    pub fn table(&self) -> String {
        let mut out = format!(
            "{:<6}{:>11}{:>14}{:>11}{:>10}{:>10}{:>11}{:>11}{:>11}\n",
            "",
            "datagrams",
            "bytes",
            "delivered",
            "lost",
            "dropped",
            "reordered",
            "duplicated",
            "corrupted"
        );
        for (way, done) in [("up", self.up), ("down", self.down)] {
            // Writing to a String cannot fail.
            writeln!(
                out,
                "{way:<6}{:>11}{:>14}{:>11}{:>10}{:>10}{:>11}{:>11}{:>11}",
                done.offered,
                done.offered_bytes,
                done.delivered,
                done.lost,
                done.overflowed,
                done.reordered,
                done.duplicated,
                done.corrupted,
            )
            .ok();
        }
        for (count, words) in self.notes() {
            if count > 0 {
                writeln!(out, "{count} {words}").ok();
            }
        }
        out
    }

    /// What was not the link's doing, how often.
    fn notes(&self) -> [(u64, &'static str); 7] {
        [
            (
                self.rebound,
                "times a client got a new source port (rebind)",
            ),
            (
                self.not_rebound,
                "times a client kept its source port: a new one was beyond the limit of open files (ulimit -n), or of ports",
            ),
            (
                self.both().too_long,
                "datagrams were longer than the MTU and were dropped",
            ),
            (
                self.refused,
                "datagrams of clients beyond --clients, or beyond the limit of open files (ulimit -n), were refused",
            ),
            (
                self.overrun,
                "datagrams were dropped by the kernel because this relay was too slow: the loss above is not all of it",
            ),
            (
                self.unreachable,
                "times the server's host said that nobody listens there",
            ),
            (self.unsent, "datagrams could not be sent"),
        ]
    }

    /// One line for what happened since `before`.
    pub fn line(&self, before: &Self) -> String {
        let way = |name: &str, now: Done, then: Done| {
            let offered = now.offered - then.offered;
            let lost = now.lost - then.lost;
            let share = 100.0 * lost as f64 / offered.max(1) as f64;
            let dropped = now.overflowed - then.overflowed;
            format!("{name} {offered:>7} datagrams, {share:>4.1}% lost, {dropped} dropped")
        };
        format!(
            "{:>6} s  {:>5} clients   {}   {}",
            self.elapsed.as_secs(),
            self.clients,
            way("up", self.up, before.up),
            way("down", self.down, before.down),
        )
    }

    /// All counts.
    pub fn json(&self) -> Value {
        let way = |done: Done| {
            json!({
                "datagrams": done.offered,
                "bytes": done.offered_bytes,
                "delivered": done.delivered,
                "lost": done.lost,
                "dropped_by_queue": done.overflowed,
                "dropped_by_mtu": done.too_long,
                "reordered": done.reordered,
                "duplicated": done.duplicated,
                "corrupted": done.corrupted,
            })
        };
        json!({
            "elapsed_s": self.elapsed.as_secs_f64(),
            "clients": self.clients,
            "clients_seen": self.clients_seen,
            "up": way(self.up),
            "down": way(self.down),
            "rebound": self.rebound,
            "not_rebound": self.not_rebound,
            "refused": self.refused,
            "dropped_before_the_link": self.overrun,
            "server_unreachable": self.unreachable,
            "unsent": self.unsent,
        })
    }
}
