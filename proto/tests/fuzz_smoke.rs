//! The protocols' fuzz targets, for a moment, on the stable compiler: `cargo test --test fuzz_smoke`.

#![expect(
    unreachable_pub,
    reason = "the bodies are shared with fuzz/bins, where they are public"
)]

#[macro_use]
#[path = "../../fuzz/smoke.rs"]
mod smoke;

use tidegate_proto::Stats;

targets!(
    "../../fuzz/targets/",
    bit_reader,
    channel_receiver,
    connection_packet,
    gaffer_datagram,
    gaffer_session,
    long_fragment,
    netcode_challenge,
    netcode_client,
    netcode_packet,
    netcode_request,
    netcode_server,
    reliable_receiver,
    rudp_datagram,
    rudp_session,
    sequence_window,
    yojimbo_joining,
    yojimbo_session,
);

/// The most that any of these inputs makes a session count, of each of these.
fn most<const N: usize>(
    seeds: &[Vec<u8>],
    play: fn(&[u8]) -> Stats,
    of: fn(&Stats) -> [u64; N],
) -> [u64; N] {
    seeds.iter().fold([0; N], |most, seed| {
        let counted = of(&play(seed));
        std::array::from_fn(|index| most[index].max(counted[index]))
    })
}

/// Mutations begin with the seeds: what none of them reaches is hardly ever reached, and not a parser's but a session's
/// faults are there.
#[test]
fn seeds_of_sessions_go_deep() {
    let [received, duplicate, refused, fragments, failures, resent] =
        most(&yojimbo_session::seeds(), yojimbo_session::play, |stats| {
            [
                stats.messages_received,
                stats.messages_duplicate,
                stats.packets_refused,
                stats.fragments_received,
                stats.reassembly_failures,
                stats.messages_resent,
            ]
        });
    assert!(
        received > 70 && duplicate > 1 && refused > 0,
        "{received} {duplicate} {refused}"
    );
    assert!(
        fragments > 4 && failures > 0 && resent > 0,
        "{fragments} {failures} {resent}"
    );
    let [received, bytes, duplicate] =
        most(&gaffer_session::seeds(), gaffer_session::play, |stats| {
            let bytes = stats.message_bytes_received;
            [stats.messages_received, bytes, stats.messages_duplicate]
        });
    assert!(
        received > 1 && bytes > 2048 && duplicate > 0,
        "{received} {bytes} {duplicate}"
    );
    let [received, refused, acked, resent, skipped] =
        most(&rudp_session::seeds(), rudp_session::play, |stats| {
            [
                stats.messages_received,
                stats.packets_refused,
                stats.messages_acked,
                stats.messages_resent,
                stats.messages_skipped,
            ]
        });
    assert!(
        received > 70 && refused > 0 && acked > 0,
        "{received} {refused} {acked}"
    );
    assert!(resent > 1 && skipped > 1, "{resent} {skipped}");
}
