//! The demo's words and figures.

use std::net::SocketAddr;

use super::Demo;
use super::players::Seen;

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
pub(super) fn line(second: u64, before: &Seen, now: &Seen, has_modes: bool) -> String {
    let players = if has_modes {
        let good = now.connected - now.in_bad_mode.min(now.connected);
        format!("{good:>5} {bad:>5}", bad = now.in_bad_mode)
    } else {
        format!("{:>5}      ", now.connected)
    };
    let trips = &now.round_trips;
    let millis = |micros: u64| micros as f64 / 1000.0;
    let datagrams = now.datagrams - before.datagrams;
    let lost = now.lost - before.lost;
    let share = if datagrams == 0 {
        0.0
    } else {
        100.0 * lost as f64 / datagrams as f64
    };
    format!(
        "{time:>7}  {players}  {said:>6} {echoed:>7}  {p50:>4.0}  {p99:>5.0}  {worst:>5.0}    {datagrams:>8}  \
         {share:>4.1}%  {again:>5} ({repeated}){storm}",
        time = format!("{second} s"),
        said = now.said - before.said,
        echoed = now.echoed - before.echoed,
        p50 = millis(trips.value_at_quantile(0.5)),
        p99 = millis(trips.value_at_quantile(0.99)),
        worst = millis(trips.max()),
        again = now.resent.saturating_sub(before.resent),
        repeated = now.repeated.saturating_sub(before.repeated),
        storm = if now.storm { "  storm" } else { "" },
    )
}

pub(super) fn closing(seen: &Seen) -> String {
    let order = match seen.wrong_echoes {
        0 => "each one once and in order".to_owned(),
        wrong => format!("{wrong} of them wrong: this is a bug, please report it"),
    };
    let ended = match (seen.closed, seen.last_close) {
        (0, _) | (_, None) => String::new(),
        (count, Some(reason)) => format!(
            " {count} sessions ended early, the last one as {}.",
            reason.label()
        ),
    };
    format!(
        "\n{echoed} of {said} messages came back ({outstanding} under way), {order}, although {lost} of {datagrams} \
         datagrams were lost.{ended}",
        echoed = seen.echoed,
        said = seen.said,
        outstanding = seen.outstanding,
        lost = seen.lost,
        datagrams = seen.datagrams,
    )
}
