//! The built program's command line: exit codes, what goes where, files it writes.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

#[path = "support/place.rs"]
#[expect(
    unreachable_pub,
    reason = "shared with the tests of the running program"
)]
mod place;

use place::Place;

impl Place {
    fn run_with(&self, environment: &[(&str, &str)], line: &str) -> Output {
        Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(words(line))
            .current_dir(self.dir())
            .env_clear()
            .envs(environment.iter().copied())
            .output()
            .expect("the program runs")
    }

    /// Runs, and insists on the exit code; standard output and standard error.
    fn expect(&self, code: i32, line: &str) -> (String, String) {
        self.expect_with(&[], code, line)
    }

    fn expect_with(&self, environment: &[(&str, &str)], code: i32, line: &str) -> (String, String) {
        let output = self.run_with(environment, line);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{line}\n{out}\n{err}");
        (out, err)
    }
}

/// The arguments of a line as they would be typed; '' is an empty one.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(' ').map(|word| word.trim_matches('\''))
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path)
        .expect("the file was made")
        .permissions()
        .mode()
        & 0o777
}

#[test]
fn keys_are_made_once() {
    let place = Place::new("keygen");
    let (out, err) = place.expect(0, "keygen --out netcode.key");
    assert!(
        out.is_empty() && err.starts_with("made netcode.key (fingerprint "),
        "{err}"
    );
    assert_eq!(mode(&place.path("netcode.key")), 0o600);
    let before = fs::read(place.path("netcode.key")).unwrap();
    let (_, err) = place.expect(1, "keygen --out netcode.key");
    assert!(err.contains("must not be lost"), "{err}");
    assert_eq!(fs::read(place.path("netcode.key")).unwrap(), before);
    let (one, _) = place.expect(0, "keygen");
    let (other, _) = place.expect(0, "keygen");
    assert_eq!(one.trim().len(), 64);
    assert_ne!(one, other);
}

/// By its name of everywhere, and no file of that name.
#[test]
fn a_single_dash_is_standard_output() {
    let place = Place::new("dash");
    place.expect(0, "keygen --out key");
    let (hex, _) = place.expect(0, "keygen --out -");
    assert_eq!(hex.trim().len(), 64);
    let mint = "token mint --key key --client-id 7 --server 127.0.0.1:40000 --out -";
    let minted = place.run_with(&[], mint);
    assert_eq!(minted.status.code(), Some(0));
    place.write("token", minted.stdout);
    let (said, _) = place.expect(0, "token inspect --key key token");
    assert!(said.contains("client id        7 "), "{said}");
    assert!(!place.path("-").exists());
}

#[test]
fn check_says_good_or_what_is_wrong() {
    let place = Place::new("check");
    place.expect(0, "keygen --out netcode.key");
    let (minimal, _) = place.expect(0, "init yojimbo");
    place.write("good.toml", &minimal);
    let (out, _) = place.expect(0, "check -c good.toml");
    assert!(
        out.starts_with("good.toml: good\n  listener game: yojimbo on "),
        "{out}"
    );
    // What the page for yojimbo users shows is what is printed, save for names and keys.
    let page = include_str!("../docs/YOJIMBO.md");
    for line in out.lines().skip_while(|line| !line.contains("protocol id")) {
        assert!(page.contains(line), "docs/YOJIMBO.md does not show: {line}");
    }
    let (json, _) = place.expect(0, "check -c good.toml --json");
    let object: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!(object["listener"], "game");
    let layout = format!("layout {}", object["layout"].as_str().unwrap());
    assert!(out.contains(&layout), "{out}");
    let (out, _) = place.expect(0, "check -c good.toml --print");
    assert!(out.contains("listener.game.max_peers = 4096"), "{out}");
    assert!(out.lines().any(|line| line.contains("# default")), "{out}");
    assert!(out.lines().any(|line| line.ends_with("# file")), "{out}");

    place.write("bad.toml", minimal.replace("backend", "bakend"));
    let (out, err) = place.expect(78, "check -c bad.toml");
    assert!(
        out.is_empty() && err.contains("unknown key `bakend`"),
        "{err}"
    );
    let (out, _) = place.expect(78, "check -c bad.toml --json");
    for line in out.lines() {
        let object: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(
            object["error"].is_string() && object["place"]["line"].is_u64(),
            "{line}"
        );
    }
    place.expect(78, "serve -c bad.toml");
    let (_, err) = place.expect(69, "check -c missing.toml");
    assert!(
        err.contains("cannot read missing.toml") && err.contains("help: is the path right"),
        "{err}"
    );
    place.expect(2, "check");
    place.expect(2, "serve");
    place.expect(2, "connect --listen tcp://127.0.0.1:0 --remote game:40000");
}

/// The page for yojimbo users quotes the client that was built and tried, not another one.
#[test]
fn the_page_quotes_the_client() {
    let page = include_str!("../docs/YOJIMBO.md");
    let client = include_str!("../docs/examples/yojimbo_client.cpp");
    let (_, rest) = page.split_once("```cpp\n").unwrap();
    let (quoted, _) = rest.split_once("```").unwrap();
    assert!(quoted.contains("serialize_int") && client.contains(quoted));
}

/// Every starting file that `init` prints is good as it is.
#[test]
fn init_prints_good_files() {
    let place = Place::new("init");
    place.expect(0, "keygen --out netcode.key");
    for kind in ["yojimbo", "gaffer", "rudp", "tunnel", "reference"] {
        let (text, _) = place.expect(0, &format!("init {kind}"));
        place.write("file.toml", text);
        place.expect(0, "check -c file.toml");
    }
}

#[test]
fn tokens_are_minted_and_explained() {
    let place = Place::new("token");
    place.expect(0, "keygen --out netcode.key");
    let (_, made) = place.expect(0, "keygen --out other.key");
    let other = made.rsplit(' ').next().unwrap().trim_matches([')', '\n']);
    let server = "203.0.113.7:40000";
    let mint = format!("token mint --client-id 7 --server {server}");
    let to_file = format!("{mint} --out token --user-data c0ffee");
    place.expect(0, &to_file);
    place.expect(0, &to_file);
    assert_eq!(mode(&place.path("token")), 0o600);
    assert_eq!(fs::read(place.path("token")).unwrap().len(), 2048);
    let (text, _) = place.expect(0, &mint);
    place.write("token.txt", text);

    for file in ["token", "token.txt"] {
        let known = format!("token inspect {file} --key netcode.key --server {server}");
        let (out, _) = place.expect(0, &known);
        assert!(out.contains("client id        7 "), "{out}");
        assert!(out.contains("would take it, once"), "{out}");
        assert!(out.contains("unless it was started after"), "{out}");
        let (out, _) = place.expect(0, &format!("{known} --started 1000"));
        assert!(out.ends_with("would take it, once\n"), "{out}");
        let far = place.expect(1, &format!("{known} --started 99999999999"));
        assert!(far.0.contains("token_before_start"), "{}", far.0);
        assert!(!far.0.contains("would take it"), "{}", far.0);
    }
    // As `init yojimbo` would have it: nobody has said that the server of this key takes less.
    place.expect(0, &format!("{mint} --out longer --lifetime 45s"));
    let (out, _) = place.expect(0, "token inspect longer --key netcode.key");
    let clause = "where max_token_lifetime is 45 s or more\n";
    assert!(out.ends_with(clause), "{out}");
    let (out, _) = place.expect(0, "token inspect token");
    assert!(out.contains("private part     sealed"), "{out}");
    assert!(!out.contains("client id"), "{out}");
    let (out, _) = place.expect(1, "token inspect token --key other.key");
    let refused = format!("refused (token_key): made with none of the server's keys: {other}\n");
    assert!(out.contains(&refused), "{out}");

    // The same question about a listener of a file.
    let config = |address: &str| {
        let (text, _) = place.expect(0, "init yojimbo");
        let text = text.replace("203.0.113.7:40000", address);
        let lan = "[listener.lan]\nprotocol = \"gaffer\"\nbind = [\"127.0.0.1:40001\"]\nbackend = \"game\"\n";
        place.write("tidegate.toml", text + lan);
    };
    config(server);
    let (out, _) = place.expect(0, "token inspect token -c tidegate.toml");
    assert!(out.contains("user data        3 bytes"), "{out}");
    // It lives for 30 s, and tokens of that listener for 45: a start hides what was used 15 s before it was made.
    let made = out.lines().find_map(|line| line.strip_prefix("made"));
    let made = made.and_then(|rest| rest.split_whitespace().next());
    let start = made.unwrap().parse::<u64>().unwrap() - 15;
    let unless = format!("unless it was started after {start} (");
    assert!(out.contains(&unless), "{out}");
    place.expect(2, "token inspect token --started 1000");
    config("203.0.113.7:40009");
    let (out, _) = place.expect(1, "token inspect token -c tidegate.toml --json");
    let object: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(object["refusals"][0]["reason"], "token_address");
    assert_eq!(object["private"]["client_id"], "7");
    assert!(!out.contains("c0ffee"), "user data is nobody's business");
}

/// Which listener a token is compared with: one that has tokens, and where that is not clear the answer names those.
#[test]
fn a_token_is_compared_with_a_listener_that_has_tokens() {
    let place = Place::new("token-listener");
    place.expect(0, "keygen --out netcode.key");
    place.expect(
        0,
        "token mint --client-id 7 --server 127.0.0.1:40000 --out token",
    );
    let config = |protocols: &[&str]| {
        let mut text = "version = 1\n[backend.game]\ntargets = [\"tcp://127.0.0.1:7000\"]\nframing = \"raw\"\n".to_owned();
        for (n, protocol) in protocols.iter().enumerate() {
            text += &format!("[listener.l{n}]\nprotocol = \"{protocol}\"\nbackend = \"game\"\n");
            text += &format!("bind = [\"127.0.0.1:4000{n}\"]\n");
            if *protocol == "yojimbo" {
                text += "netcode.key_file = \"netcode.key\"\n";
            }
        }
        place.write("tidegate.toml", text);
    };
    let inspect = "token inspect token -c tidegate.toml";
    for (protocols, option, said) in [
        (&["gaffer"][..], "", "no listener of this file has tokens"),
        (
            &["gaffer", "rudp"],
            "",
            "no listener of this file has tokens",
        ),
        (
            &["gaffer"],
            " --listener l0",
            "listener l0 speaks gaffer, which has no tokens",
        ),
        (
            &["gaffer"],
            " --listener l9",
            "no listener is called l9, and none has tokens",
        ),
        (
            &["gaffer", "yojimbo"],
            " --listener l0",
            "listener l0 speaks gaffer, which has no tokens",
        ),
        (
            &["gaffer", "yojimbo", "yojimbo"],
            "",
            "choose one with --listener: l1, l2",
        ),
        (
            &["gaffer", "yojimbo", "yojimbo"],
            " --listener l9",
            "no listener is called l9; with tokens there are: l1, l2",
        ),
    ] {
        config(protocols);
        let (_, err) = place.expect(2, &format!("{inspect}{option}"));
        assert!(err.contains(said), "{protocols:?} {option}: {err}");
    }
    config(&["yojimbo", "gaffer", "rudp"]);
    place.expect(0, inspect);
    config(&["yojimbo", "yojimbo"]);
    place.expect(0, &format!("{inspect} --listener l0"));
    let (out, _) = place.expect(1, &format!("{inspect} --listener l1"));
    assert!(out.contains("token_address"), "{out}");
}

/// Asked about a program that does not run, the answer is no, and says whom it asked.
#[test]
fn health_of_nobody_is_bad() {
    let place = Place::new("health");
    // Its port is taken, by a socket that does not listen: nobody else answers there.
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let loopback = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    socket.bind(&loopback.into()).unwrap();
    let admin = socket
        .local_addr()
        .unwrap()
        .as_socket()
        .unwrap()
        .to_string();
    let (_, err) = place.expect(1, &format!("health --ready --admin {admin}"));
    assert!(
        err.contains(&format!("asking http://{admin}/readyz")),
        "{err}"
    );
    assert!(err.contains("--admin or $TIDEGATE_ADMIN"), "{err}");
}

/// Who has neither file nor flags is told all that is missing, and how to begin.
#[test]
fn nothing_to_run_is_told_with_a_way_out() {
    let place = Place::new("nothing");
    for (command, flags, kind) in [
        ("serve", "--listen URL --backend URL", "yojimbo"),
        ("connect", "--listen URL --remote URL", "tunnel"),
    ] {
        let (_, err) = place.expect(2, command);
        assert!(
            err.contains(flags) && err.contains(&format!("tidegate init {kind}")),
            "{err}"
        );
    }
    let (client, _) = place.expect(0, "init tunnel");
    assert!(client.contains("tidegate init bridge"), "{client}");
    place.expect(0, "keygen --out netcode.key");
    let (server, _) = place.expect(0, "init bridge");
    place.write("server.toml", server);
    place.expect(0, "check --config server.toml");
    // Where a socket was named, naming one is no help.
    let (_, err) = place.expect(69, "ctl --control nowhere.sock stats");
    assert!(
        err.contains("its log names it") && !err.contains("with --control or"),
        "{err}"
    );
}

/// What is announced can be used: a start that ends again, since the page's port or the control
/// socket cannot be had, says nothing of listening.
#[test]
fn nothing_is_announced_before_everything_is_bound() {
    let place = Place::new("announced");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let admin = taken.local_addr().expect("its number").to_string();
    let serve = "serve --listen gaffer://127.0.0.1:0 --backend tcp://127.0.0.1:1";
    let connect = "connect --listen tcp://127.0.0.1:0 --remote gaffer://127.0.0.1:1";
    for command in [serve, connect] {
        let taken = format!("{command} --control '' --admin {admin}");
        let (_, err) = place.expect(69, &taken);
        assert!(err.contains("admin: cannot bind"), "{err}");
        assert!(!err.contains("listening"), "{err}");
        let nowhere = format!("{command} --control nowhere/sock --admin ''");
        let (_, err) = place.expect(69, &nowhere);
        assert!(err.contains("control socket"), "{err}");
        assert!(!err.contains("listening"), "{err}");
    }
}

/// The demo's page goes elsewhere when its usual port is taken, but not when somebody said where.
#[test]
fn the_page_of_a_demo_is_where_it_was_asked_for() {
    let place = Place::new("demo-admin");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let admin = taken.local_addr().unwrap().to_string();
    let (_, err) = place.expect(69, &format!("demo --for 1s --admin {admin}"));
    assert!(
        err.contains(&format!("admin: cannot bind {admin}")),
        "{err}"
    );
}

/// A wrong word in a flag is one mistake, at that flag, with the words that are right.
#[test]
fn a_refused_flag_is_one_mistake() {
    let place = Place::new("flag");
    let arguments =
        "serve --listen yojimbo://127.0.0.1:0 --backend tcp://127.0.0.1:7000 --framing u8";
    let (_, err) = place.expect(78, arguments);
    assert!(err.contains("unknown value `u8`"), "{err}");
    assert!(err.contains("--> --framing u8"), "{err}");
    assert!(err.contains("help: accepted are `u16be`"), "{err}");
    assert!(err.contains("configuration refused: 1 mistake; "), "{err}");
}

/// Such a token would be refused everywhere, or let its holder in nowhere, and nobody would know why.
#[test]
fn tokens_that_let_nobody_in_are_not_minted() {
    let place = Place::new("useless");
    place.expect(0, "keygen --out netcode.key");
    let good = "203.0.113.7:40000";
    for (server, more, why) in [
        ("203.0.113.7:0", "", "nobody can dial that"),
        ("0.0.0.0:40000", "", "nobody can dial that"),
        ("localhost:40000", "", "such as 203.0.113.7:40000"),
        ("[fe80::1%2]:40000", "", "on which interface"),
        (good, " --lifetime 0s", "less than 1s"),
        (good, " --timeout 1ms", "less than 1s"),
        (good, " --lifetime 86401s", "more than 86400 s"),
        (good, " --timeout 2147483648s", "more than 2147483647 s"),
        (good, " --lifetime 1500ms", "no whole number of seconds"),
    ] {
        let mint = format!("token mint --client-id 7 --server {server}{more}");
        let (_, err) = place.expect(2, &mint);
        assert!(err.contains(why), "{err}");
    }
}

/// The control plane counts in seconds: of 900 ms of grace it would make none, and end all sessions at once.
#[test]
fn a_part_of_a_second_is_refused_where_seconds_count() {
    let place = Place::new("seconds");
    for order in [
        "drain --grace 900ms",
        "ban 7 --for 500ms",
        "log debug --for 1500ms",
    ] {
        let (_, err) = place.expect(2, &format!("ctl {order}"));
        assert!(err.contains("no whole number of seconds"), "{err}");
    }
    // Nobody is there to be asked: the duration was taken.
    place.expect(69, "ctl drain --grace 2000ms");
}

/// A variable that is wrong is called by its name, a flag goes before it, and `check` looks at it as `serve` does.
#[test]
fn variables_are_told_from_flags() {
    let place = Place::new("variables");
    let (_, err) = place.expect(0, "keygen --out netcode.key");
    assert!(err.contains("made netcode.key"), "{err}");
    place.write("good.toml", include_str!("../config/minimal.toml"));
    let wrong = [("TIDEGATE_LOG_LEVEL", "loud")];
    for command in ["serve", "check"] {
        let (_, err) = place.expect_with(&wrong, 78, &format!("{command} --config good.toml"));
        let named = "\"loud\" is no level\n --> environment variable TIDEGATE_LOG_LEVEL\n";
        assert!(err.contains(named), "{err}");
    }
    // What is wrong with the flags shows that neither variable was held against them.
    let both = [
        ("TIDEGATE_LOG_LEVEL", "info"),
        ("TIDEGATE_CONFIG", "good.toml"),
    ];
    let arguments = "serve -v --listen gaffer://127.0.0.1:0 --backend nonsense";
    let (_, err) = place.expect_with(&both, 78, arguments);
    assert!(err.contains("--> --backend nonsense"), "{err}");
    let (_, err) = place.expect_with(&both, 2, "serve -v -q");
    assert!(err.contains("cannot be used with"), "{err}");
}

/// A file that is checked may be somebody else's: what it says is quoted, and a terminal does not obey it.
#[test]
fn what_a_mistake_quotes_moves_no_cursor() {
    let place = Place::new("quotes");
    let lines = [
        "# \x1b[2J\x1b]0;owned\x07\n",
        "version = 1\n\"\\u001b[31m\" = 1\n",
        "version = 1\nlistener = \"\u{9b}31m\"\n",
    ];
    for line in lines {
        place.write("odd.toml", line);
        let (_, said) = place.expect(78, "check --config odd.toml");
        let obeyed = |it: char| it.is_control() && it != '\n';
        assert!(!said.contains(obeyed), "{said:?}");
        assert!(said.contains('\u{fffd}'), "{said:?}");
    }
}

/// What is no configuration at all is refused as one, and not read to its end.
#[test]
fn a_file_of_another_kind_is_refused() {
    let place = Place::new("kinds");
    place.write("windows.toml", b"v\0e\0r\0\n\0\xff\xfe");
    let (_, err) = place.expect(78, "check --config windows.toml");
    assert!(
        err.contains("no UTF-8 text, from line 2 on\n help: "),
        "{err}"
    );
    let huge = fs::File::create(place.path("huge.toml")).unwrap();
    huge.set_len(5 << 20).unwrap();
    let (_, err) = place.expect(78, "check --config huge.toml");
    assert!(
        err.contains("huge.toml has more than 4194304 bytes"),
        "{err}"
    );
}

/// One that would wait for ever is ended after half a minute. What it said, and its exit code.
fn bounded(place: &Place, line: &str, input: &[u8]) -> (Option<i32>, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(words(line))
        .current_dir(place.dir())
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    // It may have refused to read.
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(input).ok();
    drop(stdin);
    let mut said = String::new();
    let mut stderr = child.stderr.take().expect("it is piped");
    #[expect(clippy::disallowed_methods, reason = "a test waits by the clock")]
    let deadline = Instant::now() + Duration::from_secs(30);
    let code = loop {
        if let Some(status) = child.try_wait().expect("it is ours") {
            break status.code();
        }
        #[expect(clippy::disallowed_methods, reason = "a test waits by the clock")]
        if Instant::now() > deadline {
            child.kill().ok();
            child.wait().ok();
            break None;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    stderr.read_to_string(&mut said).expect("it is text");
    (code, said)
}

/// What is named as a key, a token or a configuration may be a pipe, and nothing else that is no file.
#[test]
fn directories_devices_and_sockets_are_refused_and_pipes_are_read() {
    let place = Place::new("given");
    place.expect(0, "keygen --out netcode.key");
    let (minimal, _) = place.expect(0, "init yojimbo");
    // A relative name would be looked up beside the pipe.
    let absolute = place.path("netcode.key").display().to_string();
    let minimal = minimal.replace("netcode.key", &absolute);
    let mint = "token mint --client-id 7 --server 127.0.0.1:1 --key";
    let (token, _) = place.expect(0, &format!("{mint} netcode.key"));
    let key = fs::read(place.path("netcode.key")).unwrap();
    fs::create_dir(place.path("folder")).unwrap();
    let _socket = UnixListener::bind(place.path("socket")).unwrap();
    for (name, what) in [
        ("folder", "it is a directory"),
        ("/dev/zero", "it is a device"),
        ("socket", "it is a socket"),
    ] {
        for (code, command) in [(78, "check --config"), (1, mint), (1, "token inspect")] {
            let line = format!("{command} {name}");
            let (found, said) = bounded(&place, &line, b"");
            assert_eq!(found, Some(code), "{line}: {said}");
            assert!(said.contains(what), "{line}: {said}");
        }
    }
    for command in [mint, "token inspect", "replay"] {
        let (found, said) = bounded(&place, &format!("{command} absent"), b"");
        assert_eq!(found, Some(69), "{command}: {said}");
        let times = said.matches("No such file").count();
        assert_eq!(times, 1, "said so often: {said}");
    }
    let fifo = place.path("fifo");
    let made = Command::new("mkfifo")
        .args(["-m", "600"])
        .arg(&fifo)
        .status();
    assert!(made.unwrap().success());
    for (content, command) in [
        (minimal.as_bytes(), "check --config"),
        (&key, mint),
        (token.as_bytes(), "token inspect"),
    ] {
        let (found, said) = bounded(&place, &format!("{command} /dev/stdin"), content);
        assert_eq!(found, Some(0), "{command}: {said}");
        // Somebody comes to write to it, later.
        let (content, path) = (content.to_vec(), fifo.clone());
        let writer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            fs::write(path, content).ok();
        });
        let (found, said) = bounded(&place, &format!("{command} fifo"), b"");
        assert_eq!(found, Some(0), "{command}: {said}");
        writer.join().unwrap();
    }
}

/// A mistake is told before anything is written.
#[test]
fn a_refused_start_makes_no_key() {
    let place = Place::new("nokey");
    for more in [
        "--listen yojimbo://nowhere",
        "--listen yojimbo://0.0.0.0:0",
        "--framing u7be",
        "--log-level loud",
    ] {
        let serve = format!("serve --backend tcp://127.0.0.1:1 {more}");
        let (_, err) = place.expect(78, &serve);
        assert!(!err.contains("key"), "{err}");
        let made: Vec<_> = fs::read_dir(place.dir()).unwrap().collect();
        assert!(made.is_empty(), "{more}: {made:?}");
    }
}

/// A file that cannot be made is 69, and never written over.
#[test]
fn files_that_cannot_be_made_are_unavailable() {
    let place = Place::new("unavailable");
    place.write("taken", "precious");
    let serve = "serve --listen gaffer://127.0.0.1:0 --backend tcp://127.0.0.1:1 --admin 127.0.0.1:0 --capture taken";
    let (_, err) = place.expect(69, serve);
    let cannot = format!("cannot make {}: ", place.path("taken").display());
    assert!(
        err.contains(&cannot) && err.contains("choose a new name"),
        "{err}"
    );
    assert_eq!(fs::read_to_string(place.path("taken")).unwrap(), "precious");
    let (_, err) = place.expect(69, "keygen --out nowhere/key");
    assert!(
        err.contains("cannot make nowhere/key: No such file"),
        "{err}"
    );
}

/// What is in a place, by name.
fn files(place: &Place) -> Vec<std::ffi::OsString> {
    let files = fs::read_dir(place.dir()).expect("it is there").flatten();
    let mut names: Vec<_> = files.map(|entry| entry.file_name()).collect();
    names.sort();
    names
}

/// A token is written beside its name first. Where it cannot take that name, its keys do not stay behind.
#[test]
fn a_token_that_cannot_have_its_name_is_not_left_behind() {
    let place = Place::new("token-name");
    place.expect(0, "keygen --out key");
    fs::create_dir(place.path("taken")).expect("its place is there");
    let mint = "token mint --key key --client-id 7 --server 127.0.0.1:40000 --out taken";
    let (_, said) = place.expect(69, mint);
    assert!(
        said.contains("error: cannot write taken: Is a directory"),
        "{said}"
    );
    assert_eq!(files(&place), ["key", "taken"]);
}

/// A shell runs the program, which it knows as $0, and insists on the exit code; standard error.
fn by_shell(place: &Place, code: i32, line: &str) -> String {
    let output = Command::new("sh")
        .args(["-c", line])
        .arg(env!("CARGO_BIN_EXE_tidegate"))
        .current_dir(place.dir())
        .output()
        .expect("there is a shell");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{said}");
    said
}

/// A limit of file sizes is the kernel's way to end who writes more, before a word is said and with half a file left.
#[test]
fn a_file_that_may_not_grow_is_told_of_and_not_left_behind() {
    let place = Place::new("file-size");
    place.expect(0, "keygen --out key");
    let mint = "token mint --key key --client-id 7 --server 127.0.0.1:40000 --out token";
    for (code, cannot, command) in [
        (69, "cannot make new.key: ", "keygen --out new.key"),
        (69, "cannot write token: ", mint),
        (1, "cannot write to standard output: ", "init yojimbo >file"),
    ] {
        let said = by_shell(&place, code, &format!("ulimit -f 0; \"$0\" {command}"));
        assert!(
            said.contains(&format!("error: {cannot}File too large")),
            "{said}"
        );
        assert!(said.contains("LimitFSIZE="), "{said}");
    }
    assert_eq!(
        files(&place),
        ["file", "key"],
        "the shell's, and the key from before"
    );
}

/// One trouble has one code, whichever command meets it, and says what to do about it.
#[test]
fn a_full_disk_is_told_of_with_what_to_do() {
    let place = Place::new("full");
    place.expect(0, "keygen --out key");
    let mint = "token mint --key key --client-id 7 --server 127.0.0.1:40000 >/dev/full";
    for command in ["init yojimbo >/dev/full", "keygen >/dev/full", mint] {
        let said = by_shell(&place, 1, &format!("\"$0\" {command}"));
        let why = "error: cannot write to standard output: No space left on device";
        assert!(said.contains(why), "{said}");
        assert!(said.contains(" help: the disk has no room"), "{said}");
    }
    // Where a file cannot be made, it is the file that is not available.
    place.write("file", "in the way of a directory");
    for command in [
        "keygen --out file/key",
        "man file/man",
        "token mint --key key --client-id 7 --server 127.0.0.1:40000 --out file/token",
    ] {
        let (_, said) = place.expect(69, command);
        assert!(said.contains("file/"), "{said}");
        assert!(said.contains("Not a directory"), "{said}");
    }
}

/// Without it, `journalctl -p err` does not show why a unit did not start. A shell below a unit has the variable
/// too, and nobody takes the mark away there.
#[test]
fn only_the_journal_is_told_how_bad_an_error_is() {
    let place = Place::new("journal");
    let said = |name: &str, is_journal: bool| {
        let file = fs::File::create(place.path(name)).expect("a file can be made");
        let found = file.metadata().expect("it is there");
        let inode = found.ino() + u64::from(!is_journal);
        Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["ctl", "--control", "nobody.sock", "stats"])
            .current_dir(place.dir())
            .env("JOURNAL_STREAM", format!("{}:{inode}", found.dev()))
            .stderr(file)
            .status()
            .expect("the program runs");
        fs::read_to_string(place.path(name)).expect("it was written")
    };
    let (plain, marked) = (said("shell", false), said("journal", true));
    assert!(plain.starts_with("error: "), "{plain}");
    let lines: Vec<String> = plain.lines().map(|line| format!("<3>{line}")).collect();
    assert_eq!(marked.lines().collect::<Vec<_>>(), lines);
}

/// Whatever a device without an end is taken for, it is refused for what it is, and not read until memory is used up.
#[test]
fn a_file_without_an_end_is_refused_for_its_beginning() {
    let place = Place::new("endless");
    let (key, _) = place.expect(0, "keygen");
    place.write("key", key);
    fs::set_permissions(place.path("key"), fs::Permissions::from_mode(0o600)).expect("it is ours");
    let mint =
        "token mint --key key --client-id 1 --server 127.0.0.1:40000 --user-data-file /dev/zero";
    for (arguments, said) in [
        ("replay /dev/zero", "not a pcapng file"),
        ("token inspect /dev/zero", "it is a device"),
        (mint, "it is a device"),
    ] {
        let output = Command::new("sh")
            .args(["-c", "ulimit -v 1048576; exec \"$0\" \"$@\""])
            .arg(env!("CARGO_BIN_EXE_tidegate"))
            .args(words(arguments))
            .current_dir(place.dir())
            .output()
            .expect("the program runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains(said), "{arguments}: {error}");
        assert!(!output.status.success(), "{arguments}");
    }
}
