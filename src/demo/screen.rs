//! The demo's words and figures.

use std::net::SocketAddr;

use tidegate_proto::sim::Done;

use super::Demo;
use crate::load::Tally;

/// What was counted until a moment.
#[derive(Default)]
pub(super) struct Seen {
    /// By the players.
    pub(super) tally: Tally,
    /// By their networks, both ways.
    pub(super) network: Done,
}

/// The heading is repeated so often that it is always on the screen.
pub(super) const HEADING_EVERY: u64 = 20;

pub(super) fn heading(has_modes: bool) -> String {
    let players = if has_modes {
        " good   bad"
    } else {
        "           "
    };
    format!(
        "{first}players       messages/s   round trip ms          datagrams   lost   sent again\n         \
         {players}    said  echoed   p50    p99  worst      a second            (repeated)",
        first = "   time   ",
    )
}

pub(super) fn opening(
    demo: &Demo,
    server: SocketAddr,
    backend: SocketAddr,
    page: Option<SocketAddr>,
) -> String {
    let page = page.map_or_else(String::new, |page| {
        format!("\nA page with everything: http://{page}/\n")
    });
    format!(
        "{players} {protocol} players say {rate} messages of {size} bytes a second each, over networks that lose {loss} % each \
         way with {delay} ms of delay{storms}.\ntidegate serve on {server} relays them to a TCP echo server on \
         {backend}.\n{page}",
        players = demo.players,
        protocol = demo.protocol.label(),
        rate = demo.rate,
        size = demo.size,
        loss = demo.loss * 100.0,
        delay = demo.delay.as_millis(),
        storms = if demo.storms {
            ", and with a storm every 26 seconds"
        } else {
            ""
        },
    )
}

/// One second.
pub(super) fn line(second: u64, before: &Seen, now: &Seen, storm: bool, has_modes: bool) -> String {
    let (Seen { tally, network }, then) = (now, before);
    let players = if has_modes {
        let bad = tally.in_bad_mode;
        let good = tally.connected.saturating_sub(bad);
        format!("{good:>5} {bad:>5}")
    } else {
        format!("{:>5}      ", tally.connected)
    };
    let trips = &tally.round_trip;
    let millis = |micros: u64| micros as f64 / 1000.0;
    let datagrams = network.offered - then.network.offered;
    let lost = network.lost - then.network.lost;
    format!(
        "{time:>7}  {players}  {said:>6} {echoed:>7}  {p50:>4.0}  {p99:>5.0}  {worst:>5.0}    {datagrams:>8}  \
         {share:>4.1}%  {again:>5} ({repeated}){storm}",
        time = format!("{second} s"),
        said = tally.reliable.sent - then.tally.reliable.sent,
        echoed = tally.reliable.back - then.tally.reliable.back,
        p50 = millis(trips.value_at_quantile(0.5)),
        p99 = millis(trips.value_at_quantile(0.99)),
        worst = millis(trips.max()),
        share = 100.0 * lost as f64 / datagrams.max(1) as f64,
        again = tally.stats.messages_resent - then.tally.stats.messages_resent,
        repeated = tally.stats.messages_repeated - then.tally.stats.messages_repeated,
        storm = if storm { "  storm" } else { "" },
    )
}

pub(super) fn closing(seen: &Seen) -> String {
    let Seen { tally, network } = seen;
    let order = match tally.harmed() {
        0 => "each one once and in order".to_owned(),
        wrong => format!("{wrong} of them wrong: this is a bug, please report it"),
    };
    format!(
        "\n{echoed} of {said} messages came back ({outstanding} under way), {order}, although {lost} of {datagrams} \
         datagrams were lost.{ended}",
        echoed = tally.reliable.back,
        said = tally.reliable.sent,
        outstanding = tally.reliable.missing,
        lost = network.lost,
        datagrams = network.offered,
        ended = ended_early(tally),
    )
}

/// By reason: what to look for.
fn ended_early(tally: &Tally) -> String {
    let reasons = tally.refused.iter().chain(&tally.ended);
    let counts: Vec<_> = reasons
        .map(|(reason, count)| format!("{count} as {}", reason.label()))
        .collect();
    match counts.as_slice() {
        [] => String::new(),
        counts => format!(" Sessions ended early: {}.", counts.join(", ")),
    }
}
