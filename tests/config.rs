//! The configuration as an operator meets it: files in, errors out.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use tidegate::config::{self, ConnectFlags, Input, Loaded, Protocol, Refusal, ServeFlags};
use tidegate_proto::yojimbo::channels::Profile;

/// A directory with a good key in it, gone when dropped.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tidegate-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("a temporary directory can be made");
        let directory = Self(path);
        directory.write_key("netcode.key", &[7; 32], 0o600);
        directory
    }

    fn write_key(&self, name: &str, bytes: &[u8], mode: u32) {
        let path = self.0.join(name);
        fs::write(&path, bytes).expect("a key file can be written");
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(&path, mode).expect("its mode can be set");
    }

    fn load(&self, text: &str) -> Result<Loaded, Refusal> {
        self.load_with(text, &[])
    }

    fn load_with(&self, text: &str, environment: &[(&str, &str)]) -> Result<Loaded, Refusal> {
        config::load(&Input {
            file: Some((self.0.join("tidegate.toml"), text.to_owned())),
            environment: (environment.iter())
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            ..Input::default()
        })
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).expect("the directory is still there");
    }
}

const GOOD: &str = r#"
version = 1
[listener.game]
bind = ["127.0.0.1:40000"]
backend = "game"
[backend.game]
targets = ["tcp://127.0.0.1:7000"]
framing = "u32be"
"#;

#[test]
fn a_small_file_is_enough() {
    let directory = Directory::new("small");
    let loaded = directory.load(GOOD).unwrap();
    let listener = &loaded.config.listeners[0];
    assert_eq!(listener.name, "game");
    let Protocol::Yojimbo(yojimbo) = &listener.protocol else {
        panic!("yojimbo is the default");
    };
    assert_eq!(
        yojimbo.profile,
        Profile::default(),
        "the documented profile is the default"
    );
    assert_eq!(listener.max_peers, 256);
    assert_eq!(listener.backend.codec.max_message(), 256 * 1024);
}

#[test]
fn serve_and_connect_need_no_file() {
    let directory = Directory::new("flags");
    let key = directory.0.join("netcode.key").display().to_string();
    let serve = ServeFlags {
        listen: "yojimbo://0.0.0.0:40000".to_owned(),
        backend: "tcp://127.0.0.1:7000".to_owned(),
        framing: None,
        key: Some(key.clone()),
    };
    let connect = ConnectFlags {
        listen: "tcp://127.0.0.1:7000".to_owned(),
        remote: "yojimbo://game.example.net:40000".to_owned(),
        framing: None,
        key: Some(key),
        token_file: None,
        token_command: None,
    };
    let input = |overrides| Input {
        overrides,
        ..Input::default()
    };
    let served = config::load(&input(serve.overrides().unwrap()))
        .unwrap()
        .config;
    let connected = config::load(&input(connect.overrides().unwrap()))
        .unwrap()
        .config;
    let (listener, tunnel) = (&served.listeners[0], &connected.tunnels[0]);
    assert_eq!(
        listener.backend.codec, tunnel.codec,
        "both ends read the stream the same way"
    );
    assert_eq!(tunnel.remote_host, "game.example.net");
    assert!(
        connected.admin.listen.is_none(),
        "the server may run on this machine too"
    );
}
