//! From the command line and the process environment to a configuration.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::run_args::RunArgs;
use crate::bugs;
use crate::config::{self, Input, Loaded, Mistake, Override, Place, Refusal};
use crate::control;
use crate::exit::{Misused, Unavailable, help_line};
use crate::given_file::{GivenFile, Occasion, Unread};
use crate::logging::{self, Logging};
use crate::reload::{NoReload, Source};

/// Loads the configuration and starts the log.
pub(super) fn start(
    args: &RunArgs,
    mut overrides: Vec<Override>,
) -> anyhow::Result<(Loaded, Logging, Source)> {
    overrides.extend(args.overrides());
    let session_socket = session_directory().and_then(|it| control::in_session(&it));
    let sources = Sources {
        file: args.config.clone(),
        overrides,
        session_socket,
        ..Sources::default()
    };
    let loaded = sources.read_all()?;
    let again = Sources {
        occasion: Occasion::Reload,
        ..sources
    };
    let source = move || {
        if again.file.as_deref() == Some(Path::new("-")) {
            return Err(NoReload(
                "standard input can be read only once: a restart changes what came by it",
            )
            .into());
        }
        again.read_all()
    };
    let logging = logging::install(&loaded.config.log).map_err(Unavailable)?;
    let said_before = logging.clone();
    bugs::make_fatal(move || said_before.flush());
    Ok((loaded, logging, Box::new(source)))
}

/// Reads a file (or nothing) with the environment and `overrides` on top.
pub(super) fn load(file: Option<&Path>, overrides: Vec<Override>) -> anyhow::Result<Loaded> {
    let file = file.map(Path::to_owned);
    let sources = Sources {
        file,
        overrides,
        ..Sources::default()
    };
    sources.read_all()
}

/// Whether a start with these would fail for another reason than a key that is not there yet.
pub(super) fn check_without_keys(overrides: Vec<Override>) -> anyhow::Result<()> {
    let sources = Sources {
        overrides,
        without_keys: true,
        ..Sources::default()
    };
    sources.read_all().map(drop)
}

/// Where a configuration comes from, but for the environment.
#[derive(Default)]
struct Sources {
    file: Option<PathBuf>,
    overrides: Vec<Override>,
    session_socket: Option<PathBuf>,
    occasion: Occasion,
    without_keys: bool,
}

impl Sources {
    fn read_all(&self) -> anyhow::Result<Loaded> {
        let file = match &self.file {
            None => None,
            Some(path) => Some((path.clone(), read(path, self.occasion)?)),
        };
        // Only names that are ours are looked at; a value that is not text cannot be meant.
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(name, _)| name.starts_with("TIDEGATE_"))
            .collect();
        Ok(config::load(&Input {
            file,
            environment,
            overrides: self.overrides.clone(),
            credentials: directory("CREDENTIALS_DIRECTORY"),
            runtime_directory: directory("RUNTIME_DIRECTORY"),
            session_socket: self.session_socket.clone(),
            occasion: self.occasion,
            without_keys: self.without_keys,
        })?)
    }
}

fn read(path: &Path, occasion: Occasion) -> anyhow::Result<String> {
    let shown = path.display();
    let bytes = if path == Path::new("-") {
        read_some(io::stdin()).map_err(Unread::Io)
    } else {
        let file = GivenFile::open(path);
        let read = file.and_then(|file| file.read(FILE_BYTES_MAX, occasion));
        read.map(|bytes| bytes.to_vec())
    };
    let bytes = match bytes {
        Ok(bytes) => bytes,
        Err(Unread::PipeAgain) => {
            return Err(NoReload(
                "the configuration came by a pipe, which can be read only once: a restart changes what came by it",
            )
            .into());
        }
        // A restart of the unit would not help.
        Err(unread) if unread.is_lasting() => {
            let what = format!("cannot read {shown}: {unread}");
            return Err(no_configuration(what, unread.help().unwrap_or_default()));
        }
        Err(unread) => {
            let help = help_line(unread.help());
            let error = Unavailable(format!("cannot read {shown}: {unread}{help}"));
            return Err(error).context("the configuration file");
        }
    };
    if bytes.len() > FILE_BYTES_MAX {
        let what = format!("{shown} has more than {FILE_BYTES_MAX} bytes");
        return Err(no_configuration(what, "is it another file?"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..at].split(|byte| *byte == b'\n').count();
        let what = format!("{shown} is no UTF-8 text, from line {line} on");
        let help = "save it as UTF-8; or is it another file?";
        no_configuration(what, help)
    })
}

/// A file of another kind is not read to its end: a process that serves must not fill its memory for a reload.
fn read_some(file: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX as u64 + 1)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Some hundred times the reference.
const FILE_BYTES_MAX: usize = 4 << 20;

fn no_configuration(what: String, help: &str) -> anyhow::Error {
    let mistake = Mistake {
        what,
        help: help.to_owned(),
        place: Place::Nowhere,
    };
    Refusal::of_all(vec![mistake]).into()
}

/// systemd separates several directories by colons; the first is ours.
pub(super) fn directory(variable: &str) -> Option<PathBuf> {
    let value = std::env::var(variable).ok()?;
    let first = value.split(':').next().filter(|first| !first.is_empty())?;
    Some(PathBuf::from(first))
}

/// What a login gives its programs for their sockets.
pub(super) fn session_directory() -> Option<PathBuf> {
    let directory = PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR")?);
    directory.is_absolute().then_some(directory)
}

/// `flags` say everything in place of a file; `kind` is what such a file can begin as.
pub(super) fn need_file(
    config: &Option<PathBuf>,
    flags: &str,
    kind: &str,
) -> anyhow::Result<Vec<Override>> {
    match config {
        Some(_) => Ok(Vec::new()),
        None => Err(Misused(format!(
            "nothing to run: give --config FILE or {flags}\n help: `tidegate init {kind}` prints a file to start from"
        ))
        .into()),
    }
}

/// Paths of flags are seen from where they are typed, not from a credentials directory.
pub(super) fn absolute(path: &Path) -> anyhow::Result<String> {
    let path = std::path::absolute(path).with_context(|| path.display().to_string())?;
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Misused(format!("{} is not UTF-8", path.display())).into())
}
