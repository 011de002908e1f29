// A connecting client under any sequence of operations, its server's key known. Three bytes an
// operation: what, from where, how.

use std::net::SocketAddr;
use std::time::Duration;

use tidegate_proto::time::Now;
use tidegate_proto::yojimbo::netcode::packet;
use tidegate_proto::yojimbo::netcode::wire::Kind;
use tidegate_proto::yojimbo::netcode::{
    Client, ClientState, ConnectToken, Key, Mint, PrivateToken, UserData,
};

pub fn run(data: &[u8]) {
    // A token outlives its server's timeout, or the other way round.
    let token = token(if data.len().is_multiple_of(2) { 12 } else { 2 });
    let servers = token.servers.clone();
    let mut now = Now::default();
    let mut client = Client::new(now, token);
    let mut sequence = 0;
    for operation in data.chunks_exact(3).take(300) {
        let (from, how) = (
            servers[usize::from(operation[1]) % servers.len()],
            operation[2],
        );
        match operation[0] % 8 {
            0 => turn(&mut client, now),
            1 => {
                now = now.after(Duration::from_millis(u64::from(how) * 20));
                turn(&mut client, now);
            }
            2 => wait(&mut client, &mut now),
            3 => {
                let mut raw = vec![how; usize::from(operation[1]) * 6];
                client.handle_datagram(now, from, &mut raw).ok();
            }
            kind => {
                let kind = [
                    Kind::Denied,
                    Kind::Challenge,
                    Kind::KeepAlive,
                    Kind::Payload,
                ][usize::from(kind) - 4];
                let size = match kind {
                    Kind::Challenge => 308,
                    Kind::KeepAlive => 8,
                    Kind::Denied => usize::from(how == 1),
                    _ => usize::from(how),
                };
                let mut datagram = Vec::new();
                let key = Key::new([2; 32]);
                packet::emit(&mut datagram, &key, 1, kind, sequence, &vec![how; size]);
                sequence += u64::from(how & 3);
                client.handle_datagram(now, from, &mut datagram).ok();
            }
        }
        check(&client, &servers);
    }
    assert_eq!(
        client.state() == ClientState::Connected,
        client.into_link().is_some()
    );
}

/// One wake-up: at most one datagram each 100 ms, and none of an odd size.
fn turn(client: &mut Client, now: Now) {
    client.handle_timeout(now);
    let mut out = Vec::new();
    if client.poll_transmit(now, &mut out) {
        assert!(
            out.len() == 1078 || (326..=333).contains(&out.len()),
            "{} bytes",
            out.len()
        );
        assert!(!client.poll_transmit(now, &mut out), "one at a time");
    }
}

/// Sleeps as long as the client asks for. It must then have moved on, or its owner would spin.
fn wait(client: &mut Client, now: &mut Now) {
    let Some(deadline) = client.poll_timeout() else {
        return;
    };
    *now = now.after(deadline.at.since(now.mono));
    turn(client, *now);
    let next = client.poll_timeout();
    assert!(next.is_none_or(|next| next.at > now.mono));
}

fn check(client: &Client, servers: &[SocketAddr]) {
    assert!(servers.contains(&client.server()));
    assert_eq!(
        client.poll_timeout().is_some(),
        client.state().is_connecting()
    );
}

pub fn seeds() -> Vec<Vec<u8>> {
    vec![
        vec![0, 0, 0, 5, 0, 9, 2, 0, 0, 6, 0, 1, 7, 0, 40],
        vec![
            0, 0, 0, 4, 0, 0, 2, 0, 0, 4, 1, 0, 2, 0, 0, 4, 2, 0, 2, 0, 0,
        ],
        vec![
            2, 0, 0, 1, 0, 255, 2, 0, 0, 1, 0, 255, 2, 0, 0, 5, 2, 7, 1, 0, 255,
        ],
        vec![3, 200, 0x15, 3, 50, 0x12, 3, 180, 0],
    ]
}

fn token(life: u64) -> ConnectToken {
    let private = PrivateToken {
        client_id: 1,
        timeout_seconds: 3,
        servers: (1..4).map(|n| ([127, 0, 0, n], 40000).into()).collect(),
        client_to_server: Key::new([1; 32]),
        server_to_client: Key::new([2; 32]),
        user_data: UserData::empty(),
    };
    let mint = Mint::new(1, 100..=100 + life, [1; 24], private);
    ConnectToken::mint(mint, &Key::new([7; 32])).expect("mintable")
}
