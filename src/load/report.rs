//! What came of it, for people and for programs.

use std::fmt::Write;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};
use tidegate_proto::CloseReason;

use super::tally::Messages;
use super::{Cost, Phase, Tally};

/// Above the lines of progress.
pub fn heading() -> &'static str {
    "  time  phase    clients    sent/s    back/s    p50 ms    p99 ms    max ms    wrong"
}

/// A line of progress: what happened in `span` since `before`.
pub fn line(
    elapsed: Duration,
    span: Duration,
    phase: Phase,
    before: &Tally,
    now: &Tally,
) -> String {
    let per_second = |now: u64, before: u64| (now - before) as f64 / span.as_secs_f64().max(1e-3);
    let sent = |tally: &Tally| tally.reliable.sent + tally.unreliable.sent;
    let back = |tally: &Tally| tally.reliable.back + tally.unreliable.back;
    format!(
        "{:>4} s  {:<7}{:>9}{:>10.0}{:>10.0}{:>10.1}{:>10.1}{:>10.1}{:>9}",
        elapsed.as_secs(),
        phase.label(),
        now.connected,
        per_second(sent(now), sent(before)),
        per_second(back(now), back(before)),
        millis(&now.round_trip, 0.5),
        millis(&now.round_trip, 0.99),
        millis(&now.round_trip, 1.0),
        now.harmed(),
    )
}

/// The line of progress as an object.
pub fn line_json(elapsed: Duration, phase: Phase, now: &Tally) -> Value {
    json!({
        "event": "progress",
        "elapsed_s": elapsed.as_secs_f64(),
        "phase": phase.label(),
        "connected": now.connected,
        "sent": now.reliable.sent + now.unreliable.sent,
        "back": now.reliable.back + now.unreliable.back,
        "wrong": now.wrong,
        "round_trip_ms": quantiles(&now.round_trip),
    })
}

/// Everything, at the end.
#[derive(Clone, Copy, Debug)]
pub struct Summary<'a> {
    pub tally: &'a Tally,
    pub cost: Cost,
    pub clients: usize,
    /// How long messages were sent.
    pub duration: Duration,
    /// Whether what was sent should have come back.
    pub echoed: bool,
}

/// Text in two columns: what, and what of it.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn say(&mut self, name: &str, text: String) {
        // Writing to a String cannot fail.
        writeln!(self.0, "{name:<13}{text}").ok();
    }
}

impl Summary<'_> {
    /// Everybody was in until the end.
    pub fn is_connected(&self) -> bool {
        self.tally.failed() == 0 && self.tally.ever_connected == self.clients as u64
    }

    /// What came back is what was sent, and all of it.
    pub fn is_content_good(&self) -> bool {
        self.tally.is_content_good() && (self.tally.ever_connected == 0 || self.says_something())
    }

    /// A run in which nothing came back proves nothing.
    fn says_something(&self) -> bool {
        !self.echoed || self.tally.reliable.back + self.tally.unreliable.back > 0
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut lines = Lines::default();
        self.tell_clients(&mut lines);
        self.tell_messages(&mut lines);
        self.tell_content(&mut lines);
        lines.say("datagrams", self.datagrams());
        lines.say("load itself", self.itself());
        lines.0
    }

    fn tell_clients(&self, lines: &mut Lines) {
        let tally = self.tally;
        let handshakes = match tally.ever_connected {
            0 => String::new(),
            _ => format!("; handshakes took {}", spread(&tally.handshake)),
        };
        lines.say(
            "clients",
            format!(
                "{} of {} connected{handshakes}",
                tally.ever_connected, self.clients
            ),
        );
        for (count, reason, words) in self.failures() {
            lines.say("", format!("{count} {words} ({})", reason.label()));
        }
        if tally.redials > 0 {
            let times = tally.redials;
            lines.say(
                "",
                format!("{times} further tries, of clients that were denied or had no answer"),
            );
        }
    }

    fn tell_messages(&self, lines: &mut Lines) {
        let tally = self.tally;
        for (name, messages) in [
            ("reliable", tally.reliable),
            ("unreliable", tally.unreliable),
        ] {
            if messages.sent > 0 {
                lines.say(name, self.messages(messages));
            }
        }
        let (unsent, due) = (tally.unsent(), tally.due);
        if unsent > 0 {
            lines.say(
                "",
                format!(
                    "{unsent} of {due} that were due were not sent: sessions took no more, or had \
                     ended"
                ),
            );
        }
    }

    fn tell_content(&self, lines: &mut Lines) {
        let tally = self.tally;
        if tally.ever_connected == 0 {
            return;
        }
        if self.echoed {
            let content = match (tally.wrong, self.says_something()) {
                (0, true) => "every byte that came back is right".to_owned(),
                (0, false) => "nothing came back: does the backend echo?".to_owned(),
                (wrong, _) => format!("{wrong} messages came back damaged, or were never sent"),
            };
            lines.say("content", content);
            let times = spread(&tally.round_trip);
            lines.say(
                "round trip",
                format!("{times}, from the time a message was due"),
            );
        } else if tally.unasked > 0 {
            lines.say(
                "",
                format!("{} messages came, and were not looked at", tally.unasked),
            );
        }
    }

    fn messages(&self, messages: Messages) -> String {
        let Messages {
            sent,
            back,
            missing,
            out_of_order,
            duplicated,
        } = messages;
        let rate = sent as f64 / self.duration.as_secs_f64().max(1e-3);
        if !self.echoed {
            return format!("{sent} sent, {rate:.0} a second");
        }
        format!(
            "{sent} sent, {rate:.0} a second; {back} back, {missing} missing, {out_of_order} out of \
             order, {duplicated} twice"
        )
    }

    fn datagrams(&self) -> String {
        let tally = self.tally;
        let overrun = match tally.overrun {
            0 => String::new(),
            count => format!(
                "; {count} more were dropped here by the kernel, because load itself was too slow"
            ),
        };
        format!(
            "{} sent, {} received{overrun}; {} messages sent again, {} ahead of a loss",
            tally.datagrams_sent,
            tally.datagrams_received,
            tally.stats.messages_resent,
            tally.stats.messages_repeated,
        )
    }

    fn itself(&self) -> String {
        let late = millis(&self.tally.lateness, 0.99);
        let advice = if late > LATE_MS {
            ": round trips above are partly its own, so use more --threads, fewer clients or a quieter machine"
        } else {
            ""
        };
        format!(
            "{:.2} cores, {} MiB; 99 % of the messages left within {late:.1} ms of their time{advice}",
            self.cost.cores,
            self.cost.resident_bytes >> 20,
        )
    }

    fn failures(&self) -> impl Iterator<Item = (u64, CloseReason, &'static str)> {
        let refused = self.tally.refused.iter();
        let ended = self.tally.ended.iter();
        let refused = refused.map(|(reason, count)| (*count, *reason, why_refused(*reason)));
        refused.chain(ended.map(|(reason, count)| (*count, *reason, why_ended(*reason))))
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let tally = self.tally;
        let messages = |messages: Messages| {
            json!({
                "sent": messages.sent,
                "back": messages.back,
                "missing": messages.missing,
                "out_of_order": messages.out_of_order,
                "duplicated": messages.duplicated,
            })
        };
        let by_reason = |reasons: &std::collections::BTreeMap<CloseReason, u64>| {
            let pairs = reasons.iter();
            let pairs = pairs.map(|(reason, count)| (reason.label().to_owned(), json!(count)));
            pairs.collect::<Map<_, _>>()
        };
        json!({
            "event": "result",
            "ok": self.is_connected() && self.is_content_good(),
            "clients": self.clients,
            "connected": tally.ever_connected,
            "refused": by_reason(&tally.refused),
            "ended": by_reason(&tally.ended),
            "redials": tally.redials,
            "duration_s": self.duration.as_secs_f64(),
            "due": tally.due,
            "unsent": tally.unsent(),
            "reliable": messages(tally.reliable),
            "unreliable": messages(tally.unreliable),
            "wrong": tally.wrong,
            "unasked": tally.unasked,
            "round_trip_ms": quantiles(&tally.round_trip),
            "handshake_ms": quantiles(&tally.handshake),
            "own_lateness_ms": quantiles(&tally.lateness),
            "datagrams_sent": tally.datagrams_sent,
            "datagrams_received": tally.datagrams_received,
            "datagrams_overrun": tally.overrun,
            "messages_resent": tally.stats.messages_resent,
            "messages_repeated": tally.stats.messages_repeated,
            "cores": self.cost.cores,
            "resident_bytes": self.cost.resident_bytes,
        })
    }
}

/// What a client that did not get in can know about it, and where to look.
const fn why_refused(reason: CloseReason) -> &'static str {
    match reason {
        CloseReason::Denied => {
            "were denied: the server is full (max_peers of its listener, runtime.max_peers of the whole \
             process, 4096 unless set, or its open files, LimitNOFILE; its log has the one that was met), it is \
             draining, or its backend cannot be reached"
        }
        CloseReason::TokenExpired => "had a token that ran out before the server answered",
        CloseReason::ConnectTimeout => {
            "had no answer: nobody is there, or it is silent on purpose (a token of another key, \
             protocol id or public address, see `tidegate token inspect`; a clock that is wrong, here or \
             there; it began less than max_token_lifetime ago; more handshakes from one address than \
             limits.ip_handshakes; a source that is not allowed)"
        }
        _ => "did not get in",
    }
}

/// What a client that was in can know about why it is not any more, and where to look.
const fn why_ended(reason: CloseReason) -> &'static str {
    match reason {
        CloseReason::PeerDisconnect => "were put out by the server, whose log says why",
        CloseReason::PeerTimeout => "heard nothing from the server any more",
        CloseReason::PeerStalled | CloseReason::PeerGapStall => {
            "had a session that no longer moved: the server stopped taking, or sending"
        }
        CloseReason::ProtocolViolation => {
            "could not read what the server sent: compare the layouts, `tidegate check` prints them"
        }
        _ => "were out before the end",
    }
}

/// Above this, round trips are not the server's alone.
const LATE_MS: f64 = 5.0;

fn millis(histogram: &Histogram<u64>, quantile: f64) -> f64 {
    histogram.value_at_quantile(quantile) as f64 / 1000.0
}

const QUANTILES: [(&str, f64); 6] = [
    ("p50", 0.5),
    ("p90", 0.9),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
    ("max", 1.0),
];

fn spread(histogram: &Histogram<u64>) -> String {
    if histogram.is_empty() {
        return "no time that could be measured".to_owned();
    }
    let parts: Vec<_> = QUANTILES
        .iter()
        .map(|(name, quantile)| format!("{name} {:.1}", millis(histogram, *quantile)))
        .collect();
    format!("{} ms", parts.join("  "))
}

fn quantiles(histogram: &Histogram<u64>) -> Value {
    if histogram.is_empty() {
        return Value::Null;
    }
    let pairs = QUANTILES.iter();
    let pairs =
        pairs.map(|(name, quantile)| ((*name).to_owned(), json!(millis(histogram, *quantile))));
    Value::Object(pairs.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody denied anything: nobody was there.
    #[test]
    fn who_heard_nothing_is_not_said_to_have_been_denied() {
        let tally = Tally {
            refused: [(CloseReason::ConnectTimeout, 3)].into(),
            redials: 3,
            ..Tally::default()
        };
        let summary = Summary {
            tally: &tally,
            cost: Cost::default(),
            clients: 3,
            duration: Duration::from_secs(1),
            echoed: true,
        };
        let text = summary.text();
        assert!(text.contains("3 further tries, of clients that were denied or had no answer"));
        assert!(!text.contains("was denied"), "{text}");
    }
}
