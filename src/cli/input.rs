//! From the command line and the process environment to a configuration.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::{ConnectArgs, RunArgs, ServeArgs, TokenArgs, keygen};
use crate::config::{
    self, ConnectFlags, Input, Loaded, Mistake, Override, Place, Refusal, ServeFlags,
};
use crate::control;
use crate::exit::{Misused, Unavailable};
use crate::given_file::{GivenFile, Occasion, Unread};
use crate::logging::{self, Logging};
use crate::reload::{NoReload, Source};

/// Loads the configuration and starts the log.
pub(super) fn start(
    args: &RunArgs,
    mut overrides: Vec<Override>,
) -> anyhow::Result<(Loaded, Logging, Source)> {
    overrides.extend(run_overrides(args));
    let session_socket = session_directory().and_then(|it| control::in_session(&it));
    let question = Question {
        file: args.config.clone(),
        overrides,
        session_socket,
        ..Question::default()
    };
    let loaded = question.read_all()?;
    let again = Question {
        occasion: Occasion::Reload,
        ..question
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
    logging::end_with_bugs(move || said_before.flush());
    Ok((loaded, logging, Box::new(source)))
}

/// Reads a file (or nothing) with the environment and `overrides` on top.
pub(super) fn load(file: Option<&Path>, overrides: Vec<Override>) -> anyhow::Result<Loaded> {
    let file = file.map(Path::to_owned);
    let question = Question {
        file,
        overrides,
        ..Question::default()
    };
    question.read_all()
}

/// Where a configuration comes from, but for the environment.
#[derive(Default)]
struct Question {
    file: Option<PathBuf>,
    overrides: Vec<Override>,
    session_socket: Option<PathBuf>,
    occasion: Occasion,
    without_keys: bool,
}

impl Question {
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
            let help = unread
                .help()
                .map_or_else(String::new, |help| format!("\n help: {help}"));
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

pub(super) fn serve_flags(args: &ServeArgs) -> anyhow::Result<Vec<Override>> {
    let Some(backend) = &args.backend else {
        return need_file(&args.run.config, "--listen URL --backend URL", "yojimbo");
    };
    let listen = args
        .listen
        .clone()
        .unwrap_or_else(|| DEFAULT_LISTEN.to_owned());
    let key = match &args.key {
        Some(path) => Some(path.clone()),
        None => own_key(&listen),
    };
    let flags = ServeFlags {
        listen,
        backend: backend.clone(),
        framing: args.framing.clone(),
        key: key.as_deref().map(absolute).transpose()?,
    };
    flags
        .overrides()
        .map_err(|error| Misused(error.to_string()).into())
}

/// The key of a server without a configuration, in its state directory.
fn own_key(listen: &str) -> Option<PathBuf> {
    let state = || directory("STATE_DIRECTORY").unwrap_or_else(|| PathBuf::from("."));
    let needs_one = listen.starts_with("yojimbo://");
    needs_one.then(|| state().join("netcode.key"))
}

/// Makes the key that `flags` name, where nobody gave one and there is none yet. All else is checked before: whoever
/// mistyped an address should not have to tell the key of that start from the one in use.
pub(super) fn make_own_key(args: &ServeArgs, flags: &[Override]) -> anyhow::Result<()> {
    let listen = args.listen.as_deref().unwrap_or(DEFAULT_LISTEN);
    let own = args.backend.as_ref().and_then(|_| own_key(listen));
    let Some(key) = own.filter(|key| args.key.is_none() && !key.exists()) else {
        return Ok(());
    };
    let mut overrides = flags.to_vec();
    overrides.extend(run_overrides(&args.run));
    let question = Question {
        overrides,
        without_keys: true,
        ..Question::default()
    };
    question.read_all()?;
    keygen::make(&key)
}

/// The main protocol on the port of the examples, for whoever gives a backend only.
const DEFAULT_LISTEN: &str = "yojimbo://0.0.0.0:40000";

pub(super) fn connect_flags(args: &ConnectArgs) -> anyhow::Result<Vec<Override>> {
    let (Some(listen), Some(remote)) = (&args.listen, &args.remote) else {
        return need_file(&args.run.config, "--listen URL --remote URL", "tunnel");
    };
    tunnel_flags(listen, remote, args.framing.as_deref(), &args.tokens)
}

/// The one tunnel of a process without a configuration.
pub(super) fn tunnel_flags(
    listen: &str,
    remote: &str,
    framing: Option<&str>,
    tokens: &TokenArgs,
) -> anyhow::Result<Vec<Override>> {
    let flags = ConnectFlags {
        listen: listen.to_owned(),
        remote: remote.to_owned(),
        framing: framing.map(str::to_owned),
        key: tokens.key.as_deref().map(absolute).transpose()?,
        token_file: tokens.token_file.as_deref().map(absolute).transpose()?,
        token_command: tokens.token_command.clone(),
    };
    flags
        .overrides()
        .map_err(|error| Misused(error.to_string()).into())
}

/// `flags` say everything in place of a file; `kind` is what such a file can begin as.
fn need_file(config: &Option<PathBuf>, flags: &str, kind: &str) -> anyhow::Result<Vec<Override>> {
    match config {
        Some(_) => Ok(Vec::new()),
        None => Err(Misused(format!(
            "nothing to run: give --config FILE or {flags}\n help: `tidegate init {kind}` prints a file to start from"
        ))
        .into()),
    }
}

/// Paths of flags are seen from where they are typed, not from a credentials directory.
fn absolute(path: &Path) -> anyhow::Result<String> {
    let path = std::path::absolute(path).with_context(|| path.display().to_string())?;
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Misused(format!("{} is not UTF-8", path.display())).into())
}

fn run_overrides(args: &RunArgs) -> Vec<Override> {
    let mut overrides = Vec::new();
    let mut set = |section: &str, key: &str, value: &str, flag: String| {
        overrides.push(Override {
            path: vec![section.to_owned(), key.to_owned()],
            value: toml::Value::String(value.to_owned()),
            flag,
        });
    };
    let level = match (args.verbose, args.quiet) {
        (0, false) => args
            .log_level
            .as_deref()
            .map(|level| (level, format!("--log-level {level}"))),
        (0, true) => Some(("warn", "-q".to_owned())),
        (1, _) => Some(("debug", "-v".to_owned())),
        (_, _) => Some(("trace", "-vv".to_owned())),
    };
    if let Some((level, flag)) = level {
        set("log", "level", level, flag);
    }
    if let Some(format) = &args.log_format {
        set("log", "format", format, format!("--log-format {format}"));
    }
    if let Some(admin) = &args.admin {
        set("admin", "listen", admin, format!("--admin {admin}"));
    }
    if let Some(path) = &args.control {
        set("admin", "control_socket", path, format!("--control {path}"));
    }
    overrides
}
