//! Who is answered, what with, and how long anybody may take.

use super::*;

#[test]
fn every_route_answers() {
    let mut scene = scene("udp");
    let counters = scene.reporters[0].counters();
    scene.reporters[0].publish(scene.clock.now().mono, &counters);
    for path in ["/livez", "/live", "/healthz", "/readyz", "/ready"] {
        assert_eq!(scene.get(path), (200, "ok\n".into()), "{path}");
    }
    let (code, metrics) = scene.get("/metrics");
    assert_eq!(code, 200);
    assert!(metrics.contains("tidegate_peers{listener=\"udp\"} 0\n"));
    let (code, status) = scene.get("/status");
    assert_eq!(code, 200);
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["listeners"][0]["name"], "udp");
    assert_eq!(scene.get("/nothing").0, 404);
}

#[test]
fn nothing_but_reading_is_allowed() {
    let scene = scene("udp");
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        let request =
            format!("{method} /status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let answer = scene.raw(&request);
        assert!(answer.starts_with("HTTP/1.1 405 "), "{method}: {answer}");
    }
}

/// A page whose name was rebound to loopback reads nothing: its browser asks by that name.
#[test]
fn on_loopback_only_names_that_cannot_be_rebound_are_answered() {
    let scene = scene_at("udp", "127.0.0.1:0", &["gate.example.net"]);
    let port = scene.admin.address().port();
    for host in [
        "127.0.0.1",
        "127.0.0.1:9477",
        "[::1]:9477",
        "192.0.2.7",
        "localhost",
        "LocalHost:9477",
        "localhost.",
        "Gate.example.net",
        "gate.example.net:443",
        "",
    ] {
        assert_eq!(scene.asked_by("/status", &[host]), "200", "{host:?}");
    }
    for host in [
        "evil.example",
        "evil.example:9477",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "[::1",
        "1",
        "127.0.0.1@evil.example",
        "x.gate.example.net",
        "a b",
    ] {
        for path in ["/", "/status", "/metrics", "/livez"] {
            assert_eq!(scene.asked_by(path, &[host]), "421", "{host:?}");
        }
    }
    assert_eq!(
        scene.asked_by("/status", &["localhost", "evil.example"]),
        "421"
    );
    let target = format!("http://evil.example:{port}/status");
    assert_eq!(scene.asked_by(&target, &["localhost"]), "421");
    let answer =
        scene.raw("GET /status HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
    assert!(answer.contains("admin.allowed_hosts"), "{answer}");
    assert!(
        scene
            .raw("GET /status HTTP/1.0\r\n\r\n")
            .starts_with("HTTP/1.0 200 ")
    );
}

#[test]
fn loopback_in_the_notation_of_the_other_family_is_loopback() {
    for (address, is_elsewhere) in [
        ("::ffff:127.0.0.1", false),
        ("::1", false),
        ("::ffff:10.0.0.7", true),
    ] {
        let hosts = Hosts::new(address.parse().unwrap(), &[]);
        assert_eq!(matches!(hosts, Hosts::Any), is_elsewhere, "{address}");
    }
}

/// Prometheus knows a server elsewhere by a name that nobody told it.
#[test]
fn elsewhere_any_name_goes_unless_some_are_listed() {
    let scene = scene_at("udp", "0.0.0.0:0", &[]);
    assert_eq!(scene.asked_by("/metrics", &["tidegate:9477"]), "200");
    let scene = scene_at("udp", "0.0.0.0:0", &["tidegate"]);
    assert_eq!(scene.asked_by("/metrics", &["tidegate:9477"]), "200");
    assert_eq!(
        scene.asked_by("/livez", &["10.1.2.3:9477"]),
        "200",
        "probes of Kubernetes"
    );
    assert_eq!(scene.asked_by("/status", &["evil.example:9477"]), "421");
}

/// What a browser may do with an answer: show it, alone.
#[test]
fn no_page_from_elsewhere_may_use_an_answer() {
    let scene = scene("udp");
    for path in ["/", "/status", "/metrics", "/nothing"] {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\nConnection: close\r\n\r\n"
        );
        let answer = scene.raw(&request);
        let head = answer.split("\r\n\r\n").next().unwrap().to_lowercase();
        for header in [
            "x-content-type-options: nosniff",
            "cross-origin-resource-policy: same-origin",
            "cache-control: no-store",
        ] {
            assert!(head.contains(header), "{path}: {head}");
        }
        assert!(!head.contains("access-control-"), "{path}: {head}");
        let framed = !head.contains("frame-ancestors 'none'");
        assert_eq!(framed, path != "/", "{head}");
    }
}

#[test]
fn ready_says_why_not() {
    let scene = scene("udp");
    scene
        .board
        .update_process(|process| process.state = State::Draining);
    (0..2).for_each(|target| scene.pool.take_down(target));
    let (code, why) = scene.get("/readyz");
    assert_eq!(code, 503);
    assert_eq!(why, "state is draining\nno target of backend game is up\n");
    assert_eq!(scene.get("/livez").0, 200, "draining is not dying");
}

/// A request head that is too long is refused, and one that never ends is cut off.
#[test]
fn requests_are_bounded_in_size_and_time() {
    let scene = scene("udp");
    let long = format!(
        "GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "a".repeat(20_000)
    );
    let answer = scene.raw(&long);
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 4"),
        "{answer}"
    );
    assert!(!scene.raw("GET /livez HTTP/1.1\r\nHo").contains(" 200 "));
}

/// Whoever asks for thousands at once takes no more time than who asks for one.
#[test]
fn a_connection_has_one_answer() {
    let scene = scene("udp");
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let answer = scene.raw(request);
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let answers = scene.raw(&request.repeat(100));
    assert_eq!(answers.matches("HTTP/1.1 200 ").count(), 1);
}

/// Silent connections take every place, and many wait for one; they lose it again, and the next one is served.
#[test]
fn slow_clients_cannot_keep_everybody_out() {
    let scene = scene("udp");
    // Fewer than the backlog holds; one after the other, their timeouts would take forty seconds.
    let silent: Vec<TcpStream> = (0..8 * CONNECTIONS_MAX)
        .map(|_| TcpStream::connect(scene.admin.address()).unwrap())
        .collect();
    let answer = probe(scene.admin.address(), "/status", PATIENCE / 2).unwrap();
    assert_eq!(answer.0, 200);
    drop(silent);
}
