//! The control socket: who may speak to it, who finds it, and what callers can do to each other.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::support::place::Place;
use crate::support::program::{Program, program};
use crate::support::scene::{Scene, ctl};
use crate::support::{PATIENCE, skipped};

/// Not everything that can be named with --control is tidegate's.
#[test]
fn what_is_no_control_socket_is_said() {
    let place = Place::new("foreign");
    let foreign = place.path("foreign.sock");
    let other = std::os::unix::net::UnixListener::bind(&foreign).unwrap();
    let answers = std::thread::spawn(move || {
        let (mut caller, _) = other.accept().unwrap();
        BufReader::new(&caller)
            .read_line(&mut String::new())
            .unwrap();
        caller.write_all(b"220 mail.example.net\r\n").unwrap();
    });
    for (path, hint) in [
        (place.dir(), "no socket"),
        (&place.write("file", "x"), "no socket"),
        (&foreign, "it answers \"220 mail.example.net\""),
    ] {
        let output = ctl(path, &["stats"]);
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(69), "{complaint}");
        assert!(complaint.contains(hint), "{complaint}");
        assert!(complaint.contains("--control"), "{complaint}");
    }
    answers.join().unwrap();
}

/// Whether it was done is another question, and the answer says where that is written.
#[test]
fn an_answer_that_never_comes_is_told_from_one_that_was_cut_off() {
    let place = Place::new("unanswered");
    let path = place.path("silent.sock");
    let silent = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let asked = |reason: &str| {
        let output = ctl(&path, &["reload"]);
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(69), "{complaint}");
        assert!(complaint.contains(reason), "{complaint}");
        assert!(complaint.contains("help: "), "{complaint}");
    };
    asked("no answer in 10 s");
    let waiting = silent.accept().unwrap();
    let cut = std::thread::spawn(move || {
        let (caller, _) = silent.accept().unwrap();
        let mut question = String::new();
        BufReader::new(caller).read_line(&mut question).unwrap();
    });
    asked("ended the connection without an answer");
    cut.join().unwrap();
    drop(waiting);
}

/// The file mode is the access control, and the file goes with the process.
#[test]
fn the_socket_is_its_owners_alone() {
    let mut scene = Scene::new("owner");
    let mode = scene.control().metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    another_user_is_refused(&scene);
    let own = scene.place.path("server.toml");
    let mut second = Program::start(program().args(["serve", "--config"]).arg(&own));
    assert_eq!(second.exit_code(), Some(69));
    second.wait_for("another process answers there");
    second.wait_for("help: stop that one (`ss -xlp");
    scene.server.signal("TERM");
    assert_eq!(scene.server.exit_code(), Some(0));
    assert!(!scene.control().exists());

    // What a killed process left is taken over; what is no socket is left alone.
    drop(std::os::unix::net::UnixListener::bind(scene.control()).unwrap());
    let third = Program::start(program().args(["serve", "--config"]).arg(&own));
    third.logged("control");
    drop(third);
    std::fs::remove_file(scene.control()).unwrap();
    let elsewhere = scene.place.write("precious", "data");
    std::os::unix::fs::symlink(&elsewhere, scene.control()).unwrap();
    let mut fourth = Program::start(program().args(["serve", "--config"]).arg(&own));
    assert_eq!(fourth.exit_code(), Some(69), "a link is not followed");
    assert_eq!(std::fs::read_to_string(elsewhere).unwrap(), "data");
}

/// What tidies up `/tmp` removes sockets, however much they are in use.
#[test]
fn a_socket_that_was_removed_is_there_again() {
    let scene = Scene::new("removed");
    std::fs::remove_file(scene.control()).unwrap();
    let line = scene.server.logged("socket_removed");
    assert_eq!(line["address"], scene.control().to_str().unwrap());
    let mode = scene.control().metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(scene.ask(&["stats"])["ok"], true);
}

/// Scripts that hang, and `nc` that somebody forgot, lock nobody out for as long as they may be silent.
#[test]
fn silent_callers_make_room() {
    let scene = Scene::new("silent-callers");
    let connect = |_| UnixStream::connect(scene.control()).unwrap();
    let silent: Vec<_> = (0..16).map(connect).collect();
    // While nobody waits, nobody has to go.
    let patience = Some(Duration::from_millis(2_500));
    silent[0].set_read_timeout(patience).unwrap();
    let heard = (&silent[0]).read(&mut [0]);
    assert!(heard.is_err(), "{heard:?}");
    assert_eq!(scene.ask(&["stats"])["ok"], true);
    drop(silent);
}

/// Many more than there are places make room in seconds: an operator is in a hurry.
#[test]
fn hundreds_of_silent_callers_make_room() {
    let scene = Scene::new("silent-hundreds");
    let connect = |_| UnixStream::connect(scene.control()).unwrap();
    let silent: Vec<_> = (0..240).map(connect).collect();
    // Fifteen rounds of sixteen, of which each took a second once, and `ctl` waits for ten.
    assert_eq!(scene.ask(&["stats"])["ok"], true);
    drop(silent);
}

/// Nor do those who ask and do not read, such as a `top` that was stopped.
#[test]
fn callers_who_do_not_read_make_room() {
    let scene = Scene::new("stopped-callers");
    // Their answers are more than a socket holds.
    let questions = "{\"command\":\"stats\"}\n".repeat(3_000);
    let ask = |_| {
        let mut caller = UnixStream::connect(scene.control()).unwrap();
        caller.write_all(questions.as_bytes()).unwrap();
        caller
    };
    let stopped: Vec<_> = (0..16).map(ask).collect();
    assert_eq!(scene.ask(&["stats"])["ok"], true);
    drop(stopped);
}

/// The Unix socket of a tunnel goes with its process, like the control socket; a killed one's is taken over.
#[test]
fn a_tunnels_socket_goes_with_the_process() {
    let place = Place::new("tunnel-socket");
    let path = place.path("in.sock");
    let listen = format!("unix:{}", path.display());
    let remote = ["--remote", "gaffer://127.0.0.1:9", "--admin", ""];
    let told = UnixDatagram::bind(place.path("notify")).unwrap();
    told.set_read_timeout(Some(PATIENCE)).unwrap();
    let start = || {
        let mut command = program();
        command.env("NOTIFY_SOCKET", place.path("notify"));
        Program::start(command.args(["connect", "--listen", &listen]).args(remote))
    };
    // Signals are listened to from then on.
    let is_ready = || {
        let mut word = [0; 100];
        while !word.starts_with(b"READY=1") {
            told.recv(&mut word).unwrap();
        }
    };
    let killed = start();
    is_ready();
    let mode = path.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(
        start().exit_code(),
        Some(69),
        "another process answers there"
    );
    drop(killed);
    assert!(path.exists());

    let mut stopped = start();
    is_ready();
    stopped.signal("TERM");
    assert_eq!(stopped.exit_code(), Some(0));
    assert!(!path.exists());

    // What is no socket is left alone.
    std::fs::write(&path, "data").unwrap();
    assert_eq!(start().exit_code(), Some(69));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "data");
}

/// Somebody else gets as far as the file's mode. Only root can become somebody else.
fn another_user_is_refused(scene: &Scene) {
    // SAFETY: takes nothing, cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        skipped("another user's access to the control socket; run this test as root");
        return;
    }
    // Where everybody may go: the build's own directory may be closed to others.
    std::fs::set_permissions(scene.place.dir(), PermissionsExt::from_mode(0o755)).unwrap();
    let ours = scene.place.path("tidegate");
    // By a process of its own: what this one has open to write, a child of another test may still have open,
    // and nothing can be run that somebody may write.
    let copy = Command::new("cp")
        .arg(env!("CARGO_BIN_EXE_tidegate"))
        .arg(&ours)
        .status();
    assert!(copy.unwrap().success());
    let mut command = Command::new(ours);
    std::os::unix::process::CommandExt::uid(&mut command, NOBODY);
    std::os::unix::process::CommandExt::gid(&mut command, NOBODY);
    let control = scene.control();
    let output = command.arg("ctl").arg("--control").arg(&control);
    let output = output.args(["log", "info"]).output().unwrap();
    assert_eq!(output.status.code(), Some(69), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("Permission denied"), "{said}");
    // The nearest case that works: the same user, once the mode lets everybody in.
    std::fs::set_permissions(&control, PermissionsExt::from_mode(0o666)).unwrap();
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let told = scene.server.logged("control_command");
    assert_eq!(told["uid"], NOBODY, "{told}");
    std::fs::set_permissions(&control, PermissionsExt::from_mode(0o600)).unwrap();
}

const NOBODY: u32 = 65_534;

/// Without a file or a word about it, in a login session: `ctl` finds the one that runs, asks which one
/// when several do, and passes by what a killed one left.
#[test]
fn the_one_that_runs_is_found() {
    let place = Place::new("found");
    let session = place.path("session");
    std::fs::create_dir(&session).unwrap();
    let start = |arguments: &[&str]| {
        let mut command = program();
        let command = command.env("XDG_RUNTIME_DIR", &session).args(arguments);
        Program::start(command.current_dir(place.dir()))
    };
    let ask = |more: &[&str]| {
        let mut command = program();
        command.env("XDG_RUNTIME_DIR", &session);
        // In place of the directory of a service that may run on this machine.
        command.env("RUNTIME_DIRECTORY", place.path("service"));
        let output = command.args(["ctl", "--json", "stats"]).args(more).output();
        let output = output.unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    let (code, said) = ask(&[]);
    assert_eq!(code, Some(69), "{said}");
    assert!(said.contains("no tidegate was found"), "{said}");

    let serve = ["serve", "--listen", "gaffer://127.0.0.1:0", "--admin", ""];
    let serve = [&serve[..], &["--backend", "tcp://127.0.0.1:9"]].concat();
    let first = start(&serve);
    let first_path = first.logged("control")["path"].clone();
    let mode = session.join("tidegate").metadata().unwrap().permissions();
    assert_eq!(mode.mode() & 0o777, 0o700);
    let (code, said) = ask(&[]);
    assert_eq!(code, Some(0), "{said}");

    let connect = ["connect", "--listen", "tcp://127.0.0.1:0"];
    let second = start(&[&connect[..], &["--remote", "gaffer://127.0.0.1:9"]].concat());
    let second_path = second.logged("control")["path"].clone();
    let (code, said) = ask(&[]);
    assert_eq!(code, Some(2), "{said}");
    for path in [&first_path, &second_path] {
        assert!(said.contains(path.as_str().unwrap()), "{said}");
    }
    let (code, said) = ask(&["--control", second_path.as_str().unwrap()]);
    assert_eq!(code, Some(0), "{said}");

    // Killed: its socket stays and nobody answers.
    drop(first);
    assert!(Path::new(first_path.as_str().unwrap()).exists());
    let (code, said) = ask(&[]);
    assert_eq!(code, Some(0), "{said}");
    // The next start removes it, and neither the socket of one that runs nor anything else.
    let session_directory = session.join("tidegate");
    std::fs::write(session_directory.join("1.sock"), "no socket").unwrap();
    let fourth = start(&serve);
    fourth.logged("control");
    assert!(!Path::new(first_path.as_str().unwrap()).exists());
    assert!(Path::new(second_path.as_str().unwrap()).exists());
    assert!(session_directory.join("1.sock").exists());
    drop((second, fourth));

    let elsewhere = place.path("chosen.sock");
    let chosen = [&serve[..], &["--control", elsewhere.to_str().unwrap()]].concat();
    let third = start(&chosen);
    assert_eq!(third.logged("control")["path"], elsewhere.to_str().unwrap());
    let (code, said) = ask(&["--control", elsewhere.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{said}");
}

/// Garbage gets an error, and the next line an answer.
#[test]
fn garbage_is_answered() {
    let scene = Scene::new("garbage");
    let mut stream = UnixStream::connect(scene.control()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
        .write_all(b"{\"command\":\"destroy\"}\n\xc3\x28\n")
        .unwrap();
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(first.contains("\"ok\":false"), "{first}");
    let version = format!("help: tidegate {} runs here", env!("CARGO_PKG_VERSION"));
    assert!(
        first.contains(&version),
        "it may be another version's: {first}"
    );
    assert_eq!(scene.ask(&["stats"])["ok"], true, "others are served");
}

/// A control socket that nobody asked for and that cannot be made costs a warning; one that was named, the start.
#[test]
fn only_a_named_socket_must_be_had() {
    let place = Place::new("no-control");
    let session = place.path(&"x".repeat(100));
    std::fs::create_dir(&session).unwrap();
    let serve = ["serve", "--listen", "gaffer://127.0.0.1:0", "--admin", ""];
    let serve = [&serve[..], &["--backend", "tcp://127.0.0.1:9"]].concat();
    let mut command = program();
    let running = Program::start(command.env("XDG_RUNTIME_DIR", &session).args(&serve));
    let warning = running.logged("control_failed");
    assert_eq!(warning["level"], "warn", "{warning}");
    let error = warning["error"].as_str().unwrap();
    assert!(error.contains("at most 107 bytes"), "{error}");
    running.logged("target_down");

    let cases = [
        (session, 78, "at most 107"),
        ("absent".into(), 69, "its directory"),
    ];
    for (named, code, help) in cases {
        let mut command = program();
        command
            .args(&serve)
            .arg("--control")
            .arg(named.join("x.sock"));
        let output = command.current_dir(place.dir()).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(help), "{said}");
    }
}
