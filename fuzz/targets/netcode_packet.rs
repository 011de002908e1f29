// An encrypted netcode packet: arbitrary bytes in front of the tag, and arbitrary contents behind it.

use tidegate_proto::yojimbo::netcode::Key;
use tidegate_proto::yojimbo::netcode::packet::{self, Beyond, Packet, Role};
use tidegate_proto::yojimbo::netcode::wire::{Kind, Prefix, Sizes};

/// Of packets, the second cipher's too.
const KINDS: [u8; 8] = [0, 1, 2, 3, 4, 5, 6, 15];

pub fn run(data: &[u8]) {
    let key = Key::new([7; 32]);
    let mut beyond = Beyond::new(Sizes::STANDARD, true);
    if let Ok(prefix) = Prefix::parse(data) {
        let shortest = Prefix::new(prefix.kind, prefix.sequence);
        assert!(shortest.size() <= prefix.size());
        let mut out = Vec::new();
        prefix.emit(&mut out);
        assert_eq!(
            out,
            data[..prefix.size()],
            "what is read is what stood there"
        );
    }
    for role in [Role::Server, Role::Client] {
        assert!(
            packet::open(role, &key, 1, &mut beyond, None, &mut data.to_vec()).is_err(),
            "not sealed by us"
        );
    }

    let Some((head, plain)) = data.split_first_chunk::<9>() else {
        return;
    };
    let Some(kind) = Kind::from_number(KINDS[usize::from(head[0]) % KINDS.len()]).filter(|kind| *kind != Kind::Request) else {
        return;
    };
    let sequence = u64::from_le_bytes([
        head[1], head[2], head[3], head[4], head[5], head[6], head[7], head[8],
    ]);
    let mut sealed = Vec::new();
    packet::emit(&mut sealed, &key, 1, kind, sequence, plain);
    let role = if Role::Server.takes(kind) {
        Role::Server
    } else {
        Role::Client
    };
    match packet::open(role, &key, 1, &mut beyond, None, &mut sealed) {
        Ok(Packet::Payload {
            sequence: number,
            bytes,
        }) => {
            assert_eq!((number, bytes), (sequence, plain));
        }
        Ok(Packet::KeepAlive {
            client_index,
            max_clients,
        }) => {
            assert_eq!(packet::keep_alive_bytes(client_index, max_clients), plain);
        }
        Ok(Packet::Challenge(proof) | Packet::Response(proof)) => {
            assert_eq!(packet::proof_bytes(proof.sequence, proof.token), plain);
        }
        Ok(Packet::Denied | Packet::Disconnect) => assert!(plain.is_empty()),
        Err(_) => {}
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let head = |kind: u8| vec![kind, 1, 0, 0, 0, 0, 0, 0, 0];
    let with = |kind: u8, length: usize| [head(kind), vec![0xab; length]].concat();
    vec![
        head(1),
        with(2, 308),
        with(3, 308),
        with(4, 8),
        with(5, 1200),
        with(7, 1200),
        head(6),
        [vec![0x15, 3], vec![0; 40]].concat(),
        [vec![0x1f, 3], vec![0; 40]].concat(),
        [vec![0x86, 1, 2, 3, 4, 5, 6, 7, 0x80], vec![0; 16]].concat(),
    ]
}
