//! What `serve` and `connect` have in common on the command line.

use std::path::PathBuf;

use clap::Args;

use crate::config::Override;

/// Options of the commands that run until stopped.
#[derive(Args, Debug)]
pub(super) struct RunArgs {
    // Variables are read elsewhere (`input`, `config`): clap would hold one against a flag that means the same, and
    // the flag goes before it.
    /// Configuration file; - reads standard input [env: TIDEGATE_CONFIG]
    #[arg(short, long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Log level, or directives such as info,tidegate::listener=debug [default: info] [env: TIDEGATE_LOG_LEVEL]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// Log format: auto (text on a terminal, json elsewhere), text or json [default: auto] [env: TIDEGATE_LOG_FORMAT]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// Log more: -v for debug, -vv for everything
    #[arg(short, action = clap::ArgAction::Count, conflicts_with_all = ["log_level", "quiet"])]
    verbose: u8,
    /// Log warnings and errors only
    #[arg(short, conflicts_with = "log_level")]
    quiet: bool,
    /// Address of the status page, /metrics, /livez, /readyz and /status; "" disables it [default: 127.0.0.1:9477;
    /// `connect` without a file: disabled] [env: TIDEGATE_ADMIN]
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<String>,
    /// Control socket for `tidegate ctl` and `top`; "" disables it [default: a path where they find it]
    #[arg(long, value_name = "PATH")]
    control: Option<String>,
}

impl RunArgs {
    /// The file that the environment names, unless flags name another or say everything themselves.
    pub(super) fn find_file(&mut self, has_flags: bool) {
        if self.config.is_none() && !has_flags {
            let named = std::env::var_os("TIDEGATE_CONFIG").filter(|name| !name.is_empty());
            self.config = named.map(PathBuf::from);
        }
    }

    /// What the flags say in place of the file.
    pub(super) fn overrides(&self) -> Vec<Override> {
        let mut overrides = Vec::new();
        let mut set = |section: &str, key: &str, value: &str, flag: String| {
            overrides.push(Override {
                path: vec![section.to_owned(), key.to_owned()],
                value: toml::Value::String(value.to_owned()),
                flag,
                is_implied: false,
            });
        };
        let level = match (self.verbose, self.quiet) {
            (0, false) => self
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
        if let Some(format) = &self.log_format {
            set("log", "format", format, format!("--log-format {format}"));
        }
        if let Some(admin) = &self.admin {
            set("admin", "listen", admin, format!("--admin {admin}"));
        }
        if let Some(path) = &self.control {
            set("admin", "control_socket", path, format!("--control {path}"));
        }
        overrides
    }
}
