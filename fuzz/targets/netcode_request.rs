// A connection request and the tokens in it: public, private, sealed and opened.

use tidegate_proto::yojimbo::netcode::wire::{Request, RequestHead, emit_request};
use tidegate_proto::yojimbo::netcode::{ConnectToken, Key, PrivateToken};

pub fn run(data: &[u8]) {
    let key = Key::new([7; 32]);
    let mut datagram = data.to_vec();
    let head = RequestHead::parse(data, 1);
    let request = Request::parse(&mut datagram, 1);
    let seen = request.as_ref().map(Request::head).map_err(|why| *why);
    assert_eq!(head, seen, "at first sight and at the second");
    if let Ok(request) = request {
        assert!(
            PrivateToken::open(request, 1, std::slice::from_ref(&key)).is_err(),
            "not sealed by us"
        );
    }
    if let Some(token) = PrivateToken::parse(data) {
        assert!((1..=32).contains(&token.servers.len()));
        let again = token.to_bytes();
        let used = 16 + addresses_size(&token.servers) + 64 + 256;
        assert_eq!(again[..used], data[..used], "one way to write each token");
        // The same bytes as a server gets them.
        let nonce = [3; 24];
        let sealed = token.seal(&key, &nonce, 1, 99);
        let mut datagram = Vec::new();
        emit_request(&mut datagram, 1, 99, &nonce, &sealed);
        let request = Request::parse(&mut datagram, 1).expect("well-formed");
        let (_, opened) = PrivateToken::open(request, 1, &[key]).expect("sealed by us");
        assert_eq!(opened.to_bytes(), again);
    }
    if let Ok(token) = ConnectToken::parse(data) {
        let used = 1093 + addresses_size(&token.servers) + 64;
        assert_eq!(token.to_bytes()[..used], data[..used]);
    }
}

fn addresses_size(addresses: &[std::net::SocketAddr]) -> usize {
    addresses
        .iter()
        .map(|a| if a.is_ipv4() { 7 } else { 19 })
        .sum()
}

pub fn seeds() -> Vec<Vec<u8>> {
    let version = b"NETCODE 1.02\0".as_slice();
    let mut addresses = vec![2, 0, 0, 0, 1, 127, 0, 0, 1, 64, 156, 2];
    addresses.extend([0; 18]);
    let request = [
        &[0][..],
        version,
        &1u64.to_le_bytes(),
        &9u64.to_le_bytes(),
        &[5; 1048],
    ]
    .concat();
    let mut private = [&[7; 8][..], &5u32.to_le_bytes(), &addresses, &[9; 320]].concat();
    private.resize(1008, 0);
    let mut public = [
        version,
        &1u64.to_le_bytes(),
        &4u64.to_le_bytes(),
        &9u64.to_le_bytes(),
        &[5; 1048],
        &5u32.to_le_bytes(),
        &addresses,
        &[9; 64],
    ]
    .concat();
    public.resize(2048, 0);
    vec![request, private, public]
}
