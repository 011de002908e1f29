# What the check run does: format, lints, tests of both crates, docs.
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    cargo test --workspace --quiet
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet

# What operators load, against the programs that load it: needs prometheus, systemd and chromium.
operate:
    tests/systemd.sh
    tests/prometheus.sh
    tests/page.sh

# Builds the container image without a daemon or a registry, and runs it: needs buildah.
image *PROGRAM:
    tests/image.sh {{PROGRAM}}

# Coverage-guided fuzzing of one target (works on the stable compiler).
fuzz TARGET SECONDS="60":
    cd fuzz && RUSTC_BOOTSTRAP=1 cargo fuzz run --fuzz-dir . {{TARGET}} -- -max_total_time={{SECONDS}}

# What the send policy is worth beside reference senders: the tables of docs/POLICY.md (`--quick` for a look).
bench-policy *ARGS:
    cargo run --release -p tidegate-proto --features sim --example policy -- {{ARGS}}

# Many simulated worlds, one core; says how fast they went. A seed that fails goes, with what it
# found, to proto/src/tests/kept_seeds.txt.
sim SEEDS="20000" FIRST="1":
    TIDEGATE_SEEDS={{SEEDS}} TIDEGATE_SEED={{FIRST}} nice cargo test --release -p tidegate-proto --lib every_world -- --nocapture
