//! The protocols' fuzz targets, for a moment, on the stable compiler: `cargo test --test fuzz_smoke`.

#![expect(
    unreachable_pub,
    reason = "the bodies are shared with fuzz/bins, where they are public"
)]

#[macro_use]
#[path = "../../fuzz/smoke.rs"]
mod smoke;

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
