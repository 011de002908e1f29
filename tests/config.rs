//! The configuration as an operator meets it: files in, errors out.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tidegate::config::{
    self, ConnectFlags, Effective, Input, Loaded, Protocol, RateProfile, Refusal, ServeFlags,
    Source,
};
use tidegate::protocol;
use tidegate_proto::sender::{self, Params};
use tidegate_proto::yojimbo::channels::Layout;

#[path = "support/place.rs"]
#[expect(
    unreachable_pub,
    reason = "shared with the tests of the running program"
)]
mod place;

use place::Place;

impl Place {
    /// With keys in it, good and bad ones.
    fn with_keys(name: &str) -> Self {
        let place = Self::new(name);
        place.write_key("netcode.key", &[7; 32], 0o600);
        place.write_key("open.key", &[7; 32], 0o644);
        place.write_key("zero.key", &[0; 32], 0o600);
        place.write_key("short.key", &[7; 31], 0o600);
        fs::create_dir_all(place.path("directory")).expect("a directory can be made");
        place
    }

    fn write_key(&self, name: &str, bytes: &[u8], mode: u32) {
        let path = self.write(name, bytes);
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(&path, mode).expect("its mode can be set");
    }

    fn load(&self, text: &str) -> Result<Loaded, Refusal> {
        self.load_with(text, &[])
    }

    fn load_with(&self, text: &str, environment: &[(&str, &str)]) -> Result<Loaded, Refusal> {
        config::load(&Input {
            file: Some((self.path("tidegate.toml"), text.to_owned())),
            environment: (environment.iter())
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            ..Input::default()
        })
    }

    /// What is printed about a file that is refused, without this run's path.
    fn complaint(&self, refusal: &Refusal) -> String {
        let text = refusal.to_string();
        text.replace(&self.dir().display().to_string(), "DIR")
    }
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn reference() -> String {
    let path = repository().join("config/tidegate.toml");
    fs::read_to_string(path).expect("the reference is there")
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
    let place = Place::with_keys("small");
    let loaded = place.load(GOOD).unwrap();
    let listener = &loaded.config.listeners[0];
    assert_eq!(listener.name, "game");
    let Protocol::Yojimbo(yojimbo) = &listener.protocol else {
        panic!("yojimbo is the default");
    };
    assert_eq!(
        yojimbo.layout,
        Layout::default(),
        "the documented layout is the default"
    );
    assert_eq!(listener.max_peers, 4096);
    assert_eq!(listener.backend.codec.max_message(), 256 * 1024);
}

/// A backend that does not speak of channels has its messages delivered, whichever channel comes first in
/// the clients' code.
#[test]
fn what_names_no_channel_goes_out_on_a_reliable_one() {
    let place = Place::with_keys("channels");
    let channel = |list: &[&str]| {
        let channels: String = (list.iter())
            .map(|kind| format!("[[listener.game.yojimbo.channel]]\ntype = \"{kind}\"\n"))
            .collect();
        let message = "[[listener.game.yojimbo.message]]\nname = \"Frame\"\nbody = \"bytes\"\n\
                       length = [0, 1000]\n";
        let loaded = place.load(&format!("{GOOD}{channels}{message}"));
        let listener = &loaded.unwrap().config.listeners[0];
        let codec = protocol::fitting(listener.backend.codec, &listener.protocol);
        codec.decode(b"\0\0\0\x01x").unwrap().unwrap().channel
    };
    let (reliable, unreliable) = ("reliable-ordered", "unreliable-unordered");
    assert_eq!(channel(&[reliable, unreliable]), 0);
    assert_eq!(channel(&[unreliable, reliable, reliable]), 1);
    assert_eq!(channel(&[unreliable]), 0, "there is no other");
}

/// Protocols that cannot know their peers are for closed networks unless somebody says otherwise.
#[test]
fn only_private_networks_may_come_to_protocols_without_authentication() {
    let place = Place::with_keys("sources");
    let allowed = |protocol: &str, limits: &str| {
        let backend = "backend = \"game\"";
        let more = format!("{backend}\nprotocol = \"{protocol}\"\nlimits = {{ {limits} }}");
        let loaded = place.load(&GOOD.replace(backend, &more))?;
        let allowed = loaded.config.listeners[0].limits.allow.iter();
        Ok::<Vec<String>, Refusal>(allowed.map(ToString::to_string).collect())
    };
    for protocol in ["gaffer", "rudp"] {
        let private = allowed(protocol, "").unwrap();
        assert!(private.contains(&"127.0.0.0/8".to_owned()), "{private:?}");
        assert!(
            private.contains(&"192.168.0.0/16".to_owned()),
            "{private:?}"
        );
        assert!(!private.contains(&"0.0.0.0/0".to_owned()), "{private:?}");
        let own = allowed(protocol, "allow = [\"203.0.113.0/24\"]").unwrap();
        assert_eq!(own, ["203.0.113.0/24"]);
        let any = allowed(protocol, "allow_any_source = true").unwrap();
        assert!(any.is_empty(), "{any:?}");
        let both = "allow_any_source = true, allow = [\"203.0.113.0/24\"]";
        allowed(protocol, both).expect_err("a list and no list");
    }
}

/// Each unknown key costs a reading of the file, of which a large one would take for ever.
#[test]
fn the_file_of_another_program_is_refused_soon() {
    let place = Place::with_keys("another");
    let keys = |count: usize| {
        (0..count)
            .map(|n| format!("key{n} = 1\n"))
            .collect::<String>()
    };
    let mistakes = |count| place.load(&keys(count)).unwrap_err().mistakes.len();
    assert_eq!(mistakes(3), 3);
    assert_eq!(mistakes(5_000), 100);
}

/// Some files are one line. Each mistake shows what is around it, and not all of the line: a reload would need more memory
/// for what it says than for all players.
#[test]
fn of_a_long_line_what_matters_is_shown() {
    let place = Place::with_keys("long line");
    let refused = |text: &str| place.load(text).unwrap_err();
    let nested = "[".repeat(100_000);
    let refusal = refused(&format!("version = 1\nx = {nested}"));
    let said = refusal.to_string();
    assert!(refusal.mistakes.len() > 10, "{said}");
    assert!(
        said.len() < 1_000 * refusal.mistakes.len(),
        "{}",
        said.len()
    );

    let (front, back) = ("ä".repeat(300), "z".repeat(300));
    let line = format!("version = 1\nx = {{ \"{front}\" = 1, y = ?, \"{back}\" = 1 }}");
    let said = refused(&line).to_string();
    let shown = format!(
        "2 | …{}\" = 1, y = ?, \"{}…",
        "ä".repeat(69),
        "z".repeat(116)
    );
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines.contains(&shown.as_str()), "{said}");
    let at = lines.iter().position(|line| *line == shown).unwrap();
    let before = |line: &str, mark| line.chars().position(|c| c == mark);
    assert_eq!(before(lines[at + 1], '^'), before(&shown, '?'), "{said}");
}

#[test]
fn serve_and_connect_need_no_file() {
    let place = Place::with_keys("flags");
    let key = place.path("netcode.key").display().to_string();
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
    let cores = std::thread::available_parallelism().unwrap().get();
    assert_eq!(served.runtime.workers, cores);
    assert_eq!(connected.runtime.workers, 1, "its machine is a player's");
    assert!(
        connected.admin.listen.is_none(),
        "the server may run on this machine too"
    );
}

/// Every file under config/ is good, by the same way as `tidegate check`.
#[test]
fn shipped_files_are_good() {
    let place = Place::with_keys("shipped");
    let mut count = 0;
    for folder in ["config", "config/bridge"] {
        for entry in fs::read_dir(repository().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path
                .extension()
                .is_some_and(|extension| extension == "toml")
            {
                let text = fs::read_to_string(&path).unwrap();
                if let Err(refusal) = place.load(&text) {
                    panic!("{}:\n{refusal}", path.display());
                }
                count += 1;
            }
        }
    }
    assert!(count >= 7, "only {count} files under config/");
}

/// Both sides of the bridge, as shipped, read their streams the same way.
#[test]
fn the_bridge_fits_together() {
    let place = Place::with_keys("bridge");
    let load = |name: &str| {
        let text = fs::read_to_string(repository().join("config/bridge").join(name)).unwrap();
        place.load(&text).unwrap().config
    };
    let (server, client) = (load("server.toml"), load("client.toml"));
    assert_eq!(server.listeners[0].backend.codec, client.tunnels[0].codec);
    assert_eq!(server.listeners[0].rate, client.tunnels[0].rate);
}

/// Keys whose values in the reference are examples: they have no default.
const EXAMPLES: [&str; 17] = [
    "version",
    "listener.game.bind",
    "listener.game.public_addresses",
    "listener.game.backend",
    "listener.legacy.bind",
    "listener.legacy.backend",
    "listener.legacy.protocol",
    "listener.skynet.bind",
    "listener.skynet.backend",
    "listener.skynet.protocol",
    "backend.game.targets",
    "backend.game.framing",
    "tunnel.home.listen",
    "tunnel.home.remote",
    "tunnel.home.framing",
    "tunnel.home.netcode.key_file",
    "tunnel.home.protocol",
];

/// What the reference shows as a default is the default.
#[test]
fn the_reference_tells_the_truth() {
    let place = Place::with_keys("truth");
    let shown = place.load(&reference()).unwrap().effective;
    let bare = r#"
        version = 1
        listener.game = { bind = ["127.0.0.1:1"], backend = "game" }
        listener.legacy = { bind = ["127.0.0.1:2"], backend = "game", protocol = "gaffer" }
        listener.skynet = { bind = ["127.0.0.1:3"], backend = "game", protocol = "rudp" }
        backend.game = { targets = ["tcp://127.0.0.1:7000"], framing = "raw" }
        [tunnel.home]
        listen = ["tcp://127.0.0.1:7001"]
        remote = "h:1"
        framing = "raw"
        netcode.key_file = "netcode.key"
    "#;
    let defaults: BTreeMap<_, _> = (place.load(bare).unwrap().effective.into_iter())
        .map(|value| (value.path, value.value))
        .collect();
    for Effective { path, value, .. } in shown {
        if !EXAMPLES.contains(&path.as_str()) {
            assert_eq!(
                Some(&value),
                defaults.get(&path),
                "{path} in config/tidegate.toml"
            );
        }
    }
}

/// Who reads `key = value` on a page types that into a file.
#[test]
fn pages_write_settings_as_a_file_takes_them() {
    let reference = reference().replace(' ', "");
    let mut seen = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        // What stands between two marks is every second piece.
        for quoted in text.split('`').skip(1).step_by(2) {
            let Some(name) = setting(quoted) else {
                continue;
            };
            let page = page.display();
            assert!(is_key(&reference, name), "{page}: `{quoted}` is no key");
            let parsed = quoted.parse::<toml::Table>();
            assert!(parsed.is_ok(), "{page}: `{quoted}` is no TOML");
            seen += 1;
        }
    }
    assert!(seen > 20, "{seen} settings");
}

/// The key that is set there, if one is: others are the kernel's, and those of the reference's C++.
fn setting(quoted: &str) -> Option<&str> {
    let (path, _) = quoted.split_once(" = ")?;
    let is_path = path
        .chars()
        .all(|c| c.is_ascii_lowercase() || matches!(c, '_' | '.'));
    let is_ours = is_path && !path.starts_with("net.") && !path.starts_with("config.");
    path.rsplit('.').next().filter(|_| is_ours)
}

/// Whether the reference, from which spaces were taken, sets such a key.
fn is_key(reference: &str, name: &str) -> bool {
    let goes_on = |c: char| c.is_alphanumeric() || c == '_';
    reference
        .match_indices(&format!("{name}="))
        .any(|(at, _)| !reference[..at].ends_with(goes_on))
}

/// What users read.
fn pages() -> Vec<std::path::PathBuf> {
    let mut pages = vec![repository().join("README.md")];
    for folder in ["docs", "docs/wire"] {
        let entries = fs::read_dir(repository().join(folder)).expect("pages");
        let paths = entries.map(|entry| entry.expect("a page").path());
        pages.extend(paths.filter(|path| path.extension().is_some_and(|end| end == "md")));
    }
    pages
}

/// Every key that can be typed stands in the reference, in a table of its kind.
#[test]
fn the_reference_is_complete() {
    let place = Place::with_keys("complete");
    let reference = reference();
    // Each kind of table, with something that it cannot have: the answer lists what it can.
    for (table, marks) in [
        ("", "version"),
        ("[runtime]", "[runtime]"),
        ("[admin]", "[admin]"),
        ("[log]", "[log]"),
        ("[drain]", "[drain]"),
        ("[listener.x]", "[listener.game"),
        ("[listener.x.limits]", "[listener.game.limits]"),
        ("[listener.x.rate]", "[listener.game.rate]"),
        ("[listener.x.rate.penalty]", "penalty "),
        ("[listener.x.rate.queue_max]", "queue_max "),
        ("[listener.x.rate.bulk]", "bulk "),
        ("[listener.x.netcode]", "[listener.game.netcode]"),
        ("[listener.x.yojimbo]", "[listener.game.yojimbo]"),
        (
            "[[listener.x.yojimbo.channel]]",
            "[[listener.game.yojimbo.channel]]",
        ),
        (
            "[[listener.x.yojimbo.message]]",
            "[[listener.game.yojimbo.message]]",
        ),
        ("[listener.x.gaffer]", "[listener.legacy.gaffer]"),
        ("[listener.x.rudp]", "[listener.skynet.rudp]"),
        ("[backend.x]", "[backend.game]"),
        ("[backend.x.health]", "health "),
        ("[tunnel.x]", "[tunnel.home]"),
        ("[tunnel.x.netcode]", "[tunnel.home.netcode]"),
    ] {
        let refusal = place
            .load(&format!("{table}\nno_such_key = 1\n"))
            .unwrap_err();
        let help = &refusal.mistakes[0].help;
        let keys: Vec<_> = help.split('`').skip(1).step_by(2).collect();
        assert!(keys.len() > 1, "{table}: {help}");
        let start = reference
            .find(marks)
            .unwrap_or_else(|| panic!("no {marks} in the reference"));
        let section = &reference[start..];
        for key in keys {
            let subtable = format!(".{key}]");
            let elsewhere = table.starts_with("[tunnel")
                && reference.contains(&format!("[tunnel.home{subtable}"));
            let typed = elsewhere
                || section.lines().any(|line| {
                    let line = line.trim_start_matches(['#', ' ']);
                    let named = |line: &str| {
                        line.strip_prefix(key)
                            .is_some_and(|rest| rest.trim_start().starts_with('='))
                    };
                    named(line)
                        || line.contains(&subtable)
                        || line.starts_with(&format!("[{key}"))
                        || line.split(['{', ',']).any(|part| named(part.trim_start()))
                });
            assert!(typed, "{key} of {table} is missing in config/tidegate.toml");
        }
    }
}

/// What stands here as the default of the rate is what the sender does by default.
#[test]
fn rate_defaults_are_the_senders() {
    let place = Place::with_keys("rate");
    for (profile, params) in [
        ("adaptive", Params::default()),
        ("article", Params::article()),
    ] {
        let text = format!(
            "version = 1\n[backend.game]\ntargets = [\"tcp://127.0.0.1:7000\"]\nframing = \"raw\"\n\
             [listener.game]\nprotocol = \"gaffer\"\nbind = [\"127.0.0.1:40000\"]\n\
             backend = \"game\"\nrate = {{ profile = \"{profile}\" }}\n"
        );
        let rate = place.load(&text).unwrap().config.listeners[0].rate;
        assert_eq!(f64::from(rate.good_rate), params.packets.good, "{profile}");
        assert_eq!(f64::from(rate.bad_rate), params.packets.bad, "{profile}");
        assert_eq!(f64::from(rate.burst), params.packets.burst, "{profile}");
        assert_eq!(rate.penalty, params.penalty, "{profile}");
        assert_eq!(rate.redundancy, params.redundancy, "{profile}");
        match rate.profile {
            RateProfile::Adaptive(own) => {
                assert_eq!(f64::from(own.good_rate_max), params.packets.good_max);
                assert_eq!(own.queue_max, params.path.queue_max);
                assert_eq!(own.queue_max_messages, params.path.queue_max_messages);
                assert_eq!(own.base_window, params.path.base_window);
                assert_eq!(own.loss_max, params.path.loss_max);
                assert_eq!(own.bulk_start, params.bulk.start);
                assert_eq!(own.bulk_min, params.bulk.min);
                assert_eq!(own.bulk_max, params.bulk.max);
            }
            RateProfile::Article(own) => {
                let article = sender::Profile::Article {
                    rtt_max: own.rtt_max,
                    resend_after: own.resend_after,
                };
                assert_eq!(params.profile, article);
            }
        }
    }
}

/// Error texts are files: tests/config_errors/NAME.toml is refused with NAME.txt. After a change,
/// run with TIDEGATE_BLESS=1 and read the difference as an operator would.
#[test]
fn errors_say_what_to_do() {
    let place = Place::with_keys("errors");
    let folder = repository().join("tests/config_errors");
    let mut differences = Vec::new();
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let refusal = place
            .load(&text)
            .expect_err("every file here has a mistake");
        for mistake in &refusal.mistakes {
            assert!(!mistake.help.is_empty(), "{}: {mistake}", path.display());
        }
        let complaint = place.complaint(&refusal) + "\n";
        let expected = path.with_extension("txt");
        if std::env::var_os("TIDEGATE_BLESS").is_some() {
            fs::write(&expected, &complaint).unwrap();
        } else if fs::read_to_string(&expected).unwrap_or_default() != complaint {
            differences.push(format!("{} now says:\n{complaint}", path.display()));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// A recording says every value that was in force; some that did nothing were not refused yet when it was made.
#[test]
fn a_recording_may_say_what_is_refused_now() {
    let rules = GOOD.replace(
        "backend = \"game\"",
        "backend = \"game\"\nprotocol = \"rudp\"\npublic_addresses = [\"any\"]\n\
         limits = { strikes = { limit = 3 } }\nrate = { good_rate = 60 }",
    );
    let place = Place::with_keys("recording");
    let refusal = place.load(&rules).expect_err("three settings do nothing");
    assert_eq!(refusal.mistakes.len(), 3, "{refusal}");
    config::load_recorded(&rules).expect("it can be run again");
}

/// Nobody takes the first hundred for all there are.
#[test]
fn a_hundred_mistakes_are_told_and_more_are_mentioned() {
    let place = Place::with_keys("hundred");
    for (unknown, said) in [
        (99, "99 mistakes; "),
        (100, "100 mistakes; "),
        (101, "more than 100 mistakes; "),
        (250, "more than 100 mistakes; "),
    ] {
        let keys: String = (0..unknown).map(|n| format!("unknown{n} = 1\n")).collect();
        let refusal = place
            .load(&format!("{keys}{GOOD}"))
            .expect_err("keys are unknown");
        let complaint = refusal.to_string();
        let last = complaint.lines().next_back().unwrap();
        assert!(
            last.contains(&format!("refused: {said}")),
            "{unknown}: {last}"
        );
    }
}

/// To look for the line of each takes longer the more there are: of these, hours.
#[test]
fn a_long_list_of_wrong_networks_is_refused_at_once() {
    let place = Place::with_keys("networks");
    let networks = "\"192.0.2.1-192.0.2.9\",\n".repeat(100_000);
    let text = format!("{GOOD}\n[listener.game.limits]\ndeny = [\n{networks}]\n");
    let refusal = place.load(&text).expect_err("a span is no network");
    assert_eq!(refusal.mistakes.len(), 100);
    assert!(refusal.has_more);
    let unknown = format!("unknown = 1\n{text}");
    let refusal = place.load(&unknown).expect_err("a key is unknown besides");
    assert_eq!(refusal.mistakes.len(), 101);
    assert!(refusal.has_more && refusal.is_partial);
}

/// It may be another program's file, or lack one bracket; either makes mistakes all along.
#[test]
fn of_a_file_that_is_no_toml_the_first_mistakes_are_told() {
    let place = Place::with_keys("no_toml");
    let networks = "deny = [\n\"192.0.2.0/24\"\n\"198.51.100.0/24\"\n";
    let unclosed = format!(
        "{GOOD}\n[listener.game.limits]\n{networks}[log]\nlevel = \"info\"\nformat = \"json\"\n{GOOD}"
    );
    for text in [unclosed, "name,address,port\n".repeat(100_000)] {
        let refusal = place.load(&text).expect_err("this is no TOML");
        assert_eq!(refusal.mistakes.len(), 12);
        assert!(refusal.has_more && refusal.is_partial);
    }
}

#[test]
fn later_sources_win() {
    let place = Place::with_keys("later");
    let text = GOOD.replace("backend = \"game\"", "backend = \"game\"\nmax_peers = 10");
    let source = |loaded: &Loaded, path: &str| {
        let found = loaded.effective.iter().find(|value| value.path == path);
        found
            .map(|value| (value.value.clone(), value.source.clone()))
            .unwrap()
    };
    let peers = "listener.game.max_peers";
    let plain = place.load(GOOD).unwrap();
    assert_eq!(source(&plain, peers), ("4096".to_owned(), Source::Default));
    let typed = place.load(&text).unwrap();
    assert_eq!(source(&typed, peers), ("10".to_owned(), Source::File));
    let variable = "TIDEGATE__LISTENER__GAME__MAX_PEERS";
    let overridden = place.load_with(&text, &[(variable, "64")]).unwrap();
    assert_eq!(overridden.config.listeners[0].max_peers, 64);
    let environment = Source::Environment(variable.to_owned());
    assert_eq!(source(&overridden, peers), ("64".to_owned(), environment));
}

/// What no flag says, a variable may: without it, only a file could switch health checks off. A flag goes before it.
#[test]
fn variables_change_what_flags_leave_open() {
    let place = Place::with_keys("open");
    let flags = |framing: Option<&str>| ServeFlags {
        listen: "yojimbo://0.0.0.0:40000".to_owned(),
        backend: "tcp://127.0.0.1:7000".to_owned(),
        framing: framing.map(str::to_owned),
        key: Some(place.path("netcode.key").display().to_string()),
    };
    let variables = [
        ("TIDEGATE__BACKEND__DEFAULT__HEALTH__KIND", "off"),
        ("TIDEGATE__BACKEND__DEFAULT__FRAMING", "line"),
        ("TIDEGATE__LISTENER__DEFAULT__MAX_PEERS", "7"),
        ("TIDEGATE__LISTENER__DEFAULT__BIND", "[\"0.0.0.0:1\"]"),
    ];
    let framing = |flags: ServeFlags| {
        let loaded = config::load(&Input {
            environment: variables
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .to_vec(),
            overrides: flags.overrides().unwrap(),
            ..Input::default()
        })
        .unwrap();
        let listener = &loaded.config.listeners[0];
        assert!(listener.backend.health.is_none());
        assert_eq!((listener.max_peers, listener.bind[0].port()), (7, 40000));
        let framing = |value: &&Effective| value.path == "backend.default.framing";
        let found = loaded.effective.iter().find(framing).unwrap();
        found.value.clone()
    };
    assert_eq!(framing(flags(None)), "\"line\"");
    assert_eq!(framing(flags(Some("u16be"))), "\"u16be\"");
}

/// Text stays text where the key wants text, and lists can be given too.
#[test]
fn variables_have_the_type_of_their_key() {
    let place = Place::with_keys("variables");
    let loaded = place
        .load_with(
            &GOOD.replace("listener.game", "listener.my-Game"),
            &[
                ("TIDEGATE__LISTENER__MY_GAME__IDLE_TIMEOUT", "3s"),
                ("TIDEGATE__LISTENER__MY_GAME__NETCODE__PROTOCOL_ID", "0x10"),
                (
                    "TIDEGATE__LISTENER__MY_GAME__LIMITS__DENY",
                    "[\"192.0.2.0/24\"]",
                ),
                ("TIDEGATE__BACKEND__GAME__TCP_NODELAY", "false"),
                (
                    "TIDEGATE__LISTENER__MY_GAME__LIMITS__IP_HANDSHAKES",
                    "{ rate = 7000, burst = 9000 }",
                ),
                ("TIDEGATE_CONFIG", "not of this kind"),
            ],
        )
        .unwrap();
    let listener = &loaded.config.listeners[0];
    assert_eq!(listener.idle_timeout.as_secs(), 3);
    assert_eq!(listener.limits.deny.len(), 1);
    let limit = &listener.limits.ip_handshakes;
    assert_eq!((limit.rate, limit.burst), (7_000, 9_000));
    assert!(!listener.backend.tcp_nodelay);
    let Protocol::Yojimbo(yojimbo) = &listener.protocol else {
        panic!("yojimbo is the default");
    };
    assert_eq!(yojimbo.netcode.protocol_id, 0x10);
}

#[test]
fn variables_of_no_key_are_refused() {
    let place = Place::with_keys("refused");
    for (variable, value, expected) in [
        (
            "TIDEGATE__LISTENER__GANE__MAX_PEERS",
            "1",
            "there is no [listener.gane] to override",
        ),
        (
            "TIDEGATE__LISTENER__GAME__MAXPEERS",
            "1",
            "unknown key `maxpeers`",
        ),
        (
            "TIDEGATE__LISTENER__GAME__MAX_PEERS",
            "many",
            "listener.game.max_peers = \"many\"",
        ),
        (
            "TIDEGATE__LISTENER__GAME__MAX_PEERS",
            "0",
            "listener.game.max_peers = 0 is out of range",
        ),
        (
            "TIDEGATE__LISTENER__GAME__LIMITS",
            "{ deny = [] }",
            "each of its keys is a variable of its own: TIDEGATE__LISTENER__GAME__LIMITS__KEY=...",
        ),
        (
            "TIDEGATE__BACKEND__GAME__HEALTH",
            "{ kind = \"off\" }",
            "each of its keys is a variable of its own: TIDEGATE__BACKEND__GAME__HEALTH__KIND=off",
        ),
        (
            "TIDEGATE__LISTENER__GAME__LIMITS__IP_HANDSHAKES__RATE",
            "7000",
            "TIDEGATE__LISTENER__GAME__LIMITS__IP_HANDSHAKES='{ rate = 200, burst = 400 }'",
        ),
        (
            "TIDEGATE__LOG__LEVEL",
            "info\"\n[admin]\nlisten=\"0.0.0.0:1",
            "no level and no directive",
        ),
    ] {
        let refusal = place
            .load_with(GOOD, &[(variable, value)])
            .expect_err(variable);
        let text = refusal.to_string();
        assert!(text.contains(expected), "{text}");
        assert!(
            text.contains(&format!("environment variable {variable}")),
            "{text}"
        );
    }
}

/// systemd puts credentials elsewhere, and they win over files beside the configuration.
#[test]
fn credentials_come_first() {
    let (place, credentials) = (Place::with_keys("beside"), Place::with_keys("credentials"));
    credentials.write_key("netcode.key", &[9; 32], 0o400);
    let loaded = config::load(&Input {
        file: Some((place.path("tidegate.toml"), GOOD.to_owned())),
        credentials: Some(credentials.dir().to_owned()),
        ..Input::default()
    })
    .unwrap();
    let Protocol::Yojimbo(yojimbo) = &loaded.config.listeners[0].protocol else {
        panic!("yojimbo is the default");
    };
    assert_eq!(yojimbo.netcode.keys[0].as_bytes(), &[9; 32]);
}

/// The unit passes an empty line where `/etc/tidegate/netcode.key` does not exist, since systemd's own words for that
/// would be "Protocol error": the file that is missing is named here.
#[test]
fn an_empty_credential_is_none() {
    let (place, credentials) = (Place::with_keys("absent"), Place::with_keys("empty"));
    fs::remove_file(place.path("netcode.key")).unwrap();
    credentials.write("netcode.key", "\n");
    let refused = config::load(&Input {
        file: Some((place.path("tidegate.toml"), GOOD.to_owned())),
        credentials: Some(credentials.dir().to_owned()),
        ..Input::default()
    })
    .unwrap_err()
    .to_string();
    let missing = place.path("netcode.key");
    let help = format!("tidegate keygen --out {}", missing.display());
    assert!(refused.contains(&help), "{refused}");
}

/// Whatever is printed about a configuration, the key is not in it.
#[test]
fn keys_never_print() {
    let place = Place::with_keys("canary");
    let canary: [u8; 32] = std::array::from_fn(|index| 0xa0 ^ index as u8);
    place.write_key("netcode.key", &canary, 0o600);
    let loaded = place.load(GOOD).unwrap();
    let printed = format!("{loaded:?}").to_lowercase();
    for form in ["a0a1a2a3", "160, 161, 162", "oKGio6Sl"] {
        assert!(
            !printed.contains(&form.to_lowercase()),
            "{form} in {printed}"
        );
    }
}
