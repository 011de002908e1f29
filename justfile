# Format, lints, tests of all packages, docs.
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    cargo check --quiet --package tidegate-client
    cargo check --quiet --package tidegate-capi
    cargo test --workspace --quiet
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet

# What operators load, against the programs that load it: needs prometheus, systemd and chromium.
operate:
    tests/systemd.sh
    tests/prometheus.sh
    tests/page.sh

# Kubernetes manifests and the compose file; CRDS are files with custom resource definitions.
cluster *CRDS:
    python3 -m venv target/schemas && target/schemas/bin/pip install --quiet kubernetes-validate
    PYTHON=target/schemas/bin/python tests/cluster.sh {{CRDS}}

# Builds the container image without a daemon or a registry, and runs it: needs buildah.
image *PROGRAM:
    tests/image.sh {{PROGRAM}}

# Coverage-guided fuzzing of one target; needs a C++ compiler, and nothing nightly.
fuzz TARGET SECONDS="60":
    fuzz/deep.sh {{SECONDS}} {{TARGET}}

# The same for every target, so long each: the table of docs/RELIABILITY.md.
fuzz-deep SECONDS="60":
    fuzz/deep.sh {{SECONDS}}

# Every target for so long, on the stable compiler, with bounds on memory and time
# for each input; says how many executions each got.
fuzz-all SECONDS="60":
    TIDEGATE_FUZZ_SECONDS={{SECONDS}} cargo test --release -p tidegate -p tidegate-proto --test fuzz_smoke -- --nocapture --test-threads=2 | grep -a executions

# Faults and attacks on the built program in network namespaces, long forms; needs root. Some minutes.
chaos *NAMES:
    TIDEGATE_CHAOS_LONG=1 cargo test --release --test chaos -- {{NAMES}}

# Eighteen bad networks, so many seconds each, on one process: prints what was lost and what grew.
soak SECONDS="60":
    TIDEGATE_SOAK_SECONDS={{SECONDS}} TIDEGATE_CHAOS_LONG=1 cargo test --release --test chaos -- soak

# What the send policy is worth beside reference senders: the tables of docs/FIGURES.md (`--quick` for a look).
bench-policy *ARGS:
    cargo run --release -p tidegate-proto --features sim --example policy -- {{ARGS}}

# Many simulated worlds, so many of the usual kind and as many of odd options, a core each; says how fast they went. A seed
# that fails goes, with what it found, to proto/src/tests/kept_seeds.txt.
sim SEEDS="20000" FIRST="1":
    TIDEGATE_SEEDS={{SEEDS}} TIDEGATE_SEED={{FIRST}} nice cargo test --release -p tidegate-proto --lib every_world -- --nocapture

# Breaks the protocols' code in one place at a time and says which breaks no quick test notices; needs
# cargo-mutants (`cargo install cargo-mutants --locked`). FILES is a pattern, SHARD says which part of their
# breaks is tried, `0/16` the first sixteenth. A build and a run for each, so a minute or two.
mutants FILES="proto/src/yojimbo/netcode/*.rs" SHARD="0/16":
    TIDEGATE_SEEDS=12 nice cargo mutants --package tidegate-proto --file '{{FILES}}' --shard {{SHARD}} \
        --output target --minimum-test-timeout 60 -- --lib --test conformance --test netcode --test plain \
        -- --skip tests::bulk --skip tests::path_mtu --skip tests::stock --skip tests::thin --skip tests::demand

# What a relayed message costs, beside a relay that speaks no protocol.
bench-relay *ARGS:
    cargo bench --quiet --bench relay -- {{ARGS}}

# Delays at 30,000 messages a second: the relay on one core, players and backend on the other.
bench-latency *ARGS:
    cargo bench --quiet --bench relay -- --pin --peers 500 --rate 30 --runs 5 {{ARGS}}

# The same over peers, message sizes and rates.
bench-growth:
    cargo bench --quiet --bench relay -- --curve peers
    cargo bench --quiet --bench relay -- --curve size
    cargo bench --quiet --bench relay -- --curve rate

# System calls for a relayed message; needs strace.
bench-syscalls:
    benches/syscalls.sh

# What reads and writes of many streams take: a call each, or in batches over io_uring.
bench-streams *ARGS:
    cargo bench --quiet --bench streams -- {{ARGS}}

# The protocol alone: nanoseconds for 1000 packets, each way.
bench-packet:
    cargo bench --quiet --bench packet

# The protocol alone, in instructions; fails when they grew by more than a fifth. Needs valgrind.
bench-instructions *ARGS:
    benches/instructions.sh {{ARGS}}

# Peers that say nothing.
bench-idle *ARGS:
    cargo bench --quiet --bench idle -- {{ARGS}}

# What a join costs, and what those who play notice of it.
bench-joins *ARGS:
    cargo bench --quiet --bench joins -- {{ARGS}}

# One fast connection, over loopback and over a bad link.
bench-bulk *ARGS:
    cargo bench --quiet --bench bulk -- {{ARGS}}
    cargo bench --quiet --bench bulk -- --link --size 7000 {{ARGS}}
    cargo bench --quiet --bench bulk -- --link --size 60000 {{ARGS}}

# Ours beside QUIC and KCP: delay under loss, first words, processor time, one fast connection. Twenty minutes.
bench-neighbours *ARGS:
    cargo bench --quiet --bench neighbours -- {{ARGS}}

# Every table of docs/PERFORMANCE.md, in its order, for a quiet machine.
bench-all: bench-instructions bench-packet bench-relay bench-latency bench-growth bench-syscalls bench-streams bench-idle bench-joins bench-bulk bench-neighbours
