//! Servers, tunnels and targets that take nobody in any more, and do again.

use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;

use crate::support::place::Place;
use crate::support::program::{Program, program};
use crate::support::scene::{Scene, assert_connected, ctl, is_over, join, knock};
use crate::support::{PATIENCE, wait_until};

/// A drain keeps who is here and takes nobody; undone, it takes them again.
#[test]
fn a_drain_can_be_undone() {
    let scene = Scene::new("drain");
    let (mut player, mut stream) = scene.join();
    assert_eq!(scene.ask(&["drain"])["peers"], 1, "who is still here");
    assert_eq!(scene.ask(&["stats"])["state"], "draining");
    // Of another client: a second session of the first one's would be refused anyway.
    let remote = format!("yojimbo://{}", scene.server.address());
    let to = ["connect", "--remote", &remote, "--key"];
    let from = ["--listen", "tcp://127.0.0.1:0", "--control", ""];
    let another = Program::start(program().args(to).arg(scene.place.path("key")).args(from));
    let mut late = TcpStream::connect(another.address()).unwrap();
    assert_eq!(another.logged("not_let_in")["reason"], "denied");
    let end = another.logged("session_end");
    assert!(
        end["rtt_ms"].is_null() && end["rtt_min_ms"].is_null(),
        "{end}"
    );
    assert!(is_over(&mut late));
    assert_connected(&mut player, &mut stream);
    assert_eq!(scene.ask(&["undrain"])["ok"], true);
    assert_eq!(scene.ask(&["stats"])["state"], "serving");
    scene.ask(&["kick", "77"]);
    assert!(is_over(&mut player));
    let (mut player, _stream) = scene.join();
    assert_eq!(scene.ask(&["drain", "--grace", "1s"])["ok"], true);
    assert!(is_over(&mut player), "the grace is over");
    assert_eq!(scene.ask(&["undrain"])["ok"], true);
    scene.join();
}

/// The grace of a drain ends with it: nobody is sent home when that time is over.
#[test]
fn an_undone_drain_sends_nobody_home() {
    let scene = Scene::new("undone");
    let (mut player, mut stream) = scene.join();
    assert_eq!(scene.ask(&["drain", "--grace", "1s"])["ok"], true);
    assert_eq!(scene.ask(&["undrain"])["ok"], true);
    // The same process counts both times, so the grace is over when the level is taken back.
    assert_eq!(scene.ask(&["log", "debug", "--for", "2s"])["ok"], true);
    wait_until("the former level", PATIENCE, || {
        (scene.ask(&["log"])["level"] == "info").then_some(())
    });
    assert_connected(&mut player, &mut stream);
}

/// `connect` is emptied in the same way: who is here stays, and a program that comes is turned away at once.
#[test]
fn a_drained_tunnel_takes_no_streams() {
    let scene = Scene::new("drained-tunnel");
    let path = |file: &str| scene.place.path(file).display().to_string();
    let (key, control) = (path("key"), path("tunnel.sock"));
    let remote = format!("yojimbo://{}", scene.server.address());
    let to = ["connect", "--remote", &remote, "--key", &key];
    let from = ["--listen", "tcp://127.0.0.1:0", "--control", &control];
    let tunnel = Program::start(program().args(to).args(from));
    let entrance = tunnel.address();
    tunnel.logged("control");
    let (mut player, mut stream) = join(entrance, &scene.backend);
    let ask = |order| ctl(control.as_ref(), &[order]).status.success();
    assert!(ask("drain"));
    let mut late = TcpStream::connect(entrance).unwrap();
    assert_eq!(tunnel.logged("dial_refused")["reason"], "draining");
    assert!(is_over(&mut late));
    assert_connected(&mut player, &mut stream);
    assert!(ask("undrain"));
    join(entrance, &scene.backend);
}

/// A token is good for one session, and may have cost its service something.
#[test]
fn a_drained_tunnel_fetches_no_token() {
    let scene = Scene::new("drained-token");
    let remote = scene.server.address();
    let control = scene.place.path("tunnel.sock");
    let config = scene.place.write(
        "fetching.toml",
        format!(
            "version = 1\n[admin]\nlisten = \"\"\ncontrol_socket = \"{}\"\n\
             [tunnel.home]\nlisten = [\"tcp://127.0.0.1:0\"]\nremote = \"{remote}\"\n\
             framing = \"raw\"\nnetcode = {{ token_command = \"echo >>{}\" }}\n",
            control.display(),
            scene.place.path("asked").display()
        ),
    );
    let tunnel = Program::start(program().args(["connect", "--config"]).arg(config));
    let entrance = tunnel.address();
    tunnel.logged("control");
    assert!(ctl(&control, &["drain"]).status.success());
    let mut late = TcpStream::connect(entrance).unwrap();
    assert!(is_over(&mut late));
    assert_eq!(tunnel.logged("dial_refused")["reason"], "draining");
    assert!(!scene.place.path("asked").exists());
}

/// Somebody wonders in the morning why nobody could come in.
#[test]
fn a_drain_by_signal_is_in_the_log() {
    let scene = Scene::new("usr1");
    scene.server.signal("USR1");
    let line = scene.server.logged("drain");
    assert_eq!(line["reason"], "SIGUSR1");
    assert!(line["msg"].as_str().unwrap().contains("undrain"), "{line}");
    assert_eq!(scene.ask(&["stats"])["state"], "draining");
    assert_eq!(scene.ask(&["undrain"])["ok"], true);
    scene.join();
}

/// A target out of use gets no new sessions, so with the only one nobody is seated.
#[test]
fn a_target_can_be_taken_out() {
    let scene = Scene::new("target");
    let target = format!("tcp://{}", scene.backend.local_addr().unwrap());
    let answer = scene.ask(&["backend", "drain", &target]);
    assert_eq!(answer["ok"], true);
    let warning = answer["warnings"][0].as_str().unwrap();
    assert!(warning.contains("all are drained by hand"), "{answer}");
    let line = scene.server.logged("no_target_left");
    assert_eq!(
        (&line["level"], &line["backend"], &line["target"]),
        (&"warn".into(), &"game".into(), &target.as_str().into())
    );
    assert_eq!(scene.ask(&["backends"])["targets"][0]["draining"], true);
    let mut refused = knock(scene.entrance);
    assert!(is_over(&mut refused));
    let answer = scene.ask(&["backend", "enable", &target]);
    assert_eq!(
        (&answer["ok"], answer.get("warnings")),
        (&true.into(), None)
    );
    scene.join();
    assert_eq!(
        scene.ask(&["backend", "drain", "tcp://nobody:1"])["ok"],
        false
    );
}

/// One target is drained by hand and the other one dies: it looks as if one were left, so the log says that none is.
#[test]
fn a_target_that_dies_beside_a_drained_one_is_told_of() {
    let place = Place::new("last-target");
    assert_eq!(
        place.start(&["keygen", "--out", "key"]).exit_code(),
        Some(0)
    );
    let [kept, lost] = [(), ()].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [drained, dead] = [&kept, &lost].map(|one| format!("tcp://{}", one.local_addr().unwrap()));
    let config = format!(
        "version = 1\n[admin]\nlisten = \"\"\ncontrol_socket = \"control.sock\"\n\
         [listener.game]\nbind = [\"127.0.0.1:0\"]\nbackend = \"game\"\nnetcode = {{ key_file = \"key\" }}\n\
         [backend.game]\ntargets = [\"{drained}\", \"{dead}\"]\nframing = \"raw\"\n\
         health = {{ kind = \"connect\", interval = \"1s\", timeout = \"1s\", up_after = 1, down_after = 1 }}\n"
    );
    place.write("server.toml", config);
    let server = place.start(&["serve", "--config", "server.toml"]);
    server.logged("control");
    let control = place.path("control.sock");
    let done = ctl(&control, &["backend", "drain", &drained]);
    assert!(done.status.success());
    drop(lost);
    let line = server.logged("no_target_left");
    assert_eq!(
        (&line["backend"], &line["target"]),
        (&"game".into(), &dead.as_str().into())
    );
}

/// systemd keeps the last status of a unit. A stop takes less than the second after which the feed would look again.
#[test]
fn the_service_manager_hears_that_it_drains_and_that_it_is_stopped() {
    let place = Place::new("stop-status");
    let told = UnixDatagram::bind(place.path("notify")).unwrap();
    told.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut command = program();
    command.env("NOTIFY_SOCKET", place.path("notify"));
    let listen = ["serve", "--listen", "rudp://127.0.0.1:0", "--admin", ""];
    let mut server = Program::start(
        command
            .args(listen)
            .args(["--backend", "tcp://127.0.0.1:1"]),
    );
    let mut word = [0; 1000];
    let mut hear = |begin: &str| {
        loop {
            let length = told.recv(&mut word).unwrap();
            let said = std::str::from_utf8(&word[..length]).unwrap();
            if said.starts_with(begin) {
                return said.to_owned();
            }
        }
    };
    hear("READY=1");
    server.signal("TERM");
    let stopping = hear("STOPPING=1");
    assert!(stopping.contains("STATUS=draining, 0 peers"), "{stopping}");
    hear("STATUS=stopped");
    assert_eq!(server.exit_code(), Some(0));
}
