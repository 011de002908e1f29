//! What is wrong with a configuration: where, with what value, and what to write instead.

use std::fmt::{self, Write as _};
use std::ops::Range;

use super::elsewhere::elsewhere;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// What happened, with key and value: `listener.game.max_peers = 0 is too small`.
    pub what: String,
    pub help: String,
    pub place: Place,
}

/// Where something was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    File(Excerpt),
    Environment(String),
    Flag(String),
    /// Nowhere: it is missing altogether.
    Nowhere,
}

impl Place {
    /// The line of the file; 0 for what is not in it.
    pub fn line(&self) -> usize {
        match self {
            Self::File(excerpt) => excerpt.line,
            Self::Environment(_) | Self::Flag(_) | Self::Nowhere => 0,
        }
    }
}

/// A line of the file, with the part that matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    file: String,
    line: usize,
    column: usize,
    /// What is shown of the line.
    text: String,
    /// Characters of it before the part that matters.
    indent: usize,
    width: usize,
}

impl Excerpt {
    /// The first line of `span` in `text`, which was read from `file`.
    pub(super) fn new(file: &str, text: &str, span: &Range<usize>) -> Self {
        let start = floor_char(text, span.start);
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let end = floor_char(text, span.end.min(line_end)).max(start);
        let (before, after) = (&text[line_start..start], &text[start..line_end]);
        let (shown, indent) = shorten(before, after);
        let shown_after = shown.chars().count().saturating_sub(indent);
        Self {
            file: file.to_owned(),
            line: text[..start].matches('\n').count() + 1,
            column: before.chars().count() + 1,
            width: text[start..end].chars().take(shown_after).count().max(1),
            text: shown,
            indent,
        }
    }
}

/// What is shown of a line, and how many characters of that stand before the part that matters. A file of another program
/// may be one line of megabytes with mistakes all along.
fn shorten(before: &str, after: &str) -> (String, usize) {
    let is_short = before.chars().chain(after.chars()).nth(SHOWN_MAX).is_none();
    if is_short {
        let whole = format!("{before}{after}");
        return (whole.trim_end().to_owned(), before.chars().count());
    }
    let from = before.char_indices().rev().nth(BEFORE_MAX - 1);
    let from = from.map_or(0, |(at, _)| at);
    let to = after.char_indices().nth(SHOWN_MAX - BEFORE_MAX);
    let to = to.map_or(after.len(), |(at, _)| at);
    let left_out = |is: bool| if is { "…" } else { "" };
    let before = format!("{}{}", left_out(from > 0), &before[from..]);
    let (indent, rest) = (before.chars().count(), left_out(to < after.len()));
    (format!("{before}{}{rest}", &after[..to]), indent)
}

/// Characters of a line that are shown at most, and of those, before the part that matters.
const SHOWN_MAX: usize = 200;
const BEFORE_MAX: usize = 80;

impl Excerpt {
    /// File, line and column, counted from 1.
    pub fn position(&self) -> (&str, usize, usize) {
        (&self.file, self.line, self.column)
    }
}

fn floor_char(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at)
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0)
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let margin = " ".repeat(self.line.to_string().len());
        writeln!(f, "{margin}--> {}:{}:{}", self.file, self.line, self.column)?;
        writeln!(f, "{margin} |")?;
        writeln!(f, "{} | {}", self.line, Printable(&self.text))?;
        let indent = " ".repeat(self.indent);
        writeln!(f, "{margin} | {indent}{}", "^".repeat(self.width))
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "error: {}", Printable(&self.what))?;
        match &self.place {
            Place::File(excerpt) => write!(f, "{excerpt}")?,
            Place::Environment(variable) => writeln!(f, " --> environment variable {variable}")?,
            Place::Flag(flag) => writeln!(f, " --> {flag}")?,
            Place::Nowhere => {}
        }
        write!(f, " help: {}", Printable(&self.help))
    }
}

/// Text with a mark for each character that a terminal would obey: a file that is checked may be somebody else's.
struct Printable<'a>(&'a str);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|it| {
            f.write_char(match it.is_control() && !matches!(it, '\t' | '\n') {
                true => char::REPLACEMENT_CHARACTER,
                false => it,
            })
        })
    }
}

/// What is wrong with one configuration. Nothing of it was put into force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// At least one.
    pub mistakes: Vec<Mistake>,
    /// These ended the search: what is missing, and what the values say together, was not looked at, and may have mistakes
    /// of its own.
    pub is_partial: bool,
    /// There are more, which were not counted.
    pub has_more: bool,
}

/// Mistakes that are told at most. To find the line of one takes a look through the file, and a list of networks may have a
/// hundred thousand of the same kind.
pub(super) const MISTAKES_MAX: usize = 100;

impl Refusal {
    /// With every mistake there is.
    pub fn of_all(mistakes: Vec<Mistake>) -> Self {
        Self {
            mistakes,
            is_partial: false,
            has_more: false,
        }
    }

    /// With those that keep the rest from being looked at.
    pub fn of_first(mistakes: Vec<Mistake>) -> Self {
        Self {
            mistakes,
            is_partial: true,
            has_more: false,
        }
    }

    /// All of it on one line, for the log.
    pub fn brief(&self) -> String {
        let mistakes = self.mistakes.iter().map(|mistake| {
            let place = match &mistake.place {
                Place::File(excerpt) => {
                    let (file, line, column) = excerpt.position();
                    format!("{file}:{line}:{column}: ")
                }
                Place::Environment(variable) => format!("{variable}: "),
                Place::Flag(flag) => format!("{flag}: "),
                Place::Nowhere => String::new(),
            };
            format!("{place}{}; help: {}", mistake.what, mistake.help)
        });
        mistakes.collect::<Vec<_>>().join("; ").replace('\n', " ")
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for mistake in &self.mistakes {
            writeln!(f, "{mistake}\n")?;
        }
        match self.mistakes.len() {
            1 => write!(f, "configuration refused: 1 mistake")?,
            count if self.has_more => {
                write!(f, "configuration refused: more than {count} mistakes")?;
            }
            count => write!(f, "configuration refused: {count} mistakes")?,
        }
        match self.is_partial {
            true => write!(f, "; the rest is checked once that is mended"),
            false => Ok(()),
        }
    }
}

impl std::error::Error for Refusal {}

/// To somebody who wrote something else.
pub(super) const HEALTH_IS_A_TABLE: &str =
    "this is a table: write { kind = \"off\" } or { kind = \"connect\" }";
pub(super) const IS_A_TABLE: &str =
    "this is a table, and has keys of its own: see the reference, config/tidegate.toml";

/// What serde says, in the words of this program, and what to do about it.
pub(super) fn in_words(message: &str) -> (String, String) {
    match message.split_once(", expected ") {
        Some((what, expected)) if what.starts_with("unknown field") => {
            let key = what.split('`').nth(1).unwrap_or_default();
            (
                what.replace("unknown field", "unknown key"),
                format!(
                    "the keys here are {}{}",
                    strip_one_of(expected),
                    elsewhere(key)
                ),
            )
        }
        Some((what, expected)) if what.starts_with("unknown variant") => (
            what.replace("unknown variant", "unknown value"),
            format!("accepted are {}", strip_one_of(expected)),
        ),
        Some((what, "a sequence")) => (what.to_owned(), "write a list: [\"...\"]".to_owned()),
        Some((what, "a list of two")) => (what.to_owned(), "write a list of two".to_owned()),
        Some((what, "i64")) => (
            what.to_owned(),
            "write a whole number, without quotes".to_owned(),
        ),
        Some((what, "a string")) => (what.to_owned(), "write it in quotes".to_owned()),
        Some((what, "nothing")) => (what.to_owned(), "delete it".to_owned()),
        Some((what, "struct Health")) => (what.to_owned(), HEALTH_IS_A_TABLE.to_owned()),
        Some((what, "struct Bucket")) => (
            what.to_owned(),
            "this is a table: write { rate = 200, burst = 400 }, with your own figures".to_owned(),
        ),
        Some((what, expected)) if expected.starts_with("struct ") => {
            (what.to_owned(), IS_A_TABLE.to_owned())
        }
        Some((what, expected)) => (what.to_owned(), format!("expected {expected}")),
        None if message == "duplicate key" => (
            message.to_owned(),
            "every key and every table stands once; choose another name or join them".to_owned(),
        ),
        None => (
            message.to_owned(),
            "see the reference, config/tidegate.toml".to_owned(),
        ),
    }
}

fn strip_one_of(expected: &str) -> &str {
    expected.strip_prefix("one of ").unwrap_or(expected)
}
