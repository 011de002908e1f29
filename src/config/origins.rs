//! Who said what: where each value was typed, and where to point when it is wrong.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

use super::file::File;
use super::mistake::{Excerpt, Mistake, Place, Refusal, in_words};

/// Where values were typed.
#[derive(Debug, Default)]
pub(super) struct Origins {
    file: String,
    text: String,
    /// Spans of all keys of the file, by dotted path with `[n]` for list entries.
    spans: BTreeMap<String, Range<usize>>,
    /// What was said after the file.
    later: BTreeMap<String, Source>,
}

impl Origins {
    pub(super) fn of_file(name: &Path, text: &str) -> Result<Self, Refusal> {
        let mut origins = Self {
            file: name.display().to_string(),
            text: text.to_owned(),
            ..Self::default()
        };
        let (document, errors) = DeTable::parse_recoverable(text);
        if !errors.is_empty() {
            let first = errors.iter().take(SYNTAX_MAX);
            let mistakes = first.map(|error| origins.explain(error)).collect();
            return Err(Refusal {
                has_more: errors.len() > SYNTAX_MAX,
                ..Refusal::of_first(mistakes)
            });
        }
        origins.note_table("", document.get_ref());
        Ok(origins)
    }

    fn note_table(&mut self, prefix: &str, table: &DeTable<'_>) {
        for (key, value) in table.iter() {
            let path = if prefix.is_empty() {
                key.get_ref().to_string()
            } else {
                format!("{prefix}.{}", key.get_ref())
            };
            let span = match value.get_ref() {
                DeValue::Table(_) => key.span(),
                _ => value.span(),
            };
            self.note_value(path, span, value.get_ref());
        }
    }

    fn note_value(&mut self, path: String, span: Range<usize>, value: &DeValue<'_>) {
        if let DeValue::Table(inner) = value {
            self.note_table(&path, inner);
        } else if let DeValue::Array(entries) = value {
            for (index, entry) in entries.iter().enumerate() {
                self.note_value(format!("{path}[{index}]"), entry.span(), entry.get_ref());
            }
        }
        self.spans.insert(path, span);
    }

    pub(super) fn set(&mut self, path: String, source: Source) {
        self.later.insert(path, source);
    }

    /// The nearest place to `path` that was typed: itself, or the table it belongs into.
    pub(super) fn place(&self, path: &str) -> Place {
        let mut path = path;
        loop {
            match self.later.get(path) {
                Some(Source::Environment(variable)) => return Place::Environment(variable.clone()),
                Some(Source::Flag(flag)) => return Place::Flag(flag.clone()),
                Some(Source::Default | Source::File) | None => {}
            }
            if let Some(span) = self.spans.get(path) {
                return Place::File(Excerpt::new(&self.file, &self.text, span));
            }
            match path.rfind(['.', '[']) {
                Some(at) => path = &path[..at],
                None => return Place::Nowhere,
            }
        }
    }

    fn source(&self, path: &str) -> Source {
        let mut at = Some(path);
        while let Some(path) = at {
            if let Some(source) = self.later.get(path) {
                return source.clone();
            }
            at = path.rfind('.').map(|end| &path[..end]);
        }
        if self.spans.contains_key(path) {
            Source::File
        } else {
            Source::Default
        }
    }

    pub(super) fn effective(&self, file: &File) -> Vec<Effective> {
        let mut values = Vec::new();
        if let Ok(table) = Table::try_from(file) {
            self.flatten("", &table, &mut values);
        }
        values
    }

    fn flatten(&self, prefix: &str, table: &Table, values: &mut Vec<Effective>) {
        for (key, value) in table {
            let path = if prefix.is_empty() {
                key.clone()
            } else {
                format!("{prefix}.{key}")
            };
            match value {
                Value::Table(inner) => self.flatten(&path, inner, values),
                _ => values.push(Effective {
                    source: self.source(&path),
                    value: value.to_string(),
                    path,
                }),
            }
        }
    }

    pub(super) fn refuse(&self, error: &toml::de::Error) -> Refusal {
        Refusal::of_first(vec![self.explain(error)])
    }

    /// A syntax error or an unknown key, in the same words as every other mistake.
    pub(super) fn explain(&self, error: &toml::de::Error) -> Mistake {
        let (what, help) = in_words(error.message());
        Mistake {
            what,
            help,
            place: match error.span() {
                Some(span) => self.place_of(&span),
                None => Place::Nowhere,
            },
        }
    }

    /// What stands there in the file, in one line.
    pub(super) fn typed(&self, span: &Range<usize>) -> &str {
        self.text[span.clone()].lines().next().unwrap_or_default()
    }

    /// Where that is.
    pub(super) fn place_of(&self, span: &Range<usize>) -> Place {
        Place::File(Excerpt::new(&self.file, &self.text, span))
    }
}

/// Mistakes that are told of a file that is no TOML. A bracket that is left out makes three of each line behind it, so the
/// first one says most.
const SYNTAX_MAX: usize = 12;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effective {
    /// `listener.game.max_peers`
    pub path: String,
    /// As one would type it.
    pub value: String,
    /// Who said so.
    pub source: Source,
}

/// Who set a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Nobody.
    Default,
    File,
    Environment(String),
    Flag(String),
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File => f.write_str("file"),
            Self::Environment(variable) => write!(f, "environment {variable}"),
            Self::Flag(flag) => write!(f, "flag {flag}"),
        }
    }
}
