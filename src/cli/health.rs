//! `tidegate health`, for images without a shell: `HEALTHCHECK CMD ["/tidegate", "health"]`.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use clap::Args;

use super::print;
use crate::admin::probe;
use crate::exit::Exit;

#[derive(Args, Debug)]
pub(super) struct HealthArgs {
    /// Check readiness for new peers (/readyz) instead of liveness (/livez)
    #[arg(long)]
    ready: bool,
    /// Admin address of the running tidegate
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "TIDEGATE_ADMIN",
        default_value = "127.0.0.1:9477"
    )]
    admin: SocketAddr,
}

pub(super) fn run(args: &HealthArgs) -> anyhow::Result<Exit> {
    let HealthArgs { ready, admin } = *args;
    let path = if ready { "/readyz" } else { "/livez" };
    let (code, text) = probe(admin, path, Duration::from_secs(2))
        .map_err(|error| match error.kind() {
            io::ErrorKind::ConnectionRefused => io::Error::other(format!(
                "{error}\n help: nobody is there; if a tidegate runs with another admin address, name that with --admin \
                 or $TIDEGATE_ADMIN"
            )),
            _ => error,
        })
        .with_context(|| format!("asking http://{admin}{path}"))?;
    print(&text)?;
    Ok(if code == 200 {
        Exit::Done
    } else {
        Exit::Failure
    })
}
