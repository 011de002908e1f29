//! What was said on top of what: the file, then variables, then flags. After each of them the whole
//! must still be a configuration; what would break it is refused and told.

use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use toml::de::{DeTable, DeValue, Deserializer};
use toml::{Spanned, Table, Value};

use super::file::File;
use super::mistake::{HEALTH_IS_A_TABLE, IS_A_TABLE, Mistake, Place, Refusal, in_words};
use super::origins::{Origins, Source};

/// Everything said so far.
#[derive(Default)]
pub(super) struct Layers {
    /// All layers taken together.
    pub(super) file: File,
    /// All layers together as they were typed: without defaults.
    table: Table,
    pub(super) origins: Origins,
    /// Why something was taken out of the file.
    pub(super) taken_out: Vec<Mistake>,
    /// Mistakes in what was said on top of it.
    pub(super) mistakes: Vec<Mistake>,
}

impl Layers {
    /// The lowest one. Where nothing can be made of it, nothing else would make sense, so its mistakes end the search.
    pub(super) fn of_file(name: &Path, text: &str) -> Result<Self, Refusal> {
        let origins = Origins::of_file(name, text)?;
        let mut document = DeTable::parse(text).map_err(|error| origins.refuse(&error))?;
        let (file, taken_out) = read(&origins, &mut document)?;
        let rest = Table::deserialize(Deserializer::from(document));
        Ok(Self {
            file,
            table: rest.map_err(|error| origins.refuse(&error))?,
            origins,
            taken_out,
            mistakes: Vec::new(),
        })
    }

    /// A variable of the environment, if it is one of ours.
    pub(super) fn add_variable(&mut self, variable: &str, value: &str) {
        if let Some(keys) = variable.strip_prefix(ENVIRONMENT_PREFIX) {
            self.add_variable_for(variable, keys, value);
        }
    }

    /// One that has a name of its own. It goes before the long one, as the flag does that it stands for.
    pub(super) fn add_short_variable(&mut self, variable: &str, value: &str) {
        let mut short = SHORT_VARIABLES.iter();
        if let Some((_, keys)) = short.find(|(name, _)| *name == variable) {
            self.add_variable_for(variable, keys, value);
        }
    }

    fn add_variable_for(&mut self, variable: &str, keys: &str, value: &str) {
        match self.set_by_variable(keys, value) {
            Ok(path) => self
                .origins
                .set(path, Source::Environment(variable.to_owned())),
            Err((what, help)) => self.mistakes.push(Mistake {
                what,
                help,
                place: Place::Environment(variable.to_owned()),
            }),
        }
    }

    /// What a flag, as typed, says about the key at `path`.
    pub(super) fn add_flag(&mut self, flag: &str, path: &[String], value: &Value) {
        let shown = path.join(".");
        match self.set(path, value.clone()) {
            Ok(()) => self.origins.set(shown, Source::Flag(flag.to_owned())),
            Err(error) => {
                let (what, help) = in_words(error.message());
                self.mistakes.push(Mistake {
                    what: format!("{shown}: {what}"),
                    help,
                    place: Place::Flag(flag.to_owned()),
                });
            }
        }
    }

    /// Sets what `LISTENER__GAME__MAX_PEERS` stands for; returns its path, or what is wrong with it
    /// and what to do.
    fn set_by_variable(&mut self, keys: &str, value: &str) -> Result<String, (String, String)> {
        let path = variable_path(&self.table, keys)?;
        let shown = path.join(".");
        // The text is taken for a number, a bool or a list where the key wants one, else as it is.
        let literal = format!("value = {value}")
            .parse::<Table>()
            .ok()
            .and_then(|mut parsed| parsed.remove("value").filter(|_| parsed.is_empty()))
            .filter(|value| value.as_table().is_none_or(is_limit));
        let mut problem = (String::new(), String::new());
        for candidate in literal.into_iter().chain([Value::String(value.to_owned())]) {
            match self.set(&path, candidate) {
                Ok(()) => return Ok(shown),
                // Of the same value as text, something else is wrong.
                Err(_) if problem.0.starts_with(MISSING) => {}
                Err(error) => problem = in_words(error.message()),
            }
        }
        let (what, mut help) = problem;
        if what.starts_with(MISSING)
            && let Some((limit, _)) = keys.rsplit_once("__")
        {
            help = format!(
                "a limit's two figures are set together: \
                 {ENVIRONMENT_PREFIX}{limit}='{{ rate = 200, burst = 400 }}'"
            );
        }
        let example = match help.as_str() {
            HEALTH_IS_A_TABLE => Some("KIND=off"),
            IS_A_TABLE => Some("KEY=..."),
            _ => None,
        };
        if let Some(example) = example {
            help = format!(
                "this is a table, and each of its keys is a variable of its own: \
                 {ENVIRONMENT_PREFIX}{keys}__{example}"
            );
        }
        if what.starts_with("unknown key") {
            help = format!(
                "the part after TIDEGATE__ is a key of the file, with __ for each dot; {help}"
            );
        }
        Err((format!("{shown} = {value:?}: {what}"), help))
    }

    fn set(&mut self, path: &[String], value: Value) -> Result<(), toml::de::Error> {
        let mut changed = self.table.clone();
        insert(&mut changed, path, value);
        self.file = File::deserialize(changed.clone())?;
        self.table = changed;
        Ok(())
    }
}

/// The file, without what is unknown in it, and what that was. Each unknown key, and each value of another kind than
/// belongs there, is a mistake; it is taken out of the document, and the rest is read again, so that all of them are told
/// at once.
fn read(
    origins: &Origins,
    document: &mut Spanned<DeTable<'_>>,
) -> Result<(File, Vec<Mistake>), Refusal> {
    let mut mistakes = take_out_nameless(origins, document.get_mut());
    let mut has_more = false;
    for reading in 0..=READINGS_MAX {
        let error = match File::deserialize(Deserializer::from(document.clone())) {
            Ok(file) => return Ok((file, mistakes)),
            Err(error) => error,
        };
        // What is missing now may only have been taken out.
        let is_mistake = mistakes.is_empty() || !error.message().starts_with(MISSING);
        if reading == READINGS_MAX {
            has_more = is_mistake;
            break;
        }
        // As a wrong word it is refused by naming the right ones.
        if error.message() == NO_WORD
            && let Some(span) = error.span()
            && let Some(value) = values(document.get_mut()).find_map(|it| value_at(it, &span))
        {
            *value = DeValue::String(origins.typed(&span).to_owned().into());
            continue;
        }
        if is_mistake {
            mistakes.push(origins.explain(&error));
            // The inner table of `[outer.inner]` is taken out first, and the outer one is as unknown as before.
            mistakes.dedup();
        }
        let span = error.span();
        if !span.is_some_and(|span| take_out(document.get_mut(), &span)) {
            break;
        }
    }
    mistakes.sort_by_key(|mistake| mistake.place.line());
    Err(Refusal {
        has_more,
        ..Refusal::of_first(mistakes)
    })
}

/// What serde says of a number or a bool where it wants one of a few words.
const NO_WORD: &str = "wanted string or table";

/// The value that stands at `span`.
fn value_at<'d, 'i>(
    value: &'d mut Spanned<DeValue<'i>>,
    span: &Range<usize>,
) -> Option<&'d mut DeValue<'i>> {
    let is_it = value.span() == *span;
    match value.get_mut() {
        it if is_it => Some(it),
        DeValue::Table(inner) => values(inner).find_map(|inner| value_at(inner, span)),
        DeValue::Array(entries) => entries.iter_mut().find_map(|entry| value_at(entry, span)),
        _ => None,
    }
}

fn values<'d, 'i>(
    table: &'d mut DeTable<'i>,
) -> impl Iterator<Item = &'d mut Spanned<DeValue<'i>>> {
    table.iter_mut().map(|(_, value)| value)
}

/// Each finds a mistake. With so many, the file is most likely another program's.
const READINGS_MAX: usize = 100;

/// Listeners, backends and tunnels without a name, as other programs have them: `[listener]`, `[[listener]]`. Their keys
/// would be taken for names, and what is told of those leads astray.
fn take_out_nameless(origins: &Origins, document: &mut DeTable<'_>) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    for kind in ["listener", "backend", "tunnel"] {
        let Some(found) = document.get(kind) else {
            continue;
        };
        let is_table = |value: &Spanned<DeValue<'_>>| matches!(value.get_ref(), DeValue::Table(_));
        let span = match found.get_ref() {
            DeValue::Table(inner) => inner
                .iter()
                .filter(|(_, value)| !is_table(value))
                .map(|(key, _)| key.span())
                .min_by_key(|span| span.start),
            DeValue::Array(entries) => entries.iter().all(is_table).then(|| found.span()),
            _ => None,
        };
        if let Some(span) = span {
            document.remove(kind);
            mistakes.push(Mistake {
                what: format!("a {kind} without a name"),
                help: format!("write [{kind}.game], or another name than game"),
                place: origins.place_of(&span),
            });
        }
    }
    mistakes
}

/// Removes the innermost key that an error is about; false if there is none.
fn take_out(table: &mut DeTable<'_>, error: &Range<usize>) -> bool {
    if table
        .iter_mut()
        .any(|(_, value)| take_out_of(value.get_mut(), error))
    {
        return true;
    }
    let is_in = |span: Range<usize>| span.start <= error.start && error.end <= span.end;
    let found = table
        .iter()
        .find(|(key, value)| is_in(key.span()) || is_in(value.span()))
        .map(|(key, _)| key.clone());
    found.is_some_and(|key| table.remove(&key).is_some())
}

fn take_out_of(value: &mut DeValue<'_>, error: &Range<usize>) -> bool {
    match value {
        DeValue::Table(inner) => take_out(inner, error),
        DeValue::Array(entries) => entries
            .iter_mut()
            .any(|entry| take_out_of(entry.get_mut(), error)),
        _ => false,
    }
}

const ENVIRONMENT_PREFIX: &str = "TIDEGATE__";

const SHORT_VARIABLES: [(&str, &str); 3] = [
    ("TIDEGATE_ADMIN", "ADMIN__LISTEN"),
    ("TIDEGATE_LOG_FORMAT", "LOG__FORMAT"),
    ("TIDEGATE_LOG_LEVEL", "LOG__LEVEL"),
];

/// A rate and its burst are one value: neither means anything without the other. Any other table would take more out of
/// the file than it names.
fn is_limit(table: &Table) -> bool {
    table.len() == 2 && ["rate", "burst"].iter().all(|key| table.contains_key(*key))
}

/// How serde begins to say that a key is not there.
const MISSING: &str = "missing field";

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
