//! What the control socket answered, for people. Scripts have `--json`.

use serde_json::{Value, json};

use super::table::{Column, lines, plain};
use crate::admin::units;

/// Figures as `name value` lines; then the lists, as tables.
pub(super) fn readable(answer: &Value) -> String {
    let members = || answer.as_object().into_iter().flatten();
    let figures = members().filter(|(name, value)| *name != "ok" && !is_list_of_rows(name, value));
    let mut out: String = figures
        .map(|(name, value)| format!("{name:<16} {}\n", listed(value)))
        .collect();
    for (name, rows) in members().filter(|(name, value)| is_list_of_rows(name, value)) {
        let table = table(name, rows.as_array().map_or(&[][..], Vec::as_slice));
        if !(out.is_empty() || table.is_empty()) {
            out.push('\n');
        }
        out += &table;
    }
    match out.is_empty() {
        true => "done\n".to_owned(),
        false => out,
    }
}

/// For few rows with many columns: each figure on a line of its own.
pub(super) fn details(rows: &Value) -> String {
    let rows = rows.as_array().into_iter().flatten();
    let spelled = rows.map(|row| {
        let lines = names_in_order(row).into_iter().map(|name| {
            let value = plain(&row[name.as_str()]);
            format!("{name:<17} {value}\n")
        });
        lines.collect::<String>()
    });
    spelled.collect::<Vec<_>>().join("\n")
}

/// As it was understood: of 1.2.3.4/16, the whole network is meant.
pub(super) fn ban(answer: &Value) -> String {
    let (whom, ended) = (plain(&answer["whom"]), plain(&answer["ended"]));
    format!("{whom} is banned; sessions ended: {ended}\n")
}

/// Who is still here, and for how long.
pub(super) fn drain(answer: &Value, grace: Option<u64>) -> String {
    let peers = answer["peers"].as_u64().unwrap_or(0);
    let left = match (peers, grace) {
        (0, _) => "nobody is here".to_owned(),
        (_, None) => format!("peers here, who stay: {peers}"),
        (_, Some(seconds)) => {
            let left = units::span(seconds as f64);
            format!("peers here, who are told to go in {left}: {peers}")
        }
    };
    format!("no newcomers from now on; {left}\n")
}

/// What has changed, in the words of the log, and what is to be known beside.
pub(super) fn reload(answer: &Value) -> String {
    let mut out = format!("{}\n", plain(&answer["outcome"]));
    let warnings = answer["warnings"].as_array().into_iter().flatten();
    for warning in warnings {
        out += &format!("warning: {}\n", plain(warning));
    }
    if answer["unconfirmed"] == true {
        out +=
            "warning: a worker has not turned for two seconds, and takes its part when it does\n";
    }
    out
}

fn is_list_of_rows(name: &str, value: &Value) -> bool {
    let is_known = LISTS.iter().any(|(list, ..)| *list == name);
    let rows = value.as_array();
    rows.is_some_and(|rows| is_known || rows.iter().any(Value::is_object))
}

fn listed(value: &Value) -> String {
    match value.as_array() {
        Some(items) if items.is_empty() => "-".to_owned(),
        Some(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        None => plain(value),
    }
}

fn table(name: &str, rows: &[Value]) -> String {
    let known = LISTS.iter().find(|(list, ..)| *list == name);
    let Some((_, columns, nothing)) = known else {
        // Of another version, say.
        return details(&json!(rows));
    };
    if rows.is_empty() {
        return (*nothing).to_owned();
    }
    lines(*columns, rows).join("\n") + "\n"
}

fn names_in_order(row: &Value) -> Vec<&String> {
    let row = row.as_object().into_iter();
    let mut names: Vec<&String> = row.flat_map(|row| row.keys()).collect();
    let place = |name: &String| FIRST.iter().position(|first| first == name);
    names.sort_by_key(|name| place(name).unwrap_or(FIRST.len()));
    names
}

/// Lists by name: their columns, and what is said of one that is empty.
const LISTS: [(&str, &[Column], &str); 5] = [
    ("peers", &PEERS, "nobody is here\n"),
    ("targets", &TARGETS, "no backends\n"),
    ("bans", &BANS, "nobody is banned\n"),
    ("listeners", &LISTENERS, ""),
    ("recordings", &RECORDINGS, ""),
];

/// What one looks for first stands left. All there is to know of one peer, `ctl peer` tells.
pub(super) const PEERS: [Column; 11] = [
    Column::text("session", "session"),
    Column::text("address", "address"),
    Column::text("mode", "mode"),
    Column::figure("rtt ms", "rtt_ms", millis),
    Column::figure("loss %", "loss", percent),
    Column::figure("to backend", "to_backend_bytes", units::bytes),
    Column::figure("to peer", "to_peer_bytes", units::bytes),
    Column::figure("age", "age_s", units::age),
    Column::text("listener", "listener"),
    Column::text("target", "target"),
    Column::text("client id", "client_id"),
];

const TARGETS: [Column; 12] = [
    Column::text("backend", "backend"),
    Column::text("target", "target"),
    Column::either("state", "up", ["up", "down"]),
    // Checks find it gone before it counts as down.
    Column::figure("not there for", "failing_s", units::age),
    Column::text("why", "failing"),
    Column::either("drained", "draining", ["drained", "-"]),
    Column::either("leaving", "leaving", ["leaving", "-"]),
    Column::figure("addresses up", "addresses_up", whole),
    Column::figure("connections", "connections", whole),
    Column::figure("connects", "connects", whole),
    Column::figure("failures", "connect_failures", whole),
    Column::figure("last crash", "last_crash_s", ago),
];

const BANS: [Column; 2] = [
    Column::text("whom", "whom"),
    // One without an end lasts until the restart.
    Column::figure("time left", "seconds_left", units::span),
];

const LISTENERS: [Column; 11] = [
    Column::text("listener", "listener"),
    Column::text("protocol", "protocol"),
    Column::text("bind", "bind"),
    Column::either("leaving", "leaving", ["leaving", "-"]),
    Column::figure("peers", "peers", whole),
    Column::figure("max peers", "peers_max", whole),
    Column::figure("datagrams in", "datagrams_received", whole),
    Column::figure("out", "datagrams_sent", whole),
    Column::figure("messages to backend", "messages_to_backend", whole),
    Column::figure("to peers", "messages_to_peers", whole),
    Column::figure("refused", "refused", whole),
];

const RECORDINGS: [Column; 5] = [
    Column::text("recording", "file"),
    Column::either("messages", "content", ["decrypted", "-"]),
    Column::figure("sessions", "sessions", whole),
    Column::figure("size", "bytes", units::bytes),
    Column::text("ended by itself", "ended"),
];

pub(super) fn whole(figure: f64) -> String {
    format!("{figure:.0}")
}

fn ago(secs: f64) -> String {
    units::age(secs) + " ago"
}

fn tenths(figure: f64) -> String {
    format!("{figure:.1}")
}

/// On one machine a round trip takes hundredths.
fn millis(figure: f64) -> String {
    match figure {
        short if short < 1.0 => format!("{short:.2}"),
        _ => tenths(figure),
    }
}

fn percent(share: f64) -> String {
    tenths(100.0 * share)
}

/// What one looks for first; the rest follows in the order of the alphabet.
const FIRST: [&str; 16] = [
    "session",
    "listener",
    "backend",
    "target",
    "whom",
    "client_id",
    "address",
    "protocol",
    "bind",
    "age_s",
    "mode",
    "rtt_ms",
    "rtt_min_ms",
    "jitter_ms",
    "loss",
    "bad_mode",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_come_last_and_what_is_empty_says_so() {
        let answer = json!({
            "ok": true,
            "bans": [{"whom": "client 7", "seconds_left": null}, {"whom": "1.2.0.0/16", "seconds_left": 61}],
            "state": "serving",
            "full": [],
        });
        assert_eq!(
            readable(&answer),
            "full             -\n\
             state            serving\n\
             \n\
             whom        time left\n\
             client 7            -\n\
             1.2.0.0/16  1 min 1 s\n"
        );
        assert_eq!(
            readable(&json!({"ok": true, "peers": []})),
            "nobody is here\n"
        );
        assert_eq!(readable(&json!({"ok": true})), "done\n");
    }

    /// Whoever has a shell on the host and no page asks this first.
    #[test]
    fn a_target_that_is_not_there_says_since_when_and_why() {
        let up = json!({"backend": "game", "target": "tcp://a:1", "up": true, "failing": null});
        let down = json!({"backend": "game", "target": "tcp://b:2", "up": false, "failing_s": 20, "failing": "dns"});
        let told = readable(&json!({"ok": true, "targets": [up, down]}));
        let lines: Vec<_> = told
            .lines()
            .map(|line| {
                line.split_whitespace()
                    .take(6)
                    .collect::<Vec<_>>()
                    .join(" ")
            })
            .collect();
        assert_eq!(lines[0], "backend target state not there for", "{told}");
        assert_eq!(lines[1], "game tcp://a:1 up - - -", "{told}");
        assert_eq!(lines[2], "game tcp://b:2 down 20 s dns", "{told}");
    }

    #[test]
    fn a_short_round_trip_is_not_none() {
        let shown = [0.04, 0.96, 1.0, 12.34].map(millis);
        assert_eq!(shown, ["0.04", "0.96", "1.0", "12.3"]);
    }

    /// A list of a newer process is shown, if not as well.
    #[test]
    fn a_list_that_is_not_known_is_shown_in_full() {
        let answer = json!({"ok": true, "news": [{"b": 2, "a": 1}]});
        assert_eq!(
            readable(&answer),
            "a                 1\nb                 2\n"
        );
    }

    #[test]
    fn a_drain_says_who_is_still_here() {
        let told = |peers, grace| drain(&json!({"ok": true, "peers": peers}), grace);
        assert!(told(0, Some(5)).ends_with("nobody is here\n"));
        assert!(told(3, None).ends_with("who stay: 3\n"));
        assert!(told(3, Some(5)).ends_with("in 5 s: 3\n"));
    }

    #[test]
    fn a_reload_says_what_has_changed() {
        let answer = json!({"ok": true, "outcome": "nothing has changed", "added": []});
        assert_eq!(reload(&answer), "nothing has changed\n");
        let answer =
            json!({"outcome": "added: listener.b", "warnings": ["w"], "unconfirmed": true});
        let told = reload(&answer);
        assert!(
            told.starts_with("added: listener.b\nwarning: w\nwarning: a worker"),
            "{told}"
        );
    }
}
