//! Names of backends: what they stand for may be unknown, several, or elsewhere by now.

use std::io::Read;
use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::{Scene, UNWATCHED, backend};
use crate::support::place::Place;
use crate::support::scene::ctl;
use crate::support::{NO_HOST, PATIENCE, accept, page, skipped, wait_until};

/// `/etc/hosts` of a server: what its names stand for.
pub(crate) struct Hosts(pub(crate) Place);

impl Hosts {
    /// None where this user may not give a program files of its own.
    pub(crate) fn new(name: &str) -> Option<Self> {
        let own = ["--map-root-user", "--mount", "true"];
        let can = Command::new("unshare").args(own).output();
        if !can.is_ok_and(|can| can.status.success()) {
            skipped("a program with an /etc/hosts of its own needs unshare, and user namespaces");
            return None;
        }
        let hosts = Self(Place::new(&format!("hosts-{name}")));
        hosts.0.write("nsswitch.conf", "hosts: files\n");
        hosts.set(&[]);
        Some(hosts)
    }

    /// What `game.test` stands for from now on.
    fn set(&self, addresses: &[&str]) {
        let line = |address: &&str| format!("{address} game.test\n");
        let lines: String = addresses.iter().map(line).collect();
        self.0.write("hosts", &lines);
    }

    /// Starts a program that reads it instead of the machine's.
    pub(crate) fn around(&self) -> [String; 6] {
        let files = self.0.dir().display();
        let script = format!(
            "for file in hosts nsswitch.conf; do mount --bind {files}/$file /etc/$file || exit; done
             exec \"$0\" \"$@\""
        );
        let words = ["unshare", "--map-root-user", "--mount", "sh", "-c"];
        let mut words = words.map(str::to_owned).into_iter().chain([script]);
        std::array::from_fn(|_| words.next().unwrap())
    }
}

#[test]
fn a_name_that_is_not_found_counts_as_that_and_another_target_is_tried() {
    let nowhere = format!("\"tcp://{NO_HOST}:7000\"");
    let scene = Scene::start("nameless", &[], &nowhere, "");
    let down = scene.server.logged("target_down");
    assert_eq!(down["error"], "its name has no address");
    assert!(down["help"].as_str().unwrap().contains("dns_failed"));
    let failed = scene.server.logged("dns_failed");
    let help = failed["help"].as_str().unwrap();
    assert!(help.starts_with("nobody can be sent there"), "{failed}");
    let (_, status) = page::ask(scene.page, "/status");
    let status: Value = serde_json::from_str(&status).unwrap();
    let found = status["findings"][0]["text"].as_str().unwrap();
    assert!(found.ends_with(": dns)"), "the metric's word: {found}");
    let listed = ctl(&scene.place.path("control.sock"), &["backends"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let listed = &listed["targets"][0];
    assert_eq!(listed["failing"], "dns", "{listed}");
    assert!(listed["failing_s"].is_number(), "{listed}");
    let mut refused = scene.player();
    scene.wait_for_metric(&format!(
        "tidegate_backend_connect_failures_total{{backend=\"game\",target={nowhere},reason=\"dns\"}}"
    ));
    refused.read_to_end(&mut Vec::new()).ok();

    let (listener, target) = backend();
    let both = format!("{nowhere}, {target}");
    let scene = Scene::start("named", &[], &both, UNWATCHED);
    let _player = scene.player();
    accept(&listener);
}

/// Two listeners on one port of two addresses.
fn two_backends() -> (TcpListener, TcpListener, u16) {
    wait_until("a port that both have free", PATIENCE, || {
        let one = TcpListener::bind("127.0.0.2:0").unwrap();
        let port = one.local_addr().unwrap().port();
        let other = TcpListener::bind(("127.0.0.3", port)).ok()?;
        Some((one, other, port))
    })
}

/// A game server in a container that starts again has another address. Nobody waits for the next time
/// that names are looked up anyway, and without checks the first who fails is enough.
#[test]
fn a_name_that_moves_is_found_where_it_went() {
    for (name, health) in [
        (
            "checked",
            "health = { kind = \"connect\", interval = \"1s\" }",
        ),
        ("unchecked", UNWATCHED),
    ] {
        let Some(hosts) = Hosts::new(name) else {
            return;
        };
        let (one, other, port) = two_backends();
        let words = hosts.around();
        let serve: Vec<&str> = words.iter().map(String::as_str).collect();
        let more = format!("dns_refresh = \"1h\"\n{health}");
        let target = format!("\"tcp://game.test:{port}\"");
        let scene = Scene::start(name, &serve, &target, &more);
        // Who comes before the name is there fails, and so does who comes before it is found.
        for (address, backend) in [("127.0.0.2", one), ("127.0.0.3", other)] {
            hosts.set(&[address]);
            backend.set_nonblocking(true).unwrap();
            let mut players = Vec::new();
            wait_until(address, PATIENCE, || {
                players.push(scene.player());
                std::thread::sleep(Duration::from_millis(100));
                let (mut stream, _) = backend.accept().ok()?;
                stream.set_nonblocking(false).unwrap();
                // A check says nothing.
                stream.read_exact(&mut [0; 7]).ok()
            });
        }
    }
}

/// Each is a server of its own: players are spread over them, one that dies costs its own, and those
/// who come play on the other.
#[test]
fn the_addresses_of_a_name_are_servers_of_their_own() {
    let Some(hosts) = Hosts::new("several") else {
        return;
    };
    hosts.set(&["127.0.0.2", "127.0.0.3"]);
    let (one, other, port) = two_backends();
    let words = hosts.around();
    let serve: Vec<&str> = words.iter().map(String::as_str).collect();
    let target = format!("tcp://game.test:{port}");
    let health = "health = { kind = \"connect\", interval = \"1s\", down_after = 1 }";
    let scene = Scene::start("several", &serve, &format!("\"{target}\""), health);
    let playing = |backend: &TcpListener| {
        let mut stream = accept(backend);
        while stream.read_exact(&mut [0; 7]).is_err() {
            stream = accept(backend);
        }
        stream
    };
    let _players = [scene.player(), scene.player()];
    let (_first, _second) = (playing(&one), playing(&other));
    let series = |state| {
        format!(
            "tidegate_backend_addresses{{backend=\"game\",target=\"{target}\",state=\"{state}\"}}"
        )
    };
    assert_eq!(scene.metric(&series("up")), 2.0);

    drop(other);
    let line = scene.server.logged("address_down");
    assert_eq!(line["address"], format!("127.0.0.3:{port}"));
    assert_eq!(
        (scene.metric(&series("up")), scene.metric(&series("down"))),
        (1.0, 1.0)
    );
    assert_eq!(scene.metric("tidegate_backend_up"), 1.0);
    assert_eq!(page::ask(scene.page, "/readyz").0, 200);
    let _more = [scene.player(), scene.player()];
    let _streams = [playing(&one), playing(&one)];

    drop(one);
    assert_eq!(scene.server.logged("target_down")["target"], target);
    assert_eq!(scene.metric("tidegate_backend_up"), 0.0);
}
