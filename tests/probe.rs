//! What an operator asks before and beside a running tidegate: `check --probe` and `health`.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the answer")]

mod support;

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use support::place::Place;
use support::program::{Program, program};
use support::scene::ctl;
use support::{PATIENCE, closed_port, own_address, wait_until};

struct Site {
    place: Place,
    config: PathBuf,
    udp: SocketAddr,
    admin: SocketAddr,
    backend: TcpListener,
}

impl Site {
    fn new(name: &str) -> Self {
        let place = Place::new(&format!("probe-{name}"));
        let (admin, udp) = (own_address(), own_address());
        let backend = TcpListener::bind("127.0.0.1:0").unwrap();
        let text = format!(
            "version = 1\n[admin]\nlisten = \"{admin}\"\ncontrol_socket = \"{}\"\n\
             [listener.game]\nprotocol = \"gaffer\"\nbind = [\"{udp}\"]\nbackend = \"game\"\n\
             [backend.game]\ntargets = [\"tcp://{}\"]\nframing = \"raw\"\n\
             health = {{ kind = \"off\" }}\n",
            place.path("control.sock").display(),
            backend.local_addr().unwrap()
        );
        let config = place.write("tidegate.toml", &text);
        Self {
            place,
            config,
            udp,
            admin,
            backend,
        }
    }

    fn check(&self, more: &[&str]) -> (Option<i32>, String) {
        let mut command = program();
        command.args(["check", "--probe", "--config"]);
        let output = command.arg(&self.config).args(more).output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
        )
    }

    fn health(&self, more: &[&str]) -> (Option<i32>, String) {
        let admin = self.admin.to_string();
        let mut command = program();
        let output = command.args(["health", "--admin", &admin]).args(more);
        let output = output.output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
        )
    }

    fn start(&self) -> Program {
        let server =
            Program::start(program().args(["serve", "--config", self.config.to_str().unwrap()]));
        server.logged("control");
        server
    }
}

/// Free ports and a backend that answers; then the same with tidegate itself on the ports, which
/// notices nothing.
#[test]
fn what_is_there_is_said_to_be_good() {
    let site = Site::new("good");
    let (code, text) = site.check(&[]);
    assert_eq!(code, Some(0), "{text}");
    let backend = site.backend.local_addr().unwrap();
    for line in [
        format!("ok      listener.game: bind udp {}", site.udp),
        format!("ok      admin: bind tcp {}", site.admin),
        format!("ok      backend.game: connect tcp://{backend}: {backend}"),
    ] {
        assert!(text.contains(&line), "{line}\n{text}");
    }

    let server = site.start();
    let (code, text) = site.check(&[]);
    assert_eq!(code, Some(0), "{text}");
    let held = text
        .lines()
        .filter(|line| line.ends_with("held by the tidegate that runs here"));
    assert_eq!(held.count(), 3, "{text}");
    assert_eq!(site.health(&["--ready"]).0, Some(0));
    drop(server);

    // What the killed process left is no obstacle.
    let (code, text) = site.check(&["--json"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("left over by a dead process"), "{text}");
}

/// Each thing that is missing is named, with what to do about it.
#[test]
fn what_is_missing_is_said() {
    let site = Site::new("missing");
    let _taken = UdpSocket::bind(site.udp).unwrap();
    let dead = site.backend.local_addr().unwrap();
    let text = std::fs::read_to_string(&site.config).unwrap();
    let (_closed, nobody) = closed_port();
    let text = text.replace(&dead.to_string(), &nobody.to_string());
    let control = site.place.path("control.sock").display().to_string();
    let nowhere = site.place.path("no/control.sock").display().to_string();
    site.place
        .write("tidegate.toml", text.replace(&control, &nowhere));
    let (code, text) = site.check(&[]);
    assert_eq!(code, Some(69), "{text}");
    for line in [
        format!("FAILED  listener.game: bind udp {}: cannot bind", site.udp),
        "help: another program has it; `ss -uapn".to_owned(),
        format!("FAILED  backend.game: connect tcp://{nobody}: Connection refused"),
        "help: nothing listens there".to_owned(),
        "help: make it, or let systemd do so".to_owned(),
        "3 of 4 probes failed".to_owned(),
    ] {
        assert!(text.contains(&line), "{line}\n{text}");
    }
    let (code, text) = site.check(&["--json"]);
    assert_eq!(code, Some(69));
    let objects = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let objects: Vec<Value> = objects.collect();
    let failed = objects.iter().filter(|object| object["ok"] == false);
    assert_eq!(failed.count(), 4, "three probes, and the sum: {text}");
}

/// What would start, and end the process or refuse players later, is not good; for a script it can be as bad as the
/// rest.
#[test]
fn what_would_hurt_later_is_a_warning() {
    let site = Site::new("warning");
    let text = std::fs::read_to_string(&site.config).unwrap();
    let state = site.place.path("state");
    let runtime = format!(
        "version = 1\n[runtime]\nmax_peers = 10\nqueue_memory = \"1MiB\"\n\
         udp_recv_buffer = \"1GiB\"\nstate_directory = \"{}\"\n",
        state.display()
    );
    let text = text.replace("version = 1\n", &runtime);
    site.place.write("tidegate.toml", &text);
    let (code, text) = site.check(&[]);
    assert_eq!(code, Some(0), "{text}");
    for line in [
        format!(
            "WARNING listener.game: bind udp {}: the kernel grants",
            site.udp
        ),
        format!(
            "WARNING runtime: state directory {}: no file",
            state.display()
        ),
        "help: make the directory".to_owned(),
        "2 of 5 probes warn".to_owned(),
    ] {
        assert!(text.contains(&line), "{line}\n{text}");
    }
    assert_eq!(site.check(&["--strict"]).0, Some(69));
    let (code, text) = site.check(&["--json"]);
    assert_eq!(code, Some(0), "{text}");
    let objects = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let objects: Vec<Value> = objects.collect();
    let warnings = objects
        .iter()
        .filter(|object| object["warning"].is_string());
    assert_eq!(warnings.count(), 2, "{text}");
    assert_eq!(objects.last().unwrap()["warnings"], 2, "{text}");

    std::fs::create_dir(&state).unwrap();
    let kind = Command::new("stat")
        .args(["-f", "-c", "%T"])
        .arg(&state)
        .output();
    let verdict = match kind.unwrap().stdout.as_slice() {
        b"tmpfs\n" => format!("ok      runtime: state directory {}\n", state.display()),
        _ => format!(
            "WARNING runtime: state directory {}: it is on a disk\n",
            state.display()
        ),
    };
    let (_, text) = site.check(&["--strict"]);
    assert!(text.contains(&verdict), "{text}");
    assert_eq!(std::fs::read_dir(&state).unwrap().count(), 0, "it is tidy");
}

/// The file that `init` prints is good, and still nobody's.
#[test]
fn an_address_of_an_example_is_a_warning() {
    let place = Place::new("probe-example");
    let run = |arguments: &[&str]| {
        let output = program().args(arguments).current_dir(place.dir()).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    run(&["keygen", "--out", "netcode.key"]);
    place.write("tidegate.toml", run(&["init", "yojimbo"]));
    let text = run(&["check", "--probe", "--config", "tidegate.toml"]);
    for address in ["203.0.113.7:40000", "[2001:db8::7]:40000"] {
        let line = format!("WARNING listener.game: public address {address}: ");
        assert!(text.contains(&line), "{line}\n{text}");
    }
}

/// On a disk that is full, or cannot be written to, much can be made that is then of no use.
#[test]
fn places_are_tried_and_not_only_looked_at() {
    let site = Site::new("full");
    let state = site.place.path("state");
    std::fs::create_dir(&state).unwrap();
    let text = std::fs::read_to_string(&site.config).unwrap();
    let control = site.place.path("control.sock");
    let runtime = format!(
        "[runtime]\nstate_directory = \"{}\"\n[admin]\n",
        state.display()
    );
    let text = text
        .replace("[admin]\n", &runtime)
        .replace(control.to_str().unwrap(), "/proc/control.sock");
    site.place.write("tidegate.toml", &text);
    // No file may have a byte in it.
    let script = "ulimit -f 0; exec \"$0\" check --probe --config \"$1\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_tidegate")]);
    let output = command.arg(&site.config).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for line in [
        format!(
            "WARNING runtime: state directory {}: no file can be written there",
            state.display()
        ),
        "FAILED  admin: control socket /proc/control.sock: ".to_owned(),
    ] {
        assert!(text.contains(&line), "{line}\n{text}");
    }
    // It is there.
    assert!(!text.contains("make the directory"), "{text}");
    assert_eq!(output.status.code(), Some(69), "{text}");
    assert_eq!(std::fs::read_dir(&state).unwrap().count(), 0, "it is tidy");

    std::fs::remove_dir(&state).unwrap();
    std::fs::write(&state, "").unwrap();
    let (_, text) = site.check(&[]);
    assert!(
        text.contains("help: a file has the name of the directory"),
        "{text}"
    );
}

/// One that was killed half-way in a container, where the next one has its number, does not stand in the way.
#[test]
fn what_a_killed_probe_left_is_no_obstacle() {
    let site = Site::new("left");
    let state = site.place.path("state");
    std::fs::create_dir(&state).unwrap();
    let text = std::fs::read_to_string(&site.config).unwrap();
    let runtime = format!(
        "[runtime]\nstate_directory = \"{}\"\n[admin]\n",
        state.display()
    );
    let text = text.replace("[admin]\n", &runtime);
    site.place.write("tidegate.toml", &text);
    let script = "cd \"$1\" && touch .probe-$$ state/.probe-$$ && exec \"$0\" check --probe --config tidegate.toml";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_tidegate")]);
    let output = command.arg(site.place.dir()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(!text.contains("no file can be written there"), "{text}");
    assert_eq!(std::fs::read_dir(&state).unwrap().count(), 1, "it is tidy");
}

#[test]
fn a_socket_may_stand_where_the_program_is_started() {
    let site = Site::new("bare");
    let text = std::fs::read_to_string(&site.config).unwrap();
    let control = site.place.path("control.sock");
    let text = text.replace(control.to_str().unwrap(), "bare.sock");
    site.place.write("tidegate.toml", &text);
    let mut command = program();
    command.args(["check", "--probe", "--config", "tidegate.toml"]);
    let output = command.current_dir(site.place.dir()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("control socket bare.sock"), "{text}");
}

/// Alive is not ready: a drain is not a reason to restart.
#[test]
fn health_tells_alive_from_ready() {
    let site = Site::new("health");
    let server = site.start();
    wait_until("ready", PATIENCE, || {
        (site.health(&["--ready"]).0 == Some(0)).then_some(())
    });
    let drained = ctl(&site.place.path("control.sock"), &["drain"]);
    assert!(drained.status.success(), "{drained:?}");
    assert_eq!(site.health(&[]).0, Some(0));
    let (code, text) = site.health(&["--ready"]);
    assert_eq!(code, Some(1));
    assert!(text.contains("state is draining"), "{text}");
    drop(server);
    assert_eq!(site.health(&[]).0, Some(1));
}

/// Workers share a port with each other, and with nobody else: a second process would take a part
/// of the players.
#[test]
fn a_second_process_does_not_share_the_port() {
    let site = Site::new("second");
    let text = std::fs::read_to_string(&site.config).unwrap();
    let text = text.replace("version = 1\n", "version = 1\n[runtime]\nworkers = 2\n");
    site.place.write("tidegate.toml", &text);
    let _server = site.start();
    let text = text.replace(&site.admin.to_string(), "");
    let text = text.replace("control.sock", "second.sock");
    let config = site.place.write("second.toml", &text);
    let mut second = Program::start(program().args(["serve", "--config"]).arg(config));
    assert_eq!(second.exit_code(), Some(69));
}
