//! What the send policy is worth: `cargo run --release --features sim --example policy`.
//!
//! Runs the real sender beside reference senders over the same simulated paths and prints the
//! tables of docs/FIGURES.md. Deterministic; `--quick` for a shorter look, `--only NAME` for one table,
//! `--policy NAME` for one row of each, `--plots DIR` for the plots instead of the tables.
#![expect(
    clippy::print_stdout,
    reason = "tables on standard output are what it is for"
)]
#![allow(missing_docs, reason = "a program, not an interface")]

mod bottleneck;
mod end;
mod jitter;
mod kcp;
mod paths;
mod players;
mod plots;
mod quic;
mod run;
mod table;
mod tick;

use std::sync::Arc;
use std::time::Duration;

use tidegate_proto::Timestamp;
use tidegate_proto::sender::Params;

use end::{End, Tide};

#[derive(Clone)]
enum Policy {
    Bound,
    Tide(Arc<Params>),
    Stock(f64),
    Quic,
    Kcp,
}

impl Policy {
    fn end(&self, phase: f64) -> Box<dyn End> {
        let now = Timestamp::from_millis(1_000);
        let again = Duration::from_millis(100);
        match self {
            Self::Bound => Box::new(tick::Tick::new(now, 60.0, Duration::ZERO, phase)),
            Self::Stock(hz) => Box::new(tick::Tick::new(now, *hz, again, phase)),
            Self::Tide(params) => Box::new(Tide::new(now, params)),
            Self::Quic => Box::new(quic::Quic::new(now)),
            Self::Kcp => Box::new(kcp::Kcp::new(now, phase)),
        }
    }

    fn ends(&self, n: usize) -> [Box<dyn End>; 2] {
        [
            self.end((n as f64 * 0.37 + 0.11) % 1.0),
            self.end((n as f64 * 0.53 + 0.67) % 1.0),
        ]
    }
}

fn policies() -> Vec<(&'static str, Policy)> {
    let tide = Params::default();
    let plain = Params {
        redundancy: false,
        ..tide.clone()
    };
    vec![
        ("bound60", Policy::Bound),
        ("tidegate", Policy::Tide(Arc::new(tide))),
        ("tidegate, no copies", Policy::Tide(Arc::new(plain))),
        ("quic-9002", Policy::Quic),
        ("kcp-fast3", Policy::Kcp),
        ("stock60", Policy::Stock(60.0)),
        ("stock30", Policy::Stock(30.0)),
    ]
}

struct Options {
    quick: bool,
    only: Option<String>,
    policy: Option<String>,
}

impl Options {
    fn wants(&self, table: &str) -> bool {
        self.only
            .as_ref()
            .is_none_or(|only| table.starts_with(only.as_str()))
    }

    /// Of these policies, those to be shown.
    fn shown<T>(&self, mut policies: Vec<(&'static str, T)>) -> Vec<(&'static str, T)> {
        policies.retain(|(label, _)| self.policy.as_ref().is_none_or(|only| only == label));
        policies
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).cloned()
    };
    let options = Options {
        quick: arguments.iter().any(|argument| argument == "--quick"),
        only: value("--only"),
        policy: value("--policy"),
    };
    if let Some(directory) = value("--plots") {
        return plots::draw(std::path::Path::new(&directory), options.quick);
    }
    players::echo(&options);
    players::reordering(&options);
    players::turns(&options);
    players::latency(&options);
    players::far(&options);
    players::thin(&options);
    bottleneck::one_sender(&options);
    bottleneck::fairness(&options);
    bottleneck::beside(&options);
    bottleneck::policers(&options);
    bottleneck::beside_policed(&options);
    bottleneck::heavy_loss(&options);
    bottleneck::routes(&options);
    jitter::swinging(&options);
    jitter::shared(&options);
    Ok(())
}
