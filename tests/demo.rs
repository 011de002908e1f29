//! The demo does what the README says it does: real sessions over a network that was bad.

use std::time::Duration;

use tidegate::demo::{Demo, Spoken};

#[test]
fn players_on_a_lossy_network_get_every_message_back_once_and_in_order() {
    for protocol in [Spoken::Yojimbo, Spoken::Gaffer, Spoken::Rudp] {
        play(protocol);
    }
}

fn play(protocol: Spoken) {
    let demo = Demo {
        protocol,
        players: 20,
        rate: 20,
        size: 64,
        loss: 0.05,
        delay: Duration::from_millis(10),
        jitter: Duration::from_millis(2),
        storms: false,
        duration: Some(Duration::from_secs(6)),
        admin: Some(([127, 0, 0, 1], 0).into()),
    };
    let verdict = demo.run().expect("the demo runs");
    assert_eq!(verdict.connected, 20, "{verdict:?}");
    assert_eq!(verdict.wrong, 0, "{verdict:?}");
    assert!(verdict.echoed > 1_000, "{verdict:?}");
    assert!(verdict.lost > 50, "too kind a network: {verdict:?}");
}
