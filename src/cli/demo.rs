//! `tidegate demo`.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;

use crate::config::parse_duration;
use crate::demo::{Demo, Spoken};
use crate::exit::{Exit, Misused};

#[derive(Args, Debug)]
pub(super) struct DemoArgs {
    /// Protocol of the players
    #[arg(long, value_enum, default_value_t = Spoken::Yojimbo)]
    protocol: Spoken,
    /// Number of players
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=2000))]
    players: u32,
    /// Messages a second and player
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rate: u32,
    /// Message size in bytes; rudp carries up to 1468
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(12..=7000))]
    size: u32,
    /// Datagram loss in each direction, in per cent
    #[arg(long, default_value_t = 2.0, value_name = "PERCENT")]
    loss: f64,
    /// One-way delay
    #[arg(long, default_value = "25ms", value_parser = parse_duration)]
    delay: Duration,
    /// Jitter, plus or minus
    #[arg(long, default_value = "5ms", value_parser = parse_duration)]
    jitter: Duration,
    /// Leave out the storm every 26 seconds
    #[arg(long)]
    no_storms: bool,
    /// Time to run for, such as 30s [default: until interrupted]
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Address of the status page [default: 127.0.0.1:9477, or a free port if that is taken]
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<SocketAddr>,
}

pub(super) fn run(args: &DemoArgs) -> anyhow::Result<Exit> {
    if !(0.0..=90.0).contains(&args.loss) {
        return Err(Misused(format!("--loss {} is no share: 0 to 90", args.loss)).into());
    }
    let demo = Demo {
        protocol: args.protocol,
        players: args.players as usize,
        rate: args.rate,
        size: args.size as usize,
        loss: args.loss / 100.0,
        delay: args.delay,
        jitter: args.jitter,
        storms: !args.no_storms,
        duration: args.duration,
        admin: args.admin,
    };
    match demo.run() {
        Ok(verdict) if verdict.wrong > 0 => Ok(Exit::Failure),
        Err(error) if !has_lost_its_reader(&error) => Err(error),
        Ok(_) | Err(_) => Ok(Exit::Done),
    }
}

/// Who has seen enough, `tidegate demo | head` say, is told nothing more.
fn has_lost_its_reader(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<io::Error>();
    io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
