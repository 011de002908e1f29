//! Servers gone bad: a player with a genuine token dials one, and it does what no honest server does.

use std::time::Duration;

use super::liars::{Liar, Lie};
use crate::inbox::MESSAGE_OVERHEAD;
use crate::session::{CloseReason, Event, Held, Session};
use crate::time::Now;
use crate::yojimbo::netcode::wire::Kind;
use crate::yojimbo::netcode::{
    ConnectToken, DISCONNECT_REPEATS, Key, Mint, PrivateToken, UserData, packet,
};
use crate::yojimbo::{Connector, Params};

const PROTOCOL_ID: u64 = 1;
const TIMEOUT: Duration = Duration::from_secs(5);

/// A player whose server is ours.
struct Player {
    connector: Connector,
    now: Now,
    /// Of the server's packets.
    sequence: u64,
    connected: bool,
    closed: Option<CloseReason>,
    /// The most it held at once, and the most datagrams that it sent at once.
    held: Held,
    burst: usize,
    sent: usize,
}

impl Player {
    fn dial() -> Self {
        let private = PrivateToken {
            client_id: 1,
            timeout_seconds: TIMEOUT.as_secs() as i32,
            servers: vec![([10, 0, 0, 7], 40_000).into()],
            client_to_server: Key::new([1; 32]),
            server_to_client: Key::new([2; 32]),
            user_data: UserData::empty(),
        };
        let mint = Mint::new(PROTOCOL_ID, 100..=130, [1; 24], private);
        let token = ConnectToken::mint(mint, &Key::new([7; 32])).expect("mintable");
        let now = Now::default();
        let mut player = Self {
            connector: Connector::new(now, Params::default().into(), token, 1),
            now,
            sequence: 0,
            connected: false,
            closed: None,
            held: Held::default(),
            burst: 0,
            sent: 0,
        };
        player.look();
        player
    }

    fn seated() -> Self {
        let mut player = Self::dial();
        player.hears(Kind::Challenge, &[0; 308]);
        player.hears(Kind::KeepAlive, &packet::keep_alive_bytes(u32::MAX, 0));
        assert!(player.connected, "whatever its seat is called");
        player
    }

    /// The server says this.
    fn hears(&mut self, kind: Kind, plain: &[u8]) {
        let mut datagram = Vec::new();
        let key = Key::new([2; 32]);
        packet::emit(&mut datagram, &key, PROTOCOL_ID, kind, self.sequence, plain);
        self.sequence = self.sequence.wrapping_add(1);
        self.connector.handle_datagram(self.now, &mut datagram).ok();
        self.look();
    }

    fn waits(&mut self, span: Duration) {
        self.now = self.now.after(span);
        self.connector.handle_timeout(self.now);
        self.look();
        let due = self.connector.poll_timeout();
        assert!(
            due.is_none_or(|due| due.at > self.now.mono),
            "it would spin"
        );
    }

    fn look(&mut self) {
        let (mut out, mut burst) = (Vec::new(), 0);
        while self.connector.poll_transmit(self.now, &mut out) {
            out.clear();
            burst += 1;
        }
        self.sent += burst;
        self.burst = self.burst.max(burst);
        while let Some(event) = self.connector.poll_event() {
            match event {
                Event::Authenticated => {}
                Event::Connected => self.connected = true,
                Event::Closed(reason) => {
                    assert_eq!(self.closed.replace(reason), None, "it ends once");
                }
            }
        }
        let Held {
            inbox,
            ahead,
            pieces,
            outbox,
        } = self.connector.held();
        let most = &mut self.held;
        most.inbox = most.inbox.max(inbox);
        most.ahead = most.ahead.max(ahead);
        most.pieces = most.pieces.max(pieces);
        most.outbox = most.outbox.max(outbox);
    }
}

/// Each lie five hundred times a second, to a player who says something and reads nothing.
#[test]
fn a_lying_server_is_bounded_and_found_out() {
    for lie in Lie::ALL {
        let mut player = Player::seated();
        player
            .connector
            .send(player.now, 0, &[7; 100])
            .expect("room");
        let mut liar = Liar::prompter(lie, 5);
        let (mut payload, mut told) = (Vec::new(), 0);
        while player.closed.is_none() {
            player.waits(Duration::from_millis(2));
            payload.clear();
            liar.payload(&mut payload);
            player.hears(Kind::Payload, &payload);
            told += 1;
            assert!(told < 60_000, "{lie:?}: two minutes, and no end");
        }
        let expected = match lie {
            Lie::WindowEdge | Lie::FalseAcks | Lie::BlockCounts | Lie::Noise => {
                CloseReason::ProtocolViolation
            }
            // They acknowledge nothing. Gaps and blocks alone would last longer.
            Lie::FirstFragments
            | Lie::LastFragments
            | Lie::WithheldMessage
            | Lie::EmptyMessages
            | Lie::EndlessBlock
            | Lie::NoAcks => CloseReason::PeerStalled,
        };
        assert_eq!(player.closed, Some(expected), "{lie:?}");
        let held = player.held;
        let within = held.inbox < 512 * 1024 && held.ahead < 3 << 20 && held.pieces < 1 << 20;
        assert!(
            within && held.outbox == 100 + MESSAGE_OVERHEAD,
            "{lie:?}: {held:?}"
        );
        assert!(
            player.sent <= told + 30,
            "{lie:?}: {} for {told}",
            player.sent
        );
        assert!(
            player.burst <= DISCONNECT_REPEATS,
            "{lie:?}: {}",
            player.burst
        );
    }
}

/// How it ends when the server says nothing more. Nobody is asked more than ten times a second.
fn left_alone(mut player: Player) -> CloseReason {
    let before = player.sent;
    for _ in 0..100 {
        player.waits(Duration::from_millis(100));
    }
    assert!(player.sent - before <= 10 * TIMEOUT.as_secs() as usize);
    player.closed.expect("ten seconds are enough")
}

/// Denials, goodbyes, what means nothing, and floods of challenges, at any point of the way in.
#[test]
fn a_server_that_turns_its_client_away_at_any_point_is_left() {
    let stages: [fn() -> Player; 3] = [
        Player::dial,
        || {
            let mut player = Player::dial();
            player.hears(Kind::Challenge, &[0; 308]);
            player
        },
        Player::seated,
    ];
    let ends = stages.map(|at| {
        let said = [
            Kind::Denied,
            Kind::Disconnect,
            Kind::KeepAlive,
            Kind::Challenge,
        ];
        said.map(|kind| {
            let mut player = at();
            let (length, times) = match kind {
                Kind::Challenge => (308, 1_000),
                _ => (0, 1),
            };
            let before = player.sent;
            for _ in 0..times {
                player.hears(kind, &vec![0; length]);
            }
            assert!(player.sent <= before + 1, "{kind:?}: one answer at most");
            left_alone(player)
        })
    });
    let [denied, timed_out] = [CloseReason::Denied, CloseReason::ConnectTimeout];
    let [left, silent] = [CloseReason::PeerDisconnect, CloseReason::PeerTimeout];
    let joining = [denied, timed_out, timed_out, timed_out];
    assert_eq!(ends, [joining, joining, [silent, left, silent, silent]]);
}

/// Numbers that jump to the end of what there is, and back.
#[test]
fn numbers_that_jump_starve_nobody_but_their_server() {
    let mut player = Player::seated();
    for sequence in [1 << 63, u64::MAX, 2, 1 << 40, u64::MAX - 1] {
        player.sequence = sequence;
        player.hears(Kind::KeepAlive, &packet::keep_alive_bytes(0, 64));
    }
    player.sequence = 3;
    for _ in 0..100 {
        player.waits(Duration::from_millis(100));
        player.hears(Kind::KeepAlive, &packet::keep_alive_bytes(0, 64));
    }
    assert_eq!(player.closed, Some(CloseReason::PeerTimeout));
}
