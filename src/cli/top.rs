//! `tidegate top`: who plays, and who has a bad time, redrawn every second.

use std::collections::HashMap;
use std::io::{self, IsTerminal};
use std::time::Duration;

use clap::{Args, ValueEnum};
use rustix::termios::tcgetwinsize;
use serde_json::Value;

use super::answer::{PEERS, whole};
use super::ctl::{Connection, ask};
use super::print_while_read;
use super::table::{self, Column, plain};
use crate::admin::units;
use crate::control::Request;
use crate::exit::Exit;

#[derive(Args, Debug)]
pub(super) struct TopArgs {
    #[command(flatten)]
    connection: Connection,
    /// Sort by, worst first
    #[arg(long, value_enum, default_value = "rtt")]
    sort: Sort,
    /// Print all peers once and exit, after a second in which rates are measured. The default when the output is no
    /// terminal, except with --json, which prints an object a second
    #[arg(long)]
    once: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Sort {
    /// Round-trip time
    Rtt,
    /// Packet loss
    Loss,
    /// Message bytes since the session began, both directions
    Bytes,
    /// Message bytes a second, both directions
    Rate,
    /// Queued bytes, both directions
    Queue,
}

impl Sort {
    fn worst_first(self, peers: &mut [Value]) {
        let resent = |peer: &Value| number(peer, "messages_resent");
        peers.sort_by(|a, b| {
            let rank = self.rank(b).total_cmp(&self.rank(a));
            rank.then_with(|| resent(b).total_cmp(&resent(a)))
        });
    }

    /// Peers without a measurement come last.
    fn rank(self, peer: &Value) -> f64 {
        match self {
            Self::Rtt => peer["rtt_ms"].as_f64().unwrap_or(-1.0),
            Self::Loss => peer["loss"].as_f64().unwrap_or(-1.0),
            Self::Bytes => number(peer, "bytes_received") + number(peer, "bytes_sent"),
            Self::Rate => number(peer, "in_per_s") + number(peer, "out_per_s"),
            Self::Queue => number(peer, "to_backend_bytes") + number(peer, "to_peer_bytes"),
        }
    }
}

/// Redraws every second until interrupted, or until nobody reads it.
pub(super) fn run(args: TopArgs) -> anyhow::Result<Exit> {
    let socket = args.connection.socket()?;
    // The reader of a pipe has no use for the codes that clear a screen; objects may follow each other.
    let once = args.once || !(args.connection.json || io::stdout().is_terminal());
    let look = || ask(&socket, &Request::Peers { listener: None });
    let mut before = Meter::default();
    if once {
        before = Meter::read(&look()?);
        std::thread::sleep(LOOK_EVERY);
    }
    loop {
        let stats = ask(&socket, &Request::Stats)?;
        let mut answer = look()?;
        let now = Meter::read(&answer);
        std::mem::replace(&mut before, now).add_rates(&mut answer);
        if let Some(peers) = answer["peers"].as_array_mut() {
            args.sort.worst_first(peers);
        }
        let text = if args.connection.json {
            format!("{answer}\n")
        } else {
            let lines = screen(&stats, peers(&answer));
            match once {
                true => lines.join("\n") + "\n",
                false => redrawn(&lines, size()),
            }
        };
        let is_read = print_while_read(&text)?;
        if once || !is_read {
            return Ok(Exit::Done);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

const LOOK_EVERY: Duration = Duration::from_secs(1);

fn peers(answer: &Value) -> &[Value] {
    answer["peers"].as_array().map_or(&[], Vec::as_slice)
}

/// What was counted of each session a moment ago.
#[derive(Default)]
struct Meter(HashMap<String, [f64; 4]>);

impl Meter {
    fn read(answer: &Value) -> Self {
        let session = |peer: &Value| (plain(&peer["session"]), counts(peer));
        Self(peers(answer).iter().map(session).collect())
    }

    /// Bytes in and out and messages sent again, a second; `None` for a peer that was not here.
    fn rates(&self, peer: &Value) -> Option<[f64; 3]> {
        let before = self.0.get(&plain(&peer["session"]))?;
        let now = counts(peer);
        let since = [0, 1, 2, 3].map(|of| (now[of] - before[of]).max(0.0));
        let [seconds, counts @ ..] = since;
        Some(counts.map(|count| count / seconds.max(1e-3)))
    }

    /// Each peer gets its rates beside what was answered.
    fn add_rates(&self, answer: &mut Value) {
        for peer in answer["peers"].as_array_mut().into_iter().flatten() {
            let rates = self.rates(peer).into_iter().flatten();
            for (column, rate) in ["in_per_s", "out_per_s", "resent_per_s"].iter().zip(rates) {
                peer[*column] = rate.into();
            }
        }
    }
}

/// A session's age is the daemon's own clock: what lies between two answers does not matter.
fn counts(peer: &Value) -> [f64; 4] {
    ["age_s", "bytes_received", "bytes_sent", "messages_resent"].map(|key| number(peer, key))
}

/// A line about the process, then a table.
fn screen(stats: &Value, peers: &[Value]) -> Vec<String> {
    let bad = peers.iter().filter(|peer| peer["mode"] == "bad").count();
    let mut lines = vec![format!(
        "tidegate {}   up {}   {}   {} peers, {bad} in bad mode   {} queued",
        plain(&stats["version"]),
        units::span(number(stats, "uptime_s")),
        plain(&stats["state"]),
        plain(&stats["peers"]),
        units::bytes(number(stats, "queued_bytes")),
    )];
    if peers.is_empty() {
        lines.push("nobody is here".to_owned());
        return lines;
    }
    let (left, right) = PEERS.split_at(RATES_AFTER);
    lines.extend(table::lines(left.iter().chain(&RATES).chain(right), peers));
    lines
}

fn number(of: &Value, key: &str) -> f64 {
    of[key].as_f64().unwrap_or(0.0)
}

/// Over what was there before, line by line, so that nothing flickers; no more than fits.
fn redrawn(lines: &[String], (width, height): (usize, usize)) -> String {
    let mut out = "\x1b[H".to_owned();
    // The last line stays free: its end would scroll the first one away.
    for line in lines.iter().take(height.saturating_sub(1)) {
        out.extend(line.chars().take(width));
        out += "\x1b[K\n";
    }
    out + "\x1b[J"
}

/// Columns and lines of the terminal; of a piece of paper where there is none.
fn size() -> (usize, usize) {
    let known = tcgetwinsize(io::stdout()).ok();
    known
        .filter(|size| size.ws_col > 0 && size.ws_row > 0)
        .map_or((120, 40), |size| (size.ws_col.into(), size.ws_row.into()))
}

/// Between what of [`PEERS`] is looked for first, where no narrow terminal cuts it off, and the rest.
const RATES: [Column; 3] = [
    Column::figure("in/s", "in_per_s", units::bytes),
    Column::figure("out/s", "out_per_s", units::bytes),
    Column::figure("resent/s", "resent_per_s", whole),
];
const RATES_AFTER: usize = 7;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn top_sorts_by_what_is_asked_for() {
        let mut peers = [
            json!({"session": "far", "rtt_ms": 300.0, "loss": 0.0, "bytes_received": 1, "bytes_sent": 2}),
            json!({"session": "lossy", "rtt_ms": 20.0, "loss": 0.3, "bytes_received": 1, "bytes_sent": 1}),
            json!({"session": "busy", "rtt_ms": 10.0, "loss": 0.1, "bytes_received": 0, "bytes_sent": 9}),
            json!({"session": "slow", "rtt_ms": 5.0, "loss": 0.0, "to_backend_bytes": 1, "to_peer_bytes": 7}),
            json!({"session": "floods", "rtt_ms": 5.0, "loss": 0.0, "in_per_s": 3.0, "out_per_s": 0.5}),
        ];
        for (sort, first) in [
            (Sort::Rtt, "far"),
            (Sort::Loss, "lossy"),
            (Sort::Bytes, "busy"),
            (Sort::Queue, "slow"),
            (Sort::Rate, "floods"),
        ] {
            sort.worst_first(&mut peers);
            assert_eq!(peers[0]["session"], first, "{sort:?}");
        }
    }

    #[test]
    fn what_was_not_measured_sorts_by_what_was_sent_again() {
        let peer = |session: &str, rtt: Option<f64>, resent: u64| json!({"session": session, "rtt_ms": rtt, "loss": rtt.map(|_| 0.0), "messages_resent": resent});
        let mut peers = [
            peer("calm", None, 1),
            peer("lost", None, 9),
            peer("near", Some(0.1), 0),
        ];
        for sort in [Sort::Rtt, Sort::Loss] {
            sort.worst_first(&mut peers);
            let sorted = peers.each_ref().map(|peer| plain(&peer["session"]));
            assert_eq!(sorted, ["near", "lost", "calm"], "{sort:?}");
        }
    }

    #[test]
    fn rates_are_of_the_time_between_two_looks() {
        let peer = |session: &str, age: f64, bytes: u64| json!({"session": session, "age_s": age, "bytes_received": bytes, "bytes_sent": 0});
        let before = Meter::read(&json!({"peers": [peer("a", 1.0, 1_000)]}));
        let mut answer = json!({"peers": [peer("a", 3.0, 5_000), peer("b", 3.0, 5_000)]});
        before.add_rates(&mut answer);
        let [old, new] = [0, 1].map(|at| &answer["peers"][at]);
        assert_eq!(
            (&old["in_per_s"], &old["out_per_s"]),
            (&2_000.0.into(), &0.0.into())
        );
        assert_eq!(new["in_per_s"], Value::Null, "it was not here");
    }

    #[test]
    fn no_line_is_wider_and_no_screen_longer_than_the_terminal() {
        let stats = json!({"version": "1", "uptime_s": 61, "state": "serving", "peers": 50});
        let peers = vec![
            json!({"session": "0123456789abcdef", "address": "127.0.0.1:4", "mode": "bad"});
            50
        ];
        let lines = screen(&stats, &peers);
        assert!(lines[0].contains("50 in bad mode"), "{}", lines[0]);
        let drawn = redrawn(&lines, (60, 10));
        let drawn: Vec<_> = drawn
            .lines()
            .map(|line| line.trim_start_matches("\x1b[H"))
            .collect();
        assert_eq!(drawn.len(), 10, "nine lines, and what clears the rest");
        for line in &drawn {
            assert!(line.trim_end_matches("\x1b[K").len() <= 60, "{line}");
        }
    }
}
