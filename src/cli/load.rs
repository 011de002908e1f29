//! `tidegate load`.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use serde_json::json;

use super::connect::{self, TokenArgs};
use super::{input, print};
use crate::clock;
use crate::config::{self, Tunnel, parse_duration};
use crate::control_plane;
use crate::exit::{Exit, Misused, Transport, Unavailable};
use crate::load::{Load, Pace, Running, echo, report};
use crate::shutdown::StopSignals;

#[derive(Args, Debug)]
pub(super) struct LoadArgs {
    /// The server, such as yojimbo://game.example.net:40000
    #[arg(long, value_name = "URL", conflicts_with = "config")]
    remote: Option<String>,
    #[command(flatten)]
    tokens: TokenArgs,
    /// Server address in the tokens, if clients dial something else in front of it, such as `tidegate lag`
    #[arg(long, value_name = "ADDRESS")]
    token_address: Option<SocketAddr>,
    /// Configuration file with a [tunnel.NAME] to connect with (instead of --remote)
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Tunnel of that file [default: the only one]
    #[arg(long, value_name = "NAME", requires = "config")]
    tunnel: Option<String>,
    /// Also run the backend: a TCP echo server on this address. Without --remote: only that, until interrupted
    #[arg(long, value_name = "ADDRESS")]
    echo: Option<SocketAddr>,
    /// Send only: do not expect messages to come back
    #[arg(long, conflicts_with = "echo")]
    no_echo: bool,
    /// Number of clients, each with a UDP socket of its own
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    clients: u32,
    /// Messages a second and client, on a fixed timetable
    #[arg(long, default_value_t = 10.0, value_name = "RATE")]
    rate: f64,
    /// Messages in flight per client; the next is sent when one is back (instead of --rate)
    #[arg(long, value_name = "COUNT", conflicts_with = "rate", value_parser = clap::value_parser!(u32).range(1..=1000))]
    window: Option<u32>,
    /// Message size in bytes, or a range such as 32-1000
    #[arg(long, default_value = "64", value_name = "BYTES", value_parser = parse_sizes)]
    size: (usize, usize),
    /// Share of messages sent unreliably, in per cent
    #[arg(long, default_value_t = 0.0, value_name = "PERCENT")]
    unreliable: f64,
    /// Time over which the clients connect, one by one [default: 200 clients a second]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    ramp: Option<Duration>,
    /// Time after which a client that is not connected has failed; each token waits 10s for an answer, as a player's does,
    /// so that 15s is time for two
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = parse_duration)]
    connect_timeout: Duration,
    /// Time to send messages for, once all clients are connected
    #[arg(long = "for", value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    duration: Duration,
    /// Time to wait for the last messages to come back
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    settle: Duration,
    /// Threads to spread the clients over
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: u32,
    /// Interval of progress reports
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_duration)]
    every: Duration,
    /// Print one JSON object per line; the last one is the result
    #[arg(long)]
    json: bool,
}

fn parse_sizes(text: &str) -> Result<(usize, usize), String> {
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| {
        text.parse()
            .map_err(|_| format!("{text:?} is no number of bytes"))
    };
    let (from, to) = (number(from)?, number(to)?);
    if from > to {
        return Err("the smaller one comes first".to_owned());
    }
    Ok((from, to))
}

pub(super) fn run(args: LoadArgs) -> anyhow::Result<Exit> {
    if let Some(address) = args.echo {
        let address = echo::start(address)
            .map_err(|error| Unavailable(Transport::Tcp.cannot_bind(address, &error)))?;
        let line = match args.json {
            true => json!({"event": "echo", "address": address}).to_string(),
            false => format!("echo server on tcp://{address}"),
        };
        print(&format!("{line}\n"))?;
    }
    if args.remote.is_none() && args.config.is_none() {
        return match args.echo {
            Some(_) => {
                control_plane::run(interrupted())??;
                Ok(Exit::Done)
            }
            None => Err(Misused(
                "nothing to do: give --remote URL, --config FILE or --echo ADDRESS".to_owned(),
            )
            .into()),
        };
    }
    let load = plan(&args)?;
    control_plane::run(drive(&args, load))?
}

async fn interrupted() -> io::Result<()> {
    StopSignals::catch()?.next().await;
    Ok(())
}

fn plan(args: &LoadArgs) -> anyhow::Result<Load> {
    if !(args.rate > 0.0 && args.rate <= RATE_MAX) {
        return Err(Misused(format!("--rate {}: above 0, up to {RATE_MAX}", args.rate)).into());
    }
    if !(0.0..=100.0).contains(&args.unreliable) {
        return Err(Misused(format!("--unreliable {}: 0 to 100", args.unreliable)).into());
    }
    if args.no_echo && args.window.is_some() {
        return Err(
            Misused("--window waits for what --no-echo says does not come".to_owned()).into(),
        );
    }
    let clients = args.clients as usize;
    Ok(Load {
        tunnel: tunnel(args)?,
        token_address: args.token_address,
        clients,
        ramp: args
            .ramp
            .unwrap_or_else(|| Duration::from_secs_f64(clients as f64 / JOINS_PER_SECOND)),
        patience: args.connect_timeout,
        pace: match args.window {
            Some(window) => Pace::Window(window as usize),
            None => Pace::Every(
                // So long that the next one never comes.
                Duration::try_from_secs_f64(1.0 / args.rate).unwrap_or(Duration::MAX),
            ),
        },
        size: args.size,
        unreliable: args.unreliable / 100.0,
        echoed: !args.no_echo,
        duration: args.duration,
        settle: args.settle,
        threads: args.threads as usize,
    })
}

/// How to get in, as `connect` would be told.
fn tunnel(args: &LoadArgs) -> anyhow::Result<Tunnel> {
    let loaded = match &args.remote {
        Some(remote) => {
            // Nothing is bound there.
            let nowhere = "tcp://127.0.0.1:0";
            let overrides = connect::tunnel_flags(nowhere, remote, None, &args.tokens)?;
            input::load(None, overrides)?
        }
        None => input::load(args.config.as_deref(), Vec::new())?,
    };
    choose(loaded.config.tunnels, args.tunnel.as_deref())
}

fn choose(tunnels: Vec<Tunnel>, name: Option<&str>) -> anyhow::Result<Tunnel> {
    let names: Vec<_> = tunnels.iter().map(|tunnel| tunnel.name.clone()).collect();
    let is_it = |tunnel: &Tunnel| match name {
        Some(name) => tunnel.name == name,
        None => names.len() == 1,
    };
    let found = tunnels.into_iter().find(is_it);
    found.ok_or_else(|| match names.as_slice() {
        [] => {
            Misused("the file has no [tunnel.NAME]: load gets in as connect does".to_owned()).into()
        }
        names => Misused(format!("choose one with --tunnel: {}", names.join(", "))).into(),
    })
}

async fn drive(args: &LoadArgs, load: Load) -> anyhow::Result<Exit> {
    let (protocol, echoed) = (load.tunnel.protocol.label(), load.echoed);
    let (clients, duration) = (load.clients, load.duration);
    let mut running = load.start().await?;
    if !args.json {
        print(&format!(
            "{clients} {protocol} clients to {}, {}\n{}\n",
            running.remote(),
            habits(args),
            report::heading()
        ))?;
    }
    tokio::select! {
        watched = watch(args, &mut running) => watched?,
        stopped = interrupted() => {
            stopped?;
            running.stop();
        }
    }
    let (tally, cost) = running.finish().context("a client")?;
    let summary = report::Summary {
        tally: &tally,
        cost,
        clients,
        duration,
        echoed,
    };
    match args.json {
        true => print(&format!("{}\n", summary.json()))?,
        false => print(&summary.text())?,
    };
    Ok(match (summary.is_content_good(), summary.is_connected()) {
        (true, true) => Exit::Done,
        (false, _) => Exit::Failure,
        (true, false) => Exit::Unavailable,
    })
}

fn habits(args: &LoadArgs) -> String {
    let (least, most) = args.size;
    let size = if least == most {
        format!("{least} bytes")
    } else {
        format!("{least} to {most} bytes")
    };
    let pace = match args.window {
        Some(window) => format!("{window} messages of {size} under way for each"),
        None => format!("{} messages of {size} a second for each", args.rate),
    };
    format!("{pace}, for {}", config::show_duration(args.duration))
}

async fn watch(args: &LoadArgs, running: &mut Running) -> anyhow::Result<()> {
    let mut look = tokio::time::interval(LOOK_EVERY);
    let every = args.every.max(LOOK_EVERY);
    let (mut before, _) = running.look();
    let mut said = clock::now();
    while !running.is_over() {
        look.tick().await;
        running.keep_going();
        let span = said.elapsed();
        if span < every {
            continue;
        }
        said = clock::now();
        let (now, phase) = running.look();
        let elapsed = running.elapsed();
        let line = match args.json {
            true => report::line_json(elapsed, phase, &now).to_string(),
            false => report::line(elapsed, span, phase, &before, &now),
        };
        print(&format!("{line}\n"))?;
        before = now;
    }
    Ok(())
}

/// Below what a server lets in from one address by default.
const JOINS_PER_SECOND: f64 = 200.0;
const RATE_MAX: f64 = 10_000.0;
const LOOK_EVERY: Duration = Duration::from_millis(50);
