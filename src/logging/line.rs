//! One line: fields in a stable order, as text or as JSON.

use std::fmt::{self, Write};
use std::time::{Duration, UNIX_EPOCH};

use humantime::Rfc3339Timestamp;
use tracing::Level;
use tracing::field::{Field, Visit};

use super::repeat::{HeldBack, Kind};

/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Text,
    Json,
}

/// What a reader of the log may rely on, in this order; other fields follow as they come.
const STABLE: [&str; 8] = [
    "listener",
    "peer",
    "session",
    "client_id",
    "backend",
    "target",
    "reason",
    "dur_s",
];

/// What a line can be about, other than its event. The configuration names these, or has names that stand
/// for them, but for `range`: a source that is banned, which happens to each at most once for as long as
/// its ban lasts.
const SUBJECTS: [&str; 7] = [
    "listener", "backend", "target", "address", "tunnel", "key", "range",
];

/// Events whose lines count something since the line before, and the field that does: what a line that is held back has
/// counted goes into the next one.
const COUNTS: [(&str, &str); 2] = [("cannot_send", "lost"), ("newcomers_refused", "refused")];

/// Bytes of one value. No field of ours is longer; an error text of the system might be.
const VALUE_BYTES_MAX: usize = 512;
/// Bytes of one line.
const LINE_BYTES_MAX: usize = 4096;

/// The fields of one event.
#[derive(Default)]
pub(super) struct Fields {
    event: String,
    message: String,
    others: Vec<(&'static str, Content)>,
}

enum Content {
    Text(String),
    /// As it stands, without quotes.
    Literal(String),
}

impl Fields {
    /// Stands for lines of this kind that were held back.
    pub(super) fn summary(kind: &Kind, held_back: HeldBack) -> Self {
        let mut fields = Self {
            event: kind.event.clone(),
            ..Self::default()
        };
        let text = |(name, value): &(_, String)| (*name, Content::Text(value.clone()));
        fields.others.extend(kind.subjects.iter().map(text));
        if !kind.reason.is_empty() {
            let reason = Content::Text(kind.reason.clone());
            fields.others.push(("reason", reason));
        }
        if let Some(name) = fields.counts() {
            fields.others.push((name, Content::Literal("0".to_owned())));
            fields.count_too(held_back.counted);
        }
        fields
    }

    /// The field that counts something, in the lines of this event.
    fn counts(&self) -> Option<&'static str> {
        let found = COUNTS.iter().find(|(event, _)| *event == self.event);
        found.map(|(_, name)| *name)
    }

    /// What it has counted since the line before.
    pub(super) fn counted(&self) -> u64 {
        let value = self.counts().and_then(|name| self.value(name));
        value.map_or(0, |value| value.parse().unwrap_or(0))
    }

    /// Takes over what a line before it has counted, and did not say.
    pub(super) fn count_too(&mut self, more: u64) {
        let sum = self.counted() + more;
        let name = self.counts();
        let mut others = self.others.iter_mut();
        if let Some((_, content)) = others.find(|(known, _)| Some(*known) == name) {
            *content = Content::Literal(sum.to_string());
        }
    }

    /// Says that lines were lost.
    pub(super) fn lost(count: u64) -> Self {
        Self {
            event: "log_lines_dropped".to_owned(),
            message: "standard error was not read fast enough, or could not be written".to_owned(),
            others: vec![("count", Content::Literal(count.to_string()))],
        }
    }

    /// What it is about.
    pub(super) fn event(&self) -> &str {
        if self.event.is_empty() {
            &self.message
        } else {
            &self.event
        }
    }

    /// What it has in common with lines that say the same.
    pub(super) fn kind(&self, level: Level) -> Kind {
        let subjects = SUBJECTS.iter().filter_map(|name| {
            let value = self.value(name)?;
            Some((*name, value.to_owned()))
        });
        Kind {
            event: self.event().to_owned(),
            reason: self.value("reason").unwrap_or_default().to_owned(),
            subjects: subjects.collect(),
            level,
        }
    }

    fn value(&self, name: &str) -> Option<&str> {
        let found = self.others.iter().find(|(known, _)| *known == name);
        found.map(|(_, content)| content.as_str())
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.others.iter().any(|(known, _)| *known == name)
    }

    /// The line, with its newline.
    pub(super) fn line(&self, style: Style, nanos: u64, level: Level, suppressed: u64) -> String {
        let mut line = String::with_capacity(256);
        // Writing to a String cannot fail.
        let written = match style {
            Style::Text => self.text(&mut line, nanos, level, suppressed),
            Style::Json => self.json(&mut line, nanos, level, suppressed),
        };
        debug_assert!(written.is_ok());
        line.push('\n');
        line
    }

    fn text(&self, line: &mut String, nanos: u64, level: Level, suppressed: u64) -> fmt::Result {
        write!(line, "{} {level:<5} {}", stamp(nanos), clean(self.event()))?;
        if !self.event.is_empty() && !self.message.is_empty() {
            write!(line, ": {}", clean(&self.message))?;
        }
        for (name, content) in self.ordered() {
            if line.len() > LINE_BYTES_MAX {
                break;
            }
            match content {
                Content::Text(text) if text.is_empty() || text.contains([' ', '"', '=']) => {
                    write!(line, " {name}={:?}", clean(text))?;
                }
                Content::Text(text) | Content::Literal(text) => {
                    write!(line, " {name}={}", clean(text))?;
                }
            }
        }
        if suppressed > 0 {
            write!(line, " suppressed={suppressed}")?;
        }
        Ok(())
    }

    fn json(&self, line: &mut String, nanos: u64, level: Level, suppressed: u64) -> fmt::Result {
        let level = level.as_str().to_ascii_lowercase();
        write!(
            line,
            "{{\"ts\":\"{}\",\"level\":\"{level}\",\"event\":",
            stamp(nanos)
        )?;
        quote(line, self.event())?;
        for (name, content) in self.ordered() {
            if line.len() > LINE_BYTES_MAX {
                break;
            }
            write!(line, ",\"{name}\":")?;
            match content {
                Content::Text(text) => quote(line, text)?,
                Content::Literal(text) => line.push_str(text),
            }
        }
        if suppressed > 0 {
            write!(line, ",\"suppressed\":{suppressed}")?;
        }
        if !self.event.is_empty() && !self.message.is_empty() {
            line.push_str(",\"msg\":");
            quote(line, &self.message)?;
        }
        line.push('}');
        Ok(())
    }

    fn ordered(&self) -> impl Iterator<Item = &(&'static str, Content)> {
        let stable = STABLE
            .iter()
            .filter_map(|name| self.others.iter().find(|(known, _)| known == name));
        let rest = self
            .others
            .iter()
            .filter(|(name, _)| !STABLE.contains(name));
        stable.chain(rest)
    }

    fn push(&mut self, field: &Field, content: Content) {
        match (field.name(), content) {
            ("event", Content::Text(text)) => self.event = text,
            ("message", Content::Text(text)) => self.message = text,
            (name, content) => self.others.push((name, content)),
        }
    }
}

impl Content {
    fn as_str(&self) -> &str {
        match self {
            Self::Text(text) | Self::Literal(text) => text,
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.push(field, Content::Text(shorten(format!("{value:?}"))));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.push(field, Content::Text(shorten(value.to_owned())));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        // Most readers of JSON keep 53 bits of a number, and ids have 64.
        let content = match field.name() {
            "client_id" => Content::Text(value.to_string()),
            _ => Content::Literal(value.to_string()),
        };
        self.push(field, content);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.push(field, Content::Literal(value.to_string()));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.push(field, Content::Literal(value.to_string()));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        // Microseconds are as fine as anything here; JSON has no word for infinity.
        let literal = if value.is_finite() {
            format!("{}", (value * 1e6).round() / 1e6)
        } else {
            "null".to_owned()
        };
        self.push(field, Content::Literal(literal));
    }
}

fn shorten(mut text: String) -> String {
    if text.len() > VALUE_BYTES_MAX {
        let end = (0..=VALUE_BYTES_MAX)
            .rev()
            .find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or(0));
        text.push('…');
    }
    text
}

/// Control characters could forge lines, or talk to the terminal.
fn clean(text: &str) -> String {
    let safe = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().map(safe).collect()
}

fn quote(line: &mut String, text: &str) -> fmt::Result {
    line.push('"');
    for c in text.chars() {
        match c {
            '"' => line.push_str("\\\""),
            '\\' => line.push_str("\\\\"),
            c if c.is_control() => write!(line, "\\u{:04x}", u32::from(c))?,
            c => line.push(c),
        }
    }
    line.push('"');
    Ok(())
}

/// RFC 3339 in UTC, with microseconds.
fn stamp(nanos: u64) -> Rfc3339Timestamp {
    humantime::format_rfc3339_micros(UNIX_EPOCH + Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_calendar_dates() {
        for (secs, expected) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_399, "2000-02-28T23:59:59.000000Z"),
            (951_782_400, "2000-02-29T00:00:00.000000Z"),
            (1_709_251_200, "2024-03-01T00:00:00.000000Z"),
            (4_102_444_800, "2100-01-01T00:00:00.000000Z"),
        ] {
            assert_eq!(stamp(secs * 1_000_000_000).to_string(), expected);
        }
        assert_eq!(
            stamp(1_234_567_891).to_string(),
            "1970-01-01T00:00:01.234567Z"
        );
    }

    /// A value may come from a peer or a backend; it is cut between two characters.
    #[test]
    fn no_value_is_longer_than_a_line_has_room_for() {
        let fits = "x".repeat(VALUE_BYTES_MAX);
        assert_eq!(shorten(fits.clone()), fits);
        let cut = shorten("é".repeat(VALUE_BYTES_MAX));
        let kept = VALUE_BYTES_MAX / 'é'.len_utf8();
        assert_eq!(cut, "é".repeat(kept) + "…");
    }

    #[test]
    fn no_value_breaks_the_line() {
        let mut fields = Fields::summary(
            &Kind {
                event: "event\nforged".to_owned(),
                reason: "quote \" and \\ and \u{1b}[2J".to_owned(),
                subjects: Vec::new(),
                level: Level::WARN,
            },
            HeldBack::default(),
        );
        fields
            .others
            .push(("nothing", Content::Text(String::new())));
        let text = fields.line(Style::Text, 0, Level::WARN, 3);
        assert_eq!(text.matches('\n').count(), 1);
        assert!(!text.contains('\u{1b}'));
        assert!(text.ends_with(" nothing=\"\" suppressed=3\n"));
        let json = fields.line(Style::Json, 0, Level::WARN, 0);
        assert_eq!(
            json,
            "{\"ts\":\"1970-01-01T00:00:00.000000Z\",\"level\":\"warn\",\
             \"event\":\"event\\u000aforged\",\
             \"reason\":\"quote \\\" and \\\\ and \\u001b[2J\",\"nothing\":\"\"}\n"
        );
    }
}
