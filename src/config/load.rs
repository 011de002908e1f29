//! From text, environment and flags to a [`Config`], and where each value came from.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

use super::file::File;
use super::mistake::{Excerpt, Mistake, Place, Refusal};
use super::resolve;
use super::secret::KeyFiles;
use super::{Config, Listener};

/// Everything that can say something about the configuration, weakest first.
#[derive(Clone, Debug, Default)]
pub struct Input {
    /// Name and text of the file.
    pub file: Option<(PathBuf, String)>,
    /// The process environment; only `TIDEGATE__...` is looked at.
    pub environment: Vec<(String, String)>,
    /// From flags.
    pub overrides: Vec<Override>,
    /// `$CREDENTIALS_DIRECTORY`.
    pub credentials: Option<PathBuf>,
    /// `$RUNTIME_DIRECTORY`.
    pub runtime_directory: Option<PathBuf>,
}

/// One value from a flag.
#[derive(Clone, Debug)]
pub struct Override {
    /// Keys from the outermost table inwards.
    pub path: Vec<String>,
    /// What it is set to.
    pub value: Value,
    /// The flag as typed, for errors.
    pub flag: String,
}

/// A configuration, and what it was made of.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// What runs.
    pub config: Config,
    /// Every value in force.
    pub effective: Vec<Effective>,
}

/// One value in force.
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
    /// The file.
    File,
    /// An environment variable.
    Environment(String),
    /// A flag.
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

/// Reads and checks everything. Either all of it is good, or nothing is put into force and every
/// mistake is told; only syntax and unknown keys end the search early.
pub fn load(input: &Input) -> Result<Loaded, Refusal> {
    let mut origins = Origins::default();
    let mut file = File::default();
    let mut table = Table::new();
    if let Some((name, text)) = &input.file {
        origins = Origins::of_file(name, text)?;
        file = toml::from_str(text).map_err(|error| origins.refuse(&error))?;
        table = toml::from_str(text).map_err(|error| origins.refuse(&error))?;
    }
    let mut mistakes = Vec::new();
    for (variable, value) in &input.environment {
        let Some(keys) = variable.strip_prefix(ENVIRONMENT_PREFIX) else {
            continue;
        };
        match apply_variable(&mut table, keys, value) {
            Ok((path, applied)) => {
                file = applied;
                origins.set(path, Source::Environment(variable.clone()));
            }
            Err((what, help)) => mistakes.push(Mistake {
                what,
                help,
                place: Place::Environment(variable.clone()),
            }),
        }
    }
    for set in &input.overrides {
        let path = set.path.join(".");
        let mut changed = table.clone();
        insert(&mut changed, &set.path, set.value.clone());
        match File::deserialize(changed.clone()) {
            Ok(applied) => {
                (file, table) = (applied, changed);
                origins.set(path, Source::Flag(set.flag.clone()));
            }
            Err(error) => {
                let (what, help) = in_words(error.message());
                mistakes.push(Mistake {
                    what: format!("{path}: {what}"),
                    help,
                    place: Place::Flag(set.flag.clone()),
                });
            }
        }
    }
    // Without what was refused, the rest would only be found incomplete.
    if mistakes
        .iter()
        .any(|mistake| matches!(mistake.place, Place::Flag(_)))
    {
        return Err(Refusal { mistakes });
    }
    let surroundings = resolve::Surroundings {
        key_files: KeyFiles {
            credentials: input.credentials.clone(),
            beside: directory_of(input.file.as_ref().map(|(name, _)| name.as_path())),
        },
        runtime_directory: input.runtime_directory.clone(),
        is_recording: false,
    };
    match resolve::resolve(&mut file, &origins, &surroundings) {
        Ok(mut config) if mistakes.is_empty() => {
            for listener in &mut config.listeners {
                listener.recorded = recorded(&file, &listener.name).into();
            }
            Ok(Loaded {
                config,
                effective: origins.effective(&file),
            })
        }
        Ok(_) => Err(Refusal { mistakes }),
        Err(more) => {
            mistakes.extend(more);
            // As one reads the file, from the top.
            mistakes.sort_by_key(|mistake| mistake.place.line());
            Err(Refusal { mistakes })
        }
    }
}

/// A listener and its backend as a file; see [`Listener::recorded`].
fn recorded(file: &File, name: &str) -> String {
    let mut alone = File {
        version: Some(1),
        ..File::default()
    };
    if let Some(listener) = file.listener.get(name) {
        let behind = listener.backend.clone().unwrap_or_default();
        let backend = file.backend.get(&behind).cloned();
        alone.listener.insert(name.to_owned(), listener.clone());
        alone
            .backend
            .extend(backend.map(|backend| (behind, backend)));
    }
    toml::to_string(&alone).unwrap_or_default()
}

/// The listener of a recording, from [`Listener::recorded`]. It has no keys: a replay needs none.
pub fn load_recorded(text: &str) -> Result<Listener, Refusal> {
    let origins = Origins::of_file(Path::new("recording"), text)?;
    let mut file: File = toml::from_str(text).map_err(|error| origins.refuse(&error))?;
    let surroundings = resolve::Surroundings {
        is_recording: true,
        ..resolve::Surroundings::default()
    };
    match resolve::resolve(&mut file, &origins, &surroundings) {
        Ok(mut config) if config.listeners.len() == 1 => Ok(config.listeners.remove(0)),
        Ok(_) => Err(Refusal {
            mistakes: vec![Mistake {
                what: "a recording has the rules of one listener".to_owned(),
                help: "was it made by tidegate?".to_owned(),
                place: Place::Nowhere,
            }],
        }),
        Err(mistakes) => Err(Refusal { mistakes }),
    }
}

const ENVIRONMENT_PREFIX: &str = "TIDEGATE__";

fn directory_of(file: Option<&Path>) -> PathBuf {
    match file.and_then(Path::parent) {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        Some(_) | None => PathBuf::from("."),
    }
}

/// Sets what `LISTENER__GAME__MAX_PEERS` stands for, if the result is still a configuration.
fn apply_variable(
    table: &mut Table,
    keys: &str,
    value: &str,
) -> Result<(String, File), (String, String)> {
    let path = variable_path(table, keys)?;
    let shown = path.join(".");
    // The text is taken for a number, a bool or a list where the key wants one, else as it is.
    let literal = format!("value = {value}")
        .parse::<Table>()
        .ok()
        .and_then(|mut parsed| parsed.remove("value").filter(|_| parsed.is_empty()))
        .filter(|value| !value.is_table());
    let mut problem = String::new();
    for candidate in literal.into_iter().chain([Value::String(value.to_owned())]) {
        let mut changed = table.clone();
        insert(&mut changed, &path, candidate);
        match File::deserialize(changed.clone()) {
            Ok(file) => {
                *table = changed;
                return Ok((shown, file));
            }
            Err(error) => problem = error.message().to_owned(),
        }
    }
    Err((
        format!("{shown} = {value:?}: {problem}"),
        "the part after TIDEGATE__ is a key of the file, with __ for each dot".to_owned(),
    ))
}

/// Names of listeners, backends and tunnels are matched without regard to case, and with `_` for
/// `-`, because variables cannot have either.
fn variable_path(table: &Table, keys: &str) -> Result<Vec<String>, (String, String)> {
    let mut path: Vec<String> = keys.split("__").map(str::to_lowercase).collect();
    if let [section @ ("listener" | "backend" | "tunnel"), name, ..] =
        &path.iter().map(String::as_str).collect::<Vec<_>>()[..]
    {
        let named = table.get(*section).and_then(Value::as_table);
        let names: Vec<&String> = named.into_iter().flat_map(|named| named.keys()).collect();
        let found = names
            .iter()
            .find(|known| known.to_lowercase().replace('-', "_") == *name);
        let Some(found) = found else {
            let known: Vec<_> = names
                .iter()
                .map(|name| format!("[{section}.{name}]"))
                .collect();
            let known = if known.is_empty() {
                "none".to_owned()
            } else {
                known.join(", ")
            };
            return Err((
                format!("there is no [{section}.{name}] to override"),
                format!("the file has: {known}"),
            ));
        };
        path[1] = (*found).clone();
    }
    Ok(path)
}

fn insert(table: &mut Table, path: &[String], value: Value) {
    let Some((last, parents)) = path.split_last() else {
        return;
    };
    let mut at = table;
    for key in parents {
        let entry = at
            .entry(key.clone())
            .or_insert_with(|| Value::Table(Table::new()));
        if !entry.is_table() {
            *entry = Value::Table(Table::new());
        }
        let Value::Table(inner) = entry else { return };
        at = inner;
    }
    at.insert(last.clone(), value);
}

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
    fn of_file(name: &Path, text: &str) -> Result<Self, Refusal> {
        let mut origins = Self {
            file: name.display().to_string(),
            text: text.to_owned(),
            ..Self::default()
        };
        let (document, errors) = DeTable::parse_recoverable(text);
        if !errors.is_empty() {
            return Err(Refusal {
                mistakes: errors.iter().map(|error| origins.explain(error)).collect(),
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

    fn set(&mut self, path: String, source: Source) {
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
        let inside = |known: &String| {
            known
                .strip_prefix(path)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('['))
        };
        if self.spans.keys().any(inside) {
            Source::File
        } else {
            Source::Default
        }
    }

    fn effective(&self, file: &File) -> Vec<Effective> {
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

    fn refuse(&self, error: &toml::de::Error) -> Refusal {
        Refusal {
            mistakes: vec![self.explain(error)],
        }
    }

    /// A syntax error or an unknown key, in the same words as every other mistake.
    fn explain(&self, error: &toml::de::Error) -> Mistake {
        let (what, help) = in_words(error.message());
        Mistake {
            what,
            help,
            place: match error.span() {
                Some(span) => Place::File(Excerpt::new(&self.file, &self.text, &span)),
                None => Place::Nowhere,
            },
        }
    }
}

/// What serde says, in the words of this program, and what to do about it.
fn in_words(message: &str) -> (String, String) {
    match message.split_once(", expected ") {
        Some((what, expected)) if what.starts_with("unknown field") => (
            what.replace("unknown field", "unknown key"),
            format!("the keys here are {}", strip_one_of(expected)),
        ),
        Some((what, expected)) if what.starts_with("unknown variant") => (
            what.replace("unknown variant", "unknown value"),
            format!("accepted are {}", strip_one_of(expected)),
        ),
        Some((what, "a sequence")) => (what.to_owned(), "write a list: [\"...\"]".to_owned()),
        Some((what, "nothing")) => (what.to_owned(), "delete it".to_owned()),
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
