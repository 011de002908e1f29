//! A configuration without a file: what the flags of `serve` and `connect` stand for.
//!
//! `--framing` is `raw` there: without a file both ends are usually tidegate, and then any stream
//! protocol passes unchanged. A game server that reads whole messages wants another one.

use toml::Value;

use super::load::Override;

/// `serve --listen URL --backend URL`.
#[derive(Clone, Debug)]
pub struct ServeFlags {
    /// `yojimbo://0.0.0.0:40000`
    pub listen: String,
    /// `tcp://127.0.0.1:7000`
    pub backend: String,
    /// How messages are told apart.
    pub framing: Option<String>,
    /// Path of the key.
    pub key: Option<String>,
}

/// `connect --listen URL --remote URL`.
#[derive(Clone, Debug)]
pub struct ConnectFlags {
    /// `tcp://127.0.0.1:7000`
    pub listen: String,
    /// `yojimbo://game.example.net:40000`
    pub remote: String,
    /// How messages are told apart.
    pub framing: Option<String>,
    /// Path of the server's key.
    pub key: Option<String>,
    /// File with a token.
    pub token_file: Option<String>,
    /// Shell command that prints a token.
    pub token_command: Option<String>,
}

/// A URL of a flag that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{flag} {url:?} does not start with a protocol: write yojimbo://HOST:PORT, gaffer://HOST:PORT or rudp://HOST:PORT"
)]
pub struct BadUrl {
    flag: &'static str,
    url: String,
}

impl ServeFlags {
    /// What the flags say, in keys of the file.
    pub fn overrides(&self) -> Result<Vec<Override>, BadUrl> {
        let (protocol, address) = split("--listen", &self.listen)?;
        let mut set = Setter::new();
        let listen = format!("--listen {}", self.listen);
        set.text("listener.default.protocol", protocol, &listen);
        set.list("listener.default.bind", address, &listen);
        set.implied("listener.default.backend", "default".into(), &listen);
        if protocol == "yojimbo" {
            // One server with a key of its own: whatever address its tokens name is meant for it.
            let any = Value::Array(vec!["any".into()]);
            set.implied("listener.default.public_addresses", any, &listen);
        }
        let backend = format!("--backend {}", self.backend);
        set.list("backend.default.targets", &self.backend, &backend);
        set.framing("backend.default.framing", self.framing.as_deref());
        if let Some(key) = &self.key {
            let flag = format!("--key {key}");
            set.text("listener.default.netcode.key_file", key, &flag);
        }
        Ok(set.overrides)
    }
}

impl ConnectFlags {
    /// What the flags say, in keys of the file.
    pub fn overrides(&self) -> Result<Vec<Override>, BadUrl> {
        let (protocol, address) = split("--remote", &self.remote)?;
        let mut set = Setter::new();
        let remote = format!("--remote {}", self.remote);
        set.text("tunnel.default.protocol", protocol, &remote);
        set.text("tunnel.default.remote", address, &remote);
        let listen = format!("--listen {}", self.listen);
        set.list("tunnel.default.listen", &self.listen, &listen);
        set.framing("tunnel.default.framing", self.framing.as_deref());
        for (flag, key, value) in [
            ("--key", "key_file", &self.key),
            ("--token-file", "token_file", &self.token_file),
            ("--token-command", "token_command", &self.token_command),
        ] {
            if let Some(value) = value {
                let key = format!("tunnel.default.netcode.{key}");
                set.text(&key, value, &format!("{flag} {value}"));
            }
        }
        // The server often runs on the same machine, and the port is its.
        set.text("admin.listen", "", "connect without a file");
        Ok(set.overrides)
    }
}

fn split<'a>(flag: &'static str, url: &'a str) -> Result<(&'a str, &'a str), BadUrl> {
    match url.split_once("://") {
        Some((protocol @ ("yojimbo" | "gaffer" | "rudp"), address)) => Ok((protocol, address)),
        Some(_) | None => Err(BadUrl {
            flag,
            url: url.to_owned(),
        }),
    }
}

/// The one listener, backend or tunnel that flags describe is called `default`.
struct Setter {
    overrides: Vec<Override>,
}

impl Setter {
    fn new() -> Self {
        let mut set = Self {
            overrides: Vec::new(),
        };
        set.implied("version", Value::Integer(1), "no file");
        set
    }

    fn framing(&mut self, path: &str, framing: Option<&str>) {
        self.implied(path, "raw".into(), "no --framing");
        if let Some(framing) = framing {
            self.text(path, framing, &format!("--framing {framing}"));
        }
    }

    fn text(&mut self, path: &str, value: &str, flag: &str) {
        self.push(path, value.into(), flag, false);
    }

    fn list(&mut self, path: &str, value: &str, flag: &str) {
        self.push(path, Value::Array(vec![value.into()]), flag, false);
    }

    fn implied(&mut self, path: &str, value: Value, flag: &str) {
        self.push(path, value, flag, true);
    }

    /// No key of ours has a dot in it.
    fn push(&mut self, path: &str, value: Value, flag: &str, is_implied: bool) {
        self.overrides.push(Override {
            path: path.split('.').map(str::to_owned).collect(),
            value,
            flag: flag.to_owned(),
            is_implied,
        });
    }
}
