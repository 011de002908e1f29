// Challenge tokens: only what was sealed opens, and only under its own sequence.

use tidegate_proto::yojimbo::netcode::{Key, UserData, challenge};

pub fn run(data: &[u8]) {
    let key = Key::new([7; 32]);
    let mut raw = [0; 300];
    for (byte, from) in raw.iter_mut().zip(data) {
        *byte = *from;
    }
    assert!(
        challenge::open(&key, 1, &mut raw).is_err(),
        "not sealed by us"
    );

    // The rest of the input changes a genuine token: position and mask, in turn.
    let Some((id, changes)) = data.split_first_chunk::<8>() else {
        return;
    };
    let client_id = u64::from_le_bytes(*id);
    let sealed = challenge::seal(&key, 1, client_id, &UserData::new([id[0]; 256]));
    let mut token = sealed;
    for change in changes.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % token.len();
        token[at] ^= change[2];
    }
    let is_changed = token != sealed;
    match challenge::open(&key, 1, &mut token) {
        Ok(plain) => {
            assert!(!is_changed);
            assert_eq!(plain[..8], client_id.to_le_bytes());
            assert_eq!(plain[8..264], [id[0]; 256]);
            assert_eq!(plain[264..], [0; 20]);
        }
        Err(_) => assert!(is_changed),
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    vec![
        vec![1; 300],
        vec![0; 8],
        vec![5, 0, 0, 0, 0, 0, 0, 0, 44, 1, 1, 44, 1, 1],
    ]
}
