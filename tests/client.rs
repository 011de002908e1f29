//! The client library against the built program, with a TCP echo server behind it and a bad network
//! in between.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot get a socket has failed"
)]

mod support;

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use support::lossy::{Lossy, bad_network};
use support::place::Place;
use support::program::Program;
use support::token::mint;
use support::{PATIENCE, closed_port, echo_server, own_address, wait_until};
use tidegate::tokens;
use tidegate_client::{
    Backoff, Client, Clock, CloseReason, ConnectError, Dial, Ended, GAFFER_PROTOCOL_ID, Polled,
    Redial, SendError, State, Timestamp,
};

/// A port of the kernel's choice.
fn anywhere() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn serve(place: &Place, protocol: &str, listen: SocketAddr, backend: SocketAddr) -> Program {
    place.start(&[
        "serve",
        "--listen",
        &format!("{protocol}://{listen}"),
        "--backend",
        &format!("tcp://{backend}"),
        "--framing",
        "u16be",
        "--admin",
        "",
    ])
}

/// A token for these servers, as the place's key makes them.
fn token(place: &Place, servers: &[SocketAddr], timeout: Duration) -> Dial {
    let client_id = u64::from_le_bytes(tokens::random().unwrap());
    let token = mint(place, client_id, servers, timeout);
    // As a web service would hand it out.
    Dial::yojimbo(tokens::token_text(&token).as_bytes()).unwrap()
}

fn dial(place: &Place, protocol: &str, server: SocketAddr) -> Dial {
    match protocol {
        "yojimbo" => token(place, &[server], PATIENCE),
        "gaffer" => Dial::gaffer(server, GAFFER_PROTOCOL_ID),
        _ => Dial::rudp(server),
    }
}

/// Large enough that there are many datagrams to lose.
fn numbered(number: u32) -> Vec<u8> {
    number.to_be_bytes().repeat(100)
}

/// A place where nobody answers.
fn nobody() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let bounded = tokio::time::timeout(PATIENCE, future);
        bounded.await.expect("it takes too long")
    })
}

/// Numbered messages come back once and in order, through 10 % loss both ways.
fn messages_survive(protocol: &str) {
    const MESSAGES: u32 = 300;
    let place = Place::new(&format!("client-{protocol}"));
    let serve = serve(&place, protocol, anywhere(), echo_server());
    let lossy = Lossy::start(serve.address(), bad_network(), 11);
    let dial = dial(&place, protocol, lossy.address);
    block_on(async {
        let client = Client::connect(dial).await.unwrap();
        let send = async {
            for number in 0..MESSAGES {
                client.send(&numbered(number)).await.unwrap();
            }
        };
        let receive = async {
            for number in 0..MESSAGES {
                let message = client.recv().await.unwrap();
                assert_eq!(message.payload, numbered(number));
                assert!(message.reliable && message.channel == 0);
            }
        };
        tokio::join!(send, receive);
        let stats = client.stats();
        assert_eq!(stats.messages_received, u64::from(MESSAGES));
        if protocol != "rudp" {
            // The network's delay less its jitter, both ways; rudp has nothing to measure it with.
            assert!(stats.rtt_min >= Duration::from_millis(10), "{stats:?}");
            assert!(stats.rtt_latest >= stats.rtt_min, "{stats:?}");
        }
        assert_eq!(client.close().await, Ended::Here { unconfirmed: 0 });
        assert_eq!(client.try_send(b"late"), Err(SendError::Closed));
        assert_eq!(client.recv().await.unwrap_err().label(), "closed_here");
    });
    assert!(lossy.lost() > 10, "the network was too kind");
    let end = serve.wait_for("\"event\":\"session_end\"");
    assert_eq!(end.contains("\"rtt_ms\""), protocol != "rudp", "{end}");
    if protocol == "yojimbo" {
        // The only one with enough goodbyes to count on through this network.
        assert!(end.contains("\"reason\":\"peer_disconnect\""), "{end}");
    }
}

#[test]
fn messages_survive_loss_over_yojimbo() {
    messages_survive("yojimbo");
}

#[test]
fn messages_survive_loss_over_gaffer() {
    messages_survive("gaffer");
}

#[test]
fn messages_survive_loss_over_rudp() {
    messages_survive("rudp");
}

/// The client without a runtime, in a loop like a game's; unreliable messages arrive too.
#[test]
fn a_polled_client_plays_in_a_loop() {
    let place = Place::new("client-polled");
    let serve = serve(&place, "yojimbo", anywhere(), echo_server());
    let lossy = Lossy::start(serve.address(), bad_network(), 12);
    let clock = Clock::start();
    let dial = token(&place, &[lossy.address], PATIENCE);
    let mut client = Polled::connect(clock.now(), dial).unwrap();
    let (mut said, mut reliable, mut unreliable) = (0_u32, 0_u32, 0);
    let frames = wait_until("200 frames", PATIENCE, || {
        let state = client.update(clock.now());
        if state == State::Connected && said < 200 {
            let number = said.to_be_bytes();
            client.send(clock.now(), &number).unwrap();
            client
                .send_unreliable(clock.now(), b"now or never")
                .unwrap();
            said += 1;
        }
        while let Some(message) = client.poll_message() {
            if message.payload == b"now or never" {
                unreliable += 1;
            } else {
                assert_eq!(message.payload, reliable.to_be_bytes());
                reliable += 1;
            }
        }
        client.flush(clock.now());
        assert!(client.next_update(clock.now()).is_some());
        (reliable == 200).then_some(said)
    });
    assert_eq!(frames, 200);
    assert!(unreliable > 100, "{unreliable} of 200 through 10 % loss");
    client.finish(clock.now(), Duration::from_secs(5));
    let ended = wait_until("the end", PATIENCE, || match client.update(clock.now()) {
        State::Closed(ended) => Some(ended),
        _ => None,
    });
    assert_eq!(ended, Ended::Here { unconfirmed: 0 });
}

/// A game that takes its messages slowly holds the server back, and is not taken for one that hangs: of a full queue it
/// takes in ten seconds what the queue then has to be short of before packets are acknowledged again.
#[test]
fn a_client_that_reads_slowly_is_not_given_up() {
    let place = Place::new("client-slow");
    let serve = serve(&place, "yojimbo", anywhere(), echo_server());
    let clock = Clock::start();
    let dial = token(&place, &[serve.address()], PATIENCE);
    let mut client = Polled::connect(clock.now(), dial).unwrap();
    let (mut said, mut heard) = (0, 0);
    while clock.now().mono < Timestamp::from_millis(16_000) {
        let state = client.update(clock.now());
        assert!(!matches!(state, State::Closed(_)), "{state:?} at {heard}");
        while said < 3_000 && client.send(clock.now(), &numbered(said)).is_ok() {
            said += 1;
        }
        // One a frame; where this machine was busy with other things, those of the frames that were left out.
        let frames = clock.now().mono.as_nanos() / FRAME.as_nanos() as u64;
        while u64::from(heard) < frames
            && let Some(message) = client.poll_message()
        {
            assert_eq!(message.payload, numbered(heard));
            heard += 1;
        }
        client.flush(clock.now());
        std::thread::sleep(FRAME);
    }
    assert!(
        said > heard + 1_000,
        "the queue was never full: {said} {heard}"
    );
}

/// Every way in which it can fail to begin is told apart.
#[test]
fn what_goes_wrong_at_the_start_has_a_name() {
    let place = Place::new("client-refused");
    let (_closed, gone) = closed_port();
    let serve = serve(&place, "yojimbo", anywhere(), gone);
    let server = serve.address();
    let (_socket, silent) = nobody();
    let second = Duration::from_secs(1);
    let refused = |dial| match block_on(Client::connect(dial)) {
        Err(ConnectError::Refused(ended)) => ended,
        Err(ConnectError::Socket(error)) => panic!("{error}"),
        Ok(_) => panic!("connected"),
    };
    let denied = refused(token(&place, &[server], PATIENCE));
    assert_eq!(denied, Ended::Session(CloseReason::Denied));
    let unanswered = refused(token(&place, &[silent], second));
    assert_eq!(unanswered, Ended::Session(CloseReason::ConnectTimeout));
    assert!(unanswered.to_string().contains("no server answered"));
    assert!(Dial::yojimbo(b"not a token").is_err());
}

/// A client that has something to say at once says it before it is let in, through 10 % loss both ways.
#[test]
fn first_words_do_not_wait() {
    let place = Place::new("client-early");
    let serve = serve(&place, "yojimbo", anywhere(), echo_server());
    let lossy = Lossy::start(serve.address(), bad_network(), 13);
    let mut early = 0;
    for _ in 0..10 {
        let dial = dial(&place, "yojimbo", lossy.address);
        block_on(async {
            let client = Client::dial(dial).unwrap();
            client.send(b"who I am").await.unwrap();
            early += u32::from(client.state() == State::Connecting);
            client.connected().await.unwrap();
            assert_eq!(client.recv().await.unwrap().payload, b"who I am");
            assert_eq!(client.close().await, Ended::Here { unconfirmed: 0 });
        });
    }
    assert!(
        early > 0,
        "the answer to the challenge takes 10 ms at least"
    );
    assert!(lossy.lost() > 10, "the network was too kind");
}

/// A token's servers are tried in order.
#[test]
fn a_server_that_is_silent_is_passed_over() {
    let place = Place::new("client-next");
    let serve = serve(&place, "yojimbo", anywhere(), echo_server());
    let server = serve.address();
    let (_socket, silent) = nobody();
    let dial = token(&place, &[silent, server], Duration::from_secs(2));
    block_on(async {
        let client = Client::connect(dial).await.unwrap();
        assert_eq!(client.server(), server);
        client.send(b"found you").await.unwrap();
        assert_eq!(client.recv().await.unwrap().payload, b"found you");
    });
}

/// A token may name a server that this machine has no way to, as an IPv6 one without IPv6: the system then refuses to
/// send. It is passed over like one that is silent.
#[test]
fn a_server_that_cannot_be_sent_to_is_passed_over() {
    let place = Place::new("client-no-way");
    let serve = serve(&place, "yojimbo", anywhere(), echo_server());
    let server = serve.address();
    // Nobody can send to port 0: EINVAL, wherever this runs.
    let no_way = SocketAddr::from(([127, 0, 0, 1], 0));
    let dial = || token(&place, &[no_way, server], Duration::from_secs(2));
    block_on(async {
        let client = Client::connect(dial()).await.unwrap();
        assert_eq!(client.server(), server);
    });
    let clock = Clock::start();
    let mut polled = Polled::connect(clock.now(), dial()).unwrap();
    wait_until("connected", PATIENCE, || {
        let state = polled.update(clock.now());
        assert!(!matches!(state, State::Closed(_)), "{state:?}");
        (state == State::Connected).then_some(())
    });
    assert_eq!(polled.server(), server);
}

/// A server that stops says goodbye, one that is killed falls silent; each time the player comes back
/// with a new token.
#[test]
fn a_player_comes_back_after_the_server_was_restarted() {
    let place = Place::new("client-restart");
    let echo = echo_server();
    let server = own_address();
    let mut first = serve(&place, "yojimbo", server, echo);
    first.address();
    let mut tokens = 0;
    let backoff = Backoff {
        first: Duration::from_millis(50),
        most: Duration::from_millis(200),
        attempts_max: 100,
    };
    let mut redial = Redial::new(backoff, async || {
        tokens += 1;
        Ok::<_, std::io::Error>(token(&place, &[server], Duration::from_secs(2)))
    });
    let hello = async |client: &Client| {
        client.send(b"here I am").await.unwrap();
        assert_eq!(client.recv().await.unwrap().payload, b"here I am");
    };
    block_on(async {
        let client = redial.connect().await.unwrap();
        hello(&client).await;
        first.signal("TERM");
        let ended = client.recv().await.unwrap_err();
        assert_eq!(ended, Ended::Session(CloseReason::PeerDisconnect));
        assert_eq!(first.exit_code(), Some(0));

        let mut second = serve(&place, "yojimbo", server, echo);
        second.address();
        let client = redial.connect().await.unwrap();
        hello(&client).await;
        second.signal("KILL");
        let ended = client.recv().await.unwrap_err();
        assert_eq!(ended, Ended::Session(CloseReason::PeerTimeout));
        second.exit_code();

        let third = serve(&place, "yojimbo", server, echo);
        third.address();
        let client = redial.connect().await.unwrap();
        hello(&client).await;
    });
    assert!(tokens >= 3, "a new token for each session");
}

const FRAME: Duration = Duration::from_millis(30);
