//! The page: one file, nothing from elsewhere. Figures are in it before any script runs; the script
//! then asks `/status` every second and draws the curves. Units are written the same way in both.

use super::status::{Reason, Status};

/// The page with the figures of this moment.
pub(super) fn render(status: &Status) -> String {
    let value = |key: &str| match key {
        "state" => escape(status.state),
        "version" => escape(status.version),
        "peers" => count(status.peers as f64),
        "uptime" => span(status.uptime),
        "notice" if status.not_ready.is_empty() => String::new(),
        "notice" => escape(&format!("Not ready: {}", status.not_ready.join("; "))),
        "figures" => figures(status),
        "listeners" => rows(&listeners(status), 10),
        "backends" => rows(&backends(status), 8),
        "rejects" => rows(&reasons(&status.rejects), 3),
        "closes" => rows(&reasons(&status.closes), 3),
        "worst" => rows(&worst(status), 11),
        other => unreachable!("page.html names {other}"),
    };
    // Once from left to right: a value that looks like a name is not looked up again.
    let mut page = String::with_capacity(TEMPLATE.len() + 32 * 1024);
    let mut rest = TEMPLATE;
    while let Some((before, after)) = rest.split_once("{{") {
        let (key, after) = after.split_once("}}").unwrap_or((after, ""));
        page.push_str(before);
        page.push_str(&value(key));
        rest = after;
    }
    page.push_str(rest);
    page
}

const TEMPLATE: &str = include_str!("page.html");

/// Nothing is loaded from elsewhere, and nobody may frame the page.
pub(super) const CONTENT_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; \
    script-src 'unsafe-inline'; connect-src 'self'; img-src data:; base-uri 'none'; \
    form-action 'none'; frame-ancestors 'none'";

fn figures(s: &Status) -> String {
    let now = |curve| s.now.get(curve).copied().unwrap_or(0.0);
    let per_sec = |curve| count(now(curve)) + "/s";
    let datagrams = |curve| count(now(curve)) + " datagrams/s";
    let bad = if now("peers") > 0.0 {
        now("bad_peers") / now("peers")
    } else {
        0.0
    };
    let figures = [
        (
            "peers",
            count(s.peers as f64),
            format!("of {}", count(s.peers_limit as f64)),
        ),
        (
            "in bad mode",
            share(bad),
            count(now("bad_peers")) + " peers",
        ),
        (
            "round trip",
            brief(s.rtt.p50),
            format!("95 %: {}", brief(s.rtt.p95)),
        ),
        (
            "loss, 95 %",
            s.loss.p95.map_or("-".into(), share),
            "own packets".into(),
        ),
        (
            "messages in",
            per_sec("messages_to_backend"),
            "to backends".into(),
        ),
        (
            "messages out",
            per_sec("messages_to_peer"),
            "to peers".into(),
        ),
        (
            "traffic in",
            bytes(now("bytes_in")) + "/s",
            datagrams("datagrams_in"),
        ),
        (
            "traffic out",
            bytes(now("bytes_out")) + "/s",
            datagrams("datagrams_out"),
        ),
        ("rejected", per_sec("rejects"), "datagrams".into()),
        (
            "queues",
            bytes(s.queued_bytes as f64),
            format!("of {}", bytes(s.queued_bytes_limit as f64)),
        ),
        ("workers busy", share(now("busy")), "of their time".into()),
        (
            "memory",
            bytes(s.memory_bytes as f64),
            format!("{} of {} files", s.open_fds, s.max_fds),
        ),
    ];
    let boxed = |(name, value, more): &(&str, String, String)| {
        format!("<div class=\"box\"><small>{name}</small><b>{value}</b><small>{more}</small></div>")
    };
    figures.iter().map(boxed).collect()
}

fn listeners(s: &Status) -> Vec<Vec<String>> {
    let row = |l: &super::status::Listener| {
        let bind: Vec<String> = l.bind.iter().map(ToString::to_string).collect();
        vec![
            l.name.clone(),
            l.protocol.into(),
            bind.join(" "),
            format!(
                "{} of {}",
                count(l.peers as f64),
                count(l.peers_limit as f64)
            ),
            count(l.bad_peers as f64),
            count(l.handshakes_accepted as f64),
            count(l.rejects as f64),
            count(l.kernel_drops as f64),
            l.workers.to_string(),
            l.backend.clone(),
        ]
    };
    s.listeners.iter().map(row).collect()
}

fn backends(s: &Status) -> Vec<Vec<String>> {
    let targets = s
        .backends
        .iter()
        .flat_map(|backend| backend.targets.iter().map(move |target| (backend, target)));
    let row = |(b, t): (&super::status::Backend, &super::status::Target)| {
        let state = match (t.draining, t.up) {
            (true, _) => "draining",
            (false, true) => "up",
            (false, false) => "down",
        };
        vec![
            t.name.clone(),
            b.name.clone(),
            state.into(),
            count(t.connections as f64),
            count(t.connects as f64),
            count(t.connect_failures as f64),
            bytes(t.bytes_sent as f64),
            bytes(t.bytes_received as f64),
        ]
    };
    targets.map(row).collect()
}

fn reasons(list: &[Reason]) -> Vec<Vec<String>> {
    let row = |r: &Reason| {
        vec![
            r.reason.into(),
            count(r.last_minute as f64),
            count(r.total as f64),
        ]
    };
    list.iter().map(row).collect()
}

fn worst(s: &Status) -> Vec<Vec<String>> {
    let row = |p: &super::status::Peer| {
        vec![
            p.address.to_string(),
            p.listener.clone(),
            p.client_id.clone().unwrap_or_else(|| "-".into()),
            span(p.age),
            if p.bad { "bad" } else { "good" }.into(),
            brief(Some(p.rtt)),
            brief(Some(p.jitter)),
            share(p.loss),
            count(p.resent as f64),
            bytes(p.inbox_bytes as f64),
            bytes(f64::from(p.outbox_bytes)),
        ]
    };
    s.worst.iter().map(row).collect()
}

fn rows(table: &[Vec<String>], columns: usize) -> String {
    if table.is_empty() {
        return format!("<tr><td>none</td>{}</tr>", "<td></td>".repeat(columns - 1));
    }
    let cell = |text: &String| format!("<td>{}</td>", escape(text));
    let row = |cells: &Vec<String>| {
        debug_assert_eq!(
            cells.len(),
            columns,
            "as many cells as the table has columns"
        );
        format!("<tr>{}</tr>", cells.iter().map(cell).collect::<String>())
    };
    table.iter().map(row).collect()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

fn count(n: f64) -> String {
    match n {
        n if n >= 1e6 => format!("{:.1} M", n / 1e6),
        n if n >= 1e4 => format!("{:.1} k", n / 1e3),
        n => format!("{n:.0}"),
    }
}

fn bytes(n: f64) -> String {
    const KIB: f64 = 1024.0;
    match n {
        n if n >= KIB * KIB * KIB => format!("{:.1} GiB", n / KIB / KIB / KIB),
        n if n >= KIB * KIB => format!("{:.1} MiB", n / KIB / KIB),
        n if n >= KIB => format!("{:.1} KiB", n / KIB),
        n => format!("{n:.0} B"),
    }
}

fn share(x: f64) -> String {
    format!("{:.1} %", x * 100.0)
}

fn brief(secs: Option<f64>) -> String {
    match secs {
        None => "-".into(),
        Some(secs) if secs >= 1.0 => format!("{secs:.2} s"),
        Some(secs) if secs >= 0.1 => format!("{:.0} ms", secs * 1000.0),
        Some(secs) => format!("{:.1} ms", secs * 1000.0),
    }
}

fn span(secs: f64) -> String {
    let secs = secs as u64;
    let (days, hours, minutes) = (secs / 86_400, secs / 3_600 % 24, secs / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{secs} s"),
        (0, 0, _) => format!("{minutes} min {} s", secs % 60),
        (0, _, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}
