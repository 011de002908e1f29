//! From text, environment and flags to a [`Config`].

use std::path::{Path, PathBuf};

use toml::Value;

use super::file::{self, File};
use super::layers::Layers;
use super::mistake::{Mistake, Place, Refusal};
use super::origins::{Effective, Origins};
use super::resolve;
use super::secret::KeyFiles;
use super::{Config, Listener};
use crate::given_file::Occasion;

/// Everything that can say something about the configuration, weakest first.
#[derive(Clone, Debug, Default)]
pub struct Input {
    /// Name and text of the file.
    pub file: Option<(PathBuf, String)>,
    /// The process environment; only `TIDEGATE__...` and a few short names for it are looked at.
    pub environment: Vec<(String, String)>,
    /// From flags.
    pub overrides: Vec<Override>,
    /// `$CREDENTIALS_DIRECTORY`.
    pub credentials: Option<PathBuf>,
    /// `$RUNTIME_DIRECTORY`.
    pub runtime_directory: Option<PathBuf>,
    /// The control socket of a process without one.
    pub session_socket: Option<PathBuf>,
    /// When this is read: a reload waits for no key that comes by a pipe.
    pub occasion: Occasion,
    /// Check all but the keys, which may not be there yet: they are all zero.
    pub without_keys: bool,
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
    /// Nobody typed it: what a flag, or the lack of one, stands for besides. Variables change it.
    pub is_implied: bool,
}

/// A configuration, and what it was made of.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// What runs.
    pub config: Config,
    /// Every value in force.
    pub effective: Vec<Effective>,
}

/// Reads and checks everything. Either all of it is good, or nothing is put into force and its mistakes are told, in up
/// to three rounds: where the file is no TOML; where keys are unknown or values of another kind, and what each of the
/// others says by itself; and what they say together, or what is missing, since that may be what a misspelt key stands
/// for. All of a round are told at once, up to a hundred, and a dozen of a file that is no TOML.
pub fn load(input: &Input) -> Result<Loaded, Refusal> {
    let mut layers = match &input.file {
        Some((name, text)) => Layers::of_file(name, text)?,
        None => Layers::default(),
    };
    let (implied, typed): (Vec<_>, Vec<_>) = input.overrides.iter().partition(|set| set.is_implied);
    for set in implied {
        layers.add_flag(&set.flag, &set.path, &set.value);
    }
    for variables in [Layers::add_variable, Layers::add_short_variable] {
        for (variable, value) in &input.environment {
            variables(&mut layers, variable, value);
        }
    }
    for set in typed {
        layers.add_flag(&set.flag, &set.path, &set.value);
    }
    let Layers {
        mut file,
        origins,
        taken_out,
        mut mistakes,
        ..
    } = layers;
    if !taken_out.is_empty() {
        return Err(input.refuse_with_gaps(taken_out, &mut file, &origins));
    }
    // Without what was refused, the rest would only be found incomplete.
    let is_flag = |mistake: &Mistake| matches!(mistake.place, Place::Flag(_));
    if mistakes.iter().any(is_flag) {
        return Err(Refusal::of_first(mistakes));
    }
    match resolve::resolve(&mut file, &origins, &input.surroundings()) {
        Ok(mut config) if mistakes.is_empty() => {
            for listener in &mut config.listeners {
                listener.recorded = recorded(&file, &listener.name).into();
            }
            Ok(Loaded {
                config,
                effective: origins.effective(&file),
            })
        }
        Ok(_) => Err(Refusal::of_all(mistakes)),
        Err(more) => {
            mistakes.extend(more.mistakes);
            Err(Refusal {
                has_more: more.has_more,
                ..Refusal::of_all(from_the_top(mistakes))
            })
        }
    }
}

/// As one reads the file.
fn from_the_top(mut mistakes: Vec<Mistake>) -> Vec<Mistake> {
    mistakes.sort_by_key(|mistake| mistake.place.line());
    mistakes
}

impl Input {
    /// What was taken out of the file, and which of its other values are wrong by themselves. Keys are not read: one that
    /// comes by a pipe comes once. Nor is anything told of variables and flags: what they set may have been taken out.
    fn refuse_with_gaps(
        &self,
        taken_out: Vec<Mistake>,
        file: &mut File,
        origins: &Origins,
    ) -> Refusal {
        let surroundings = resolve::Surroundings {
            without_keys: true,
            has_gaps: true,
            ..self.surroundings()
        };
        let more = resolve::resolve(file, origins, &surroundings).err();
        let has_more = more.as_ref().is_some_and(|more| more.has_more);
        let more = more.into_iter().flat_map(|more| more.mistakes);
        Refusal {
            has_more,
            ..Refusal::of_first(from_the_top(taken_out.into_iter().chain(more).collect()))
        }
    }

    fn surroundings(&self) -> resolve::Surroundings {
        resolve::Surroundings {
            key_files: KeyFiles {
                credentials: self.credentials.clone(),
                beside: directory_of(self.file.as_ref().map(|(name, _)| name.as_path())),
            },
            runtime_directory: self.runtime_directory.clone(),
            session_socket: self.session_socket.clone(),
            occasion: self.occasion,
            without_keys: self.without_keys,
            has_gaps: false,
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
    let Layers {
        mut file,
        origins,
        taken_out,
        ..
    } = Layers::of_file(Path::new("recording"), text)?;
    if !taken_out.is_empty() {
        return Err(Refusal::of_first(taken_out));
    }
    file.listener
        .values_mut()
        .for_each(file::Listener::forget_what_does_nothing);
    let surroundings = resolve::Surroundings {
        without_keys: true,
        ..resolve::Surroundings::default()
    };
    match resolve::resolve(&mut file, &origins, &surroundings) {
        Ok(mut config) if config.listeners.len() == 1 => Ok(config.listeners.remove(0)),
        Ok(_) => Err(Refusal::of_all(vec![Mistake {
            what: "a recording has the rules of one listener".to_owned(),
            help: "was it made by tidegate?".to_owned(),
            place: Place::Nowhere,
        }])),
        Err(refusal) => Err(refusal),
    }
}

fn directory_of(file: Option<&Path>) -> PathBuf {
    match file.and_then(Path::parent) {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        Some(_) | None => PathBuf::from("."),
    }
}
