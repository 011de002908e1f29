//! `tidegate lag`.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use tokio::sync::Notify;

use super::print;
use crate::config::parse_duration;
use crate::control_plane;
use crate::exit::{Exit, Misused, Unavailable};
use crate::lag::control::Control;
use crate::lag::{Impairments, Lag, Report, Setup, WORDS};
use crate::shutdown::StopSignals;
use crate::tokens;

#[derive(Args, Debug)]
#[command(after_help = words_help())]
pub(super) struct LagArgs {
    /// Address that clients send to
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:40001")]
    listen: SocketAddr,
    /// UDP server to forward to
    #[arg(long, value_name = "HOST:PORT")]
    to: String,
    /// Impairments: delay=25ms loss=5% up.loss=10% ... [default: perfect]
    #[arg(value_name = "WORD")]
    words: Vec<String>,
    /// Seed of the random numbers; the same seed treats the same datagrams alike [default: random, and shown]
    #[arg(long)]
    seed: Option<u64>,
    /// Clients at a time, each with a UDP socket; more are refused
    #[arg(long, value_name = "COUNT", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    clients: u32,
    /// Silence after which a client is forgotten
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_duration)]
    idle: Duration,
    /// Time to run for [default: until interrupted]
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Interval of reports [default: only at the end]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    every: Option<Duration>,
    /// Unix socket to take commands from, beside standard input
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

fn words_help() -> String {
    let mut help =
        "Impairments, for both directions; with the prefix up. (to the server) or down. for one:\n"
            .to_owned();
    for (example, meaning) in WORDS {
        help += &format!("  {example:<18}{meaning}\n");
    }
    help += "  perfect           none of these\n\n\
             Each client has a link of its own, with its own bursts, rate and queue.\n\n\
             While it runs, lines on standard input (and --control) change it: the same impairments, or\n  \
             rebind            give every client a new source port now\n  \
             stats             print the counts so far\n  \
             quit              print the counts and exit";
    help
}

pub(super) fn run(args: LagArgs) -> anyhow::Result<Exit> {
    let mut impairments = Impairments::default();
    let words = args.words.iter().flat_map(|words| words.split_whitespace());
    impairments
        .change(words)
        .map_err(|error| Misused(error.to_string()))?;
    let setup = Setup {
        listen: args.listen,
        to: resolve(&args.to)?,
        impairments,
        seed: match args.seed {
            Some(seed) => seed,
            None => u64::from(u32::from_le_bytes(tokens::random()?)),
        },
        clients_max: args.clients as usize,
        idle: args.idle,
    };
    let lag = Arc::new(Lag::start(setup)?);
    let quit = Arc::new(Notify::new());
    let told = quit.clone();
    let control = Control::new(lag.clone(), args.json, move || told.notify_one());
    let follow = |path: &PathBuf| control.clone().follow_socket(path);
    let _socket = args.control.as_ref().map(follow).transpose()?;
    control_plane::run(async {
        // Before anybody knows where clients go, who may use up all descriptors.
        let stops = StopSignals::catch()?;
        print(&opening(&args, &setup, lag.address()))?;
        control.follow_stdin()?;
        watch(&args, &lag, &quit, stops).await
    })??;
    let report = lag.report()?;
    say(&args, "end", &report, &report.table())?;
    Ok(Exit::Done)
}

/// Until interrupted, told to quit, or over.
async fn watch(
    args: &LagArgs,
    lag: &Lag,
    quit: &Notify,
    mut stops: StopSignals,
) -> anyhow::Result<()> {
    let over = tokio::time::sleep(args.duration.unwrap_or(FOREVER));
    tokio::pin!(over);
    let mut next = tokio::time::interval(args.every.unwrap_or(FOREVER).max(EVERY_MIN));
    next.tick().await;
    let mut before = Report::default();
    loop {
        tokio::select! {
            _ = stops.next() => return Ok(()),
            () = quit.notified() => return Ok(()),
            () = &mut over => return Ok(()),
            _ = next.tick() => {
                let report = lag.report()?;
                say(args, "stats", &report, &format!("{}\n", report.line(&before)))?;
                before = report;
            }
        }
    }
}

fn opening(args: &LagArgs, setup: &Setup, address: SocketAddr) -> String {
    let Setup {
        to,
        impairments,
        seed,
        ..
    } = setup;
    if args.json {
        let object = json!({
            "event": "listening",
            "address": address,
            "to": to,
            "network": impairments.to_string(),
            "seed": seed,
        });
        return format!("{object}\n");
    }
    format!("listening on {address}, to {to}, seed {seed}: {impairments}\n")
}

fn say(args: &LagArgs, event: &str, report: &Report, text: &str) -> anyhow::Result<Exit> {
    if !args.json {
        return print(text);
    }
    let mut object = report.json();
    object["event"] = event.into();
    print(&format!("{object}\n"))
}

fn resolve(to: &str) -> anyhow::Result<SocketAddr> {
    let found = to
        .to_socket_addrs()
        .map_err(|error| match to.contains(':') {
            true => anyhow::Error::new(Unavailable(format!("cannot find {to}: {error}"))),
            false => Misused(format!("--to {to}: write HOST:PORT")).into(),
        })?;
    let mut found = found.collect::<Vec<_>>().into_iter();
    let first = found.next();
    first.ok_or_else(|| Unavailable(format!("{to} has no address")).into())
}

/// Longer than anybody waits.
const FOREVER: Duration = Duration::from_secs(10 * 365 * 86_400);
const EVERY_MIN: Duration = Duration::from_millis(10);
