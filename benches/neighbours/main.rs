//! What do other protocols cost and gain in the same place?
//!
//! TCP programs on one side, a TCP backend on the other, and between them `tidegate connect` and
//! `serve` or the two ends of a tunnel over QUIC (quinn) or KCP (tokio_kcp), `benches/tunnels/`. All
//! of them in turn, each over the same link with the same seed; the tables show medians of the runs.
//! What each run gave goes to standard error.
//!
//! `--first`, `--delay`, `--cpu`, `--bulk` for one question; `--runs 3`; `--seconds 2.5` that each cell is measured;
//! `--players 300` of `--cpu`; `--only NAME` of a row; `--path WORDS` of a row's path in the table of `--bulk`

#![allow(
    clippy::unwrap_used,
    reason = "a bench that cannot start a program or ask it has failed"
)]

#[path = "../stand/mod.rs"]
mod stand;

mod bulk;
mod conversation;
mod cost;
mod delay;
mod first;
mod tunnel;

use stand::{flag, option, table, word};
use tunnel::{Field, Tunnel};

fn main() {
    if flag("test") {
        return;
    }
    let field = Field::build();
    table::circumstances();
    let all = !["first", "delay", "cpu", "bulk"].into_iter().any(flag);
    if all || flag("first") {
        first::run(&field);
    }
    if all || flag("delay") {
        delay::run(&field);
    }
    if all || flag("cpu") {
        cost::run(&field);
    }
    if all || flag("bulk") {
        bulk::run(&field);
    }
}

/// Those of them that the command line asks for.
fn chosen(tunnels: &[Tunnel]) -> Vec<Tunnel> {
    let only = word("only");
    let mut chosen = tunnels.to_vec();
    chosen.retain(|tunnel| only.as_deref().is_none_or(|only| only == tunnel.name()));
    chosen
}

/// The numbers of the runs; a link's seed is its run's.
fn runs() -> std::ops::RangeInclusive<u64> {
    1..=option("runs", 3.0) as u64
}

/// How long each cell is measured.
fn span() -> std::time::Duration {
    std::time::Duration::from_secs_f64(option("seconds", 2.5))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        count => (values[(count - 1) / 2] + values[count / 2]) / 2.0,
    }
}
