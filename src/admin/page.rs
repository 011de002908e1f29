//! The page: one file, nothing from elsewhere. Everything but the curves is written here, so it is
//! there without scripts too; the script asks for the page again every second, takes over what
//! changed, and draws the curves from the figures inside it.

use serde_json::json;

use super::findings::{ALMOST_FULL, BAD_MODE, Level, QUEUES_FULL, WORKERS_BUSY};
use super::runbook;
use super::status::{Backend, Distribution, Listener, Peer, Reason, Status, Target};
use super::units::{age, brief, bytes, count, share, span};

/// The page with the figures of this moment.
pub(super) fn render(status: &Status) -> String {
    let value = |key: &str| match key {
        "title" => escape(&title(status)),
        "host" => escape(status.host.unwrap_or_default()),
        "state" => escape(status.state),
        "version" => escape(status.version),
        "uptime" => span(status.uptime),
        "findings" => findings(status),
        "figures" => figures(status),
        "listeners" => rows(status.listeners.iter().map(listener)),
        "backends" => rows(status.backends.iter().flat_map(targets)),
        "rejects" => rows(status.rejects.iter().map(|r| reason(r, runbook::of_reject))),
        "closes" => rows(status.closes.iter().map(|r| reason(r, runbook::of_close))),
        "worst" => rows(status.worst.iter().map(peer)),
        // Inside a script element, only "<" could end it.
        "curves" => curves(status).replace('<', "\\u003c"),
        other => unreachable!("page.html names {other}"),
    };
    // Once from left to right: a value that looks like a name is not looked up again.
    let mut page = String::with_capacity(TEMPLATE.len() + 64 * 1024);
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

fn title(s: &Status) -> String {
    let wrong = s.findings.iter().filter(|f| f.level != Level::Info).count();
    let mark = if wrong > 0 { "(!) " } else { "" };
    let host = s.host.map(|host| format!(" on {host}")).unwrap_or_default();
    format!(
        "{mark}tidegate{host}: {}, {}",
        of_peers(s.peers as f64),
        s.state
    )
}

fn curves(s: &Status) -> String {
    json!({"history": s.history, "rtt": s.rtt, "loss": s.loss}).to_string()
}

fn findings(s: &Status) -> String {
    if s.findings.is_empty() {
        let text = "Nothing needs attention: workers turn, backends are up, peers are welcome.";
        return format!("<li class=\"good\">{text}</li>");
    }
    let item = |f: &super::findings::Finding| {
        let alert = f
            .alert
            .map(|name| format!(" <small>{name}</small>"))
            .unwrap_or_default();
        format!(
            "<li class=\"{}\">{}{alert}</li>",
            f.level.label(),
            escape(&f.text)
        )
    };
    s.findings.iter().map(item).collect()
}

/// A figure: its name, its value, what to compare it with.
struct Figure {
    name: &'static str,
    value: String,
    more: String,
    /// How full it is and where that is too much; drawn as a bar.
    fill: Option<(f64, f64)>,
}

impl Figure {
    fn new(name: &'static str, value: String, more: String) -> Self {
        let fill = None;
        Self {
            name,
            value,
            more,
            fill,
        }
    }

    fn filled(self, used: f64, limit: f64, too_much: f64) -> Self {
        let part = if limit > 0.0 { used / limit } else { 0.0 };
        Self {
            fill: Some((part, too_much)),
            ..self
        }
    }

    fn html(&self) -> String {
        let Self {
            name, value, more, ..
        } = self;
        let (tone, bar) = match self.fill {
            None => ("", String::new()),
            Some((part, too_much)) => {
                let tone = if part > too_much {
                    " class=\"warn\""
                } else {
                    ""
                };
                let width = (part.clamp(0.0, 1.0) * 100.0).round();
                (
                    tone,
                    format!("<span class=\"bar\"><i style=\"width:{width}%\"></i></span>"),
                )
            }
        };
        format!("<div{tone}><dt>{name}</dt><dd><b>{value}</b>{bar}<small>{more}</small></dd></div>")
    }
}

fn figures(s: &Status) -> String {
    let group = |(title, figures): (&str, Vec<Figure>)| {
        let figures: String = figures.iter().map(Figure::html).collect();
        format!("<div class=\"box\"><h2>{title}</h2><dl class=\"figures\">{figures}</dl></div>")
    };
    [
        ("Players", players(s)),
        ("Traffic", traffic(s)),
        ("Machine", machine(s)),
    ]
    .map(group)
    .concat()
}

/// The latest of a rate.
fn now(s: &Status, curve: &str) -> f64 {
    s.now.get(curve).copied().unwrap_or(0.0)
}

fn players(s: &Status) -> Vec<Figure> {
    let below = |text: String| match text.as_str() {
        "-" => "no samples".into(),
        under if under.starts_with(UNDER) => format!("95 % {under}"),
        // What is shown as nothing is below the next figure, and nothing is below nothing.
        "0.0 %" => "95 % below 0.1 %".into(),
        _ => format!("95 % below {text}"),
    };
    let known = |x: Option<f64>| x.map_or("-".into(), share);
    let (peers, bad) = (s.peers as f64, s.bad_peers as f64);
    let bad_share = if peers > 0.0 { bad / peers } else { 0.0 };
    vec![
        Figure::new(
            "peers",
            count(peers),
            format!("of {}", count(s.peers_limit as f64)),
        )
        .filled(peers, s.peers_limit as f64, ALMOST_FULL),
        Figure::new("in bad mode", share(bad_share), of_peers(bad)).filled(bad, peers, BAD_MODE),
        Figure::new(
            "round trip",
            trip(&s.rtt, s.rtt.p50),
            below(trip(&s.rtt, s.rtt.p95)),
        ),
        Figure::new("loss", known(s.loss.p50), below(known(s.loss.p95))),
    ]
}

fn of_peers(n: f64) -> String {
    format!("{} {}", count(n), if n == 1.0 { "peer" } else { "peers" })
}

/// A quantile of round trips. Inside the first bucket nothing is told apart: what is known there is its bound.
fn trip(rtt: &Distribution, quantile: Option<f64>) -> String {
    let least = rtt.bounds[0];
    match quantile {
        Some(secs) if secs <= least => format!("{UNDER}{:.0} ms", least * 1000.0),
        known => brief(known),
    }
}

const UNDER: &str = "under ";

fn traffic(s: &Status) -> Vec<Figure> {
    let messages = |curve| count(now(s, curve)) + "/s";
    let bytes_now = |curve| bytes(now(s, curve)) + "/s";
    let datagrams = |curve| count(now(s, curve)) + " datagrams/s";
    vec![
        Figure::new(
            "messages to backends",
            messages("messages_to_backend"),
            "mean of 5 s".into(),
        ),
        Figure::new(
            "messages to peers",
            messages("messages_to_peer"),
            "mean of 5 s".into(),
        ),
        Figure::new("UDP in", bytes_now("bytes_in"), datagrams("datagrams_in")),
        Figure::new(
            "UDP out",
            bytes_now("bytes_out"),
            datagrams("datagrams_out"),
        ),
    ]
}

fn machine(s: &Status) -> Vec<Figure> {
    let busy = now(s, "busy");
    let (queued, queued_limit) = (s.queued_bytes as f64, s.queued_bytes_limit as f64);
    let rejected: u64 = s.rejects.iter().map(|reason| reason.last_minute).sum();
    let known = |number: Option<u64>| number.map_or_else(|| "-".into(), |it| it.to_string());
    vec![
        Figure::new("workers busy", share(busy), "mean of 5 s".into()).filled(
            busy,
            1.0,
            WORKERS_BUSY,
        ),
        Figure::new(
            "queues",
            bytes(queued),
            format!("of {}", bytes(queued_limit)),
        )
        .filled(queued, queued_limit, QUEUES_FULL),
        Figure::new(
            "memory",
            s.memory_bytes
                .map_or_else(|| "-".into(), |memory| bytes(memory as f64)),
            format!("{} of {} files", known(s.open_fds), known(s.max_fds)),
        ),
        Figure::new(
            "rejected",
            count(now(s, "rejects")) + "/s",
            count(rejected as f64) + " last minute",
        ),
    ]
}

/// A cell of a table, ready to be shown.
type Cell = String;

fn plain(text: impl AsRef<str>) -> Cell {
    format!("<td>{}</td>", escape(text.as_ref()))
}

fn toned(tone: &str, text: &str) -> Cell {
    format!("<td class=\"{tone}\">{}</td>", escape(text))
}

fn listener(l: &Listener) -> Vec<Cell> {
    let bind: Vec<String> = l.bind.iter().map(ToString::to_string).collect();
    vec![
        plain(&l.name),
        plain(l.protocol),
        plain(bind.join(" ")),
        plain(&l.backend),
        plain(format!(
            "{} of {}",
            count(l.peers as f64),
            count(l.peers_limit as f64)
        )),
        plain(count(l.bad_peers as f64)),
        plain(count(l.handshakes_accepted as f64)),
        plain(count(l.rejects as f64)),
        plain(count(l.kernel_drops as f64)),
        plain(l.workers.to_string()),
    ]
}

fn targets(b: &Backend) -> Vec<Vec<Cell>> {
    let row = |t: &Target| {
        let state = match (t.leaving, t.draining, t.up) {
            (true, _, _) => toned("info", "removed"),
            (false, true, _) => toned("info", "drained"),
            (false, false, true) if t.addresses > 1 => {
                toned("good", &format!("{} of {} up", t.addresses_up, t.addresses))
            }
            (false, false, true) => toned("good", "up"),
            (false, false, false) => toned("bad", "down"),
        };
        vec![
            plain(&t.name),
            plain(&b.name),
            state,
            plain(count(t.connections as f64)),
            plain(count(t.connects as f64)),
            plain(count(t.connect_failures as f64)),
            plain(bytes(t.bytes_sent as f64)),
            plain(bytes(t.bytes_received as f64)),
        ]
    };
    b.targets.iter().map(row).collect()
}

fn reason(r: &Reason, meaning: fn(&str) -> Option<&'static str>) -> Vec<Cell> {
    let note = meaning(r.reason).unwrap_or_default();
    vec![
        format!(
            "<td>{}<small>{}</small></td>",
            escape(r.reason),
            escape(note)
        ),
        plain(count(r.last_minute as f64)),
        plain(count(r.total as f64)),
    ]
}

fn peer(p: &Peer) -> Vec<Cell> {
    vec![
        plain(p.address.to_string()),
        plain(&p.session),
        match (p.bad, p.rtt) {
            (true, _) => toned("warn", "bad"),
            (false, Some(_)) => toned("good", "good"),
            (false, None) => plain("-"),
        },
        plain(brief(p.rtt)),
        plain(p.loss.map_or("-".into(), share)),
        plain(brief(p.jitter)),
        plain(count(p.resent as f64)),
        plain(bytes(p.inbox_bytes as f64)),
        plain(bytes(f64::from(p.outbox_bytes))),
        plain(age(p.age)),
        plain(&p.listener),
        plain(p.client_id.as_deref().unwrap_or("-")),
    ]
}

fn rows(table: impl Iterator<Item = Vec<Cell>>) -> String {
    let rows: String = table
        .map(|cells| format!("<tr>{}</tr>", cells.concat()))
        .collect();
    if rows.is_empty() {
        return "<tr><td>none</td></tr>".into();
    }
    rows
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
