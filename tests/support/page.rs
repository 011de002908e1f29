//! What the page of a running program says.

use std::net::SocketAddr;

use tidegate::admin::probe;

use super::PATIENCE;

/// The status code and the text of its answer.
pub fn ask(page: SocketAddr, path: &str) -> (u16, String) {
    probe(page, path, PATIENCE).unwrap()
}

/// Of the first series that begins so, if there is one.
pub fn metric(page: SocketAddr, series: &str) -> Option<f64> {
    let (_, metrics) = ask(page, "/metrics");
    let line = metrics.lines().find(|line| line.starts_with(series))?;
    line.rsplit(' ').next()?.parse().ok()
}
